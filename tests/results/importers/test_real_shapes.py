"""What current versions of the load generators write comes over whole, and says what does not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.results.builders import S, record, replay
from tests.results.importers import real_shapes as shapes
from tests.results.importers.test_inferencex import artifacts
from tests.results.importers.test_inferencex import imported as imported_artifacts
from tests.results.importers.test_tools import WALL, export, imported

from ridgeline.core.errors import InputError
from ridgeline.results.importers.measures import Spread, spread, statistic


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("avg", "mean"), ("median", "p50"), ("std_dev", "std"), ("p05", "p5"), ("p999", "p99.9"), ("p001", None),
     ("p99.9", "p99.9"), ("p90", "p90"), ("mode", None), ("count", None), ("variance", None)],
)  # fmt: skip
def test_names_of_statistics(theirs: str, ours: str | None) -> None:
    assert statistic(theirs) == ours


def test_a_speed_is_one_over_the_time_and_its_ends_change_places() -> None:
    found = spread({"min": 5.0, "max": 20.0, "p90": 16.0, "std": 3.0}, Spread("itl", factor=1e-3, speed="fast"), 9)
    assert {name: measure.value for name, measure in found.items()} == {
        "itl.min": 0.005, "itl.max": 0.02, "itl.p90": 0.016, "itl.std": 0.003,
        "fast.max": 200.0, "fast.min": 50.0, "fast.p90": 62.5,
    }  # fmt: skip
    assert {measure.n for measure in found.values()} == {9}


def test_guidellm_of_today(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text(json.dumps(shapes.guidellm_report()))
    found = imported(tmp_path / "out.json", gpus="2")
    (run,) = found.runs
    first, second = (item.point for item in run.points)
    assert first.name == "tiny/1000_100/TP2/c4" and second.concurrency == 8 and first.facts["model"] == "acme/tiny"
    assert first.facts["tool_version"] == "0.8.1" and first.measured_at == "2026-05-28T20:26:40+00:00"
    assert first.value("ttft.p90") == pytest.approx(0.3) and first.value("ttft_visible.p50") == pytest.approx(0.3)
    assert first.measures["itl.p50"].n == 60, "their count is tokens; the samples are the requests"
    assert "withheld: p99.9 needs 5000 samples, there are 60" in str(first.measures["itl.p99.9"].reason)
    assert first.value("throughput_per_gpu.total") == 1100 and first.value("request_rate") == 2.0
    assert {left.name for left in found.unmapped} == {"requests", "avg_round_trip_time_ms"}, "empty parts are no loss"
    ids = {item.point.id for item in run.points}
    (tmp_path / "moved.json").write_text(json.dumps(shapes.guidellm_report()))
    assert {item.point.id for item in imported(tmp_path / "moved.json", gpus="2").runs[0].points} == ids


def test_inference_perf_of_today(tmp_path: Path) -> None:
    found = imported(shapes.inference_perf_folder(tmp_path), gpus="2")
    first, second = (item.point for item in found.runs[0].points)
    assert first.name == "tiny-vllm/1000_100/TP2/c4" and second.concurrency == 8
    assert first.measured_at == "2026-01-02T03:04:00+00:00" and found.runs[0].started_at == first.measured_at
    assert first.value("input_tokens.p50") == 1000 and first.value("usage_cache_hit") == 0.25
    assert first.value("itl.p90") == pytest.approx(0.015) and first.value("duration") == 30.0
    assert not first.cautions and first.validity == "valid"
    assert {left.name for left in found.unmapped} == {
        "summary_lifecycle_metrics.json", "per_request_lifecycle_metrics.json", "validation.json",
    }  # fmt: skip


def test_inference_perf_says_when_client_and_server_count_differently(tmp_path: Path) -> None:
    folder = shapes.inference_perf_folder(tmp_path, client=400.0, server=100.0)
    (caution,) = imported(folder).runs[0].points[0].point.cautions
    assert caution.code == "token-counts" and "counted 400 tokens an answer, the server 100" in caution.message


def aiperf_folder(folder: Path, *, requests: bool = True, lines: bool = True, document: bool = True) -> Path:
    made = replay([record(i, i * S) for i in range(60)])
    export(folder, made)
    about = json.loads((folder / "profile_export_aiperf.json").read_text())
    about |= {"input_config": shapes.INPUT_CONFIG, "aiperf_version": "0.13.0"}
    (folder / "profile_export_aiperf.json").write_text(json.dumps(about))
    start, end = WALL, WALL + 59 * S
    if not requests:
        (folder / "profile_export.jsonl").unlink()
    if document:
        (folder / "server_metrics_export.json").write_text(json.dumps(shapes.server_document(start, end)))
    if lines:
        (folder / "server_metrics_export.jsonl").write_text(shapes.server_lines(start, end))
    return folder


SERVER = {
    "server_cache_hit": 0.25, "preemptions": 2.0, "kv_usage.mean": 0.4, "kv_usage.peak": 0.6, "queue_depth.peak": 4.0,
    "server_ttft.p50": 0.1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("requests", "lines", "document"),
    [(True, True, True), (True, True, False), (True, False, True), (False, False, True)],
)
def test_what_aiperf_saw_of_the_servers(tmp_path: Path, requests: bool, lines: bool, document: bool) -> None:
    folder = aiperf_folder(tmp_path / "a", requests=requests, lines=lines, document=document)
    (item,) = imported(folder, gpus="2").runs[0].points
    assert {name: item.point.value(name) for name in SERVER} == pytest.approx(SERVER)
    assert "not-scraped" not in [caution.code for caution in item.point.cautions]
    stored = item.replay.samples if item.replay else ()
    assert len(stored) == (2 if lines else 0), "scrapes are kept as series, statistics are not made up into some"


def test_aiperf_without_server_metrics_says_so(tmp_path: Path) -> None:
    (item,) = imported(aiperf_folder(tmp_path / "a", lines=False, document=False), gpus="2").runs[0].points
    assert item.point.value("server_cache_hit") is None
    assert "not-scraped" in [caution.code for caution in item.point.cautions]


def test_aiperfs_config_names_model_concurrency_and_lengths(tmp_path: Path) -> None:
    (item,) = imported(aiperf_folder(tmp_path / "a"), gpus="2").runs[0].points
    assert item.point.concurrency == 4 and item.point.facts["model"] == "acme/tiny"
    if item.point.facts["scenario"] == "fixed-seq-len":
        assert (item.point.facts["isl"], item.point.facts["osl"]) == (500, 11)


def test_server_logs_are_kept_and_read(tmp_path: Path) -> None:
    folder = artifacts(tmp_path)
    log = (
        "INFO (APIServer) vLLM API server version 0.19.0\n"
        "INFO (EngineCore_DP0 pid=7) Available KV cache memory: 61.50 GiB\n"
        "INFO (EngineCore_DP0 pid=7) GPU KV cache size: 1,000,000 tokens\n"
        "INFO (EngineCore_DP1 pid=8) GPU KV cache size: 900,000 tokens\n"
    )
    (folder / "server_logs_x" / "server.log").write_text(log)
    (folder / "server_logs_y_attempt2").mkdir()
    with gzip.open(folder / "server_logs_y_attempt2" / "server.log.gz", "wt") as file:
        file.write("max_total_num_tokens=500\n")
    points = {(i.point.concurrency, i.point.attempt): i for i in imported_artifacts(folder).runs[0].points}
    first = points[8, 1]
    assert first.found == {"engine_version": "0.19.0", "kv_memory_gib": 61.5, "kv_cache_tokens": 1_900_000}
    assert first.documents["server_logs"]["files"] == ["server_logs_x/server.log"]
    assert first.point.facts["kv_cache_pool_tokens"] == 1_900_000, "summed over the engine cores"
    assert points[16, 2].found == {"kv_cache_tokens": 500} and points[16, 1].found == {}


def test_the_logs_of_a_run_are_kept_by_the_store(tmp_path: Path) -> None:
    from ridgeline.results.store import Store

    folder = artifacts(tmp_path)
    (folder / "server_logs_x" / "server.log").write_text("INFO GPU KV cache size: 5 tokens\n")
    with Store.open(tmp_path / "store") as store:
        store.add_path(folder)
        kept = [path.read_text() for path in store.files.root.rglob("*.log")]
    assert kept == ["INFO GPU KV cache size: 5 tokens\n"]


def test_what_was_emulated_is_never_called_measured(tmp_path: Path) -> None:
    folder = aiperf_folder(tmp_path / "a", lines=False)
    about = json.loads((folder / "server_metrics_export.json").read_text())
    assert imported(folder).runs[0].points[0].point.source == "measured"
    about["metrics"]["ridgeline:emulator_speed"] = {"type": "gauge", "series": []}
    (folder / "server_metrics_export.json").write_text(json.dumps(about))
    point = imported(folder).runs[0].points[0].point
    assert point.source == "emulated" and point.series.endswith("/emulated"), "its page says so"
    (tmp_path / "g.json").write_text(json.dumps(shapes.guidellm_report()))
    assert imported(tmp_path / "g.json", source="emulated").runs[0].points[0].point.source == "emulated"
    with pytest.raises(InputError, match="is no source: dreamt"):
        imported(tmp_path / "g.json", source="dreamt")
