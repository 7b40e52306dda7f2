from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden import golden
from tests.plan.spaces import RUNNERS, agentic, fixed, load, pair
from tests.spec.yaml_bytes import MULTI, SINGLE

from ridgeline.core.cell import Component
from ridgeline.core.errors import InputError
from ridgeline.plan.expand import cells
from ridgeline.plan.filters import Filters
from ridgeline.spec.config import load_config_text, load_configs
from ridgeline.spec.runners import load_runners


def test_cells_carry_everything_of_their_arm() -> None:
    found = cells(load_config_text(SINGLE, "f.yaml"), RUNNERS)
    assert [cell.name for cell in found] == [
        *(f"qwen-bf16-h200-vllm/1k1k/TP1/c{n}" for n in (4, 8, 16, 32, 64)),
        *(f"qwen-bf16-h200-vllm/1k1k/DP8EP8-mtp/c{n}" for n in (8, 16)),
        *(f"qwen-bf16-h200-vllm/agentic/TP8-lmcache/c{n}" for n in (1, 2, 4)),
    ]
    last = found[-1]
    assert (last.gpus, last.scenario.duration_s, last.arm.kv_offloading, last.arm.cpu_dram_gb) == (
        8,
        3600,
        "dram",
        1677,
    )
    assert last.arm.router == Component("vllm-router", "0.1.14"), "from the top of the entry"
    assert str(last.where) == "f.yaml:20:9"


def test_pools() -> None:
    first, _ = cells(load_config_text(MULTI))
    assert first.gpus == 4 + 2 * 8
    assert [(pool.role, pool.workers, pool.hardware, pool.settings) for pool in first.arm.pools] == [
        ("prefill", 1, "gb200", ("A=1",)),
        ("decode", 2, "gb200", ()),
    ]
    assert first.arm.topology is None
    assert first.arm.kv_p2p_transfer == "nixl"


def test_runners_are_needed_only_for_host_memory() -> None:
    assert cells(load(t=fixed({"tp": 8, "conc-list": [4]})))
    with pytest.raises(InputError, match="--runner-config"):
        cells(load_config_text(SINGLE))


def test_filters_and_keys() -> None:
    configs = load(a=fixed({"tp": 8, "conc-list": [4, 8]}), b=fixed({"tp": 4, "conc-list": [4]}))
    found = cells(configs, filters=Filters(keys=("b", "a*"), conc=(4,)))
    assert [cell.name for cell in found] == ["b/1k1k/TP4/c4", "a/1k1k/TP8/c4"]


def test_a_point_written_twice_is_one_cell() -> None:
    arm = {"tp": 8, "conc-list": [4, 4, 8]}
    assert [cell.concurrency for cell in cells(load(a=fixed(arm, arm)))] == [4, 8]


def routed(version: str) -> dict[str, Any]:
    return {"tp": 8, "conc-list": [4], "router": {"name": "r", "version": version}}


def test_arms_of_one_label_are_told_apart_whatever_their_order() -> None:
    names = [cell.name for cell in cells(load(a=fixed(routed("1"), routed("2"))))]
    assert len(set(names)) == 2
    assert all(name.startswith("a/1k1k/TP8~") for name in names)
    assert [cell.name for cell in cells(load(a=fixed(routed("2"), routed("1"))))] == names[::-1]
    assert [cell.name for cell in cells(load(a=fixed(routed("1"))))] == ["a/1k1k/TP8/c4"]


def test_the_mark_is_no_part_of_the_fingerprint() -> None:
    both, alone = cells(load(a=fixed(routed("1"), routed("2")))), cells(load(a=fixed(routed("1"))))
    assert both[0].fingerprint == alone[0].fingerprint
    assert both[0].fingerprint != both[1].fingerprint


def test_fingerprints_do_not_change() -> None:
    """A stored run is found again by these: a change here orphans every earlier result and needs a migration."""
    (first, *_) = cells(load(t=agentic({"tp": 8, "kv-offloading": "none", "conc-list": [4]})))
    assert first.fingerprint == "573b7d9f10825d375b4ee1495b234e8da0e375ce5bf476d6ca20378af358a463"
    (second, *_) = cells(load(t=fixed(pair(conc_list=[4]), multinode=True)))
    assert second.fingerprint == "52f6b0a339689dc960f046d72e82d2ac8557b60503af8e84573dd28e9ec2f4d0"


_ARM = st.fixed_dictionaries(
    {"tp": st.sampled_from([1, 2, 4, 8]), "conc-list": st.lists(st.integers(1, 64), min_size=1, max_size=4)},
    optional={
        "ep": st.integers(1, 8),
        "dp-attn": st.booleans(),
        "spec-decoding": st.sampled_from(["mtp", "none"]),
        "router": st.sampled_from([{"name": "r", "version": v} for v in "12"]),
    },
)


@given(st.lists(_ARM, min_size=1, max_size=5), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_names_are_unique_and_fingerprints_depend_on_nothing_but_the_cell(
    arms: list[dict[str, Any]], random: Any
) -> None:
    found = cells(load(a=fixed(*arms)))
    assert len({cell.name for cell in found}) == len({cell.fingerprint for cell in found}) == len(found)
    shuffled = random.sample(arms, len(arms))
    again = cells(load(a=fixed(*({key: arm[key] for key in reversed(arm)} for arm in shuffled))))
    assert {cell.name: cell.fingerprint for cell in again} == {cell.name: cell.fingerprint for cell in found}


def test_all_cells_of_the_real_files_have_names_of_their_own() -> None:
    folder = golden("data/inferencex/configs")
    configs = load_configs([folder / "amd-master.yaml", folder / "nvidia-master.yaml"])
    found = cells(configs, load_runners(folder / "runners.yaml"))
    assert len({cell.name for cell in found}) == len({cell.fingerprint for cell in found}) == len(found) == 2077
    assert all(cell.where and cell.where.line for cell in found)
    assert all(cell.gpus > 0 for cell in found)
