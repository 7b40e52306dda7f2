"""Units: names for the factors, and the two directions a number can be good in."""

from __future__ import annotations

from typing import Literal

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
GB = 10**9
MICROSECOND, MILLISECOND, SECOND = 10**3, 10**6, 10**9  # in nanoseconds

Better = Literal["higher", "lower"]


def seconds(nanoseconds: int) -> float:
    """Nanoseconds to seconds."""
    return nanoseconds / SECOND


def nanoseconds(seconds: float) -> int:
    """Seconds to whole nanoseconds, rounded to the nearest."""
    return round(seconds * SECOND)
