from itertools import takewhile

from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.simulate.chain import EMPTY, Chains, extend
from ridgeline.trace.prompts.api import Span

SPANS = st.lists(st.builds(Span, st.integers(0, 3), st.integers(0, 40)), max_size=8)


def naive(spans: list[Span], size: int) -> list[tuple[tuple[int, int], ...]]:
    """Whole blocks as tuples of (key, position in its span) per token, each with everything before it."""
    tokens = tuple((span.key, at) for span in spans for at in range(span.tokens))
    return [tokens[:end] for end in range(size, len(tokens) + 1, size)]


@settings(max_examples=70, deadline=None)
@given(SPANS, SPANS, st.sampled_from([1, 4, 16]))
def test_hashes_are_equal_exactly_where_the_tokens_are(one: list[Span], other: list[Span], size: int) -> None:
    """Tokens are told apart by span and place, except that a span cut in two is not a span in one piece."""
    first, second = extend(EMPTY, one, size).hashes, extend(EMPTY, other, size).hashes
    known = naive(one, size)
    assert len(first) == len(known)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
    assert naive(one, size)[:common] == naive(other, size)[:common]
    if one == other[: len(one)]:
        assert common == len(first)


@settings(max_examples=40, deadline=None)
@given(SPANS, SPANS)
def test_a_chain_can_be_continued_anywhere(one: list[Span], other: list[Span]) -> None:
    assert extend(extend(EMPTY, one, 16), other, 16) == extend(EMPTY, one + other, 16)


@settings(max_examples=30, deadline=None)
@given(st.lists(SPANS.map(tuple), min_size=1, max_size=5))
def test_remembering_a_stream_changes_nothing(turns: list[tuple[Span, ...]]) -> None:
    chains = Chains(16, keep=1)
    grown: tuple[Span, ...] = ()
    for turn in turns:
        grown += turn
        assert chains.of("s", grown) == extend(EMPTY, grown, 16)
        assert chains.of("other", turn) == extend(EMPTY, turn, 16)
