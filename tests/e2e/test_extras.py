"""What a sweep can do beside measuring every cell once, as a user asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.command import CONFIG, ridgeline, sweep

from ridgeline.cli.main import main
from ridgeline.core.point import Validity
from ridgeline.results.runfolder import RunFolder

pytestmark = pytest.mark.integration
POOLS = CONFIG.with_name("pools.yaml")


def test_an_adaptive_sweep_says_why_and_spares_the_rest(tmp_path: Path) -> None:
    done = sweep(tmp_path / "run", "--adaptive", "--budget", "1", "--cells", "*agentic*")
    assert done.returncode == 0, done.stderr
    assert "of the frontier" in done.stderr
    assert "1 cells run, 0 finished before, 0 failed, 1 spared" in done.stderr
    assert len(RunFolder.open(tmp_path / "run").points()) == 1


def test_a_refined_sweep_may_choose_between_listed_concurrencies(tmp_path: Path) -> None:
    wide = tmp_path / "wide.yaml"
    wide.write_text(CONFIG.read_text().replace("conc-list: [1, 2]", "conc-list: [1, 4]"))
    done = sweep(tmp_path / "run", "--adaptive", "--refine", "--cells", "*agentic*", config=wide)
    assert done.returncode == 0, done.stderr
    assert "/3]" in done.stderr, "the middle is a cell, too"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--budget", "3"), "goes with --adaptive"),
        (("--refine",), "goes with --adaptive"),
        (("--adaptive", "--executor", "slurm"), "does not go with --executor slurm"),
        (("--adaptive", "--budget", "lots"), "is not understood"),
        (("--walltime", "soon"), "is not a walltime"),
        (("--walltime", "1h", "--executor", "slurm"), "goes with --executor local"),
        (("--eval", "t", "--eval-include", "no-such-folder"), "there is no folder"),
        (("--eval", "t", "--eval-bar", "7"), "must be 0 to 1"),
    ],
)
def test_what_does_not_go_together_is_refused(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", str(CONFIG), "--out", str(tmp_path / "run"), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_walltime_leaves_what_would_not_end_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # nothing was learned yet
    done = sweep(tmp_path / "run", "--walltime", "5s")
    assert done.returncode == 1
    assert "0 cells run, 0 finished before, 0 failed, 3 not tried" in done.stderr
    assert done.stderr.count("left out, start 15 s") == 3
    assert sweep(tmp_path / "run", "--walltime", "10m").returncode == 0
    assert len((tmp_path / "state" / "ridgeline" / "times.jsonl").read_text().splitlines()) == 3


def test_pools_run_on_one_machine_when_they_are_emulated(tmp_path: Path) -> None:
    done = sweep(tmp_path / "run", "--adaptive", "--budget", "1", config=POOLS)
    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stderr, "pools are placed by their steady state"
    (point,) = RunFolder.open(tmp_path / "run").points()
    assert (point.gpus, point.provenance["gpus_by_role"]) == (4, {"prefill": 2, "decode": 2})
    assert len(set(point.provenance["placement"].values())) == 1
    assert point.validity in (Validity.VALID, Validity.INVALID), point.reasons
    assert point.provenance["proof"]["contradicted"] == 0, point.reasons


def test_pools_of_a_real_engine_need_their_nodes(tmp_path: Path) -> None:
    real = tmp_path / "real.yaml"
    real.write_text(POOLS.read_text().replace("framework: emulated", "framework: vllm"))
    trace = tmp_path / "trace.jsonl"
    assert ridgeline("trace", "synth", "--sessions", "4", "--output", trace).returncode == 0
    words = ("--duration", "5", "--warmup", "0", "--trace", trace, "--cells", "*/c2")
    done = ridgeline("sweep", real, "--out", tmp_path / "run", *words)
    assert done.returncode == 1, done.stderr
    assert "belong on other nodes" in done.stderr
    assert "needs 3" in done.stderr
