"""Rendered messages, kept up to a number of bytes; least recently used go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

DEFAULT_BYTES = 256 << 20


class Fragments:
    """A cache of immutable byte strings: `find(name) or keep(name, made)`."""

    def __init__(self, limit_bytes: int = DEFAULT_BYTES) -> None:
        self._limit = limit_bytes
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self.bytes = 0

    def find(self, name: Hashable) -> bytes | None:
        """The fragment called `name`, None when it is not there."""
        found = self._kept.get(name)
        if found is not None:
            self._kept.move_to_end(name)
        return found

    def keep(self, name: Hashable, made: bytes) -> bytes:
        """Remember `made`, which is returned, and forget what no longer fits."""
        self.bytes += len(made) - len(self._kept.pop(name, b""))
        self._kept[name] = made
        while self.bytes > self._limit and len(self._kept) > 1:
            self.bytes -= len(self._kept.popitem(last=False)[1])
        return made
