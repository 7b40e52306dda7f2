"""One live session tree: its streams, what each waits for, and what a finished turn sets free. It knows no clock."""

from __future__ import annotations

from enum import Enum

from ridgeline.trace.pacing.markers import correlation_id
from ridgeline.trace.pacing.snapshot import Snapshot
from ridgeline.trace.session import Session, Turn


class State(Enum):
    """What a stream is doing."""

    TIMED = "a timer will send its next turn"
    HELD = "its next turn waits for children or predecessors"
    DEFERRED = "its next turn is kept for profiling"
    IN_FLIGHT = "its turn is out"
    ENDED = "no turn is left"


class Stream:
    """One conversation of a tree, from its next turn on."""

    __slots__ = (
        "conversation", "correlation_id", "delay_ns", "forced", "next", "ready_ns", "state", "tree", "turns", "waited",
    )  # fmt: skip

    def __init__(self, tree: Tree, conversation: int, turn: int) -> None:
        self.tree = tree
        self.conversation = conversation
        self.turns = tree.session.conversations[conversation].turns
        self.next = turn
        self.correlation_id = tree.correlation_id_of(conversation)
        self.state = State.TIMED
        self.ready_ns = 0  # when the next turn's delay began to count
        self.delay_ns = 0  # that delay, as recorded
        self.forced = False  # its next turn goes although something it waits for can no longer happen
        self.waited = False  # its next turn was due to wait for children

    @property
    def turn(self) -> Turn:
        """The next turn, or the one in flight."""
        return self.turns[self.next]

    @property
    def is_root(self) -> bool:
        return self.conversation == 0


class Tree:
    """A session being replayed in a lane. It is finished when the root and everything it started have ended."""

    __slots__ = (
        "_id_prefix",
        "_open",
        "_spawned",
        "_unfinished",
        "completed",
        "held",
        "idle_since_ns",
        "in_flight",
        "lane",
        "marker",
        "origin_ns",
        "root_correlation_id",
        "serial",
        "session",
        "streams",
    )

    def __init__(
        self, session: Session, snapshot: Snapshot, *, serial: int, lane: int, marker: str, id_prefix: str
    ) -> None:
        self.session = session
        self.serial = serial
        self.lane = lane
        self.marker = marker
        self.origin_ns = snapshot.origin_ns  # trace time of t*, or of the first turn
        self.completed = list(snapshot.completed)  # turns done per conversation; all of them once a stream has ended
        self.held: list[Stream] = []
        self.in_flight = 0
        self.idle_since_ns = 0
        self._id_prefix = id_prefix
        self.root_correlation_id = self.correlation_id_of(0)  # also of a tree whose root is over: its children's parent
        self._spawned = list(snapshot.spawned)
        self._unfinished = [0] * len(session.branches)  # children per branch that were started and have not ended
        self.streams: list[Stream] = []  # every stream that was started, in the order of starting
        self._open = 0
        for start in snapshot.streams:
            self._start(start.conversation, start.turn)

    @property
    def finished(self) -> bool:
        return not self._open

    @property
    def live(self) -> list[Stream]:
        """Streams that have not ended."""
        return [stream for stream in self.streams if stream.state is not State.ENDED]

    def correlation_id_of(self, conversation: int) -> str:
        return correlation_id(self._id_prefix, self.serial, conversation)

    def gated(self, stream: Stream) -> bool:
        """Whether its next turn waits for children that are still at work."""
        return any(self._unfinished[branch] for branch in stream.turn.joins)

    def blocked(self, stream: Stream) -> bool:
        """Whether its next turn must wait: for children, or for turns of other streams that precede it."""
        if self.gated(stream):
            return True
        return any(self.completed[conversation] <= turn for conversation, turn in stream.turn.predecessors)

    def spawn(self, branch: int) -> list[Stream]:
        """Start the children of a branch. Empty when they have been started before."""
        if self._spawned[branch]:
            return []
        self._spawned[branch] = True
        return [self._start(child, 0) for child in self.session.branches[branch].children]

    def turn_done(self, stream: Stream) -> None:
        """Its turn is over, well or badly."""
        stream.next += 1
        stream.forced = False
        self.completed[stream.conversation] = stream.next
        if stream.next >= len(stream.turns):
            self.end(stream)

    def end(self, stream: Stream) -> None:
        """No more of it. Nobody waits any longer for turns it did not reach, nor for children it did not start."""
        stream.state = State.ENDED
        self._open -= 1
        self.completed[stream.conversation] = len(stream.turns)
        branch = self.session.conversations[stream.conversation].branch
        if branch is not None:
            self._unfinished[branch] -= 1
        if stream.is_root:
            for index, spawned in enumerate(self._spawned):
                if not spawned:
                    for child in self.session.branches[index].children:
                        self.completed[child] = len(self.session.conversations[child].turns)

    def released(self) -> list[Stream]:
        """Take out the held streams that may go now, in the order in which they were held."""
        if not self.held:
            return []
        free = [stream for stream in self.held if not self.blocked(stream)]
        if free:
            self.held = [stream for stream in self.held if stream not in free]
        return free

    def _start(self, conversation: int, turn: int) -> Stream:
        stream = Stream(self, conversation, turn)
        self.streams.append(stream)
        self._open += 1
        branch = self.session.conversations[conversation].branch
        if branch is not None:
            self._unfinished[branch] += 1
        if not stream.turns:
            self.end(stream)
        return stream
