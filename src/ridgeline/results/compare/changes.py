"""What differs between two sides beside the numbers, ranked by how often such a thing is the reason.

In: pairs with provenance. Out: changes, one a name and pair of values, with how many points they touch. The order of
kinds: image digest, engine, packages, driver, node, model revision, trace, recipe, settings, the rest.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ridgeline.core.point import Point
from ridgeline.results.compare.estimate import node_of
from ridgeline.results.compare.match import Pair

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("image digest", re.compile(r"image[_.]?digest")),
    ("image", re.compile(r"(^|\.)image$")),
    ("engine", re.compile(r"engine|commit|vllm|sglang|trtllm|tensorrt")),
    ("packages", re.compile(r"package|(^|\.)pip|torch|flashinfer|nccl|triton")),
    ("driver", re.compile(r"driver|cuda|rocm|firmware|clocks|kernel")),
    ("node", re.compile(r"(^|\.)(node|nodes|host|hostname)(\.|$)")),
    ("model revision", re.compile(r"model[_.]?revision|(^|\.)model$")),
    ("trace", re.compile(r"trace|dataset")),
    ("recipe", re.compile(r"recipe|deployment|argv|(^|\.)env\.|topology|pools|(^|\.)cell$|tuning")),
    ("settings", re.compile(r"setting|speed|prompt_mode|slo")),
)
_RECIPE = re.compile(r"(^|\.)(argv|env)\.")
KINDS = (*(kind for kind, _ in _KINDS), "other")
_NOISE = re.compile(r"(^|\.)(ready_s|phases|containment|content|repeat|started|finished|pid|ports?)(\.|$)")
_FACTS = (
    "image",
    "model",
    "recipe_fingerprint",
    "speed",
    "prompt_mode",
    "slo",
    "dataset",
    "cpu_dram_gb",
    "price_sheet",
)


class Change(NamedTuple):
    """`points`: how many pairs it touches, of `of`. Values are as found; None: not told on that side."""

    kind: str
    name: str
    before: Any
    after: Any
    points: int
    of: int


def changes(pairs: Sequence[Pair], about: Mapping[str, Mapping[str, Any]]) -> tuple[Change, ...]:
    """Changes by kind, then by how many points they touch. `about`: point id -> flat provenance."""
    counted: dict[tuple[str, str, str, str], int] = defaultdict(int)
    values: dict[tuple[str, str, str, str], tuple[Any, Any]] = {}
    both = [pair for pair in pairs if pair.a and pair.b]
    for pair in both:
        left, right = (_told(side, about) for side in (pair.a, pair.b))
        for name in sorted(left.keys() | right.keys()):
            before, after = left.get(name), right.get(name)
            if before == after or ((before is None or after is None) and not _worth(name)):
                continue
            key = (kind_of(name), name, repr(before), repr(after))
            counted[key] += 1
            values[key] = (before, after)
    found = [
        Change(kind, name, *_shown(name, *values[kind, name, before, after]), count, len(both))
        for (kind, name, before, after), count in counted.items()
    ]
    return tuple(sorted(found, key=lambda change: (KINDS.index(change.kind), -change.points, change.name)))


def kind_of(name: str) -> str:
    """Which kind of thing a name of the provenance is."""
    if _RECIPE.search(name.lower()):  # a command line names the engine and its packages too
        return "recipe"
    return next((kind for kind, pattern in _KINDS if pattern.search(name.lower())), "other")


def _worth(name: str) -> bool:
    """A value that only one side tells is worth a line where it could be the reason."""
    return kind_of(name) not in ("other", "settings")


def _told(points: Sequence[Point], about: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for point in points:
        told = dict(about.get(point.id, {}))
        told |= {name: point.facts[name] for name in _FACTS if point.facts.get(name) not in (None, "")}
        told.pop("run", None)
        for name in [name for name in told if kind_of(name) == "node"]:
            del told[name]
        node = node_of(point, about)
        if node:
            told["node"] = node
        for name, value in told.items():
            if not _NOISE.search(name):
                found.setdefault(name, set()).add(_hashable(value))
    return {name: next(iter(told)) if len(told) == 1 else tuple(sorted(map(str, told))) for name, told in found.items()}


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    return str(value) if isinstance(value, Mapping) else value


def _shown(name: str, before: Any, after: Any) -> tuple[Any, Any]:
    """Of two command lines only the words that differ."""
    if ".argv." not in f".{name}." or not isinstance(before, str) or not isinstance(after, str):
        return before, after
    left, right = _options(before), _options(after)
    return (
        " ".join(option for option in left if option not in right) or "(as in B)",
        " ".join(option for option in right if option not in left) or "(as in A)",
    )


def _options(line: str) -> list[str]:
    """Options with their values as one word each: `--max-num-seqs 64`."""
    found: list[str] = []
    for word in line.split():
        if found and not word.startswith("-") and found[-1].startswith("-") and " " not in found[-1]:
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found
