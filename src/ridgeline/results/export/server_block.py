"""The server block of InferenceX's agentic row: cache, KV cache and token counters, by engine.

In: a replay's samples. Out: the block with every key of the peer's, null where the engine does not tell. Sums are
increases over the profiling phase; levels are the highest of any series.
"""

from __future__ import annotations

from typing import Any

from ridgeline.core.record import Replay
from ridgeline.results.metrics.pools import vllm_pools
from ridgeline.results.metrics.scrapes import Scrapes, Window
from ridgeline.results.stored import StoredReplay


def server_block(replay: Replay | StoredReplay) -> dict[str, Any]:
    """Server metrics over the profiling phase, from whichever engine's names are there."""
    start, end = replay.phases.profiling_start_ns, replay.phases.drained_ns or replay.phases.profiling_end_ns
    scrapes = Scrapes(tuple(sorted(replay.samples, key=lambda sample: sample.at_ns)))
    adapter = next((name for name in ("vllm", "sglang") if any(n.startswith(f"{name}:") for n in scrapes.names)), None)
    if adapter is None or start is None or end is None:
        found = _Server(Scrapes(()), (0.0, 0.0)).empty()
        return {"present": False, "adapter": None, "metric_count": len(scrapes.names), **found}
    server = _Server(scrapes, (float(start), float(end)))
    found = server.vllm() if adapter == "vllm" else server.sglang()
    return {"present": True, "adapter": adapter, "metric_count": len(scrapes.names), **found}


class _Server:
    """The peer's server block, by engine."""

    def __init__(self, scrapes: Scrapes, window: Window) -> None:
        self.scrapes, self.window = scrapes, window

    def sum(self, name: str, label: str | None = None) -> float | None:
        return self.scrapes.increase((name,), self.window, label)

    def peak(self, name: str) -> float | None:
        level = self.scrapes.level((name,), self.window)
        return level.peak if level else None

    def empty(self) -> dict[str, Any]:
        cache = (
            "gpu_cache_hit_rate", "cpu_cache_hit_rate", "external_cache_hit_rate", "overall_cache_hit_rate",
            "prefix_cache_hits", "prefix_cache_queries", "external_prefix_cache_hits", "external_prefix_cache_queries",
            "cached_tokens_by_source", "frontend_cache_hit_rate", "router_kv_hit_rate", "router_shared_cache_hit_rate",
            "frontend_cached_tokens", "frontend_input_tokens",
        )  # fmt: skip
        kv = ("gpu_usage_pct", "gpu_total_tokens", "cpu_usage_pct", "cpu_used_tokens", "cpu_total_tokens")
        offload = [
            f"{what}_{way}{unit}"
            for what, unit in (("bytes", ""), ("time", ""), ("bandwidth", "_bytes_per_second"))
            for way in ("gpu_to_cpu", "cpu_to_gpu")
        ]
        by_source = ("gpu_cache_hit", "cpu_or_external_cache_hit", "computed", "raw")
        return {
            "cache": dict.fromkeys(cache),
            "kv_cache": dict.fromkeys(kv),
            "kv_offload": dict.fromkeys(offload),
            "tokens": {
                **dict.fromkeys(("prompt_total", "generation_total", "requests_completed")),
                "prompt_by_source": dict.fromkeys(by_source),
            },
            "sources": [],
        }

    def vllm(self) -> dict[str, Any]:
        found = self.empty()
        hits, queries = self.sum("vllm:prefix_cache_hits_total"), self.sum("vllm:prefix_cache_queries_total")
        far_hits = self.sum("vllm:external_prefix_cache_hits_total")
        far_queries = self.sum("vllm:external_prefix_cache_queries_total")
        name = "vllm:prompt_tokens_by_source_total"
        kinds = ("local_compute", "local_cache_hit", "external_kv_transfer")
        source = {kind: self.sum(name, f'source="{kind}"') or 0.0 for kind in kinds} if self.sum(name) else {}
        cache = {
            "gpu_cache_hit_rate": _ratio(hits, queries),
            "external_cache_hit_rate": _ratio(far_hits, far_queries),
            "overall_cache_hit_rate": _ratio(hits, queries),
            "prefix_cache_hits": hits,
            "prefix_cache_queries": queries,
            "external_prefix_cache_hits": far_hits,
            "external_prefix_cache_queries": far_queries,
        }
        if source:  # one denominator for all tiers, where the engine tells where every prompt token came from
            total = sum(source.values())
            cache |= {
                "gpu_cache_hit_rate": source["local_cache_hit"] / total,
                "external_cache_hit_rate": source["external_kv_transfer"] / total,
                "overall_cache_hit_rate": (source["local_cache_hit"] + source["external_kv_transfer"]) / total,
            }
            found["tokens"]["prompt_by_source"] = {
                "gpu_cache_hit": source["local_cache_hit"],
                "cpu_or_external_cache_hit": source["external_kv_transfer"],
                "computed": source["local_compute"],
                "raw": source,
            }
        found["cache"] |= cache
        found["kv_cache"]["gpu_usage_pct"] = self.peak("vllm:kv_cache_usage_perc")
        found["kv_cache"]["gpu_total_tokens"] = self._vllm_pool_tokens()
        found["tokens"] |= {
            "prompt_total": self.sum("vllm:prompt_tokens_total"),
            "generation_total": self.sum("vllm:generation_tokens_total"),
            "requests_completed": self.sum("vllm:request_success_total"),
        }
        return found

    def _vllm_pool_tokens(self) -> float | None:
        """KV tokens over all ranks that show them; None when none does."""
        return round(sum(size for _, size in vllm_pools(self.scrapes))) or None

    def sglang(self) -> dict[str, Any]:
        found = self.empty()
        prompt = self.sum("sglang:prompt_tokens_total")
        name = "sglang:cached_tokens_total"
        tiers = {tier: self.sum(name, f'cache_source="{tier}"') for tier in ("device", "host")}
        known = {tier: value for tier, value in tiers.items() if value is not None}
        gpu = _ratio(tiers["device"], prompt) if known else self.peak("sglang:cache_hit_rate")
        found["cache"] |= {
            "gpu_cache_hit_rate": gpu,
            "cpu_cache_hit_rate": _ratio(tiers["host"], prompt),
            "overall_cache_hit_rate": _ratio(sum(known.values()), prompt) if known else gpu,
            "cached_tokens_by_source": known or None,
        }
        found["kv_cache"]["gpu_usage_pct"] = self.peak("sglang:token_usage")
        found["kv_cache"]["gpu_total_tokens"] = self.peak("sglang:max_total_num_tokens")
        found["tokens"] |= {
            "prompt_total": prompt,
            "generation_total": self.sum("sglang:generation_tokens_total"),
            "requests_completed": self.sum("sglang:num_requests_total"),
        }
        if known and prompt is not None:
            found["tokens"]["prompt_by_source"] = {
                "gpu_cache_hit": tiers["device"],
                "cpu_or_external_cache_hit": tiers["host"],
                "computed": prompt - sum(known.values()),
                "raw": known,
            }
        return found


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
