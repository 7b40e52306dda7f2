import io
import json
import sys

import pytest

from ridgeline.cli.main import main


def calc(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(["calc", *argv])
    done = capsys.readouterr()
    return code, done.out, done.err


def test_flags_for_people_and_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = calc(capsys, "graphs", "--max-num-seqs", "448", "--num-spec-tokens", "3")
    assert code == 0
    assert "49 values: 4, 8, 16" in out and "[129, 448, 'NONE']" in out
    code, out, _ = calc(capsys, "graphs", "--max-num-seqs", "32", "--explicit-capture-sizes", "1,2,4", "--json")
    assert json.loads(out)["final_sizes"] == [1, 2, 4]


def test_a_refusal_of_the_engine_is_a_no(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = calc(
        capsys, "graphs", "--max-num-seqs", "8", "--num-spec-tokens", "3", "--explicit-capture-sizes", "[1,2]"
    )
    assert code == 1
    assert out.startswith("error: ValueError: No valid cudagraph sizes")


def test_lines_on_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"inputs": {"max_num_seqs": 16}}, {"max_num_seqs": 0}, {"max_num_seqs": 1}]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(map(json.dumps, lines)) + "\nnot json\n[]\n"))
    code, out, _ = calc(capsys, "graphs", "--json")
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 2
    assert answers[0]["final_max"] == 32
    assert "at least 1" in answers[1]["error"] and answers[1]["line"] == 2
    assert answers[2]["final_sizes"] == [1, 2]
    assert "not JSON" in answers[3]["error"] and "JSON object" in answers[4]["error"]


def test_every_kind_has_a_help_page_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("graphs", "kv", "weights", "tuning", "acceptance"):
        code, out, _ = calc(capsys, kind, "--help")
        assert code == 0 and "JSON lines" in " ".join(out.split())
    assert calc(capsys, "nothing")[0] == 2
    assert "graphs" in calc(capsys, "--help")[1]


def test_wrong_inputs_end_in_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = calc(capsys, "weights", "--model", "deepseek-v4-pro", "--topology", "nonsense")
    assert code == 2 and "topology" in err
