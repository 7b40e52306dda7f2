"""Tokens of blocks and tails, cut from a corpus of tokens at places that follow from names and one seed.

The rule is AIPerf's (0.13 and its fork), so that a run with the same corpus and tokenizer sends the same prompts.
"""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CODING, SHAKESPEARE = "dataset.coding_content.corpus", "dataset.prompt.corpus"


def derive(root_seed: int, name: str) -> int:
    """Seed of a named stream: the first 8 bytes, big-endian, of SHA-256("root:name")."""
    return _first8(f"{root_seed}:{name}")


def block_start(base: int, trace_id: str, block: int, corpus_tokens: int) -> int:
    """Where a block begins: `randrange(C)` of a Mersenne Twister seeded from SHA-256("base:trace:block")."""
    return random.Random(_first8(f"{base}:{trace_id}:{block}")).randrange(corpus_tokens)


def tail_start(key: str, size: int, corpus_tokens: int) -> int:
    """Where loose tokens begin: SHA-256(key) modulo C - size."""
    return _first8(key) % max(corpus_tokens - size, 1)


def tail_key(conversation_id: str, turn: int) -> str:
    """The name of a turn's loose tokens."""
    return f"{conversation_id}:turn_{turn}:partial_tail"


def _first8(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


class CorpusTokens:
    """A corpus of token ids and the base seed of its blocks."""

    def __init__(self, tokens: NDArray[np.int64], base: int) -> None:
        self.tokens = tokens
        self.base = base

    def block(self, trace_id: str, block: int, size: int) -> NDArray[np.int64]:
        """Tokens of a block; the corpus wraps around."""
        start = block_start(self.base, trace_id, block, len(self.tokens))
        if start + size <= len(self.tokens):
            return self.tokens[start : start + size]
        return np.take(self.tokens, range(start, start + size), mode="wrap")

    def tail(self, key: str, size: int) -> NDArray[np.int64]:
        """Loose tokens. No wrap-around, unless there are more of them than the corpus has."""
        start = tail_start(key, size, len(self.tokens))
        if size > len(self.tokens):
            return np.resize(self.tokens, size)
        return self.tokens[start : start + size]
