"""What goes wrong says so in one message with a hint and the right exit code, and leaves finished cells alone."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.e2e.command import CONFIG, QUICK, command, processes_with, ridgeline, sweep

from ridgeline.cli.main import main
from ridgeline.results.runfolder import RunFolder

ONE = ("--cells", "*256_16*")


def test_bad_config_lists_every_problem_with_its_place(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(CONFIG.read_text().replace("precision", "precisoin").replace("conc-list: [2]", "conc-list: [0]"))
    done = sweep(tmp_path / "run", config=bad)
    assert done.returncode == 2
    assert f"{bad}:5:3" in done.stderr
    assert "precision" in done.stderr
    assert "conc-list" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no-such.yaml",), "no-such.yaml"),
        ((CONFIG, "--trace", "no-such-trace.json"), "no-such-trace.json"),
        ((CONFIG, "--cells", "*nothing*"), "no cell matches"),
        ((CONFIG, "--engine", "imaginary"), "--engine"),
        ((CONFIG, "--speed", "-3"), "speed"),
        ((CONFIG, "--no-such-flag"), "--no-such-flag"),
    ],
)
def test_wrong_input_exits_with_2_and_says_what(
    arguments: tuple[str | Path, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", *map(str, arguments), "--out", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.integration
def test_an_empty_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    done = sweep(tmp_path / "run", "--trace", tmp_path / "empty.jsonl")
    assert done.returncode == 2
    assert "empty.jsonl" in done.stderr


@pytest.mark.integration
@pytest.mark.parametrize("framework", ["trt", "abacus"])
def test_an_engine_that_is_not_launched_exits_with_3_and_names_it(
    framework: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "other.yaml"
    config.write_text(CONFIG.read_text().replace("framework: emulated", f"framework: {framework}"))
    assert main(["sweep", str(config), "--cells", "*256_16*", "--out", str(tmp_path / "run")]) == 3
    said = capsys.readouterr().err
    assert f"`{framework}`" in said
    assert "--engine emulated" in said


@pytest.mark.integration
def test_a_port_that_is_taken_exits_with_3_and_a_hint(tmp_path: Path) -> None:
    import socket

    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        done = ridgeline("emulate", "--model", "Qwen/Qwen3-8B", "--gpu", "h200", "--tp", "1", "--port", str(port))
    assert done.returncode == 3
    assert str(port) in done.stderr
    assert "hint" in done.stderr


@pytest.mark.integration
def test_a_full_disk_loses_only_the_cell_under_way(tmp_path: Path) -> None:
    """A small file system of its own stands for a full disk."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        assert sweep(disk / "run", *ONE).returncode == 0
        free = os.statvfs(disk)
        (disk / "ballast").write_bytes(b"x" * (free.f_bavail * free.f_bsize - 16384))
        done = sweep(disk / "run")
        assert done.returncode == 3, done.stderr
        assert "space" in done.stderr
        assert "Traceback" not in done.stderr
        (disk / "ballast").unlink()
        assert [point.name for point in RunFolder.open(disk / "run").points()] == ["qwen3-quick/256_16/TP1/c2"]
        assert "1 finished before" in sweep(disk / "run").stderr
    finally:
        subprocess.run(["umount", disk], check=True)


def _emulators(tag: str) -> list[int]:
    """The emulated engine itself, not the guardian that has its words among its own."""
    return [
        pid
        for pid in processes_with(tag)
        if b"\0emulate\0" in (words := Path(f"/proc/{pid}/cmdline").read_bytes()) and b"guardian" not in words
    ]


@pytest.mark.integration
def test_a_server_that_dies_in_mid_run_is_a_failure_of_its_cell_only(tmp_path: Path) -> None:
    out = tmp_path / "run"
    tag = f"mortal-{os.getpid()}"
    running = subprocess.Popen(
        command("sweep", CONFIG, "--out", out, *QUICK),
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RIDGELINE_TEST_TAG": tag},
    )
    try:
        end = time.monotonic() + 60
        while not (found := _emulators(tag)) and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.5)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        _, said = running.communicate(timeout=90)
    finally:
        running.kill()
    assert running.returncode == 1
    assert said.count("FAILED") == 1
    assert "signal 9" in said or "ended with" in said
    assert len(RunFolder.open(out).points()) == 2
    assert len(RunFolder.open(out).failures()) == 1
    assert "1 cells run, 2 finished before" in sweep(out).stderr
    assert RunFolder.open(out).failures() == ()
