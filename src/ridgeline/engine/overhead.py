"""Memory that only a start can tell (activations, non-torch, graph estimate), as an interval from earlier starts.

Starts count as alike when model, GPU, topology and engine build agree, and backends where both are known. At the same
token budget the interval spans what was seen. At a smaller one the memory is at most that, at a larger one at least
that: the profiling run grows with the budget. Where no alike start bounds a side, that side is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ridgeline.engine.builds import build_of
from ridgeline.spec.facts.observations import Observation


class Key(NamedTuple):
    """What a start is known by."""

    image: str
    model: str
    gpu: str
    topology: str
    batched_tokens: int
    backends: str = ""
    drafts: int = 0


class Overhead(NamedTuple):
    """GiB, from `low` to `high`; None is open. `seen`: the starts it rests on."""

    low: float
    high: float | None
    seen: tuple[Observation, ...]

    @property
    def text(self) -> str:
        """`10.76 GiB`, `1.10 to 1.33 GiB`, `at most 10.76 GiB`, `not observed`."""
        if not self.seen:
            return "not observed"
        if self.high is None:
            return f"at least {self.low:.2f} GiB"
        if self.low == 0:
            return f"at most {self.high:.2f} GiB"
        return (
            f"{self.low:.2f} GiB"
            if round(self.low, 2) == round(self.high, 2)
            else f"{self.low:.2f} to {self.high:.2f} GiB"
        )


def alike(observation: Observation, key: Key) -> bool:
    """Whether a start tells something about `key`, budget apart."""
    same = (
        _name(observation.model) == _name(key.model)
        and observation.gpu.lower() == key.gpu.lower()
        and observation.topology == key.topology
        and observation.drafts == key.drafts
    )
    backends = not (observation.backends and key.backends) or observation.backends == key.backends
    return same and backends and same_build(observation.image, key.image)


def same_build(one: str, other: str) -> bool:
    """Equal references, or the same released version of the same engine (a digest or nightly is only itself)."""
    if one == other:
        return True
    left, right = build_of(one), build_of(other)
    return not (left.assumed or right.assumed) and (left.kind, left.version) == (right.kind, right.version)


def overhead(observations: Sequence[Observation], key: Key) -> Overhead:
    """The interval for one launch."""
    found = [(item, gib) for item in observations if (gib := item.overhead_gib) is not None and alike(item, key)]
    same = [gib for item, gib in found if item.batched_tokens == key.batched_tokens]
    above = [gib for item, gib in found if item.batched_tokens >= key.batched_tokens]
    below = [gib for item, gib in found if item.batched_tokens <= key.batched_tokens]
    if same:
        return Overhead(min(same), max(same), tuple(i for i, _ in found if i.batched_tokens == key.batched_tokens))
    low, high = max(below, default=0.0), min(above, default=None) if above else None
    return Overhead(min(low, high) if high is not None else low, high, tuple(item for item, _ in found))


def extra_weights(observations: Sequence[Observation], key: Key, computed_gib: float) -> float:
    """GiB by which weights were seen to exceed the formula in alike starts (0 when nothing was seen)."""
    seen = [i.weights_gib for i in observations if i.weights_gib is not None and alike(i, key)]
    return max(0.0, max(seen) - computed_gib) if seen else 0.0


def _name(model: str) -> str:
    return model.rsplit("/", 1)[-1].lower()
