"""InferenceX's agentic row (`agg_*.json` of a trace replay).

In: a replay and its cell. Out: the row as plain data, floats rounded to 5 places and whole ones from 1 on written as
ints, the way the peer does. It keeps the peer's population: profiling requests without error, values above 0 only.
Source: agentx-replay specification, section 8; control-plane specification, section 5.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ridgeline.core.cell import Cell, Component
from ridgeline.core.errors import InputError
from ridgeline.core.record import Outcome, Record, Replay
from ridgeline.core.topology import Pool
from ridgeline.results.export.aiperf import is_good
from ridgeline.results.export.server_block import server_block
from ridgeline.results.metrics.statistics import percentile
from ridgeline.results.sweepline import Floats

_PERCENTILES = (50, 75, 90, 95)
_QPS_WINDOW_S = 1.0


def agentic_row(
    replay: Replay, cell: Cell, *, recipe_fingerprint: str = "", dataset: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The row of one agentic cell. Raises InputError for another scenario."""
    if cell.scenario.kind != "agentic-coding":
        raise InputError(f"{cell.name} is no agentic cell", hint="fixed-sequence points have a row of their own")
    listed = [record for record in replay.records if record.outcome not in (Outcome.OVERFLOW, Outcome.CANCELLED)]
    good = [record for record in listed if record.phase == "profiling" and is_good(record)]
    benchmark, arm = cell.benchmark, cell.arm
    server = server_block(replay)
    row: dict[str, Any] = {
        "hw": benchmark.runner,
        "conc": cell.concurrency,
        "image": benchmark.image,
        "recipe_fingerprint": recipe_fingerprint,
        "model": benchmark.model,
        "infmax_model_prefix": benchmark.model_prefix,
        "framework": benchmark.framework,
        "precision": benchmark.precision,
        "spec_decoding": arm.spec_decoding,
        "disagg": benchmark.disagg,
        "scenario_type": "agentic-coding",
        "is_multinode": bool(arm.pools),
        "num_gpus": cell.gpus,
        **_parallelism(cell),
        "kv_offloading": arm.kv_offloading,
        "kv_offload_backend": _component(arm.kv_offload_backend),
        "allocated_cpu_dram_gb": arm.cpu_dram_gb,
        "num_requests_total": len(listed),
        "num_requests_successful": len(good),
        "request_accounting": _accounting(listed, good),
        **_topology(cell),
    }
    row |= {"router": _component(arm.router)} if arm.router else {}
    row |= {"kv_p2p_transfer": arm.kv_p2p_transfer} if arm.kv_p2p_transfer else {}
    row |= {"dataset": dict(dataset)} if dataset else {}
    row["request_metrics"] = _requests(good, cell.gpus)
    row["server_metrics"] = server
    row["kv_cache_pool_tokens"] = server["kv_cache"]["gpu_total_tokens"]
    if not server["present"]:
        row["warnings"] = ["server metrics are missing: totals come from the records"]
    tidied: dict[str, Any] = tidy(row)
    return tidied


def tidy(value: Any) -> Any:
    """Floats to 5 places, whole ones from 1 on as ints, non-finite ones as null, in nested plain data."""
    if isinstance(value, Mapping):
        return {key: tidy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [tidy(item) for item in value]
    if isinstance(value, float):
        if not np.isfinite(value):
            return None
        rounded = round(value, 5)
        return int(rounded) if abs(rounded) >= 1 and rounded.is_integer() else rounded
    return value


def _parallelism(cell: Cell) -> dict[str, Any]:
    """tp summed, ep the largest and dp-attention of any over the pools of a multi-node cell."""
    topologies = [cell.arm.topology] if cell.arm.topology else [pool.topology for pool in cell.arm.pools]
    return {
        "tp": sum(t.tp for t in topologies),
        "ep": max(t.ep for t in topologies),
        "dp_attention": str(any(t.dp_attn for t in topologies)).lower(),
    }


def _topology(cell: Cell) -> dict[str, Any]:
    if cell.arm.topology:
        t = cell.arm.topology
        return {"pp": t.pp, "dcp_size": t.dcp, "pcp_size": t.pcp}
    found: dict[str, Any] = {}
    pools: dict[str, Pool | None] = {
        role: next((pool for pool in cell.arm.pools if pool.role == role), None) for role in ("prefill", "decode")
    }
    for role, pool in pools.items():
        layout = pool.topology if pool else None
        found |= {
            f"{role}_num_workers": pool.workers if pool else 0,
            f"{role}_tp": layout.tp if layout else 0,
            f"{role}_pp": layout.pp if layout else 1,
            f"{role}_dcp_size": layout.dcp if layout else 1,
            f"{role}_pcp_size": layout.pcp if layout else 1,
            f"{role}_ep": layout.ep if layout else 0,
            f"{role}_dp_attention": str(layout.dp_attn if layout else False).lower(),
        }
    found |= {f"num_{role}_gpu": pool.gpus if pool else 0 for role, pool in pools.items()}
    if all(pool and pool.hardware for pool in pools.values()):
        found |= {f"{role}_hw": pool.hardware for role, pool in pools.items() if pool}
    return found


def _component(component: Component | None) -> dict[str, str] | None:
    if component is None:
        return None
    return {"name": component.name} | ({"version": component.version} if component.version else {})


def _accounting(listed: list[Record], good: list[Record]) -> dict[str, Any]:
    """A failed warm-up request counts as dropped for both reasons, as theirs does."""
    warm = [record for record in listed if record.phase != "profiling"]
    failed = [record for record in listed if not is_good(record)]
    categories: dict[str, int] = {}
    for record in failed:
        # Ours are outcomes, with the status where there is one; theirs is an exception's type or code.
        name = str(record.status) if record.outcome is Outcome.HTTP_ERROR and record.status else str(record.outcome)
        categories[name] = categories.get(name, 0) + 1
    return {
        "records_total": len(listed),
        "records_profiled": len(good),
        "records_dropped_total": len(listed) - len(good),
        "records_warmup_dropped": len(warm),
        "records_error_dropped": len(failed),
        "error_categories": categories,
    }


def _requests(good: list[Record], gpus: int) -> dict[str, Any]:
    itl = _times((r.last_token_ns, r.first_token_ns, _less_one(r.completion_tokens)) for r in good)
    whole_itl = _times((r.end_ns, r.first_token_ns, _less_one(r.completion_tokens)) for r in good)
    e2e_per_token = _times((r.last_token_ns, r.sent_ns, r.completion_tokens) for r in good)
    latency = {
        "ttft": _block(_times((r.first_token_ns, r.sent_ns, 1) for r in good)),
        "e2el": _block(_times((r.last_token_ns, r.sent_ns, 1) for r in good)),
        "itl": _block(itl),
        "tpot": _block(itl),
        "intvty": _inverse(itl),
        "e2e_norm_intvty": _inverse(e2e_per_token),
        "full_response_itl": _block(whole_itl),
        "full_response_intvty": _inverse(whole_itl),
    }
    tokens = {
        "input": [r.prompt_tokens for r in good],
        "output_actual": [r.completion_tokens for r in good],
        "output_expected": [r.max_tokens for r in good],
    }
    hit, total = (
        sum(getattr(r, name) or 0 for r in good) for name in ("theoretical_hit_blocks", "theoretical_total_blocks")
    )
    return {
        "qps": _qps(good),
        "latency": {name: block for name, block in latency.items() if block},
        "tokens": {name: _block(_array(values)) for name, values in tokens.items()},
        "throughput": _throughput(good, gpus),
        "cache": {"theoretical_cache_hit_rate": hit / total if total else None},
    }


def _less_one(tokens: int | None) -> int | None:
    return tokens - 1 if tokens is not None and tokens >= 2 else None


def _times(triples: Iterable[tuple[int | None, int | None, int | None]]) -> Floats:
    """(end - start)/divisor in seconds where all three are known; only values above 0 are kept."""
    found = [
        (end - start) / 1e9 / by
        for end, start, by in triples
        if end is not None and start is not None and by is not None and by > 0 and end > start
    ]
    return np.array(found, dtype=np.float64)


def _array(values: Iterable[int | None]) -> Floats:
    return np.array([value for value in values if value is not None], dtype=np.float64)


def _block(values: Floats) -> dict[str, float]:
    if not len(values):
        return {}
    ordered = np.sort(values)
    percentiles = {f"p{p}": percentile(ordered, p) for p in _PERCENTILES}
    return {"mean": float(ordered.mean()), **percentiles, "std": float(ordered.std())}


def _inverse(times: Floats) -> dict[str, float]:
    """1/statistic of the times, so that pXX is the slow tail; the deviation is that of the requests' speeds."""
    block = _block(times)
    found = {name: 1 / value for name, value in block.items() if name != "std"}
    return found | ({"std": float((1 / times).std())} if block else {})


def _qps(good: list[Record]) -> dict[str, Any]:
    """Requests ended in whole windows of one second, from the first end to the last."""
    ends = np.sort(_array(record.end_ns for record in good)) / 1e9
    if len(ends) < 2:
        return {}
    windows = int((ends[-1] - ends[0]) / _QPS_WINDOW_S)
    found: dict[str, Any] = {"window_seconds": _QPS_WINDOW_S, "samples": windows}
    if windows == 0:
        span = float(ends[-1] - ends[0])
        return found | {"mean": len(ends) / span if span > 0 else None}
    place = ((ends - ends[0]) / _QPS_WINDOW_S).astype(np.int64)
    counts = np.bincount(place[place < windows], minlength=windows) / _QPS_WINDOW_S
    return found | _block(counts.astype(np.float64))


def _throughput(good: list[Record], gpus: int) -> dict[str, Any]:
    sent = [record.sent_ns for record in good if record.sent_ns is not None]
    ends = [record.end_ns for record in good if record.end_ns is not None]
    seconds = (max(ends) - min(sent)) / 1e9 if sent and ends else 0.0
    if seconds <= 0:
        return {}
    tokens_in = sum(record.prompt_tokens or 0 for record in good)
    tokens_out = sum(record.completion_tokens or 0 for record in good)
    rates = {"input": tokens_in / seconds, "output": tokens_out / seconds, "total": (tokens_in + tokens_out) / seconds}
    return {
        **{name: {"tokens_per_second": value} for name, value in rates.items()},
        "duration_seconds": seconds,
        "per_gpu": {
            "total_tput_tps": rates["total"] / gpus,
            "output_tput_tps": rates["output"] / gpus,
            "input_tput_tps": rates["input"] / gpus,
        },
    }
