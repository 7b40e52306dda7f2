"""Artifacts of a run, validated offline: what each fault is called, and how repeated evaluations collapse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.golden import golden
from tests.publish.reuse.bundle import (
    AGENTIC,
    FIXED,
    FIXED_MULTI,
    META,
    MULTI,
    ROW,
    Bundle,
    result,
    stamp,
)

from ridgeline.cli.main import main
from ridgeline.core.errors import InputError
from ridgeline.publish.reuse import identity
from ridgeline.publish.reuse.artifacts import SHOWN, prune, validate


def problems(bundle: Bundle) -> list[str]:
    return [str(problem) for problem in validate(bundle.folder).problems]


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return Bundle(tmp_path)


def test_a_sound_bundle(bundle: Bundle) -> None:
    report = validate(bundle.folder)
    assert (report.problems, report.removed, dict(report.rewritten)) == ((), (), {})
    assert dict(report.counts) == {"fixed": 3, "agentic": 2, "evaluations": 1, "superseded": 0}


LATER = f"eval_b/{stamp(12)}"


@pytest.mark.parametrize(
    ("path", "data", "words"),
    [
        ("results_bmk/more.json", [FIXED], "results_bmk: fixed-sequence result stands more than once"),
        ("results_bmk/more.json", [{**FIXED, "image": "acme/other:2"}], "stands more than once"),  # no part of identity
        ("results_bmk/more.json", [{**FIXED, "conc": "4", "dp_attention": False}], "stands more than once"),
        ("results_bmk/more.json", [FIXED_MULTI], "stands more than once"),
        ("results_bmk/bad.json", "{", "not readable"),
        ("results_bmk/odd.json", [5], "no row"),
        ("bmk_agentic_y/agg.json", AGENTIC, "agentic point stands more than once"),
        ("bmk_agentic_y/agg.json", {**AGENTIC, "conc": 9}, "has no raw results: y"),
        ("bmk_agentic_x_conc4/agg.json", "", "not readable"),
        ("agentic_w/x.json", {}, "has raw results and no point: w"),
        ("results_bmk_agentic/agg.json", [{**AGENTIC, "conc": 99}], "does not hold the same points"),
        ("results_bmk_agentic/agg.json", [AGENTIC], "does not hold the same points"),
        ("eval_b/x.json", {}, "eval_b/meta_env.json: is missing"),
        ("eval_b/meta_env.json", "[", "eval_b/meta_env.json: cannot be read: not JSON"),
        ("eval_b/meta_env.json", "[1]", "eval_b/meta_env.json: is no object"),
        ("eval_b/meta_env.json", {**META, "eval_concs": [4], "completed_eval_concs": 4}, "must be a list"),
        ("eval_b/meta_env.json", {**META, "eval_concs": [4, 8]}, "says [4, 8] were evaluated; there is no result"),
        (f"eval_a/{stamp(11)}", "{", "cannot be read"),
        ("eval_results_all/agg_eval.json", [], "is empty"),
        ("eval_results_all/agg_eval.json", [ROW, ROW], "rows stand more than once"),
        ("eval_results_all/agg_eval.json", [{**ROW, "task": "gpqa"}], "differs from the raw"),
        ("eval_results_all/agg_eval.json", [{**ROW, "conc": 32}], "differs from the raw"),
        ("eval_results_all/agg_eval.json", [ROW, {**ROW, "hw": "other"}], "differs from the raw"),
    ],
)
def test_faults_have_names(bundle: Bundle, path: str, data: Any, words: str) -> None:
    bundle.put(path, data)
    assert any(words in problem for problem in problems(bundle)), problems(bundle)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("run-stats", "no `run-stats`"),
        ("eval_results_all", "is missing, although"),
        ("agentic_x_conc4", "has no raw results: x_conc4"),
        ("bmk_agentic_x_conc8", "has raw results and no point: x_conc8"),
        ("eval_a", "there are no raw ones"),
        ("eval_a/meta_env.json", "meta_env.json: is missing"),
    ],
)
def test_what_is_missing_has_a_name(bundle: Bundle, path: str, words: str) -> None:
    bundle.drop(path)
    assert any(words in problem for problem in problems(bundle)), problems(bundle)


def test_what_need_not_be_there(bundle: Bundle) -> None:
    bundle.drop("results_bmk")
    bundle.drop("run-stats")  # asked for only with fixed-sequence results
    for name in ("eval_a", "eval_results_all"):
        bundle.drop(name)
    assert problems(bundle) == []
    bundle.put("results_bmk_agentic/agg.json", [AGENTIC, {**AGENTIC, "conc": 8}])
    assert problems(bundle) == []


def test_nothing_at_all(tmp_path: Path) -> None:
    assert [str(p) for p in validate(tmp_path).problems] == [f"{tmp_path}: no results at all"]
    with pytest.raises(InputError):
        validate(tmp_path / "gone")


def test_long_lists_are_shortened(bundle: Bundle) -> None:
    for number in range(SHOWN + 5):
        bundle.put(f"agentic_more{number:02d}/x.json", {})
    (said,) = problems(bundle)
    assert "more00" in said and f"more{SHOWN}" not in said and said.endswith(", and 5 more")


def repeat(bundle: Bundle, score: float = 0.96) -> None:
    """The evaluation of `eval_a` once more, two hours later."""
    bundle.put("eval_b/meta_env.json", META)
    bundle.put(LATER, result(score))
    bundle.put("eval_results_all/agg_eval.json", [ROW, {**ROW, "score": score}])


def test_a_repeated_evaluation_collapses_to_the_newest(bundle: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    repeat(bundle)
    report = validate(bundle.folder)
    assert report.problems == () and report.removed == (bundle.folder / "eval_a",)
    before = bundle.files
    assert main(["pr", "artifacts", str(bundle.folder), "--prune"]) == 0 and "1 superseded" in capsys.readouterr().out
    assert before - bundle.files == {path for path in before if path.startswith("eval_a/")}
    assert [row["score"] for row in bundle.read("eval_results_all/agg_eval.json")] == [0.96]
    assert main(["pr", "artifacts", str(bundle.folder), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again == {"ok": True, "problems": [], "removed": [], "rewritten": [], "counts": again["counts"]}
    assert again["counts"]["superseded"] == 0


def test_rows_that_cannot_be_told_apart_all_stay(bundle: Bundle) -> None:
    repeat(bundle)
    bundle.put("eval_results_all/agg_eval.json", [{**ROW, "score": None}, {**ROW, "score": None, "em_flexible": 1}])
    assert "stand more than once" in problems(bundle)[0]
    bundle.put("eval_results_all/agg_eval.json", [{**ROW, "score": 0.96}] * 2)  # the same row twice
    prune(validate(bundle.folder))
    assert problems(bundle) == [] and len(bundle.read("eval_results_all/agg_eval.json")) == 1


def test_the_newest_of_one_folder_counts(bundle: Bundle) -> None:
    bundle.put(f"eval_a/{stamp(9)}", result(0.1))
    report = validate(bundle.folder)
    assert report.problems == () and report.removed == (bundle.folder / "eval_a" / stamp(9),)


def test_evaluations_without_a_time_are_left_alone(bundle: Bundle) -> None:
    repeat(bundle)
    (bundle.folder / LATER).rename(bundle.folder / "eval_b/results_latest.json")
    report = validate(bundle.folder)
    assert report.removed == () and "stand more than once" in str(report.problems[0])


def batch(bundle: Bundle, name: str, hour: int, concs: list[int], **meta: Any) -> None:
    bundle.put(f"{name}/meta_env.json", {**META, "eval_concs": [4, 8], **meta})
    for conc in concs:
        bundle.put(f"{name}/{stamp(hour, conc)}", result(0.9 + hour / 1000))


def rows(bundle: Bundle, *of: tuple[int, int]) -> None:
    """The aggregate: (concurrency, hour of its result)."""
    found = [{**ROW, "conc": conc, "score": 0.9 + hour / 1000} for conc, hour in of]
    bundle.put("eval_results_all/agg_eval.json", found)


def test_a_batch_counts_only_what_it_finished(bundle: Bundle) -> None:
    bundle.drop("eval_a")
    batch(bundle, "eval_a", 10, [4, 8], completed_eval_concs=[4])
    rows(bundle, (4, 10))
    assert problems(bundle) == []


def test_a_batch_that_is_repeated_in_part_is_trimmed(bundle: Bundle) -> None:
    bundle.drop("eval_a")
    batch(bundle, "eval_a", 10, [4, 8])
    batch(bundle, "eval_b", 12, [8], completed_eval_concs=[8])
    rows(bundle, (4, 10), (8, 10), (8, 12))
    report = validate(bundle.folder)
    assert report.problems == () and report.removed == (bundle.folder / "eval_a" / stamp(10, 8),)
    prune(report)
    assert bundle.read("eval_a/meta_env.json")["completed_eval_concs"] == [4]
    assert [(row["conc"], row["score"]) for row in bundle.read("eval_results_all/agg_eval.json")] == [
        (4, 0.91),
        (8, 0.912),
    ]
    assert problems(bundle) == []


def test_sets_may_lie_one_folder_deeper(bundle: Bundle) -> None:
    (bundle.folder / "eval_a").rename(bundle.folder / "moved")
    (bundle.folder / "eval_b").mkdir()
    (bundle.folder / "moved").rename(bundle.folder / "eval_b/inner")
    assert problems(bundle) == []


def test_metadata_of_environments_and_of_two_halves(bundle: Bundle) -> None:
    env = {
        "HW": "H1",
        "MODEL_PREFIX": "a",
        "FRAMEWORK": "vllm",
        "PRECISION": "fp8",
        "IS_MULTINODE": "true",
        "CONC": "64",
    }
    sides = {"PREFILL_TP": "8", "DECODE_TP": "4", "PREFILL_EP": "8", "DECODE_EP": "1", "PREFILL_DP_ATTN": "true",
             "DECODE_DP_ATTN": "false", "PREFILL_NUM_WORKERS": "1", "DECODE_NUM_WORKERS": "2"}  # fmt: skip
    bundle.put("eval_a/meta_env.json", env | sides)
    row = {
        "hw": "H1", "infmax_model_prefix": "a", "framework": "vllm", "precision": "fp8", "is_multinode": True,
        "conc": 64, "tp": "prefill=8,decode=4", "ep": "prefill=8,decode=1", "dp_attention": "prefill=true,decode=false",
        "prefill_num_workers": 1, "decode_num_workers": 2, "task": "gsm8k", "score": 0.95,
    }  # fmt: skip
    bundle.put("eval_results_all/agg_eval.json", [row])
    assert problems(bundle) == []


@pytest.mark.parametrize(
    ("of", "row", "changes", "same"),
    [
        (identity.fixed, FIXED, {"tput_per_gpu": 1.0, "image": "x", "recipe_fingerprint": "y"}, True),
        (identity.fixed, FIXED, {"pp": None, "dcp_size": None}, True),  # older rows lack sizes of 1
        (identity.fixed, FIXED, {"spec_decoding": "mtp"}, False),
        (identity.fixed, FIXED, {"disagg": True}, False),
        (identity.fixed, FIXED, {"osl": 8192}, False),
        (identity.fixed, FIXED, {"dp_attention": "true"}, False),
        (identity.fixed, FIXED, {"hw": "h2"}, False),
        (identity.fixed, FIXED_MULTI, {"decode_num_workers": 2}, False),
        (identity.fixed, FIXED_MULTI, {"decode_dp_attention": "false"}, False),
        (identity.fixed, FIXED_MULTI, {"tp": 3}, True),
        (identity.agentic, AGENTIC, {"spec_decoding": "mtp", "isl": 1, "osl": 2, "disagg": True}, True),
        (identity.agentic, AGENTIC, {"kv_offloading": "dram", "kv_offload_backend": {"name": "lmcache"}}, False),
        (identity.agentic, AGENTIC | MULTI, {"spec_decoding": "mtp"}, False),
        (identity.evaluation, META, {"isl": 8192, "osl": 1024, "hw": "cluster:h1-acme"}, True),
        (identity.evaluation, META, {"isl": 1024}, False),
        (identity.evaluation, META, {"precision": "FP8", "conc": 16}, True),
    ],
)
def test_identities(of: Any, row: dict[str, Any], changes: dict[str, Any], same: bool) -> None:
    changed = {name: value for name, value in {**row, **changes}.items() if value is not None}
    assert (of(row) == of(changed)) is same


def test_a_published_row_has_an_identity() -> None:
    files = sorted(golden("results/agg_json").glob("*.json"))
    row = json.loads(files[0].read_text())
    row = row[0] if isinstance(row, list) else row
    assert identity.agentic(row)[0] == row["hw"] and identity.agentic(row)[-2:] == ("none", None)
    cases = json.loads(golden("golden/results/cases.json").read_text())
    found = [case["row"] for case in cases["cases"] if case.get("row")]
    assert found and all(None not in identity.fixed(row) for row in found)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 23), st.sampled_from([4, 8, None])), max_size=6))
def test_pruning_twice_is_pruning_once(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, int | None]]
) -> None:
    """Whatever was repeated: after pruning nothing is obsolete, no fault came, and exactly the newest results stay."""
    bundle = Bundle(tmp_path_factory.mktemp("bundle"))
    bundle.drop("eval_a")
    newest: dict[int, tuple[int, int, float]] = {}
    made = []
    for number, (hour, conc) in enumerate(runs):
        score = number / 100
        shape = {"eval_concs": [conc]} if conc is not None else {"conc": 16}
        bundle.put(f"eval_{number}/meta_env.json", {**META, **shape})
        name = f"results_2026-08-20T{hour:02d}-{number:02d}-00{'' if conc is None else f'_conc{conc}'}.json"
        bundle.put(f"eval_{number}/{name}", result(score))
        made.append({**ROW, "conc": conc or 16, "score": score})
        about = conc or 16
        if about not in newest or (hour, number) > newest[about][:2]:
            newest[about] = (hour, number, score)
    bundle.put("eval_results_all/agg_eval.json", made)
    prune(validate(bundle.folder))
    report = validate(bundle.folder)
    assert report.problems == () and report.removed == () and report.counts["evaluations"] == len(newest)
    left = {row["conc"]: row["score"] for row in bundle.read("eval_results_all/agg_eval.json")}
    assert left == {conc: one[2] for conc, one in newest.items()}
