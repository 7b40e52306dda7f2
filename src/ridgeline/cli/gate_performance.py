"""The comparison at the end of the gate's comment: the change's results against the published line of the store."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from ridgeline.core.cell import Cell
from ridgeline.core.errors import AnswerIsNo, InputError, Problem
from ridgeline.core.point import Point
from ridgeline.publish.gate.performance import Matched, Performance

if TYPE_CHECKING:
    from ridgeline.results.compare import Comparison, Side

SHOWN = "throughput_per_gpu.total"
PICTURE = "frontier.svg"


class Asked(NamedTuple):
    """`candidate`: a run folder, other results, or a run of the store. `out`: where the picture is written, `picture`:
    the address under which it will be served."""

    candidate: str
    store: str | None = None
    data: Path | None = None
    dashboard: str | None = None
    out: Path | None = None
    picture: str | None = None


def make(asked: Asked) -> Callable[[Sequence[Cell]], Performance | None]:
    """The comparison that was asked for. Raises InputError for a dashboard that is no address, and for a picture that
    is written nowhere."""
    problems = []
    if asked.dashboard and urlsplit(asked.dashboard).scheme not in ("http", "https"):
        problems.append(Problem("must be an address", key="--dashboard", hint="http://HOST:PORT"))
    if asked.picture and asked.out is None:
        problems.append(Problem("goes with --out, where the picture is written", key="--picture"))
    if problems:
        raise InputError(problems)
    return lambda _: _compared(asked)


def _compared(asked: Asked) -> Performance:
    from ridgeline.cli.stores import side
    from ridgeline.results.compare import compare

    mine = side(asked.candidate, asked.store, asked.data)
    before = _published(asked.store, asked.data, {point.line for point in mine.points})
    words = ["ridgeline", "compare", ",".join(dict.fromkeys(_runs(before))), asked.candidate]
    command = shlex.join([*words, *(["--store", asked.store] if asked.store else [])])
    overlay = _overlay(asked, mine)
    if not before.points:
        what = "nothing is published of these lines yet: these are their first results"
        alone = tuple(sorted({p.name for p in mine.points}))
        return Performance("no baseline", what, unmatched=alone, overlay=overlay.address, serve=overlay.serve)
    answer = compare(before, mine)
    drawn = _picture(before.points, mine.points, asked.out)
    return Performance(
        verdict=str(answer.overall.verdict),
        sentence=answer.overall.reason,
        matched=_matched(answer),
        unmatched=tuple(item.name for item in answer.alone),
        picture=drawn and (asked.picture or drawn),
        command=command,
        overlay=overlay.address,
        serve=overlay.serve,
    )


def _published(store: str | None, data: Path | None, lines: set[str]) -> Side:
    from ridgeline.cli.stores import open_store
    from ridgeline.results.compare import Side

    with open_store(store, data) as opened:
        points = tuple(p for line in sorted(lines) for p in opened.points(channel="published", line=line))
        told = opened.provenance([point.id for point in points])
    return Side("published", points, {point.id: told.get(point.id, {}) for point in points})


def _runs(side: Side) -> list[str]:
    """Runs that the points of a side belong to: a catalogued id is RUN.KEY.ATTEMPT."""
    return [point.id.rsplit(".", 2)[0] for point in side.points]


def _matched(answer: Comparison) -> tuple[Matched, ...]:
    found = []
    for item in answer.points:
        shown = next(
            (d for d in item.differences if d.measure == SHOWN), item.differences[0] if item.differences else None
        )
        estimate = shown.estimate if shown else None
        found.append(
            Matched(
                name=item.pair.name,
                before=estimate.a if estimate else None,
                after=estimate.b if estimate else None,
                unit=shown.unit if shown else "",
                change=estimate.change if estimate else None,
                verdict=f"{item.verdict}: {item.reason}",
            )
        )
    return tuple(found)


def _picture(before: Sequence[Point], after: Sequence[Point], out: Path | None) -> str | None:
    """Both frontiers in one picture, each a series of its own; None when nothing can be drawn, or nowhere to put it."""
    from ridgeline.publish.report import render_picture, write_text
    from ridgeline.results.runfolder import RunHeader

    if out is None:
        return None
    told = [(before, "published"), (after, "this change")]
    several = len({point.series for points, _ in told for point in points}) > 1
    both = [
        replace(point, id=f"{word}:{point.id}", series=f"{point.series}/{word}" if several else word)
        for points, word in told
        for point in points
    ]
    try:
        text = render_picture(both, header=RunHeader(name="published and this change", created_at=""))
    except AnswerIsNo:
        return None
    out.mkdir(parents=True, exist_ok=True)
    return str(write_text(out / PICTURE, text))


class _Overlay(NamedTuple):
    address: str | None
    serve: str | None


def _overlay(asked: Asked, mine: Side) -> _Overlay:
    """Where a dashboard shows the candidate laid over, and how one is started that has it: a run that the store holds
    is known by its number there, a folder by the name that a dashboard gives to what it is told of."""
    from ridgeline.cli.shelves import overlays
    from ridgeline.cli.stores import open_store

    runs = {str(facts["run"]) for facts in mine.about.values() if facts.get("run")}
    with open_store(asked.store, asked.data) as opened:
        held = sorted(runs & {str(row["id"]) for row in opened.runs()})
    place = ["--store", asked.store] if asked.store else []
    path = Path(asked.candidate)
    if not held and path.exists():
        held = [run.id for shelf in overlays([path]) for run in shelf.runs()]
        place += ["--overlay", asked.candidate]
    if not held:
        return _Overlay(None, None)
    query = urlencode([("overlay", run) for run in held], quote_via=quote)
    address = f"{asked.dashboard.rstrip('/')}/?{query}" if asked.dashboard else None
    return _Overlay(address, shlex.join(["ridgeline", "serve", *place]))
