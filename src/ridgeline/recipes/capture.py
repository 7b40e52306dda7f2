"""Graph capture that covers a number of sequences, whatever the engine's default ladder would do.

The ladder's rungs are 1, 2, 4, multiples of 8 below 256, multiples of 16 above (every vLLM from 0.19.1 on). Speculation
verifies q tokens a sequence and rounds rungs up to multiples of q; rungs that then exceed the maximum are dropped, and
a batch that pads to more than the admitted sequences' tokens has no decode graph. So the ladder serves where q divides
its rungs and the largest batch is one; else the sizes are listed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.core.where import Where
from ridgeline.recipes.origin import Option, Value

DEFAULT_TOP = 512
DENSE = 32  # sequence counts up to here get a graph each in a list; above, every eighth does


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """vLLM's capture knobs: one of them, never both."""

    max_cudagraph_capture_size: Option[int] = None
    cudagraph_capture_sizes: Option[tuple[int, ...]] = None


def covering(seqs: int, query: int, budget: int, origin: Where | None = None) -> Capture:
    """Knobs that give every batch of 1 to `seqs` decoding sequences a graph, as far as the step's token `budget` goes.
    `query`: tokens a sequence verifies. Where the engine's default maximum (twice that, 512 at most) is higher, it is
    kept: batches that mix in a prefill use it."""
    most = min(seqs * query, budget // query * query)
    if 8 % query == 0 and _rung(most) == most:
        top = _rung(max(most, min(2 * most, DEFAULT_TOP)))
        return Capture(max_cudagraph_capture_size=Value(top if top <= budget else most, origin))
    return Capture(cudagraph_capture_sizes=Value(listed(most // query, query), origin))


def listed(seqs: int, query: int) -> tuple[int, ...]:
    """Multiples of `query`: each up to DENSE sequences, then every eighth, and the last."""
    counts = [*range(1, min(seqs, DENSE) + 1), *range(DENSE + 8, seqs, 8), seqs]
    return tuple(sorted({count * query for count in counts}))


def _rung(tokens: int) -> int:
    """The smallest rung of the ladder that is at least `tokens`."""
    for rung in (1, 2, 4):
        if tokens <= rung:
            return rung
    step = 8 if tokens <= 256 else 16
    return -(-tokens // step) * step
