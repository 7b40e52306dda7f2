"""The fixed-sequence row and its power: known answers of the peer, and rules worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.golden import golden

from ridgeline.core.cell import Arm, Benchmark, Cell, Component, Scenario
from ridgeline.core.errors import AnswerIsNo, InputError
from ridgeline.core.point import Measure, Point, Source
from ridgeline.core.topology import Pool, Topology
from ridgeline.results.export.inferencex import environment, fixed_row, fixed_row_and_power, row_of_point

ENV = {
    "RUNNER_TYPE": "b200",
    "FRAMEWORK": "sglang",
    "PRECISION": "fp4",
    "SPEC_DECODING": "none",
    "RESULT_FILENAME": "r",
    "ISL": "1024",
    "OSL": "1024",
    "DISAGG": "false",
    "MODEL_PREFIX": "m",
    "IMAGE": "i:1",
    "TP": "2",
    "EP_SIZE": "2",
    "DP_ATTENTION": "true",
    "PP_SIZE": "3",
    "DCP_SIZE": "2",
}
RESULT: dict[str, Any] = {
    "model_id": "acme/m",
    "max_concurrency": 8,
    "total_token_throughput": 120.0,
    "output_throughput": 48.0,
    "median_tpot_ms": 20.0,
    "p99_ttft_ms": 500.0,
    "burstiness": 1.0,
}


def test_known_rows_and_power() -> None:
    cases = json.loads(golden("golden/results/cases.json").read_text())["cases"]
    assert len(cases) >= 10
    for case in cases:
        env, result, log = case["env"], case["result_in"], case.get("gpu_csv")
        if case["rc"]:
            with pytest.raises((InputError, AnswerIsNo)):
                fixed_row(result, env, log)
        else:
            row = fixed_row(result, env, log)
            assert row == case["row"], case["name"]
            assert [type(v) for v in row.values()] == [type(v) for v in case["row"].values()], case["name"]
            assert list(row) == list(case["row"]), case["name"]
        if "power_sidecar" in case and env.get("IS_MULTINODE") != "true":
            assert fixed_row_and_power(result, env, log)[1].sidecar == case["power_sidecar"], case["name"]


def test_gpus_are_tp_pp_pcp_and_times_are_seconds() -> None:
    row = fixed_row(RESULT, ENV)
    assert (row["tput_per_gpu"], row["output_tput_per_gpu"], row["input_tput_per_gpu"]) == (20, 8, 12)
    assert (row["median_tpot"], row["median_intvty"], row["p99_ttft"]) == (0.02, 50, 0.5)
    assert row["dp_attention"] == "true" and "burstiness" not in row and "router" not in row


def test_everything_missing_or_wrong_is_said_at_once() -> None:
    env = ENV | {"TP": "0", "PP_SIZE": "two", "DISAGG": "true", "ROUTER_METADATA": '{"name":"x"}', "IMAGE": ""}
    del env["ISL"]
    with pytest.raises(InputError) as caught:
        fixed_row({**RESULT, "output_throughput": None, "mean_tpot_ms": 0.0}, env)
    keys = {problem.key for problem in caught.value.problems}
    expected = {"TP", "PP_SIZE", "DISAGG", "ROUTER_METADATA", "IMAGE", "ISL", "output_throughput", "mean_tpot_ms"}
    assert keys == expected


def test_pools_divide_by_their_own_gpus() -> None:
    multi = {
        **{k: v for k, v in ENV.items() if k not in ("TP", "EP_SIZE", "DP_ATTENTION")},
        "IS_MULTINODE": "true", "DISAGG": "true", "KV_P2P_TRANSFER": "nixl",
        "PREFILL_GPUS": "4", "PREFILL_NUM_WORKERS": "1", "PREFILL_TP": "4", "PREFILL_EP": "1",
        "PREFILL_DP_ATTN": "false",
        "DECODE_GPUS": "16", "DECODE_NUM_WORKERS": "2", "DECODE_TP": "8", "DECODE_EP": "8", "DECODE_DP_ATTN": "true",
        "PREFILL_HARDWARE": "b200", "DECODE_HARDWARE": "h200",
    }  # fmt: skip
    row = fixed_row(RESULT, multi)
    assert (row["tput_per_gpu"], row["output_tput_per_gpu"], row["input_tput_per_gpu"]) == (6, 3, 18)
    assert (row["prefill_hw"], row["decode_hw"], row["kv_p2p_transfer"]) == ("b200", "h200", "nixl")
    assert row["decode_dp_attention"] == "true" and row["is_multinode"] is True


BENCHMARK = Benchmark("k", "i:1", "acme/m", "m", "fp4", "sglang", "b200")


def point_of(cell: Cell, **measures: float) -> Point:
    return Point(
        id="k.1", run_key="k", cell_fingerprint="f", name=cell.name, line=cell.line, series="s", source=Source.MEASURED,
        concurrency=cell.concurrency, gpus=cell.gpus, facts={},
        measures={name.replace("__", "."): Measure(value, "u") for name, value in measures.items()},
    )  # fmt: skip


def test_a_point_of_ours_becomes_a_row() -> None:
    cell = Cell(BENCHMARK, Scenario("fixed-seq-len", 1024, 1024), Arm(topology=Topology(tp=2, pp=3)), 8)
    point = point_of(cell, throughput__total=120, throughput__output=48, itl__p50=0.02, icl__p99=0.07, ttft__mean=0.3)
    row = row_of_point(point, cell, recipe_fingerprint="ab")
    assert (row["tput_per_gpu"], row["conc"], row["isl"], row["recipe_fingerprint"]) == (20, 8, 1024, "ab")
    assert row["median_tpot"] == pytest.approx(0.02) and row["median_intvty"] == pytest.approx(50)
    assert row["p99_itl"] == pytest.approx(0.07) and row["mean_ttft"] == pytest.approx(0.3)
    assert "p99_tpot" not in row, "missing is no key, not zero"
    with pytest.raises(InputError, match=r"throughput\.total.*not measured"):
        row_of_point(point_of(cell), cell)
    agentic = Cell(BENCHMARK, Scenario("agentic-coding"), Arm(topology=Topology(tp=2)), 8)
    with pytest.raises(InputError, match="no fixed-sequence cell"):
        row_of_point(point, agentic)


def test_pools_of_a_cell_become_their_environment() -> None:
    pools = (
        Pool("prefill", 1, Topology(tp=4), hardware="b200"),
        Pool("decode", 2, Topology(tp=8, ep=8, dp_attn=True), hardware="h200"),
    )
    benchmark = Benchmark("k", "i:1", "acme/m", "m", "fp4", "sglang", "b200", multinode=True, disagg=True)
    arm = Arm(pools=pools, router=Component("r", "1"), kv_p2p_transfer="nixl")
    cell = Cell(benchmark, Scenario("fixed-seq-len", 1024, 1024), arm, 8)
    row = row_of_point(point_of(cell, throughput__total=120, throughput__output=48), cell)
    assert (row["num_prefill_gpu"], row["num_decode_gpu"], row["decode_ep"]) == (4, 16, 8)
    assert row["router"] == {"name": "r", "version": "1"} and row["disagg"] is True
    assert environment(cell)["DECODE_DP_ATTN"] == "true"


def test_gpus_of_a_pool_are_those_its_run_occupied() -> None:
    """An engine written as tp 1 with ep 8 and dp-attention is eight GPUs wide; its topology alone says one."""
    pools = (Pool("prefill", 1, Topology(tp=1, ep=8, dp_attn=True)), Pool("decode", 2, Topology(tp=4)))
    benchmark = Benchmark("k", "i:1", "acme/m", "m", "fp4", "vllm", "b200", multinode=True, disagg=True)
    cell = Cell(benchmark, Scenario("fixed-seq-len", 1024, 1024), Arm(pools=pools), 8)
    point = replace(
        point_of(cell, throughput__total=160, throughput__output=48),
        gpus=16, provenance={"gpus_by_role": {"prefill": 8, "decode": 8}},
    )  # fmt: skip
    row = row_of_point(point, cell)
    assert (row["num_prefill_gpu"], row["num_decode_gpu"], row["prefill_tp"], row["prefill_ep"]) == (8, 8, 1, 8)
    assert (row["tput_per_gpu"], row["output_tput_per_gpu"], row["input_tput_per_gpu"]) == (10, 6, 14)
