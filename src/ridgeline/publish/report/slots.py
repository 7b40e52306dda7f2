"""Series as a page shows them: a name people read, and a slot (colour and shape) that never moves.

In: points. Out: one `Shown` per series key, in the order of the list. The browser never assigns a slot.
"""

from __future__ import annotations

import hashlib
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
    """One series: `key` as in the points, `slot` 1 to 10."""

    key: str
    name: str
    slot: int
    source: str
    precision: str


def colour_key(point: Point) -> str:
    """hardware/engine/precision[/spec]/source: the series without model and scenario, which one chart never mixes."""
    return point.series.removeprefix(f"{point.facts.get('model_prefix')}/{point.facts.get('scenario_name')}/")


def assign(keys: Iterable[str], known: Mapping[str, int] | None = None) -> dict[str, int]:
    """Slot of every key: the one `known` (a catalogue) says, else sha256(key) mod 10, else the next free one.

    Keys are taken in sorted order, so the answer does not depend on the order of the points. With more than ten keys
    slots repeat.
    """
    wanted = sorted(set(keys))
    given = {key: known[key] for key in wanted if known and key in known}
    used = set(given.values())
    for key in wanted:
        if key in given:
            continue
        if len(used) >= SLOTS:
            used.clear()
        slot = int(hashlib.sha256(key.encode()).hexdigest(), 16) % SLOTS + 1
        while slot in used:
            slot = slot % SLOTS + 1
        given[key] = slot
        used.add(slot)
    return given


def shown(points: Iterable[Point], known: Mapping[str, int] | None = None) -> list[Shown]:
    """Every series of `points`: measured ones first, then by name."""
    first = {point.series: point for point in reversed(list(points))}
    slots = assign((colour_key(point) for point in first.values()), known)
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
    words = [hardware.upper(), _ENGINES.get(engine.lower(), engine)]
    words += [_fact(point, "precision").upper()] if with_precision else []
    speculation = _fact(point, "spec_decoding")
    return " · ".join(words) + (f" + {speculation.upper()}" if speculation not in ("", "none") else "")


def _fact(point: Point, name: str) -> str:
    return str(point.facts.get(name) or "")
