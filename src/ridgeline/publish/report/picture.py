"""A still picture of one frontier chart: SVG for a README or a comment, in the tokens of the page.

In: page data (see data.py) and a pair of axes. Out: SVG text that follows the reader's light or dark theme, with
colours as sRGB so that viewers other than browsers draw it too.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from html import escape
from typing import Any, NamedTuple

import numpy as np

from ridgeline.core.point import Source
from ridgeline.publish.charts import bundle
from ridgeline.publish.charts.tokens import colours, mix

WIDTH, HEIGHT = 960, 540
LEFT, RIGHT, TOP, BOTTOM = 70, 92, 108, 58
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
# Advance widths of a grotesque at 12 px, by class of character: a picture has no font to measure with.
_NARROW, _WIDE = set("iljtfrI.,:;|!'()[]/ ·-"), set("mwMWGOQ%@")

Spot = tuple[float, float]
_PLACES = 60  # along a line where its name is tried


class _Plane(NamedTuple):
    x: Callable[[float], float]
    y: Callable[[float], float]
    x_ticks: Sequence[float]
    y_ticks: Sequence[float]


def picture(data: Mapping[str, Any], x: str, y: str, *, subject: int = 0) -> str:
    """SVG text of the chart of `subject` on the axes `x` and `y` (measure keys offered in `data`)."""
    points, series = data["points"], data["series"]
    drawn = [
        (index, point)
        for index, point in enumerate(points)
        if point["subject"] == subject
        and point["validity"] != "invalid"
        and point["v"].get(x) is not None
        and point["v"].get(y) is not None
    ]
    front = data["fronts"].get(f"{x}|{y}", {"lines": []})
    lines = [line for line in front["lines"] if points[line[0]]["subject"] == subject]
    on = {index for line in lines for index in line}
    plane = _plane([p["v"][x] for _, p in drawn], [p["v"][y] for _, p in drawn])
    spot = {index: (plane.x(point["v"][x]), plane.y(point["v"][y])) for index, point in drawn}
    out = [*_axes(plane, data["measures"][x], data["measures"][y]), *_hint(data["measures"][x], data["measures"][y])]
    taken = list(spot.values())
    for line in lines:
        taken += _along([spot[index] for index in line])
    for index, point in drawn:
        if index not in on:
            out.append(_mark(series[point["s"]], spot[index], 3.6, point["validity"], "off"))
    for line in lines:
        out += _line(series[points[line[0]]["s"]], [spot[index] for index in line])
    for line in lines:
        one = series[points[line[0]]["s"]]
        out += [_mark(one, spot[index], 5, points[index]["validity"], "on") for index in line]
        out.append(_label(one, [spot[index] for index in line], taken))
    return _sheet(_words(data, subject, x, y, drawn), out, lines and {points[line[0]]["s"] for line in lines}, series)


def text_width(text: str, size: float = 12, weight: int = 600) -> float:
    """About how wide `text` is, in px."""
    units = sum(0.3 if c in _NARROW else 0.86 if c in _WIDE else 0.66 if c.isupper() else 0.57 for c in text)
    return units * size * (1.03 if weight >= 600 else 1.0)


def _plane(xs: Sequence[float], ys: Sequence[float]) -> _Plane:
    x_top, y_top = max([*xs, 0]) * 1.05 or 1, max([*ys, 0]) * 1.07 or 1
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    return _Plane(
        lambda value: LEFT + value / x_top * (right - LEFT),
        lambda value: bottom - value / y_top * (bottom - TOP),
        _ticks(x_top, 8),
        _ticks(y_top, 6),
    )


def _ticks(top: float, count: int) -> list[float]:
    raw = top / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in _STEPS if m * power >= raw * 0.999)
    return [round(step * k, 12) for k in range(int(top / step + 1e-9) + 1)]


number = bundle.figure


def _tick(value: float, top: float) -> str:
    return f"{number(value / 1000)}k" if top >= 10_000 and value else number(value)


def _axes(plane: _Plane, x: Mapping[str, Any], y: Mapping[str, Any]) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    out = []
    for tick in plane.y_ticks:
        at = plane.y(tick)
        out.append(f'<path d="M{LEFT},{at:.1f}H{right}" class="{"axis" if tick == 0 else "tick"}"/>')
        out.append(f'<text x="{LEFT - 10}" y="{at + 4:.1f}" text-anchor="end">{_tick(tick, plane.y_ticks[-1])}</text>')
    for tick in plane.x_ticks:
        at = plane.x(tick)
        out.append(f'<path d="M{at:.1f},{bottom}v4" class="axis"/>')
        out.append(f'<text x="{at:.1f}" y="{bottom + 19}" text-anchor="middle">{_tick(tick, plane.x_ticks[-1])}</text>')
    for at, anchor, text, axis in ((20, "start", TOP - 20, y), (right, "end", HEIGHT - 12, x)):
        out.append(
            f'<text x="{at}" y="{text}" text-anchor="{anchor}"><tspan class="title">{escape(axis["label"])}</tspan>'
            f"<tspan>&#160;&#160;{escape(axis['unit'])}</tspan></text>"
        )
    return out


def _hint(x: Mapping[str, Any], y: Mapping[str, Any]) -> list[str]:
    if not x["better"] or not y["better"]:
        return []
    to_right, up = x["better"] == "higher", y["better"] == "higher"
    gx, gy = (WIDTH - RIGHT - 8 if to_right else LEFT + 12), (TOP + 14 if up else HEIGHT - BOTTOM - 14)
    dx, dy = (1 if to_right else -1), (-1 if up else 1)
    anchor = "end" if to_right else "start"
    arrow = f"M{gx - dx * 12},{gy - dy * 5}L{gx},{gy + dy * 6}M{gx - dx * 7},{gy + dy * 6}H{gx}V{gy - dy}"
    return [
        f'<text x="{gx - dx * 20}" y="{gy + 4}" text-anchor="{anchor}" class="better">better</text>',
        f'<path d="{arrow}" class="arrow"/>',
    ]


def _path(spots: Sequence[Spot]) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in spots)


def _line(series: Mapping[str, Any], spots: Sequence[Spot]) -> list[str]:
    d, slot = _path(spots), series["slot"]
    if series["source"] == "measured":
        return [f'<path d="{d}" class="line s{slot}"/>']
    return [f'<path d="{d}" class="ribbon" stroke="url(#h{slot})"/>', f'<path d="{d}" class="line dots s{slot}"/>']


def _mark(series: Mapping[str, Any], at: Spot, r: float, validity: str, kind: str) -> str:
    x, y = at
    corners = _shapes()[(series["shape"] - 1) % len(_shapes())]["corners"]
    if corners is None:
        d = f"M{x - r:.2f},{y:.2f}a{r},{r} 0 1 0 {2 * r},0a{r},{r} 0 1 0 {-2 * r},0Z"
    else:
        d = "M" + "L".join(f"{x + r * px:.2f},{y + r * py:.2f}" for px, py in corners) + "Z"
    slot = series["slot"]
    if validity == "degraded":
        return f'<path d="{d}M{x - 6:.1f},{y + 6:.1f}l12,-12" class="hollow bad"/>'
    if series["source"] == "measured":
        return f'<path d="{d}" class="mark {kind} f{slot}"/>'
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.5" class="f{slot}"/>' if series["source"] == "predicted" else ""
    return f'<g class="{kind}"><path d="{d}" class="hollow s{slot}"/>{dot}</g>'


@cache
def _shapes() -> list[dict[str, Any]]:
    return list(json.loads(bundle.asset("shapes.json")))


def _along(spots: Sequence[Spot]) -> list[Spot]:
    out: list[Spot] = []
    for (ax, ay), (bx, by) in itertools.pairwise(spots):
        steps = max(1, int(math.hypot(bx - ax, by - ay) / 6))
        out += [(ax + (bx - ax) * k / steps, ay + (by - ay) * k / steps) for k in range(steps + 1)]
    return out


def _label(series: Mapping[str, Any], spots: Sequence[Spot], taken: list[Spot]) -> str:
    """The name at the line's end, or beside the line where it is emptiest."""
    tag = "" if series["source"] == "measured" else str(series["source"])
    width = text_width(series["name"]) + (text_width(tag) + 20 if tag else 0)
    ex, ey = spots[-1]

    near = np.array([spot for spot in taken if spot != (ex, ey)], dtype=np.float64).reshape(-1, 2)

    def air(box: Spot) -> float:
        x, y = box
        across = np.maximum(np.maximum(x - near[:, 0], near[:, 0] - x - width), 0)
        down = np.maximum(np.maximum(y - near[:, 1], near[:, 1] - y - 14), 0)
        edges = (y - TOP, HEIGHT - BOTTOM - 18 - y, WIDTH - 6 - x - width, x - LEFT)
        return min(*edges, float(np.hypot(across, down).min(initial=14)), 14)

    tries = [(ex + 12, ey - 7)]
    path = _along(spots) or list(spots)
    for x, y in path[:: max(1, len(path) // _PLACES)]:
        tries += [(x + 9, y - 22), (x - width - 9, y + 9), (x + 9, y + 9), (x - width - 9, y - 22)]
    first = air(tries[0])
    x, y = tries[0] if first >= 4 else max(tries, key=air)
    taken += [(x + step, y + dy) for step in range(0, int(width), 8) for dy in (0, 7, 14)]
    out = f'<text x="{x:.1f}" y="{y + 11:.1f}" class="name t{series["slot"]}">{escape(series["name"])}</text>'
    if tag:
        at, wide = x + text_width(series["name"]) + 8, text_width(tag) + 12
        out += (
            f'<rect x="{at:.1f}" y="{y - 2:.1f}" width="{wide:.1f}" height="18" rx="4" class="tag s{series["slot"]}"/>'
            f'<text x="{at + 6:.1f}" y="{y + 11:.1f}" class="name t{series["slot"]}">{escape(tag)}</text>'
        )
    return out


def _words(data: Mapping[str, Any], subject: int, x: str, y: str, drawn: Sequence[Any]) -> tuple[str, str]:
    of = data["subjects"][subject] if data["subjects"] else {"model": "no model", "said": "no workload"}
    upper = str(data["measures"][y]["said"])
    head = f"{upper[:1].upper()}{upper[1:]} against {data['measures'][x]['said']}"
    present = {point["source"] for _, point in drawn}
    kinds = " + ".join(source for source in Source if source in present) or "no"
    return head, f"{of['model']} on {of['said']}, {len(drawn)} {kinds} points"


def _sheet(words: tuple[str, str], body: Sequence[str], used: Any, series: Sequence[Mapping[str, Any]]) -> str:
    slots = sorted({one["slot"] for one in series})
    hatched = sorted({one["slot"] for one in series if one["source"] != "measured"})
    patterns = "".join(
        f'<pattern id="h{slot}" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<path d="M0,0V5" class="s{slot}" stroke-width="2" opacity=".36"/></pattern>'
        for slot in hatched
    )
    style = f"{_FORMS}{_theme(0, slots)}@media (prefers-color-scheme:dark){{{_theme(1, slots)}}}"
    head, sub = (escape(word) for word in words)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{head}: {sub}"><style>{style}</style><defs>{patterns}</defs>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" class="paper"/>'
        f'<text x="20" y="32" class="head">{head}</text><text x="20" y="52">{sub}</text>{"".join(body)}</svg>\n'
    )


_FORMS = (
    'text{font:12px Inter,system-ui,"Segoe UI",Roboto,sans-serif;font-variant-numeric:tabular-nums}'
    ".head{font-size:15px;font-weight:600}.title{font-weight:600}.name,.better{font-weight:600}"
    ".line,.arrow,.ribbon,.hollow,.tick,.axis{fill:none}.line{stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
    ".dots{stroke-dasharray:.5 5.5}.ribbon{stroke-width:16;stroke-linejoin:round}.mark{stroke-width:1.2}"
    ".hollow{stroke-width:1.7}.off{opacity:.36}.arrow{stroke-width:1.6;stroke-linecap:round}.tag{stroke-dasharray:3 2}"
)


def _theme(side: int, slots: Sequence[int]) -> str:
    def of(name: str) -> str:
        return colours()[name][side]

    surface, ink = of("surface"), of("ink")
    rules = [
        f"text{{fill:{of('ink-2')}}}.head,.title{{fill:{ink}}}.better{{fill:{of('accent')}}}",
        f".paper{{fill:{surface}}}.tick{{stroke:{of('grid')}}}.axis{{stroke:{of('line-2')}}}",
        f".arrow{{stroke:{of('accent')}}}.mark{{stroke:{surface}}}.hollow,.tag{{fill:{surface}}}",
        f".bad{{stroke:{of('bad')}}}",
    ]
    for slot in slots:
        colour = of(f"s{slot}")
        rules.append(
            f".s{slot}{{stroke:{colour}}}.f{slot}{{fill:{colour}}}.name.t{slot}{{fill:{mix(colour, ink, 0.66)}}}"
        )
    return "".join(rules)
