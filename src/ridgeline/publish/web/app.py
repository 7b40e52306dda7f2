"""The application: routes put together, the guard around them, errors as sentences."""

from __future__ import annotations

import gc

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ridgeline import __version__
from ridgeline.core.errors import RidgelineError
from ridgeline.publish.web import html
from ridgeline.publish.web.answers import encode
from ridgeline.publish.web.context import Context
from ridgeline.publish.web.routes import ROUTERS
from ridgeline.publish.web.safety import Guard


def create_app(context: Context) -> Guard:
    """The ASGI application."""
    app = FastAPI(
        title="Ridgeline",
        version=__version__,
        summary="Points, frontiers and comparisons, with units, sources and provenance.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.context = context
    for router in ROUTERS:
        app.include_router(router)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(RidgelineError, _known_error)
    return Guard(app, context.access)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refuse(request, error.status_code, str(error.detail))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    said = "; ".join(f"{'.'.join(str(part) for part in one['loc'][1:])}: {one['msg']}" for one in error.errors())
    return refuse(request, 400, said)


async def _known_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RidgelineError)
    return refuse(request, 400 if error.exit_code == 2 else 409 if error.exit_code == 1 else 503, str(error))


def refuse(request: Request, status: int, said: str) -> Response:
    """An error as JSON under /api, as a page elsewhere."""
    if request.url.path.startswith("/api/"):
        return Response(encode({"error": said}), status_code=status, media_type="application/json")
    return html.problem(request, status, said)


def warm(context: Context) -> None:
    """Read what the first reader would have to wait for: the usual chart, what search looks in, templates, scripts.
    Safe in a thread: a reader who comes meanwhile waits for what is being read, and reads nothing twice."""
    from ridgeline.publish.charts import bundle
    from ridgeline.publish.web import chart, static
    from ridgeline.publish.web.question import Question

    static.files()
    bundle.templates().get_template("frontier.html")
    question = Question()
    asked = chart.settle(context.library, question, context.given.prices)
    chart.chart(asked, question)
    asked.holding.search("", 0, 1)
    gc.collect()
    gc.freeze()  # what was read stays; looking through it again and again would cost every later answer
