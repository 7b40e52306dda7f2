"""Rendered messages of the prompts that lanes are on, kept up to a number of bytes; least recently used go first."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable

DEFAULT_BYTES = 256 << 20

Key = tuple[str, int, Hashable]  # session, conversation, part


class Fragments:
    """A cache of immutable byte strings: `find(key) or keep(key, made)`.

    `hold` tells which session a lane is on: what only the lane's last session had is forgotten when the lane moves on.
    `settle` tells what a prompt consisted of: what earlier prompts of that conversation had beside it was rewritten and
    does not come back, so it is forgotten too, unless another lane is on the session and may be further back. Memory
    therefore follows the prompts in use and not the length of a run.
    """

    def __init__(self, limit_bytes: int = DEFAULT_BYTES) -> None:
        self._limit = limit_bytes
        self._kept: OrderedDict[Key, bytes] = OrderedDict()
        self._of: dict[str, dict[int, set[Key]]] = {}
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
        for keys in list(self._of.get(left, {}).values()):
            self._forget(list(keys))
        return left

    def settle(self, session: str, conversation: int, used: Iterable[Key]) -> None:
        """A prompt of the conversation consisted of `used`; nothing, when it was the last one."""
        if self._holders[session] == 1 and (keys := self._of.get(session, {}).get(conversation)):
            self._forget(keys.difference(used))

    def find(self, key: Key) -> bytes | None:
        """The fragment of that key, None when it is not there."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: Key, made: bytes) -> bytes:
        """Remember `made`, which is returned, and forget what no longer fits."""
        self.bytes += len(made) - len(self._kept.pop(key, b""))
        self._kept[key] = made
        self._of.setdefault(key[0], {}).setdefault(key[1], set()).add(key)
        while self.bytes > self._limit and len(self._kept) > 1:
            self._forget([next(iter(self._kept))])
        return made

    def _forget(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.bytes -= len(self._kept.pop(key))
            session, conversation, _ = key
            left = self._of[session][conversation]
            left.remove(key)
            if not left:
                del self._of[session][conversation]
                if not self._of[session]:
                    del self._of[session]
