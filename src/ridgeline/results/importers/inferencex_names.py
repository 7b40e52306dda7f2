"""InferenceX's metric names and ours, for rows of its interface, its aggregates and its tables.

In: a flat mapping of their names to numbers. Out: measures. Their fixed-sequence `tpot` is (end - first token)/(tokens
- 1), which is our `itl`; their `itl` there is the gap of chunks, our `icl`. In agentic rows `itl` is our `itl` and
`tpot` a copy of it. Interactivity is 1/itl percentile by percentile: pXX is the slow tail.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ridgeline.core.point import Measure
from ridgeline.results.importers.api import Notes
from ridgeline.results.importers.foreign import measure, number
from ridgeline.results.importers.measures import SPEED_UNIT, Spread, spread

_LATENCY = re.compile(
    r"^(mean|median|std|p\d+(?:\.\d+)?)_(full_response_)?(ttft|tpot|itl|e2el|e2e_norm_intvty|intvty)$"
)
SPEEDS = {"intvty": Spread("interactivity", SPEED_UNIT), "e2e_norm_intvty": Spread("e2e_interactivity", SPEED_UNIT)}
# Times come after speeds: interactivity follows from the time per token wherever that is known, so its percentiles
# mean the same in all sources (p90 below p50).
FIXED = SPEEDS | {
    "ttft": Spread("ttft"),
    "tpot": Spread("itl", speed="interactivity"),
    "itl": Spread("icl"),
    "e2el": Spread("e2e_latency"),
}
AGENTIC = SPEEDS | {
    "ttft": Spread("ttft"),
    "itl": Spread("itl", speed="interactivity"),
    "e2el": Spread("e2e_latency"),
}
POWER = {
    "avg_power_w": "W/GPU",
    "avg_total_gpu_power_w": "W",
    "total_gpu_energy_j": "J",
    "joules_per_successful_query": "J/req",
    "joules_per_input_token": "J/tok",
    "joules_per_output_token": "J/tok",
    "joules_per_total_token": "J/tok",
}
HANDLED = {
    "tput_per_gpu", "input_tput_per_gpu", "output_tput_per_gpu", "power_valid", "power_metric_schema_version",
    "pp", "dcp_size", "pcp_size", "kv_cache_pool_tokens",
}  # fmt: skip


def latencies(values: Mapping[str, Any], *, agentic: bool, notes: Notes, n: int | None = None) -> dict[str, Measure]:
    """Latencies (seconds) and speeds of flat names like `p90_ttft`. Names that have no place are noted."""
    table = AGENTIC if agentic else FIXED
    blocks: dict[str, dict[str, Any]] = {name: {} for name in table}
    for name, value in values.items():
        match = _LATENCY.match(name)
        if match is None:
            continue
        statistic, whole_response, metric = match.groups()
        if whole_response:
            notes.add(name, "speed over the whole response, usage event included: we keep the one over tokens", value)
        elif statistic == "std" and metric in SPEEDS:
            notes.add(name, "1/std of the times, which is no deviation of the speeds", value)
        elif metric in table:
            blocks[metric][statistic] = value
        elif not (agentic and metric == "tpot"):  # a copy of itl there
            notes.add(name, "no measure of ours", value)
    return {key: item for name, block in blocks.items() for key, item in spread(block, table[name], n).items()}


def power(values: Mapping[str, Any]) -> dict[str, Measure]:
    """Power measures of a row: missing with the reason where the row says that its telemetry does not hold."""
    if not any(name in values for name in (*POWER, "power_valid")):
        return {}
    valid = "power_valid" not in values or bool(values["power_valid"])
    reason = "not reported" if valid else "the source marks its power telemetry as invalid"
    return {
        f"power.{name}": measure(values.get(name) if valid else None, unit, reason=reason)
        for name, unit in POWER.items()
    }


def unknown(values: Mapping[str, Any], notes: Notes) -> None:
    """Note every name that nothing above reads."""
    for name, value in values.items():
        if name not in HANDLED and name not in POWER and not _LATENCY.match(name):
            notes.add(name, "no measure of ours", value)


def throughput(
    values: Mapping[str, Any], gpus: int, parts: tuple[float, float] | None, why_not: str = ""
) -> dict[str, Measure]:
    """Throughput of all GPUs and per GPU from `tput_per_gpu`, `input_tput_per_gpu` and `output_tput_per_gpu`.

    `parts`: share of all GPUs that input and output throughput were divided by (1 and 1 in one pool; prefill's and
    decode's share where pools are apart, since theirs are per prefill and per decode GPU and do not add up). None:
    unknown, with the reason `why_not`.
    """
    unit = "tok/s/GPU"
    found = {"throughput_per_gpu.total": measure(values.get("tput_per_gpu"), unit)}
    for at, name in enumerate(("input", "output")):
        known = number(values.get(f"{name}_tput_per_gpu"))
        if known is not None and parts is not None:
            found[f"throughput_per_gpu.{name}"] = Measure(known * parts[at], unit)
        else:
            reason = "not reported" if known is None else why_not
            found[f"throughput_per_gpu.{name}"] = Measure(None, unit, None, reason)
    for name in ("total", "input", "output"):
        each = found[f"throughput_per_gpu.{name}"]
        if each.value is not None and gpus:
            found[f"throughput.{name}"] = Measure(each.value * gpus, "tok/s")
        else:
            found[f"throughput.{name}"] = Measure(None, "tok/s", None, each.reason or "the number of GPUs is unknown")
    return found


def is_latency(name: str) -> bool:
    """Whether `latencies` looks at a name."""
    return _LATENCY.match(name) is not None
