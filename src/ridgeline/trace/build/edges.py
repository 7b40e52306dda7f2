"""Happens-before edges between streams: what had ended in other streams when a request was sent.

For request X, each other stream of its scope gives its latest request that started before X and ended by X's start;
of these, one that precedes another is implied by it and dropped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """When one request ran, in milliseconds of the trace, and which it is: (conversation, turn)."""

    start: float
    end: float
    key: tuple[int, int]


def predecessors(
    streams: Sequence[Sequence[Span]], names: Sequence[str]
) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Edges of one scope: request key -> keys it waits for, in order of (conversation name, turn).

    `streams` holds the requests of each conversation; `names` their ids, the last tie-break of equal times.
    """
    if len(streams) < 2:
        return {}
    name = {stream[0].key[0]: names[i] for i, stream in enumerate(streams) if stream}
    by_end = [sorted(stream, key=lambda s: (s.end, s.start, s.key[1])) for stream in streams]
    ends = [[span.end for span in stream] for stream in by_end]
    edges = {}
    for own, stream in enumerate(streams):
        for span in stream:
            candidates = []
            for other, spans in enumerate(by_end):
                if other == own:
                    continue
                at = bisect_right(ends[other], span.start) - 1
                while at >= 0 and spans[at].start >= span.start:
                    at -= 1
                if at >= 0:
                    candidates.append(spans[at])
            kept = [c for c in candidates if not any(c.start < o.start and c.end <= o.start for o in candidates)]
            if kept:
                edges[span.key] = sorted((c.key for c in kept), key=lambda key: (name[key[0]], key[1]))
    return edges
