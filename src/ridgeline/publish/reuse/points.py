"""Stored points that stand for planned cells: equal run keys, and nothing found that changed since.

In: planned cells with their run keys, stored points with what was found when they were made, and what is so now. Out:
an answer for each cell, with the reason where it must run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ridgeline.core.point import Point, Validity


class Wanted(NamedTuple):
    """A planned cell: its name and the key its point would be stored under."""

    name: str
    run_key: str


class Stored(NamedTuple):
    """A point, the run that holds it, and what was found after its start (`image_digest`, `node`, ...)."""

    point: Point
    run: str
    found: Mapping[str, Any] = {}


class Answer(NamedTuple):
    """`point` None: the cell must run, and `why` says so."""

    name: str
    run_key: str
    point: Point | None
    run: str | None
    why: str

    def as_json(self) -> dict[str, Any]:
        id = self.point.id if self.point else None
        return {"cell": self.name, "run_key": self.run_key, "point": id, "run": self.run, "why": self.why}


def answers(wanted: Iterable[Wanted], stored: Iterable[Stored], now: Mapping[str, str]) -> tuple[Answer, ...]:
    """What stands for each cell: the newest fit point of its run key. `now`: facts that must still be what they were; a
    point that does not know one of them is not fit, since unknown is not unchanged."""
    by_key: dict[str, list[Stored]] = {}
    for one in stored:
        by_key.setdefault(one.point.run_key, []).append(one)
    return tuple(_answer(cell, by_key.get(cell.run_key, ()), now) for cell in wanted)


def _answer(cell: Wanted, stored: Sequence[Stored], now: Mapping[str, str]) -> Answer:
    if not stored:
        return Answer(cell.name, cell.run_key, None, None, "nothing stored under its run key")
    why = ""
    newest = sorted(stored, key=lambda one: (one.point.measured_at or "", one.point.attempt), reverse=True)
    for one in newest:
        fault = _fault(one, now)
        if fault is None:
            when = f" measured {one.point.measured_at}" if one.point.measured_at else ""
            return Answer(cell.name, cell.run_key, one.point, one.run, f"same run key{when}")
        why = why or fault
    return Answer(cell.name, cell.run_key, None, None, why)


def _fault(one: Stored, now: Mapping[str, str]) -> str | None:
    if one.point.validity is not Validity.VALID:
        reason = f": {one.point.reasons[0]}" if one.point.reasons else ""
        return f"its point is {one.point.validity}{reason}"
    for name, value in now.items():
        before = one.found.get(name)
        if before is None:
            return f"`{name}` of its point is not known"
        if str(before) != value:
            return f"`{name}` changed: {before} then, {value} now"
    return None
