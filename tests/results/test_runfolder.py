"""A run folder: atomic cells, resumption, failures, locks, versions and a disk that refuses."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.results.builders import cell, deployment, point, record, replay, sample

from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.core.point import Measure
from ridgeline.results import durable
from ridgeline.results.runfolder import RunFolder, RunHeader

HEADER = RunHeader(name="demo", created_at="2026-01-02T03:04:05+00:00", command=("ridgeline", "sweep"))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create_or_open(tmp_path / "run", HEADER)


def store(run: RunFolder, concurrency: int = 4, attempt: int = 1) -> Path:
    data = replay([record(0), record(1)], samples=(sample(0, vllm__x=1.0), sample(1, vllm__x=2.0)))
    return run.write_cell(
        cell(concurrency), point(concurrency, attempt=attempt), data, deployment(), {}, {"evidence": [{"kv": 7}]}
    )


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_cell_comes_back_as_it_went_in(run: RunFolder, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("ready\n")
    data = replay([record(0), record(1)], samples=(sample(0, vllm__x=1.0),))
    logs = {"engine.log": log, "gone.log": tmp_path / "gone.log"}
    folder = run.write_cell(cell(), point(ttft=1.5), data, deployment(), logs, {"evidence": {"kv": 7}})
    key = point().run_key
    assert run.finished(key) and not run.finished("f" * 64)
    again = RunFolder.open(run.path)
    assert again.points() == (point(ttft=1.5),)
    assert again.points()[0].measures["gone"].reason == "never seen"
    assert again.replay_of(key) == data
    assert again.cell_of(key) == cell() and again.cell_of(key).fingerprint == cell().fingerprint
    assert again.deployment_of(key) == deployment()
    assert again.header == HEADER
    assert everything(folder) == [
        "cell.json",
        "deployment.json",
        "evidence.json",
        "logs/engine.log",
        "point.json",
        "records.parquet",
        "samples.parquet",
    ]


def test_points_come_in_the_order_of_line_and_concurrency(run: RunFolder) -> None:
    for concurrency in (16, 2, 8):
        store(run, concurrency)
    assert [p.concurrency for p in run.points()] == [2, 8, 16]


def test_a_second_start_keeps_what_is_finished_and_removes_what_is_not(run: RunFolder) -> None:
    store(run)
    killed = run.path / "cells" / f"{durable.LEFTOVER}abc-123"
    killed.mkdir()
    (killed / "point.json").write_text("{")
    (run.path / f"{durable.LEFTOVER}run.json-1").write_text("half")
    failure = run.path / "failures" / "00ff" / f"{durable.LEFTOVER}1-9"
    failure.mkdir(parents=True)
    assert len(RunFolder.open(run.path).points()) == 1, "a reader does not see unfinished cells"
    assert killed.exists(), "and does not clean either: the writer may be at work"
    run.close()
    later = RunHeader(name="other", created_at="2026-01-03T00:00:00+00:00")
    with RunFolder.create_or_open(run.path, later) as again:
        assert again.finished(point().run_key)
        assert (again.header.name, again.header.resumed_at) == ("demo", (later.created_at,))
        assert not [name for name in everything(run.path) if durable.LEFTOVER in name]
        assert not killed.exists() and not failure.exists()


def test_failures_count_as_attempts_and_a_success_supersedes_them(run: RunFolder, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("out of memory\n")
    key = point().run_key
    first = run.write_failure(cell(), key, "launch", "engine died", hint="less memory", logs={"engine.log": log})
    second = run.write_failure(cell(), key, "replay", "server went away", detail={"exit": -9})
    assert (first.attempt, second.attempt, run.attempts(key)) == (1, 2, 2)
    assert not run.finished(key)
    (listed,) = run.failures()
    assert listed == second and listed.detail == {"exit": -9}
    assert listed.exclusion == (key, cell().name, "failed", "replay: server went away")
    assert (run.path / "failures" / key[:16] / "1" / "logs" / "engine.log").read_text() == "out of memory\n"
    store(run, attempt=3)
    assert run.failures() == () and run.attempts(key) == 3 and run.finished(key)


def test_a_repeat_is_a_second_point_and_nothing_is_overwritten(run: RunFolder) -> None:
    store(run)
    with pytest.raises(ValueError, match="stored already"):
        store(run)
    store(run, attempt=2)
    assert [p.attempt for p in run.points()] == [1, 2]
    assert run.point_of(point().run_key).attempt == 2


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
def test_a_disk_that_refuses_leaves_finished_cells_and_no_rubbish(
    run: RunFolder, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(run)
    before = everything(run.path)

    def refuse(path: Path) -> None:
        raise OSError(code, "refused", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(durable, "sync", refuse)
        with pytest.raises(EnvironmentFailed, match="cannot store") as caught:
            store(run, 8)
        assert caught.value.hint and caught.value.exit_code == 3
        with pytest.raises(EnvironmentFailed):
            run.write_failure(cell(8), point(8).run_key, "launch", "x")
    assert everything(run.path) == before
    store(run, 8)
    assert len(run.points()) == 2


def test_an_interruption_leaves_no_half_cell(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(durable, "sync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store(run)
    assert list((run.path / "cells").iterdir()) == []


def test_one_writer_at_a_time(run: RunFolder) -> None:
    code = (
        "import fcntl, os, sys; h = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); fcntl.lockf(h, fcntl.LOCK_EX);"
        "print('held', flush=True); sys.stdin.read()"
    )
    run.close()
    holder = subprocess.Popen(
        [sys.executable, "-S", "-c", code, str(run.path / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(EnvironmentFailed, match="another process is writing"):
            RunFolder.create_or_open(run.path, HEADER)
        assert RunFolder.open(run.path).points() == ()
        holder.stdin.close()
    RunFolder.create_or_open(run.path, HEADER).close()


def test_readers_cannot_write(run: RunFolder) -> None:
    with pytest.raises(ValueError, match="for reading"):
        store(RunFolder.open(run.path))


def test_newer_damaged_and_foreign_are_refused_by_name(run: RunFolder, tmp_path: Path) -> None:
    file = store(run) / "point.json"
    whole = json.loads(file.read_text())
    file.write_text(json.dumps(whole | {"version": 99}))
    with pytest.raises(InputError, match=r"point\.json.*version 99; this Ridgeline reads up to"):
        run.points()
    file.write_text(json.dumps(whole)[:-20])
    with pytest.raises(InputError, match="not a JSON document"):
        run.points()
    with pytest.raises(InputError, match=r"run\.json is missing"):
        RunFolder.open(tmp_path / "nothing")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("")
    with pytest.raises(InputError, match="not a run folder"):
        RunFolder.create_or_open(tmp_path / "photos", HEADER)
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailed, match="cannot write"):
        RunFolder.create_or_open(tmp_path / "file" / "run", HEADER)


def test_nan_never_reaches_the_disk(run: RunFolder) -> None:
    import dataclasses

    bad = dataclasses.replace(point(), measures={"x": Measure(float("nan"), "s")})
    with pytest.raises(ValueError, match="not JSON compliant"):
        run.write_cell(cell(), bad, None, None)
    assert list((run.path / "cells").iterdir()) == []


def test_names_of_extra_files_cannot_leave_the_folder(run: RunFolder) -> None:
    for name in ("../x", "point", "", ".hidden", "a/b"):
        with pytest.raises(ValueError, match="not a name"):
            run.write_cell(cell(), point(), None, None, extra={name: 1})
