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


MOST = 2**50  # of any number that a question gives: no pool, model or budget is larger, and floats hold it exactly


def shown(value: object) -> str:
    """A value that somebody gave, as a sentence can hold it."""
    text = f"a number of {value.bit_length()} bits" if isinstance(value, int) and abs(value) > MOST else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
