"""Static files: scripts and sheets joined once at start, under names that carry their hash. A request's path is looked
up in a table of what exists; it never becomes a path of the file system.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import NamedTuple

from ridgeline.publish.charts import bundle
from ridgeline.publish.charts.tokens import colours

SHEETS = (*bundle.STYLES, "web.css")
SCRIPTS = (
    "early.js",
    "page_plain.js",
    "page_frontier.js",
    "page_runs.js",
    "page_point.js",
    "page_data.js",
    "page_compare.js",
)
_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}


class Static(NamedTuple):
    """One file as it is sent. `lasting`: its name says its content, so it may be kept for good."""

    body: bytes
    kind: str
    lasting: bool


@cache
def files() -> dict[str, Static]:
    """Everything under /static/ by name."""
    made = {f"{_hashed(name, bundle.script(name))}": bundle.script(name) for name in SCRIPTS}
    made[_hashed("ridgeline.css", bundle.style_sheet(SHEETS))] = bundle.style_sheet(SHEETS)
    found = {name: Static(text.encode(), _TYPES[name.rpartition(".")[2]], True) for name, text in made.items()}
    return {**found, "icon.svg": Static(icon().encode(), _TYPES["svg"], False)}


@cache
def url(name: str) -> str:
    """Where a script or the sheet is found."""
    text = bundle.style_sheet(SHEETS) if name.endswith(".css") else bundle.script(name)
    return f"/static/{_hashed(name, text)}"


def icon() -> str:
    """The mark of the product, for tabs."""
    stroke = colours()["accent"].light
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" '
        f'stroke="{stroke}" stroke-linecap="round"><path d="M2 5c3 0 4.500 1.500 6 5s4 6 14 6.500" stroke-width="3"/>'
        '<circle cx="8.600" cy="11" r="3" fill="white" stroke-width="2.400"/></svg>'
    )


def _hashed(name: str, text: str) -> str:
    stem, _, kind = name.rpartition(".")
    return f"{stem}.{hashlib.sha256(text.encode()).hexdigest()[:12]}.{kind}"
