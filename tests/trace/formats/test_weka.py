"""Reading weka files: strictness, places of problems, forms of input, clocks, selection."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace.making import call, marker, weka, write

from ridgeline.core.errors import InputError
from ridgeline.core.where import Where
from ridgeline.trace import load
from ridgeline.trace.formats import weka as reader
from ridgeline.trace.formats.source import Record


def refused(path: Path, **options: object) -> list[str]:
    with pytest.raises(InputError) as error:
        load(path, **options)  # type: ignore[arg-type]
    return [str(problem) for problem in error.value.problems]


def test_every_problem_is_told_with_line_column_and_key(tmp_path: Path) -> None:
    good = weka([call(0, [1])])
    bad = weka(
        [
            call(0, [1], speed=3),
            call(1, [1, "x"], **{"in": "many"}),
            {"t": 2, "type": "later"},
            marker(3, [call(0, [1], ttft=1.0)]),
        ],
        name="s2",
        colour="red",
        hash_id_scope="global",
        block_size=0,
    )
    del bad["models"]
    lines = refused(write(tmp_path / "t.jsonl", good, bad))
    keys = [line.split("`")[1] for line in lines]
    assert sorted(keys) == sorted(
        [
            "colour",
            "models",
            "hash_id_scope",
            "block_size",
            "requests[0].speed",
            "requests[1].in",
            "requests[1].hash_ids[1]",
            "requests[2].type",
            "requests[3].requests[0].ttft",
        ]
    )
    text = (tmp_path / "t.jsonl").read_text().splitlines()[1]
    place = next(line for line in lines if "`colour`" in line).split(": `")[0]
    assert place.endswith(f"t.jsonl:2:{text.index(chr(34) + 'colour') + 1}")


def test_problems_in_a_pretty_file_have_its_own_lines(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps(weka([call(0, [1], out=-1)]), indent=1))
    number = next(n for n, line in enumerate(path.read_text().splitlines(), 1) if '"out"' in line)
    (line,) = refused(path)
    assert f"one.json:{number}:" in line and "requests[0].out" in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ('{"id": "a", "requests": [}', "not JSON"),
        ("[1, 2]\n", "not recognised"),
        ('{"a": 1}\n', "not recognised"),
        ('{"requests": 3}\n', "`requests`: must be a list"),
        ('{"requests": [7]}\n', "`requests[0]`: must be an object"),
    ],
)
def test_other_content_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    assert any(words in line for line in refused(path)), refused(path)


def test_missing_inputs_are_refused(tmp_path: Path) -> None:
    assert "no such trace file" in refused(tmp_path / "none.jsonl")[0]
    (tmp_path / "folder").mkdir()
    assert "no *.json file" in refused(tmp_path / "folder")[0]
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(json.dumps(weka([call(0, [1])])).encode())[:-12])
    assert "ends too early" in refused(tmp_path / "cut.jsonl.gz")[0]
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8b" + b"x" * 40)
    assert "damaged gzip" in refused(tmp_path / "bad.gz")[0]


def test_file_lines_gzip_and_folder_give_the_same_sessions(tmp_path: Path) -> None:
    records = [weka([call(0, [1]), call(5, [1, 2])], name=name) for name in ("a", "b", "c")]
    plain = write(tmp_path / "t.jsonl", *records)
    packed = tmp_path / "t.jsonl.gz"
    half = plain.read_bytes()
    packed.write_bytes(gzip.compress(half[:100]) + gzip.compress(half[100:]))  # two members in a row
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, record in zip(("3", "1", "2"), records, strict=True):
        (folder / f"{name}.json").write_text(json.dumps(record, indent=2))
    assert load(plain).sessions == load(packed).sessions
    assert load(plain).digest == load(packed).digest
    assert [session.id for session in load(folder).sessions] == ["b", "c", "a"]
    assert set(load(folder).sessions) == set(load(plain).sessions)


def test_the_context_limit_comes_before_the_count(tmp_path: Path) -> None:
    long = weka([call(0, [1]), marker(1, [call(0, range(100), out=0)])], name="long")
    path = write(tmp_path / "t.jsonl", long, *(weka([call(0, [1])], name=name) for name in ("a", "b", "c")))
    corpus = load(path, max_context=6400, limit=2)
    assert [session.id for session in corpus.sessions] == ["a", "b"]
    assert corpus.context_dropped == 1
    assert len(load(path, max_context=6401).sessions) == 4  # 6400 and at least one token to generate
    assert "all 1 need more than 10 tokens" in refused(write(tmp_path / "one.jsonl", long), max_context=10)[0]
    assert load(path, limit=2).digest != load(path, limit=3).digest
    for wrong in ({"limit": 0}, {"max_context": 0}, {"profile": "x"}, {"format": "x"}):
        assert refused(path, **wrong)


def test_two_sessions_of_one_name_are_refused(tmp_path: Path) -> None:
    (line,) = refused(write(tmp_path / "t.jsonl", weka([call(0, [1])]), weka([call(0, [2])])))
    assert "t.jsonl:2" in line and "t.jsonl:1" in line


def start_of_subagent(path: Path, profile: str = "agentx") -> tuple[str, list[float]]:
    corpus = load(path, profile=profile)
    return corpus.clock, [
        turn.at_ns / 1e9
        for s in corpus.sessions
        for c in s.conversations[1:]
        for turn in c.turns
        if turn.at_ns is not None
    ]


def test_both_clocks_of_subagents_are_told_apart(tmp_path: Path) -> None:
    def session(name: str, first: float, later: float) -> dict[str, object]:
        return weka([call(0, [1]), marker(20, [call(first, [5]), call(later, [5, 6])]), call(90, [1, 2])], name=name)

    relative = write(tmp_path / "relative.jsonl", session("a", 0, 3), session("b", 0.5, 25))
    absolute = write(tmp_path / "absolute.jsonl", session("a", 20.5, 24), session("b", 21, 45))
    assert start_of_subagent(relative) == ("relative", [20, 23, 20.5, 45])
    assert start_of_subagent(absolute) == ("absolute", [20.5, 24, 21, 45])
    # AIPerf 0.13 decides for each request, and takes the late one for an absolute time
    assert start_of_subagent(relative, "aiperf-0.13")[1] == [20, 23, 20.5, 25]
    assert start_of_subagent(write(tmp_path / "none.jsonl", weka([call(0, [1])])))[0] == "none"


lists = st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=8)


@settings(max_examples=30)
@given(lists, st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]))
def test_compact_ids_are_the_ids(prompts: list[list[int]], separators: tuple[str, str]) -> None:
    record = weka([call(k, ids) for k, ids in enumerate(prompts)])
    data = json.dumps(record, separators=separators).encode()
    parsed = reader.parse(Record(Where("t"), data))
    assert [list(ids) for ids in parsed.ids] == prompts


def test_ids_that_need_all_64_bits_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", weka([call(0, [1]), call(2, [1, 2**64 - 1]), call(4, [1, 2**64 - 1, 5])]))
    turns = load(path).sessions[0].root.turns
    assert [tuple(t.hash_ids) for t in turns] == [(1,), (1, 2**64 - 1), (1, 2**64 - 1, 5)]
    assert [t.hit_blocks for t in turns] == [0, 1, 2]


def test_growing_prompts_share_one_array() -> None:
    data = json.dumps(weka([call(0, range(5)), call(1, range(9)), call(2, range(3)), call(3, [0, 1, 7])])).encode()
    first, second, third, fourth = reader.parse(Record(Where("t"), data)).ids
    assert first.base is second.base is third.base
    assert fourth.base is not first.base
