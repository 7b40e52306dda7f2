"""The comparison page: what `results.compare` says of two runs, and the frontiers of both in one picture.

In: two runs of a library. Out: plain data for the template, the drawing and the interface. Verdicts, intervals and the
order of changes are the comparison's own; membership is the frontier function's, side by side, never mixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ridgeline.core.point import Source
from ridgeline.publish.charts import axes, slots
from ridgeline.publish.charts.data import subject_of
from ridgeline.publish.web.data import Holding, Library, Run
from ridgeline.publish.web.memory import by_subject
from ridgeline.results.compare import MEASURES, Compared, Comparison, Difference, Side, compare
from ridgeline.results.frontier import frontier
from ridgeline.results.runfolder import Failure

GLYPHS = {"better": "▲", "worse": "▼", "same": "=", "unclear": "?"}
Picked = tuple[Holding, Run]


def pick(
    library: Library, a: str | None, b: str | None, channel: str
) -> tuple[Picked | None, Picked | None, list[str]]:
    """The two runs: those named, else the newest run and the newest older one that shares a cell with it."""
    notices = []
    chosen: list[Picked | None] = []
    for name, id in (("a", a), ("b", b)):
        found = library.find_run(id) if id else None
        if id and found is None:
            notices.append(f"“{name}” names no run that is here: “{id}”")
        chosen.append(found)
    old, new = chosen
    holding = library.holding(channel)  # type: ignore[arg-type]
    runs = [run for run in holding.runs if run.n]
    if new is None and runs:
        new = (holding, next((run for run in runs if old is None or run.id != old[1].id), runs[0]))
    if old is None and new is not None:
        mine = new[0].cells(new[1].id)
        others = [run for run in runs if run.id != new[1].id][:50]
        shared = next((run for run in others if mine & holding.cells(run.id)), None)
        old = (holding, shared or others[0]) if others else None
    return old, new, notices


def side(picked: Picked) -> Side:
    """A run as one side of a comparison, with what is known of it."""
    holding, run = picked
    points = holding.points(run.id)
    failed = tuple(
        (failure.line, failure.concurrency, f"{failure.layer}: {failure.message}")
        for failure in holding.failures(run.id)
        if isinstance(failure, Failure)
    )
    return Side(run.name, points, {point.id: flat(point.provenance, run.id) for point in points}, failed)


def flat(provenance: Mapping[str, Any], run: str) -> dict[str, Any]:
    """Nested facts under dotted names."""
    found: dict[str, Any] = {"run": run}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for name, item in value.items():
                walk(f"{prefix}{name}.", item)
        else:
            found[prefix.rstrip(".")] = value

    walk("", provenance)
    return found


def compared(a: Picked, b: Picked) -> Comparison:
    """The comparison of two runs: of the points of the most trusted source that both hold. Sides of different sources
    are compared as such, and the answer names both."""
    left, right = side(a), side(b)
    common = {point.source for point in left.points} & {point.source for point in right.points}
    if not common:
        return compare(left, right, mix_sources=True)
    best = min(common, key=list(Source).index)
    return compare(_only(left, best), _only(right, best))


def _only(side: Side, source: Source) -> Side:
    return replace(side, points=tuple(point for point in side.points if point.source is source))


def view(found: Comparison, measure: str, verdict: str | None) -> dict[str, Any]:
    """What the template shows: tally, rows of one measure by line, changes, what to run again, what has no partner."""
    counts = {name: sum(str(item.verdict) == name for item in found.points) for name in GLYPHS}
    shown = [item for item in found.points if verdict in (None, str(item.verdict))]
    widest = max((abs(bound) for item in shown for bound in _reach(_of(item, measure))), default=0.0) or 0.05
    groups: dict[str, list[dict[str, Any]]] = {}
    for item in shown:
        groups.setdefault(item.pair.line, []).append(_row(item, measure, widest))
    return {
        "counts": counts,
        "groups": groups,
        "sources": [str(source) for source in found.sources],
        "verdict": str(found.overall.verdict),
        "reason": found.overall.reason,
        "shifts": [
            {**shift._asdict(), "verdict": str(shift.verdict), "name": axes.describe(shift.measure)["label"]}
            for shift in found.shifts
        ],
        "changes": [change._asdict() for change in found.changes],
        "again": [one._asdict() for one in found.again],
        "alone": [one._asdict() for one in found.alone],
        "measures": [(key, axes.describe(key)["label"], axes.describe(key)["unit"]) for key in MEASURES],
    }


def _of(item: Compared, measure: str) -> Difference | None:
    return next((one for one in item.differences if one.measure == measure), None)


def _reach(difference: Difference | None) -> tuple[float, ...]:
    if difference is None or difference.estimate is None:
        return ()
    interval = difference.estimate.interval()
    return interval if interval and max(map(abs, interval)) < 5 else (difference.estimate.change,)


_HALF = 78.0  # px from the middle of a forest cell to its edge


def _row(item: Compared, measure: str, widest: float) -> dict[str, Any]:
    difference = _of(item, measure)
    row: dict[str, Any] = {
        "concurrency": item.pair.concurrency,
        "verdict": str(item.verdict),
        "glyph": GLYPHS[str(item.verdict)],
        "reason": item.reason,
        "a_id": item.pair.a[0].id if item.pair.a else "",
        "b_id": item.pair.b[0].id if item.pair.b else "",
        "repeats": (len(item.pair.a), len(item.pair.b)),
        "source": str(item.pair.source),
        "mine": str(difference.judged.verdict) if difference else "unclear",
        "why": difference.judged.reason if difference else "not measured on both sides",
        "a": None,
        "b": None,
        "change": None,
        "forest": None,
    }
    if difference is None or difference.estimate is None:
        return row
    found = difference.estimate

    def px(change: float) -> float:
        return round(80 + max(-1.0, min(1.0, change / widest)) * _HALF, 1)

    interval = found.interval()
    row |= {
        "a": found.a,
        "b": found.b,
        "change": found.change,
        "interval": interval,
        "notes": list(found.notes),
        "forest": {
            "at": px(found.change),
            "low": px(interval[0]) if interval else None,
            "high": px(interval[1]) if interval else None,
        },
    }
    return row


def picture(a: Picked, b: Picked, found: Comparison) -> dict[str, Any] | None:
    """Frontiers of both sides on the usual axes of the chart with most pairs, and the pairs themselves."""
    points = {"a": a[0].points(a[1].id), "b": b[0].points(b[1].id)}
    subjects: dict[tuple[str, str], int] = {}
    for item in found.points:
        if item.pair.a:
            key = subject_of(item.pair.a[0])
            subjects[key] = subjects.get(key, 0) + 1
    if not subjects:
        return None
    subject = max(subjects, key=lambda key: (subjects[key], key))
    kept = set(found.sources)
    mine = {
        name: tuple(point for point in by_subject(listed).get(subject, ()) if point.source in kept)
        for name, listed in points.items()
    }
    usual = axes.usual([*mine["a"], *mine["b"]])
    x, y = usual["x"], usual["y"]
    if x is None or y is None:
        return None
    sides: dict[str, Any] = {}
    for name, listed in mine.items():
        answer = frontier(listed, axes.axis_of(x), axes.axis_of(y), mix_sources=True)
        sides[name] = {
            "lines": [
                {
                    "key": series.key,
                    "source": str(series.sources[0]),
                    "knots": [[knot.x, knot.y, knot.id] for knot in series.knots],
                }
                for series in answer.series
                if series.knots
            ],
            "off": [[p.value(x), p.value(y), p.id] for p in listed if p.id in answer.dominated_by],
        }
    names = {one.key: one.name for one in slots.shown([*mine["a"], *mine["b"]])}
    pairs = []
    for item in found.points:
        if item.pair.a and item.pair.b and subject_of(item.pair.a[0]) == subject:
            ends = [item.pair.a[0].value(x), item.pair.a[0].value(y), item.pair.b[0].value(x), item.pair.b[0].value(y)]
            if None not in ends:
                pairs.append([*ends, str(item.verdict)])
    return {
        "subject": list(subject),
        "x": axes.describe(x),
        "y": axes.describe(y),
        "sides": sides,
        "names": names,
        "pairs": pairs,
    }
