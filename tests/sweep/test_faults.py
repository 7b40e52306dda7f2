"""Faults seeded into the emulated engine are each caught by a run that is not told of them; a sound run raises none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.deployment import Deployment, Item
from ridgeline.core.errors import InputError
from ridgeline.core.finding import Expectation
from ridgeline.core.point import Point, Source, Validity
from ridgeline.core.topology import Topology
from ridgeline.launch.reach import Reach
from ridgeline.recipes.settings import RecipeSettings
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.simulate.faults import KINDS, parse_faults
from ridgeline.sweep.deploy import Deploy, expected_of_model
from ridgeline.sweep.run import Sweep
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload
from ridgeline.trace.formats.write import write_jsonl
from ridgeline.trace.synth import synthesise

SPEED = 20.0
SETTINGS = SweepSettings(duration_s=60, warmup_per_lane=1, speed=SPEED, grace_s=10)
SPECULATING = ("--num-speculative-tokens", "3", "--acceptance-length", "2.8")
BENCHMARK = Benchmark("faults", "img", "Qwen/Qwen3-8B", "qwen3", "fp8", "emulated", "cluster:h200-nv")
CELL = Cell(BENCHMARK, Scenario("agentic-coding", duration_s=60), Arm(Topology(2, dp_attn=True)), 4)

CAUGHT = {
    "graphs-above=8": "graphs",
    "no-prefix-cache": "prefix-cache",
    "no-affinity": "affinity",
    "preempt-every=40": "preemptions",
    "acceptance=1.6": "acceptance",
    "small-pool=120000": "kv-tokens",
}

NOT_READY = "absent-rank"  # is noticed before anything is measured


def test_every_kind_of_fault_is_tried() -> None:
    assert {text.partition("=")[0] for text in CAUGHT} | {NOT_READY} == set(KINDS)


def test_faults_that_are_not_understood_are_refused_together() -> None:
    with pytest.raises(InputError) as caught:
        parse_faults(["typo", "preempt-every", "absent-rank=3", "acceptance=-1"])
    assert len(caught.value.problems) == 4


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    write_jsonl(path, synthesise(12, seed=3, shape="quickstart"))
    return path


class Failed(Exception):
    """The cell gave no point."""


def measured(folder: Path, trace: Path, *words: str, more: Sequence[Expectation] = ()) -> Point:
    """The point of one cell whose engine gets `words` that nothing else of the run knows of."""

    def deploy(cell: Cell) -> tuple[Deployment, Source]:
        deployment, source = Deploy("emulated", RecipeSettings(speed=SPEED))(cell)
        (engine,) = deployment.services
        changed = replace(engine, argv=(*engine.argv, *(Item(word) for word in words)))
        return replace(deployment, services=(changed,)), source

    def expect(cell: Cell, deployment: Deployment) -> tuple[Expectation, ...]:
        return (*expected_of_model(cell, deployment), *more)

    sweep = Sweep([CELL], SETTINGS, Workload(SETTINGS, trace), deploy, expect=expect)
    with RunFolder.create_or_open(folder, RunHeader(name="f", created_at="2026-01-01T00:00:00Z")) as out:
        sweep.run(out)
        (failure,) = out.failures() or (None,)
        if failure is not None:
            raise Failed(f"{failure.layer}: {failure.message}")
        return out.points()[0]


def codes(point: Point) -> set[str]:
    return {reason.partition(":")[0] for reason in point.reasons}


@pytest.mark.integration
@pytest.mark.parametrize("fault", CAUGHT)
def test_a_seeded_fault_is_caught(fault: str, tmp_path: Path, trace: Path) -> None:
    words = ["--fault", fault]
    more = []
    if fault.startswith("acceptance"):
        words += SPECULATING
        more = [Expectation("acceptance_length", "==", 2.8)]
    point = measured(tmp_path / "run", trace, *words, more=more)
    assert CAUGHT[fault] in codes(point), point.reasons
    assert point.validity in (Validity.DEGRADED, Validity.INVALID)
    assert point.provenance["proof"]["contradicted"] >= 1


@pytest.mark.integration
def test_an_absent_rank_is_noticed_before_anything_is_measured(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ridgeline.launch.supervisor.Reach", partial(Reach, within_s=2.0))  # it will not come
    with pytest.raises(Failed, match=r"^ready: `engine` was not ready: its metrics show 1 of 2 ranks"):
        measured(tmp_path / "run", trace, "--fault", NOT_READY)


@pytest.mark.integration
@pytest.mark.parametrize("words", [(), SPECULATING], ids=["plain", "speculating"])
def test_a_sound_run_raises_nothing(words: tuple[str, ...], tmp_path: Path, trace: Path) -> None:
    more = [Expectation("acceptance_length", "==", 2.8)] if words else []
    point = measured(tmp_path / "run", trace, *words, more=more)
    proof = point.provenance["proof"]
    # drafts take slots: graphs and pool are those of another engine, which nothing predicts here
    wrong = codes(point) - {"emulator-late", "client-limited"}
    assert wrong <= ({"graphs", "kv-tokens"} if words else set()), point.reasons
    if not words:
        assert (proof["contradicted"], proof["unproven"]) == (0, 0), point.reasons
