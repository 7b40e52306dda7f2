"""Block hashes of prompts given as spans: what vLLM computes from tokens, from identities instead.

The hash of a block covers the block before it and the slices of spans inside it; blocks in a row inside one span count
on from the first one's. Tuples of integers hash to the same value in every process, so predictions do not depend on
Python's hash seed.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from ridgeline.trace.prompts.api import Span

_COUNTABLE = (1 << 62) - 1  # room for counting on in 63 bits


class Chain(NamedTuple):
    """Hashes of the whole blocks of a run of spans, and the slices (key, start, length) of the unfinished block."""

    hashes: array[int]  # 64 bits each
    rest: tuple[int, ...]
    filled: int  # tokens in `rest`


EMPTY = Chain(array("q"), (), 0)


def extend(chain: Chain, spans: Iterable[Span], size: int) -> Chain:
    """The chain with more spans behind it, in blocks of `size` tokens; `chain` itself is left alone."""
    return _grown(chain._replace(hashes=chain.hashes[:]), spans, size)


def _grown(chain: Chain, spans: Iterable[Span], size: int) -> Chain:
    """The same, in the array of `chain`."""
    hashes, rest, filled = chain
    last = hashes[-1] if hashes else 0
    for key, tokens in spans:
        start = 0
        if filled:  # top the unfinished block up first
            start = min(size - filled, tokens)
            rest, filled = (*rest, key, 0, start), filled + start
            if filled < size:
                continue
            last = hash((last, *rest))
            hashes.append(last)
        blocks = (tokens - start) // size
        if blocks:
            first = hash((last, key, start, size)) & _COUNTABLE
            hashes.extend(range(first, first + blocks))
            last = first + blocks - 1
        whole = start + blocks * size
        filled = tokens - whole
        rest = (key, whole, filled) if filled else ()
    return Chain(hashes, rest, filled)


class Chains:
    """Chains of growing conversations: a prompt that begins like the stream's last one is hashed from there on."""

    def __init__(self, size: int, keep: int = 2048) -> None:
        self._size = size
        self._keep = keep  # streams remembered; the one not seen for longest is forgotten first
        self._last: OrderedDict[str, tuple[tuple[Span, ...], Chain]] = OrderedDict()

    def of(self, stream: str, spans: tuple[Span, ...], *answer: Span) -> Chain:
        """The chain of a prompt of `stream` (any name that tells conversations apart), and of what comes behind it."""
        known, chain = self._last.get(stream, ((), None))
        if chain is None or spans[: len(known)] != known:
            known, chain = (), Chain(array("q"), (), 0)
        # The last span may grow in the next turn; keeping the chain without it lets that be found again.
        kept = _grown(chain, spans[len(known) : -1], self._size)
        self._last[stream] = (spans[:-1], kept)
        self._last.move_to_end(stream)
        if len(self._last) > self._keep:
            self._last.popitem(last=False)
        return extend(kept, (*spans[-1:], *answer), self._size)
