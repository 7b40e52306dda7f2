"""Artifacts of a run, validated offline: what each fault is called, and how repeated evaluations collapse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ridgeline.cli.main import main
from ridgeline.core.errors import InputError
from ridgeline.publish.reuse.artifacts import validate

ABOUT = {"hw": "h1", "infmax_model_prefix": "a", "framework": "vllm", "precision": "fp8", "spec_decoding": "none"}
FIXED = {**ABOUT, "disagg": False, "isl": 1024, "osl": 1024, "tp": 8, "ep": 1, "dp_attention": "false", "conc": 4}
AGENTIC = {**ABOUT, "scenario_type": "agentic-coding", "tp": 8, "ep": 1, "dp_attention": "false", "conc": 4}
META = {**ABOUT, "hw": "H1", "isl": 8192, "osl": 1024, "tp": 8, "ep": 1, "dp_attention": "false", "conc": 16}
SCORES = {"lm_eval_version": "0.4", "results": {"gsm8k": {"exact_match": 0.95}}}


class Bundle:
    """A folder with one folder per artifact, sound from the start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.put("results_bmk/agg_bmk.json", [FIXED, {**FIXED, "conc": 8}])
        self.put("run-stats/run_stats.json", {})
        self.put("bmk_agentic_x/agg_x.json", AGENTIC)
        self.put("agentic_x/profile.json", {})
        self.put("eval_a/meta_env.json", META)
        self.put("eval_a/results_2026-08-20T10-00-00.json", SCORES)
        self.put("eval_results_all/agg_eval.json", [{**META, "task": "gsm8k"}])
        self.put("eval_server_logs_a/x.json", {})

    def put(self, path: str, data: Any) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(data if isinstance(data, str) else json.dumps(data))

    def drop(self, path: str) -> None:
        import shutil

        place = self.folder / path
        shutil.rmtree(place) if place.is_dir() else place.unlink()

    @property
    def problems(self) -> list[str]:
        return [str(problem) for problem in validate(self.folder).problems]


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return Bundle(tmp_path)


def test_a_sound_bundle(bundle: Bundle) -> None:
    report = validate(bundle.folder)
    assert report.problems == () and dict(report.counts) == {
        "fixed": 2,
        "agentic": 1,
        "evaluations": 1,
        "superseded": 0,
    }


@pytest.mark.parametrize(
    ("path", "data", "words"),
    [
        ("results_bmk/more.json", [FIXED], "fixed-sequence result stands more than once"),
        ("bmk_agentic_y/agg.json", AGENTIC, "agentic point stands more than once"),
        ("bmk_agentic_z/agg.json", {**AGENTIC, "conc": 8}, "has no raw results: z"),
        ("agentic_w/x.json", {}, "has raw results and no point: w"),
        ("results_bmk_agentic/agg.json", [{**AGENTIC, "conc": 99}], "does not hold the same points"),
        ("eval_b/results_2026-08-20T10-00-00.json", SCORES, "meta_env.json: missing"),
        ("eval_b/meta_env.json", "[", "meta_env.json: missing or no JSON object"),
        ("eval_results_all/agg_eval.json", [], "is empty"),
        ("eval_results_all/agg_eval.json", [{**META, "task": "gsm8k"}] * 2, "stand more than once"),
        ("eval_results_all/agg_eval.json", [{**META, "task": "gpqa"}], "differs from the raw"),
        ("results_bmk/bad.json", "{", "not readable"),
        ("results_bmk/odd.json", [5], "no row"),
    ],
)
def test_faults_have_names(bundle: Bundle, path: str, data: Any, words: str) -> None:
    bundle.put(path, data)
    assert any(words in problem for problem in bundle.problems), bundle.problems


@pytest.mark.parametrize(
    ("path", "words"),
    [("run-stats", "no `run-stats`"), ("eval_results_all", "is missing"), ("agentic_x", "has no raw results")],
)
def test_what_is_missing_has_a_name(bundle: Bundle, path: str, words: str) -> None:
    bundle.drop(path)
    assert any(words in problem for problem in bundle.problems), bundle.problems


def test_nothing_at_all(tmp_path: Path) -> None:
    assert [str(p) for p in validate(tmp_path).problems] == [f"{tmp_path}: no results at all"]
    with pytest.raises(InputError):
        validate(tmp_path / "gone")


def test_a_repeated_evaluation_collapses_to_the_newest(bundle: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    bundle.put("eval_b/meta_env.json", META)
    bundle.put("eval_b/results_2026-08-20T12-00-00.json", SCORES)
    bundle.put("eval_results_all/agg_eval.json", [{**META, "task": "gsm8k"}] * 2)
    report = validate(bundle.folder)
    old = bundle.folder / "eval_a/results_2026-08-20T10-00-00.json"
    assert report.superseded == (old,) and report.problems == ()
    assert main(["pr", "artifacts", str(bundle.folder), "--prune"]) == 0 and not old.exists()
    assert "1 superseded" in capsys.readouterr().out


def test_evaluations_without_a_time_are_left_alone(bundle: Bundle) -> None:
    bundle.put("eval_b/meta_env.json", META)
    bundle.put("eval_b/results_latest.json", SCORES)
    assert validate(bundle.folder).superseded == ()


def test_a_batch_counts_only_what_it_finished(bundle: Bundle) -> None:
    bundle.drop("eval_a")
    bundle.put("eval_a/meta_env.json", {**META, "eval_concs": [4, 8], "completed_eval_concs": [4]})
    for conc in (4, 8):
        bundle.put(f"eval_a/results_2026-08-20T10-00-00_conc{conc}.json", SCORES)
    bundle.put("eval_results_all/agg_eval.json", [{**META, "conc": 4, "task": "gsm8k"}])
    assert bundle.problems == []


def test_offload_and_layout_tell_points_apart(bundle: Bundle) -> None:
    bundle.put(
        "bmk_agentic_y/agg.json", {**AGENTIC, "kv_offloading": "dram", "kv_offload_backend": {"name": "lmcache"}}
    )
    bundle.put("agentic_y/x.json", {})
    bundle.put("results_bmk/dp.json", [{**FIXED, "dp_attention": "true"}, {**FIXED, "spec_decoding": "mtp"}])
    assert bundle.problems == []
