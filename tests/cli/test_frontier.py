"""`ridgeline frontier`: the whole command on a small run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ridgeline.cli.main import main
from ridgeline.cli.plot import Mark, draw
from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.point import Caution, Measure, Point, Source, Validity
from ridgeline.core.topology import Topology
from ridgeline.results.runfolder import RunFolder, RunHeader

BENCHMARK = Benchmark("tiny", "image", "acme/tiny", "tiny", "fp8", "vllm", "h200")


def store(run: RunFolder, concurrency: int, x: float, y: float | None, **changes: object) -> None:
    cell = Cell(BENCHMARK, Scenario("fixed-seq-len", 1024, 1024), Arm(topology=Topology(tp=2)), concurrency)
    source = changes.pop("source", Source.MEASURED)
    assert isinstance(source, Source)
    id = str(changes.pop("id", f"{f'{concurrency:02x}' * 32}.1"))
    key = id.partition(".")[0]
    point = Point(
        id=id,
        run_key=key,
        cell_fingerprint=cell.fingerprint,
        name=cell.name,
        line=cell.line,
        series=f"tiny/{source}",
        source=source,
        concurrency=concurrency,
        gpus=2,
        facts={"scenario": "fixed-seq-len", "hardware": "h200"},
        measures={
            "interactivity.p50": Measure(x, "tok/s/user", 100),
            "throughput_per_gpu.total": Measure(y, "tok/s/GPU", reason=None if y is not None else "no usage"),
        },
        **changes,  # type: ignore[arg-type]
    )
    run.write_cell(cell, point, None, None)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create_or_open(tmp_path / "run", RunHeader(name="r", created_at="2026-01-01T00:00:00+00:00"))
    store(folder, 1, 100, 10)
    store(folder, 2, 80, 30, cautions=(Caution("warm-cache", "41 %"),))
    store(folder, 4, 60, 50)
    store(folder, 8, 50, 49.5)
    store(folder, 16, 40, None)
    store(folder, 32, 30, 90, validity=Validity.INVALID, reasons=("error-rate: 40 %",))
    cell = Cell(BENCHMARK, Scenario("fixed-seq-len", 1024, 1024), Arm(topology=Topology(tp=2)), 64)
    folder.write_failure(cell, "40" * 32, "launch", "out of memory")
    return folder


def test_text(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frontier", str(run.path), "--noise", "2", "--at", "70", "--at", "10"]) == 0
    out, err = capsys.readouterr()
    assert err == "", "quiet when piped"
    assert "     100       10  tiny/1k1k/TP2/c1" in out
    assert "tiny/1k1k/TP2/c2  [warm-cache]" in out
    assert "dominated  tiny/1k1k/TP2/c8 by tiny/1k1k/TP2/c4, within noise\n" in out, "50 beats 49.5 by less than 2 %"
    assert "3 not plotted (1 missing, 1 invalid, 1 failed)" in out
    assert "c16: missing: no throughput_per_gpu.total: no usage" in out
    assert "c32: invalid: error-rate: 40 %" in out and "c64: failed: launch: out of memory" in out
    assert "at 10 or more  50" in out and "at 70 or more  30" in out, "a service level is a minimum"
    assert "at 70  40" in out and "at 10  none: 10 is outside the measured range 60 to 100" in out
    assert "interactivity.p50 (tok/s/user, higher is better)" in out


def test_json(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frontier", str(run.path), "--json", "--at", "80"]) == 0
    data = json.loads(capsys.readouterr().out)
    (series,) = data["series"]
    assert [(knot["x"], knot["y"]) for knot in series["frontier"]] == [(60, 50), (80, 30), (100, 10)]
    assert series["dominated"][0]["by"] == series["frontier"][0]["id"]
    assert data["points"][series["frontier"][1]["id"]]["cautions"] == ["warm-cache"]
    assert data["readings"] == [{"series": "tiny/measured", "x": 80.0, "y": 30.0, "reason": None, "best": 30.0}]
    assert [item["code"] for item in data["excluded"]] == ["missing", "invalid", "failed"]


def test_sources_are_not_mixed_unasked(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    store(run, 3, 70, 45, source=Source.EMULATED)
    assert main(["frontier", str(run.path)]) == 2
    assert "holds emulated and measured points" in capsys.readouterr().err
    assert main(["frontier", str(run.path), "--source", "emulated"]) == 0
    assert "other-source: measured, not emulated" in capsys.readouterr().out
    assert main(["frontier", str(run.path), "--source", "all"]) == 0
    out = capsys.readouterr().out
    assert "A  tiny/emulated" in out and "B  tiny/measured" in out


def test_exit_codes(tmp_path: Path, run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frontier", str(tmp_path / "none")]) == 2
    assert main(["frontier", str(run.path), "--y", "throughput_per_gpu.outptu"]) == 2
    assert "did you mean `throughput_per_gpu.output`" in capsys.readouterr().err
    assert main(["frontier", str(run.path), "--y", "kv_usage.peak"]) == 2
    assert main(["frontier", str(run.path), "--y", "ttft.p50"]) == 1, "nothing could be plotted"
    empty = tmp_path / "empty"
    RunFolder.create_or_open(empty, RunHeader(name="r", created_at="2026-01-01T00:00:00+00:00")).close()
    assert main(["frontier", str(empty)]) == 1
    assert "no points yet" in capsys.readouterr().out


def test_the_store_gives_the_same_frontier_as_the_folder(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store_of = ["--store", str(tmp_path / "s")]
    run.close()
    assert main(["results", "import", str(run.path), *store_of]) == 0
    capsys.readouterr()
    answers = []
    for words in ([str(run.path)], ["r", *store_of], store_of, ["--channel", "local", *store_of]):
        assert main(["frontier", *words, "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        answers.append([(knot["x"], knot["y"]) for knot in data["series"][0]["frontier"]])
    assert answers == [[(60, 50), (80, 30), (100, 10)]] * 4
    assert main(["frontier", "--where", "line=nothing", *store_of]) == 1
    assert "no points yet" in capsys.readouterr().out
    assert main(["frontier", "--where", "colour=red", *store_of]) == 2
    assert "is not a filter" in capsys.readouterr().err
    assert main(["frontier", "--channel", "published", *store_of]) == 1
    assert main(["frontier", "r", "--channel", "local", *store_of]) == 2


def test_repeats_are_one_point_with_their_range(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunFolder.create_or_open(tmp_path / "run", RunHeader(name="r", created_at="2026-01-01T00:00:00Z")) as folder:
        for repeat, y in enumerate((10.0, 12.0, 14.0), 1):
            store(folder, 1, 100, y, id=f"{repeat}" * 64 + ".1", provenance={"repeat": repeat})
        store(folder, 2, 99, 13.0)
    assert main(["frontier", str(tmp_path / "run"), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (series,) = data["series"]
    assert [(knot["x"], knot["y"]) for knot in series["frontier"]] == [(99, 13), (100, 12)], (
        "the mean, not the luckiest"
    )
    assert sorted(point["repeats"] for point in data["points"].values()) == [1, 3]
    assert main(["frontier", str(tmp_path / "run")]) == 0
    assert (
        "mean of 3 repeats: interactivity.p50 100 to 100, throughput_per_gpu.total 10 to 14" in capsys.readouterr().out
    )
    assert main(["frontier", str(tmp_path / "run"), "--repeats", "--json"]) == 0
    (series,) = json.loads(capsys.readouterr().out)["series"]
    assert [(knot["x"], knot["y"]) for knot in series["frontier"]] == [(100, 14)]


def test_area_and_cost(run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frontier", str(run.path), "--reference", "0,0", "--json"]) == 0
    area = json.loads(capsys.readouterr().out)["hypervolume"]
    assert area == {"reference": [0.0, 0.0], "series": {"tiny/measured": 60 * 50 + 20 * 30 + 20 * 10}}
    for words in (["--reference", "nonsense"], ["--reference", "nan,0"], ["--at", "inf", "--json"]):
        assert main(["frontier", str(run.path), *words]) == 2
    assert "not two numbers" in capsys.readouterr().err
    sheet = tmp_path / "prices.yaml"
    sheet.write_text(
        "format: ridgeline.prices\nversion: 1\nname: example\nvalid_from: 2026-01-31\nsource: made up\n"
        "gpu_hours: {h200: 2.0}\n"
    )
    arguments = ["frontier", str(run.path), "--metric", "tokens_per_dollar.total"]
    assert main([*arguments, "--prices", str(sheet), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [knot["y"] for knot in data["series"][0]["frontier"]] == [3600 * rate / 2 for rate in (50, 30, 10)]
    assert next(iter(data["points"].values()))["price_sheet"]["prices"]["price of a GPU-hour"] == 2.0
    assert main([*arguments, "--prices", str(sheet)]) == 0
    assert "h200: price of a GPU-hour 2 USD (example, valid from 2026-01-31" in capsys.readouterr().out
    assert main(arguments) == 1
    assert "no tokens_per_dollar.total" in capsys.readouterr().out


def test_a_plot_has_its_corners_where_they_belong() -> None:
    marks = [Mark(0, 0, "o"), Mark(10, 10, "A")]
    lines = draw(marks, [[(0, 0), (10, 10)]], x_title="x", y_title="y", width=21, height=11)
    rows = [line.partition("┤")[2] for line in lines[1:12]]
    assert rows[-1].startswith("o") and rows[0].endswith("A")
    assert sum(row.count("·") for row in rows) >= 9, "a line between them"
    assert len(draw([Mark(5, 5, "A")], [], x_title="x", y_title="y")) == 24, "one point is drawn too"
