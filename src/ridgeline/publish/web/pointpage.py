"""What the page of one point says: figures, promise and proof, the recipe, the commands, and the list of points."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ridgeline.core.point import Measure, Point
from ridgeline.publish.charts import axes
from ridgeline.publish.charts.data import about, again
from ridgeline.publish.report.picture import number
from ridgeline.publish.web.data import Files, Found, Run
from ridgeline.results.metrics.statistics import STATISTICS

LOG_LINES = 400
LOG_HITS = 50
_FIGURES = (
    ("throughput_per_gpu.total", "Total per GPU", ()),
    ("throughput_per_gpu.output", "Output per GPU", ()),
    ("interactivity", "Interactivity", ("p50", "p90")),
    ("ttft.p50", "TTFT, median", ("ttft.p90", "ttft.p99")),
    ("server_cache_hit", "Prefix hit", ("theoretical_cache_hit",)),
    ("requests", "Requests", ("error_rate",)),
    ("kv_usage.mean", "KV use, mean", ("kv_usage.peak",)),
    ("duration", "Window", ()),
)


def listed(run: Run, point: Point) -> dict[str, Any]:
    """A row of the list."""
    usual = axes.usual([point])
    return {
        "id": point.id,
        "name": point.name,
        "run": run.name,
        "run_id": run.id,
        "source": str(point.source),
        "validity": str(point.validity),
        "reasons": "; ".join(point.reasons),
        "cautions": [caution.code for caution in point.cautions],
        "x": _figure(point, usual["x"]),
        "y": _figure(point, usual["y"]),
        "when": (point.measured_at or run.when)[:16].replace("T", " "),
    }


def page_values(found: Found) -> dict[str, Any]:
    """Everything the template of a point shows."""
    point, run, files = found.point, found.run, found.files
    units = axes.measures([point])
    more = about(point, files.deployment)
    mates = [p for p in found.holding.points(run.id) if (p.line, p.series) == (point.line, point.series)]
    return {
        "point": point,
        "run": run,
        "heading": _heading(point),
        "siblings": [(f"c{mate.concurrency}", mate.id, mate.id == point.id) for mate in sorted(mates, key=_rung)],
        "figures": figures(point),
        "sources": [str(point.source)],
        "proof": proof(files),
        "facts": more["facts"],
        "provenance": more["provenance"],
        "launch": more["launch"],
        "again": again(run.header, point.name),
        "metrics": metrics(point, units),
        "cautions": point.cautions,
        "has_requests": files.records is not None,
        "has_server": files.samples is not None,
        "logs": list(files.logs),
        "chart": _chart_link(found),
    }


def figures(point: Point) -> list[dict[str, Any]]:
    """The summary strip: each number with its unit and a second line, or the reason why there is none."""
    agentic = point.facts.get("scenario") == "agentic-coding"
    out = []
    for key, label, beside in _FIGURES:
        if key == "interactivity":
            first, second = ("p90", "p50") if agentic else ("p50", "p90")
            key, label, beside = (
                f"interactivity.{first}",
                f"Interactivity, {_word(first)}",
                (f"interactivity.{second}",),
            )
        if key not in point.measures:
            continue
        measure = point.measures[key]
        shown = value_and_unit(measure)
        subs = [f"{_word(_part(one))} {value_and_unit(m)[0]} {value_and_unit(m)[1]}".strip()
                for one in beside if (m := point.measures.get(one)) is not None and m.value is not None]  # fmt: skip
        if measure.n and measure.unit in ("s", "tok/s/user"):
            subs.append(f"{measure.n:,} requests")
        out.append(
            {"label": label, "value": shown[0], "unit": shown[1], "sub": " · ".join(subs), "why": measure.reason}
        )
    return out


def value_and_unit(measure: Measure) -> tuple[str, str]:
    """As people read it: ratios in percent, short times in milliseconds; empty where there is no value."""
    value, unit = measure.value, measure.unit
    if value is None:
        return "", ""
    if unit == "ratio":
        return number(100 * value), "%"
    if unit == "s" and 0 < abs(value) < 1:
        return number(1000 * value), "ms"
    return number(value), unit


_ORDER = {"contradicted": 0, "unproven": 1, "confirmed": 2}
_SIGNS = {"==": "=", "!=": "≠", "<=": "≤", ">=": "≥"}
_GLYPHS = {"contradicted": "✕", "unproven": "?", "confirmed": "✓"}


def proof(files: Files) -> dict[str, Any] | None:
    """Promises with what was found: contradicted, unproven, confirmed, in that order; None where none were stored."""
    stored = files.documents.get("proof")
    outcomes: Sequence[Mapping[str, Any]] = stored.get("outcomes", ()) if isinstance(stored, Mapping) else stored or ()
    rows = []
    for outcome in outcomes:
        wanted, stands = outcome.get("expectation", {}), str(outcome.get("stands", "unproven"))
        evidence = list(outcome.get("evidence", ()))
        rows.append(
            {
                "stands": stands,
                "glyph": _GLYPHS.get(stands, "?"),
                "title": str(wanted.get("name", "")).replace("_", " "),
                "promised": f"{_SIGNS.get(op := str(wanted.get('op', '')), op)} {_said(wanted.get('value', ''))} "
                f"{wanted.get('unit', '')}".strip(),
                "message": outcome.get("message", ""),
                "evidence": [_evidence(one) for one in evidence[:6]],
                "more": max(0, len(evidence) - 6),
                "rule": wanted.get("rule", ""),
            }
        )
    if not rows:
        return None
    rows.sort(key=lambda row: (_ORDER.get(str(row["stands"]), 1), str(row["title"])))
    counts = {stands: sum(row["stands"] == stands for row in rows) for stands in _ORDER}
    return {"rows": rows, "counts": counts}


def _evidence(one: Mapping[str, Any]) -> str:
    where = one.get("where") or {}
    place = str(where.get("file", "")).rsplit("/", 1)[-1] + (f":{where['line']}" if where.get("line") else "")
    return _said(one.get("value")) + (f" ({place})" if place else "")


def _said(value: Any) -> str:
    """A figure as people read it, anything else as it is."""
    return number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def metrics(point: Point, units: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every metric with its statistics and its formula card."""
    groups: dict[str, list[str]] = {}
    for key in units:
        groups.setdefault(key.partition(".")[0], []).append(key)
    out = []
    for name, keys in groups.items():
        keys.sort(key=lambda key: STATISTICS.index(_part(key)) if _part(key) in STATISTICS else -1)
        card = axes.describe(keys[0], units[keys[0]])
        values = []
        for key in keys:
            measure = point.measures[key]
            shown, unit = value_and_unit(measure)
            values.append(
                {"part": axes.describe(key, units[key])["part"], "value": shown, "unit": unit, "why": measure.reason}
            )
        out.append({"name": name, "title": card["title"], "card": card, "values": values})
    return out


def log_window(file: Path, start: int, words: str) -> dict[str, Any]:
    """Lines from `start` on, or the first ones that hold `words`. Bounded in lines and in the length of a line."""
    found: list[list[Any]] = []
    with file.open("r", encoding="utf-8", errors="replace") as lines:
        if words:
            low = words.lower()
            hits = ((n, line) for n, line in enumerate(lines) if low in line.lower())
            found = [[n, line.rstrip("\n")[:2000]] for n, line in islice(hits, LOG_HITS)]
        else:
            found = [[n, line.rstrip("\n")[:2000]] for n, line in islice(enumerate(lines), start, start + LOG_LINES)]
    return {"start": start, "lines": found, "more": not words and len(found) == LOG_LINES}


def _figure(point: Point, key: str | None) -> str:
    if key is None:
        return ""
    value, unit = value_and_unit(point.measures[key])
    return f"{value} {unit}".strip()


def _heading(point: Point) -> str:
    facts = point.facts
    words = [str(facts.get("model") or facts.get("model_prefix") or point.name)]
    words += [str(facts["precision"]).upper()] if facts.get("precision") else []
    hardware = str(facts.get("hardware") or "").removesuffix("-emulated").upper()
    on = f"{' '.join(words)} on {point.gpus} × {hardware}" if hardware else " ".join(words)
    arm = facts.get("arm") or point.line.rsplit("/", 1)[-1]
    return f"{on}, {facts.get('framework', '')}, {arm}, concurrency {point.concurrency}"


def _chart_link(found: Found) -> str:
    from ridgeline.publish.charts.data import subject_of
    from ridgeline.publish.web.question import Question, encode

    model, on = subject_of(found.point)
    return (
        f"/?{encode(Question(channel=found.holding.channel, model=model, on=on, run=found.run.id))}&p={found.point.id}"
    )


def _rung(point: Point) -> tuple[int, int, str]:
    return point.concurrency, point.attempt, point.id


def _part(key: str) -> str:
    return key.partition(".")[2]


def _word(part: str) -> str:
    return {"p50": "median", "": "possible"}.get(part, re.sub(r"^p(\d+)$", r"p\1", part))
