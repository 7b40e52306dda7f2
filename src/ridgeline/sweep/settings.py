"""How the cells of a sweep are loaded: durations, warm-up, speed, seed. All of it takes part in a point's identity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.units import nanoseconds
from ridgeline.trace.pacing import LoopSettings, PacingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSettings:
    """Defaults are those of a canonical agentic run. Durations are simulated seconds. Raises InputError with every
    problem at once."""

    duration_s: int = 3600  # the measured window of an agentic cell
    grace_s: float = 30.0  # for requests in flight at its end
    warmup_per_lane: int = 10  # requests of the pressure stage; 1 is the fast mode, 0 primers only
    requests_per_lane: int = 10  # measured requests of a fixed-seq-len cell: this times its concurrency
    fixed_warmup_per_lane: int = 2  # warm-up requests of a fixed-seq-len cell
    speed: float = 1.0
    seed: int = 42
    profile: str = "agentx"
    prompts: str = "bytes"  # "bytes" | "token-ids" | "tokenizer"
    max_context: int | None = None  # sessions whose context grows longer are left out, before the cap on count
    max_sessions: int | None = None

    def __post_init__(self) -> None:
        problems = [Problem(message, key=key) for key, message in self._wrong()]
        if problems:
            raise InputError(problems)

    def _wrong(self) -> Iterator[tuple[str, str]]:
        for key in ("duration_s", "speed"):
            value = getattr(self, key)
            if not math.isfinite(value) or value <= 0:
                yield key, f"must be a positive number, not {value}"
        if not math.isfinite(self.grace_s) or self.grace_s < 0:
            yield "grace_s", f"must be a number of at least 0, not {self.grace_s}"
        for key, least in (("warmup_per_lane", 0), ("fixed_warmup_per_lane", 0), ("requests_per_lane", 1)):
            if getattr(self, key) < least:
                yield key, f"must be at least {least}, not {getattr(self, key)}"
        for key in ("max_context", "max_sessions"):
            value = getattr(self, key)
            if value is not None and value < 1:
                yield key, f"must be at least 1, not {value}"

    def identity(self) -> dict[str, Any]:
        """What of this takes part in a point's run key: everything, since everything here changes the load."""
        return asdict(self)

    def agentic(self, concurrency: int, benchmark_id: str) -> PacingSettings:
        """Pacing of an agentic cell."""
        return PacingSettings(
            concurrency=concurrency,
            benchmark_id=benchmark_id,
            seed=self.seed,
            profile=self.profile,
            duration_ns=nanoseconds(self.duration_s),
            grace_ns=nanoseconds(self.grace_s),
            warmup_requests_per_lane=self.warmup_per_lane,
        )

    def fixed(self, concurrency: int, run_id: str) -> LoopSettings:
        """Pacing of a fixed-seq-len cell: a closed loop that ends after a number of requests."""
        return LoopSettings(
            concurrency=concurrency,
            run_id=run_id,
            requests=self.requests_per_lane * concurrency,
            warmup_requests=self.fixed_warmup_per_lane * concurrency,
            grace_ns=nanoseconds(self.grace_s),
        )
