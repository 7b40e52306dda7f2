"""What a page knows, as plain JSON data: points, series, measures, and the frontier of every offered pair of axes.

In: points, cells that gave none, the run's header. Out: one dictionary, the same for a file and for a server. It holds
no formula: membership comes from `results.frontier`, words and formulas of metrics from the registry in
`results.metrics`. Formats of the keys: docs in assets/frontier.js, which reads them.
"""

from __future__ import annotations

import glob
import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ridgeline.core.deployment import Deployment
from ridgeline.core.point import Point
from ridgeline.publish.charts import axes, slots
from ridgeline.publish.charts.words import heading, plain
from ridgeline.results.frontier import Exclusion, frontier
from ridgeline.results.repeats import Folded, folded
from ridgeline.results.runfolder import Failure, RunHeader

SIGNIFICANT = 7  # digits kept of a value: far below any noise, and a third of the file's size


def page_data(
    points: Sequence[Point],
    failures: Iterable[Failure | Exclusion],
    *,
    header: RunHeader,
    deployments: Mapping[str, Deployment] | None = None,
    known_slots: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Everything the page shows; repeats of a cell are one point with bars. `deployments`: run key to what was started.
    `known_slots`: see slots.assign."""
    together = folded(points)
    points = together.points
    shown = slots.shown(points, known_slots)
    place = {series.key: number for number, series in enumerate(shown)}
    subjects = subjects_of(points)
    number = {subject["id"]: at for at, subject in enumerate(subjects)}
    keys = axes.measures(points)
    offered = axes.offered(points)
    for subject in subjects:
        subject.update(axes.usual([point for point in points if subject_of(point) == subject["id"]]))
    started = deployments or {}
    return {
        "models": list(dict.fromkeys(subject["model"] for subject in subjects)),
        "subjects": subjects,
        "series": [series._asdict() for series in shown],
        "measures": {key: axes.describe(key, unit) for key, unit in keys.items()},
        "axes": {"x": list(offered.x), "y": list(offered.y)},
        "headline": axes.headline(keys),
        "columns": axes.columns(keys),
        "points": [
            {
                **row(point, keys),
                "bars": together.bars.get(point.id, {}),
                **about(point, started.get(point.run_key)),
                "s": place[point.series],
                "subject": number[subject_of(point)],
                "again": again(header, point.name),
            }
            for point in points
        ],
        "fronts": fronts(points, offered, together),
        "absent": [absent_row(failure, points, number) for failure in failures],
        "run": {"name": header.name, "commands": commands(header)},
    }


def fronts(points: Sequence[Point], offered: axes.Offered, together: Folded | None = None) -> dict[str, Any]:
    """For each pair `x|y`: `lines`, the positions of every series' frontier points by rising x; `by`, for every point
    the position of its witness or -1; `near`, the dominated points that are within noise of the frontier (by the range
    of their repeats, where there are any)."""
    at = {point.id: number for number, point in enumerate(points)}
    found = {}
    for x in offered.x:
        for y in offered.y:
            bars = together.interval if together and together.bars else None
            answer = frontier(points, axes.axis_of(x), axes.axis_of(y), mix_sources=True, interval=bars)
            witness = answer.dominated_by
            found[f"{x}|{y}"] = {
                "lines": [[at[id] for id in series.frontier] for series in answer.series if series.frontier],
                "by": [at[witness[point.id]] if point.id in witness else -1 for point in points],
                "near": sorted(at[id] for series in answer.series for id in series.within_noise),
            }
    return found


def commands(header: RunHeader) -> list[dict[str, str]]:
    """How to get the run again: `label` and `text` of each command."""
    return [{"label": "Run all of it again", "text": shlex.join(header.command)}] if header.command else []


_CHOOSING = ("--cells", "--out")  # of the verbs that run cells: which ones, and where to


def again(header: RunHeader, name: str) -> str:
    """The command that runs one cell again, beside the run it came from; empty when the run recorded no command that
    chooses cells."""
    if header.command[:1] != ("ridgeline",) or header.command[1:2] not in (("sweep",), ("simulate",)):
        return ""
    words: list[str] = []
    rest = iter(header.command)
    for word in rest:
        if word in _CHOOSING:
            next(rest, None)
        elif not word.startswith(tuple(f"{option}=" for option in _CHOOSING)):
            words.append(word)
    return shlex.join([*words, "--cells", glob.escape(name), "--out", "runs/again"])


# What most points are; frontier.js has the same.
_PLAIN: dict[str, Any] = {"validity": "valid", "repeats": 1, "reasons": [], "cautions": [], "why": {}, "bars": {}}


def packed(data: Mapping[str, Any], keys: Sequence[str] = ()) -> dict[str, Any]:
    """`data` for the wire: values as arrays in the order of `keys` (default: every measure; null: missing), reasons by
    number, and of a point nothing that its line, its series or the script's defaults say. The script unpacks it. A
    quarter of the size: reasons repeat, and a point has some two hundred measures."""
    keys = list(keys or data["measures"])
    reasons: dict[str, int] = {}
    points = []
    for point in data["points"]:
        why = [[keys.index(key), reasons.setdefault(text, len(reasons))] for key, text in point["why"].items()]
        bars = [[keys.index(key), *_short(*bar)] for key, bar in point.get("bars", {}).items() if key in keys]
        values = [point["v"].get(key) for key in keys]
        plain = {name: value for name, value in point.items() if name not in _PLAIN or value != _PLAIN[name]}
        if plain["name"] == f"{point['line']}/c{point['c']}":
            del plain["name"]
        if plain["source"] == data["series"][point["s"]]["source"]:
            del plain["source"]
        points.append({**plain, "v": values, **({"why": why} if why else {}), **({"bars": bars} if bars else {})})
    return {**data, "keys": keys, "points": points, "reasons": list(reasons)}


def subject_of(point: Point) -> tuple[str, str]:
    """What one chart is about: model and workload."""
    model = str(point.facts.get("model") or point.facts.get("model_prefix") or "an unnamed model")
    return model, str(point.facts.get("scenario_name") or point.facts.get("scenario") or "an unnamed workload")


def subjects_of(points: Sequence[Point]) -> list[dict[str, Any]]:
    """One per model and workload, what one chart is about: the one with the most points first."""
    size = Counter(subject_of(point) for point in points)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for point in points:
        key = subject_of(point)
        found.setdefault(key, {"id": key, "model": key[0], "workload": key[1], "said": said(point), "n": size[key]})
    return [found[key] for key in sorted(found, key=lambda key: (-size[key], key))]


def said(point: Point) -> str:
    """A point's workload inside a sentence."""
    if point.facts.get("scenario") == "agentic-coding":
        return "recorded agent sessions"
    isl, osl = point.facts.get("isl"), point.facts.get("osl")
    return f"{_tokens(isl)} in, {_tokens(osl)} out" if isl and osl else subject_of(point)[1]


def _tokens(count: Any) -> str:
    return f"{count // 1024}k" if isinstance(count, int) and count % 1024 == 0 else str(count)


def row(point: Point, keys: Iterable[str]) -> dict[str, Any]:
    """What plot, list and table need of a point: who it is, its state, its values of `keys`, and why one is missing."""
    values: dict[str, float] = {}
    why: dict[str, str] = {}
    for key in keys:
        measure = point.measures.get(key)
        if measure is None:
            continue
        if measure.value is None:
            why[key] = measure.reason or "no reason was recorded"
        elif not math.isfinite(measure.value):
            why[key] = f"The value is {measure.value}: not a finite number."
        else:
            [values[key]] = _short(measure.value)
    return {
        "id": point.id,
        "name": point.name,
        "line": point.line,
        "arm": str(point.facts.get("arm") or point.line.rsplit("/", 1)[-1]),
        "source": str(point.source),
        "validity": str(point.validity),
        "c": point.concurrency,
        "gpus": point.gpus,
        "repeats": int(point.facts.get("repeats") or 1),
        "reasons": list(point.reasons),
        "cautions": [{"code": c.code, "message": c.message, "hint": c.hint} for c in point.cautions],
        "v": values,
        "why": why,
    }


def _short(*values: float) -> list[float]:
    return [float(f"{value:.{SIGNIFICANT}g}") for value in values]


def about(point: Point, deployment: Deployment | None) -> dict[str, Any]:
    """What only the drawer asks: the recipe, where the point came from, what was started for it."""
    return {
        "facts": _facts(point),
        "provenance": _provenance(point),
        "launch": _launch(deployment),
    }


_SAID_ELSEWHERE = ("model_prefix", "scenario_name", "arm", "isl", "osl", "benchmark", "repeats", "price_sheet")


def _facts(point: Point) -> list[list[str]]:
    rows = [(name, value) for name, value in point.facts.items() if name not in _SAID_ELSEWHERE and value is not None]
    return [[heading(name), plain(value)] for name, value in rows if value not in (False, "none", 0, "")]


def _provenance(point: Point) -> list[list[str]]:
    rows: list[tuple[str, Any]] = [
        ("cell", point.name),
        ("measured at", point.measured_at or "not recorded"),
        ("attempt", point.attempt),
        ("run key", point.run_key),
        ("cell fingerprint", point.cell_fingerprint),
        *provenance(point).items(),
    ]
    return [[heading(name), plain(value)] for name, value in rows if value is not None]


def provenance(point: Point) -> dict[str, Any]:
    """Where a point came from. Of the trace its name: its digest stands beside, and where it lay on somebody's disk
    helps nobody."""
    found = dict(point.provenance)
    if isinstance(trace := found.get("trace"), str):
        found["trace"] = trace.rstrip("/").rsplit("/", 1)[-1]
    return found


def _launch(deployment: Deployment | None) -> list[dict[str, Any]]:
    """Every service with its environment and arguments, each with where it was written."""
    if deployment is None:
        return []
    return [
        {
            "service": service.name,
            "env": [[f"{name}={item}", _origin(item.origin)] for name, item in service.env],
            "argv": [[shlex.quote(str(item)), _origin(item.origin)] for item in service.argv],
        }
        for service in deployment.services
    ]


def _origin(where: object) -> str:
    """The last part of a path is enough to recognise it, and says nothing about somebody's disk."""
    return "" if where is None else str(where).rsplit("/", 1)[-1]


def absent_row(failure: Failure | Exclusion, points: Sequence[Point], number: Mapping[Any, int]) -> dict[str, Any]:
    gone = failure.exclusion if isinstance(failure, Failure) else failure
    line, _, rung = gone.name.rpartition("/")
    scope = line.rpartition("/")[0]
    beside = next((point for point in points if point.line.rpartition("/")[0] == scope and scope), None)
    return {
        "code": gone.code,
        "what": line or gone.name,
        "name": rung,
        "reason": gone.reason,
        "subject": None if beside is None else number[subject_of(beside)],
    }
