"""`ridgeline calibrate` at its edges: what it refuses, what it says, and that nothing is lost."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from ridgeline.cli.main import main

HEAD = "hardware,framework,model,precision,spec,tp,ep,dp_attn,isl,osl,conc,total_tput_per_gpu,ttft_ms,tpot_ms\n"
ROW = "b200,trt,llama70b,fp8,none,4,1,false,1024,1024,{conc},{tput},100,{tpot}\n"
GOOD = "".join(ROW.format(conc=conc, tput=tput, tpot=tpot) for conc, tput, tpot in ((4, 250, 8), (16, 800, 9)))


@pytest.fixture
def points(tmp_path: Path) -> Path:
    path = tmp_path / "points.csv"
    path.write_text(HEAD + GOOD)
    return path


def test_predictions_beside_measurements(points: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "folder" / "predictions.csv"
    assert main(["calibrate", "--evaluate", str(points), "-o", str(out)]) == 0
    said = capsys.readouterr().out
    assert "tokens/s/GPU" in said and "first token" in said and "in band   share of measurements" in said
    with out.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [(row["conc"], row["measure"]) for row in found[:3]] == [
        ("4", "tokens/s/GPU"), ("4", "time per token"), ("4", "first token"),
    ]  # fmt: skip
    assert all(float(row["low"]) < float(row["predicted"]) < float(row["high"]) for row in found)
    assert main(["calibrate", "--evaluate", str(points), "-o", str(out)]) == 0  # predictions may be written again
    assert [path.name for path in out.parent.iterdir()] == ["predictions.csv"]


def test_output_never_overwrites_what_is_no_prediction(
    points: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("precious\n")
    for target, said in (
        (points, "one of the files of points"),
        (other, "holds no predictions"),
        (tmp_path, "a folder"),
    ):
        assert main(["calibrate", "--evaluate", str(points), "-o", str(target)]) == 2
        assert said in capsys.readouterr().err
    assert other.read_text() == "precious\n" and points.read_text() == HEAD + GOOD


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_said_first(
    points: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "shut"
    folder.mkdir(mode=0o500)
    assert main(["calibrate", "--evaluate", str(points), "-o", str(folder / "p.csv")]) == 3
    assert "cannot write" in capsys.readouterr().err


def test_a_file_in_the_place_of_a_folder(points: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("x")
    assert main(["calibrate", "--evaluate", str(points), "-o", str(tmp_path / "file" / "p.csv")]) == 3
    assert "cannot write" in capsys.readouterr().err


def test_bad_rows_do_not_cost_the_good_ones(points: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points.write_text(HEAD + GOOD + ROW.format(conc=0, tput=1, tpot=1) + ROW.format(conc=4, tput="many", tpot="nan"))
    out = tmp_path / "p.csv"
    assert main(["calibrate", "--evaluate", str(points), "-o", str(out)]) == 2
    said = capsys.readouterr()
    assert f"error: {points}:4:48: `conc`: must be at least 1, is '0'" in said.err
    assert f"error: {points}:5:50: `total_tput_per_gpu`: must be a number, is 'many'" in said.err
    assert f"error: {points}:5:59: `tpot_ms`: must be a number above 0, is 'nan'" in said.err
    assert "tokens/s/GPU" in said.out and len(out.read_text().splitlines()) == 7


def test_files_that_cannot_be_read_do_not_cost_the_others(
    points: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, nothing = tmp_path / "empty.csv", tmp_path / "nowhere.csv"
    empty.write_text("")
    assert main(["calibrate", "--evaluate", str(points), str(empty), str(nothing)]) == 2
    said = capsys.readouterr()
    assert "is empty" in said.err and "No such file" in said.err and "tokens/s/GPU" in said.out
    assert main(["calibrate", "--evaluate", str(empty), str(nothing)]) == 2
    said = capsys.readouterr()
    assert "is empty" in said.err and "No such file" in said.err and not said.out


def test_what_is_not_covered_is_named(points: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = (
        ROW.replace("llama70b", "nobody-9b"), ROW.replace("b200", "tpu7"), ROW.replace("fp8", "fp3"),
        ROW.replace("llama70b", "dsr1").replace(",4,1,false", ",1,1,false"),
    )  # fmt: skip
    points.write_text(HEAD + GOOD + "".join(row.format(conc=4, tput=200, tpot=9) for row in rows))
    assert main(["calibrate", "--evaluate", str(points)]) == 1
    said = capsys.readouterr().err
    for words in (
        "line 4: no facts about model `nobody-9b`",
        "line 5: no facts about GPU `tpu7`",
        "line 6: precision `fp3`",
        "line 7: TP1 of dsr1 fp8: 627 GiB of weights",
    ):
        assert words in said


def test_a_folder_stands_for_the_files_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "h200").mkdir()
    for conc in (4, 8):
        bench = {
            "model_id": "openai/gpt-oss-120b", "max_concurrency": conc, "completed": 40, "total_input_tokens": 40_960,
            "total_output_tokens": 40_960, "output_throughput": 150.0 * conc, "median_tpot": 0.005, "median_ttft": 0.1,
        }  # fmt: skip
        (tmp_path / "h200" / f"gptoss_vllm_tp1_conc{conc}.json").write_text(json.dumps(bench))
    assert main(["calibrate", "--evaluate", str(tmp_path)]) == 0
    assert "h200/vllm gptoss120b fp4 none  tokens/s/GPU" in capsys.readouterr().out
    (tmp_path / "h100").mkdir()
    assert main(["calibrate", "--evaluate", str(tmp_path / "h100")]) == 2
    assert "holds no .csv, .json or .jsonl file" in capsys.readouterr().err


def test_what_files_do_not_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.csv"
    path.write_text("isl,osl,conc,tpot_ms\n1024,1024,4,8\n")
    given = ["--given", "hardware=b200", "--given", "model=llama70b", "--given", "tp=4", "--given", "precision=fp8"]
    assert main(["calibrate", "--evaluate", str(path)]) == 2
    capsys.readouterr()
    assert main(["calibrate", "--evaluate", str(path), *given]) == 0
    assert main(["calibrate", "--evaluate", str(path), "--given", "colour=red", "--given", "tp"]) == 2
    assert capsys.readouterr().err.count("says nothing that is known") == 2


def test_fits_that_points_do_not_support(points: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "set.json"
    out.write_text("kept")
    assert main(["calibrate", str(points), "-o", str(tmp_path / "folder")]) == 1
    assert "2 points cannot support 6 parameters of b200 and trt" in capsys.readouterr().err
    assert main(["calibrate", str(points), "-o", str(out)]) == 2
    assert out.read_text() == "kept"
    points.write_text(HEAD + GOOD + ROW.format(conc=0, tput=1, tpot=1))
    other = tmp_path / "other.csv"
    other.write_text("a\n1\n")
    assert main(["calibrate", str(points), str(other)]) == 2
    said = capsys.readouterr().err
    assert "must be at least 1" in said and "no columns that are understood" in said


def test_parameter_files_of_other_versions(points: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = tmp_path / "set.json"
    command = ["calibrate", "--evaluate", str(points), "--parameters", str(given)]
    for text, words in (
        (
            '{"format": "ridgeline-cost/2", "values": {}}',
            ["must be ridgeline-cost/1, is 'ridgeline-cost/2'", "fit it again"],
        ),
        ("{", ["not JSON"]),
        (
            '{"format": "ridgeline-cost/1", "values": {"gemm_topp": {"value": 1}, "link": {"value": -1},'
            ' "kv_read": {"value": NaN}, "traffic": 3}, "models": {"a fp8": {"time": 1}}, "spread": "wide"}',
            ["did you mean `gemm_top`?", "values.link", "values.kv_read", "values.traffic", "models.a fp8", "spread"],
        ),
    ):
        given.write_text(text)
        assert main(command) == 2
        said = capsys.readouterr()
        assert all(word in said.err for word in words) and not said.out
    given.write_text(
        '{"format": "ridgeline-cost/1", "spread": 0.3, "values": {"device": {"value": 2.0, "source": "mine"}}}'
    )
    assert main(command) == 0


def test_a_fit_is_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points, out = tmp_path / "points.csv", tmp_path / "set.json"
    loads = ((conc, tp) for conc in (1, 4, 16, 64) for tp in (2, 4))
    rows = (
        ROW.replace(",4,1,false", f",{tp},1,false").format(conc=conc, tput=60 * conc**0.8 * 4 / tp, tpot=6 * conc**0.2)
        for conc, tp in loads
    )
    points.write_text(HEAD + "".join(rows))
    assert main(["calibrate", str(points), "-o", str(out)]) == 0
    assert "fitted to 8 points of points.csv; prior" in out.read_text()  # nobody else's measurements
    assert main(["calibrate", "--evaluate", str(points), "--parameters", str(out)]) == 0
    assert "b200/trt: 8 points" in capsys.readouterr().out


def test_what_was_assumed_is_not_fitted_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = tmp_path / "points.csv"
    points.write_text(HEAD + ROW.replace(",4,1,false", ",68 GPU,1,false").format(conc=4, tput=250, tpot=8))
    assert main(["calibrate", str(points)]) == 1
    assert "1 of 1 points are not fitted to" in capsys.readouterr().err
