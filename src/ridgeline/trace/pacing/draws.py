"""Every random number of the pacing machines, each from its own seed, so that no draw depends on another's order."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from ridgeline.core.units import SECOND


def start_seed(seed: int, session_id: str, lane: int) -> int:
    """Seed of a lane's start position: big-endian first 8 bytes of SHA-256("seed:session:lane")."""
    return _first_8_bytes(f"{seed}:{session_id}:{lane}")


def start_time(seed: int, session_id: str, lane: int, low: float, high: float) -> float:
    """t* of a lane: one uniform draw between `low` and `high` (NumPy's PCG64, as the peers draw it)."""
    return float(np.random.default_rng(start_seed(seed, session_id, lane)).uniform(low, high))


def start_turn(seed: int, session_id: str, lane: int, low: int, high: int) -> int:
    """Last turn before the start, for sessions without times: one uniform choice from low..high, both included."""
    return int(np.random.default_rng(start_seed(seed, session_id, lane)).integers(low, high, endpoint=True))


def permutation(seed: int, count: int, round_: int) -> list[int]:
    """The order of `count` sessions in the given round of a shuffled pool."""
    generator = np.random.default_rng(_first_8_bytes(f"{seed}:pacing.order:{round_}"))
    return [int(index) for index in generator.permutation(count)]


def arrival_gaps(
    seed: int, requests_per_second: float, arrivals: Literal["constant", "poisson", "gamma"], burstiness: float
) -> Iterator[int]:
    """Nanoseconds between arrivals, without end. An infinite rate gives zeros.

    Gamma: shape = burstiness, scale = 1/(rate * burstiness), so the mean is 1/rate whatever the burstiness; shape 1 is
    the Poisson process, below 1 is burstier, above 1 is more even.
    """
    if math.isinf(requests_per_second):
        while True:
            yield 0
    mean_ns = SECOND / requests_per_second
    if arrivals == "constant":
        # From the index, not by adding a rounded gap: a long run must not drift off its rate.
        index = 0
        while True:
            yield round((index + 1) * mean_ns) - round(index * mean_ns)
            index += 1
    shape = 1.0 if arrivals == "poisson" else burstiness
    generator = np.random.default_rng(_first_8_bytes(f"{seed}:pacing.arrivals"))
    while True:
        for gap in generator.gamma(shape, mean_ns / shape, size=1024):
            yield round(float(gap))


def _first_8_bytes(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
