"""InferenceX's aggregate documents: fixed-sequence rows (flat) and agentic rows (nested), as its runner writes them.

In: one row as plain data. Out: a point and the run it belongs to. Shared by the importers of single aggregates, of
collected ones and of whole artifact folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ridgeline.core.cell import Arm, Cell
from ridgeline.core.point import Measure
from ridgeline.results.importers import foreign
from ridgeline.results.importers import inferencex_names as names
from ridgeline.results.importers.api import ImportedPoint, Notes
from ridgeline.results.importers.inferencex_api import ORIGIN, Layout, overloaded
from ridgeline.results.importers.measures import withheld

_TOP = {
    "hw", "conc", "image", "model", "infmax_model_prefix", "framework", "precision", "spec_decoding", "disagg",
    "recipe_fingerprint", "isl", "osl", "router", "kv_p2p_transfer", "is_multinode", "scenario_type", "num_gpus",
    "tp", "pp", "dcp_size", "pcp_size", "ep", "dp_attention", "kv_offloading", "kv_offload_backend",
    "allocated_cpu_dram_gb", "num_requests_total", "num_requests_successful", "request_accounting", "dataset",
    "request_metrics", "server_metrics", "kv_cache_pool_tokens", "warnings", "num_prefill_gpu", "num_decode_gpu",
    "prefill_hw", "decode_hw",
    *(f"{role}_{name}" for role in ("prefill", "decode")
      for name in ("tp", "pp", "dcp_size", "pcp_size", "ep", "dp_attention", "num_workers")),
}  # fmt: skip


def is_row(data: Any) -> bool:
    """Whether this is one aggregate row."""
    return isinstance(data, Mapping) and {"hw", "conc", "framework"} <= set(data)


def point_of(
    row: Mapping[str, Any], *, run: str, attempt: int, repeat: int, measured_at: str | None, notes: Notes
) -> ImportedPoint:
    """The point of a row, fixed or agentic."""
    cell = cell_of(row)
    layout = layout_of(row, cell)
    agentic = cell.scenario.kind == "agentic-coding"
    measures = (_agentic if agentic else _fixed)(row, layout, notes)
    measures |= names.power(row)
    facts = {
        name: row.get(name)
        for name in ("recipe_fingerprint", "dataset", "kv_cache_pool_tokens", "request_accounting", "warnings")
        if row.get(name) not in (None, "", [], {})
    }
    point = foreign.make_point(
        cell,
        origin=ORIGIN,
        run=run,
        attempt=attempt,
        repeat=repeat,
        measures=measures,
        gpus=layout.gpus,
        measured_at=measured_at,
        facts=facts,
        cautions=overloaded(measures),
    )
    documents: dict[str, Any] = {"cell": cell}
    documents |= {"server_metrics": row["server_metrics"]} if row.get("server_metrics") else {}
    return ImportedPoint(point=point, repeat=repeat, asked={"image": row.get("image")}, documents=documents)


def cell_of(row: Mapping[str, Any]) -> Cell:
    """The cell of a row. Multi-node rows have pools; the flat tp and ep of agentic ones are sums and are not used."""
    common: dict[str, Any] = {
        "spec_decoding": str(row.get("spec_decoding") or "none"),
        "kv_offloading": str(row.get("kv_offloading") or "none"),
        "kv_offload_backend": foreign.component(row.get("kv_offload_backend")),
        "router": foreign.component(row.get("router")),
        "kv_p2p_transfer": row.get("kv_p2p_transfer") or None,
        "cpu_dram_gb": foreign.whole(row.get("allocated_cpu_dram_gb")),
    }
    if row.get("is_multinode"):
        pools = tuple(
            foreign.pool(
                role,
                row.get(f"{role}_num_workers"),
                foreign.topology(
                    *(row.get(f"{role}_{name}") for name in ("tp", "ep", "dp_attention", "pp", "dcp_size", "pcp_size"))
                ),
                row.get(f"{role}_hw"),
            )
            for role in ("prefill", "decode")
            if role == "prefill" or foreign.whole(row.get("num_decode_gpu"))
        )
        arm = Arm(pools=pools, **common)
    else:
        sizes = (row.get(name) for name in ("tp", "ep", "dp_attention", "pp", "dcp_size", "pcp_size"))
        arm = Arm(topology=foreign.topology(*sizes), **common)
    return foreign.make_cell(
        prefix=str(row.get("infmax_model_prefix") or row.get("model") or ""),
        model=str(row.get("model") or ""),
        scenario=foreign.scenario(row.get("isl"), row.get("osl")),
        concurrency=foreign.whole(row.get("conc")),
        arm=arm,
        precision=str(row.get("precision") or ""),
        framework=str(row.get("framework") or ""),
        hardware=str(row.get("hw") or ""),
        image=str(row.get("image") or ""),
        disagg=foreign.truth(row.get("disagg")),
        multinode=bool(row.get("is_multinode")),
    )


def layout_of(row: Mapping[str, Any], cell: Cell) -> Layout:
    """All GPUs. Fixed multi-node rows divide input by prefill's and output by decode's; agentic ones by all."""
    if not row.get("is_multinode"):
        return Layout(cell.gpus, (1.0, 1.0))
    prefill, decode = (foreign.whole(row.get(f"num_{role}_gpu")) for role in ("prefill", "decode"))
    everything = prefill + decode or cell.gpus
    if "request_metrics" in row:
        return Layout(everything, (1.0, 1.0))
    return Layout(everything, (prefill / everything, decode / everything if decode else 1.0))


def _fixed(row: Mapping[str, Any], layout: Layout, notes: Notes) -> dict[str, Measure]:
    for name, value in row.items():
        if name not in _TOP and name not in names.HANDLED and name not in names.POWER and not names.is_latency(name):
            notes.add(name, "no measure of ours", value)
    found = names.latencies(row, agentic=False, notes=notes)
    return found | names.throughput(row, layout.gpus, layout.parts)


def _agentic(row: Mapping[str, Any], layout: Layout, notes: Notes) -> dict[str, Measure]:
    metrics = row.get("request_metrics") or {}
    n = foreign.whole(row.get("num_requests_successful")) or None
    flat = {
        f"{statistic}_{name}": value
        for name, block in (metrics.get("latency") or {}).items()
        for statistic, value in block.items()
    }
    found = names.latencies(flat, agentic=True, notes=notes, n=n)
    for name, ours in (("input", "input_tokens"), ("output_actual", "output_tokens")):
        for statistic, value in ((metrics.get("tokens") or {}).get(name) or {}).items():
            found[f"{ours}.{statistic}"] = foreign.measure(value, "tokens", n)
    found = withheld(found)
    throughput = metrics.get("throughput") or {}
    for part in ("total", "input", "output"):
        told = (throughput.get(part) or {}).get("tokens_per_second")
        per_gpu = (throughput.get("per_gpu") or {}).get(f"{part}_tput_tps")
        found[f"throughput.{part}"] = foreign.measure(told, "tok/s", n)
        found[f"throughput_per_gpu.{part}"] = foreign.measure(per_gpu, "tok/s/GPU", n)
    found["duration"] = foreign.measure(throughput.get("duration_seconds"), "s", n)
    found["request_rate"] = foreign.measure((metrics.get("qps") or {}).get("mean"), "req/s", n)
    ideal = (metrics.get("cache") or {}).get("theoretical_cache_hit_rate")
    found["theoretical_cache_hit"] = foreign.measure(ideal, "ratio", n)
    server = row.get("server_metrics") or {}
    cache, kv = server.get("cache") or {}, server.get("kv_cache") or {}
    overall = cache.get("overall_cache_hit_rate")
    hit = overall if overall is not None else cache.get("gpu_cache_hit_rate")
    found["server_cache_hit"] = foreign.measure(hit, "ratio", reason="the server's counters were not read")
    found["kv_usage.peak"] = foreign.measure(kv.get("gpu_usage_pct"), "ratio", reason="not read")
    accounts = row.get("request_accounting") or {}
    measured = foreign.whole(accounts.get("records_total")) - foreign.whole(accounts.get("records_warmup_dropped"))
    if n is not None and measured >= n:
        found["error_rate"] = Measure((measured - n) / measured, "ratio", measured)
    for name in row:
        if name not in _TOP and name not in names.POWER and name not in names.HANDLED:
            notes.add(name, "no measure of ours", row[name])
    return found
