"""Power: only the window counts, and every reason it may be refused for."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from ridgeline.results.power import integrate

RESULT: dict[str, Any] = {
    "benchmark_start_time_unix": 1000.0,
    "benchmark_end_time_unix": 1010.0,
    "duration": 10.0,
    "completed": 10,
    "total_input_tokens": 7000,
    "total_output_tokens": 700,
}


def log(rows: list[tuple[object, object, object]], header: str = "timestamp, index, power.draw [W]") -> str:
    return "\n".join([header, *(f"{t}, {g}, {w}" for t, g, w in rows)]) + "\n"


def idle_then_busy() -> list[tuple[object, object, object]]:
    """1 Hz: 100 W for ten seconds, then 700 W over the window's ten."""
    return [(990 + t, 0, f"{100 if t < 10 else 700}.00 W") for t in range(21)]


def test_only_the_window_is_integrated() -> None:
    power = integrate(log(idle_then_busy()), RESULT, 1)
    assert power.valid and power.metrics["avg_power_w"] == 700 and power.metrics["total_gpu_energy_j"] == 7000
    assert power.metrics["joules_per_output_token"] == 10 and power.metrics["joules_per_total_token"] == 0.909091
    assert power.fields["power_valid"] == 1
    assert power.measures["power.avg_power_w"].value == 700


def test_borders_are_interpolated_and_gpus_added() -> None:
    rows = [(999.5 + t, g, 100 * (g + 1) + 10 * t) for t in range(12) for g in (0, 1)]
    power = integrate(log(rows), RESULT, 2)
    # Power rises by 10 W a second: at the window's middle (5.5 s after the first sample) 155 and 255 W.
    assert power.metrics["avg_total_gpu_power_w"] == pytest.approx(155 + 255)
    assert power.metrics["avg_power_w"] == pytest.approx(205)


def test_a_line_that_was_cut_off_is_dropped_and_equal_times_are_averaged() -> None:
    text = log(idle_then_busy()) + "1011, 0, 69"
    assert integrate(text, RESULT, 1).metrics["total_gpu_energy_j"] == 7000
    twice = [*idle_then_busy(), (1005, 0, 900)]  # 700 and 900 at one time: 800, so 100 W more on a triangle of 2 s
    assert integrate(log(twice), RESULT, 1).metrics["total_gpu_energy_j"] == 7100


@pytest.mark.parametrize("form", ["epoch_ms", "slashes", "iso"])
def test_forms_of_a_timestamp(form: str) -> None:
    def write(t: float) -> str:
        local = datetime.fromtimestamp(t)  # noqa: DTZ006
        return {
            "epoch_ms": f"{t * 1000 + 1.7e12:.0f}",
            "slashes": local.strftime("%Y/%m/%d %H:%M:%S.%f"),
            "iso": local.isoformat(),
        }[form]

    shift = 1.7e9 if form == "epoch_ms" else 0.0
    result = RESULT | {k: RESULT[k] + shift for k in ("benchmark_start_time_unix", "benchmark_end_time_unix")}
    rows = [(write(float(str(t))), g, w) for t, g, w in idle_then_busy()]
    assert integrate(log(rows), result, 1).metrics["total_gpu_energy_j"] == 7000


@pytest.mark.parametrize(
    ("reason", "text", "changes", "gpus"),
    [
        ("invalid_benchmark_window", log(idle_then_busy()), {"benchmark_end_time_unix": 1000.0}, 1),
        ("invalid_benchmark_window", log(idle_then_busy()), {"duration": None}, 1),
        ("invalid_benchmark_window", log(idle_then_busy()), {"duration": float("nan")}, 1),
        ("benchmark_duration_mismatch", log(idle_then_busy()), {"duration": 9.4}, 1),
        ("invalid_successful_query_count", log(idle_then_busy()), {"completed": 0}, 1),
        ("invalid_input_token_count", log(idle_then_busy()), {"total_input_tokens": 1.5}, 1),
        ("invalid_output_token_count", log(idle_then_busy()), {"total_output_tokens": None}, 1),
        ("invalid_expected_gpu_count", log(idle_then_busy()), {}, 0),
        ("telemetry_file_missing", None, {}, 1),
        ("telemetry_file_empty", "timestamp, index, power\n", {}, 1),
        ("timestamp_column_missing", log(idle_then_busy(), "when, index, power"), {}, 1),
        ("power_column_missing", log(idle_then_busy(), "timestamp, index, power.limit"), {}, 1),
        ("gpu_identity_column_missing", log(idle_then_busy(), "timestamp, uuid, power"), {}, 1),
        ("invalid_timestamp_sample", log([*idle_then_busy(), ("yesterday", 0, 1)]), {}, 1),
        ("invalid_power_sample", log([*idle_then_busy(), (1005, 0, "[N/A]")]), {}, 1),
        ("gpu_identity_missing", log([*idle_then_busy(), (1005, "", 1)]), {}, 1),
        ("no_usable_power_samples", log([(1, 0, 5)]), {}, 1),
        ("expected_gpu_count_mismatch", log(idle_then_busy()), {}, 2),
        ("insufficient_power_samples", log([(1005, 0, 5)]), {}, 1),
        ("benchmark_window_not_bracketed", log(idle_then_busy()[:-1]), {}, 1),
        ("sampling_gap_exceeded", log(idle_then_busy()[:12] + idle_then_busy()[15:]), {}, 1),
    ],
)
def test_reasons(reason: str, text: str | None, changes: dict[str, Any], gpus: int) -> None:
    power = integrate(text, RESULT | changes, gpus)
    assert reason in power.reasons and power.metrics == {} and power.fields["power_valid"] == 0
    assert power.measures["power.avg_power_w"].value is None and reason in str(
        power.measures["power.avg_power_w"].reason
    )


def test_what_lies_far_outside_is_not_looked_at() -> None:
    rows = [*idle_then_busy(), (1014, 0, "[N/A]"), (2000, 7, 1)]
    assert integrate(log(rows), RESULT, 1).valid
    assert integrate(log(idle_then_busy()), RESULT | {"duration": 9.5}, 1).valid, "half a second may be missing"
