"""How a run was asked for, in AIPerf's words."""

from __future__ import annotations

from typing import Any

from ridgeline.cli.replay_load import plain
from ridgeline.core.units import SECOND
from ridgeline.results.export.aiperf_run import of_run, of_summary
from ridgeline.trace.pacing import ArrivalSettings, LoopSettings, PacingSettings, ScheduleSettings

ENDPOINT = {"url": "http://h:1", "model": ""}


def phase(settings: Any, **more: Any) -> dict[str, Any]:
    found = of_run({"endpoint": ENDPOINT, "model": "m", "pacing": plain(settings), **more})
    (only,) = found["input_config"]["phases"]
    assert only["kind"] == "profiling" and None not in only.values()
    return dict(only)


def test_lanes_of_recorded_sessions() -> None:
    found = phase(PacingSettings(concurrency=3, benchmark_id="b", duration_ns=60 * SECOND, grace_ns=10 * SECOND))
    assert found["type"] == "concurrency" and found["concurrency"] == 3 and found["timing_mode"] == "agentic_replay"
    assert (found["duration"], found["grace_period"], found["system_idle_gap_cap_seconds"]) == (60, 10, 10)


def test_loops_and_arrivals() -> None:
    closed = phase(LoopSettings(concurrency=4, requests=100, run_id="r"))
    assert (closed["type"], closed["concurrency"], closed["requests"]) == ("concurrency", 4, 100)
    assert "grace_period" not in closed, "there is none without a duration"
    rate = {"concurrency": 1, "requests": 100, "run_id": "r", "requests_per_second": 2.0}
    assert (found := phase(ArrivalSettings(**rate)))["type"] == "poisson" and found["rate"] == 2.0  # type: ignore[arg-type]
    assert "concurrency" not in found, "an open loop has no cap"
    gamma = phase(ArrivalSettings(**rate, arrivals="gamma", burstiness=0.5))  # type: ignore[arg-type]
    assert (gamma["type"], gamma["smoothness"]) == ("gamma", 0.5)
    burst = phase(ArrivalSettings(**{**rate, "requests_per_second": float("inf")}))  # type: ignore[arg-type]
    assert (burst["type"], burst["concurrency"]) == ("concurrency", 100)
    assert phase(ScheduleSettings(benchmark_id="b"))["type"] == "fixed_schedule"


def test_data_sets_model_and_run() -> None:
    settings = {
        "endpoint": ENDPOINT,
        "model": "m",
        "pacing": {"run_id": "r", "seed": 7, "concurrency": 2},
        "trace": {"isl": 100, "osl": 20},
        "command": "ridgeline replay",
    }
    found = of_summary(settings)
    assert found["benchmark_id"] == "r" and "branch_stats" not in found
    assert found["run_info"] == {"benchmark_id": "r", "random_seed": 7, "trial": 0, "cli_command": "ridgeline replay"}
    config = found["input_config"]
    assert config["models"] == {"items": [{"name": "m"}]} and config["endpoint"]["urls"] == ["http://h:1"]
    assert config["datasets"][0]["prompts"] == {"isl": {"mean": 100}, "osl": {"mean": 20}}
    recorded = of_summary({**settings, "trace": {"format": "weka", "source": "t.jsonl"}, "branches": {"x": 1}})
    assert recorded["input_config"]["datasets"][0] == {
        "name": "main", "type": "file", "path": "t.jsonl", "format": "weka_trace", "random_seed": 7,
    }  # fmt: skip
    assert recorded["branch_stats"] == {"x": 1}


def test_a_replay_of_which_nothing_is_stored() -> None:
    assert of_run({}) == {}
