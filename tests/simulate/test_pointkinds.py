"""Kinds of files become points; what a row does not say is given, assumed by name, or asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden import golden

from ridgeline.core.errors import InputError
from ridgeline.simulate.costparams import parameters_for
from ridgeline.simulate.fit import covered, predict
from ridgeline.simulate.pointkinds import read_file
from ridgeline.simulate.points import Measured

TABLE = "hardware,framework,model,precision,spec,tp,ep,dp_attn,isl,osl,conc,total_tput_per_gpu,ttft_ms,tpot_ms\n"
ROW = "h200,vllm,gptoss120b,fp4,none,2,1,false,1024,1024,16,2000,100,8\n"
API: dict[str, Any] = {
    "hardware": "h200", "framework": "sglang", "model": "dsr1", "precision": "fp8", "spec_method": "none",
    "disagg": False, "is_multinode": False, "prefill_tp": 8, "prefill_ep": 8, "prefill_dp_attention": False,
    "prefill_num_workers": 0, "decode_tp": 8, "decode_ep": 8, "decode_dp_attention": False, "decode_num_workers": 0,
    "num_prefill_gpu": 64, "num_decode_gpu": 64, "isl": 8192, "osl": 1024, "conc": 16,
    "metrics": {"median_tpot": 0.02, "median_ttft": 0.5, "mean_ttft": 0.9, "tput_per_gpu": 700.0}, "date": "2026-02-27",
}  # fmt: skip


def one(tmp_path: Path, data: object, name: str = "p.json", **given: str) -> Measured:
    path = tmp_path / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    reading = read_file(path, given)
    assert not reading.problems, reading.problems
    [point] = reading.points
    return point


def test_gpus_of_a_single_node_are_not_tp_times_ep(tmp_path: Path) -> None:
    point = one(tmp_path, [API])
    assert (point.gpus, point.label, point.kind, point.date) == (8, "TP8EP8", "fixed", "2026-02-27")
    assert (point.tput, point.tpot_s, point.ttft_s, point.ttft_median) == (700.0, 0.02, 0.9, False)
    del API["metrics"]["mean_ttft"]
    assert one(tmp_path, [API]).ttft_median
    assert one(tmp_path, [{**API, "metrics": {"median_tpot_ms": 20, "tput_per_gpu": 700.0}}]).tpot_s == 0.02


@pytest.mark.parametrize(
    ("tp", "ep", "spread", "workers", "gpus", "label", "assumed"),
    [
        (8, 8, True, 6, 48, "DP8EP8x6", 0),
        (4, 1, False, 1, 4, "TP4", 0),
        (1, 8, True, 2, 16, "DP8EP8x2", 1),
        (1, 8, False, 2, 16, "TP8EP8x2", 1),
        (1, 1, True, 1, 48, "DP48EP48", 1),
        (8, 8, True, 1, 16, "DP16EP16", 1),
        (8, 8, True, 1, 64, "DP8EP8", 0),
        (32, 32, True, 1, 32, "DP32EP32", 0),
    ],
)
def test_workers_of_a_pool_have_the_gpus_that_are_counted(
    tp: int, ep: int, spread: bool, workers: int, gpus: int, label: str, assumed: int, tmp_path: Path
) -> None:
    sizes = {"tp": tp, "ep": ep, "dp_attention": spread, "num_workers": workers}
    row = {**API, "framework": "dynamo-sglang", "disagg": True, "num_decode_gpu": gpus, "num_prefill_gpu": 8}
    row |= {f"decode_{name}": value for name, value in sizes.items()} | {"prefill_num_workers": 1}
    point = one(tmp_path, [row])
    assert point.prefill is not None and point.prefill.topology.label == "TP8EP8"
    assert point.label == f"TP8EP8x1+{label}"
    assert len(point.assumed) == assumed


def test_pools_that_a_router_left_out_are_assumed(tmp_path: Path) -> None:
    point = one(tmp_path, [{**API, "framework": "dynamo-trt", "decode_tp": 28, "decode_ep": 1}])
    assert point.label == "DP28EP28" and "pools are not said" in point.assumed[0]


def test_experts_are_spread_over_gpus_that_are_there(tmp_path: Path) -> None:
    row = ROW.replace(",gptoss120b,", ",dsr1,").replace(",2,1,false,", ",1,16,true,")
    point = one(tmp_path, TABLE + row, "t.csv")
    assert point.label == "DP16EP16" and "16 GPUs" in point.assumed[0]
    dense = one(
        tmp_path, TABLE + ROW.replace(",gptoss120b,", ",llama70b,").replace(",2,1,false,", ",8,8,false,"), "t.csv"
    )
    assert dense.label == "TP8" and "no experts" in dense.assumed[0]


def test_later_rows_say_their_context_parallelism(tmp_path: Path) -> None:
    metrics = {**API["metrics"], "pp": 2, "dcp_size": 4, "pcp_size": 1}
    assert one(tmp_path, [{**API, "decode_ep": 1, "metrics": metrics}]).label == "TP8PP2DCP4"


def test_rows_without_lengths_are_agentic(tmp_path: Path) -> None:
    metrics = {"mean_itl": 0.01, "mean_tpot": 0.002, "median_ttft": 0.5, "tput_per_gpu": 9e3, "gpu_cache_hit_rate": 0.9}
    row = {
        **API,
        "isl": None,
        "osl": None,
        "benchmark_type": "agentic_traces",
        "offload_mode": "on",
        "metrics": metrics,
    }
    point = one(tmp_path, [row])
    assert (point.kind, point.offload, point.tpot_s, point.hit) == ("agentic", True, 0.01, 0.9)


def test_an_aggregate_of_an_agentic_run(tmp_path: Path) -> None:
    point = one(
        tmp_path,
        {
            "hw": "cluster:h100-dgxc", "conc": 4, "model": "deepseek-ai/DeepSeek-V4.1-Flash", "framework": "sglang",
            "infmax_model_prefix": "dsv41flash", "precision": "fp4", "spec_decoding": "mtp", "tp": 8, "ep": 1,
            "dp_attention": "false", "kv_offloading": "none", "pp": 1, "dcp_size": 1, "pcp_size": 1,
            "request_metrics": {
                "latency": {"ttft": {"mean": 100, "p50": 1.1}, "full_response_itl": {"mean": 0.01}},
                "throughput": {"per_gpu": {"total_tput_tps": 405.0}},
            },
            "server_metrics": {"cache": {"gpu_cache_hit_rate": 0.36}},
        },
    )  # fmt: skip
    assert (point.hardware, point.model, point.drafts, point.label) == ("h100", "dsv41flash", 3, "TP8")
    assert (point.tput, point.ttft_s, point.ttft_median, point.hit) == (405.0, 1.1, True, 0.36)
    assert "DeepSeek-V4-Flash" in point.assumed[0]


def test_agentic_tables_say_layouts_in_words(tmp_path: Path) -> None:
    head = "hardware,model,framework,precision,spec,tp,offload,conc,total_tput_per_gpu,output_tput_per_gpu\n"
    point = one(tmp_path, head + "gb300,qwen3.5,dynamo-sglang,fp4,mtp,P1x3/D4x4,,565,87274,836\n", "a.csv")
    assert point.label == "TP1x3+TP4x4" and point.gpus == 19 and point.output_tput is None
    point = one(tmp_path, head + "b300,glm5.2,sglang,fp4,none,TP8 host tier,none,8,,836\n", "a.csv")
    assert point.offload and point.output_tput == 836 and point.tput is None


def test_a_layout_that_is_no_layout_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(TABLE + ROW.replace(",2,1,", ",very wide,1,"))
    [problem] = read_file(path).problems
    assert problem.where is not None and (problem.where.line, problem.where.column, problem.key) == (2, 31, "tp")
    assert "DP8EP8" in (problem.hint or "")


def test_everything_wrong_is_said_at_once_and_the_rest_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [
        ROW, ROW.replace(",16,", ",0,"), ROW.replace(",1024,1024,", ",0,1024,"), ROW.replace(",2000,", ",-5,"),
        ROW.replace(",8\n", ",nan\n"), ROW.replace(",2000,100,8", ",,,"), ROW.replace(",2000,100,8", ",2000,100,8000"),
        ROW.replace("h200,", ","), ROW.replace(",16,", ",32,"),
    ]  # fmt: skip
    path.write_text(TABLE + "".join(rows))
    reading = read_file(path)
    assert [point.conc for point in reading.points] == [16, 32]
    said = [(p.where.line if p.where else 0, p.message) for p in reading.problems]
    assert [line for line, _ in said] == [3, 4, 5, 6, 7, 8, 9]
    for (_, message), word in zip(
        said,
        ["at least 1", "at least 1", "above 0", "above 0", "no measured", "decoded at once", "missing"],
        strict=True,
    ):
        assert word in message
    with pytest.raises(InputError) as caught:
        reading.strict()
    assert len(caught.value.problems) == 7


def test_a_copied_row_counts_once_and_a_repeat_twice(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(TABLE + ROW + ROW.replace(",2000,", ",2010,") + ROW)
    reading = read_file(path)
    assert [point.tput for point in reading.points] == [2000, 2010]
    assert reading.left_out == ["t.csv line 4: repeats line 2 word for word and counts once"]


def test_missing_columns_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(TABLE.replace("conc,", "load,") + ROW)
    with pytest.raises(InputError, match="looks like a table of fixed-sequence results, but has no `conc` or"):
        read_file(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="no columns that are understood"):
        read_file(path)
    path.write_text(json.dumps([{**API, "task": "gsm8k", "metrics": {"em_strict": 0.9}}]))
    with pytest.raises(InputError, match="results of evaluations, and no serving points"):
        read_file(path)
    path.write_text('{"a": 1}')
    with pytest.raises(InputError, match="no keys that are understood"):
        read_file(path)


def test_what_files_do_not_say_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("isl,osl,conc,tpot_ms,tp\n1024,1024,4,6,\n")
    [point] = read_file(path, {"hardware": "8xH200", "model": "dsr1", "tp": "DEP8", "precision": "fp8"}).points
    assert (point.hardware, point.label, point.engine) == ("h200", "DP8EP8", "vllm")


BENCH = {
    "model_id": "zai-org/GLM-5-FP8", "max_concurrency": 16, "completed": 160, "total_input_tokens": 163_840,
    "total_output_tokens": 20_480, "input_throughput": 7600.0, "output_throughput": 950.0, "median_ttft": 3.1,
    "median_tpot": 0.14,
}  # fmt: skip


def test_a_bench_result_is_what_its_name_and_folders_say(tmp_path: Path) -> None:
    folder = tmp_path / "token_position_h200" / "glm-5"
    folder.mkdir(parents=True)
    point = one(folder, BENCH, "glm5_fp8_vllm_tp8_isl1024_osl128_conc16.json")
    assert (point.hardware, point.engine, point.model, point.precision) == ("h200", "vllm", "glm5", "fp8")
    assert (point.label, point.isl, point.osl, point.conc) == ("TP8", 1024, 128, 16)
    assert point.tput == pytest.approx(8550 / 8) and (point.ttft_s, point.ttft_median) == (3.1, True)
    assert one(folder, BENCH, "glm5_fp8_vllm_dep8_isl1_osl1_conc16.json").label == "DP8EP8"


def test_a_bench_result_that_says_too_little_asks(tmp_path: Path) -> None:
    path = tmp_path / "cf_c4.json"
    path.write_text(json.dumps({**BENCH, "model_id": "openai/gpt-oss-120b"}))
    assert "--given tp=1" in (read_file(path).problems[0].hint or "")
    assert "--given hardware=h200" in (read_file(path, {"tp": "1"}).problems[0].hint or "")
    [point] = read_file(path, {"tp": "1", "hardware": "h200"}).points
    assert (point.precision == "fp4" and "as" in point.assumed[0]) or "shipped" in point.assumed[0]


def test_strategies_of_the_cookbook(tmp_path: Path) -> None:
    head = "hw,variant,quant,strategy,isl,osl,max_concurrency,ttft_ms,tpot_ms,tokens_per_sec_per_gpu\n"
    point = one(tmp_path, head + "b200,pro,nvfp4,balanced,8192,1024,64,3615,53,1014\n", "c.csv")
    assert (point.model, point.label, point.drafts, point.precision) == ("dsv4", "DP8EP8", 1, "fp4")
    point = one(tmp_path, head + "b200,flash,fp4,high-throughput,8192,1024,1024,3615,53,1014\n", "c.csv")
    assert (point.model, point.label, point.drafts, point.most) == ("dsv4flash", "DP4EP4", 0, 256)
    path = tmp_path / "c.csv"
    path.write_text(head + "b200,pro,fp4,magic,8192,1024,64,3615,53,1014\n")
    assert "low-latency" in (read_file(path).problems[0].hint or "")


def test_articles_are_read_by_the_words_around_their_tables(tmp_path: Path) -> None:
    file, head = "a/b200-glm5-vs-h200.mdx", "**H200 SGLang FP8 + MTP, TP=8 on 8 GPUs** (model `zai-org/GLM-5-FP8`):"
    tables = [
        {"file": file, "context": "On paper", "header": ["Spec", "H200"], "rows": [["HBM", "141"]]},
        {
            "file": file, "context": head,
            "header": ["Conc", "tok/s/GPU", "tok/s/user", "TPOT (ms)", "$/M tokens"],
            "rows": [
                ["4", "**347.9**", "84.49", "11.84", "$1.13"], ["1,024", "847.2", "20.80", "**800 ms**", "$0.46"],
                ["x", "1", "1", "1", "$1"],
            ],
        },
        {
            "file": file, "context": "**2026-05-02, Dynamo vLLM, 1k/1k disagg, no MTP**",
            "header": ["Conc", "Prefill", "Decode", "tok/s/GPU", "TPOT (ms)"],
            "rows": [["4", "4 GPU, TP=4", "32 GPU, EP=8", "60", "3.4"]],
        },
    ]  # fmt: skip
    path = tmp_path / "tables.json"
    path.write_text(json.dumps(tables))
    reading = read_file(path)
    first, second, pools = reading.points
    assert (first.hardware, first.engine, first.model, first.precision) == ("h200", "sglang", "glm5", "fp8")
    assert (first.label, first.drafts, first.tput, first.tpot_s) == ("TP8", 3, 347.9, 0.01184)
    assert (first.isl, first.osl) == (8192, 1024) and "lengths" in first.assumed[0]
    assert second.conc == 1024 and second.tpot_s == 0.8
    assert pools.date == "2026-05-02" and first.date is None
    assert pools.label == "TP4x1+DP8EP8x4" and (pools.isl, pools.osl) == (1024, 1024)
    assert any("1 of 3 tables hold no serving points" in note for note in reading.left_out)
    assert any("row 2" in note for note in reading.left_out)


def test_a_collection_of_published_points(tmp_path: Path) -> None:
    points = [
        {"id": "peak", "model": "DeepSeek-V4-Pro", "gpu": "8xMI355X", "engine": "vLLM", "total_tps": 66000},
        {
            "id": "c48", "src": "x", "model": "DeepSeek-V4-Pro", "gpu": "8xMI355X", "engine": "ATOM",
            "topo": "DPA8+EP8 RCCL, MTP-3, TBO off", "conc": 48, "input_tps": 147130.0, "output_tps": 1040.0,
        },
        {"id": "c64", "src": "same", "conc": 64, "input_tps": 175554.0, "output_tps": 1441.0},
        {
            "id": "glm", "model": "GLM-5.2-MXFP4", "gpu": "4xMI355X TP4/EP4", "engine": "SGLang",
            "rows": [[10, 66.9, 13002.0]], "cols": ["conc", "p90_interactivity", "tps_per_gpu"],
        },
        {
            "id": "kimik3-b300-vllm", "model": "Kimi-K3", "gpu": "8xB300",
            "rows": {"c16_dram": {"ttft_p50": 0.85, "out_tps": 245.0}},
        },
    ]  # fmt: skip
    path = tmp_path / "points.json"
    path.write_text(json.dumps({"points": points}))
    reading = read_file(path)
    first, second, glm, kimi = reading.points
    assert (first.label, first.drafts, first.engine, first.model) == ("DP8EP8", 3, "atom", "dsv4")
    assert first.tput == pytest.approx((147130 + 1040) / 8) and second.conc == 64 and second.label == "DP8EP8"
    assert (glm.label, glm.precision, glm.model, glm.hardware) == ("TP4EP4", "fp4", "glm5.2", "mi355x")
    assert kimi.offload and kimi.output_tput == pytest.approx(245 / 8) and kimi.tput is None
    assert reading.left_out == ["points.json point peak row 0: its concurrency is not said"]


JUNK = st.sampled_from(
    ["", "nan", "-1", "0", "inf", "1e999", "abc", "TP8", "P1x3/D4x4", "None", "true", "9" * 400, "\u00bd", "-0.0",
     "0x10", "../../x", "8 8", "1.5"]
)  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 13), JUNK), max_size=4))
@settings(max_examples=80)
def test_whatever_stands_in_a_cell_is_a_point_or_a_problem(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, str]]
) -> None:
    cells = ROW.rstrip().split(",")
    for column, junk in changes:
        cells[column] = junk
    path = tmp_path_factory.getbasetemp() / "junk.csv"
    path.write_text(TABLE + ",".join(cells) + "\n")
    reading = read_file(path)
    assert len(reading.points) == (not reading.problems)
    for point in covered(reading.points)[0]:
        seen = predict(point, parameters_for("default", "default"), {})
        assert seen.tput_per_gpu > 0 and seen.tpot_s > 0


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("results/fixed_seq_points.csv", 2088), ("results/fixed_seq_pr_tables.csv", 31),
        ("results/agentic_points.csv", 39), ("results/kimik3_agentic.csv", 15),
        ("results/inferencex_api/2026-05-05/benchmarks.json", 435),
        ("results/sglang_cookbook_dsv4/dsv4_cookbook_speed.csv", 76),
        ("results/sglang_cookbook_dsv4/repeat_runs.csv", 12), ("results/agg_json/h100_dsv41flash_c4_attempt1.json", 1),
        ("results/blog_tables.json", 200), ("data/calibration_points.json", 20),
    ],
)  # fmt: skip
def test_published_files_are_read_whole(path: str, count: int) -> None:
    reading = read_file(golden(path))
    assert not reading.problems
    assert len(reading.points) >= count
