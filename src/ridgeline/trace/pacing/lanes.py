"""The lanes: each holds one live session tree. One sampler deals sessions, at the start and for every recycled lane."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.core.errors import InputError
from ridgeline.trace.pacing.draws import permutation
from ridgeline.trace.pacing.markers import Markers, run_prefix
from ridgeline.trace.pacing.settings import PacingSettings
from ridgeline.trace.pacing.snapshot import Snapshot, drawn, from_the_beginning
from ridgeline.trace.pacing.tree import Tree
from ridgeline.trace.session import Session


class Lanes:
    """Trees by lane; there are never more trees than lanes."""

    def __init__(self, sessions: Sequence[Session], settings: PacingSettings) -> None:
        self._sessions = [session for session in sessions if session.root.turns]
        if not self._sessions:
            raise InputError("there is no session to replay", hint="give a trace with at least one request")
        self._settings = settings
        self._markers = Markers(settings.benchmark_id)
        self._id_prefix = run_prefix(settings.benchmark_id, settings.seed)
        self._trees: list[Tree | None] = [None] * settings.concurrency
        self._drawn = 0
        self._round: Sequence[int] = ()
        self.minted = 0

    @property
    def trees(self) -> list[Tree]:
        """The live trees in lane order."""
        return [tree for tree in self._trees if tree is not None]

    @property
    def empty(self) -> list[int]:
        """Lanes without a tree."""
        return [lane for lane, tree in enumerate(self._trees) if tree is None]

    @property
    def exhausted(self) -> bool:
        """Whether the limit on trees is reached."""
        return self._settings.max_trees is not None and self.minted >= self._settings.max_trees

    def fill(self) -> None:
        """Give each lane a session cut open at its own t*. Raises InputError when too few sessions can be started."""
        settings = self._settings
        attempts = settings.concurrency + 2 * len(self._sessions)
        for lane in range(settings.concurrency):
            if self.exhausted:
                return
            while self._trees[lane] is None:
                if not attempts:
                    raise InputError("too few sessions have a turn left after their drawn start")
                attempts -= 1
                session = self._draw()
                ratios = (settings.start_min_ratio, settings.start_max_ratio)
                snapshot = drawn(session, settings.seed, lane, *ratios)
                if snapshot.streams:
                    self._mint(lane, session, snapshot)

    def recycle(self, lane: int) -> Tree | None:
        """Give the lane the next session from its first turn; None when the limit on trees is reached."""
        if self.exhausted:
            return None
        session = self._draw()
        return self._mint(lane, session, from_the_beginning(session))

    def vacate(self, lane: int) -> None:
        """The lane's tree is finished."""
        self._trees[lane] = None

    def _mint(self, lane: int, session: Session, snapshot: Snapshot) -> Tree:
        tree = Tree(
            session,
            snapshot,
            serial=self.minted,
            lane=lane,
            marker=self._markers.mint(lane, session.id),
            id_prefix=self._id_prefix,
        )
        self.minted += 1
        self._trees[lane] = tree
        return tree

    def _draw(self) -> Session:
        """The next session in order; the pool starts over when it is used up."""
        round_, index = divmod(self._drawn, len(self._sessions))
        self._drawn += 1
        if self._settings.order == "sequential":
            return self._sessions[index]
        if index == 0:
            self._round = permutation(self._settings.seed, len(self._sessions), round_)
        return self._sessions[self._round[index]]
