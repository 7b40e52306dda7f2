"""Two runs against each other."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ridgeline.publish.report.page import safe_json
from ridgeline.publish.web import comparison, html
from ridgeline.publish.web.answers import answer, encode, etag
from ridgeline.publish.web.context import channel_of, context_of
from ridgeline.results.compare import MEASURES

router = APIRouter()


@router.get("/compare", include_in_schema=False)
def get_page(request: Request) -> Response:
    context = context_of(request)
    asked = request.query_params
    notices = []
    measure = asked.get("m", MEASURES[0])
    if measure not in MEASURES:
        notices.append(f"“m” has no value “{measure}” here")
        measure = MEASURES[0]
    verdict = asked.get("verdict")
    if verdict is not None and verdict not in comparison.GLYPHS:
        notices.append(f"“verdict” has no value “{verdict}” here")
        verdict = None
    channel = channel_of(request)
    a, b, more = comparison.pick(context.library, asked.get("a"), asked.get("b"), channel)
    runs = [(run.id, run.name, run.n) for held in context.library.everything() for run in held.runs if run.n]
    values: dict[str, Any] = {"found": None, "picture": "null", "a": None, "b": None, "a_when": "", "b_when": ""}
    if a is not None and b is not None:
        found = comparison.compared(a, b)
        values |= {
            "found": comparison.view(found, measure, verdict),
            "picture": safe_json(comparison.picture(a, b, found)),
            "a": a[1],
            "b": b[1],
        }
    base = f"a={a[1].id}&b={b[1].id}" if a and b else ""
    return html.page(
        request,
        "compare.html",
        "compare",
        script="page_compare.js",
        notices=[*notices, *more],
        runs=runs,
        measure=measure,
        chosen=verdict,
        base=base + (f"&channel={channel}" if len(context.library.channels()) > 1 else ""),
        glyphs=comparison.GLYPHS,
        **values,
    )


@router.get("/api/v1/runs/{a}/compare/{b}", tags=["runs"])
def get_comparison(request: Request, a: str, b: str) -> Response:
    """Run `b` against run `a`: for each matched cell the change of each measure with its interval and verdict; shifts
    shared by all cells; what changed, likeliest first; what to run again to know more; cells of one side only."""
    context = context_of(request)
    left, right = context.library.find_run(a), context.library.find_run(b)
    if left is None or right is None:
        raise HTTPException(404, f"There is no run “{a if left is None else b}” here.")

    def make() -> bytes:
        version = context.library.version()
        return encode({**comparison.compared(left, right).to_json(), "provenance": {"dataset_version": version}})

    return answer(request, etag("compare", context.library.version(), a, b), make)
