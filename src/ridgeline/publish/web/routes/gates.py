"""Gates and changelog."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ridgeline.publish.web import gatepage, html
from ridgeline.publish.web.answers import told
from ridgeline.publish.web.context import channel_of, context_of

router = APIRouter()
SHOWN = 200


@router.get("/gates", include_in_schema=False)
def get_page(request: Request) -> Response:
    context = context_of(request)
    holding = context.library.holding(channel_of(request))
    rows = gatepage.recent(holding)
    entries, problems = gatepage.changelog(holding, context.given.changelogs)
    return html.page(
        request,
        "gates.html",
        "gates",
        answer=gatepage.sentence(rows),
        recent=rows,
        gates=gatepage.gates(context.given.gates),
        entries=entries[:SHOWN],
        left=max(0, len(entries) - SHOWN),
        problems=problems,
        version=context.library.version(),
    )


@router.get("/api/v1/gates", tags=["gates"])
def get_gates(request: Request) -> Response:
    """Stored gate judgements, and the newest runs against the ones before them."""
    context = context_of(request)
    holding = context.library.holding(channel_of(request))
    recent = [{**row, "a": row["a"].id, "b": row["b"].id} for row in gatepage.recent(holding)]
    return told(request, {"recent": recent, "gates": gatepage.gates(context.given.gates)})


@router.get("/api/v1/changelog", tags=["gates"])
def get_changelog(request: Request) -> Response:
    """Why runs were made, newest first."""
    context = context_of(request)
    entries, problems = gatepage.changelog(context.library.holding(channel_of(request)), context.given.changelogs)
    return told(request, {"entries": entries, "problems": problems})
