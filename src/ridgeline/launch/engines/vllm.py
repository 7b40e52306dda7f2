"""What vLLM's log says about itself, 0.19 to 0.32.

The shapes marked `seen` were read from logs of vLLM 0.32.0 on CPU and 0.24.0 on an H200; the others were read in its
source (0.26, 0.32) and in launch scripts. Lines that vLLM prints once come from rank 0; the KV cache lines come
once a data-parallel rank.
"""

from __future__ import annotations

from ridgeline.launch.engines.shapes import Shape, shape, text, whole

PARSER = "vllm/2"

SHAPES: tuple[Shape, ...] = (
    shape("engine_version", r"Initializing a V1 LLM engine \(v([^)]+)\)", text, needle="V1 LLM engine", seen=True),
    shape("prefix_caching", r"enable_prefix_caching=(True|False)", text, needle="enable_prefix_caching=", seen=True),
    shape("chunked_prefill", r"enable_chunked_prefill=(True|False)", text, needle="enable_chunked_prefill=", seen=True),
    shape("kv_cache_dtype", r"kv_cache_dtype=([\w.]+)", text, needle="kv_cache_dtype=", seen=True),
    shape(
        "cudagraph_mode",
        r"'cudagraph_mode': (?:<CUDAGraphMode\.)?'?(\w+)",
        text,
        needle="'cudagraph_mode': ",
        seen=True,
    ),
    shape(
        "capture_sizes",
        r"'cudagraph_capture_sizes': (\[[\d, ]*\])",
        text,
        needle="'cudagraph_capture_sizes': ",
        seen=True,
    ),
    # memory
    shape("weights_gib", r"Model loading took ([\d.]+) GiB", needle="Model loading took", seen=True, phase="load"),
    # the summary after profiling: 0.26 tells weights and the rest apart, 0.32 does not
    shape("free_at_start_gib", r"Free memory on device \S*\s*\(([\d.]+)/", needle="Free memory on device"),
    shape("weights_used_gib", r"Actual usage is ([\d.]+) GiB for weight", needle="Actual usage is"),
    shape("consumed_gib", r"Actual usage is ([\d.]+) GiB for consumed memory", needle="Actual usage is"),
    shape("activation_gib", r"([\d.]+) GiB for peak activation", needle="for peak activation"),
    shape("non_torch_gib", r"([\d.]+) GiB for non-torch memory", needle="for non-torch memory"),
    shape("graph_memory_gib", r"([\d.]+) GiB for CUDAGraph memory", needle="for CUDAGraph memory"),
    shape("kv_bytes_suggested", r"--kv-cache-memory=(\d+)", needle="--kv-cache-memory="),
    shape(
        "kv_gib",
        r"Available KV cache memory: (-?[\d.]+) GiB",
        needle="Available KV cache memory",
        seen=True,
        phase="kv",
    ),
    shape("kv_tokens", r"KV cache size: ([\d,]+) tokens", needle="KV cache size:", seen=True, phase="kv"),
    shape(
        "kv_concurrency",
        r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x",
        needle="Maximum concurrency for",
        seen=True,
    ),
    shape(
        "max_model_len",
        r"Maximum concurrency for ([\d,]+) tokens per request",
        needle="Maximum concurrency for",
        seen=True,
    ),
    shape("auto_fit_reduced", r"Auto-fit max_model_len: reduced from \d+ to (\d+)", needle="Auto-fit max_model"),
    shape("hybrid_manager_disabled", r"Hybrid KV cache manager is disabled.*", whole, needle="Hybrid KV cache manager"),
    shape("kv_padding_percent", r"padding layers, may waste at most ([\d.]+)% KV cache", needle="padding layers"),
    shape("kv_layout", r"Using DeepSeek's (\w+) KV cache format", text, needle="KV cache format"),
    shape("indexer_dtype", r"Using (\w+) indexer cache for Lightning Indexer", text, needle="indexer cache"),
    # graphs
    # the first model runner says "decode, FULL", the second "FULL"
    shape(
        "full_graphs",
        r"Capturing CUDA graphs \((?:decode, )?FULL\): 100%.*?(\d+)/\1\b",
        needle="FULL): 100%",
        seen=True,
    ),
    shape(
        "piecewise_graphs",
        r"Capturing CUDA graphs \((?:mixed prefill-decode, )?PIECEWISE\): 100%.*?(\d+)/\1\b",
        needle="PIECEWISE): 100%",
        seen=True,
    ),
    shape(
        "graph_gib",
        r"Graph capturing finished in \d+ secs, took (-?[\d.]+) GiB",
        needle="Graph capturing finished",
        seen=True,
    ),
    shape("graph_pool_gib", r"CUDA graph pool memory: (-?[\d.]+) GiB \(actual\)", needle="CUDA graph pool memory"),
    shape("graph_estimate_gib", r"CUDA graph pool memory: .* (-?[\d.]+) GiB \(estimated\)", needle="CUDA graph pool"),
    shape("graphs_skipped", r"Skipping CUDA graph capture.*", whole, needle="Skipping CUDA graph capture"),
    shape(
        "graphs_skipped",
        r"Enforce eager set, disabling torch\.compile.*",
        whole,
        needle="Enforce eager set",
        seen=True,
    ),
    shape("cudagraph_mode_downgraded", r"CUDAGraphMode\.\w+ is not supported.*", whole, needle="is not supported"),
    shape("cudagraph_mode_downgraded", r"Overriding cudagraph_mode.*", whole, needle="Overriding cudagraph_mode"),
    shape("graph_sizes_cut", r"Truncating max_cudagraph_capture_size.*", whole, needle="Truncating max_cudagraph"),
    shape("graph_sizes_cut", r"cudagraph_capture_sizes specified.*overridden.*", whole, needle="overridden"),
    shape("compile_mode", r"'mode': <CompilationMode\.(\w+)", text, needle="'mode': <CompilationMode", seen=True),
    shape("compile_disabled", r"disabling vLLM's torch\.compile pipeline.*", whole, needle="torch.compile pipeline"),
    shape("compile_disabled", r"Auto-enabling VLLM_USE_BREAKABLE_CUDAGRAPH.*", whole, needle="BREAKABLE_CUDAGRAPH"),
    # backends
    shape("model_runner", r"Using (V2) Model Runner", text, needle="Using V2 Model Runner", seen=True),
    shape("model_runner", r"using the (V1)(?: model runner)?", text, needle="using the V1", seen=True),
    shape("attention_backend", r"Using (\w+) attention backend out of", text, needle="attention backend", seen=True),
    shape("attention_backend", r"Using (\w+) (?:attention )?backend\.", text, needle="ttention backend."),
    shape("moe_backend", r"Using '?(?!\w*Experts\b)([\w.-]+)'? (?:\w+ )?MoE backend", text, needle="MoE backend"),
    shape("moe_prepare", r"Using (\w*Prepare(?:And)?Finalize\w*)", text, needle="Finalize"),
    shape("moe_experts", r"Using (\w*Experts\w*)", text, needle="Experts"),
    shape("moe_backend_refused", r".*MoE backend.*does not support the deployment.*", whole, needle="does not support"),
    shape("moe_tuning_missing", r"Using default MoE config\..*", whole, needle="Using default MoE config"),
    shape(
        "tuning_dispatch_rules",
        r"Loaded FlyDSL launch-geometry tuning from .*\(dispatch=(\d+) rules",
        needle="launch-geometry tuning",
    ),
    shape(
        "tuning_combine_rules",
        r"Loaded FlyDSL launch-geometry tuning from .*combine=(\d+) rules",
        needle="launch-geometry tuning",
    ),
    shape("tuning_fallback", r"Tuning file .*has no rule matching shape.*", whole, needle="has no rule matching shape"),
    shape(
        "async_scheduling",
        r"Asynchronous scheduling is (enabled|disabled)",
        text,
        needle="Asynchronous scheduling",
        seen=True,
    ),
    # while it runs: a row of the table that --cudagraph-metrics prints, as "TOKENS MODE COUNT"
    shape(
        "graph_steps",
        r"\| (\d+) +\| \d+ +\| -?\d+ +\| (\w+) +\| (\d+) +\|",
        lambda match: f"{match[1]} {match[2]} {match[3]}",
        needle=" | ",
        every=True,
    ),
    shape("preemptions_logged", r"Preemptions: (\d+)", needle="Preemptions: "),
    shape("deferred_logged", r"Deferred: (\d+)", needle="Deferred: "),
    shape("prefix_hit_percent", r"Prefix cache hit rate: ([\d.]+)%", needle="Prefix cache hit rate", seen=True),
    shape("external_hit_percent", r"External prefix cache hit rate: ([\d.]+)%", needle="External prefix cache hit"),
    shape("acceptance_length_logged", r"Mean acceptance length: ([\d.]+)", needle="Mean acceptance length"),
    shape(
        "acceptance_rates_logged",
        r"Per-position acceptance rate: ([\d., ]*\d)",
        text,
        needle="Per-position acceptance rate",
    ),
    shape("draft_acceptance_percent", r"Draft acceptance rate: ([\d.]+)%", needle="Draft acceptance rate"),
)
