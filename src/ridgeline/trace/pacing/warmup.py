"""Warm-up: when the primers go out, and how many requests each lane may send to build up pressure.

A primer is the turn before a live stream's next one, asked for a single token, so that the server has the stream's
prefix before the measured window opens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ridgeline.trace.pacing.settings import PacingSettings
from ridgeline.trace.pacing.tree import Stream, Tree


class Primer(NamedTuple):
    """When a stream's primer is due, after the begin of the warm-up."""

    after_ns: int
    stream: Stream


def primers(trees: Iterable[Tree], settings: PacingSettings) -> list[Primer]:
    """One primer for every live stream that has a turn behind it, waiting parents included.

    Spread: each goes out as long before the common end as its turn lies before t*, so that all t* meet there. Burst:
    all at once.
    """
    leads = [(stream, _lead(stream, settings)) for tree in trees for stream in tree.live if stream.next >= 1]
    longest = max((lead for _, lead in leads), default=0)
    if settings.start_style == "burst":
        return [Primer(0, stream) for stream, _ in leads]
    return [Primer(longest - lead, stream) for stream, lead in leads]


def _lead(stream: Stream, settings: PacingSettings) -> int:
    origin, at = stream.tree.origin_ns, stream.turns[stream.next - 1].at_ns
    lead = max(0, origin - at) if origin is not None and at is not None else 0
    if settings.rules.caps_primer_lead and settings.system_idle_cap_ns is not None:
        return min(lead, settings.system_idle_cap_ns)
    return lead


class Quota:
    """How many pressure requests each lane may still send."""

    def __init__(self, settings: PacingSettings) -> None:
        self._each = None if settings.warmup_duration_ns is not None else settings.warmup_requests_per_lane
        self._sent = [0] * settings.concurrency
        self._lanes_left = settings.concurrency
        self.closed = False  # every lane has had its share, or the time is over

    def close(self) -> None:
        self.closed = True

    def admits(self, lane: int) -> bool:
        return not self.closed and (self._each is None or self._sent[lane] < self._each)

    def count(self, lane: int) -> None:
        """A request of this lane goes out."""
        self._sent[lane] += 1
        if self._sent[lane] == self._each:
            self._lanes_left -= 1
            self.closed = self._lanes_left == 0
