"""The frontier: the page, its data, and the public answer of the interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ridgeline import __version__
from ridgeline.core.point import Point
from ridgeline.publish.charts import axes
from ridgeline.publish.report.page import safe_json
from ridgeline.publish.web import chart, html
from ridgeline.publish.web.answers import answer, encode, etag
from ridgeline.publish.web.context import Context, context_of
from ridgeline.publish.web.data import Holding
from ridgeline.publish.web.question import Question, decode
from ridgeline.publish.web.question import encode as link

router = APIRouter()


@router.get("/", include_in_schema=False)
def get_page(request: Request) -> Response:
    context = context_of(request)
    question, notices = decode(request.query_params.multi_items())
    asked = chart.settle(context.library, question, context.given.prices)
    holding = asked.holding
    every = {run.id: run for held in context.library.everything() for run in held.runs}
    channels = [one for one in chart.channels_over(context.library, holding) if one not in question.overlay]
    can = [{"id": run.id, "name": run.name, "n": run.n} for run in every.values() if run.id not in question.overlay][
        :200
    ]
    return html.page(
        request,
        "frontier.html",
        "frontier",
        channel=holding.channel,
        script="page_frontier.js",
        question=_words(asked),
        banner=_banner(asked),
        keys=request.query_params,  # the page says itself what it does not know: it knows the keys that are its own
        overlays=[{"name": name, "n": n, "without": _without(question, id)} for id, name, n in asked.overlays],
        can_overlay=can,
        channels_over=channels,
        x_title=axes.describe(asked.x)["label"] if asked.x else "x",
        y_title=axes.describe(asked.y)["label"] if asked.y else "y",
        rows=(),
        csv=f"/api/v1/export.csv?{link(question)}",
        parquet=f"/api/v1/export.parquet?{link(question)}",
        about=_about(holding, question),
        foot=f"Dataset {holding.version}. Frontiers by Ridgeline {__version__}, one per series; sources never mix.",
        data=_chart(context, question, asked, notices).decode(),
    )


@router.get("/api/v1/chart", tags=["frontier"])
def get_chart(request: Request) -> Response:
    """What the frontier page draws, for one question (channel, model, on, x, y, run, overlay). Its form belongs to the
    page and may change; `frontier` is the stable answer."""
    context = context_of(request)
    question, notices = decode(request.query_params.multi_items())

    def make() -> bytes:
        return _chart(context, question, chart.settle(context.library, question, context.given.prices), notices)

    return answer(request, etag("chart", context.library.version(), str(request.url.query)), make)


@router.get("/api/v1/frontier", tags=["frontier"])
def get_frontier(
    request: Request,
    channel: str | None = None,
    model: str | None = None,
    on: str | None = None,
    x: str | None = None,
    y: str | None = None,
    run: str | None = None,
) -> Response:
    """Which points nobody beats: `series` with their frontier by rising x, each dominated point with its witness, what
    is excluded and why, and every point with values, units, source and provenance. `model` and `on` (the workload)
    default to the chart with most points; `x` and `y` name measures (see /api/v1/metrics). Sources never share a
    series. What is asked in vain is listed under `notices`."""
    context = context_of(request)
    question, notices = decode(request.query_params.multi_items())

    def make() -> bytes:
        asked = chart.settle(context.library, question, context.given.prices)
        return encode(frontier_answer(asked, [*notices, *asked.notices]))

    version = context.library.version()
    key = ("frontier", version, str(request.url.query))
    return answer(request, etag(*key), lambda: context.memory.get(key, make))


def frontier_answer(asked: chart.Asked, notices: list[str]) -> dict[str, Any]:
    """The public form of a frontier."""
    found = chart.answer(asked)
    names = [key for key in (asked.x, asked.y) if key]
    plain: dict[str, Any] = found.to_json() if found else {"axes": {}, "series": [], "excluded": []}
    return {
        "question": {
            "channel": asked.holding.channel,
            "model": asked.subject[0] if asked.subject else None,
            "on": asked.subject[1] if asked.subject else None,
            "x": asked.x,
            "y": asked.y,
        },
        **plain,
        "excluded_counts": found.excluded_counts if found else {},
        "points": {point.id: point_answer(point, names) for point in asked.points},
        "notices": notices,
        "provenance": {"dataset_version": asked.holding.version, "code": f"ridgeline {__version__}"},
    }


def point_answer(point: Point, names: list[str]) -> dict[str, Any]:
    """A point with some of its measures: a missing value is null with its reason."""
    return {
        "name": point.name,
        "series": point.series,
        "source": str(point.source),
        "validity": str(point.validity),
        "reasons": list(point.reasons),
        "cautions": [caution.code for caution in point.cautions],
        "concurrency": point.concurrency,
        "gpus": point.gpus,
        "measures": {name: measure_answer(point, name) for name in names},
        "measured_at": point.measured_at,
        "run_key": point.run_key,
    }


def measure_answer(point: Point, name: str) -> dict[str, Any]:
    """Value and unit, or null and why."""
    measure = point.measures.get(name)
    if measure is None:
        return {"value": None, "unit": None, "reason": "not measured"}
    found: dict[str, Any] = {"value": measure.value, "unit": measure.unit}
    if measure.n is not None:
        found["n"] = measure.n
    if measure.value is None:
        found["reason"] = measure.reason
    return found


def _chart(context: Context, question: Question, asked: chart.Asked, notices: Sequence[str]) -> bytes:
    """Page data as JSON that may stand inside a page; made once for a version and question."""
    version = context.library.version()

    def make() -> bytes:
        data = chart.chart(asked, question)
        return safe_json({**data, "notices": [*notices, *asked.notices], "versions": version}).encode()

    return context.memory.get(("chart", version, link(question), *notices), make)


def _words(asked: chart.Asked) -> str:
    """What the page says before its script has drawn."""
    found = asked.charts.get(asked.subject) if asked.subject else None
    return f"{found.subject[0]} on {found.said}" if found else "No point here yet."


_BANNERS = {
    "emulated": "No GPU took part. Real requests were answered by a model of the engine, so every number here is a "
    "statement about that model. None of it can be published.",
    "predicted": "Nothing was started. Every number is a prediction in virtual time, and none of it can be published.",
}


def _banner(asked: chart.Asked) -> dict[str, str] | None:
    """Said first when no point of the chart was measured, or when the channel is not the published one."""
    sources = sorted({str(point.source) for point in asked.points})
    if sources and "measured" not in sources:
        text = _BANNERS.get(sources[0], "") if len(sources) == 1 else "No point here was measured."
        return {"word": " + ".join(sources), "text": text}
    if asked.holding.channel == "staging":
        return {"word": "staging", "text": "These points wait for somebody's decision. They are not published."}
    return None


def _about(holding: Holding, question: Question) -> str:
    if question.run:
        return f"Every point of the run {question.run}."
    count, newest = len(holding.runs), holding.runs[0].when if holding.runs else ""
    if not count:
        return "This channel holds no run yet."
    said = f", the last one of {newest[:10]}" if newest else ""
    return (
        f"{count} run{'s' if count != 1 else ''}{said}. A line (one configuration and workload over concurrency) is "
        "shown as the newest run that has it measured it; runs are never stitched together."
    )


def _without(question: Question, id: str) -> str:
    pairs = [(k, v) for k, v in _pairs(question) if (k, v) != ("overlay", id)]
    return f"/?{urlencode(pairs)}" if pairs else "/"


def _pairs(question: Question) -> list[tuple[str, str]]:
    from urllib.parse import parse_qsl

    return parse_qsl(link(question))
