"""Facts as people read them: a heading for a key, a line for a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def heading(name: str) -> str:
    """`warmup_per_lane` becomes `Warmup per lane`; a unit at the end is set apart: `duration_s`, `Duration, s`."""
    stem = name.removesuffix("_s")
    words = stem.replace("_", " ").replace(".", " · ")
    return words[:1].upper() + words[1:] + (", s" if stem != name else "")


def plain(value: Any) -> str:
    """Plain data as one line; what is unset inside a mapping is left out."""
    if isinstance(value, Mapping):
        return " · ".join(f"{name} {plain(item)}" for name, item in value.items() if item not in (None, False))
    if isinstance(value, (list, tuple)):
        return ", ".join(plain(item) for item in value)
    if value is None:
        return "not recorded"
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
