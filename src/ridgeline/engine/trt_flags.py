"""TensorRT-LLM's command line and its options file to a `Launch`: flags have underscores, the rest is YAML.

Its cache is a share of what is free after loading, so only the graph rules of the spec can be asked; memory is UNKNOWN.
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
        speculation=Speculation("MTP", drafts) if isinstance(drafts, int) and drafts > 0 else None,
        problems=(*o.problems, *problems),
    )


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
