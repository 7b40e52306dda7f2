"""Series as a page shows them: a name people read, and a look (colour and shape) that never moves.

In: points. Out: one `Shown` per series key, in the order of the list. The browser never assigns a look.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ridgeline.core.point import Point, Source

SLOTS = 10
_ENGINES = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "trt": "TensorRT-LLM",
    "trtllm": "TensorRT-LLM",
    "atom": "ATOM",
    "emulated": "engine model",
}


class Shown(NamedTuple):
    """One series: `key` as in the points, `slot` 1 to 10 its colour, `shape` 1 to 10 its mark; `overlay`: name of the
    unofficial run it belongs to."""

    key: str
    name: str
    slot: int
    shape: int
    source: str
    precision: str
    overlay: str = ""


def colour_key(point: Point) -> str:
    """hardware/engine/precision[/spec]/source: the series without model and scenario, which one chart never mixes."""
    return point.series.removeprefix(f"{point.facts.get('model_prefix')}/{point.facts.get('scenario_name')}/")


def assign(charts: Iterable[Iterable[str]], known: Mapping[str, int] | None = None) -> dict[str, int]:
    """Look of every key: the one `known` (a catalogue) says, else one with the colour sha256(key) mod 10, else with the
    next colour that is free in every chart the key is part of. Looks 1 to 10 are the ten colours with the shape of the
    same number; 11 to 20 the colours again, each with another shape, and so on: no two keys that are seen together
    look the same up to a hundred.

    `charts`: the keys that are seen together, chart by chart. Keys are taken in sorted order, so the answer does not
    depend on the order of the points. Where colours must repeat, charts of more than ten series bear it first.
    """
    beside: dict[str, set[str]] = {}
    close: dict[str, set[str]] = {}  # in charts where ten colours suffice
    for keys in map(set, charts):
        for key in keys:
            beside.setdefault(key, set()).update(keys)
            close.setdefault(key, set()).update(keys if len(keys) <= SLOTS else ())
    given = {key: known[key] for key in beside if known and key in known}
    for key in sorted(beside):
        if key not in given:
            colour = _least_used(key, _colours(close[key], given), _colours(beside[key], given))
            taken = {given[other] for other in beside[key] if other in given}
            layers = (colour + SLOTS * layer for layer in range(SLOTS))
            given[key] = next((look for look in layers if look not in taken), colour)
    return given


def colour_of(look: int) -> int:
    """1 to 10."""
    return (look - 1) % SLOTS + 1


def shape_of(look: int) -> int:
    """1 to 10: the colour's own shape first, then one three further on for each time that the colour repeats (three
    and ten share no divisor, so all ten come up)."""
    layer, colour = divmod(look - 1, SLOTS)
    return (colour + 3 * layer) % SLOTS + 1


def _least_used(key: str, near: Counter[int], far: Counter[int]) -> int:
    """The first colour from the hash's on that is used least nearby, then least at all."""
    first = int(hashlib.sha256(key.encode()).hexdigest(), 16) % SLOTS
    order = [(first + step) % SLOTS + 1 for step in range(SLOTS)]
    return min(order, key=lambda slot: (near[slot], far[slot]))


def _colours(keys: Iterable[str], given: Mapping[str, int]) -> Counter[int]:
    return Counter(colour_of(given[key]) for key in keys if key in given)


def shown(points: Iterable[Point], known: Mapping[str, int] | None = None) -> list[Shown]:
    """Every series of `points`: measured ones first, then by name."""
    first = {point.series: point for point in reversed(list(points))}
    charts: dict[tuple[object, object], list[str]] = {}
    for point in first.values():
        charts.setdefault((point.facts.get("model"), point.facts.get("scenario_name")), []).append(colour_key(point))
    looks = assign(charts.values(), known)
    precisions = {_fact(point, "precision") for point in first.values()}
    names = {key: _name(point, len(precisions) > 1) for key, point in first.items()}
    listed = [
        Shown(key, names[key], colour_of(look), shape_of(look), str(point.source), _fact(point, "precision"))
        for key, point in first.items()
        for look in (looks[colour_key(point)],)
    ]
    order = list(Source)
    return sorted(listed, key=lambda series: (order.index(Source(series.source)), series.name, series.key))


def _name(point: Point, with_precision: bool) -> str:
    hardware, engine = _fact(point, "hardware"), _fact(point, "framework")
    if not hardware or not engine:
        return colour_key(point)
    words = [hardware.removesuffix("-emulated").upper(), _ENGINES.get(engine.lower(), engine)]
    words += [_fact(point, "precision").upper()] if with_precision else []
    speculation = _fact(point, "spec_decoding")
    return " · ".join(words) + (f" + {speculation.upper()}" if speculation not in ("", "none") else "")


def _fact(point: Point, name: str) -> str:
    return str(point.facts.get(name) or "")
