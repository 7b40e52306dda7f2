"""How reading and computing share a step, and how much of a peak a product of few rows reaches."""

from __future__ import annotations

_SHARPNESS = 2.5  # of the blend where reading and computing take equally long: products of 64 to 512 rows on one H200


def overlapped(read_s: float, compute_s: float) -> float:
    """Time of work whose memory traffic and arithmetic overlap: a smooth maximum, 32 % above where both are equal."""
    high, low = max(read_s, compute_s), min(read_s, compute_s)
    if high == 0:
        return 0.0
    return float(high * (1 + (low / high) ** _SHARPNESS) ** (1 / _SHARPNESS))


def saturating(top: float, half: float, size: float) -> float:
    """Share of peak that a product over `size` rows reaches: top * size / (size + half)."""
    return top * size / (size + half)
