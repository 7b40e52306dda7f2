"""Pages from templates: what the shell around every page needs, and the page that says what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from ridgeline.publish.charts import bundle
from ridgeline.publish.web import static
from ridgeline.publish.web.context import channel_of, context_of
from ridgeline.publish.web.data import CHANNELS, Channel
from ridgeline.publish.web.pages import BY_KEY, PAGES, Page

Crumbs = Sequence[tuple[str, str]]


def page(
    request: Request,
    template: str,
    key: str,
    *,
    title: str = "",
    crumbs: Crumbs = (),
    channel: Channel | None = None,
    script: str = "page_plain.js",
    status: int = 200,
    keys: Collection[str] | None = None,
    notices: Sequence[str] = (),
    **values: Any,
) -> Response:
    """A page of the table in pages.py. `crumbs`: (text, link) behind the page's own; an empty link is where we are.
    `keys`: what the address may hold, where it is not what the table says; a script may know more of them. What else
    the address holds becomes a notice."""
    here = BY_KEY[key]
    now = channel or channel_of(request)
    library = context_of(request).library
    text = (
        bundle.templates()
        .get_template(template)
        .render(
            page=here,
            pages=PAGES,
            title=title or here.title,
            crumbs=_crumbs(here, crumbs, _keep(request)),
            channel=now,
            channels=[(name, _switch(request, name), name == now) for name in CHANNELS if name in library.channels()],
            keep=_keep(request),
            style=static.url("ridgeline.css"),
            early=static.url("early.js"),
            script=static.url(script),
            body_class=values.pop("body_class", ""),
            notices=[*unknown(request, here.keys if keys is None else keys), *notices],
            **values,
        )
    )
    headers = {"cache-control": "private, no-cache", "vary": "authorization, cookie"}
    return Response(text, status_code=status, media_type="text/html", headers=headers)


def unknown(request: Request, keys: Collection[str]) -> list[str]:
    """A sentence for each thing of the address that no page of this kind has, and for a channel that is none."""
    said = [
        f"“{name}” is not a setting of this page"
        for name in dict.fromkeys(request.query_params)
        if name not in keys and name != "channel"
    ]
    channel = request.query_params.get("channel")
    if "channel" not in keys and channel is not None and channel not in context_of(request).library.channels():
        said.append(f"there is no “{channel}” channel here")
    return said


def problem(request: Request, status: int, said: str) -> Response:
    """A page in the usual frame that says what is wrong and where to go on."""
    message, _, hint = said.partition("\n\nhint: ")
    title = {404: "Not here", 400: "Not understood", 401: "Sign in first", 403: "Not allowed"}.get(status, "It failed")
    values: dict[str, Any] = {"said": message, "hint": hint, "code": status}
    return page(request, "problem.html", "frontier", title=title, status=status, keys=request.query_params, **values)


def _crumbs(here: Page, more: Crumbs, keep: str) -> list[tuple[str, str]]:
    return [(here.title, f"{here.path}{keep}" if more else ""), *more]


def _keep(request: Request) -> str:
    """What a link to another page takes along: the channel, where the reader chose one."""
    channel = request.query_params.get("channel")
    return f"?{urlencode({'channel': channel})}" if channel in CHANNELS else ""


def _switch(request: Request, channel: Channel) -> str:
    """This page in another channel. What names things of this channel stays behind."""
    pairs = [(k, v) for k, v in request.query_params.multi_items() if k not in ("channel", "run", "p", "a", "b")]
    return f"{request.url.path}?{urlencode([('channel', channel), *pairs])}"
