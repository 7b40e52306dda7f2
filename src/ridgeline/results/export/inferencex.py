"""InferenceX's fixed-sequence row (`agg_*.json`).

In: one raw benchmark result and its environment, as InferenceX's runner has them; or a point of ours. Out: the row,
with the peer's key order. Everything that is missing or wrong is reported at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ridgeline.core.cell import Cell
from ridgeline.core.errors import AnswerIsNo, InputError, Problem
from ridgeline.core.point import Point
from ridgeline.core.topology import Pool
from ridgeline.results.power import Power, integrate

_ALWAYS = (
    "RUNNER_TYPE",
    "FRAMEWORK",
    "PRECISION",
    "SPEC_DECODING",
    "RESULT_FILENAME",
    "ISL",
    "OSL",
    "DISAGG",
    "MODEL_PREFIX",
    "IMAGE",
)
_SINGLE = ("TP", "EP_SIZE", "DP_ATTENTION")
_POOL = ("NUM_WORKERS", "TP", "EP", "DP_ATTN")
_MULTI = tuple(f"{role}_{name}" for role in ("PREFILL", "DECODE") for name in ("GPUS", *_POOL))
_RESULT = ("model_id", "max_concurrency", "total_token_throughput", "output_throughput")
_TRUE = ("1", "true", "yes")


class _Reader:
    """Typed look-ups that collect problems instead of stopping at the first."""

    def __init__(self, env: Mapping[str, str], result: Mapping[str, Any]) -> None:
        self.env, self.result = env, result
        self.problems: list[Problem] = []

    def need(self, names: tuple[str, ...]) -> None:
        for name in names:
            if not self.env.get(name):
                self.problems.append(Problem("is not set", key=name, hint="set it in the environment of the job"))

    def whole(self, name: str, default: int | None = None, least: int | None = None) -> int:
        text = self.env.get(name) or ("" if default is None else str(default))
        try:
            value = int(text)
        except ValueError:
            if text:
                self.problems.append(Problem(f"is not a whole number: {text!r}", key=name))
            return 1
        if least is not None and value < least:
            self.problems.append(Problem(f"must be at least {least}, is {value}", key=name))
        return value

    def number(self, name: str) -> float:
        value = self.result.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.problems.append(Problem(f"the benchmark result has no number here: {value!r}", key=name))
            return 0.0
        return value

    def flag(self, name: str) -> bool:
        return self.env.get(name, "").lower() == "true"

    def stop_on_problems(self) -> None:
        if self.problems:
            raise InputError(self.problems)


def fixed_row(result: Mapping[str, Any], env: Mapping[str, str], power_log: str | None = None) -> dict[str, Any]:
    """The row of one raw benchmark result (`benchmark_serving` keys, latencies in ms) under a job's environment.

    Raises InputError with every missing or wrong variable and value, AnswerIsNo when REQUIRE_POWER is set and the
    power log does not hold.
    """
    row, power = fixed_row_and_power(result, env, power_log)
    if env.get("REQUIRE_POWER", "").lower() in _TRUE and not power.valid:
        raise AnswerIsNo(f"power was required and is invalid: {', '.join(power.reasons)}")
    return row


def fixed_row_and_power(
    result: Mapping[str, Any], env: Mapping[str, str], power_log: str | None = None
) -> tuple[dict[str, Any], Power]:
    """The row and the power verdict behind it (whose `sidecar` is stored beside the row)."""
    read = _Reader(env, result)
    multi = read.flag("IS_MULTINODE")
    read.need(_ALWAYS + (_MULTI if multi else _SINGLE))
    total, output = read.number("total_token_throughput"), read.number("output_throughput")
    read.problems += [Problem("is missing in the benchmark result", key=k) for k in _RESULT[:2] if k not in result]
    row: dict[str, Any] = {
        "hw": env.get("RUNNER_TYPE"),
        "conc": int(result.get("max_concurrency") or 0),
        "image": env.get("IMAGE"),
        "model": result.get("model_id"),
        "infmax_model_prefix": env.get("MODEL_PREFIX"),
        "framework": env.get("FRAMEWORK"),
        "precision": env.get("PRECISION"),
        "spec_decoding": env.get("SPEC_DECODING"),
        "disagg": read.flag("DISAGG"),
        "recipe_fingerprint": env.get("RECIPE_FINGERPRINT", ""),
        "isl": read.whole("ISL"),
        "osl": read.whole("OSL"),
    }
    router = _router(read)
    row |= {"router": router} if router else {}
    row |= {"kv_p2p_transfer": env["KV_P2P_TRANSFER"]} if env.get("KV_P2P_TRANSFER") else {}
    row["is_multinode"] = multi
    layout, gpus = _multi(read, total, output) if multi else _single(read, total, output)
    row |= layout
    row |= _latencies(read)
    read.stop_on_problems()
    # A multi-node row needs the packages of the exporter on every node; without them its power is not valid.
    power = integrate(power_log, result, gpus)
    if multi and power.valid:
        power = Power(("power_artifacts_missing",), {}, power.sidecar)
    return row | power.fields, power


def _single(read: _Reader, total: float, output: float) -> tuple[dict[str, Any], int]:
    if read.flag("DISAGG"):
        read.problems.append(Problem("a single-node row cannot be disaggregated", key="DISAGG"))
    sizes = {
        "tp": read.whole("TP", least=1),
        "pp": read.whole("PP_SIZE", 1, 1),
        "dcp_size": read.whole("DCP_SIZE", 1, 1),
        "pcp_size": read.whole("PCP_SIZE", 1, 1),
        "ep": read.whole("EP_SIZE", least=1),
    }
    gpus = max(1, sizes["tp"] * sizes["pp"] * sizes["pcp_size"])
    found: dict[str, Any] = {**sizes, "dp_attention": read.env.get("DP_ATTENTION")}
    found |= {
        "tput_per_gpu": total / gpus,
        "output_tput_per_gpu": output / gpus,
        "input_tput_per_gpu": (total - output) / gpus,
    }
    return found, gpus


def _multi(read: _Reader, total: float, output: float) -> tuple[dict[str, Any], int]:
    """Output per decode GPU and input per prefill GPU, total per all: the parts do not add up, by their design."""
    gpus = {role: read.whole(f"{role}_GPUS") for role in ("PREFILL", "DECODE")}
    if gpus["PREFILL"] <= 0:
        read.problems.append(Problem(f"must be at least 1, is {gpus['PREFILL']}", key="PREFILL_GPUS"))
    if gpus["DECODE"] < 0:
        read.problems.append(Problem(f"must not be negative, is {gpus['DECODE']}", key="DECODE_GPUS"))
    found: dict[str, Any] = {}
    for role in ("PREFILL", "DECODE"):
        none = role == "DECODE" and gpus["DECODE"] == 0  # aggregated: there is no decode pool
        name = role.lower()
        found |= {
            f"{name}_tp": 0 if none else read.whole(f"{role}_TP"),
            f"{name}_pp": 1 if none else read.whole(f"{role}_PP_SIZE", 1, 1),
            f"{name}_dcp_size": 1 if none else read.whole(f"{role}_DCP_SIZE", 1, 1),
            f"{name}_pcp_size": 1 if none else read.whole(f"{role}_PCP_SIZE", 1, 1),
            f"{name}_ep": 0 if none else read.whole(f"{role}_EP"),
            f"{name}_dp_attention": read.env.get(f"{role}_DP_ATTN"),
            f"{name}_num_workers": read.whole(f"{role}_NUM_WORKERS"),
        }
    prefill, decode = max(1, gpus["PREFILL"]), gpus["DECODE"]
    everything = max(1, prefill + decode)
    found |= {
        "num_prefill_gpu": gpus["PREFILL"],
        "num_decode_gpu": decode,
        "tput_per_gpu": total / everything,
        "output_tput_per_gpu": output / (decode if decode > 0 else everything),
        "input_tput_per_gpu": (total - output) / prefill,
    }
    hardware = {role: read.env.get(f"{role}_HARDWARE") for role in ("PREFILL", "DECODE")}
    if bool(hardware["PREFILL"]) != bool(hardware["DECODE"]):
        bare = "DECODE" if hardware["PREFILL"] else "PREFILL"
        read.problems.append(Problem("is set on one side only", key=f"{bare}_HARDWARE", hint="name both or neither"))
    elif hardware["PREFILL"]:
        found |= {"prefill_hw": hardware["PREFILL"], "decode_hw": hardware["DECODE"]}
    return found, everything


def _router(read: _Reader) -> dict[str, str] | None:
    text = read.env.get("ROUTER_METADATA", "")
    if text in ("", "null"):
        return None
    try:
        data = json.loads(text)
    except ValueError:
        data = text
    if data is None:
        return None
    fine = isinstance(data, dict) and set(data) == {"name", "version"}
    if not fine or not all(isinstance(value, str) and value for value in data.values()):
        read.problems.append(Problem(f"must be JSON with a name and a version: {text}", key="ROUTER_METADATA"))
        return None
    return {"name": data["name"], "version": data["version"]}


def _latencies(read: _Reader) -> dict[str, float]:
    """Every `*_ms` value in seconds; beside every tpot its interactivity, 1000/ms, so that pXX is the slow tail."""
    found: dict[str, float] = {}
    for key in read.result:
        if not key.endswith("ms"):
            continue
        name = key.replace("_ms", "")
        value = read.number(key)
        found[name] = value / 1000
        if "tpot" in key:
            if value == 0:
                read.problems.append(Problem("is zero: no interactivity can be made of it", key=key))
                continue
            found[name.replace("tpot", "intvty")] = 1000 / value
    return found


# Ours -> theirs. Their fixed-sequence `tpot` is (end - first token)/(tokens - 1), our itl; their `itl` is the gap of
# chunks, our icl. Statistics they name differently: p50 is median.
_LATENCIES = {"ttft": "ttft", "tpot": "itl", "itl": "icl", "e2el": "e2e_latency"}
_STATISTICS = {"mean": "mean", "median": "p50", "std": "std", "p90": "p90", "p99": "p99", "p99.9": "p99.9"}


def row_of_point(point: Point, cell: Cell, *, recipe_fingerprint: str = "") -> dict[str, Any]:
    """The fixed-sequence row of a point of ours. Missing and withheld statistics have no key: aggregate with
    `withhold=False` to have them all. Raises InputError when the point has no throughput or another scenario."""
    if cell.scenario.kind != "fixed-seq-len":
        raise InputError(f"{cell.name} is no fixed-sequence cell", hint="agentic cells have a row of their own")
    missing = [
        Problem(f"is missing: {measure.reason if measure else 'not measured'}", key=name)
        for name in ("throughput.total", "throughput.output")
        for measure in [point.measures.get(name)]
        if measure is None or measure.value is None
    ]
    if missing:
        raise InputError(missing)
    result: dict[str, Any] = {
        "model_id": cell.benchmark.model,
        "max_concurrency": cell.concurrency,
        "total_token_throughput": point.value("throughput.total"),
        "output_throughput": point.value("throughput.output"),
    }
    for theirs, ours in _LATENCIES.items():
        for name, statistic in _STATISTICS.items():
            value = point.value(f"{ours}.{statistic}")
            if value is not None and not (theirs == "tpot" and value == 0):
                result[f"{name}_{theirs}_ms"] = 1000 * value
    return fixed_row(result, environment(cell, recipe_fingerprint, gpus_by_role(point)))


def gpus_by_role(point: Point) -> Mapping[str, int]:
    """GPUs of each pool as the run occupied them, empty where it does not say. A worker written as tp 1 with ep 8 has
    eight, which its topology does not tell."""
    found = point.provenance.get("gpus_by_role")
    return found if isinstance(found, Mapping) else {}


def environment(cell: Cell, recipe_fingerprint: str = "", gpus: Mapping[str, int] | None = None) -> dict[str, str]:
    """What a job of InferenceX has in its environment for a cell. `gpus`: of each pool, where its run tells them."""
    benchmark, scenario, arm = cell.benchmark, cell.scenario, cell.arm
    env = {
        "RUNNER_TYPE": benchmark.runner,
        "FRAMEWORK": benchmark.framework,
        "PRECISION": benchmark.precision,
        "SPEC_DECODING": arm.spec_decoding,
        "RESULT_FILENAME": cell.name.replace("/", "_"),
        "ISL": str(scenario.isl or ""),
        "OSL": str(scenario.osl or ""),
        "DISAGG": str(benchmark.disagg).lower(),
        "MODEL_PREFIX": benchmark.model_prefix,
        "IMAGE": benchmark.image,
        "RECIPE_FINGERPRINT": recipe_fingerprint,
    }
    if arm.router:
        env["ROUTER_METADATA"] = json.dumps({"name": arm.router.name, "version": arm.router.version or ""})
    if arm.kv_p2p_transfer:
        env["KV_P2P_TRANSFER"] = arm.kv_p2p_transfer
    if arm.topology:
        t = arm.topology
        sizes = {"TP": t.tp, "EP_SIZE": t.ep, "PP_SIZE": t.pp, "DCP_SIZE": t.dcp, "PCP_SIZE": t.pcp}
        env |= {name: str(size) for name, size in sizes.items()} | {"DP_ATTENTION": str(t.dp_attn).lower()}
        return env
    env["IS_MULTINODE"] = "true"
    for role in ("prefill", "decode"):
        pool = next((pool for pool in arm.pools if pool.role == role), None)
        env |= {f"{role.upper()}_{name}": text for name, text in _pool(pool, (gpus or {}).get(role)).items()}
    return env


def _pool(pool: Pool | None, gpus: int | None) -> dict[str, str]:
    if pool is None:
        return {"GPUS": "0", "NUM_WORKERS": "0", "TP": "0", "EP": "0", "DP_ATTN": "false"}
    t = pool.topology
    found = {
        "GPUS": str(gpus or pool.gpus),
        "NUM_WORKERS": str(pool.workers),
        "TP": str(t.tp),
        "EP": str(t.ep),
        "DP_ATTN": str(t.dp_attn).lower(),
        "PP_SIZE": str(t.pp),
        "DCP_SIZE": str(t.dcp),
        "PCP_SIZE": str(t.pcp),
    }
    return found | ({"HARDWARE": pool.hardware} if pool.hardware else {})
