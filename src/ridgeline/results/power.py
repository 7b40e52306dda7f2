"""Energy of a fixed-sequence run: GPU power samples integrated over the measured window only.

In: the text of a power log (CSV) and the benchmark's own result (window and counts). Out: metrics when everything
holds, reason codes when anything does not, and the sidecar document InferenceX stores beside a row. The whole
recording is never integrated: idle minutes around the load would halve the power.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from ridgeline.core.point import Measure, Point
from ridgeline.core.record import Replay
from ridgeline.results.sweepline import Floats

SCHEMA_VERSION = 2  # of the power metrics in a row
SIDECAR_VERSION = 1
METHOD = "per_device_trapezoidal_with_linear_boundary_interpolation"
MAX_GAP_S = 3.0  # between samples; also how far outside the window a row still counts
MIN_SAMPLES = 2
_ID_NAMES = ("index", "gpu", "gpu_id", "gpu_index", "card", "device")
_NOT_POWER = ("limit", "cap", "max", "min")


class Window(NamedTuple):
    """The benchmark's window in epoch seconds, and what it says of itself."""

    start: float
    end: float
    duration: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Power:
    """`metrics` is empty when `reasons` is not. `sidecar`: the document stored beside the row."""

    reasons: tuple[str, ...]
    metrics: Mapping[str, float]
    sidecar: Mapping[str, Any]

    @property
    def valid(self) -> bool:
        return not self.reasons

    @property
    def fields(self) -> dict[str, Any]:
        """What a row gets: schema version, 1 or 0, and the metrics when valid."""
        return {"power_metric_schema_version": SCHEMA_VERSION, "power_valid": int(self.valid), **self.metrics}

    @property
    def measures(self) -> dict[str, Measure]:
        """The same as measures of a point."""
        reason = ", ".join(self.reasons)
        return {
            f"power.{name}": Measure(self.metrics.get(name), unit, reason=None if self.valid else reason)
            for name, unit in UNITS.items()
        }


UNITS = {
    "avg_power_w": "W/GPU",
    "avg_total_gpu_power_w": "W",
    "total_gpu_energy_j": "J",
    "joules_per_successful_query": "J/req",
    "joules_per_input_token": "J/tok",
    "joules_per_output_token": "J/tok",
    "joules_per_total_token": "J/tok",
}


@dataclass
class _Log:
    """Samples of every device inside the kept stretch, and what was wrong with the log."""

    devices: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


def integrate(log: str | None, result: Mapping[str, Any], expected_gpus: int) -> Power:
    """Energy of all GPUs over the result's window.

    `log`: CSV text, None when there is no file. `result` needs benchmark_start_time_unix, benchmark_end_time_unix,
    duration, completed, total_input_tokens, total_output_tokens. Source of rules and codes: InferenceX's single-node
    power aggregation.
    """
    window = _window(result)
    if window is None:
        return _answer(["invalid_benchmark_window"], None, result, expected_gpus, {}, {}, {}, {})
    reasons = []
    if abs(window.duration - window.seconds) > max(0.5, 0.01 * window.duration):
        reasons.append("benchmark_duration_mismatch")
    for name, code in (
        ("completed", "invalid_successful_query_count"),
        ("total_input_tokens", "invalid_input_token_count"),
        ("total_output_tokens", "invalid_output_token_count"),
    ):
        count = result.get(name)
        if not isinstance(count, int) or isinstance(count, bool) or count <= 0:
            reasons.append(code)
    if expected_gpus <= 0:
        reasons.append("invalid_expected_gpu_count")
    found = read_log(log, window)
    reasons += found.reasons
    if found.devices and len(found.devices) != expected_gpus:
        reasons.append("expected_gpu_count_mismatch")
    energy: dict[str, float] = {}
    gaps: dict[str, float] = {}
    issues: dict[str, list[str]] = {}
    for name, (at, watts) in found.devices.items():
        problem = _problems(at, window)
        if len(at) >= MIN_SAMPLES:
            gaps[name] = round(_largest_gap(at, window), 6)
        if not {"insufficient_power_samples", "benchmark_window_not_bracketed"} & set(problem):
            energy[name] = _trapezoid(at, watts, window)
        if problem:
            issues[name] = problem
        reasons += [code for code in problem if code not in reasons]
    counts = {name: len(at) for name, (at, _) in found.devices.items()}
    return _answer(reasons, window, result, expected_gpus, counts, gaps, energy, issues)


def energy_of(log: str | None, replay: Replay, point: Point, gpus: int) -> Power:
    """Energy over a replay's measured window, whose counts are those of its point."""
    start, end = replay.phases.profiling_start_ns, replay.phases.drained_ns or replay.phases.profiling_end_ns
    origin = replay.settings.get("origin_unix_ns")
    window: dict[str, float] = {}
    if start is not None and end is not None and isinstance(origin, int):
        window = {
            "benchmark_start_time_unix": (origin + start) / 1e9,
            "benchmark_end_time_unix": (origin + end) / 1e9,
            "duration": (end - start) / 1e9,
        }
    counts = {
        "completed": "requests.good",
        "total_input_tokens": "tokens.input",
        "total_output_tokens": "tokens.output",
    }
    found = {name: point.value(measure) for name, measure in counts.items()}
    totals = {name: None if value is None else round(value) for name, value in found.items()}
    return integrate(log, window | totals, gpus)


def read_log(log: str | None, window: Window) -> _Log:
    """Samples per device within `MAX_GAP_S` of the window, equal times averaged. A last line without a line end was
    being written when the recorder stopped, and is dropped."""
    if log is None:
        return _Log(reasons=["telemetry_file_missing"])
    lines = log.splitlines()
    if lines and not log.endswith(("\n", "\r")):
        lines.pop()
    rows = [row for row in csv.reader(lines) if any(cell.strip() for cell in row)]
    if len(rows) < 2:
        return _Log(reasons=["telemetry_file_empty"])
    header = [cell.strip().lower() for cell in rows[0]]
    time_at = next((i for i, name in enumerate(header) if "time" in name), None)
    power_at = next(
        (i for i, name in enumerate(header) if "power" in name and not any(word in name for word in _NOT_POWER)), None
    )
    id_at = next((i for i, name in enumerate(header) if name in _ID_NAMES), None)
    columns = ((time_at, "timestamp"), (power_at, "power"), (id_at, "gpu_identity"))
    missing = [f"{name}_column_missing" for at, name in columns if at is None]
    if missing or time_at is None or power_at is None or id_at is None:
        return _Log(reasons=missing)
    return _samples(rows[1:], (time_at, power_at, id_at), window)


def _samples(rows: list[list[str]], columns: tuple[int, int, int], window: Window) -> _Log:
    found: dict[str, dict[float, list[float]]] = {}
    reasons: list[str] = []
    for row in rows:
        time_text, power_text, name = (row[i].strip() if i < len(row) else "" for i in columns)
        at = _timestamp(time_text)
        if at is None:
            reasons.append("invalid_timestamp_sample")
            continue
        if not window.start - MAX_GAP_S <= at <= window.end + MAX_GAP_S:
            continue
        watts = _watts(power_text)
        if watts is None:
            reasons.append("invalid_power_sample")
        elif not name:
            reasons.append("gpu_identity_missing")
        else:
            found.setdefault(name, {}).setdefault(at, []).append(watts)
    if not found and not reasons:
        reasons.append("no_usable_power_samples")
    names = sorted(found, key=lambda name: (0, int(name), "") if name.isdigit() else (1, 0, name))
    devices = {}
    for name in names:
        times = sorted(found[name])
        devices[name] = (np.array(times), np.array([float(np.mean(found[name][at])) for at in times]))
    return _Log(devices, list(dict.fromkeys(reasons)))


def _problems(at: Floats, window: Window) -> list[str]:
    if len(at) < MIN_SAMPLES:
        return ["insufficient_power_samples"]
    problems = []
    if at[0] > window.start or at[-1] < window.end:
        problems.append("benchmark_window_not_bracketed")
    if _largest_gap(at, window) > MAX_GAP_S:
        problems.append("sampling_gap_exceeded")
    return problems


def _largest_gap(at: Floats, window: Window) -> float:
    """Longest time between two neighbouring samples whose interval touches the window."""
    touches = (at[:-1] < window.end) & (at[1:] > window.start)
    gaps = np.diff(at)[touches]
    return float(gaps.max()) if len(gaps) else 0.0


def _trapezoid(at: Floats, watts: Floats, window: Window) -> float:
    """Joules over the window: power linear between samples, cut at both borders."""
    inside = (at > window.start) & (at < window.end)
    times = np.concatenate(([window.start], at[inside], [window.end]))
    return float(np.trapezoid(np.interp(times, at, watts), times))


def _window(result: Mapping[str, Any]) -> Window | None:
    names = ("benchmark_start_time_unix", "benchmark_end_time_unix", "duration")
    values = [result.get(name) for name in names]
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in values):
        return None
    window = Window(*(float(value) for value in values if value is not None))
    fine = all(map(math.isfinite, window)) and window.end > window.start and window.duration > 0
    return window if fine else None


def _timestamp(text: str) -> float | None:
    """Epoch seconds of an epoch number (milliseconds above 1e12), nvidia-smi's slashes, or ISO (naive: local)."""
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        return (number / 1000 if number > 1e12 else number) if math.isfinite(number) else None
    try:
        return datetime.fromisoformat(text.replace("/", "-")).timestamp()
    except ValueError:
        return None


def _watts(text: str) -> float | None:
    try:
        value = float(text.removesuffix("W").strip())
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _answer(
    reasons: list[str],
    window: Window | None,
    result: Mapping[str, Any],
    expected: int,
    counts: Mapping[str, int],
    gaps: Mapping[str, float],
    energy: Mapping[str, float],
    issues: Mapping[str, list[str]],
) -> Power:
    metrics = _metrics(sum(energy.values()), window, result, expected) if window and not reasons else {}
    sidecar = {
        "schema_version": SIDECAR_VERSION,
        "power_valid": not reasons,
        "reasons": list(dict.fromkeys(reasons)),
        "benchmark_window": window
        and {
            "start_time_unix": window.start,
            "end_time_unix": window.end,
            "reported_duration_s": window.duration,
            "integration_duration_s": window.seconds,
            "completed": result.get("completed"),
            "total_input_tokens": result.get("total_input_tokens"),
            "total_output_tokens": result.get("total_output_tokens"),
        },
        "integration_method": METHOD,
        "expected_gpu_count": expected,
        "observed_gpu_count": len(counts),
        "observed_gpu_ids": list(counts),
        "per_gpu_sample_counts": dict(counts),
        "per_gpu_max_sample_gap_s": dict(gaps),
        "per_gpu_energy_j": {name: round(value, 6) for name, value in energy.items()},
        "device_issues": dict(issues),
        "accumulator_check": None,
        "metrics": metrics,
    }
    return Power(tuple(dict.fromkeys(reasons)), metrics, sidecar)


def _metrics(joules: float, window: Window, result: Mapping[str, Any], gpus: int) -> dict[str, float]:
    watts = joules / window.seconds
    tokens_in, tokens_out = result["total_input_tokens"], result["total_output_tokens"]
    found = {
        "avg_power_w": watts / gpus,
        "avg_total_gpu_power_w": watts,
        "total_gpu_energy_j": joules,
        "joules_per_successful_query": joules / result["completed"],
        "joules_per_input_token": joules / tokens_in,
        "joules_per_output_token": joules / tokens_out,
        "joules_per_total_token": joules / (tokens_in + tokens_out),
    }
    return {name: round(value, 3 if name.endswith(("_w", "_j")) else 6) for name, value in found.items()}
