from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from tests.plan.spaces import RUNNERS, WORKER, agentic, load

from ridgeline.core.errors import InputError
from ridgeline.plan.memory import cpu_dram_gb
from ridgeline.spec.runners import Hardware, Runners

DRAM: dict[str, Any] = {"kv-offloading": "dram", "kv-offload-backend": {"name": "lmcache"}, "conc-list": [4]}


def runners(mib: int, gpus: int) -> Runners:
    return Runners({}, {"cluster:h200-a": Hardware(mib, gpus)}, "runners.yaml")


def single(facts: Runners | None, utilization: float = 0.8, **sizes: int) -> int:
    space = {"tp": 8, **{name.replace("_", "-"): size for name, size in sizes.items()}, **DRAM}
    entry = load(t=agentic(space, utilization=utilization))["t"]
    return cpu_dram_gb(entry, entry.agentic[0].spaces[0], utilization, facts)


def multi(facts: Runners, **prefill: int) -> int:
    worker = WORKER | {name.replace("_", "-"): size for name, size in prefill.items()}
    entry = load(t=agentic({"prefill": worker, "decode": WORKER, **DRAM}, utilization=0.5, multinode=True))["t"]
    return cpu_dram_gb(entry, entry.agentic[0].spaces[0], 0.5, facts)


@pytest.mark.parametrize(
    ("facts", "utilization", "sizes", "gigabytes"),
    [
        (runners(3_095_781, 8), 0.8, {}, 2399),  # above the cap of 2,861,022 MiB
        (runners(860_160, 4), 0.5, {"tp": 2}, 225),
        (runners(1_000_000, 8), 0.8, {"tp": 4}, 419),
        (runners(1_000_000, 8), 0.8, {"tp": 2, "pp": 2}, 419),
        (runners(1_000_000, 8), 0.8, {"tp": 2, "pcp_size": 2}, 419),
        (runners(1_000_000, 8), 0.8, {"tp": 4, "dcp_size": 4}, 419),
        (runners(1_000_000, 8), 1.0, {}, 1048),
        (runners(1_000_000, 8), 0.8, {"tp": 0}, 0),
    ],
)
def test_single_node_share(facts: Runners, utilization: float, sizes: dict[str, int], gigabytes: int) -> None:
    assert single(facts, utilization, **sizes) == gigabytes


def test_the_decimal_text_counts_and_not_its_binary_value() -> None:
    """5^9 MiB are 2.048e12 bytes, so 0.29 of them for 25 of 32 GPUs are 464 GB exactly; the double nearest to 0.29 is a
    little smaller and would give 463."""
    assert int(Fraction(0.29) * 2048 * 25 / 32) == 463
    assert single(runners(5**9, 32), 0.29, tp=25) == 464


@pytest.mark.parametrize(
    ("gpus_per_node", "prefill", "gigabytes"),
    [
        (8, {"tp": 8}, 524),
        (8, {"tp": 4}, 262),
        (8, {"tp": 4, "num_worker": 2}, 262),
        (8, {"tp": 16}, 524),
        (8, {"tp": 8, "pp": 3}, 524),
        (4, {"tp": 8}, 524),
    ],
)
def test_only_the_prefill_worker_counts(gpus_per_node: int, prefill: dict[str, int], gigabytes: int) -> None:
    assert multi(runners(1_000_000, gpus_per_node), **prefill) == gigabytes


@pytest.mark.parametrize("prefill", [{"tp": 6}, {"tp": 12}, {"tp": 3}, {"tp": 0}, {"tp": -8}])
def test_a_replica_divides_or_fills_whole_nodes(prefill: dict[str, int]) -> None:
    with pytest.raises(InputError, match="neither divides nor fills whole nodes"):
        multi(runners(1_000_000, 8), **prefill)


def test_more_gpus_than_a_node_has() -> None:
    with pytest.raises(InputError) as caught:
        single(runners(1_000_000, 8), tp=8, pp=2)
    assert "8 x 2 x 1 needs 16 GPUs, and `cluster:h200-a` has 8 gpus-per-node" in str(caught.value)
    assert caught.value.problems[0].where is not None
    assert caught.value.problems[0].where.file == "f.yaml"


def test_missing_facts_name_the_runner_the_fields_and_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        single(Runners({}, {"cluster:other": Hardware(1, 8)}, "runners.yaml"))
    text = str(caught.value)
    assert all(word in text for word in ("cluster:h200-a", "available-cpu-dram-mib", "gpus-per-node", "cluster:other"))
    with pytest.raises(InputError, match="--runner-config"):
        single(None)


def test_without_dram_nothing_is_looked_up() -> None:
    entry = load(t=agentic({"tp": 8, "kv-offloading": "none", "conc-list": [4]}))["t"]
    assert cpu_dram_gb(entry, entry.agentic[0].spaces[0], None, None) == 0


def test_a_node_filter_does_not_change_the_facts() -> None:
    from ridgeline.plan.filters import Filters
    from ridgeline.plan.rows import full_sweep

    found = full_sweep(load(t=agentic({"tp": 8, **DRAM}, utilization=0.8)), RUNNERS, Filters(node="h200-a_1"))
    assert [(row["runner"], row["total-cpu-dram-gb"]) for row in found] == [("h200-a_1", 1677)]
