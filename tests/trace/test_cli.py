"""`ridgeline trace` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.golden import golden
from tests.trace.oracle import expected

from ridgeline.cli.main import main
from ridgeline.trace.synth import quickstart_trace


def run(*arguments: object) -> int:
    return main(["trace", *map(str, arguments)])


def test_info_prints_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", quickstart_trace()) == 0
    table = capsys.readouterr()
    assert "input_tokens" in table.out and table.err == ""
    assert run("info", quickstart_trace(), "--json", "--limit", 3) == 0
    assert json.loads(capsys.readouterr().out)["sessions"] == 3


def test_info_without_a_file_looks_into_the_sample(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info") == 0
    told = capsys.readouterr()
    assert "sessions                    24" in told.out and str(quickstart_trace()) in told.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "trace file is empty\n  hint: give recorded sessions, or make some up: `ridgeline trace synth"),
        ("{}\n", "its first record has no keys\n  hint: --format, one of weka"),
        ('{"b": 1, "a": 2}\n', "its first record has the keys `a`, `b`\n  hint: --format, one of weka"),
        ("[]\n", "its first record is not a JSON object"),
    ],
)
def test_what_is_no_trace_is_told_with_what_to_do(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.jsonl").write_text(text)
    assert run("info", tmp_path / "t.jsonl") == 2
    assert said in capsys.readouterr().err


def test_a_trace_whose_sessions_are_all_too_long_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", quickstart_trace(), "--max-context", 1) == 2
    told = capsys.readouterr().err
    assert "all 24 need more than 1 tokens" in told and "hint: allow longer contexts" in told


def test_show_prints_a_session_under_the_known_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "synth_7_0002", "--trace", quickstart_trace(), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["trace_id"] == "synth_7_0002"
    assert set(found["conversations"][0]["turns"][0]) == {
        *("t_ms", "delay_ms", "api_ms", "max_tokens", "reset", "msgs", "hit", "total"),
        *("kind", "spawns", "joins", "preds", "src"),
    }
    assert run("show", quickstart_trace(), "synth_7_0002") == 0
    assert capsys.readouterr().out.startswith("synth_7_0002: ")


def test_show_agrees_with_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    rows = expected()
    assert run("show", golden("traces/weka/files/trace_0291.json"), "--profile", "aiperf-0.13", "--json") == 0
    assert json.loads(capsys.readouterr().out)["conversations"] == rows["trace_0291"]["conversations"]


def test_synth_convert_and_info_follow_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, converted = tmp_path / "t.jsonl.gz", tmp_path / "t.arrow"
    assert run("synth", "-o", made, "--sessions", 3, "--shape", "quickstart", "--seed", 1) == 0
    assert run("convert", made, "-o", converted) == 0
    assert "next: ridgeline trace info" in capsys.readouterr().err
    figures = []
    for path in (made, converted):
        assert run("info", path, "--json") == 0
        figures.append(json.loads(capsys.readouterr().out) | {"source": ""})
    assert figures[0] == figures[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("info", "none.jsonl"), "no such trace file"),
        (("show", quickstart_trace()), "holds 24 sessions"),
        (("show", quickstart_trace(), "nobody"), "no session 'nobody'"),
        (("info", quickstart_trace(), "--max-context", 9), "no sessions in this trace"),
        (("synth", "-o", "x.jsonl", "--shape", "round"), "unknown shape"),
        (("convert",), "Missing argument"),
    ],
)
def test_wrong_input_gives_a_message_and_2(
    arguments: tuple[object, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert words in capsys.readouterr().err


def test_a_file_that_was_there_outlives_a_wrong_command(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("mine\n")
    assert run("synth", "-o", tmp_path / "x.jsonl", "--shape", "round") == 2
    assert (tmp_path / "x.jsonl").read_text() == "mine\n" and len(list(tmp_path.iterdir())) == 1


def test_an_unwritable_output_gives_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("synth", "-o", tmp_path / "none" / "t.jsonl", "--sessions", 1, "--shape", "quickstart") == 3
    assert "cannot write" in capsys.readouterr().err
