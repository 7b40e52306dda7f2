"""A cell that the preflight fails is refused before anything is started, with the finding; others go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from ridgeline.cli.main import main
from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.finding import Finding, Verdict
from ridgeline.plan.checks.report import CellReport, Judged
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.sweep.preflight import LAYER, refuse
from ridgeline.sweep.run import Sweep

# One GPU of 80 GiB cannot hold the weights of the first cell; eight hold those of the second.
CONFIG = """\
llama-bf16-h100-vllm:
  image: vllm/vllm-openai:v0.26.0
  model: meta-llama/Llama-3.3-70B-Instruct
  model-prefix: llama70b
  precision: bf16
  framework: vllm
  runner: cluster:h100
  multinode: false
  scenarios:
    fixed-seq-len:
      - isl: 256
        osl: 16
        search-space:
          - { tp: 1, conc-list: [2] }
"""


def finding(verdict: Verdict, rule: str = "M2") -> Judged:
    return Judged(Finding(rule, verdict, "too large", arithmetic="131 > 80", hint="tp 8"))


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    from tests.e2e.command import CONFIG as EMULATED

    from ridgeline.cli.search import chosen_cells
    from ridgeline.recipes.settings import RecipeSettings
    from ridgeline.sweep.deploy import Deploy
    from ridgeline.sweep.settings import SweepSettings
    from ridgeline.sweep.workload import Workload
    from ridgeline.trace.synth import quickstart_trace

    settings = SweepSettings(speed=20)
    workload = Workload(settings, quickstart_trace())
    return Sweep(chosen_cells([EMULATED], None, "*"), settings, workload, Deploy("emulated", RecipeSettings(speed=20)))


def opened(path: Path) -> RunFolder:
    return RunFolder.create_or_open(path, RunHeader(name="r", created_at="2026-01-01T00:00:00Z"))


def saying(*judged: Judged, concurrency: int = 1):
    def preflight(cell: Cell, deployment: Deployment) -> CellReport | None:
        return CellReport(cell, judged if cell.concurrency == concurrency else (), ())

    return preflight


def test_failing_cells_are_left_out_with_a_failure_that_says_why(sweep: Sweep, tmp_path: Path) -> None:
    with opened(tmp_path / "run") as folder:
        (refused,) = refuse(sweep, folder, saying(finding(Verdict.FAIL)))
        assert refused.item.cell.concurrency == 1
        assert [item.cell.concurrency for item in sweep.plan()] == [2, 2]
        (failure,) = folder.failures()
        assert (failure.layer, failure.message, failure.hint) == (LAYER, "M2: too large [131 > 80]", "tp 8")


def test_a_refusal_is_recorded_once(sweep: Sweep, tmp_path: Path) -> None:
    with opened(tmp_path / "run") as folder:
        for _ in range(3):
            sweep.only = None
            assert len(refuse(sweep, folder, saying(finding(Verdict.FAIL)))) == 1
        assert folder.failures()[0].attempt == 1


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.WARN, Verdict.UNKNOWN])
def test_only_fail_refuses(sweep: Sweep, tmp_path: Path, verdict: Verdict) -> None:
    with opened(tmp_path / "run") as folder:
        assert refuse(sweep, folder, saying(finding(verdict))) == []
        assert len(sweep.plan()) == 3


def test_a_waiver_lets_a_cell_through(sweep: Sweep, tmp_path: Path) -> None:
    import datetime

    from ridgeline.spec.settings import Waiver

    waived = finding(Verdict.FAIL)
    waived = Judged(waived.finding, Waiver("M2", "*", "known", datetime.date(2030, 1, 1)))
    with opened(tmp_path / "run") as folder:
        assert refuse(sweep, folder, saying(waived)) == []


def test_the_command_refuses_what_does_not_fit_and_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "big.yaml"
    config.write_text(CONFIG)
    assert main(["sweep", str(config), "--out", str(tmp_path / "run")]) == 1
    said = capsys.readouterr().err
    assert "refused  llama-bf16-h100-vllm/256_16/TP1/c2" in said
    assert "M2: " in said
    assert "1 refused by the preflight" in said
    folder = RunFolder.open(tmp_path / "run")
    assert [failure.layer for failure in folder.failures()] == [LAYER]
    assert main(["diagnose", str(tmp_path / "run")]) == 1
    assert "layer   check" in capsys.readouterr().out
