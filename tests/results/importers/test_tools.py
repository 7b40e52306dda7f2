"""AIPerf, vllm bench, guidellm, inference-perf and our own folders: what comes over, what does not, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.golden import golden
from tests.results.builders import MS, S, cell, deployment, failed, record, replay

from ridgeline.core.errors import InputError
from ridgeline.core.point import Source
from ridgeline.core.record import Outcome
from ridgeline.results.aggregate import aggregate
from ridgeline.results.export import aiperf as aiperf_export
from ridgeline.results.export import aiperf_rows
from ridgeline.results.importers import FORMATS, find
from ridgeline.results.importers.api import Imported
from ridgeline.results.runfolder import RunFolder, RunHeader

WALL = 1_750_000_000 * S


def imported(path: Path, **told: str) -> Imported:
    importer, bundle = find(path, told=told)
    found = importer.read(bundle, False)
    assert importer.read(bundle, False) == found, "reading twice gives equal values"
    return found


def test_every_format_has_an_importer_of_its_name() -> None:
    from ridgeline.results.importers import importer

    assert [importer(name).name for name in FORMATS] == list(FORMATS)
    with pytest.raises(InputError, match="unknown format `x`"):
        importer("x")


def test_what_nobody_recognises(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1}')
    for path in (tmp_path, tmp_path / "a.json"):
        with pytest.raises(InputError, match="not recognised by any importer"):
            find(path)
    with pytest.raises(InputError, match="no such file or folder"):
        find(tmp_path / "nothing")
    with pytest.raises(InputError, match="`colour`: is nothing an import can be told"):
        find(tmp_path, told={"colour": "red"})


def export(folder: Path, made: Any, concurrency: int = 4) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "profile_export.jsonl").open("wb") as file:
        file.writelines(aiperf_rows.jsonl(made, WALL))
    about = aiperf_export.summary(made, WALL)
    about["input_config"] = {"loadgen": {"concurrency": concurrency}, "endpoint": {"model_names": ["acme/tiny"]}}
    (folder / "profile_export_aiperf.json").write_text(json.dumps(about))


def test_aiperf_requests_give_the_point_that_our_own_records_give(tmp_path: Path) -> None:
    short = record(59, 59 * S, max_tokens=17)  # asked for more than came, and its response ended after its last event
    made = replay(
        [*(record(i, i * S) for i in range(59)), short, failed(60, 61 * S), record(61, 62 * S, phase="warmup")]
    )
    export(tmp_path / "a", made)
    rows = (tmp_path / "a" / "profile_export.jsonl").read_text().splitlines()
    early = [json.loads(row) for row in rows]
    for row in early:
        row["metadata"]["request_end_ns"] -= 1000
    (tmp_path / "a" / "profile_export.jsonl").write_text("".join(json.dumps(row) + "\n" for row in early))
    (item,) = imported(tmp_path / "a", gpus="2", hardware="h200", framework="vllm").runs[0].points
    ours = aggregate(made, cell=cell(4), source=Source.MEASURED, run_key="k")
    for name in (
        "ttft.p50", "ttft.p90", "itl.p50", "interactivity.p90", "e2e_latency.p50", "icl.p50", "throughput.output",
        "throughput_per_gpu.total", "error_rate", "output_tokens.p50", "ttft_visible.p50", "usage_cache_hit",
    ):  # fmt: skip
        assert item.point.value(name) == pytest.approx(ours.value(name), rel=1e-6), name
    assert item.point.value("requests.warmup") == 1 and item.point.concurrency == 4
    assert item.replay is not None and len(item.replay.records) == 62
    again = {r.conversation_id + str(r.max_tokens): r for r in item.replay.records if r.outcome is Outcome.OK}
    assert {r.max_tokens for r in again.values()} == {r.max_tokens for r in made.records if r.outcome is Outcome.OK}
    ends = {(r.end_ns or 0) - (r.first_token_ns or 0) for r in made.records if r.outcome is Outcome.OK}
    assert {(r.end_ns or 0) - (r.first_token_ns or 0) for r in again.values()} == ends
    assert {r.outcome for r in item.replay.records} == {Outcome.OK, Outcome.HTTP_ERROR}
    assert item.point.measured_at == "2025-06-15T15:06:40+00:00"


def test_aiperf_without_gpus_and_without_requests(tmp_path: Path) -> None:
    made = replay([record(i, i * S) for i in range(60)])
    export(tmp_path / "a", made)
    (item,) = imported(tmp_path / "a").runs[0].points
    assert item.point.value("throughput_per_gpu.total") is None and item.point.gpus == 0
    assert "--set gpus=N" in str(item.point.measures["throughput_per_gpu.total"].reason)
    (tmp_path / "a" / "profile_export.jsonl").unlink()
    (only,) = imported(tmp_path / "a", gpus="2").runs[0].points
    assert only.replay is None and only.point.value("ttft.p50") == pytest.approx(0.05)
    assert only.point.value("ttft.p99") is None, "withheld: 60 samples do not carry it"
    assert only.point.value("interactivity.p90") == pytest.approx(item.point.value("interactivity.p90"))


def test_aiperf_says_where_a_line_is_damaged(tmp_path: Path) -> None:
    file = tmp_path / "profile_export.jsonl"
    file.write_text('{"metadata": {}, "metrics": {}}\nnot json\n{"no": 1}\n')
    with pytest.raises(InputError) as caught:
        imported(file)
    assert [(p.where.line if p.where else 0) for p in caught.value.problems] == [2, 3]


BENCH: dict[str, Any] = {
    "date": "20260101-101010", "backend": "vllm", "model_id": "acme/Tiny", "num_prompts": 40, "request_rate": "inf",
    "max_concurrency": 4, "duration": 10.0, "completed": 40, "total_input_tokens": 40000, "total_output_tokens": 4000,
    "request_throughput": 4.0, "output_throughput": 400.0, "total_token_throughput": 4400.0, "median_ttft_ms": 200.0,
    "p99_ttft_ms": 900.0, "median_tpot_ms": 10.0, "median_itl_ms": 9.0, "ttfts": [0.1, 0.2], "best_of": 1,
    "benchmark_start_time_unix": 1780000000.0,
}  # fmt: skip


def test_vllm_bench_repeats(tmp_path: Path) -> None:
    for number in range(3):
        data = {**BENCH, "benchmark_start_time_unix": 1780000000.0 + number, "total_input_tokens": 40000 + number}
        (tmp_path / f"r{number}.json").write_text(json.dumps(data))
    found = imported(tmp_path, gpus="2", hardware="h200", precision="fp8")
    (run,) = found.runs
    assert [item.repeat for item in run.points] == [1, 2, 3] and len({item.point.line for item in run.points}) == 1
    point = run.points[0].point
    assert point.value("ttft.p50") == 0.2 and point.value("itl.p50") == 0.01 and point.value("icl.p50") == 0.009
    assert point.value("interactivity.p50") == 100 and point.value("throughput_per_gpu.output") == 200
    assert "withheld: p99 needs 500 samples, there are 40" in str(point.measures["ttft.p99"].reason)
    assert {left.name for left in found.unmapped} == {"ttfts", "best_of"}
    data = {**BENCH, "benchmark_start_time_unix": 1780000009.0}
    (tmp_path / "r3.json").write_text(json.dumps(data))
    assert imported(tmp_path).runs[0].id == run.id, "a repeat added later joins the run"


def test_vllm_bench_with_failures_and_in_seconds(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({**BENCH, "num_prompts": 100}))
    (point,) = (item.point for item in imported(tmp_path / "a.json").runs[0].points)
    assert point.validity == "invalid" and "60 of 100 requests failed" in point.reasons[0]
    seconds = {key: value for key, value in BENCH.items() if not key.endswith("_ms")} | {"median_ttft": 2.5}
    (tmp_path / "b.json").write_text(json.dumps(seconds))
    (point,) = (item.point for item in imported(tmp_path / "b.json").runs[0].points)
    assert point.value("ttft.p50") == 2.5


def test_the_given_benches() -> None:
    five = imported(golden("results/vllm_bench_json"), gpus="1")
    assert [item.repeat for item in five.runs[0].points] == [1, 2, 3, 4, 5]
    many = imported(golden("results/token_position_h200"))
    assert sum(len(run.points) for run in many.runs) > 100


def summary(mean: float, n: int) -> dict[str, Any]:
    return {
        "mean": mean, "median": mean, "std_dev": 0.1 * mean, "min": mean / 2, "max": mean * 2, "count": n,
        "percentiles": {"p50": mean, "p90": 1.5 * mean, "p99": 2 * mean},
    }  # fmt: skip


def guidellm_benchmark(strategy: dict[str, Any], n: int = 60, bad: int = 0) -> dict[str, Any]:
    def split(mean: float) -> dict[str, Any]:
        return {"successful": summary(mean, n), "errored": summary(999.0, bad), "incomplete": summary(999.0, 1)}

    return {
        "id_": json.dumps(strategy), "config": {"strategy": strategy}, "start_time": 1780000000.0, "duration": 30.0,
        "metrics": {
            "request_totals": {"successful": n, "errored": bad, "incomplete": 1, "total": n + bad + 1},
            "requests_per_second": split(2.0), "request_concurrency": split(7.6), "request_latency": split(4.0),
            "prompt_token_count": split(1000.0), "output_token_count": split(100.0),
            "time_to_first_token_ms": split(200.0), "inter_token_latency_ms": split(10.0),
            "time_per_output_token_ms": split(40.0), "output_tokens_per_second": split(200.0),
            "tokens_per_second": split(2200.0), "tool_call_count": split(1.0),
        },
    }  # fmt: skip


def test_guidellm(tmp_path: Path) -> None:
    report = {
        "args": {"model": "acme/tiny"},
        "benchmarks": [
            guidellm_benchmark({"type_": "concurrent", "streams": 4}),
            guidellm_benchmark({"type_": "constant", "rate": 2.0}),
            guidellm_benchmark({"type_": "concurrent", "streams": 8}, bad=20),
        ],
    }
    (tmp_path / "benchmarks.json").write_text(json.dumps(report))
    found = imported(tmp_path, gpus="2")
    points = [item.point for item in found.runs[0].points]
    assert [point.concurrency for point in points] == [4, 8, 8]
    first, rate, bad = points
    assert first.value("ttft.p50") == pytest.approx(0.2) and first.value("itl.p90") == pytest.approx(0.015)
    assert first.value("interactivity.p90") == pytest.approx(1 / 0.015) and first.value("ttft.p99") is None
    assert first.value("e2e_interactivity.p50") == pytest.approx(25), "their time per output token holds the wait"
    assert first.value("throughput_per_gpu.output") == 100 and first.measures["throughput.input"].value is None
    assert rate.facts["requested_rate"] == 2.0 and "reached" in rate.facts["concurrency_is"]
    assert rate.value("request_rate") == 2.0
    assert bad.validity == "invalid" and bad.value("error_rate") == 0.25
    assert [left.name for left in found.unmapped] == ["tool_call_count"]


def test_inference_perf(tmp_path: Path) -> None:
    def block(middle: float) -> dict[str, float]:
        return {
            "mean": middle,
            "min": middle / 2,
            "median": middle,
            "p90": 2 * middle,
            "p99": 3 * middle,
            "max": 4 * middle,
        }

    rates = {"input_tokens_per_sec": 2000.0, "output_tokens_per_sec": 200.0, "total_tokens_per_sec": 2200.0}
    rates["requests_per_sec"] = 1.9
    stage = {
        "load_summary": {"count": 60, "requested_rate": 2.0, "achieved_rate": 1.9},
        "successes": {
            "count": 57,
            "latency": {
                "request_latency": block(4.0), "time_to_first_token": block(0.2), "time_per_output_token": block(0.01),
                "inter_token_latency": block(0.012), "normalized_time_per_output_token": block(0.04), "odd": block(1.0),
            },
            "throughput": rates,
            "prompt_len": block(1000.0), "output_len": block(100.0),
        },
        "failures": {"count": 3},
    }  # fmt: skip
    for number in (0, 1):
        (tmp_path / f"stage_{number}_lifecycle_metrics.json").write_text(json.dumps(stage))
    (tmp_path / "summary_lifecycle_metrics.json").write_text(json.dumps(stage))
    (tmp_path / "config.yaml").write_text("server:\n  type: vllm\n  model_name: acme/tiny\n")
    found = imported(tmp_path, gpus="2")
    first, second = found.runs[0].points
    point = first.point
    assert (first.repeat, second.repeat) == (1, 2), "equal loads in two stages are repeats"
    assert point.facts["framework"] == "vllm" and point.concurrency == round(1.9 * 4.0)
    assert point.value("ttft.p50") == 0.2 and point.value("itl.p50") == 0.01 and point.value("icl.p50") == 0.012
    assert point.value("interactivity.p90") == pytest.approx(50) and point.value("e2e_interactivity.p50") == 25
    assert point.value("throughput_per_gpu.total") == 1100 and point.value("error_rate") == 0.05
    assert point.value("ttft.p99") is None and point.validity == "valid"
    assert {left.name for left in found.unmapped} == {"odd", "summary_lifecycle_metrics.json"}


def test_our_own_folder_while_it_is_written(tmp_path: Path) -> None:
    made = replay([record(i, i * S + MS) for i in range(30)])
    found = aggregate(
        made, cell=cell(4), source=Source.EMULATED, run_key="ab" * 32, provenance={"engine": "x", "trace": "t"}
    )
    with RunFolder.create_or_open(tmp_path / "r", RunHeader(name="r", created_at="2026-01-01T00:00:00+00:00")) as run:
        run.write_cell(cell(4), found, made, deployment(), extra={"evidence": [{"name": "kv"}]})
        run.write_failure(cell(8), "cd" * 32, "start", "no memory")
        (tmp_path / "r" / "cells" / ".unfinished-x").mkdir()
        (tmp_path / "r" / "cells" / ".unfinished-x" / "point.json").write_text("{")
        (read,) = imported(tmp_path / "r").runs
    (item,) = read.points
    assert item.point == found and item.records is not None and item.documents["evidence"] == [{"name": "kv"}]
    assert item.asked["trace"] == "t" and item.found["engine"] == "x" and "env.engine.A" in item.asked
    assert [failure.message for failure in read.failures] == ["no memory"]
    importer, bundle = find(tmp_path / "r")
    (again,) = importer.read(bundle, True).runs
    assert again.points[0].point == found, "derived again from its records it is the same point"
