"""Rendered messages of the sessions that lanes are on, kept up to a number of bytes; least recently used go first."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable

DEFAULT_BYTES = 256 << 20


class Fragments:
    """A cache of immutable byte strings: `find(session, name) or keep(session, name, made)`.

    `hold` tells which session a lane is on. What only the lane's last session had is forgotten when the lane moves on,
    so that memory follows the load and not the length of a run.
    """

    def __init__(self, limit_bytes: int = DEFAULT_BYTES) -> None:
        self._limit = limit_bytes
        self._kept: OrderedDict[tuple[str, Hashable], bytes] = OrderedDict()
        self._names: dict[str, set[Hashable]] = {}
        self._lanes: dict[int, str] = {}
        self._holders: Counter[str] = Counter()
        self.bytes = 0

    def hold(self, lane: int, session: str) -> str | None:
        """A lane is on a session now. Gives the session that no lane is on any more, and forgets it."""
        left = self._lanes.get(lane)
        if left == session:
            return None
        self._lanes[lane] = session
        self._holders[session] += 1
        if left is None:
            return None
        self._holders[left] -= 1
        if self._holders[left]:
            return None
        del self._holders[left]
        for name in self._names.pop(left, ()):
            self.bytes -= len(self._kept.pop((left, name)))
        return left

    def find(self, session: str, name: Hashable) -> bytes | None:
        """The session's fragment called `name`, None when it is not there."""
        key = (session, name)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, session: str, name: Hashable, made: bytes) -> bytes:
        """Remember `made`, which is returned, and forget what no longer fits."""
        key = (session, name)
        self.bytes += len(made) - len(self._kept.pop(key, b""))
        self._kept[key] = made
        self._names.setdefault(session, set()).add(name)
        while self.bytes > self._limit and len(self._kept) > 1:
            (owner, oldest), dropped = self._kept.popitem(last=False)
            self.bytes -= len(dropped)
            names = self._names[owner]
            names.discard(oldest)
            if not names:
                del self._names[owner]
        return made
