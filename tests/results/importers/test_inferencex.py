"""InferenceX's rows, aggregates and tables, with the nine traps of its data, one test each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.golden import golden

from ridgeline.core.point import Point
from ridgeline.results.importers import find
from ridgeline.results.importers.api import Imported, Notes
from ridgeline.results.importers.inferencex_api import evaluation_of, point_of, run_name

ROW: dict[str, Any] = {
    "hardware": "h200", "framework": "vllm", "model": "dsr1", "precision": "fp8", "spec_method": "none",
    "disagg": False, "is_multinode": False,
    "prefill_tp": 8, "prefill_ep": 1, "prefill_dp_attention": False, "prefill_num_workers": 0,
    "decode_tp": 8, "decode_ep": 1, "decode_dp_attention": False, "decode_num_workers": 0,
    "num_prefill_gpu": 8, "num_decode_gpu": 8, "isl": 1024, "osl": 1024, "conc": 16, "image": "i:1",
    "metrics": {"tput_per_gpu": 300.0, "input_tput_per_gpu": 200.0, "output_tput_per_gpu": 100.0,
                "median_ttft": 0.2, "mean_ttft": 0.3, "median_tpot": 0.01, "p90_tpot": 0.02, "median_intvty": 100.0,
                "p90_intvty": 50.0, "std_intvty": 12345.0, "median_itl": 0.012, "median_e2el": 10.0},
    "date": "2026-01-02", "run_url": "https://x/actions/runs/123456789/attempts/2",
}  # fmt: skip


def one(row: dict[str, Any], notes: Notes | None = None) -> Point:
    return point_of(row, run_name(row["run_url"], ""), notes or Notes()).point


def with_metrics(**changes: Any) -> dict[str, Any]:
    return {**ROW, "metrics": {**ROW["metrics"], **changes}}


def test_a_plain_row() -> None:
    point = one(ROW)
    assert point.name == "dsr1-fp8-h200-vllm/1k1k/TP8/c16" and point.attempt == 2
    assert point.value("itl.p50") == 0.01, "their fixed-sequence tpot is our itl"
    assert point.value("icl.p50") == 0.012, "their itl is the gap of chunks"
    assert point.value("interactivity.p50") == 100 and point.value("throughput.total") == 2400


def test_trap_1_expert_parallel_rows_count_gpus_ep_times() -> None:
    row = {**ROW, "prefill_ep": 8, "decode_ep": 8, "num_prefill_gpu": 64, "num_decode_gpu": 64}
    point = one(row)
    assert point.gpus == 8 and point.value("throughput.total") == 2400
    deep = one({**row, "metrics": {**ROW["metrics"], "pp": 2, "pcp_size": 2, "dcp_size": 4}})
    assert deep.gpus == 8 * 2 * 2, "tp x pp x pcp; ep and dcp never multiply"


def test_trap_2_halves_of_one_pool_are_the_same_gpus() -> None:
    assert one(ROW).gpus == 8, "8 and 8 are not 16"


def test_trap_3_pools_apart_have_throughput_per_their_own_gpus() -> None:
    row = {
        **ROW, "disagg": True, "is_multinode": True, "prefill_num_workers": 1, "decode_num_workers": 4,
        "prefill_tp": 4, "decode_tp": 8, "num_prefill_gpu": 4, "num_decode_gpu": 32,
        "metrics": {**ROW["metrics"], "tput_per_gpu": (760 * 4 + 95 * 32) / 36, "input_tput_per_gpu": 760.0,
                    "output_tput_per_gpu": 95.0},
    }  # fmt: skip
    point = one(row)
    assert point.gpus == 36 and point.name.startswith("dsr1-fp8-h200-vllm/1k1k/1xTP4+4xTP8/")
    inside, out, total = (point.value(f"throughput_per_gpu.{part}") for part in ("input", "output", "total"))
    assert inside == pytest.approx(760 * 4 / 36) and out == pytest.approx(95 * 32 / 36)
    assert inside is not None and out is not None and inside + out == pytest.approx(total)
    wrong = one({**row, "num_decode_gpu": 7, "decode_num_workers": 1})
    missing = wrong.measures["throughput_per_gpu.output"]
    assert missing.value is None and "do not fit its GPU counts" in str(missing.reason)
    assert wrong.value("throughput_per_gpu.total") == pytest.approx(total)


def test_trap_3_pools_without_workers_state_the_whole_in_both_halves() -> None:
    share = 4 / 36
    total = 146.0 * share + 18.0 * (1 - share)
    values = {"tput_per_gpu": total, "input_tput_per_gpu": 146.0, "output_tput_per_gpu": 18.0}
    point = one(
        {**with_metrics(**values), "disagg": True, "num_prefill_gpu": 36, "num_decode_gpu": 36, "decode_tp": 36}
    )
    assert point.gpus == 36 and point.value("throughput_per_gpu.output") == pytest.approx(18 * 32 / 36)


CSV = """Model,ISL,OSL,Hardware,Framework,Precision,TP,Concurrency,Date,Throughput/GPU (tok/s),\
Median TTFT (ms),Median TPOT (ms),Median Interactivity (tok/s/user),Notes
dsr1,1024,1024,H200,vLLM,FP8,8,16,2026-01-02,300.5,0.2,0.01,100,x
dsr1,1024,1024,H200,vLLM,FP8,8,32,2026-01-02,,0.4,0.02,50,
"""


def imported(path: Path) -> Imported:
    importer, bundle = find(path)
    return importer.read(bundle, False)


def test_trap_4_the_dashboards_ms_columns_hold_seconds(tmp_path: Path) -> None:
    file = tmp_path / "export.csv"
    file.write_text(CSV)
    found = imported(file)
    assert found.format == "inferencex-csv"
    first, second = (item.point for item in found.runs[0].points)
    assert first.value("ttft.p50") == 0.2 and first.value("itl.p50") == 0.01 and first.gpus == 8
    assert second.measures["throughput_per_gpu.total"].value is None, "an empty cell is missing, not 0"
    assert [left.name for left in found.unmapped] == ["Notes"]
    file.write_text(CSV.replace(",0.2,0.01,", ",200,10,").replace(",0.4,0.02,", ",400,20,"))
    assert imported(file).runs[0].points[0].point.value("ttft.p50") == 0.2, "a file in true ms is told by its speeds"


def test_a_table_in_the_interfaces_own_names_keeps_layouts_units_and_repeats(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    head = "hardware,framework,model,precision,isl,osl,decode_tp,decode_ep,decode_dp_attention,conc"
    file.write_text(
        f"""{head},median_tpot_s,p99_ttft_ms,tput_per_gpu
h200,vllm,dsr1,fp8,1024,1024,8,8,True,16,0.010,200,300
h200,vllm,dsr1,fp8,1024,1024,8,8,False,16,0.020,,200
h200,vllm,dsr1,fp8,1024,1024,8,8,False,16,0.021,,190
h200,vllm,dsr1,fp8,1024,1024,8,8,False,16,0.021,,190
h200,vllm,dsr1,fp8,1024,1024,8,8,False,32,,,
"""
    )
    found = imported(file)
    (run,) = found.runs
    told = [(item.point.name.split("/")[-2], item.repeat, item.point.value("itl.p50")) for item in run.points]
    assert told == [("DP8EP8", 1, 0.01), ("TP8EP8", 1, 0.02), ("TP8EP8", 2, 0.021)], "another row is a repeat"
    assert run.points[0].point.value("ttft.p99") == 0.2 and run.name == "points.csv"
    assert len({item.point.id for item in run.points}) == 3
    assert [left.name for left in found.unmapped] == ["a row"], "a row without a value is no point"


def test_trap_5_percentiles_of_interactivity_are_the_slow_tail() -> None:
    point = one(ROW)
    assert (point.value("interactivity.p90"), point.value("interactivity.p50")) == (50, 100)
    turned = one(with_metrics(p90_intvty=140.0))
    assert turned.value("interactivity.p90") == 50, "where the time is known the speed follows from it"


def test_trap_6_the_deviation_of_interactivity_is_left_out() -> None:
    notes = Notes()
    point = one(ROW, notes)
    assert "interactivity.std" not in point.measures
    assert [(left.name, left.count) for left in notes.all()] == [("std_intvty", 1)]


def test_trap_7_ids_are_text_or_numbers_and_decide_nothing() -> None:
    assert one({**ROW, "id": 5}).id == one({**ROW, "id": "5"}).id == one({**ROW, "id": 6}).id == one(ROW).id
    evaluation: dict[str, Any] = {
        **ROW, "task": "gsm8k", "timestamp": "2026-01-02T00:00:00Z", "metrics": {"em_strict": 0.9, "em_strict_se": 0.01}
    }  # fmt: skip
    assert evaluation_of({**evaluation, "id": "1"}) == evaluation_of({**evaluation, "id": 1})
    assert evaluation_of(evaluation).score == 0.9


def test_trap_8_early_rows_lack_fields() -> None:
    early = {key: value for key, value in ROW.items() if key != "image"}
    point = one(early)
    assert point.facts["scenario"] == "fixed-seq-len" and "image" not in point.facts
    assert point.run_key == one(ROW).run_key, "the same row, served with and without its image"
    agentic = one({**ROW, "isl": None, "osl": None, "benchmark_type": "agentic_traces", "offload_mode": "on"})
    assert agentic.facts["scenario"] == "agentic-coding" and agentic.line.endswith("TP8~offload-on")
    assert one({**early, "offload_mode": "off"}).line == point.line


def test_trap_9_mean_and_median_of_the_wait_never_stand_for_each_other() -> None:
    point = one(with_metrics(mean_ttft=102.0, median_ttft=1.1))
    assert point.value("ttft.mean") == 102 and point.value("ttft.p50") == 1.1
    assert [caution.code for caution in point.cautions] == ["overloaded"]
    lone = one({**ROW, "metrics": {"mean_ttft": 102.0, "tput_per_gpu": 1.0}})
    assert lone.value("ttft.p50") is None and not lone.cautions


def test_the_given_aggregate() -> None:
    found = imported(golden("results/agg_json"))
    (item,) = found.runs[0].points
    row = json.loads(next(golden("results/agg_json").glob("*.json")).read_text())
    point, metrics = item.point, row["request_metrics"]
    assert point.value("ttft.p50") == metrics["latency"]["ttft"]["p50"]
    assert point.value("ttft.mean") == metrics["latency"]["ttft"]["mean"]
    assert point.value("throughput_per_gpu.output") == metrics["throughput"]["per_gpu"]["output_tput_tps"]
    assert point.value("power.total_gpu_energy_j") == row["total_gpu_energy_j"]
    assert "withheld" not in str(point.measures["ttft.p90"].reason) and point.gpus == row["num_gpus"]
    assert "overloaded" in [caution.code for caution in point.cautions]


def test_our_own_rows_come_back_as_the_point_they_were_made_of(tmp_path: Path) -> None:
    from tests.results.builders import S, cell, record, replay

    from ridgeline.core.point import Source
    from ridgeline.results.aggregate import aggregate
    from ridgeline.results.export.agentic import agentic_row
    from ridgeline.results.export.inferencex import row_of_point

    made = replay([record(i, i * S) for i in range(60)])
    fixed = aggregate(made, cell=cell(4, "fixed-seq-len"), source=Source.MEASURED, run_key="k", withhold=False)
    (tmp_path / "agg_f.json").write_text(json.dumps(row_of_point(fixed, cell(4, "fixed-seq-len"))))
    (tmp_path / "agg_a.json").write_text(json.dumps(agentic_row(made, cell(4))))
    points = {item.point.facts["scenario"]: item.point for item in imported(tmp_path).runs[0].points}
    agentic = points["agentic-coding"]
    for name in ("ttft.p50", "itl.p50", "icl.p50", "e2e_latency.p50", "interactivity.p50", "throughput_per_gpu.total"):
        assert points["fixed-seq-len"].value(name) == pytest.approx(fixed.value(name)), name
        if not name.startswith("icl"):
            assert agentic.value(name) == pytest.approx(fixed.value(name), rel=1e-3), name


def artifacts(root: Path) -> Path:
    """A folder of run artifacts as downloaded: one row in its own folder and in the collection, a retry, power."""
    from tests.results.export.test_inferencex import ENV, RESULT

    from ridgeline.results.export.inferencex import fixed_row

    folder = root / "artifacts_987654321"
    start = {"benchmark_start_time_unix": 1000.0, "benchmark_end_time_unix": 1010.0, "duration": 10.0, "completed": 10}
    result = {**RESULT, **start, "total_input_tokens": 7000, "total_output_tokens": 700}
    first = fixed_row(result, ENV)
    log = "timestamp, index, power.draw [W]\n" + "".join(
        f"{990 + t}, {g}, 700 W\n" for t in range(31) for g in range(6)
    )
    for place, text in {
        "bmk_x/agg_x.json": json.dumps(first),
        "bmk_x/x.json": json.dumps(result),
        "gpu_metrics_x/gpu_metrics.csv": log,
        "results_bmk/agg_bmk.json": json.dumps([first, {**first, "conc": 16}]),
        "bmk_y_attempt2/agg_y.json": json.dumps({**first, "conc": 16, "tput_per_gpu": 44.0}),
        "server_logs_x/engine.json": json.dumps({"lines": []}),
        "eval_x/meta_env.json": json.dumps({"infmax_model_prefix": "m", "hw": "B200", "framework": "SGLang"}),
        # what an evaluation says of itself looks like a row, and is none
        "eval_y/meta_env.json": json.dumps({**first, "conc": 32}),
        "eval_results_all/agg_eval.json": json.dumps([{**first, "conc": 32, "task": "gsm8k", "score": 0.95}]),
        "eval_x/results_1.json": json.dumps({
            "lm_eval_version": "1",
            "results": {"gsm8k": {"exact_match,strict-match": 0.95, "exact_match_stderr,strict-match": 0.01,
                                  "exact_match,flexible-extract": 0.99},
                        "other": {"exact_match,flexible-extract": 0.5}},
        }),
    }.items():  # fmt: skip
        file = folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def test_a_whole_folder_of_artifacts(tmp_path: Path) -> None:
    found = imported(artifacts(tmp_path))
    (run,) = found.runs
    assert run.key == "987654321" and found.format == "inferencex-artifacts"
    by = {(item.point.concurrency, item.point.attempt): item for item in run.points}
    assert sorted(by) == [(8, 1), (16, 1), (16, 2)], "a row in two places counts once; a retry is a later attempt"
    assert by[16, 1].point.run_key == by[16, 2].point.run_key and by[16, 2].repeat == by[16, 1].repeat == 1
    assert by[8, 1].point.value("power.avg_power_w") == 700 and by[8, 1].documents["power"]["power_valid"]
    assert by[8, 1].point.measured_at == "1970-01-01T00:16:40+00:00"
    scores = {item.task: (item.score, item.stderr) for item in run.evaluations}
    assert scores == {"gsm8k": (0.95, 0.01), "other": (None, None)}, "a flexible match alone gives no score"
    assert {"server_logs"} <= {left.name for left in found.unmapped}


def test_golden_rows_come_in(tmp_path: Path) -> None:
    cases = [case for case in json.loads(golden("golden/results/cases.json").read_text())["cases"] if not case["rc"]]
    for case in cases:
        file = tmp_path / f"agg_{case['name']}.json"
        file.write_text(json.dumps(case["row"]))
        (item,) = imported(file).runs[0].points
        row, point = case["row"], item.point
        assert point.value("throughput_per_gpu.total") == row["tput_per_gpu"], case["name"]
        assert point.concurrency == row["conc"] and point.value("ttft.mean") == row.get("mean_ttft")
        if "num_prefill_gpu" in row:
            assert point.gpus == row["num_prefill_gpu"] + row["num_decode_gpu"]
        else:
            assert point.gpus == row["tp"] * row["pp"] * row["pcp_size"]
        parts = [point.value(f"throughput_per_gpu.{part}") for part in ("input", "output")]
        if row.get("num_decode_gpu", 1):
            assert sum(part or 0 for part in parts) == pytest.approx(row["tput_per_gpu"]), case["name"]
