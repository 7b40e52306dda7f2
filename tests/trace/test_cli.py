"""`ridgeline trace` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.golden import golden

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
    import gzip

    expected = gzip.decompress(golden("traces/oracle/expected.jsonl.gz").read_bytes()).splitlines()
    rows = {row["trace_id"]: row for row in map(json.loads, expected)}
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
        (("info",), "Missing argument"),
    ],
)
def test_wrong_input_gives_a_message_and_2(
    arguments: tuple[object, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert words in capsys.readouterr().err


def test_an_unwritable_output_gives_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("synth", "-o", tmp_path / "none" / "t.jsonl", "--sessions", 1, "--shape", "quickstart") == 3
    assert "cannot write" in capsys.readouterr().err
