"""Runs: the list, live while a sweep goes on, and one run."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException, Query
from starlette.requests import Request
from starlette.responses import Response

from ridgeline.core.point import Point
from ridgeline.publish.charts.data import commands
from ridgeline.publish.charts.words import heading, plain
from ridgeline.publish.web import html, pointpage
from ridgeline.publish.web.answers import answer, encode, etag, told
from ridgeline.publish.web.context import channel_of, context_of
from ridgeline.publish.web.data import Holding, Run
from ridgeline.publish.web.memory import by_subject
from ridgeline.publish.web.question import Question
from ridgeline.publish.web.question import encode as link
from ridgeline.publish.web.routes.frontier import point_answer
from ridgeline.results.runfolder import Failure

router = APIRouter()


A_PAGE = 100
MOVES = 50


@router.get("/runs", include_in_schema=False)
def get_list(request: Request, q: str = "", start: int = Query(0, ge=0)) -> Response:
    context = context_of(request)
    holding = context.library.holding(channel_of(request))
    words = q.lower().split()
    found = [run for run in holding.runs if all(word in _text(run) for word in words)]
    return html.page(
        request,
        "runs.html",
        "runs",
        script="page_runs.js",
        q=q,
        start=start,
        step=A_PAGE,
        total=len(found),
        last=holding.runs[0].when[:16].replace("T", " ") if holding.runs else "",
        moves=holding.receipts()[:MOVES],
        here=set(holding.by_id),
        runs=[_row(run) for run in found[start : start + A_PAGE]],
        live=sum(run.live is not None for run in holding.runs),
        version=context.library.version(),
    )


@router.get("/runs/{id}", include_in_schema=False)
def get_page(request: Request, id: str) -> Response:
    holding, run = _find(request, id)
    points = holding.points(id)
    groups = by_subject(points)
    return html.page(
        request,
        "run.html",
        "runs",
        title=run.name,
        channel=holding.channel,
        crumbs=[(run.name, "")],
        script="page_runs.js",
        keys=(),
        run=run,
        row=_row(run),
        version=context_of(request).library.version(),
        charts=[
            (f"{model} on {on}", f"/?{link(Question(channel=holding.channel, model=model, on=on, run=id))}", len(mine))
            for (model, on), mine in groups.items()
        ],
        rows=[pointpage.listed(run, point) for point in points],
        failures=[_failure(failure) for failure in holding.failures(id)],
        commands=commands(run.header),
        moves=holding.receipts(id),
        facts=_facts(run),
    )


@router.get("/api/v1/runs", tags=["runs"])
def get_runs(request: Request) -> Response:
    """Every run of a channel, newest first, and what a running one is doing."""
    holding = context_of(request).library.holding(channel_of(request))

    def make() -> bytes:
        return encode(
            {"runs": [_plain(run) for run in holding.runs], "provenance": {"dataset_version": holding.version}}
        )

    return answer(request, etag("runs", holding.version), make)


@router.get("/api/v1/runs/{id}", tags=["runs"])
def get_run(request: Request, id: str) -> Response:
    """One run with its points (without measures) and what failed, in which layer and why."""
    holding, run = _find(request, id)

    def make() -> bytes:
        return encode(
            {
                **_plain(run),
                "points": [{"id": point.id, **point_answer(point, _usual(point))} for point in holding.points(id)],
                "failures": [_failure(failure) for failure in holding.failures(id)],
                "provenance": {"dataset_version": holding.version},
            }
        )

    return answer(request, etag("run", holding.version, id), make)


@router.get("/api/v1/receipts", tags=["runs"])
def get_receipts(request: Request) -> Response:
    """What was staged, promoted and withdrawn, newest first: which run came from which channel into which, when, by
    whom and why, with the number and digest of the points. Of the asked channel: what came in and what left."""
    holding = context_of(request).library.holding(channel_of(request))
    found = [receipt.as_json() for receipt in holding.receipts()]
    return told(request, {"receipts": found, "provenance": {"dataset_version": holding.version}})


def _text(run: Run) -> str:
    return f"{run.name} {run.id} {' '.join(run.sources)} {run.format} {' '.join(run.header.command)}".lower()


def _usual(point: Point) -> list[str]:
    return [
        key
        for key in ("throughput_per_gpu.total", "interactivity.p50", "interactivity.p90", "ttft.p50")
        if key in point.measures
    ]


def _find(request: Request, id: str) -> tuple[Holding, Run]:
    found = context_of(request).library.find_run(id)
    if found is None:
        raise HTTPException(404, "There is no such run here. It may lie in a channel this server does not show.")
    return found


def _row(run: Run) -> dict[str, Any]:
    now = run.live
    text = ""
    if now is not None:
        text = now.text or (f"under way: {', '.join(now.cells)}" if now.cells else "starting")
    return {
        "id": run.id,
        "name": run.name,
        "n": run.n,
        "failed": run.failed,
        "sources": run.sources,
        "when": run.when[:16].replace("T", " "),
        "live": now is not None,
        "now": text,
        "index": now.index if now else None,
        "total": now.total if now else None,
        "format": run.format,
        "url": run.url if (run.url or "").startswith(("https://", "http://")) else None,
        "command": " ".join(run.header.command),
    }


def _plain(run: Run) -> dict[str, Any]:
    return {
        **{name: value for name, value in _row(run).items() if name not in ("n", "when")},
        "points": run.n,
        "created_at": run.header.created_at,
        "last_worked_on": run.when,
        "ridgeline": run.header.ridgeline,
    }


def _failure(failure: Any) -> dict[str, Any]:
    if isinstance(failure, Failure):
        return {
            "name": failure.name,
            "layer": failure.layer,
            "reason": failure.message,
            "hint": failure.hint,
            "attempt": failure.attempt,
            "at": failure.failed_at,
        }
    return {"name": failure.name, "layer": failure.code, "reason": failure.reason, "hint": "", "attempt": 1, "at": ""}


def _facts(run: Run) -> list[tuple[str, str]]:
    header = run.header
    rows = [("Started", header.created_at)]
    rows += [("Resumed", ", ".join(header.resumed_at))] if header.resumed_at else []
    rows += [("Written by", f"Ridgeline {header.ridgeline}")] if header.ridgeline else []
    rows += [("Read from", run.format)] if run.format else []
    for facts in (header.settings, header.host):
        rows += [(heading(name), plain(value)) for name, value in facts.items() if value is not None]
    return [(name, text) for name, text in rows if text]
