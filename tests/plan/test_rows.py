from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plan.spaces import RUNNERS, WORKER, agentic, fixed, load, pair

from ridgeline.plan import rows
from ridgeline.plan.evals import EvalMode
from ridgeline.plan.filters import Filters
from ridgeline.spec.config import ConfigSet

HEAD = ["image", "model", "model-prefix", "precision", "framework", "runner"]


def sweep(configs: ConfigSet, mode: EvalMode = EvalMode.NONE) -> list[dict[str, object]]:
    return rows.full_sweep(configs, RUNNERS, evals=mode)


def test_single_fixed_row() -> None:
    (row,) = sweep(load(t=fixed({"tp": 8, "conc-list": [4]}, router={"name": "r", "version": "1"})))
    assert list(row) == [
        *HEAD,
        *("isl", "osl", "tp", "pp", "dcp-size", "pcp-size", "conc", "max-model-len", "ep", "dp-attn", "spec-decoding"),
        *("exp-name", "disagg", "run-eval", "router"),
    ]
    assert json.dumps({key: row[key] for key in list(row)[8:]}) == json.dumps(
        {
            "tp": 8,
            "pp": 1,
            "dcp-size": 1,
            "pcp-size": 1,
            "conc": 4,
            "max-model-len": 2304,
            "ep": 1,
            "dp-attn": False,
            "spec-decoding": "none",
            "exp-name": "tiny_1k1k",
            "disagg": False,
            "run-eval": False,
            "router": {"name": "r", "version": "1"},
        }
    )


def test_multi_fixed_row_keeps_workers_as_written_and_all_concurrencies() -> None:
    space = pair(
        {"pcp-size": 2, "hardware": "a"}, {"hardware": "b", "additional-settings": ["X=1"]}, conc_list=[8, 4, 8]
    )
    configs = load(t=fixed(space, multinode=True, disagg=True, kv_p2p_transfer="nixl", isl=512, osl=128))
    (row,) = sweep(configs)
    assert list(row) == [
        *HEAD,
        *(
            "isl",
            "osl",
            "spec-decoding",
            "prefill",
            "decode",
            "conc",
            "max-model-len",
            "exp-name",
            "disagg",
            "run-eval",
        ),
        "kv-p2p-transfer",
    ]
    assert row["conc"] == [8, 4, 8]
    assert row["exp-name"] == "tiny_512_128"
    assert list(row["prefill"]) == [*WORKER, "pcp-size", "hardware", "pp", "dcp-size"], "missing sizes are appended"  # type: ignore[call-overload]
    assert row["decode"] == {
        **WORKER,
        "hardware": "b",
        "additional-settings": ["X=1"],
        "pp": 1,
        "dcp-size": 1,
        "pcp-size": 1,
    }


def test_single_agentic_rows() -> None:
    space = {
        "tp": 8,
        "spec-decoding": "mtp",
        "kv-offloading": "dram",
        "kv-offload-backend": {"name": "lmcache", "version": "1"},
        "conc-list": [1, 2],
    }
    first, second = sweep(load(t=agentic(space, utilization=0.8)))
    assert list(first) == [
        *HEAD,
        *("tp", "pp", "dcp-size", "pcp-size", "ep", "dp-attn", "spec-decoding", "conc", "kv-offloading"),
        *("total-cpu-dram-gb", "duration", "exp-name", "scenario-type", "kv-offload-backend"),
    ]
    assert first["exp-name"] == "tiny_tp8_conc1_kvdram-lmcache_spec-mtp"
    assert (first["conc"], second["conc"], first["duration"], first["total-cpu-dram-gb"]) == (1, 2, 3600, 1677)
    assert "run-eval" not in first, "agentic rows carry it only after marking"
    marked = sweep(load(t=agentic(space, utilization=0.8)), EvalMode.DEFAULT)
    assert [row["run-eval"] for row in marked] == [False, False]


@pytest.mark.parametrize(
    ("space", "name"),
    [
        (pair(conc_list=[3]), "tiny_p1x8ep8dpa_d1x8ep8dpa_conc3"),
        (pair({"ep": 1, "dp-attn": False}, {"num-worker": 0, "tp": 4}, conc_list=[3]), "tiny_p1x8_d0x4ep8dpa_conc3"),
        (pair(conc_list=[3], spec_decoding="mtp", kv_offloading="none"), "tiny_p1x8ep8dpa_d1x8ep8dpa_conc3"),
        (
            pair(conc_list=[3], kv_offloading="dram", kv_offload_backend={"name": "hicache"}),
            "tiny_p1x8ep8dpa_d1x8ep8dpa_conc3_kvdram-hicache",
        ),
    ],
)
def test_multi_agentic_names(space: dict[str, object], name: str) -> None:
    (row,) = sweep(load(t=agentic(space, multinode=True, utilization=0.8)))
    assert row["exp-name"] == name
    assert row["conc"] == [3]
    assert row["kv-offloading"] == space.get("kv-offloading", "none")
    assert row["disagg"] is False


def test_an_arm_comes_before_the_entry_for_router_and_transfer() -> None:
    spaces = [
        pair(conc_list=[1], kv_p2p_transfer="nixl", router={"name": "own", "version": "1"}),
        pair(conc_list=[2], kv_p2p_transfer="mooncake"),
    ]
    first, second = sweep(load(t=agentic(*spaces, multinode=True, disagg=True)))
    assert list(first)[-2:] == ["router", "kv-p2p-transfer"]
    assert (first["kv-p2p-transfer"], second["kv-p2p-transfer"], "router" in second) == ("nixl", "mooncake", False)


def test_rows_do_not_share_what_can_change() -> None:
    configs = load(t=fixed(pair({"additional-settings": ["a"]}, conc_list=[1]), multinode=True))
    (first,), (again,) = sweep(configs), sweep(configs)
    first["prefill"]["additional-settings"].append("b")  # type: ignore[index]
    first["conc"].append(9)  # type: ignore[attr-defined]
    assert again["prefill"]["additional-settings"] == ["a"]  # type: ignore[index]
    assert sweep(configs)[0] == again


def test_test_config_uses_an_empty_list_as_written_and_full_sweep_the_range() -> None:
    configs = load(
        f=fixed({"tp": 1, "conc-list": [], "conc-start": 1, "conc-end": 2}),
        a=agentic({"tp": 1, "kv-offloading": "none", "conc-list": [], "conc-start": 1, "conc-end": 2}),
    )
    assert [row["conc"] for row in sweep(configs)] == [1, 2, 1, 2]
    found = rows.test_config(configs, RUNNERS, Filters(keys=("f", "a")))
    assert [row["conc"] for row in found] == [1, 2], "fixed entries only"


_SPACES = st.lists(
    st.fixed_dictionaries(
        {"tp": st.sampled_from([1, 2, 4, 8]), "conc-list": st.lists(st.integers(1, 64), min_size=1, max_size=4)},
        optional={"ep": st.integers(1, 8), "dp-attn": st.booleans()},
    ),
    min_size=1,
    max_size=3,
)


@given(st.lists(_SPACES, min_size=1, max_size=4), st.sampled_from(EvalMode))
@settings(max_examples=25, deadline=None)
def test_expansion_is_deterministic_and_order_stable(spaces: list[list[dict[str, object]]], mode: EvalMode) -> None:
    entries = {f"k{index}": fixed(*arms, isl=8192) for index, arms in enumerate(spaces)}
    configs = load(**entries)
    found = sweep(configs, mode)
    assert json.dumps(found) == json.dumps(sweep(load(**entries), mode))
    if mode is EvalMode.NONE:
        assert found == [row for key in entries for row in sweep(load(**{key: entries[key]}), mode)], "config by config"
        assert [row["conc"] for row in found] == [c for arms in spaces for arm in arms for c in arm["conc-list"]]  # type: ignore[attr-defined]
