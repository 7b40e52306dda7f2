import io
import json
import re
import sys

import pytest
from tests.golden import golden

from ridgeline.cli.main import main


def calc(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(["calc", *argv])
    done = capsys.readouterr()
    return code, done.out, done.err


def test_flags_for_people_and_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = calc(capsys, "graphs", "--max-num-seqs", "448", "--num-spec-tokens", "3")
    assert code == 0
    lines = {line[:38].strip(): line[38:].strip() for line in out.splitlines()}
    assert lines["sizes captured"] == "4, 8, 16, 24, 32, 40, …, 480, 496, 512 (49 values)"
    assert lines["decode runs as"] == "FULL for 1 to 128 sequences; NONE for 129 to 448 sequences"
    assert lines["every decode batch has a graph"] == "no" and "_" not in out
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


def test_lines_that_hide_something_are_refused_by_number(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["[" * 100_000, '{"max_num_seqs": 4, "max_num_seqs": 5}', '{"model": "nothing", "bad": 1, "mtp": 3}']
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    code, out, _ = calc(capsys, "kv", "--json")
    deep, twice, three = [json.loads(line) for line in out.splitlines()]
    assert code == 2 and (deep["line"], twice["line"], three["line"]) == (1, 2, 3)
    assert "too deep" in deep["error"] and "`max_num_seqs` stands twice" in twice["error"]
    assert all(f"`{key}`" in three["error"] for key in ("model", "bad", "mtp")), "all problems at once"


def test_every_kind_has_a_help_page_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("graphs", "kv", "weights", "tuning", "acceptance"):
        code, out, _ = calc(capsys, kind, "--help")
        assert code == 0 and "JSON lines" in " ".join(out.split())
    assert calc(capsys, "nothing")[0] == 2
    assert "graphs" in calc(capsys, "--help")[1]


def test_wrong_inputs_end_in_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = calc(capsys, "weights", "--model", "deepseek-v4-pro", "--topology", "nonsense")
    assert code == 2 and "topology" in err


def test_people_get_words_units_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = calc(
        capsys, "kv", "--model", "deepseek-v4-pro", "--topology", "DP4+EP4", "--kv-cache-dtype", "fp8", "--mtp"
    )
    assert re.search(r"^needed +14\.877 GiB$", out, re.MULTILINE)
    head, first = out[out.index("groups") :].splitlines()[1:3]
    assert head.split() == ["layers", "kind", "block", "page", "bytes", "pages", "drafts"]
    assert first.split() == ["91", "MLAAttentionSpec", "256", "1,728,", "8,640,", "37,440", "4,096", "no"]
    _, out, _ = calc(capsys, "weights", "--model", "deepseek-v4-pro", "--topology", "DP8+EP8", "--mtp")
    assert re.search(r"^total +124\.434 GiB$", out, re.MULTILINE) and "constructor buffers, GiB" in out
    _, out, _ = calc(capsys, "acceptance", "--acceptance-length", "2.49", "--num-spec-tokens", "3")
    assert "accepted by position  1, 0.49, 0" in out


def asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rows: list, *argv: str) -> list[dict]:
    """An answer a row, through the command line."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(map(json.dumps, rows))))
    code, out, err = calc(capsys, *argv, "--json")
    answers = [json.loads(line) for line in out.splitlines()]
    assert (code, err, len(answers)) == (0, "", len(rows))
    return answers


def meaning(error: str | None) -> str | None:
    return error and error.partition(" when initializing")[0]


def test_known_ladders(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(golden("golden/capture_sizes.json").read_text())["rows"]
    for row, found in zip(rows, asked(monkeypatch, capsys, rows, "graphs"), strict=True):
        for key in row.keys() - {"inputs", "id", "error", "warnings"}:
            assert found.get(key, row[key]) == row[key], (row["inputs"], key)
        assert (found["error"] is None) == (row["error"] is None)


def test_known_pools(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row for row in json.loads(golden("golden/kv_sizing.json").read_text())["rows"] if "layers" in row]
    for row, found in zip(rows, asked(monkeypatch, capsys, rows, "kv"), strict=True):
        for key in found.keys() & row.keys() - {"error"}:
            assert found[key] == row[key], (row["name"], key)
        assert meaning(found["error"]) == meaning(row["error"])


def test_known_rows_of_tuning(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(golden("golden/moe_tuning.json").read_text())
    tables = str(golden("data/flydsl_gfx950_mi355x_IntraNode_ep8.json"))
    rows = data["dispatch_combine_lookups"]
    for row, found in zip(rows, asked(monkeypatch, capsys, rows, "tuning", "--table", tables), strict=True):
        assert all(found[key] == row[key] for key in row.keys() & found.keys()), row
    rows = data["mega_moe_v2_static_selector"]
    for row, found in zip(rows, asked(monkeypatch, capsys, rows, "tuning"), strict=True):
        assert found["error"] == row["error"]
        if row["error"] is None:
            assert (found["bucket"], found["regime"]) == (row["bucket"], row["regime"])
            assert found["p2p_quant"] == row["result"]["p2p_quant"]


def test_known_weights(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    known = json.loads(golden("golden/weights_dsv4pro.json").read_text())["weights_gib"]
    lines = [{"model": "deepseek-v4-pro", "topology": name, "mtp": True} for name in known]
    for parts, found in zip(known.values(), asked(monkeypatch, capsys, lines, "weights"), strict=True):
        assert {key: found[key] for key in parts} == pytest.approx(parts, abs=5e-3)
