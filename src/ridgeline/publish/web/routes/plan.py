"""Plan and check: search spaces the server was started with, or one that is pasted."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, HTTPException
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ridgeline.core.errors import InputError
from ridgeline.publish.web import html, planpage
from ridgeline.publish.web.answers import told
from ridgeline.publish.web.context import context_of

router = APIRouter()
PASTED = "pasted.yaml"


@router.get("/plan", include_in_schema=False)
def get_page(request: Request, config: str = "", verdict: str = "") -> Response:
    given = context_of(request).given
    names = list(given.configs)
    name = config if config in given.configs else (names[0] if names and not config else "")
    notices = [f"“config” has no value “{config}” here"] if config and not name else []
    if verdict and verdict not in planpage.GLYPHS:
        notices.append(f"“verdict” has no value “{verdict}” here")
        verdict = ""
    return _page(request, [given.configs[name]] if name else [], name=name, verdict=verdict or None, notices=notices)


@router.post("/api/v1/check", include_in_schema=False)
async def post_page(request: Request) -> Response:
    """The page for a pasted config. Nothing of it is kept."""
    text = parse_qs((await request.body()).decode("utf-8", "replace")).get("text", [""])[0]
    return await run_in_threadpool(_pasted, request, text)


@router.get("/api/v1/plan/{config}", tags=["plan"])
def get_plan(request: Request, config: str) -> Response:
    """The cells of a config the server was started with: verdict, promises, and findings with their arithmetic."""
    given = context_of(request).given
    if config not in given.configs:
        raise HTTPException(404, f"This server was not started with a config called “{config}”.")
    return told(request, planpage.view(_reports(request, [given.configs[config]])))


def _pasted(request: Request, text: str) -> Response:
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        file = Path(folder) / PASTED
        file.write_text(text, encoding="utf-8")
        return _page(request, [file], name="", pasted=text, hide=folder)


def _page(request: Request, files: Sequence[Path], *, pasted: str = "", hide: str = "", **more: Any) -> Response:
    given = context_of(request).given
    found: dict[str, Any] = {"found": None, "problems": []}
    if files and given.check is not None:
        try:
            found["found"] = planpage.view(given.check(files), more.get("verdict"))
        except InputError as error:
            found["problems"] = [
                str(problem).replace(f"{hide}/", "") if hide else str(problem) for problem in error.problems
            ]
    return html.page(
        request,
        "plan.html",
        "plan",
        configs=list(given.configs),
        can=given.check is not None,
        pasted=pasted,
        name=more["name"],
        verdict=more.get("verdict"),
        notices=more.get("notices", ()),
        glyphs=planpage.GLYPHS,
        kinds=planpage.KINDS,
        **found,
    )


def _reports(request: Request, files: Sequence[Path]) -> Any:
    check = context_of(request).given.check
    if check is None:
        raise HTTPException(404, "This server was started without the preflight.")
    return check(files)
