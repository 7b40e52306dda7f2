"""Which points of two sides measured the same thing.

In: two lists of points (with repeats). Out: pairs, and what only one side has. Points pair up by line, concurrency and
source; what is left pairs by what was measured (model, precision, engine, hardware, workload, topology, speculation,
concurrency) where that is unambiguous. Image, versions, node and settings take no part: they are what changed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ridgeline.core.cell import canonical
from ridgeline.core.point import Point, Source, Validity

_FACTS = (
    "model_prefix", "precision", "framework", "hardware", "scenario", "isl", "osl", "topology", "spec_decoding",
    "kv_offloading", "disagg",
)  # fmt: skip


class Pair(NamedTuple):
    """All repeats of one cell on both sides. `lost`: why side B has no valid point although it tried."""

    name: str
    line: str
    concurrency: int
    source: Source
    a: tuple[Point, ...]
    b: tuple[Point, ...]
    lost: str | None = None


class Alone(NamedTuple):
    """A cell of one side only."""

    side: str
    name: str
    reason: str


class Matched(NamedTuple):
    pairs: tuple[Pair, ...]
    alone: tuple[Alone, ...]


def match(
    a: Sequence[Point], b: Sequence[Point], failed_b: Iterable[tuple[str, int, str]] = (), *, mix_sources: bool = False
) -> Matched:
    """Pairs by line and concurrency. `failed_b`: (line, concurrency, reason) of cells that gave no point on side B.
    `mix_sources`: pair a prediction with its measurement, labelled as such."""
    alone: list[Alone] = []
    left, right = _grouped(a, mix_sources), _grouped(b, mix_sources)
    failures = {(line, concurrency): reason for line, concurrency, reason in failed_b}
    pairs = {}
    for key in [key for key in left if key in right]:
        pairs[key] = (left.pop(key), right.pop(key))
    for what in _unambiguous(left, right):
        pairs[what[0]] = (left.pop(what[0]), right.pop(what[1]))
    found = []
    for ours, theirs in pairs.values():
        before, after = _valid(ours), _valid(theirs)
        name = ours[0].name if ours[0].line == theirs[0].line else f"{ours[0].name} | {theirs[0].name}"
        place = (name, ours[0].line, ours[0].concurrency, ours[0].source)
        if before and after:
            found.append(Pair(*place, before, after))
        elif before:
            found.append(Pair(*place, before, (), "; ".join(theirs[0].reasons) or str(theirs[0].validity)))
        else:
            alone.append(Alone("B" if after else "neither", name, "; ".join(ours[0].reasons) or "invalid on side A"))
    for points in left.values():
        point = points[0]
        reason = failures.get((point.line, point.concurrency))
        good = _valid(points)
        if reason and good:
            found.append(Pair(point.name, point.line, point.concurrency, point.source, good, (), f"failed: {reason}"))
        else:
            alone.append(Alone("A", point.name, "side B did not measure it"))
    alone += [Alone("B", points[0].name, "side A did not measure it") for points in right.values()]
    order = sorted(found, key=lambda pair: (pair.line, pair.concurrency, pair.source))
    return Matched(tuple(order), tuple(sorted(alone, key=lambda item: (item.side, item.name))))


_Key = tuple[str, int, str]


def _grouped(points: Sequence[Point], mix: bool) -> dict[_Key, tuple[Point, ...]]:
    found: dict[_Key, list[Point]] = defaultdict(list)
    for point in points:
        found[point.line, point.concurrency, "" if mix else str(point.source)].append(point)
    return {key: tuple(group) for key, group in sorted(found.items())}


def _valid(points: Sequence[Point]) -> tuple[Point, ...]:
    return tuple(point for point in points if point.validity in (Validity.VALID, Validity.UNPROVEN))


def _unambiguous(left: dict[_Key, tuple[Point, ...]], right: dict[_Key, tuple[Point, ...]]) -> list[tuple[_Key, _Key]]:
    """Keys whose facts agree and are alone on their side."""
    sides: list[dict[str, list[_Key]]] = []
    for groups in (left, right):
        by: dict[str, list[_Key]] = defaultdict(list)
        for key, points in groups.items():
            by[_what(points[0], key)].append(key)
        sides.append(by)
    return [
        (keys[0], sides[1][what][0])
        for what, keys in sides[0].items()
        if len(keys) == 1 and len(sides[1].get(what, ())) == 1
    ]


def _what(point: Point, key: _Key) -> str:
    told: dict[str, Any] = {name: point.facts.get(name) for name in _FACTS}
    pools = point.facts.get("pools") or ()
    told["pools"] = [{k: v for k, v in dict(pool).items() if k not in ("settings", "hardware")} for pool in pools]
    if not any(told.values()):
        return json.dumps([key])
    return json.dumps([canonical(told), point.concurrency, key[2]], sort_keys=True, default=str)
