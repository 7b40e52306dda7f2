"""TensorRT-LLM's command line and its options file to a `Launch`: flags have underscores, the rest is YAML.

Its cache is a share (`utilization`) of what is free after loading, which no check proves: memory is UNKNOWN.
"""

from __future__ import annotations

from typing import Any

import yaml

from ridgeline.core.deployment import Service
from ridgeline.core.errors import Problem
from ridgeline.core.topology import Topology
from ridgeline.engine.argv import flags_of, last
from ridgeline.engine.builds import Build
from ridgeline.engine.launch import Launch, Speculation
from ridgeline.engine.vllm_flags import Options

_FILES = ("extra-llm-api-options", "config")


def trt_launch(service: Service, build: Build) -> Launch:
    """The launch of a `trtllm-serve`. Graph sizes are batch sizes in requests, per rank."""
    before, flags_in_order = flags_of(service.argv)
    o = Options(last(flags_in_order))
    problems: list[Problem] = []
    config = _config(service, o, problems)
    tp, ep = o.integer("tp-size") or 1, o.integer("ep-size") or 1
    attention = bool(config.get("enable_attention_dp"))
    graphs = config.get("cuda_graph_config") or {}
    sizes = graphs.get("batch_sizes")
    drafts = (config.get("speculative_config") or {}).get("num_nextn_predict_layers")
    cache = config.get("kv_cache_config") or {}
    forced = dict(service.env).get("TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS")  # of the drafts, without the bonus
    length = None if forced is None else 1 + _number(forced.text, 0.0)
    return Launch(
        service=service,
        build=build,
        topology=Topology(tp, o.integer("pp-size") or 1, ep=ep, dp_attn=attention),
        flags=o.flags,
        env=dict(service.env),
        model=next((word for word in before[1:] if "/" in word), ""),
        max_model_len=o.integer("max-seq-len"),
        max_num_seqs=o.integer("max-batch-size") or config.get("max_batch_size"),
        budget=o.integer("max-num-tokens") or config.get("max_num_tokens"),
        mode="FULL_DECODE_ONLY" if graphs else "NONE",
        sizes=tuple(int(size) for size in sizes) if isinstance(sizes, list) else None,
        top=graphs.get("max_batch_size"),
        dense=bool(graphs.get("enable_padding")),
        speculation=Speculation("MTP", drafts, length) if isinstance(drafts, int) and drafts > 0 else None,
        utilization=_number(cache.get("free_gpu_memory_fraction"), 0.9),
        block_size=round(_number(cache.get("tokens_per_block"), 32)),
        kv_dtype=str(cache.get("dtype") or "auto"),
        prefix_caching=cache.get("enable_block_reuse") is not False,
        problems=(*o.problems, *problems),
    )


def _number(value: Any, default: float) -> float:
    try:
        return default if value is None else float(value)
    except (TypeError, ValueError):
        return default


def _config(service: Service, o: Options, problems: list[Problem]) -> dict[str, Any]:
    """The options file, where the deployment carries its text."""
    wanted = next((text for name in _FILES if (text := o.text(name))), None)
    item = next((item for name, item in service.files or () if wanted and wanted.endswith(name)), None)
    if item is None:
        return {}
    try:
        found = yaml.safe_load(item.text)
    except yaml.YAMLError as error:
        problems.append(Problem(f"not YAML: {' '.join(str(error).split())}", item.origin, "--extra_llm_api_options"))
        return {}
    return found if isinstance(found, dict) else {}
