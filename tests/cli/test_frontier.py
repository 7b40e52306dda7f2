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
    key = f"{concurrency:02x}" * 32
    point = Point(
        id=f"{key}.1",
        run_key=key,
        cell_fingerprint=cell.fingerprint,
        name=cell.name,
        line=cell.line,
        series=f"tiny/{source}",
        source=source,
        concurrency=concurrency,
        gpus=2,
        facts={"scenario": "fixed-seq-len"},
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


def test_a_plot_has_its_corners_where_they_belong() -> None:
    marks = [Mark(0, 0, "o"), Mark(10, 10, "A")]
    lines = draw(marks, [[(0, 0), (10, 10)]], x_title="x", y_title="y", width=21, height=11)
    rows = [line.partition("┤")[2] for line in lines[1:12]]
    assert rows[-1].startswith("o") and rows[0].endswith("A")
    assert sum(row.count("·") for row in rows) >= 9, "a line between them"
    assert len(draw([Mark(5, 5, "A")], [], x_title="x", y_title="y")) == 24, "one point is drawn too"
