"""InferenceX's agentic row (`agg_*.json` of a trace replay).

In: a replay, in memory or on disk, and its cell. Out: the row as plain data, floats rounded to 5 places and whole ones
from 1 on written as ints, the way the peer does. It keeps the peer's population: profiling requests without error,
values above 0 only. Works on columns of numbers; chunks of answers are not read.
Source: agentx-replay specification, section 8; control-plane specification, section 5.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.core.cell import Cell, Component
from ridgeline.core.errors import InputError
from ridgeline.core.record import Outcome, Replay
from ridgeline.core.topology import Pool
from ridgeline.results.export.server_block import server_block
from ridgeline.results.metrics.columns import Columns
from ridgeline.results.metrics.statistics import percentile
from ridgeline.results.stored import StoredReplay, numbers
from ridgeline.results.sweepline import Floats

_PERCENTILES = (50, 75, 90, 95)
_QPS_WINDOW_S = 1.0

Mask = NDArray[np.bool_]


def agentic_row(
    replay: Replay | StoredReplay,
    cell: Cell,
    *,
    recipe_fingerprint: str = "",
    dataset: Mapping[str, Any] | None = None,
    gpus_by_role: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The row of one agentic cell. `gpus_by_role`: GPUs of each pool, where its run tells them. Raises InputError for
    another scenario."""
    if cell.scenario.kind != "agentic-coding":
        raise InputError(f"{cell.name} is no agentic cell", hint="fixed-sequence points have a row of their own")
    columns = Columns.of(replay.path if isinstance(replay, StoredReplay) else replay)
    listed = ~(columns.is_outcome(Outcome.OVERFLOW) | columns.is_outcome(Outcome.CANCELLED))
    fine = columns.is_outcome(Outcome.OK) & ~np.isnan(columns["first_token_ns"]) & ~np.isnan(columns["sent_ns"])
    good = fine & columns.profiling
    benchmark, arm = cell.benchmark, cell.arm
    server = server_block(replay)
    by_role = gpus_by_role or {}
    gpus = sum(by_role.values()) or cell.gpus
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
        "num_gpus": gpus,
        **_parallelism(cell),
        "kv_offloading": arm.kv_offloading,
        "kv_offload_backend": _component(arm.kv_offload_backend),
        "allocated_cpu_dram_gb": arm.cpu_dram_gb,
        "num_requests_total": int(listed.sum()),
        "num_requests_successful": int(good.sum()),
        "request_accounting": _accounting(columns, listed, fine, numbers(replay, "status")),
        **_topology(cell, by_role),
    }
    row |= {"router": _component(arm.router)} if arm.router else {}
    row |= {"kv_p2p_transfer": arm.kv_p2p_transfer} if arm.kv_p2p_transfer else {}
    row |= {"dataset": dict(dataset)} if dataset else {}
    picked = _Picked(columns, good, numbers(replay, "max_tokens")[good])
    row["request_metrics"] = _requests(picked, gpus)
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


def _topology(cell: Cell, gpus: Mapping[str, int]) -> dict[str, Any]:
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
    found |= {f"num_{role}_gpu": gpus.get(role, pool.gpus) if pool else 0 for role, pool in pools.items()}
    if all(pool and pool.hardware for pool in pools.values()):
        found |= {f"{role}_hw": pool.hardware for role, pool in pools.items() if pool}
    return found


def _component(component: Component | None) -> dict[str, str] | None:
    if component is None:
        return None
    return {"name": component.name} | ({"version": component.version} if component.version else {})


def _accounting(columns: Columns, listed: Mask, fine: Mask, status: Floats) -> dict[str, Any]:
    """A failed warm-up request counts as dropped for both reasons, as theirs does."""
    failed, good = listed & ~fine, fine & columns.profiling
    categories: dict[str, int] = {}
    for outcome in (outcome for outcome in Outcome if columns.is_outcome(outcome)[failed].any()):
        # Ours are outcomes, with the status where there is one; theirs is an exception's type or code.
        of_kind = failed & columns.is_outcome(outcome)
        if outcome is Outcome.HTTP_ERROR:
            for code in np.unique(status[of_kind & (status > 0)]):
                categories[str(int(code))] = int((of_kind & (status == code)).sum())
            of_kind &= ~(status > 0)
        if of_kind.any():
            categories[str(outcome)] = int(of_kind.sum())
    return {
        "records_total": int(listed.sum()),
        "records_profiled": int(good.sum()),
        "records_dropped_total": int((listed & ~good).sum()),
        "records_warmup_dropped": int((listed & ~columns.profiling).sum()),
        "records_error_dropped": int(failed.sum()),
        "error_categories": categories,
    }


class _Picked:
    """Columns of the good requests, NaN where a request has no value."""

    def __init__(self, columns: Columns, good: Mask, max_tokens: Floats) -> None:
        self._columns, self._good, self._more = columns, good, {"max_tokens": max_tokens}

    def __getitem__(self, name: str) -> Floats:
        more = self._more.get(name)
        return self._columns[name][self._good] if more is None else more

    def seconds(self, start: str, end: str, by: Floats | float = 1.0) -> Floats:
        """(end - start)/by where all three are known; only values above 0 are kept."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = (self[end] - self[start]) / 1e9 / by
        kept: Floats = found[np.isfinite(found) & (found > 0)]
        return kept

    def known(self, name: str) -> Floats:
        """The values that are there."""
        values = self[name]
        return values[~np.isnan(values)]

    def total(self, name: str) -> float:
        """Their sum."""
        return float(np.nansum(self[name]))


def _requests(good: _Picked, gpus: int) -> dict[str, Any]:
    tokens = good["completion_tokens"]
    gaps = np.where(tokens >= 2, tokens - 1, np.nan)
    itl = good.seconds("first_token_ns", "last_token_ns", gaps)
    whole_itl = good.seconds("first_token_ns", "end_ns", gaps)
    latency = {
        "ttft": _block(good.seconds("sent_ns", "first_token_ns")),
        "e2el": _block(good.seconds("sent_ns", "last_token_ns")),
        "itl": _block(itl),
        "tpot": _block(itl),
        "intvty": _inverse(itl),
        "e2e_norm_intvty": _inverse(good.seconds("sent_ns", "last_token_ns", tokens)),
        "full_response_itl": _block(whole_itl),
        "full_response_intvty": _inverse(whole_itl),
    }
    counts = {"input": "prompt_tokens", "output_actual": "completion_tokens", "output_expected": "max_tokens"}
    blocks = good.total("theoretical_total_blocks")
    hit = good.total("theoretical_hit_blocks") / blocks if blocks else None
    return {
        "qps": _qps(good),
        "latency": {name: block for name, block in latency.items() if block},
        "tokens": {name: _block(good.known(column)) for name, column in counts.items()},
        "throughput": _throughput(good, gpus),
        "cache": {"theoretical_cache_hit_rate": hit},
    }


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


def _qps(good: _Picked) -> dict[str, Any]:
    """Requests ended in whole windows of one second, from the first end to the last."""
    ends = np.sort(good.known("end_ns")) / 1e9
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


def _throughput(good: _Picked, gpus: int) -> dict[str, Any]:
    ends = good.known("end_ns")
    seconds = float(ends.max() - good["sent_ns"].min()) / 1e9 if len(ends) else 0.0
    if seconds <= 0:
        return {}
    sums = {"input": good.total("prompt_tokens"), "output": good.total("completion_tokens")}
    rates = {name: total / seconds for name, total in (sums | {"total": sum(sums.values())}).items()}
    return {
        **{name: {"tokens_per_second": value} for name, value in rates.items()},
        "duration_seconds": seconds,
        "per_gpu": {f"{name}_tput_tps": rates[name] / gpus for name in ("total", "output", "input")},
    }
