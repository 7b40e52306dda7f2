"""One self-contained HTML file from page data: no request leaves it, and nothing in the data can become code.

Styles and the script are inlined and named by hash in the page's policy, so that even a string that broke out of its
place would not run. Data travels as JSON with `<`, `>` and `&` escaped; the script only ever makes text nodes of it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2

from ridgeline import __version__
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.point import Point, Source
from ridgeline.publish.charts import bundle
from ridgeline.publish.charts.data import packed, page_data
from ridgeline.publish.charts.tokens import colours
from ridgeline.publish.charts.words import heading, plain
from ridgeline.publish.report.picture import number, picture
from ridgeline.results.frontier import Exclusion
from ridgeline.results.runfolder import Failure, RunFolder, RunHeader


def render_report(
    points: Sequence[Point],
    failures: Iterable[Failure | Exclusion],
    *,
    header: RunHeader,
    title: str = "",
    deployments: Mapping[str, Deployment] | None = None,
) -> str:
    """The page as HTML text. `title`: shown in the bar and as the document's title (default: the run's name).
    `deployments`: run key to what was started, for the launch commands."""
    data = page_data(points, failures, header=header, deployments=deployments)
    return render_page(data, header=header, title=title or header.name or "Report")


def write_report(
    points: Sequence[Point],
    failures: Iterable[Failure | Exclusion],
    *,
    header: RunHeader,
    out: Path,
    title: str = "",
    deployments: Mapping[str, Deployment] | None = None,
) -> Path:
    """Write the page to `out` in one step; returns `out`. Raises EnvironmentFailed when it cannot be written."""
    return write_text(out, render_report(points, failures, header=header, title=title, deployments=deployments))


def write_run_report(run: RunFolder, out: Path | None = None, *, title: str = "") -> Path:
    """The report of everything in a run folder, to `out` (default: report.html inside the run)."""
    points = run.points()
    return write_report(
        points,
        run.failures(),
        header=run.header,
        title=title,
        deployments=deployments_of(run, points),
        out=out or run.path / "report.html",
    )


def deployments_of(run: RunFolder, points: Iterable[Point]) -> dict[str, Deployment]:
    """Run key to deployment, where one was stored."""
    found = {point.run_key: run.deployment_of(point.run_key) for point in points}
    return {key: deployment for key, deployment in found.items() if deployment is not None}


def write_text(out: Path, text: str) -> Path:
    """A reader sees the old file or the new one, never half of it."""
    beside = out.with_name(f".{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(out)
    except OSError as error:
        raise EnvironmentFailed(f"cannot write {out}: {error.strerror}", hint="name another place with -o") from error
    return out


def render_page(data: Mapping[str, Any], *, header: RunHeader, title: str) -> str:
    """The page around `data` (see data.page_data)."""
    style, script = bundle.style_sheet(), bundle.script()
    subject = data["subjects"][0] if data["subjects"] else None
    x, y = (subject["x"], subject["y"]) if subject else (None, None)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return _template().render(
        policy=policy,
        title=title,
        version=__version__,
        style=style,
        script=script,
        icon=_icon(),
        question=_question(data),
        banner=_banner(data),
        picture=_data_uri(picture(data, x, y)) if x and y else "",
        x_title=data["measures"][x]["label"] if x else "x",
        y_title=data["measures"][y]["label"] if y else "y",
        rows=[_row(point, x, y) for point in data["points"]],
        about=_about(header),
        commands=data["run"]["commands"],
        foot=f"Frontiers were computed by Ridgeline {__version__}, one per series; sources never mix. "
        "This page needs no network: everything it shows is inside the file.",
        data=safe_json(packed(data)),
    )


def safe_json(data: object) -> str:
    """JSON that may stand inside a script element: it holds no `<`, `>` or `&`, and only ASCII."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _template() -> jinja2.Template:
    return bundle.templates().get_template("report.html")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data_uri(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def _icon() -> str:
    stroke = colours()["accent"].light
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" '
        f'stroke="{stroke}" stroke-linecap="round"><path d="M2 5c3 0 4.500 1.500 6 5s4 6 14 6.500" stroke-width="3"/>'
        '<circle cx="8.600" cy="11" r="3" fill="white" stroke-width="2.400"/></svg>'
    )
    return "data:image/svg+xml," + quote(svg)


def _question(data: Mapping[str, Any]) -> str:
    if not data["subjects"]:
        return "This run has no point yet."
    subject, measures = data["subjects"][0], data["measures"]
    if not subject["x"] or not subject["y"]:
        return f"{subject['model']} on {subject['said']}"
    y, x = measures[subject["y"]]["said"], measures[subject["x"]]["said"]
    return f"Show {y} against {x} for {subject['model']} on {subject['said']}."


_BANNERS = {
    Source.EMULATED: "No GPU took part in this run. Real requests were answered by a model of the engine, so every "
    "number here is a statement about that model. None of it can be published.",
    Source.PREDICTED: "Nothing was started for this run. Every number is a prediction in virtual time, and none of it "
    "can be published.",
}


def _banner(data: Mapping[str, Any]) -> dict[str, str] | None:
    """Said first thing in the body when no point was measured."""
    sources = sorted({point["source"] for point in data["points"]})
    if not sources or "measured" in sources:
        return None
    if len(sources) > 1:
        return {"word": " + ".join(sources), "text": "No point of this run was measured, and none can be published."}
    return {"word": sources[0], "text": _BANNERS[Source(sources[0])]}


def _row(point: Mapping[str, Any], x: str | None, y: str | None) -> dict[str, str]:
    """A point in the plain table that stands in the file for readers without scripts."""
    state = point["source"] if point["validity"] == "valid" else f"{point['source']}, {point['validity']}"

    def value(key: str | None) -> str:
        found = point["v"].get(key)
        return "not measured" if found is None else number(found)

    return {"name": point["name"], "state": state, "x": value(x), "y": value(y)}


def _about(header: RunHeader) -> list[tuple[str, str]]:
    rows = [("Run", header.name), ("Started", header.created_at)]
    rows += [("Resumed", ", ".join(header.resumed_at))] if header.resumed_at else []
    rows += [("Written by", f"Ridgeline {header.ridgeline}")] if header.ridgeline else []
    for facts in (header.settings, header.host):
        rows += [(heading(name), plain(value)) for name, value in facts.items() if value is not None]
    return [(name, text) for name, text in rows if text]
