"""Engine options as words of `ridgeline emulate`, and back: whoever starts an emulated engine tells it everything, and
whoever reads its command line knows all that it was told.

    options_of_words(words_of(options, model, gpu)) == options

Flags carry vLLM's names. What has its default is not said, but for the limits, which people look for.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.topology import Topology
from ridgeline.engine.formats import Formats
from ridgeline.engine.graphs import MODES
from ridgeline.engine.kvlayers import ROWS
from ridgeline.engine.options import ROUTERS, EngineOptions, options_from


class Flag(NamedTuple):
    """One option. `kind`: what its value is (int, float, str), INTS for several, None for a switch."""

    field: str
    kind: Any
    help: str = ""
    choices: Sequence[str] | None = None
    always: bool = False  # said even when it is the default

    @property
    def name(self) -> str:
        return "--" + self.field.replace("_", "-")


INTS = "ints"
FLAGS = (
    Flag("max_model_len", int),
    Flag("max_num_seqs", int, always=True),
    Flag("max_num_batched_tokens", int, always=True),
    Flag("block_size", int),
    Flag("gpu_memory_utilization", float),
    Flag("kv_cache_dtype", str, choices=("auto", "fp8")),
    Flag("expert_padding", int, "columns that an expert's shard is rounded up to (default: as vLLM does)"),
    Flag("kv_rows", str, "how DeepSeek-V4's latents are stored (default packed)", tuple(ROWS)),
    Flag("hybrid_kv_cache_manager", None, "windows and states have cache groups of their own (default)"),
    Flag("kv_cache_memory_bytes", int, "cache of one GPU, instead of what memory arithmetic gives"),
    Flag("kv_tokens", int, "KV pool per rank in tokens, instead of what memory arithmetic gives"),
    Flag("enable_prefix_caching", None, "(default)"),
    Flag("long_prefill_token_threshold", int, "tokens of one prompt in a step (default: no limit)"),
    Flag("async_scheduling", None, "a batch is put together while the one before runs (default)"),
    Flag("watermark", float, "share of blocks kept free when admitting (default 0)"),
    Flag("cudagraph_mode", str, choices=tuple(MODES)),
    Flag("cudagraph_capture_sizes", INTS, "captured sizes in tokens"),
    Flag("max_cudagraph_capture_size", int, "largest captured size in tokens"),
    Flag("dense_capture", None, "every size to 32 has a graph"),
    Flag("v2_runner", None, "vLLM's newer model runner"),
    Flag("num_speculative_tokens", int, "draft tokens a step (default 0)"),
    Flag("draft_layer", None, "the model's own layer drafts (default); else something without weights or cache"),
    Flag("acceptance_length", float, "tokens a verification yields (default: golden, where known)"),
    Flag("prefill_schedule_interval", int, "admit new requests in every N-th step"),
    Flag("prefill_first", None, "SGLang's order: a step prefills or decodes"),
    Flag("scheduler_reserve_full_isl", None, "admit only what has room for all of its prompt (default; not with "
         "--prefill-first)"),
    Flag("checkpoints", str, "where windows and states can be resumed (default all)", ("all", "prompt", "chunks")),
    Flag("checkpoint_interval", int, "and at multiples of so many tokens"),
    Flag("host_kv_tokens", int, "second KV tier in host memory, tokens per rank"),
    Flag("host_lease_s", float, "seconds for which what was found there is kept (default 5)"),
    Flag("router", str, "spreads requests over ranks (default session)", ROUTERS),
)  # fmt: skip


def add_engine(parser: argparse.ArgumentParser) -> None:
    """The options of an engine, for a parser that may have others."""
    add = parser.add_argument
    add("--model", required=True, help="name of a known model, or path of a config.json")
    add("--gpu", required=True, help="GPU name or runner label, e.g. h200, mi355x-amds")
    add("--tp", "--tensor-parallel-size", type=int, default=1, help="GPUs (default 1)")
    add("--pp", "--pipeline-parallel-size", type=int, default=1, help="pipeline stages (default 1)")
    add("--dcp", "--decode-context-parallel-size", type=int, default=1, help="GPUs of tp that share a request's cache")
    add("--pcp", "--prefill-context-parallel-size", type=int, default=1, help="GPUs that share a prompt, beside tp")
    add("--ep", type=int, default=1, help="expert-parallel size inside the same GPUs (default 1)")
    add("--dp-attn", action="store_true", help="attention is data-parallel over the tp GPUs")
    add("--precision", help="bf16, fp8, fp4 or int4 (default: as the model is shipped)")
    add("--formats", metavar="EXPERTS,LINEAR", help="weight formats, where they are others than the precision's")
    add("--engine", default="vllm", help="engine build whose cost parameters apply (default vllm)")
    for flag in FLAGS:
        more: dict[str, Any] = {"help": flag.help or None, "dest": flag.field}
        if flag.kind is None:
            more["action"] = argparse.BooleanOptionalAction
        elif flag.kind == INTS:
            more |= {"type": int, "nargs": "+"}
        else:
            more |= {"type": flag.kind, "choices": flag.choices}
        add(flag.name, **more)
    add("--seed", type=int, default=0)


def options_given(given: argparse.Namespace) -> EngineOptions:
    """The options of a command line. Raises InputError with everything that is wrong."""
    told = {flag.field: getattr(given, flag.field) for flag in FLAGS}
    if told["cudagraph_capture_sizes"] is not None:
        told["cudagraph_capture_sizes"] = tuple(told["cudagraph_capture_sizes"])
    if told["scheduler_reserve_full_isl"] is None and told["prefill_first"]:
        told["scheduler_reserve_full_isl"] = False
    topology = Topology(given.tp, given.pp, given.dcp, given.pcp, given.ep, given.dp_attn)
    options = options_from(
        given.model, given.gpu, topology, given.precision, engine=given.engine, seed=given.seed, **told
    )
    if given.formats is None:
        return options
    experts, comma, linear = given.formats.partition(",")
    if not comma:
        raise InputError([Problem("must be two formats, as in mxfp4,fp8", key="--formats")])
    return replace(options, formats=Formats(experts, linear))


def options_of_words(words: Sequence[str]) -> EngineOptions:
    """The options that a command line of `ridgeline emulate` gives; words of others are passed over. Raises
    InputError."""
    parser = _Reader(add_help=False, allow_abbrev=False)
    add_engine(parser)
    after = words.index("emulate") + 1 if "emulate" in words else 0
    return options_given(parser.parse_known_args(list(words[after:]))[0])


class _Reader(argparse.ArgumentParser):
    """A parser that tells what is wrong to its caller."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"the emulated engine's command line is not understood: {message}")


def words_of(options: EngineOptions, model: str, gpu: str) -> list[str]:
    """The words that give these options, but for the seed. `model` and `gpu`: the names by which to find theirs."""
    topology = options.topology
    precision = None if options.precision == "as shipped" else options.precision
    base = options_from(
        options.arch,
        options.gpu,
        topology,
        precision,
        engine=options.engine,
        prefill_first=options.prefill_first,
        scheduler_reserve_full_isl=not options.prefill_first,
    )
    words = ["--model", model, "--gpu", gpu, *(["--precision", precision] if precision else [])]
    words += ["--tp", str(topology.tp), "--ep", str(topology.ep), *(["--dp-attn"] if topology.dp_attn else [])]
    for name in ("pp", "dcp", "pcp"):
        words += [f"--{name}", str(getattr(topology, name))] if getattr(topology, name) > 1 else []
    if options.formats != base.formats:
        words += ["--formats", f"{options.formats.experts},{options.formats.linear}"]
    words += ["--engine", options.engine] if options.engine != "vllm" else []
    for flag in FLAGS:
        value = getattr(options, flag.field)
        if flag.field == "prefill_first":
            words += [flag.name] if value else []
        elif flag.always or value != getattr(base, flag.field):
            words += _said(flag, value)
    return words


def _said(flag: Flag, value: Any) -> list[str]:
    if flag.kind is None:
        return [flag.name if value else "--no-" + flag.name.removeprefix("--")]
    if flag.kind == INTS:
        return [flag.name, *map(str, value)]
    return [flag.name, repr(value) if isinstance(value, float) else str(value)]
