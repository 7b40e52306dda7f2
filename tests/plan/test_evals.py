from __future__ import annotations

from typing import Any

import pytest
from tests.plan.spaces import RUNNERS, agentic, fixed, load, pair

from ridgeline.plan import rows
from ridgeline.plan.evals import EvalMode, hashable


def marked(mode: EvalMode, **entries: dict[str, Any]) -> list[tuple[Any, ...]]:
    """(conc, run-eval, eval-conc, eval-all-concs, eval-only) of every row."""
    names = ("conc", "run-eval", "eval-conc", "eval-all-concs", "eval-only")
    found = rows.full_sweep(load(**entries), RUNNERS, evals=mode)
    return [tuple(row.get(name) for name in names) for row in found]


def single(*values: int, **more: Any) -> dict[str, Any]:
    return {"tp": 8, "conc-list": list(values), **more}


def concs(mode: EvalMode, **entries: dict[str, Any]) -> list[Any]:
    return [row[0] for row in marked(mode, **entries) if row[1]]


def test_highest_and_upper_median_of_a_group() -> None:
    assert concs(EvalMode.DEFAULT, t=fixed(single(4, 8, 16, 32, 64, 128), isl=8192)) == [64, 128]
    assert concs(EvalMode.DEFAULT, t=fixed(single(16, 32, 64), isl=8192)) == [32, 64]
    assert concs(EvalMode.DEFAULT, t=fixed(single(16), isl=8192)) == [16]
    assert concs(EvalMode.DEFAULT, t=fixed(single(4, 15), isl=8192)) == []


def test_only_8k1k() -> None:
    assert concs(EvalMode.DEFAULT, t=fixed(single(16))) == []
    assert concs(EvalMode.DEFAULT, t=fixed(single(16), isl=8192, osl=512)) == []


def test_groups_span_configs_tp_and_ep_but_not_spec_decoding_or_dp_attention() -> None:
    entries = {
        "a": fixed(single(16, 64), single(32, tp=4), isl=8192),
        "b": fixed(single(64, ep=8), single(16, **{"dp-attn": True}), isl=8192, image="other", model_prefix="x"),
        "c": fixed(single(16, **{"spec-decoding": "mtp"}), isl=8192),
        "d": fixed(single(16), isl=8192, precision="fp4"),
    }
    found = [row[:2] for row in marked(EvalMode.DEFAULT, **entries)]
    assert found == [(16, False), (64, True), (32, True), (64, True), (16, True), (16, True), (16, True)]


def test_multi_node_rows_are_evaluated_at_their_highest_concurrency() -> None:
    one = pair(conc_list=[4, 64, 16])
    two = pair({"ep": 8, "tp": 8}, conc_list=[128])
    other = pair({"tp": 4}, conc_list=[8, 15])
    found = marked(EvalMode.DEFAULT, t=fixed(one, two, other, isl=8192, multinode=True))
    assert found == [
        ([4, 64, 16], False, None, None, None),
        ([128], True, 128, None, None),
        ([8, 15], False, None, None, None),
    ]


def test_the_first_of_equals_is_marked() -> None:
    space = pair(conc_list=[32])
    found = marked(EvalMode.DEFAULT, t=fixed(space, space, isl=8192, multinode=True))
    assert [row[1] for row in found] == [True, False]


def test_agentic_rows_are_marked_only_when_evals_are_asked_for() -> None:
    arms = (
        {"tp": 8, "kv-offloading": "none", "conc-list": [1, 4]},
        {"tp": 4, "kv-offloading": "none", "conc-list": [4]},
    )
    assert concs(EvalMode.DEFAULT, t=agentic(*arms)) == []
    assert marked(EvalMode.ONLY, t=agentic(*arms)) == [(4, True, None, None, True)]
    assert [row[0] for row in marked(EvalMode.ALL, t=agentic(*arms))] == [1, 4, 4]


def test_multi_node_agentic_rows() -> None:
    many, few = pair(conc_list=[1, 16, 32]), pair({"tp": 4}, conc_list=[8])
    assert marked(EvalMode.ONLY, t=agentic(many, few, multinode=True)) == [([32], True, 32, None, True)]
    assert marked(EvalMode.ALL, t=agentic(many, few, multinode=True)) == [
        ([1, 16, 32], True, 32, None, True),
        ([8], True, 8, None, True),
    ]


def test_a_merged_row_keeps_the_name_and_place_of_its_first_member() -> None:
    found = rows.full_sweep(
        load(t=agentic(pair(conc_list=[2, 1]), pair({"tp": 4}, conc_list=[8]), pair(conc_list=[2, 3]), multinode=True)),
        RUNNERS,
        evals=EvalMode.ALL,
    )
    assert [(row["conc"], row["exp-name"].split("_")[-1]) for row in found] == [([1, 2, 3], "conc2"), ([8], "conc8")]


def test_all_evals_widens_fixed_rows_without_a_minimum_and_drops_other_lengths() -> None:
    assert marked(EvalMode.ALL, t=fixed(single(1, 2), isl=8192), u=fixed(single(1))) == [
        (1, True, None, None, True),
        (2, True, None, None, True),
    ]
    spaces = (pair(conc_list=[4, 64]), pair(conc_list=[2, 4]))
    found = rows.full_sweep(load(t=fixed(*spaces, isl=8192, multinode=True)), RUNNERS, evals=EvalMode.ALL)
    assert [row["conc"] for row in found] == [[2, 4, 64]]
    assert list(found[0])[-3:] == ["run-eval", "eval-all-concs", "eval-only"]
    assert "eval-conc" not in found[0]


def test_evals_only_keeps_the_marked_rows() -> None:
    assert marked(EvalMode.ONLY, t=fixed(single(4, 16), isl=8192)) == [(16, True, None, None, True)]


def test_no_evals_leaves_agentic_rows_without_the_mark() -> None:
    found = rows.full_sweep(
        load(t=agentic({"tp": 8, "kv-offloading": "none", "conc-list": [1]})), RUNNERS, evals=EvalMode.NONE
    )
    assert "run-eval" not in found[0]


@pytest.mark.parametrize(
    ("one", "two", "equal"),
    [
        ({"a": 1, "b": [1, {"c": 2}]}, {"b": [1, {"c": 2}], "a": 1}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": True}, {"a": 1}, False),
    ],
)
def test_deep_comparison_ignores_the_order_of_keys_only(one: Any, two: Any, equal: bool) -> None:
    assert (hashable(one) == hashable(two)) is equal
