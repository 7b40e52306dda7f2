"""Accuracy beside speed: what is asked, what it differs in, what scores mean, where they end up. lm-eval itself is
replaced by a program that writes files as it does; the real one answers in the integration tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.recipes.cells import DSV4, ROUTER
from tests.recipes.cells import cell as recipe_cell
from tests.sweep.test_run import FakeStart, cell, deploy, sweep_of  # noqa: F401  # a fixture

from ridgeline.cli.sweep_extras import scored_cells
from ridgeline.core.cell import Arm, Cell
from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.core.point import Source
from ridgeline.core.topology import Pool, Topology
from ridgeline.recipes.settings import RecipeSettings
from ridgeline.results.importers.own import IMPORTER
from ridgeline.sweep.deploy import Deploy
from ridgeline.sweep.diagnosis import run_state
from ridgeline.sweep.evaluation import Score, Status, Task, changes, evaluated, meta_env, run_task
from ridgeline.sweep.evaluation.lmeval import execute, program, scores, words
from ridgeline.sweep.evaluation.scored import Evaluation
from ridgeline.sweep.run import Summary

# As lm-eval 0.4 writes it, cut to what is read.
DOCUMENT = {
    "lm_eval_version": "0.4.13",
    "results": {
        "gsm8k": {
            "alias": "gsm8k",
            "exact_match,strict-match": 0.92,
            "exact_match_stderr,strict-match": 0.006,
            "exact_match,flexible-extract": 0.95,
            "exact_match_stderr,flexible-extract": "N/A",
        }
    },
    "n-samples": {"gsm8k": {"original": 1319, "effective": 100}},
}


def bar(prefix: str, task: str) -> float:
    return {"dsv4": 0.91}.get(prefix, 0.95)


def writes(document: dict[str, Any] | None, status: int = 0):
    """A stand-in for lm-eval's process: leaves its files where it was told to."""
    asked: list[list[str]] = []

    def run(command: Sequence[str], folder: Path, log: Path) -> int:
        asked.append(list(command))
        log.write_text("loading the task\nConnection refused\n")
        if document is not None:
            out = Path(command[command.index("--output_path") + 1]) / "model__name"
            out.mkdir(parents=True)
            (out / "results_2026-01-02T03-04-05.678901.json").write_text(json.dumps(document))
            (out / "samples_gsm8k_2026-01-02T03-04-05.678901.jsonl").write_text('{"doc_id": 0}\n')
        return status

    return run, asked


def test_scores_come_with_their_errors_and_counts() -> None:
    assert scores(DOCUMENT) == (
        Score("gsm8k", "exact_match,strict-match", 0.92, 0.006, 100),
        Score("gsm8k", "exact_match,flexible-extract", 0.95, None, 100),
    )
    assert scores({"results": {}}) == ()


def test_the_strict_match_decides_against_the_bar_of_model_and_task() -> None:
    cell = recipe_cell()
    told = evaluated(cell, "gsm8k", scores(DOCUMENT), bar, Source.MEASURED)
    assert (told.status, told.score, told.bar, told.samples) == (Status.PASSED, 0.92, 0.91, 100)
    assert told.text() == "gsm8k 0.920 +- 0.006, bar 0.91: passed"
    other = evaluated(recipe_cell(model_prefix="qwen3"), "gsm8k", scores(DOCUMENT), bar, Source.MEASURED)
    assert other.status is Status.FAILED, "0.95 of the flexible match does not count"


def test_what_no_bar_is_for_is_not_judged() -> None:
    told = evaluated(recipe_cell(), "t", (Score("t", "acc,none", 0.2, None, 5),), bar, Source.MEASURED)
    assert (told.status, told.score) == (Status.UNSCORED, None)
    assert "acc,none" in told.message
    loose = (Score("t", "exact_match,flexible-extract", 0.99, None, 5),)
    assert evaluated(recipe_cell(), "t", loose, bar, Source.MEASURED).status is Status.PASSED


def test_the_accuracy_run_differs_in_its_acceptance_only() -> None:
    cell = recipe_cell(arm=Arm(Topology(8, ep=8, dp_attn=True), spec_decoding="mtp", router=ROUTER))
    timed = Deploy("real", RecipeSettings())(cell)[0]
    scored = Deploy("real", RecipeSettings(accuracy=True))(cell)[0]
    (line,) = changes(timed, scored)
    assert line.startswith("engine: --speculative-config ")
    before, after = line.split(" -> ")
    assert "synthetic" in before
    assert "synthetic" not in after
    assert changes(timed, timed) == []


def test_changes_name_flags_variables_words_and_services() -> None:
    def one(*argv: str, **env: str) -> Service:
        variables = tuple((name, Item(value)) for name, value in env.items())
        return Service("engine", tuple(map(Item, argv)), env=variables)

    old = Deployment((one("serve", "m", "--a", "1", "2", "--flag", "--n=-3", A="x"),), "engine", "m", "vllm")
    new = Deployment((one("serve", "n", "--a", "1", "3", "--n=-3", B="y"), Service("cache", ())), "engine", "m", "vllm")
    assert changes(old, new) == [
        "engine: word 1 m -> n",
        "engine: --a 1 2 -> 1 3",
        "engine: --flag given -> not given",
        "engine: $A x -> not given",
        "engine: $B not given -> y",
        "cache: only scored",
    ]


def test_lm_eval_is_told_the_concurrency_and_retries_nothing(tmp_path: Path) -> None:
    task = Task("tiny", tmp_path, limit=8)
    said = words(task, "http://127.0.0.1:1", "m", 64, tmp_path / "out", "/v1/chat/completions")
    about = said[said.index("--model_args") + 1].split(",")
    assert said[said.index("--model") + 1] == "local-chat-completions"
    assert {"num_concurrent=64", "max_retries=1", "base_url=http://127.0.0.1:1/v1/chat/completions"} <= set(about)
    assert {"--apply_chat_template", "--log_samples", "--include_path", "--limit"} <= set(said)
    plain = words(Task("gsm8k"), "http://h:1", "m", 1, tmp_path, "/v1/completions")
    assert plain[plain.index("--model") + 1] == "local-completions"
    assert not {"--apply_chat_template", "--include_path", "--limit"} & set(plain)


def test_a_task_is_its_files(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("task: t")
    first = Task("t", tmp_path).digest
    assert first == Task("t", tmp_path).digest != Task("t", tmp_path, limit=1).digest
    (tmp_path / "t.jsonl").write_text("{}")
    assert Task("t", tmp_path).digest != first
    with pytest.raises(InputError, match="there is no folder"):
        _ = Task("t", tmp_path / "none").digest


def test_results_and_samples_keep_their_names(tmp_path: Path) -> None:
    run, _ = writes(DOCUMENT)
    found = run_task(Task("gsm8k"), "http://h:1", "m", 4, tmp_path, endpoint="/v1/completions", command=["e"], run=run)
    assert found[0].value == 0.92
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "lm-eval.log", "results_2026-01-02T03-04-05.678901.json", "samples_gsm8k_2026-01-02T03-04-05.678901.jsonl",
    ]  # fmt: skip


@pytest.mark.parametrize(("document", "status"), [(None, 0), (DOCUMENT, 3)])
def test_without_a_result_its_last_words_are_told(tmp_path: Path, document: dict[str, Any] | None, status: int) -> None:
    run, _ = writes(document, status)
    with pytest.raises(EnvironmentFailed, match=r"lm-eval gave no result for `t` \(exit \d\)(.|\n)*Connection refused"):
        run_task(Task("t"), "http://h:1", "m", 4, tmp_path, endpoint="/v1/completions", command=["e"], run=run)


def test_it_runs_offline_in_its_own_process(tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['HF_DATASETS_OFFLINE'], os.getcwd()); sys.exit(4)"
    assert execute([sys.executable, "-c", code], tmp_path, tmp_path / "log") == 4
    assert (tmp_path / "log").read_text() == f"1 {tmp_path}\n"


def test_a_missing_program_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(EnvironmentFailed, match="lm-eval is not installed") as error:
        program()
    assert "ridgeline[evals]" in (error.value.hint or "")


def test_meta_env_has_the_keys_that_artifacts_are_told_apart_by() -> None:
    single = meta_env(recipe_cell(arm=Arm(Topology(8, ep=8, dp_attn=True)), concurrency=64))
    assert single | {"tp": 8, "ep": 8, "dp_attention": "true", "conc": 64, "hw": "mi355x-amds", "isl": 8192} == single
    pools = (Pool("prefill", 2, Topology(4)), Pool("decode", 1, Topology(8)))
    multi = meta_env(recipe_cell(DSV4, Arm(pools=pools)))
    assert multi | {"is_multinode": True, "prefill_num_workers": 2, "prefill_tp": 4, "decode_tp": 8} == multi
    assert "tp" not in multi


# Inside a sweep


def plan_of(*names: str, document: dict[str, Any] | None = DOCUMENT, same: bool = False) -> Evaluation:
    def accurate(c: Cell) -> tuple[Deployment, Source]:
        deployment, source = deploy(c)
        return (deployment if same else replace(deployment, services=(Service("engine", (Item("--real"),)),))), source

    run, _ = writes(document)
    return Evaluation(Task("gsm8k"), frozenset(names), accurate, lambda prefix, task: 0.9, command=["lm_eval"], run=run)


def test_a_point_carries_what_its_cell_scored(sweep_of) -> None:  # noqa: F811
    summary, folder, events = sweep_of(cell(1), cell(2), evaluation=plan_of(cell(2).name))
    assert summary == Summary(3, 0, 0, 0)
    assert [start.deployment.services[0].argv[0].text for start in FakeStart.starts] == ["--tp=1", "--real"]
    first, second = folder.points()
    assert "evaluation" not in first.facts
    assert second.facts["evaluation"] == "passed"
    assert second.provenance["evaluation"]["score"] == 0.92
    assert second.provenance["evaluation"]["changes"] == [
        "engine: --tp 1 -> not given",
        "engine: --real not given -> given",
    ]
    (place,) = (folder.path / "evals").glob("eval_*")
    assert {"meta_env.json", "evaluation.json", "deployment.json", "lm-eval.log"} <= {p.name for p in place.iterdir()}
    told = [event.text for event in events if event.kind == "done" and event.point is None]
    assert told == ["gsm8k 0.920 +- 0.006, bar 0.9: passed"]
    assert [event.text for event in events if event.kind == "chosen"] == [
        "gsm8k is scored; what differs from the timed engine: "
        "engine: --tp 1 -> not given; engine: --real not given -> given"
    ]


def test_the_same_engine_serves_both_where_nothing_differs(sweep_of) -> None:  # noqa: F811
    sweep_of(cell(1), evaluation=plan_of(cell(1).name, same=True))
    assert [start.served for start in FakeStart.starts] == [2]


def test_a_score_below_the_bar_is_done_and_counted(sweep_of) -> None:  # noqa: F811
    low = {**DOCUMENT, "results": {"gsm8k": {"exact_match,strict-match": 0.1}}}
    summary, folder, _ = sweep_of(cell(1), evaluation=plan_of(cell(1).name, document=low))
    assert (summary.done, summary.failed, summary.below) == (2, 0, 1)
    (point,) = folder.points()
    assert [caution.code for caution in point.cautions if caution.code == "accuracy"] == ["accuracy"]


def test_an_evaluation_that_fails_leaves_the_point_and_says_its_layer(sweep_of) -> None:  # noqa: F811
    summary, folder, _ = sweep_of(cell(1), evaluation=plan_of(cell(1).name, document=None))
    assert (summary.done, summary.failed) == (1, 1)
    (failure,) = folder.failures()
    assert failure.layer == "evaluation"
    assert "evaluation" not in folder.points()[0].facts


def test_a_stored_evaluation_is_not_asked_again_and_reaches_later_points(sweep_of) -> None:  # noqa: F811
    sweep_of(cell(1), evaluation=plan_of(cell(1).name))
    again, folder, _ = sweep_of(cell(1), evaluation=plan_of(cell(1).name), repeats=2)
    assert again == Summary(1, 2, 0, 0), "the repeat was timed"
    assert [point.facts["evaluation"] for point in folder.points()] == ["passed", "passed"]


def test_an_imported_run_has_its_evaluations(sweep_of) -> None:  # noqa: F811
    _, folder, _ = sweep_of(cell(1), evaluation=plan_of(cell(1).name))
    bundle = IMPORTER.take(folder.path)
    assert bundle is not None
    (run,) = IMPORTER.read(bundle).runs
    (found,) = run.evaluations
    assert (found.task, found.score, found.n, found.facts["status"]) == ("gsm8k", 0.92, 100, "passed")
    assert run.points[0].point.facts["evaluation"] == "passed"


def test_cells_to_score_by_pattern_by_policy_or_the_highest_of_a_line() -> None:
    cells = [cell(1), cell(4), cell(2), cell(8, tp=2)]
    names = {c.name for c in cells}
    assert scored_cells(cells, "*/TP1/*", frozenset) == {c.name for c in cells[:3]}
    assert scored_cells(cells, None, lambda: frozenset([cells[0].name, "elsewhere"])) == {cells[0].name}
    assert scored_cells(cells, None, frozenset) == {cells[1].name, cells[3].name} < names
    with pytest.raises(InputError, match="no cell matches"):
        scored_cells(cells, "nothing", frozenset)


def test_status_knows_what_was_scored_after_the_sweep(sweep_of) -> None:  # noqa: F811
    _, folder, _ = sweep_of(cell(1), evaluation=plan_of(cell(1).name))
    states = run_state(folder).cells
    assert [(state.name, state.state) for state in states] == [
        (cell(1).name, "done"),
        (f"{cell(1).name}, gsm8k", "done"),
    ]
