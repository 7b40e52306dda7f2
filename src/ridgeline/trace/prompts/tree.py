"""Prompts as paths in one tree, so that spans are equal exactly as far as tokens are.

A path is laid piece by piece: a run of blocks, or loose tokens (message headers, tails). Runs of one session are
compared by their ids; whatever else meets at a fork is compared by its tokens, so texts that begin alike by chance
share what they share. What one turn adds is one edge: the path of a later turn begins with the very spans of the
earlier one, so that laying it, and hashing it elsewhere, costs what the turn adds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from numpy.typing import NDArray

from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.prompts.api import Span

Tokens = NDArray[Any]
_new = tuple.__new__  # makes a NamedTuple without its constructor's own frame; long prompts have thousands of them


class Run(NamedTuple):
    """Blocks [start, end) of `ids`, `size` tokens each. Ids mean the same within one `space`."""

    space: str
    ids: BlockIds
    start: int
    end: int
    size: int
    read: Callable[[int], Tokens]  # tokens of one id

    @property
    def tokens(self) -> int:
        return (self.end - self.start) * self.size

    def at(self, offset: int) -> Tokens:
        """Tokens from `offset` to the end of their block."""
        block, inside = divmod(offset, self.size)
        return self.read(self.ids[self.start + block])[inside:]


class Loose(NamedTuple):
    """Tokens that belong to no block."""

    values: Tokens

    @property
    def tokens(self) -> int:
        return len(self.values)

    def at(self, offset: int) -> Tokens:
        return self.values[offset:]


Piece = Run | Loose


@dataclass(slots=True, eq=False)
class Edge:
    """Tokens in a row, identified by `key`. `children` by (offset, first token) where they leave."""

    key: int
    growing: bool
    pieces: list[tuple[Piece, int]] = field(default_factory=list)  # piece, offset of its first used token
    ends: list[int] = field(default_factory=list)
    children: dict[tuple[int, int], Edge] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return self.ends[-1] if self.ends else 0

    def append(self, piece: Piece, offset: int) -> None:
        ends = self.ends
        self.pieces.append((piece, offset))
        ends.append((ends[-1] if ends else 0) + piece.tokens - offset)

    def match(self, offset: int, piece: Piece, done: int) -> int:
        """Equal tokens from `offset` here and `done` in `piece`, within one piece of the edge; 0 when none."""
        index = bisect_right(self.ends, offset)
        own, skipped = self.pieces[index]
        start = self.ends[index] - (own.tokens - skipped)
        return _common(own, offset - start + skipped, piece, done)


class Place(NamedTuple):
    """The end of a path: where it is in the tree, and the spans of the edges before, each from the edge's beginning."""

    edge: Edge
    offset: int
    before: tuple[Span, ...]
    tokens: int

    @property
    def spans(self) -> tuple[Span, ...]:
        """The whole path."""
        return (*self.before, Span(self.edge.key, self.offset)) if self.offset else self.before

    def sealed(self) -> Place:
        """The same place; what follows begins a new edge."""
        self.edge.growing = False
        return self


class Tree:
    """Grows with the prompts laid in it. Keys are numbered as edges appear and mean nothing outside this tree."""

    def __init__(self) -> None:
        self._keys = 1
        self._cuts: dict[tuple[int, int], int] = {}
        self.root = Place(Edge(0, growing=False), 0, (), 0)

    def lay(self, place: Place, piece: Piece, *, growing: bool) -> Place:
        """Continue a path by a piece. `growing`: what usually follows continues the same edge."""
        edge, offset, before, _ = place
        done, size = 0, piece.tokens
        while done < size:
            end = edge.tokens
            same = edge.match(offset, piece, done) if offset < end else 0
            if not same:
                grows = growing and edge.growing and offset == end
                if edge.children or not grows:
                    first = int(piece.at(done)[0])
                    child = edge.children.get((offset, first))
                    if child is None and not grows:
                        child = edge.children[offset, first] = Edge(self._key(), growing)
                        child.append(piece, done)
                    if child is not None:
                        if offset:
                            before = (*before, _new(Span, (edge.key, offset)))
                        edge, offset = child, 0
                        continue
                edge.append(piece, done)
                same = size - done
            offset += same
            done += same
        return _new(Place, (edge, offset, before, place.tokens + size))

    def cut(self, spans: tuple[Span, ...], at: int) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """The spans before and after token `at`. What follows a cut inside an edge gets a key of its own."""
        for index, span in enumerate(spans):
            if at >= span.tokens:
                at -= span.tokens
                continue
            if not at:
                return spans[:index], spans[index:]
            name = (span.key, at)
            if name not in self._cuts:
                self._cuts[name] = self._key()
            rest = Span(self._cuts[name], span.tokens - at)
            return (*spans[:index], Span(span.key, at)), (rest, *spans[index + 1 :])
        return spans, ()

    def _key(self) -> int:
        self._keys += 1
        return self._keys


def _common(left: Piece, a: int, right: Piece, b: int) -> int:
    limit = min(left.tokens - a, right.tokens - b)
    if left is right and a == b:
        return limit
    if isinstance(left, Run) and isinstance(right, Run) and left.space == right.space and left.size == right.size:
        size = left.size
        if not a % size and not b % size:
            blocks = _common_blocks(left, a // size, right, b // size, limit // size)
            same = blocks * size
            return same if same == limit else same + _common_values(left.at(a + same), right.at(b + same))
    return min(limit, _common_values(left.at(a), right.at(b)))


def _common_blocks(left: Run, i: int, right: Run, j: int, blocks: int) -> int:
    i, j = left.start + i, right.start + j
    if left.ids.base is right.ids.base and i == j:
        return blocks
    differs = left.ids.numpy()[i : i + blocks] != right.ids.numpy()[j : j + blocks]
    first = int(differs.argmax())
    return first if differs[first] else blocks


def _common_values(left: Tokens, right: Tokens) -> int:
    size = min(len(left), len(right))
    differs = left[:size] != right[:size]
    first = int(differs.argmax())
    return first if differs[first] else size
