from __future__ import annotations

import pytest
from tests.plan.spaces import RUNNERS, WORKER, agentic, fixed, load, pair

from ridgeline.core.errors import InputError
from ridgeline.plan import rows, select
from ridgeline.plan.filters import Filters

CONFIGS = load(
    **{
        "aa-one": fixed({"tp": 4, "conc-list": [4]}, {"tp": 8, "ep": 8, "conc-list": [8]}, precision="fp4"),
        "ab-two": agentic({"tp": 8, "ep": 8, "kv-offloading": "none", "conc-list": [1]}, framework="sglang"),
        "b-three": fixed(pair(conc_list=[16]), multinode=True, runner="h200"),
    }
)


def keys(**filters: object) -> list[str]:
    found = rows.full_sweep(CONFIGS, RUNNERS, Filters(**filters))  # type: ignore[arg-type]
    names = {"fp4": "aa-one", "sglang": "ab-two"}
    return [names.get(row["precision"], names.get(row["framework"], "b-three")) for row in found]


def test_filters_are_anded_and_their_values_ored() -> None:
    assert keys() == ["aa-one", "aa-one", "ab-two", "b-three"]
    assert keys(model_prefix=("a",)) == ["aa-one", "aa-one", "ab-two"], "the config key, not the field"
    assert keys(model_prefix=("ab", "b")) == ["ab-two", "b-three"]
    assert keys(model_prefix=("tiny",)) == []
    assert keys(precision=("fp8",), framework=("vllm",)) == ["b-three"]
    assert keys(runner_type=("h200",)) == ["b-three"]
    assert keys(single_node=True) == ["aa-one", "aa-one", "ab-two"]
    assert keys(multi_node=True) == ["b-three"]
    assert keys(single_node=True, multi_node=True) == keys()
    assert keys(scenario_type=("agentic-coding",)) == ["ab-two"]


def test_sequence_lengths_let_agentic_arms_pass() -> None:
    assert keys(seq_lens=("8k1k",)) == ["ab-two"]


def test_max_tp_and_max_ep_concern_single_node_fixed_only() -> None:
    assert keys(max_tp=4) == ["aa-one", "ab-two", "b-three"]
    assert keys(max_tp=0) == ["ab-two", "b-three"]
    assert keys(max_ep=0) == ["ab-two", "b-three"]
    found = rows.full_sweep(CONFIGS, RUNNERS, Filters(max_ep=4))
    assert [row.get("ep") for row in found] == [1, 4, 8, None], "cut, not dropped; agentic untouched"


def test_an_unknown_runner_type_is_refused_with_the_labels() -> None:
    with pytest.raises(InputError, match="`mi999`: is not a label") as caught:
        keys(runner_type=("mi999", "h200"))
    assert "labels: cluster:h200-a, gb200, h200" in str(caught.value)


@pytest.mark.parametrize("filters", [Filters(node="a"), Filters(runner_type=("h200",))])
def test_choosing_machines_needs_a_runners_file(filters: Filters) -> None:
    with pytest.raises(InputError, match="--runner-config"):
        rows.full_sweep(CONFIGS, None, filters)


def test_a_node_filter_repeats_rows_for_machines_but_not_for_the_label() -> None:
    found = rows.full_sweep(CONFIGS, RUNNERS, Filters(node="h200-a"))
    assert [(row.get("tp", 0), row["runner"]) for row in found] == [
        (4, "h200-a_0"),
        (4, "h200-a_1"),
        (8, "h200-a_0"),
        (8, "h200-a_1"),
        (8, "h200-a_0"),
        (8, "h200-a_1"),
        (0, "h200-a_0"),
        (0, "h200-a_1"),
    ]
    assert rows.full_sweep(CONFIGS, RUNNERS, Filters(node="zzz")) == []


def test_in_test_config_the_label_is_a_candidate_too() -> None:
    found = rows.test_config(CONFIGS, RUNNERS, Filters(keys=("ab-two",), node="h200-a"))
    assert [row["runner"] for row in found] == ["cluster:h200-a", "h200-a_0", "h200-a_1"]
    found = rows.test_config(CONFIGS, RUNNERS, Filters(keys=("ab-two",), node="_1"))
    assert [row["runner"] for row in found] == ["h200-a_1"]


def test_multi_node_agentic_rows_loop_over_machines_outside() -> None:
    configs = load(m=agentic({"prefill": WORKER, "decode": WORKER, "conc-list": [1, 2]}, multinode=True))
    found = rows.full_sweep(configs, RUNNERS, Filters(node="h200-a"))
    assert [(row["runner"], row["conc"]) for row in found] == [
        ("h200-a_0", [1]),
        ("h200-a_0", [2]),
        ("h200-a_1", [1]),
        ("h200-a_1", [2]),
    ]


def test_keys_follow_the_order_of_the_arguments_without_repeats() -> None:
    assert select.matching_keys(CONFIGS, ("b*", "a*", "aa-one")) == ["b-three", "aa-one", "ab-two"]
    assert select.matching_keys(CONFIGS, ("a[ab]-?*",)) == ["aa-one", "ab-two"]


def test_unknown_keys_are_all_named_with_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        select.matching_keys(CONFIGS, ("nope*", "aa-ome", "a[ab]-one"))
    assert [problem.key for problem in caught.value.problems] == ["nope*", "aa-ome", "a[ab]-one"]
    assert "did you mean `aa-one`" in str(caught.value)
    assert "known keys: aa-one, ab-two, b-three" in str(caught.value)


def test_conc_keeps_what_is_there() -> None:
    found = rows.test_config(CONFIGS, RUNNERS, Filters(keys=("aa-one", "b-three"), conc=(8, 16, 99)))
    assert [row["conc"] for row in found] == [8, [16]]
    assert rows.test_config(CONFIGS, RUNNERS, Filters(keys=("aa-one",), conc=(5,))) == []
