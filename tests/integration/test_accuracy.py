"""Accuracy beside speed on a real engine: a tiny task of our own, scored by the real lm-eval over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integration.real_sweep import TASK, RealRun

from ridgeline.core.point import Source
from ridgeline.results.importers.inferencex_artifacts import IMPORTER
from ridgeline.results.runfolder import RunFolder
from ridgeline.sweep.evaluation import Status, evaluated
from ridgeline.sweep.evaluation.lmeval import scores
from ridgeline.sweep.run import Summary

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def scored(real_run: RealRun) -> RunFolder:
    """The run, where a task could be scored."""
    if real_run.unscored:
        pytest.skip(real_run.unscored)
    return real_run.folder


def place(folder: RunFolder) -> Path:
    (found,) = (folder.path / "evals").glob("eval_*")
    return found


def test_the_cell_is_timed_and_scored_in_one_start(scored: RunFolder, real_run: RealRun) -> None:
    assert real_run.summary == Summary(3, 0, 0, 0), [failure.message for failure in scored.failures()]
    point = scored.points()[-1]
    assert point.facts["evaluation"] == "passed", "the bar was nothing"
    told = point.provenance["evaluation"]
    assert (told["task"], told["samples"], told["concurrency"]) == ("ridgeline_tiny", 8, 4)
    assert 0.0 <= told["score"] <= 1.0
    assert told["changes"] == [], "nothing was prescribed to this engine"


def test_it_wrote_the_files_that_people_know(scored: RunFolder) -> None:
    names = sorted(path.name for path in place(scored).iterdir())
    assert "meta_env.json" in names
    (results,) = [name for name in names if name.startswith("results_")]
    (samples,) = [name for name in names if name.startswith("samples_ridgeline_tiny_")]
    lines = [json.loads(line) for line in (place(scored) / samples).read_text().splitlines()]
    assert len(lines) == 8
    assert {line["doc"]["question"] for line in lines} == {
        json.loads(line)["question"] for line in (Path(TASK.include or "") / "questions.jsonl").read_text().splitlines()
    }
    document = json.loads((place(scored) / results).read_text())
    assert document["lm_eval_version"] == "0.4.13"


def test_the_score_is_that_of_the_samples_and_a_bar_above_it_fails(scored: RunFolder) -> None:
    (results,) = place(scored).glob("results_*.json")
    (samples,) = place(scored).glob("samples_*.jsonl")
    right = [json.loads(line)["exact_match"] for line in samples.read_text().splitlines()]
    found = scores(json.loads(results.read_text()))
    one = scored.cell_of(scored.points()[-1].run_key)
    told = evaluated(one, TASK.name, found, lambda prefix, task: 1.01, Source.MEASURED)
    assert told.score == pytest.approx(sum(right) / 8)
    assert told.status is Status.FAILED


def test_the_importer_of_artifacts_reads_it(scored: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "eval_one").mkdir()
    for path in place(scored).glob("*.json"):
        if path.name.startswith(("meta_env", "results_")):
            (tmp_path / "eval_one" / path.name).write_bytes(path.read_bytes())
    bundle = IMPORTER.take(tmp_path)
    assert bundle is not None
    (imported,) = IMPORTER.read(bundle).runs
    (found,) = imported.evaluations
    assert (found.task, found.concurrency) == ("ridgeline_tiny", 4)
    assert found.score == scored.points()[-1].provenance["evaluation"]["score"]
