"""Traces: recorded sessions, their lengths, subagents and shared prefixes."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ridgeline.core.errors import InputError
from ridgeline.publish.web import html, tracepage
from ridgeline.publish.web.answers import told
from ridgeline.publish.web.context import context_of

router = APIRouter()
A_PAGE = 200


@router.get("/traces", include_in_schema=False)
def get_page(request: Request, trace: str = "", session: str = "", start: int = 0) -> Response:
    given = context_of(request).given.traces
    name = trace if trace in given else next(iter(given), "")
    notices = [f"“trace” has no value “{trace}” here"] if trace and trace != name else []
    values: dict[str, Any] = {"told": None, "charts": [], "sessions": [], "anatomy": None, "wrong": "", "total": 0}
    start = max(0, start)
    if name:
        try:
            read, told = tracepage.corpus(name, given[name])
            values |= {"told": told, "charts": tracepage.distributions(read, told), "total": len(read.sessions)}
            values["sessions"] = tracepage.listed(read)[start : start + A_PAGE]
            found = tracepage.find(read.sessions, session) if session else (read.sessions[0] if read.sessions else None)
            if session and found is None:
                notices.append(f"“session” has no value “{session}” here")
            values["anatomy"] = tracepage.anatomy(found) if found else None
        except InputError as error:
            values["wrong"] = str(error)
    return html.page(
        request,
        "traces.html",
        "traces",
        traces=list(given),
        name=name,
        notices=notices,
        start=start,
        step=A_PAGE,
        **values,
    )


@router.get("/api/v1/traces", tags=["traces"])
def get_traces(request: Request) -> Response:
    """The traces this server was started with."""
    return told(request, {"traces": list(context_of(request).given.traces)})


@router.get("/api/v1/traces/{name}", tags=["traces"])
def get_trace(request: Request, name: str) -> Response:
    """What a corpus looks like in numbers."""
    given = context_of(request).given.traces
    if name not in given:
        raise HTTPException(404, f"This server was not started with a trace called “{name}”.")
    return told(request, tracepage.corpus(name, given[name])[1])
