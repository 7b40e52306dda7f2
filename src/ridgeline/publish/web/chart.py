"""The frontier page's data for one question: one model and workload, one pair of axes, and what is laid over it.

In: a channel's holding and a question. Out: page data as charts/assets/frontier.js reads it, with the values that plot,
list and table need; a drawer asks for the rest of its point. Membership is the frontier function's over all points of
the chart. Where there are more points than a plot can show, dominated ones that would lie on each other are left out of
the drawing, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ridgeline.core.point import Point, Validity
from ridgeline.publish.charts import axes, slots
from ridgeline.publish.charts.axes import axis_of
from ridgeline.publish.charts.data import absent_row, fronts, packed, row, subject_of
from ridgeline.publish.web.data import CHANNELS, Chart, Holding, Library, Run, Subject
from ridgeline.publish.web.memory import by_subject, charts_of
from ridgeline.publish.web.question import Question
from ridgeline.results import cost
from ridgeline.results.cost import PriceSheet
from ridgeline.results.frontier import Frontier, frontier
from ridgeline.results.repeats import Folded, folded

MARKS = 1000  # more than that on one plot is ink
_GRID = (240, 150)  # spots of a plot of usual size: a dominated mark covers one


@dataclass(frozen=True)
class Asked:
    """A question with everything decided."""

    holding: Holding
    subject: Subject | None
    charts: Mapping[Subject, Chart]
    together: Folded  # points of the chart, laid-over ones included; repeats of a cell are one with bars
    x: str | None
    y: str | None
    usual: Mapping[str, str | None]  # the pair the chart opens with
    offered: axes.Offered
    overlays: tuple[tuple[str, str, int], ...]  # id, name and points on this chart of the runs laid over
    notices: tuple[str, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        return self.together.points


def settle(library: Library, question: Question, prices: PriceSheet | None = None) -> Asked:
    """Decide what a question leaves open; what it asks in vain becomes a notice."""
    notices: list[str] = []
    channels = library.channels()
    channel = question.channel if question.channel in channels else None
    if question.channel and channel is None:
        notices.append(f"there is no {question.channel} channel here")
    holding = library.holding(channel or library.usual())
    charts, grouped = holding.charts, None
    if question.run is not None:
        grouped = by_subject(holding.points(question.run))
        charts = {chart.subject: chart for chart in charts_of(grouped)}
    if question.run and question.run not in holding.by_id:
        notices.append(f"there is no run “{question.run}” in this channel")
    subject = _subject(charts, question, notices)
    laid, names = _overlays(library, holding, question, subject, notices)
    official: Sequence[Point] = ()
    if subject:
        official = holding.latest(subject) if grouped is None else grouped[subject]
    together = folded(priced((*official, *laid), prices))
    points = together.points
    offered = axes.offered(points)
    usual = axes.usual(points, offered)
    x, y = usual["x"], usual["y"]
    for name, wanted, choice in (("x", question.x, offered.x), ("y", question.y, offered.y)):
        if wanted is not None and wanted not in choice:
            notices.append(f"“{name}” has no value “{wanted}” here")
    x = question.x if question.x in offered.x else x
    y = question.y if question.y in offered.y else y
    return Asked(holding, subject, charts, together, x, y, usual, offered, names, tuple(notices))


def priced(points: tuple[Point, ...], prices: PriceSheet | None) -> tuple[Point, ...]:
    """Points with what they cost, where prices are known."""
    return tuple(cost.priced(point, prices) for point in points) if prices else points


def answer(asked: Asked) -> Frontier | None:
    """The frontier of a settled question: every source in its own series, each laid-over run in series of its own."""
    if asked.x is None or asked.y is None:
        return None
    bars = asked.together.interval if asked.together.bars else None
    return frontier(asked.points, axis_of(asked.x), axis_of(asked.y), mix_sources=True, interval=bars)


def chart(asked: Asked, question: Question) -> dict[str, Any]:
    """Page data (packed) of a settled question."""
    holding, points = asked.holding, asked.points
    units = axes.measures(points)
    columns, headline = axes.columns(units), axes.headline(units)
    needed = list(dict.fromkeys(key for key in (asked.x, asked.y, *columns, *headline) if key))
    drawn = thinned(points, asked.x, asked.y) if asked.x and asked.y else Thinned(points, 0)
    shown = series(drawn.points, holding)
    place = {one.key: number for number, one in enumerate(shown)}
    listed: list[dict[str, Any]] = [
        {"id": list(one.subject), "model": one.subject[0], "workload": one.subject[1], "said": one.said, "n": one.n}
        for one in asked.charts.values()
    ]
    number = {(one["model"], one["workload"]): at for at, one in enumerate(listed)}
    for one in listed:
        mine = asked.subject == (one["model"], one["workload"])
        one.update(asked.usual if mine else {"x": None, "y": None})
    pair = axes.Offered((asked.x,) if asked.x else (), (asked.y,) if asked.y else ())
    every = dict.fromkeys((*asked.offered.x, *asked.offered.y, *needed))
    failures = [failure for run in _runs(holding, question) if run.failed for failure in holding.failures(run.id)]
    data = {
        "models": list(dict.fromkeys(one["model"] for one in listed)),
        "subjects": listed,
        "series": [one._asdict() for one in shown],
        "measures": {key: axes.describe(key, units.get(key, "")) for key in every},
        "axes": {"x": list(asked.offered.x), "y": list(asked.offered.y)},
        "headline": headline,
        "columns": columns,
        "have": _have(points, every),
        "points": [
            {
                **row(point, needed),
                "bars": asked.together.bars.get(point.id, {}),
                "s": place[point.series],
                "subject": number[subject_of(point)],
            }
            for point in drawn.points
        ],
        "fronts": fronts(drawn.points, pair, asked.together),
        "absent": [absent_row(failure, points, number) for failure in failures],
        "thinned": drawn.left_out,
        "beyond": True,  # links may name points that this chart does not draw
        "run": {"name": "", "commands": []},
        "channel": holding.channel,
        "overlays": [{"id": id, "name": name, "n": n} for id, name, n in asked.overlays],
        "version": holding.version,
    }
    return packed(data, needed)


def series(points: Sequence[Point], holding: Holding) -> list[slots.Shown]:
    """Series with the channel's own slots; a laid-over one takes a slot that the others leave free."""
    names = {run.id: run.name for run in holding.runs} | {channel: f"{channel} channel" for channel in CHANNELS}
    return [one._replace(overlay=_overlay_of(one.key, names)) for one in slots.shown(points, holding.slots)]


class Thinned(NamedTuple):
    """Points to draw, and how many dominated ones were left out."""

    points: tuple[Point, ...]
    left_out: int


def thinned(points: tuple[Point, ...], x: str, y: str, most: int = MARKS) -> Thinned:
    """All points up to `most`; beyond that every point of a frontier, every one that is not plainly dominated, and of
    the others one for each series and spot of the plot."""
    if len(points) <= most:
        return Thinned(points, 0)
    answer = frontier(points, axis_of(x), axis_of(y), mix_sources=True)
    plain = answer.dominated_by
    behind = [at for at, point in enumerate(points) if point.id in plain]
    columns = [np.array([points[at].value(key) for at in behind], dtype=np.float64) for key in (x, y)]
    spots = [_spots(column, size) for column, size in zip(columns, _GRID, strict=True)]
    seen: set[tuple[str, int, int]] = set()
    keep = set(range(len(points))).difference(behind)
    for number, at in enumerate(behind):
        spot = (points[at].series, int(spots[0][number]), int(spots[1][number]))
        if spot not in seen:
            seen.add(spot)
            keep.add(at)
    if len(keep) > most:  # still too many: every n-th of the dominated ones
        extra = sorted(keep.intersection(behind))
        room = max(1, most - (len(keep) - len(extra)))
        step = -(-len(extra) // room)
        keep = keep.difference(extra) | set(extra[::step])
    return Thinned(tuple(points[at] for at in sorted(keep)), len(points) - len(keep))


def _spots(values: np.ndarray[Any, np.dtype[np.float64]], count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    top = float(values.max(initial=0.0)) or 1.0
    return np.floor(values / top * count).astype(np.int64)


_MARK = "/unofficial:"


def _overlays(
    library: Library, holding: Holding, question: Question, subject: Subject | None, notices: list[str]
) -> tuple[tuple[Point, ...], tuple[tuple[str, str, int], ...]]:
    """Points of the runs and channels laid over, each in series of its own, so that no frontier can hold both."""
    points: list[Point] = []
    names: list[tuple[str, str, int]] = []
    for id in dict.fromkeys(question.overlay):
        found = library.find_run(id)
        if found is not None:
            name = found[1].name
            mine: Iterable[Point] = (point for point in found[0].points(id) if subject_of(point) == subject)
        elif id in channels_over(library, holding):
            name = f"{id} channel"
            mine = library.holding(id).latest(subject) if subject else ()  # type: ignore[arg-type]
        else:
            notices.append(f"there is no run “{id}” to lay over")
            continue
        laid = [replace(point, series=f"{point.series}{_MARK}{id}", id=f"{point.id}~over") for point in mine]
        points += laid
        names.append((id, name, len(laid)))
    return tuple(points), tuple(names)


def channels_over(library: Library, holding: Holding) -> list[str]:
    """Channels that may be laid over this one: not itself, and not the published one, which is what others are
    measured against."""
    return [channel for channel in library.channels() if channel not in ("published", holding.channel)]


def _overlay_of(key: str, names: dict[str, str]) -> str:
    _, mark, id = key.partition(_MARK)
    return (names.get(id) or id) if mark else ""


def _subject(charts: Mapping[Subject, Chart], question: Question, notices: list[str]) -> Subject | None:
    keys = list(charts)
    if not keys:
        return None
    models = [key for key in keys if question.model in (None, key[0])]
    if not models:
        notices.append(f"“model” has no value “{question.model}” here")
        models = keys
    first = models[0]
    if question.on is None:
        return first
    wanted = (first[0], question.on)
    if wanted not in charts:
        notices.append(f"“on” has no value “{question.on}” here")
        return first
    return wanted


def _runs(holding: Holding, question: Question) -> Sequence[Run]:
    return holding.runs if question.run is None else [r for r in holding.runs if r.id == question.run]


def _have(points: Sequence[Point], keys: Iterable[str]) -> dict[str, int]:
    """How many points have a value of each measure."""
    counts = Counter(
        key
        for point in points
        if point.validity is not Validity.INVALID
        for key, measure in point.measures.items()
        if measure.value is not None
    )
    return {key: counts[key] for key in keys}
