"""vLLM's (and ATOM's, whose names are vLLM's) command line to a `Launch`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ridgeline.core.deployment import Service
from ridgeline.core.errors import Problem
from ridgeline.core.topology import Topology
from ridgeline.engine.argv import Flag, flags_of, last
from ridgeline.engine.builds import Build, async_by_default
from ridgeline.engine.graphs import MODES
from ridgeline.engine.launch import Launch, Speculation

_TRUE = ("1", "true", "yes", "on")
# Models that vLLM 0.24 runs on its newer model runner unless told not to (seen in a start-up log).
V2_FAMILIES = ("llama",)


class Options:
    """Typed reads of flags; what is wrong is noted in `problems`."""

    def __init__(self, flags: Mapping[str, Flag]) -> None:
        self.flags = flags
        self.problems: list[Problem] = []

    def _read(self, name: str, convert: Callable[[str], Any], what: str) -> Any:
        flag = self.flags.get(name)
        if flag is None or flag.value is None:
            return None
        try:
            return convert(flag.value)
        except ValueError:
            self.problems.append(Problem(f"must be {what}, is `{flag.value}`", flag.where, f"--{name}"))
            return None

    def integer(self, name: str) -> int | None:
        value: int | None = self._read(name, human_int, "an integer")
        return value

    def number(self, name: str) -> float | None:
        value: float | None = self._read(name, float, "a number")
        return value

    def switch(self, name: str) -> bool | None:
        """True or False when the flag is there, else None."""
        flag = self.flags.get(name)
        return None if flag is None else flag.value is None or flag.value.lower() in _TRUE

    def text(self, name: str) -> str | None:
        flag = self.flags.get(name)
        return flag.value if flag else None

    def integers(self, name: str) -> tuple[int, ...] | None:
        flag = self.flags.get(name)
        if flag is None:
            return None
        try:
            return tuple(int(word) for text in flag.values for word in text.strip("[]").replace(",", " ").split())
        except ValueError:
            self.problems.append(Problem(f"must be integers, is `{' '.join(flag.values)}`", flag.where, f"--{name}"))
            return None

    def json(self, name: str) -> dict[str, Any]:
        """An object, with dotted spellings (`--name.key value`) merged in."""
        found = self._read(name, json.loads, "a JSON object") or {}
        if not isinstance(found, dict):
            self.problems.append(Problem("must be a JSON object", self.flags[name].where, f"--{name}"))
            found = {}
        for key, flag in self.flags.items():
            if key.startswith(name + "."):
                found[key.removeprefix(name + ".").replace("-", "_")] = _plain(flag.value)
        return found


def human_int(text: str) -> int:
    """`8192`, `8k` (1000s) or `8K` (1024s), as vLLM reads sizes. Raises ValueError."""
    units = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    if text and text[-1] in units:
        return int(float(text[:-1]) * units[text[-1]])
    return int(text)


def _plain(text: str | None) -> Any:
    try:
        return json.loads(text) if text is not None else True
    except ValueError:
        return text


def vllm_launch(service: Service, build: Build, *, large_gpu: bool = True, family: str = "") -> Launch:
    """The launch of a vLLM service. `large_gpu`: 70 GiB of memory or more (vLLM's defaults differ); `family`: the
    model's, which decides the model runner."""
    before, flags_in_order = flags_of(service.argv)
    o = Options(last(flags_in_order))
    env = dict(service.env)
    compilation = o.json("compilation-config")
    speculation = _speculation(o)
    topology, rank_tp = _topology(o)
    mode, sizes, top, compile_mode = _graphs(o, compilation)
    length = o.text("max-model-len")
    auto = length in ("auto", "-1")
    connector = o.json("kv-transfer-config")
    v2_env = env["VLLM_USE_V2_MODEL_RUNNER"].text if "VLLM_USE_V2_MODEL_RUNNER" in env else None
    method = speculation.method if speculation else ""
    v2_default = build.kind == "vllm" and build.version >= (0, 24, 0) and family in V2_FAMILIES and method != "ngram"
    asynchronous = o.switch("async-scheduling")
    if asynchronous is None:
        asynchronous = async_by_default(build) and method != "ngram"
    rows = "packed" if (o.text("kv-cache-dtype") or "auto").startswith("fp8") else "bf16"
    backend = o.text("attention-backend") or o.json("attention-config").get("backend")
    if rows == "packed" and backend and "FLASHINFER" in str(backend).upper():
        rows = "plain"
    offload = o.number("kv-offloading-size")
    return Launch(
        service=service,
        build=build,
        topology=topology,
        rank_tp=rank_tp,
        flags=o.flags,
        env=env,
        model=o.text("model") or next((word for word in before[::-1] if "/" in word or word[:1].isupper()), ""),
        utilization=_or(o.number("gpu-memory-utilization"), 0.9),
        kv_bytes=o.integer("kv-cache-memory-bytes") or o.integer("kv-cache-memory"),
        max_model_len=None if auto else o.integer("max-model-len"),
        auto_len=auto,
        max_num_seqs=_or(o.integer("max-num-seqs"), 1024 if large_gpu else 256),
        budget=_or(o.integer("max-num-batched-tokens"), 8192 if large_gpu else 2048),
        block_size=_or(o.integer("block-size"), 16),
        kv_dtype=o.text("kv-cache-dtype") or "auto",
        kv_rows=rows,
        prefix_caching=_or(o.switch("enable-prefix-caching"), True),
        async_scheduling=asynchronous,
        mode=mode,
        sizes=sizes,
        top=top,
        dense=o.text("performance-mode") == "interactivity",
        eager=bool(o.switch("enforce-eager")),
        compile_mode=compile_mode,
        v2_runner=v2_env in _TRUE if v2_env is not None else v2_default or method == "dspark",
        speculation=speculation,
        hybrid=not o.switch("disable-hybrid-kv-cache-manager"),
        connector=connector,
        native_offload_gib=offload,
        moe_backend=o.text("moe-backend"),
        attention_backend=None if backend is None else str(backend),
        prefill_interval=o.integer("prefill-schedule-interval"),
        long_prefill=o.integer("long-prefill-token-threshold") or 0,
        reserves=o.switch("scheduler-reserve-full-isl") is not False,
        blocks_override=o.integer("num-gpu-blocks-override"),
        redundant_experts=int(o.json("eplb-config").get("num_redundant_experts") or 0),
        problems=tuple(o.problems),
    )


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _topology(o: Options) -> tuple[Topology, int]:
    """The layout over all GPUs, and the GPUs of one data-parallel rank."""
    tp, dp = o.integer("tensor-parallel-size") or 1, o.integer("data-parallel-size") or 1
    if o.switch("enable-dp-attention"):  # ATOM: data-parallel attention inside tp
        tp, dp = 1, tp
    pp, pcp = o.integer("pipeline-parallel-size") or 1, o.integer("prefill-context-parallel-size") or 1
    dcp = o.integer("decode-context-parallel-size") or 1
    whole = tp * dp
    ep = whole * pcp if o.switch("enable-expert-parallel") else 1
    return Topology(whole, pp, dcp, pcp, ep, dp_attn=dp > 1), tp if dp > 1 else 1


def _speculation(o: Options) -> Speculation | None:
    raw = o.json("speculative-config")
    if not raw and o.text("method") is None:
        return None
    if not raw:  # ATOM's spelling
        raw = {"method": o.text("method"), "num_speculative_tokens": o.integer("num-speculative-tokens")}
        length = o.number("spec-decode-acceptance-length")
        raw |= {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": length} if length else {}
    drafts = raw.get("num_speculative_tokens")
    if not isinstance(drafts, int) or drafts < 1:
        flag = o.flags.get("speculative-config")
        text = f"num_speculative_tokens must be a positive integer, is {drafts!r}"
        o.problems.append(Problem(text, flag.where if flag else None, "--speculative-config"))
        drafts = 1
    length = raw.get("synthetic_acceptance_length")
    return Speculation(
        str(raw.get("method") or "mtp"),
        drafts,
        float(length) if isinstance(length, (int, float)) else None,
        str(raw.get("rejection_sample_method") or "standard"),
        raw,
    )


def _graphs(o: Options, compilation: Mapping[str, Any]) -> tuple[str, tuple[int, ...] | None, int | None, str | None]:
    mode = str(o.text("cudagraph-mode") or compilation.get("cudagraph_mode") or "FULL_AND_PIECEWISE").rpartition(".")[2]
    if mode not in MODES:
        o.problems.append(Problem(f"`{mode}` is not one of {', '.join(MODES)}", key="cudagraph_mode"))
        mode = "FULL_AND_PIECEWISE"
    listed = compilation.get("cudagraph_capture_sizes")
    sizes = o.integers("cudagraph-capture-sizes")
    if sizes is None and isinstance(listed, list):
        sizes = tuple(int(size) for size in listed)
    top = o.integer("max-cudagraph-capture-size")
    if top is None and isinstance(compilation.get("max_cudagraph_capture_size"), int):
        top = int(compilation["max_cudagraph_capture_size"])
    compile_mode = compilation.get("mode")
    if o.switch("enforce-eager"):
        mode = "NONE"
    return mode, sizes, top, None if compile_mode is None else str(compile_mode)
