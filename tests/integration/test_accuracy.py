"""Accuracy beside speed on a real engine: a tiny task of our own, scored by the real lm-eval over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.lmeval import eval_program
from tests.integration.realstack import real_stack
from tests.integration.test_real_vllm import SETTINGS, SMALL, cell, deployment

from ridgeline.core.cell import Arm, Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.point import Source
from ridgeline.core.topology import Topology
from ridgeline.results.importers.inferencex_artifacts import IMPORTER
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.sweep.evaluation import Status, Task, evaluated
from ridgeline.sweep.evaluation.lmeval import scores
from ridgeline.sweep.evaluation.scored import Evaluation
from ridgeline.sweep.run import Summary, Sweep
from ridgeline.sweep.workload import Workload
from ridgeline.trace.formats.write import write_jsonl
from ridgeline.trace.synth import synthesise

pytestmark = pytest.mark.integration

QUESTIONS = Path(__file__).with_name("tiny_task")
TASK = Task("ridgeline_tiny", QUESTIONS)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunFolder, Summary]]:
    stack, program = real_stack(), eval_program()
    folder = tmp_path_factory.mktemp("accuracy")
    write_jsonl(folder / "trace.jsonl", synthesise(8, seed=7, shape=SMALL))
    one = replace(cell(2), arm=Arm(Topology(1)))

    def deploy(c: Cell) -> tuple[Deployment, Source]:
        """The dense engine alone: one rank, no router, no speculation, so the timed and the scored one are the same."""
        whole = deployment(stack, c)
        engine = whole.service("engine")
        words = [item for item in engine.argv if item.text not in ("--data-parallel-size", "2")]
        services = (replace(engine, argv=tuple(words)),)
        return replace(whole, services=services, entry="engine", session_header=None), Source.MEASURED

    settings = replace(SETTINGS, duration_s=8)
    command = ["nice", "-n", "15", str(program)]
    evaluation = Evaluation(TASK, frozenset([one.name]), deploy, lambda prefix, task: 0.0, command)
    sweep = Sweep([one], settings, Workload(settings, folder / "trace.jsonl"), deploy, evaluation=evaluation)
    with RunFolder.create_or_open(folder / "run", RunHeader(name="real", created_at="2026-01-01T00:00:00Z")) as out:
        summary = sweep.run(out)
    yield RunFolder.open(folder / "run"), summary


def place(folder: RunFolder) -> Path:
    (found,) = (folder.path / "evals").glob("eval_*")
    return found


def test_the_cell_is_timed_and_scored_in_one_start(run: tuple[RunFolder, Summary]) -> None:
    folder, summary = run
    assert summary == Summary(2, 0, 0, 0), [failure.message for failure in folder.failures()]
    (point,) = folder.points()
    assert point.facts["evaluation"] == "passed", "the bar was nothing"
    told = point.provenance["evaluation"]
    assert (told["task"], told["samples"], told["concurrency"]) == ("ridgeline_tiny", 8, 2)
    assert 0.0 <= told["score"] <= 1.0
    assert told["changes"] == [], "nothing was prescribed to this engine"


def test_it_wrote_the_files_that_people_know(run: tuple[RunFolder, Summary]) -> None:
    folder, _ = run
    names = sorted(path.name for path in place(folder).iterdir())
    assert "meta_env.json" in names
    (results,) = [name for name in names if name.startswith("results_")]
    (samples,) = [name for name in names if name.startswith("samples_ridgeline_tiny_")]
    lines = [json.loads(line) for line in (place(folder) / samples).read_text().splitlines()]
    assert len(lines) == 8
    assert {line["doc"]["question"] for line in lines} == {
        json.loads(line)["question"] for line in (QUESTIONS / "questions.jsonl").read_text().splitlines()
    }
    document = json.loads((place(folder) / results).read_text())
    assert document["lm_eval_version"] == "0.4.13"


def test_the_score_is_that_of_the_samples_and_a_bar_above_it_fails(run: tuple[RunFolder, Summary]) -> None:
    folder, _ = run
    (results,) = place(folder).glob("results_*.json")
    (samples,) = place(folder).glob("samples_*.jsonl")
    right = [json.loads(line)["exact_match"] for line in samples.read_text().splitlines()]
    found = scores(json.loads(results.read_text()))
    one = folder.cell_of(folder.points()[0].run_key)
    told = evaluated(one, TASK.name, found, lambda prefix, task: 1.01, Source.MEASURED)
    assert told.score == pytest.approx(sum(right) / 8)
    assert told.status is Status.FAILED


def test_the_importer_of_artifacts_reads_it(run: tuple[RunFolder, Summary], tmp_path: Path) -> None:
    folder, _ = run
    (tmp_path / "eval_one").mkdir()
    for path in place(folder).glob("*.json"):
        if path.name.startswith(("meta_env", "results_")):
            (tmp_path / "eval_one" / path.name).write_bytes(path.read_bytes())
    bundle = IMPORTER.take(tmp_path)
    assert bundle is not None
    (imported,) = IMPORTER.read(bundle).runs
    (found,) = imported.evaluations
    assert (found.task, found.concurrency) == ("ridgeline_tiny", 2)
    assert found.score == folder.points()[0].provenance["evaluation"]["score"]
