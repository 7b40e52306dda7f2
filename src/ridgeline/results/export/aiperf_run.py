"""How a run was asked for, in AIPerf's words: `benchmark_id`, `input_config`, `run_info`, `branch_stats`.

In: a replay's settings, as `ridgeline replay` stores them. Out: what both JSON exports carry beside their figures. The
config names what was sent, where, and how; its keys and spellings are those that AIPerf's own reader accepts, which
refuses others. There is no `aiperf_version`, because no AIPerf made the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ridgeline.core.units import SECOND

_FORMATS = {
    "weka": "weka_trace",
    "mooncake": "mooncake_trace",
    "bailian": "bailian_trace",
    "burstgpt": "burst_gpt_trace",
    "single-turn": "single_turn",
    "multi-turn": "multi_turn",
}


def of_run(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in both documents."""
    pacing = settings.get("pacing") or {}
    found: dict[str, Any] = {
        "benchmark_id": pacing.get("benchmark_id") or pacing.get("run_id"),
        "input_config": _config(settings, pacing),
    }
    return {name: value for name, value in found.items() if value is not None}


def of_summary(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same, and what only the summary has."""
    pacing, found = settings.get("pacing") or {}, of_run(settings)
    about = {
        "benchmark_id": found.get("benchmark_id"),
        "random_seed": pacing.get("seed"),
        "trial": 0,
        "cli_command": settings.get("command"),
    }
    found["run_info"] = {name: value for name, value in about.items() if value is not None}
    if settings.get("branches"):
        found["branch_stats"] = dict(settings["branches"])
    return found


def _config(settings: Mapping[str, Any], pacing: Mapping[str, Any]) -> dict[str, Any] | None:
    """None of settings that name no endpoint: not those of a replay."""
    endpoint = settings.get("endpoint")
    if not isinstance(endpoint, Mapping):
        return None
    return {
        "models": {"items": [{"name": settings.get("model") or endpoint.get("model") or "unknown"}]},
        "endpoint": {
            "urls": [endpoint.get("url")],
            "type": "completions" if settings.get("prompt_mode") == "token-ids" else "chat",
            "streaming": True,
            "use_server_token_count": True,
        },
        "datasets": [_dataset(settings.get("trace") or {}, pacing)],
        "phases": [_phase(pacing)],
    }


def _dataset(trace: Mapping[str, Any], pacing: Mapping[str, Any]) -> dict[str, Any]:
    seed = {"random_seed": pacing["seed"]} if "seed" in pacing else {}
    if "isl" in trace:
        lengths = {name: {"mean": trace[name]} for name in ("isl", "osl")}
        return {"name": "main", "type": "synthetic", "prompts": lengths, **seed}
    kind = _FORMATS.get(str(trace.get("format")))
    return {"name": "main", "type": "file", "path": trace.get("source"), **({"format": kind} if kind else {}), **seed}


def _phase(pacing: Mapping[str, Any]) -> dict[str, Any]:
    """The measured phase: recorded lanes, a closed loop, arrivals at a rate or by a trace's schedule."""

    def seconds(name: str) -> float | None:
        return None if pacing.get(name) is None else pacing[name] / SECOND

    agentic, rate = "start_min_ratio" in pacing, pacing.get("requests_per_second")
    lanes = pacing.get("max_in_flight") if rate is not None else pacing.get("concurrency")
    duration = seconds("duration_ns")
    found: dict[str, Any] = {
        "name": "profiling",
        "kind": "profiling",
        "type": "concurrency" if lanes is not None or rate is not None else "fixed_schedule",
        "duration": duration,
        "requests": pacing.get("max_requests") if agentic else pacing.get("requests"),
        "concurrency": lanes,
        "grace_period": None if duration is None else seconds("grace_ns"),  # its reader allows none without an end
        "failed_request_threshold": pacing.get("failure_threshold"),
    }
    if rate is not None and math.isfinite(float(rate)):
        found |= {"type": pacing.get("arrivals"), "rate": float(rate)}
        found["smoothness"] = pacing.get("burstiness") if pacing.get("arrivals") == "gamma" else None
    elif rate is not None:  # all at once
        found["concurrency"] = lanes if lanes is not None else pacing.get("requests")
    if agentic:
        found |= {
            "timing_mode": "agentic_replay",
            "trajectory_start_min_ratio": pacing.get("start_min_ratio"),
            "trajectory_start_max_ratio": pacing.get("start_max_ratio"),
            "system_idle_gap_cap_seconds": seconds("system_idle_cap_ns"),
            "agentic_warmup_grace_period": seconds("warmup_grace_ns"),
        }
        if pacing.get("profile") == "agentx":
            found["warmup_requests_per_lane"] = pacing.get("warmup_requests_per_lane") or None
    return {name: value for name, value in found.items() if value is not None}
