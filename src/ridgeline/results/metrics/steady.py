"""The steady window: the longest span in which nearly all lanes were held.

Ramp-up and drain would be counted as if the server had been fully loaded; one straggler would stretch the run. A lane
is held from the first sending to the last answer of the session trees it carries; think time inside a tree counts as
held, because concurrency counts lanes and not requests in flight.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ridgeline.core.record import Phases
from ridgeline.results.metrics.columns import Columns
from ridgeline.results.sweepline import Floats

SHARE = 0.9  # of the lanes asked for
BRIDGE_SHARE = 0.01  # of the profiling phase: a lane without a tree for less is being handed to the next one
BRIDGE_MIN_NS = 1e9


class Span(NamedTuple):
    """A stretch of time, simulated nanoseconds."""

    start_ns: float
    end_ns: float

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


def longest_steady(columns: Columns, phases: Phases, concurrency: int) -> Span | str:
    """The longest span of the profiling phase with at least 90 % of the lanes held, or why there is none."""
    start, end = phases.profiling_start_ns, phases.profiling_end_ns
    if start is None or end is None or end <= start:
        return "the replay has no profiling window"
    begins, ends = held(columns, max(BRIDGE_MIN_NS, BRIDGE_SHARE * (end - start)))
    begins, ends = np.clip(begins, start, end), np.clip(ends, start, end)
    times = np.concatenate((begins, ends))
    change = np.concatenate((np.ones(len(begins)), -np.ones(len(ends))))
    order = np.argsort(times, kind="stable")  # at one instant, lanes begin before others end
    times, level = times[order], np.cumsum(change[order])
    if not len(times):
        return "no request was sent"
    enough = np.ceil(SHARE * concurrency - 1e-9)
    above = np.append(level >= enough, False)
    edges = np.diff(np.concatenate(([0], above.astype(np.int8))))
    starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    lengths = times[stops] - times[starts] if len(starts) else np.empty(0)
    if not len(lengths) or lengths.max() <= 0:
        return f"never were {enough:g} of {concurrency} lanes held at once (at most {level.max():g})"
    best = int(lengths.argmax())
    return Span(float(times[starts[best]]), float(times[stops[best]]))


def held(columns: Columns, bridge_ns: float) -> tuple[Floats, Floats]:
    """Begin and end of every stretch in which a lane was held; gaps between trees up to `bridge_ns` are bridged."""
    sent = columns["sent_ns"]
    seen = ~np.isnan(sent)
    sent, lane, tree = sent[seen], columns["lane"][seen].astype(np.int64), columns["tree"][seen].astype(np.int64)
    over = np.fmax(columns["end_ns"][seen], sent)
    if not len(sent):
        return np.empty(0), np.empty(0)
    if tree.max() - tree.min() > 4 * len(tree):  # serials far apart: number them densely
        tree = np.unique(tree, return_inverse=True)[1]
    tree = tree - tree.min()
    begin, end = np.full(tree.max() + 1, np.inf), np.full(tree.max() + 1, -np.inf)
    lanes = np.zeros(len(begin), dtype=np.int64)
    np.minimum.at(begin, tree, sent)
    np.maximum.at(end, tree, over)
    lanes[tree] = lane  # a tree stays on its lane
    there = np.isfinite(begin)
    begin, end, lanes = begin[there], end[there], lanes[there]
    order = np.lexsort((begin, lanes))
    begin, end, lanes = begin[order], end[order], lanes[order]
    # Lanes are laid one after another on one axis, so that one running maximum serves all of them.
    shift = lanes * (end.max() - begin.min() + bridge_ns + 1)
    reach = np.maximum.accumulate(end + shift)
    new = np.append(True, (lanes[1:] != lanes[:-1]) | (begin[1:] + shift[1:] - reach[:-1] > bridge_ns))
    at = np.flatnonzero(new)
    return begin[at], np.maximum.reduceat(end, at)
