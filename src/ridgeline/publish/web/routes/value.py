"""What speed is worth: accuracy of the configurations, and what their tokens cost in dollars and joules."""

from __future__ import annotations

import math
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ridgeline.publish.web import accuracypage, chart, costpage, html
from ridgeline.publish.web.answers import answer, encode, etag, told
from ridgeline.publish.web.context import channel_of, context_of
from ridgeline.publish.web.question import Question

router = APIRouter()


@router.get("/accuracy", include_in_schema=False)
def get_accuracy(request: Request, q: str = "") -> Response:
    context = context_of(request)
    found = accuracypage.groups(context.library.holding(channel_of(request)).evaluations, q)
    return html.page(
        request,
        "accuracy.html",
        "accuracy",
        q=q,
        groups=found,
        answer=accuracypage.sentence(found),
        width=accuracypage.WIDTH,
        version=context.library.version(),
    )


@router.get("/api/v1/evals", tags=["points"])
def get_evals(request: Request) -> Response:
    """Evaluations of a channel: task, metric, score with its standard error and number of documents, and the line
    (configuration) and concurrency it was scored at. A score is null where only a flexible match was scored."""
    holding = context_of(request).library.holding(channel_of(request))
    return answer(
        request,
        etag("evals", holding.version),
        lambda: encode({"evaluations": list(holding.evaluations), "provenance": {"dataset_version": holding.version}}),
    )


@router.get("/cost", include_in_schema=False)
def get_cost(request: Request, model: str | None = None, on: str | None = None, at: str = "") -> Response:
    values = _values(request, model, on, at)
    return html.page(request, "cost.html", "cost", **values)


@router.get("/api/v1/power", tags=["points"])
def get_power(request: Request, model: str | None = None, on: str | None = None, at: str = "") -> Response:
    """At a speed a user sees (`at`, tokens/s/user): throughput per GPU of every series, dollars for a million tokens
    where a price of its GPU-hour was given, and the power of the measured point that holds the speed."""
    values = _values(request, model, on, at)
    keys = ("model", "workload", "measure", "speed", "rows", "notices", "points", "with_power")
    return told(request, {key: values[key] for key in keys})


def _values(request: Request, model: str | None, on: str | None, at: str) -> dict[str, Any]:
    context = context_of(request)
    prices = context.given.prices
    asked = chart.settle(context.library, Question(channel=channel_of(request), model=model, on=on))
    notices = list(asked.notices)
    x = costpage.speed_measure(asked.points)
    known = costpage.lines(asked.points, x) if x else []
    speed = _speed(at)
    if at and speed is None:
        notices.append(f"“at” is a speed in tokens per second a user, not “{at}”")
    if speed is None:
        speed = costpage.usual_speed(known)
    found = costpage.rows(asked.points, x, speed, prices) if x else []
    return {
        "model": asked.subject[0] if asked.subject else "",
        "workload": asked.subject[1] if asked.subject else "",
        "said": asked.charts[asked.subject].said if asked.subject else "",
        "subjects": list(asked.charts.values()),
        "measure": x,
        "speed": speed,
        "speeds": costpage.SPEEDS,
        "rows": found,
        "answer": costpage.sentence(found, speed),
        "priced": prices is not None,
        "points": len(asked.points),
        "with_power": costpage.with_power(asked.points),
        "notices": notices,
        "version": context.library.version(),
    }


def _speed(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None
