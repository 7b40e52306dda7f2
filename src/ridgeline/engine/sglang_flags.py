"""SGLang's command line to a `Launch`. Limits that SGLang divides by its data-parallel size are divided here."""

from __future__ import annotations

from ridgeline.core.deployment import Service
from ridgeline.core.topology import Topology
from ridgeline.engine.argv import flags_of, last
from ridgeline.engine.builds import Build
from ridgeline.engine.launch import Launch, Speculation
from ridgeline.engine.vllm_flags import Options


def sglang_launch(service: Service, build: Build) -> Launch:
    """The launch of an SGLang service. `--max-running-requests` is for all ranks, and under data-parallel attention
    `--chunked-prefill-size` too."""
    _, flags_in_order = flags_of(service.argv)
    o = Options(last(flags_in_order))
    tp = o.integer("tp-size") or o.integer("tp") or o.integer("tensor-parallel-size") or 1
    attention = bool(o.switch("enable-dp-attention"))
    ep = o.integer("ep-size") or o.integer("ep") or o.integer("expert-parallel-size") or 1
    dp = o.integer("dp-size") or o.integer("dp") or o.integer("data-parallel-size") or 1
    topology = Topology(tp, o.integer("pp-size") or 1, ep=ep, dp_attn=attention)
    running, chunk = o.integer("max-running-requests"), o.integer("chunked-prefill-size")
    steps = o.integer("speculative-num-steps")
    drafts = o.integer("speculative-num-draft-tokens")
    speculation = None
    if o.text("speculative-algorithm"):
        env = {name: item.text for name, item in service.env}
        simulated = env.get("SGLANG_SIMULATE_ACC_LEN")
        count = drafts - 1 if drafts else steps or 1
        speculation = Speculation(
            str(o.text("speculative-algorithm")),
            max(1, count),
            float(simulated) if simulated else None,
            "synthetic" if simulated else "standard",
        )
    disabled = bool(o.switch("disable-cuda-graph"))
    return Launch(
        service=service,
        build=build,
        topology=topology,
        rank_tp=max(1, tp // dp) if attention else 1,
        flags=o.flags,
        env=dict(service.env),
        model=o.text("model-path") or o.text("model") or "",
        utilization=o.number("mem-fraction-static") or 0.0,
        max_model_len=o.integer("context-length"),
        max_num_seqs=None if running is None else max(1, running // (dp if attention else 1)),
        budget=None if chunk is None else chunk // (dp if attention else 1),
        block_size=o.integer("page-size") or 1,
        kv_dtype=o.text("kv-cache-dtype") or "auto",
        prefix_caching=not o.switch("disable-radix-cache"),
        async_scheduling=not o.switch("disable-overlap-schedule"),
        mode="NONE" if disabled else "FULL_DECODE_ONLY",
        sizes=o.integers("cuda-graph-bs"),
        top=o.integer("cuda-graph-max-bs"),
        eager=disabled,
        speculation=speculation,
        attention_backend=o.text("attention-backend"),
        moe_backend=o.text("moe-runner-backend"),
        prefill_alone=not o.switch("enable-mixed-chunk"),
        redundant_experts=o.integer("ep-num-redundant-experts") or 0,
        hicache_ratio=o.number("hicache-ratio") if o.switch("enable-hierarchical-cache") else None,
        hicache_gb=o.number("hicache-size") if o.switch("enable-hierarchical-cache") else None,
        problems=tuple(o.problems),
    )
