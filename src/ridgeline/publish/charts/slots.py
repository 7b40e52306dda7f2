"""Series as a page shows them: a name people read, and a slot (colour and shape) that never moves.

In: points. Out: one `Shown` per series key, in the order of the list. The browser never assigns a slot.
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
    """One series: `key` as in the points, `slot` 1 to 10; `overlay`: name of the unofficial run it belongs to."""

    key: str
    name: str
    slot: int
    source: str
    precision: str
    overlay: str = ""


def colour_key(point: Point) -> str:
    """hardware/engine/precision[/spec]/source: the series without model and scenario, which one chart never mixes."""
    return point.series.removeprefix(f"{point.facts.get('model_prefix')}/{point.facts.get('scenario_name')}/")


def assign(charts: Iterable[Iterable[str]], known: Mapping[str, int] | None = None) -> dict[str, int]:
    """Slot of every key: the one `known` (a catalogue) says, else sha256(key) mod 10, else the next one that is free
    in every chart the key is part of.

    `charts`: the keys that are seen together, chart by chart. Keys are taken in sorted order, so the answer does not
    depend on the order of the points. Where slots must repeat, charts of more than ten series bear it first.
    """
    beside: dict[str, set[str]] = {}
    close: dict[str, set[str]] = {}  # in charts where ten slots suffice
    for keys in map(set, charts):
        for key in keys:
            beside.setdefault(key, set()).update(keys)
            close.setdefault(key, set()).update(keys if len(keys) <= SLOTS else ())
    given = {key: known[key] for key in beside if known and key in known}
    for key in sorted(beside):
        if key not in given:
            given[key] = _least_used(key, _slots(close[key], given), _slots(beside[key], given))
    return given


def _least_used(key: str, near: Counter[int], far: Counter[int]) -> int:
    """The first slot from the hash's on that is used least nearby, then least at all."""
    first = int(hashlib.sha256(key.encode()).hexdigest(), 16) % SLOTS
    order = [(first + step) % SLOTS + 1 for step in range(SLOTS)]
    return min(order, key=lambda slot: (near[slot], far[slot]))


def _slots(keys: Iterable[str], given: Mapping[str, int]) -> Counter[int]:
    return Counter(given[key] for key in keys if key in given)


def shown(points: Iterable[Point], known: Mapping[str, int] | None = None) -> list[Shown]:
    """Every series of `points`: measured ones first, then by name."""
    first = {point.series: point for point in reversed(list(points))}
    charts: dict[tuple[object, object], list[str]] = {}
    for point in first.values():
        charts.setdefault((point.facts.get("model"), point.facts.get("scenario_name")), []).append(colour_key(point))
    slots = assign(charts.values(), known)
    precisions = {_fact(point, "precision") for point in first.values()}
    names = {key: _name(point, len(precisions) > 1) for key, point in first.items()}
    listed = [
        Shown(key, names[key], slots[colour_key(point)], str(point.source), _fact(point, "precision"))
        for key, point in first.items()
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
