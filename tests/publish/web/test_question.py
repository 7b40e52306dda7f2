from __future__ import annotations

from dataclasses import fields
from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.publish.web.question import CHANNELS, OF_THE_PAGE, Question, decode, encode

pytestmark = pytest.mark.integration  # starts processes or repositories for most of its tests

TEXT = st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable())
QUESTIONS = st.builds(
    Question,
    channel=st.sampled_from([None, *CHANNELS]),
    model=st.none() | TEXT,
    on=st.none() | TEXT,
    x=st.none() | TEXT,
    y=st.none() | TEXT,
    run=st.none() | TEXT,
    overlay=st.lists(TEXT, max_size=3).map(tuple),
)


@settings(max_examples=80)
@given(QUESTIONS)
def test_a_link_gives_its_question_back(question: Question) -> None:
    assert decode(parse_qsl(encode(question), keep_blank_values=True)) == (question, ())


def test_a_plain_question_has_a_plain_link() -> None:
    assert encode(Question()) == ""
    assert all(getattr(Question(), field.name) in (None, ()) for field in fields(Question))


def test_what_is_not_understood_is_said_and_the_page_s_own_keys_are_not() -> None:
    pairs = [("colour", "red"), ("channel", "secret"), ("x", "a"), ("x", "b"), *((name, "1") for name in OF_THE_PAGE)]
    question, notices = decode(pairs)
    assert question == Question(x="a")
    assert len(notices) == 3 and "“colour”" in notices[0] and "“secret”" in notices[1] and "twice" in notices[2]
