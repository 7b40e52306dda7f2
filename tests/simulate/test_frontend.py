"""Prompts are tokenised one after the other."""

from ridgeline.simulate.frontend import FrontEnd


class Price:
    """Two seconds for every request, and one for a thousand tokens."""

    def frontend_s(self, prompt_tokens: int) -> float:
        return 2.0 + prompt_tokens / 1000


S = 10**9


def test_a_prompt_waits_for_the_text_before_it_and_for_nothing_else() -> None:
    front = FrontEnd(Price())
    assert [front.ready(at * S, 3000) for at in (0, 1, 20)] == [5 * S, 8 * S, 25 * S]
    assert front.ready(20 * S, 0) == 25 * S, "behind the one of 20 s, whose text takes three"


def test_several_front_ends_share_prompts() -> None:
    front = FrontEnd(Price(), 2)
    assert [front.ready(0, tokens) for tokens in (9000, 1000, 1000, 1000)] == [11 * S, 3 * S, 4 * S, 5 * S]
