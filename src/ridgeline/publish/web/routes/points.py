"""Points: the list to search in, one point with everything stored beside it, and its requests over time."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, HTTPException, Query
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from ridgeline.publish.charts import axes
from ridgeline.publish.charts.data import about, again, provenance, row
from ridgeline.publish.web import chart, html, pointpage
from ridgeline.publish.web.answers import answer, encode, etag, matches, told
from ridgeline.publish.web.context import channel_of, context_of
from ridgeline.publish.web.data import Found
from ridgeline.publish.web.routes.frontier import point_answer
from ridgeline.results.metrics import METRICS

router = APIRouter()
A_PAGE = 100


@router.get("/points", include_in_schema=False)
def get_list(request: Request, q: str = "", start: int = Query(0, ge=0)) -> Response:
    context = context_of(request)
    holding = context.library.holding(channel_of(request))
    total, shown = holding.search(q, start, A_PAGE)
    return html.page(
        request,
        "points.html",
        "points",
        q=q,
        rows=[pointpage.listed(run, point) for run, point in shown],
        total=total,
        start=start,
        step=A_PAGE,
        version=context.library.version(),
    )


@router.get("/points/{address}", include_in_schema=False)
def get_page(request: Request, address: str) -> Response:
    found = _find(request, address)
    return html.page(
        request,
        "point.html",
        "points",
        title=f"{found.point.name}",
        channel=found.holding.channel,
        crumbs=[(found.run.name, f"/runs/{found.run.id}"), (found.point.name.split("/", 1)[-1], "")],
        script="page_point.js",
        keys=request.query_params,  # the page says itself what it does not know
        **pointpage.page_values(found),
    )


@router.get("/api/v1/points", tags=["points"])
def get_points(
    request: Request,
    q: str = "",
    run: str | None = None,
    start: int = Query(0, ge=0),
    count: int = Query(200, ge=1, le=2000),
) -> Response:
    """Points of a channel whose name, series, source or run holds every word of `q`, without their measures."""
    context = context_of(request)
    holding = context.library.holding(channel_of(request))

    def make() -> bytes:
        total, found = holding.search(q, start, count, run)
        return encode(
            {
                "total": total,
                "start": start,
                "points": [{"id": point.id, "run": one.id, **point_answer(point, [])} for one, point in found],
                "provenance": {"dataset_version": holding.version},
            }
        )

    return answer(request, etag("points", holding.version, request.url.query), make)


@router.get("/api/v1/points/{address}", tags=["points"])
def get_point(request: Request, address: str) -> Response:
    """One point: every measure with unit, samples behind it, or the reason why there is none; facts; provenance."""
    found = _find(request, address)
    point = found.point

    def make() -> bytes:
        return encode(
            {
                "id": point.id,
                "run": {"id": found.run.id, "name": found.run.name, "channel": found.holding.channel},
                **point_answer(point, list(point.measures)),
                "reasons": list(point.reasons),
                "cautions": [{"code": c.code, "message": c.message, "hint": c.hint} for c in point.cautions],
                "facts": dict(point.facts),
                "provenance": {
                    **provenance(point),
                    "cell_fingerprint": point.cell_fingerprint,
                    "attempt": point.attempt,
                },
            }
        )

    return _kept(request, "point", address, make)


@router.get("/api/v1/points/{address}/card", tags=["points"], include_in_schema=False)
def get_card(request: Request, address: str) -> Response:
    """What the drawer shows beyond the chart's data."""
    found = _find(request, address)
    [point] = chart.priced((found.point,), context_of(request).given.prices)

    def make() -> bytes:
        units = axes.measures([point])
        return encode(
            {
                "measures": {key: axes.describe(key, unit) for key, unit in units.items()},
                "point": {
                    **row(point, units),
                    **about(point, found.files.deployment),
                    "again": again(found.run.header, point.name),
                },
            }
        )

    return _kept(request, "card", address, make)


@router.get("/api/v1/points/{address}/timeline", tags=["points"])
def get_timeline(request: Request, address: str) -> Response:
    """Requests over time as columns: lanes, streams inside them, and for each request the times it was wanted, sent,
    first answered and finished, in milliseconds of simulated time from the start of the measured window. A binary form
    for a million requests: docs/guides/dashboard.md describes it."""
    from ridgeline.publish.web import timeline

    found = _find(request, address)
    records = found.files.records
    if records is None:
        raise HTTPException(404, "No requests are stored for this point.")
    return _kept(request, "timeline", address, lambda: timeline.timeline_bytes(records), timeline.KIND)


@router.get("/api/v1/points/{address}/server-metrics", tags=["points"])
def get_server_metrics(request: Request, address: str) -> Response:
    """What the engine said while it ran: KV use, queue, prefix hits and token rates over time, by rank."""
    from ridgeline.publish.web import panels

    found = _find(request, address)
    files = found.files
    if files.samples is None or files.records is None:
        raise HTTPException(404, "No server metrics are stored for this point.")
    samples, records = files.samples, files.records
    return _kept(request, "server", address, lambda: panels.panels_bytes(records, samples))


@router.get("/api/v1/points/{address}/requests", tags=["points"])
def get_requests(request: Request, address: str) -> Response:
    """The requests themselves as Parquet: one row a request (docs/reference/run-folder.md)."""
    found = _find(request, address)
    records = found.files.records
    if records is None:
        raise HTTPException(404, "No requests are stored for this point.")
    tag = etag("requests", address)
    if matches(request, tag):
        return answer(request, tag, bytes)
    headers = {"cache-control": "private, max-age=31536000, immutable", "etag": tag}
    name = f"{address}.parquet"
    return FileResponse(records, media_type="application/vnd.apache.parquet", filename=name, headers=headers)


@router.get("/api/v1/points/{address}/requests/{number}", tags=["points"])
def get_request(request: Request, address: str, number: int) -> Response:
    """One request with everything recorded of it, and the times that follow from that, in simulated seconds."""
    from ridgeline.publish.web import timeline

    found = _find(request, address)
    row = timeline.one_request(found.files.records, number) if found.files.records else None
    if row is None:
        raise HTTPException(404, "This point has no such request.")
    return told(request, {**row, **timeline.derived(row)})


@router.get("/api/v1/points/{address}/logs/{name}", tags=["points"])
def get_log(request: Request, address: str, name: str, start: int = Query(0, ge=0), q: str = "") -> Response:
    """A window of a service's log from line `start` on, or up to 50 lines that hold `q`, each with its number."""
    found = _find(request, address)
    log = found.files.logs.get(name)
    if log is None:
        raise HTTPException(404, "This point has no such log.")
    return told(request, pointpage.log_window(log, start, q))


@router.get("/api/v1/metrics", tags=["points"])
def get_metrics(request: Request) -> Response:
    """Every metric: unit, direction that is better, formula, source of the definition, and how it misleads."""
    every = {
        name: {
            "title": metric.title,
            "unit": metric.unit,
            "better": metric.better,
            "formula": metric.formula,
            "source": metric.source,
            "pitfalls": metric.pitfalls,
            "measures": list(metric.measures),
        }
        for name, metric in METRICS.items()
    }
    return told(request, every)


def _find(request: Request, address: str) -> Found:
    found = context_of(request).library.find(address)
    if found is None:
        raise HTTPException(404, "There is no such point here. It may lie in a channel this server does not show.")
    return found


def _kept(
    request: Request, kind: str, address: str, make: Callable[[], bytes], media: str = "application/json"
) -> Response:
    """An answer about one point, which never changes under its address and version."""
    context = context_of(request)
    key = (kind, context.library.version(), address)
    return answer(request, etag(*key), lambda: context.memory.get(key, make), kind=media)
