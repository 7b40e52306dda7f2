"""What SGLang's log says about itself. Shapes from public logs and source of 0.5; none was seen in a log of ours."""

from __future__ import annotations

from ridgeline.launch.engines.shapes import Shape, shape, text, whole

PARSER = "sglang/1"

_POOL = "max_total_num_tokens="  # one line a rank with the whole verdict of its start

SHAPES: tuple[Shape, ...] = (
    shape("engine_version", r"sglang[_ ]version[=: ]+'?v?(\d[\w.]*)", text, needle="sglang"),
    shape("load_avail_gib", r"Load weight end\..*avail mem=([\d.]+) GB", needle="Load weight end."),
    shape("weights_gib", r"Load weight end\..*mem usage=([\d.]+) GB", needle="Load weight end.", phase="load"),
    shape("kv_tokens", r"max_total_num_tokens=(\d+)", needle=_POOL, phase="kv"),
    shape("max_total_num_tokens", r"max_total_num_tokens=(\d+)", needle=_POOL),
    shape("max_running", r"max_running_requests=(\d+)", needle=_POOL),
    shape("max_model_len", r"context_len=(\d+)", needle=_POOL),
    shape("chunked_prefill_size", r"chunked_prefill_size=(-?\d+)", needle=_POOL),
    shape("max_prefill_tokens", r"max_prefill_tokens=(\d+)", needle=_POOL),
    shape("available_gpu_gib", r"available_gpu_mem=([\d.]+) GB", needle=_POOL),
    shape("kv_allocated_tokens", r"KV Cache is allocated\..*?#tokens: (\d+)", needle="KV Cache is allocated."),
    shape("kv_gib", r"KV Cache is allocated\..*?(?:K )?size: ([\d.]+) GB", needle="KV Cache is allocated.", phase="kv"),
    shape("chunk_adjusted", r"chunked prefill size is adjusted to (\d+)", needle="chunked prefill size is adjusted"),
    shape("graph_avail_gib", r"Capture cuda graph begin\..*avail mem=([\d.]+) GB", needle="Capture cuda graph begin."),
    shape("graph_gib", r"Capture cuda graph end\..*mem usage=([\d.]+) GB", needle="Capture cuda graph end."),
    shape("capture_sizes", r"Capture cuda graph bs (\[[\d, ]*\])", text, needle="Capture cuda graph bs"),
    shape(
        "cuda_graph_max_bs",
        r"Capture cuda graph bs \[([\d, ]+)\]",
        lambda match: float(max(int(size) for size in match[1].split(","))),
        needle="Capture cuda graph bs",
    ),
    shape("attention_backend", r"attention_backend='(\w+)'", text, needle="attention_backend="),
    shape("moe_backend", r"moe_runner_backend='(\w+)'", text, needle="moe_runner_backend="),
    shape("out_of_memory", r"Not enough memory\. Please try to increase.*", whole, needle="Not enough memory."),
    shape("moe_tuning_missing", r"Using default MoE (?:kernel )?config.*", whole, needle="Using default MoE"),
    shape("decode_graph", r"Decode batch.*cuda graph: (True|False)", text, needle="cuda graph: "),
    shape("acceptance_length_logged", r"Decode batch.*accept len: ([\d.]+)", needle="accept len: "),
    shape("retractions_logged", r"KV cache pool is full\. Retract requests\..*", whole, needle="Retract requests"),
)
