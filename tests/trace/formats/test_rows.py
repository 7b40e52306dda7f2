"""Mooncake, Bailian, texts and tables."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.golden import golden
from tests.trace.making import write

from ridgeline.core.errors import InputError
from ridgeline.trace import load
from ridgeline.trace.stats import statistics


def refused(path: Path, **options: object) -> list[str]:
    with pytest.raises(InputError) as error:
        load(path, **options)  # type: ignore[arg-type]
    return [str(problem) for problem in error.value.problems]


def test_mooncake_rows_are_sessions_with_global_blocks(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 0, "input_length": 1200, "output_length": 5, "hash_ids": [0, 1, 2]},
        {"timestamp": 500, "input_length": 1024, "output_length": 6, "hash_ids": [0, 1], "session_id": "x"},
        {"timestamp": 2500, "input_length": 1200, "output_length": 7, "hash_ids": [0, 1, 2], "session_id": "x"},
    ]
    corpus = load(write(tmp_path / "m.jsonl", *rows))
    assert (corpus.format, corpus.clock) == ("mooncake", "none")
    first, second = corpus.sessions
    assert (first.id, first.block_size, first.hash_scope) == ("mooncake_000000", 512, "global")
    assert [turn.at_ns for turn in second.root.turns] == [500_000_000, 2_500_000_000]
    assert [turn.delay_ns for turn in second.root.turns] == [None, 2_000_000_000]
    assert [turn.hit_blocks for session in corpus.sessions for turn in session.root.turns] == [0, 2, 3]


def test_mooncake_texts_and_messages_are_the_prompt(tmp_path: Path) -> None:
    rows = [
        {"text_input": "hello you", "delay": 3},
        {"messages": [{"role": "system", "content": "abcd"}, {"role": "user", "content": "abcde"}]},
    ]
    first, second = load(write(tmp_path / "m.jsonl", *rows)).sessions
    assert first.root.turns[0].messages == (("user", "hello you"),)
    assert first.root.turns[0].input_tokens == 3
    assert second.root.turns[0].messages == (("system", "abcd"), ("user", "abcde"))
    assert second.root.turns[0].input_tokens == 3


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"input_length": 5, "text_input": "x"}, "exactly one of"),
        ({"timestamp": 5, "input_length": 0}, "`input_length`"),
        ({"text_input": "x", "hash_ids": [1]}, "`hash_ids`: goes with input_length only"),
        ({"input_length": 512, "hash_ids": [1, 2]}, "more than 512 tokens need"),
        ({"input_length": 100, "hash_ids": [7]}, "block 7 has 100 tokens here and 512 elsewhere"),
        ({"payload": {"messages": []}}, "`payload.messages`: must not be empty"),
        ({"payload": {"prompt": ""}}, "`payload.prompt`: must not be empty"),
        ({"payload": {}}, "`payload`: needs exactly one of messages and prompt"),
        ({"payload": {"messages": [{"role": "user", "content": "x"}], "prompt": "x"}}, "`payload`: needs exactly one"),
        ({"payload": {"messages": [{"content": "x"}]}}, "`payload.messages[0].role`: is missing"),
        ({"payload": {"prompt": [1, "a"]}}, "`payload.prompt[1]`"),
        ({"payload": {"prompt": "x", "max_tokens": 0}}, "`payload`: asks for 0 tokens"),
        ({"messages": []}, "`messages`: must not be empty"),
        ({"messages": [{"role": 5}]}, "`messages[0].role`"),
        ({"text_input": "x", "tools": [{}]}, "`tools`: goes with messages only"),
        ({"input_length": 5, "extra": {"stream": False}}, "`extra.stream`: is decided by the replay"),
        ({"input_length": 5, "colour": 1}, "`colour`: unknown key"),
    ],
)
def test_wrong_mooncake_rows_are_refused(tmp_path: Path, row: dict[str, object], words: str) -> None:
    good = {"input_length": 1024, "hash_ids": [7, 8]}
    lines = refused(write(tmp_path / "m.jsonl", good, row))
    assert len(lines) == 1 and "m.jsonl:2:" in lines[0], "with its column"
    assert any(word in lines[0] for word in words.split("|")), lines


MESSAGES = [
    {"role": "user", "content": [{"type": "text", "text": "look "}, {"type": "image_url", "image_url": {"url": "x"}}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "ab", "arguments": "cd"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "done"},
]


def test_mooncake_bodies_are_kept_as_they_were_recorded(tmp_path: Path) -> None:
    payload = {"model": "theirs", "messages": [{"role": "user", "content": "abcdefgh"}], "max_tokens": 9, "top_p": 0.5}
    rows = [
        {"payload": payload, "timestamp": 1, "extra": {"top_p": 1}},
        {"payload": {"prompt": [1, 2, 3]}, "output_length": 4},
        {"messages": MESSAGES, "tools": [{"type": "function"}], "output_length": 3},
        {"input_length": 512, "hash_ids": [1], "extra": {"temperature": 0}},
        {"messages": [{"role": "user", "content": "plain"}]},
    ]
    whole, ids, tools, extra, plain = (s.root.turns[0] for s in load(write(tmp_path / "m.jsonl", *rows)).sessions)
    assert whole.recorded and json.loads(whole.recorded.payload or "") == payload | {"top_p": 1}
    assert (whole.messages, whole.input_tokens, whole.output_tokens) == ((("user", "abcdefgh"),), 2, 9)
    assert (ids.input_tokens, ids.output_tokens) == (3, 4)
    assert tools.recorded and json.loads(tools.recorded.messages or "") == MESSAGES
    assert json.loads(tools.recorded.extra or "") == {"tools": [{"type": "function"}]}
    assert tools.messages == (("user", "look "), ("assistant", "abcd"), ("tool", "done"))
    assert extra.recorded and extra.recorded.messages is None and json.loads(extra.recorded.extra or "")
    assert plain.recorded is None, "roles and texts say it all"


def test_bailian_chats_follow_their_parents(tmp_path: Path) -> None:
    def chat(own: int, parent: int, turn: int, at: float) -> dict[str, object]:
        plain = {"type": "text", "input_length": 40, "output_length": 3, "hash_ids": [1, 2, own]}
        return plain | {"chat_id": own, "parent_chat_id": parent, "turn": turn, "timestamp": at}

    corpus = load(write(tmp_path / "b.jsonl", chat(5, -1, 1, 0), chat(9, 7, 3, 8), chat(7, 5, 2, 4), chat(6, -1, 1, 5)))
    assert corpus.format == "bailian"
    assert [(s.id, [t.at_ns // 10**9 for t in s.root.turns if t.at_ns is not None]) for s in corpus.sessions] == [
        ("chat_5", [0, 4, 8]),
        ("chat_6", [5]),
    ]
    assert corpus.sessions[0].block_size == 16


def test_texts_are_sessions_and_histories_grow(tmp_path: Path) -> None:
    single = load(
        write(tmp_path / "s.jsonl", {"text": "one", "output_length": 4}, {"texts": ["a", "b"], "timestamp": 20})
    )
    assert single.format == "single-turn"
    assert [s.root.turns[0].messages for s in single.sessions] == [(("user", "one"),), (("user", "a b"),)]
    turns = [{"text": "first", "output_length": 3}, {"text": "second", "delay": 250}]
    multi = load(write(tmp_path / "m.jsonl", {"session_id": "x", "turns": turns}))
    (session,) = multi.sessions
    first, second = session.root.turns
    assert second.messages is not None and second.messages[0] == ("user", "first")
    assert [role for role, _ in second.messages] == ["user", "assistant", "user"]
    assert len(second.messages[1][1]) == 4 * 3
    assert (second.delay_ns, first.input_tokens, second.input_tokens) == (250_000_000, 2, 2 + 3 + 2)
    assert "`turns`" in refused(write(tmp_path / "e.jsonl", {"turns": []}))[0]
    assert "exactly one of text and texts" in refused(write(tmp_path / "t.jsonl", {"turns": [{"role": "user"}]}))[0]


def test_texts_bring_keys_of_their_own(tmp_path: Path) -> None:
    single = load(write(tmp_path / "s.jsonl", {"text": "one", "extra": {"top_k": 1}})).sessions[0].root.turns[0]
    assert single.recorded and single.recorded.extra == '{"top_k":1}'
    turns = [{"text": "a"}, {"text": "b", "extra": {"top_k": 2}}]
    first, second = load(write(tmp_path / "m.jsonl", {"turns": turns})).sessions[0].root.turns
    assert first.recorded is None and second.recorded and second.recorded.extra == '{"top_k":2}'


def test_tables_have_lengths_and_times(tmp_path: Path) -> None:
    azure = tmp_path / "a.csv"
    azure.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,48,10\n2023-11-16 18:17:04.0299600,31,8\n"
    )
    corpus = load(azure)
    assert corpus.format == "azure"
    assert [(t.at_ns, t.input_tokens, t.output_tokens) for s in corpus.sessions for t in s.root.turns] == [
        (0, 48, 10),
        (50_000_000, 31, 8),
    ]
    burst = tmp_path / "b.csv"
    burst.write_text("Timestamp,Model,Request tokens,Response tokens,Total tokens\n5,GPT-4,7,3,10\n6.5,GPT-4,9,0,9\n")
    corpus = load(burst)
    assert corpus.format == "burstgpt"
    assert [(t.at_ns, t.max_tokens) for s in corpus.sessions for t in s.root.turns] == [(0, 3), (1_500_000_000, 1)]
    burst.write_text("Timestamp,Request tokens,Response tokens\n5,x,3\n6,7,-2\n")
    assert [line.split("`")[1] for line in refused(burst)] == ["Request tokens", "Response tokens"]
    assert [line.split(" ")[0].rpartition("/")[2] for line in refused(burst)] == ["b.csv:2:3:", "b.csv:3:5:"]
    burst.write_text('Model,Timestamp,Request tokens,Response tokens\r\n"a,b",5,,3\r\nx,6\r\n')
    assert [line.split(" ")[0].rpartition("/")[2] for line in refused(burst)] == [
        "b.csv:2:9:", "b.csv:3:4:", "b.csv:3:4:",
    ]  # fmt: skip
    burst.write_text("Timestamp,Request tokens\n5,1\n")
    assert "column is missing" in refused(burst, format="burstgpt")[0]


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,48,10\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,GPT-4,7,3,10,API log\n"
MOON = '{"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [1, 2]}\n'
SINGLE = '{"text": "one", "output_length": 4}\n'
MULTI = '{"session_id": "x", "turns": [{"text": "first", "output_length": 3}, {"text": "second", "delay": 250}]}\n'


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (AZURE + "2023-11-16 18:17:03.97,x,10\n", 3, "`ContextTokens`: 'x' is not what this column holds"),
        (AZURE + "2023-11-16 18:17:03.97,4.5,10\n", 3, "`ContextTokens`: '4.5'"),
        (AZURE + "2023-11-16 18:17:03.97,48\n", 3, "`GeneratedTokens`: None"),
        (AZURE + "2023-11-16 18:17:03.97,48,-1\n", 3, "`GeneratedTokens`: '-1'"),
        (AZURE + "yesterday,48,1\n", 3, "`TIMESTAMP`: 'yesterday'"),
        (AZURE + "2023-11-16 18:17:04.03e999,48,1\n", 3, "`TIMESTAMP`: '2023-11-16 18:17:04.03e999'"),
        (BURST + "nan,GPT-4,7,3,10,API log\n", 3, "`Timestamp`: 'nan'"),
        (BURST + "inf,GPT-4,7,3,10,API log\n", 3, "`Timestamp`: 'inf'"),
        (BURST + ",GPT-4,7,3,10,API log\n", 3, "`Timestamp`: ''"),
        (MOON + '{"timestamp": 0, "input_length": "9"}\n', 2, "`input_length`"),
        (MOON + '{"timestamp": 0, "input_length": true}\n', 2, "`input_length`"),
        (MOON + '{"timestamp": 0, "input_length": 9, "output_length": -1}\n', 2, "`output_length`"),
        (MOON + '{"timestamp": NaN, "input_length": 9}\n', 2, "not JSON"),
        (MOON + '{"timestamp": 0, "input_length": 9\n', 2, "not JSON"),
        (MOON + "[1, 2]\n", 2, "must be an object"),
        (MOON + '{"input_length": 9, "hash_ids": [1.5]}\n', 2, "`hash_ids[0]`"),
        (MOON + '{"messages": [{"role": "user", "content": 5}]}\n', 2, "`messages[0].content`"),
        (SINGLE + '{"text": "a", "extra": {"model": "m"}}\n', 2, "`extra.model`: is decided by the replay"),
        (SINGLE + '{"text": 5}\n', 2, "`text`"),
        (SINGLE + '{"text": "a", "output_length": 0}\n', 2, "`output_length`"),
        (SINGLE + '{"text": "a", "image": "x.png"}\n', 2, "`image`: unknown key"),
        (SINGLE + "null\n", 2, "must be an object"),
        (MULTI + '{"session_id": "y", "turns": [{"text": "a"}, {"text": "b", "delay": "5"}]}\n', 2, "`turns[1].delay`"),
        (MULTI + '{"session_id": "y", "turns": {}}\n', 2, "`turns`"),
    ],
)
def test_a_malformed_row_is_told_with_its_line_and_key(text: str, line: int, words: str, tmp_path: Path) -> None:
    path = tmp_path / ("t.csv" if "," in text.partition("\n")[0].partition(":")[0] else "t.jsonl")
    path.write_text(text)
    lines = refused(path)
    assert len(lines) == 1 and f"{path.name}:{line}" in lines[0] and words in lines[0], lines


@pytest.mark.parametrize("text", [AZURE, BURST, MOON, SINGLE, MULTI])
def test_line_ends_marks_and_blank_lines_change_nothing(text: str, tmp_path: Path) -> None:
    def read(data: bytes) -> list[tuple[int, int, int | None]]:
        path = tmp_path / "t"
        path.write_bytes(data)
        return [(t.input_tokens, t.output_tokens, t.at_ns) for s in load(path).sessions for t in s.root.turns]

    plain = text.encode()
    assert read(plain) == read(plain.replace(b"\n", b"\r\n")) == read(plain[:-1]) == read(plain + b"\n\n")
    if "TIMESTAMP" in text.upper()[:10]:
        assert read(b"\xef\xbb\xbf" + plain) == read(plain)


@given(text=st.sampled_from([AZURE, BURST, MOON, SINGLE, MULTI]), rng=st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_broken_files_are_read_or_refused_and_never_anything_else(
    text: str, rng: random.Random, tmp_path: Path
) -> None:
    data = bytearray((text + text.splitlines()[-1] + "\n").encode())
    for _ in range(rng.randint(1, 3)):
        at, what = rng.randint(0, len(data)), rng.randint(0, 2)
        if what == 0:
            data[at:at] = rng.choice([b"null", b"NaN", b"-1", b"1e999", b'"', b",", b"\n", b"\xff", b"9" * 30, b"\x00"])
        elif what == 1:
            del data[at : at + rng.randint(1, 6)]
        elif at < len(data):
            data[at] = rng.randrange(256)
    path = tmp_path / "t"
    path.write_bytes(bytes(data))
    try:
        statistics(load(path))
    except InputError as error:
        assert error.problems


def test_selection_is_the_same_for_every_format(tmp_path: Path) -> None:
    rows = [{"input_length": size, "output_length": 10} for size in (500, 90, 80, 70)]
    path = write(tmp_path / "m.jsonl", *rows)
    corpus = load(path, max_context=100, limit=2)
    assert [session.root.turns[0].input_tokens for session in corpus.sessions] == [90, 80]
    assert corpus.context_dropped == 1
    assert corpus.digest != load(path).digest


@pytest.mark.integration  # thousands of recorded rows
@pytest.mark.parametrize(
    ("file", "sessions", "mean_in", "mean_out", "hit"),
    [
        ("mooncake-fast25/synthetic_trace.jsonl", 3993, 15_325, 149, 0.640),
    ],
)
def test_public_traces_have_their_known_figures(
    file: str, sessions: int, mean_in: int, mean_out: int, hit: float | None
) -> None:
    found = statistics(load(golden(f"traces/{file}")))
    assert found["sessions"] == sessions
    assert found["input_tokens"]["mean"] == pytest.approx(mean_in, abs=1)
    assert found["output_tokens"]["mean"] == pytest.approx(mean_out, abs=1)
    assert found["hit_rate"] == (None if hit is None else pytest.approx(hit, abs=0.0005))


def test_a_format_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"input_length": 5}) + "\n")
    assert load(path, format="mooncake").format == "mooncake"
    assert "unknown key" in refused(path, format="weka")[0] or "is missing" in refused(path, format="weka")[0]
