"""status, logs and diagnose read a run while it goes on, after it, and after it was killed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.cli.main import main
from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.point import Caution, Measure, Point, Source, Validity
from ridgeline.core.topology import Topology
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.sweep.diagnosis import diagnose, eta_s, run_state
from ridgeline.sweep.events import Event
from ridgeline.sweep.live import LIVE, LiveState

BENCHMARK = Benchmark("bench", "img", "M", "m", "fp8", "vllm", "cluster:h200")
CELLS = [Cell(BENCHMARK, Scenario("fixed-seq-len", isl=8, osl=8), Arm(Topology(1)), n) for n in (1, 2, 4, 8)]
KEYS = [f"{n:064x}" for n in (0xA1, 0xB2, 0xC3, 0xD4)]
KEYS = [key[::-1] for key in KEYS]  # the first digits name folders


def point(cell: Cell, key: str) -> Point:
    return Point(
        id=f"{key}.1", run_key=key, cell_fingerprint=cell.fingerprint, name=cell.name, line=cell.line, series="s",
        source=Source.MEASURED, concurrency=cell.concurrency, gpus=1, facts={}, measures={"x": Measure(1.0, "s")},
    )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """One cell done and degraded, one failed with its log, one under way, one waiting."""
    path = tmp_path / "run"
    with RunFolder.create_or_open(path, RunHeader(name="r", created_at="2026-01-01T00:00:00Z")) as folder:
        clock = iter(range(1000, 2000))
        live = LiveState(path / LIVE, list(zip((c.name for c in CELLS), KEYS, strict=True)), wall=lambda: next(clock))
        live.begin()

        def tell(kind: str, index: int, **more: object) -> None:
            live(Event(kind=kind, index=index, total=4, cell=CELLS[index - 1], **more))  # type: ignore[arg-type]

        tell("begin", 1)
        degraded = replace(
            point(CELLS[0], KEYS[0]),
            validity=Validity.DEGRADED,
            reasons=("kv-tokens: the KV pool is smaller than predicted: 5, expected >= 9",),
        )
        folder.write_cell(CELLS[0], degraded, None, None)
        tell("done", 1)
        log = tmp_path / "engine.log"
        log.write_text("INFO starting\nOSError: [Errno 98] Address already in use\nbye\n")
        tell("begin", 2)
        message, detail = "service `engine` ended with exit code 1", {"blame": "infrastructure"}
        folder.write_failure(CELLS[1], KEYS[1], "node", message, logs={"engine.log": log}, detail=detail)
        tell("failed", 2, text="node: ...")
        tell("begin", 3)
        tell("start", 3, text="engine")
        live.phases(3, "engine", [{"name": "weights", "began": 1.0, "ended": None, "done": 3, "total": 12}])
        under_way = path / LIVE / KEYS[2][:16]
        under_way.mkdir()
        (under_way / "engine.log").write_text("Loading safetensors checkpoint shards\n")
    return path


def alive(path: Path, pid: int, *, over: bool = False) -> None:
    state = json.loads((path / LIVE / "state.json").read_text())
    (path / LIVE / "state.json").write_text(json.dumps(state | {"pid": pid, "over": over}))


def test_status_says_every_cell_and_what_to_do_next(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(run)]) == 1
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split() == ["done", CELLS[0].name, "degraded"]
    assert lines[1].split()[:3] == ["failed", CELLS[1].name, "node:"]
    assert lines[3].split() == ["waiting", CELLS[3].name]
    assert "1 done, 1 failed" in err
    assert f"ridgeline diagnose {run}" in err


def test_a_cell_under_way_shows_its_phase_while_its_sweep_lives_and_is_lost_after(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ridgeline.sweep.live._lives", lambda pid: pid == os.getpid())
    assert main(["status", str(run)]) == 1
    out, err = capsys.readouterr()
    assert "starting" in out.splitlines()[2]
    assert "engine: weights 3 of 12" in out.splitlines()[2]
    assert "running" in err
    alive(run, 1)
    main(["status", str(run)])
    out, err = capsys.readouterr()
    assert out.splitlines()[2].split()[0] == "lost"
    assert "not running" in err
    found = run_state(RunFolder.open(run)).cells[2]
    lost = diagnose(RunFolder.open(run), found)
    assert lost is not None
    assert (lost.layer, lost.advice) == ("weights", "run the same command again: it goes on here")
    assert lost.lines == ("engine.log: Loading safetensors checkpoint shards",)


def test_what_a_job_of_a_cluster_has_under_way_is_shown(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller knows the queue's words; the sweep inside the job, on another machine, knows the phases."""
    monkeypatch.setattr("ridgeline.sweep.live._lives", lambda pid: pid == os.getpid())
    state = json.loads((run / LIVE / "state.json").read_text())
    state["cells"][3] |= {"state": "start", "text": "running n2", "steps": [{"step": "start", "text": "", "at": 1.0}]}
    (run / LIVE / "state.json").write_text(json.dumps(state))
    inner = run / "jobs" / "abc" / "run" / LIVE
    live = LiveState(inner, [(CELLS[3].name, KEYS[3]), (CELLS[1].name, KEYS[1])])
    live.begin()
    live(Event(kind="start", index=1, total=2, cell=CELLS[3], text="engine"))
    live.phases(1, "engine", [{"name": "capture", "began": 1.0, "ended": None, "done": 3, "total": 9}])
    (inner / KEYS[3][:16]).mkdir()
    (inner / KEYS[3][:16] / "engine.log").write_text("Capturing CUDA graphs\n")
    main(["status", str(run)])
    lines = capsys.readouterr().out.splitlines()
    assert "engine: capture 3 of 9" in lines[3]
    assert lines[1].split()[0] == "failed", "what waits in the job is as the controller has it"
    assert main(["logs", str(run), CELLS[3].name]) == 0
    assert "Capturing CUDA graphs" in capsys.readouterr().out


def test_diagnose_names_layer_fault_advice_and_the_line_that_shows_it(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(run), "*/c2"]) == 1
    out = capsys.readouterr().out
    assert "layer   node" in out
    assert "fault   infrastructure" in out
    assert "ss -ltnp" in out
    assert "| engine.log: OSError: [Errno 98] Address already in use" in out
    assert main(["diagnose", str(run), KEYS[0][:8], "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["layer"] == "metrics"
    assert data["message"].startswith("kv-tokens")


def test_logs_of_a_failure_and_of_what_is_under_way(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", str(run), "--lines", "2"]) == 0
    out = capsys.readouterr().out
    assert "Address already in use\nbye\n" in out
    assert "INFO starting" not in out
    assert "checkpoint shards" in out
    assert main(["logs", str(run), CELLS[3].name]) == 1


def test_cells_that_share_an_engine_show_its_log_while_it_runs(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = json.loads((run / LIVE / "state.json").read_text())
    state["cells"][3] |= {
        "state": "replay",
        "engine": KEYS[2][:16],
        "steps": [{"step": "replay", "text": "", "at": 1.0}],
    }
    (run / LIVE / "state.json").write_text(json.dumps(state))
    assert main(["logs", str(run), CELLS[3].name]) == 0
    assert "checkpoint shards" in capsys.readouterr().out


def test_advice_is_of_what_is_wrong_and_of_nothing_else(run: Path) -> None:
    folder = RunFolder.open(run)
    (cell, *_) = run_state(folder).cells
    assert cell.point is not None
    other, own = Caution("few-samples", "x", "measure longer"), Caution("kv-tokens", "x", "free memory")
    for cautions, advice in (((other,), ""), ((other, own), "free memory")):
        found = diagnose(folder, replace(cell, point=replace(cell.point, cautions=cautions)))
        assert found is not None
        assert found.advice == advice


def test_wrong_names_and_folders_are_input_errors(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(run), "no-such-cell"]) == 2
    assert "no cell of this run matches" in capsys.readouterr().err
    for verb in ("status", "logs", "diagnose"):
        assert main([verb, str(tmp_path / "nothing")]) == 2


def test_progress_is_shown_and_the_rest_is_estimated(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = run_state(RunFolder.open(run))
    assert eta_s(state._replace(alive=True), (state.began or 0) + 4) is not None
    assert eta_s(state._replace(alive=False), 0.0) is None
