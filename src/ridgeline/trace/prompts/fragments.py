"""Rendered messages, kept up to a number of bytes; least recently used go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

DEFAULT_BYTES = 256 << 20


class Fragments:
    """A cache of immutable byte strings."""

    def __init__(self, limit_bytes: int = DEFAULT_BYTES) -> None:
        self._limit = limit_bytes
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self.bytes = 0

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """The fragment called `key`, made when it is not there."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        found = self._kept[key] = make()
        self.bytes += len(found)
        while self.bytes > self._limit and len(self._kept) > 1:
            self.bytes -= len(self._kept.popitem(last=False)[1])
        return found
