"""Static files, health, version and signing in."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import APIRouter, HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ridgeline import __version__
from ridgeline.publish.charts import bundle
from ridgeline.publish.web import static
from ridgeline.publish.web.answers import answer, etag, told
from ridgeline.publish.web.context import context_of
from ridgeline.publish.web.safety import COOKIE

router = APIRouter()


@router.get("/static/{name}", include_in_schema=False)
def get_static(name: str, request: Request) -> Response:
    found = static.files().get(name)
    if found is None:
        raise HTTPException(404, "There is no such file.")
    if not found.lasting:
        return answer(request, etag(name, str(hash(found.body))), lambda: found.body, kind=found.kind)
    return Response(found.body, media_type=found.kind, headers={"cache-control": "public, max-age=31536000, immutable"})


@router.get("/api/v1/health", tags=["system"])
def get_health() -> dict[str, str]:
    """Whether the server answers. Needs no token."""
    return {"status": "ok", "ridgeline": __version__}


@router.get("/api/v1/version", tags=["system"])
def get_version(request: Request) -> Response:
    """The version of everything that is shown, and of each channel. It changes exactly when the data does."""
    library = context_of(request).library
    channels = {channel: library.holding(channel).version for channel in library.channels()}
    return told(request, {"version": library.version(), "channels": channels, "ridgeline": __version__})


@router.get("/sign-in", include_in_schema=False)
def get_sign_in(request: Request) -> Response:
    if context_of(request).access.token is None:
        return RedirectResponse("/", status_code=303)
    return _sign_in(request.query_params.get("to", "/"))


@router.post("/sign-in", include_in_schema=False)
async def post_sign_in(request: Request) -> Response:
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    token, to = form.get("token", [""])[0], form.get("to", ["/"])[0]
    access = context_of(request).access
    if not access.knows(token):
        return _sign_in(to, said="That is not the token.", status=403)
    response = RedirectResponse(to if to.startswith("/") and not to.startswith(("//", "/\\")) else "/", status_code=303)
    response.set_cookie(COOKIE, access.stamp, httponly=True, samesite="strict", secure=request.url.scheme == "https")
    return response


def _sign_in(to: str, *, said: str = "", status: int = 200) -> Response:
    text = (
        bundle.templates()
        .get_template("sign_in.html")
        .render(to=to, said=said, style=static.url("ridgeline.css"), early=static.url("early.js"))
    )
    return Response(text, status_code=status, media_type="text/html", headers={"cache-control": "no-store"})


@router.get("/robots.txt", include_in_schema=False)
def get_robots() -> Response:
    return Response("User-agent: *\nDisallow: /\n", media_type="text/plain")
