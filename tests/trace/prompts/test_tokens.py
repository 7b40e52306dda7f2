"""Seeds and places of blocks: vectors of the published rule."""

from __future__ import annotations

import numpy as np
import pytest

from ridgeline.trace.prompts.tokens import CODING, SHAKESPEARE, CorpusTokens, block_start, derive, tail_start

VECTORS = [
    (CODING, 5261745454011363258, 10_007, (4732, 9998, 2432)),
    (CODING, 5261745454011363258, 1_000_003, (846_915, 639_883, 155_653)),
    (SHAKESPEARE, 10558974911300946294, 10_007, (2876, 8201, 5996)),
    (SHAKESPEARE, 10558974911300946294, 1_000_003, (184_086, 945_526, 383_769)),
]


@pytest.mark.parametrize(("name", "base", "size", "starts"), VECTORS)
def test_blocks_begin_where_the_rule_says(name: str, base: int, size: int, starts: tuple[int, ...]) -> None:
    assert derive(42, name) == base
    blocks = (("trace_0012", 1), ("trace_0012", 2), ("abc", 7))
    assert tuple(block_start(base, trace, block, size) for trace, block in blocks) == starts


def test_a_byte_corpus_as_long_as_the_peer_s_gives_its_observed_places() -> None:
    base = derive(42, CODING)
    assert block_start(base, "mini_a", 1, 990_588) == 219_735
    assert block_start(base, "mini_b", 7, 990_588) == 226_854


def test_tails_do_not_wrap_and_blocks_do() -> None:
    assert tail_start("trace_0012:turn_3:partial_tail", 20, 10_007) == 5798
    corpus = CorpusTokens(np.arange(10_007), derive(42, CODING))
    assert corpus.tail("trace_0012:turn_3:partial_tail", 20).tolist() == list(range(5798, 5818))
    block = corpus.block("trace_0012", 2, 64).tolist()
    assert block == [*range(9998, 10_007), *range(55)]
    assert len(corpus.tail("x", 20_000)) == 20_000
