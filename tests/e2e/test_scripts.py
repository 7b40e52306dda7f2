"""Launch scripts as they are, and commands of any kind, are swept like recipes: held, measured, harvested, gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.command import CONFIG, QUICK, processes_with, ridgeline

from ridgeline.core.point import Source
from ridgeline.results.runfolder import RunFolder

SCRIPT = Path(__file__).parent / "scripts" / "qwen3_fp8_h200.sh"
EMULATE = (
    "{python} -m ridgeline.cli.main emulate --model $MODEL --served-model-name $MODEL --gpu h200 --precision fp8 "
    "--tp $TP --port $PORT --speed 20"
)
ONE = ("--cells", "*256_16*")

pytestmark = pytest.mark.integration


def run(out: Path, *words: str | Path, tag: str = "none") -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    os.environ["RIDGELINE_TEST_TAG"], before = tag, os.environ["PATH"]
    os.environ["PATH"] = path
    try:
        return ridgeline("sweep", CONFIG, "--out", out, *QUICK, *words)
    finally:
        os.environ["PATH"] = before
        del os.environ["RIDGELINE_TEST_TAG"]


def test_a_script_is_swept_as_it_is(tmp_path: Path) -> None:
    tag = f"script-{os.getpid()}"
    done = run(tmp_path / "run", "--shell", SCRIPT, "--env", "ENGINE_SPEED=20", tag=tag)
    assert done.returncode == 0, done.stderr
    assert processes_with(tag) == [], "the script's server is gone"
    folder = RunFolder.open(tmp_path / "run")
    points = folder.points()
    assert sorted(point.concurrency for point in points) == [1, 2, 2]
    assert {point.source for point in points} == {Source.EMULATED}
    for point in points:
        assert (point.value("requests.good") or 0) > 0
        cell = folder.cell_folder(point.run_key)
        left = cell / "artifacts"
        (called,) = (left / "clients.txt").read_text().splitlines()
        assert called.startswith("aiperf profile --model Qwen/Qwen3-8B --url http://127.0.0.1:")
        assert not (left / ".ridgeline").exists(), "ours"
        told = json.loads((left / "results" / "result.json").read_text())
        assert told == {"conc": point.concurrency, "tp": 1, "exit": 0}, "it went on after its load generator"
        evidence = {piece["name"]: piece for piece in json.loads((cell / "evidence.json").read_text())}
        assert evidence["kv_tokens"]["where"]["file"] == "results/server.log"
        assert evidence["engines"]["value"] == 1.0
        log = (cell / "logs" / "script.log").read_text()
        assert "ridgeline stands in for: aiperf profile" in log
        assert log.rstrip().endswith("finished")
        assert point.provenance["proof"]["contradicted"] == 0, point.reasons


def test_a_command_is_swept(tmp_path: Path) -> None:
    done = run(tmp_path / "run", *ONE, "--command", EMULATE)
    assert done.returncode == 0, done.stderr
    (point,) = RunFolder.open(tmp_path / "run").points()
    assert point.provenance["recipe"].startswith("command (override for cells `*`")
    assert (point.value("requests.good") or 0) > 0
    again = run(tmp_path / "run", *ONE, "--command", f"{EMULATE} --seed 1")
    assert "1 cells run, 0 finished before" in again.stderr, "another command is another point"


def test_settings_name_scripts_and_commands(tmp_path: Path) -> None:
    (tmp_path / "ridgeline.yaml").write_text(
        f"recipes:\n- {{cells: '*256_16*', command: '{EMULATE}'}}\n- {{cells: '*', shell: none.sh}}\n"
    )
    done = run(tmp_path / "run", *ONE, "--settings", tmp_path / "ridgeline.yaml")
    assert done.returncode == 2
    assert "there is no file" in done.stderr
    assert f"{tmp_path / 'ridgeline.yaml'}:3:" in done.stderr
    (tmp_path / "ridgeline.yaml").write_text(f"recipes:\n- {{cells: '*', command: '{EMULATE}', shell: x.sh}}\n")
    assert "exactly one" in run(tmp_path / "run", "--settings", tmp_path / "ridgeline.yaml").stderr
    (tmp_path / "ridgeline.yaml").write_text(f"recipes:\n- {{cells: '*', command: '{EMULATE}'}}\n")
    done = run(tmp_path / "run", *ONE, "--settings", tmp_path / "ridgeline.yaml")
    assert done.returncode == 0, done.stderr


def test_an_emulated_engine_is_never_called_measured(tmp_path: Path) -> None:
    config = tmp_path / "real.yaml"
    config.write_text(CONFIG.read_text().replace("framework: emulated", "framework: vllm"))
    words = ("sweep", config, "--out", tmp_path / "run", "--requests", "2", *ONE)
    done = ridgeline(*words, "--command", EMULATE.replace("--speed 20", "--speed 1"))
    assert done.returncode == 1
    (failure,) = RunFolder.open(tmp_path / "run").failures()
    assert (failure.layer, failure.message) == ("ready", "what was started is the emulated engine")


def test_a_script_that_fails_says_why(tmp_path: Path) -> None:
    done = run(tmp_path / "run", *ONE, "--command", "echo no such GPU; exit 4")
    assert done.returncode == 1
    (failure,) = RunFolder.open(tmp_path / "run").failures()
    assert failure.layer == "engine start"
    assert "exit code 4" in failure.message
    assert "no such GPU" in failure.message


def test_a_dry_run_shows_the_contract(tmp_path: Path) -> None:
    done = run(tmp_path / "run", *ONE, "--shell", SCRIPT, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert str(SCRIPT) in done.stdout
    for word in ("CONC=2", "ISL=256", "MODEL=Qwen/Qwen3-8B", "PORT='{port:http}'", "RESULT_DIR='{work}/results'"):
        assert word in done.stdout, word


def test_secrets_are_nowhere_in_what_is_stored_or_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hush-from-outside")
    leak = "echo saw $INNER_TOKEN $MY_TOKEN $OTHER_API_KEY; echo $INNER_TOKEN > left.json; "
    env = ("--env", "INNER_TOKEN=hush-from-words", "--env", "OTHER_API_KEY={env:MY_TOKEN}")
    done = run(tmp_path / "run", *ONE, "--command", leak + EMULATE, *env)
    assert done.returncode == 0, done.stderr
    bad = run(tmp_path / "bad", *ONE, "--command", f"{leak} exit 3", *env)
    assert bad.returncode == 1
    said = [bad.stdout + bad.stderr + done.stdout + done.stderr]
    for out in ("run", "bad"):
        for verb in ("status", "logs", "diagnose"):
            shown = ridgeline(verb, tmp_path / out)
            said.append(shown.stdout + shown.stderr)
    said.append(run(tmp_path / "run", *ONE, "--command", leak + EMULATE, *env, "--dry-run").stdout)
    assert "hush-from" not in "".join(said)
    stored = [path for path in tmp_path.rglob("*") if path.is_file() and b"hush-from" in path.read_bytes()]
    assert stored == []
    (left,) = (tmp_path / "run").glob("cells/*/artifacts/left.json")
    assert left.read_text() == "*" * 15 + "\n"
    deployment = (left.parents[1] / "deployment.json").read_text()
    assert "{env:INNER_TOKEN}" in deployment
    assert "{env:MY_TOKEN}" in deployment
    other = run(tmp_path / "run", *ONE, "--command", leak + EMULATE, "--env", "INNER_TOKEN=hush-from-later", *env[2:])
    assert "1 finished before" in other.stderr, "a secret that changes makes no other point"
    kept = "".join(path.read_text() for path in tmp_path.rglob("script.log"))
    assert kept.count(f"saw {'*' * 15} {'*' * 17} {'*' * 17}") == 2, "what was said is kept, without them"
