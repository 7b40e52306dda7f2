"""Block ids of a prompt, kept compactly.

The prompts of one conversation mostly extend each other, so a corpus keeps each run of ids once: a `BlockIds` is a
window into a shared array of 64-bit integers. Sharing is what lets hundreds of sessions with tens of millions of
recorded ids fit in memory, and makes the common prefix of two turns a comparison of lengths.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    import numpy as np


class BlockIds(Sequence[int]):
    """The first `length` ids of `base`. Behaves as an immutable sequence of ints; equal to tuples of equal ids."""

    __slots__ = ("base", "length")

    def __init__(self, base: array[int] | memoryview[int], length: int | None = None) -> None:
        self.base = base
        self.length = len(base) if length is None else length

    @classmethod
    def of(cls, ids: Iterable[int]) -> BlockIds:
        """Any ids as `BlockIds` (the same object when it already is one). Raises OverflowError beyond 64 bits."""
        if isinstance(ids, BlockIds):
            return ids
        items = list(ids)
        try:
            return cls(array("q", items))
        except OverflowError:
            return cls(array("Q", items))

    def numpy(self) -> np.ndarray:
        """The ids as a numpy array without a copy."""
        import numpy as np

        if not self.length:
            return np.empty(0, dtype=np.int64)
        view = memoryview(self.base)
        return np.frombuffer(view, dtype=np.int64 if view.format == "q" else np.uint64, count=self.length)

    def common(self, other: Sequence[int]) -> int:
        """Number of leading ids that are the same in both."""
        other = BlockIds.of(other)
        shorter = min(self.length, other.length)
        if self.base is other.base or not shorter:
            return shorter
        if self.base[0] != other.base[0]:
            return 0
        differs = self.numpy()[:shorter] != other.numpy()[:shorter]
        first = int(differs.argmax())
        return first if differs[first] else shorter

    def starts_with(self, other: BlockIds) -> bool:
        """Whether `other` is a prefix of this (or equal)."""
        size = other.length
        if size > self.length:
            return False
        if self.base is other.base or not size:
            return True
        # ids mostly differ at the end when they differ at all, so one look usually settles it
        return self.base[size - 1] == other.base[size - 1] and self.common(other) == size

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        return iter(memoryview(self.base)[: self.length])

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self.length)
            if (start, step) == (0, 1):
                return BlockIds(self.base, max(0, stop))
            return BlockIds.of(self.base[start:stop:step])
        if not -self.length <= index < self.length:
            raise IndexError(f"block {index} of {self.length}")
        return self.base[index if index >= 0 else self.length + index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, BlockIds):
            return self.length == other.length and self.common(other) == self.length
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))  # as the tuple it equals

    def __reduce__(self) -> tuple[type[BlockIds], tuple[array[int], int]]:
        base = self.base
        if isinstance(base, memoryview):  # a mapped file stays behind
            base = array(base.format, base[: self.length].tolist())
        return BlockIds, (base, self.length)

    def __repr__(self) -> str:
        head = ", ".join(map(str, self[:4])) + (", …" if self.length > 4 else "")
        return f"BlockIds({head}; {self.length})"
