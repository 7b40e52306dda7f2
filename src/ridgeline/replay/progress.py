"""What a live view needs while a replay runs: counts so far and the spread of the latest latencies.

Percentiles here are over the last `RECENT` answers, so that a long run costs no more to show than a short one; the
result's own percentiles come from the records.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ridgeline.core.record import Outcome, Row
from ridgeline.replay.health import quantile
from ridgeline.replay.recording import COMPLETION_TOKENS, ERROR, FIRST_TOKEN, LAST_TOKEN, OUTCOME, PHASE, SENT

RECENT = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A moment of a replay. Times in simulated seconds; None where nothing was measured yet."""

    at_s: float
    phase: str  # "warmup" | "profiling" | "drain"
    lanes: int  # lanes that have sent anything
    lanes_in_flight: int
    in_flight: int
    sent: int
    done: int
    outcomes: Mapping[str, int]
    output_tokens: int
    requests_per_s: float | None  # over the measured window so far
    output_tokens_per_s: float | None
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    itl_p50_s: float | None
    itl_p99_s: float | None
    send_lag_p99_s: float | None
    errors: Mapping[str, int] = field(default_factory=dict)  # first words of the messages, most frequent first

    @property
    def failed(self) -> int:
        fine = (Outcome.OK, Outcome.CANCELLED, Outcome.OVERFLOW)
        return sum(count for outcome, count in self.outcomes.items() if outcome not in fine)


class Tally:
    """Counts requests as they end."""

    def __init__(self) -> None:
        self.done = 0
        self.outcomes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.output_tokens = 0
        self._measured = 0
        self._measured_tokens = 0
        self._ttft: deque[int] = deque(maxlen=RECENT)
        self._itl: deque[float] = deque(maxlen=RECENT)

    def note(self, rows: Sequence[Row]) -> None:
        """Take requests that ended."""
        self.done += len(rows)
        for row in rows:
            outcome = row[OUTCOME]
            self.outcomes[outcome.value] += 1
            if outcome is Outcome.OK:
                self._answered(row)
            elif row[ERROR] is not None and len(self.errors) < 100:
                self.errors[f"{outcome.value}: {row[ERROR][:100]}"] += 1

    def _answered(self, row: Row) -> None:
        tokens = row[COMPLETION_TOKENS] or 0
        self.output_tokens += tokens
        if row[PHASE] != "profiling":
            return
        self._measured += 1
        self._measured_tokens += tokens
        sent, first, last = row[SENT], row[FIRST_TOKEN], row[LAST_TOKEN]
        if sent is not None and first is not None and last is not None:
            self._ttft.append(first - sent)
            if tokens > 1:
                self._itl.append((last - first) / (tokens - 1))

    def rates(self, measured_s: float) -> tuple[float | None, float | None]:
        """Requests and output tokens per second over `measured_s` of the measured window."""
        if measured_s <= 0:
            return None, None
        return self._measured / measured_s, self._measured_tokens / measured_s

    def spread(self) -> tuple[float | None, float | None, float | None, float | None]:
        """TTFT p50, p99, ITL p50, p99 in seconds."""
        ttft, itl = sorted(self._ttft), sorted(self._itl)
        found = (quantile(ttft, 0.5), quantile(ttft, 0.99), quantile(itl, 0.5), quantile(itl, 0.99))
        a, b, c, d = (None if value is None else value / 1e9 for value in found)
        return a, b, c, d
