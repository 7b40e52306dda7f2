"""From warm-up to profiling: when each surviving stream is due, counted from the opening of the measured window."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ridgeline.trace.pacing.settings import PacingSettings
from ridgeline.trace.pacing.tree import Stream, Tree


class Resumption(NamedTuple):
    """When a stream's next turn is due after the opening. `gated`: it waits for children and anchors nothing."""

    after_ns: int
    stream: Stream
    gated: bool


def recorded_offset(stream: Stream) -> int:
    """Time from the tree's origin to the next turn, on the tree's own clock; the recorded delay when it has none."""
    origin, turn = stream.tree.origin_ns, stream.turn
    if origin is None or turn.at_ns is None:
        return turn.delay_ns or 0
    return max(0, turn.at_ns - origin)


def resumptions(trees: Iterable[Tree], settings: PacingSettings, opening_ns: int) -> list[Resumption]:
    """Every live stream of every lane, root first.

    On the tree's clock: a stream returns to where it was recorded, however far warm-up has pushed it. Residual: what
    is left of its recorded delay. With the anchor at the first stream, one offset common to all lanes (burst: the
    lane's own) is taken off, so that the window opens with a request and the lanes keep their distance.
    """
    rules = settings.rules
    by_lane: list[list[Resumption]] = []
    for tree in trees:
        lane = []
        for stream in tree.live:
            if rules.keeps_tree_clock:
                after = recorded_offset(stream)
            else:
                after = max(0, stream.ready_ns + stream.delay_ns - opening_ns)
            lane.append(Resumption(after, stream, tree.gated(stream)))
        by_lane.append(lane)
    if settings.start_style == "burst":
        return [moved for lane in by_lane for moved in _anchored(lane)]
    everything = [resumption for lane in by_lane for resumption in lane]
    return _anchored(everything) if rules.anchors_at_first else everything


def _anchored(resumptions: list[Resumption]) -> list[Resumption]:
    first = min((resumption.after_ns for resumption in resumptions if not resumption.gated), default=0)
    return [each._replace(after_ns=max(0, each.after_ns - first)) for each in resumptions]
