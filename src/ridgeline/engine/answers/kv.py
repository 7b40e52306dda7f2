"""How many bytes a pool needs for its longest request, and what fits into what is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ridgeline.core.errors import InputError
from ridgeline.core.units import GIB
from ridgeline.engine.answers import layouts
from ridgeline.engine.answers.inputs import Inputs
from ridgeline.engine.kv import (
    CHUNK,
    FULL,
    STATE,
    WINDOW,
    Group,
    KvLayer,
    KvPlan,
    capacity,
    longest_that_fits,
    plan_groups,
)
from ridgeline.engine.kvlayers import ROWS, kv_layers
from ridgeline.engine.kvspecs import layer_of
from ridgeline.spec.facts.library import find_model

INPUTS = {
    "layers": "list of KV cache specs in the engine's words (instead of a model)",
    "settings": "of those layers: dcp, disable_hybrid_kv_cache_manager, mamba_cache_mode, prefix_caching, spec_decode",
    "model": "name of a model or path of its config.json (instead of layers)",
    **layouts.INPUTS,
    "kv_cache_dtype": "auto (bf16) or fp8",
    "rows": f"how DeepSeek-V4's latents are stored: {', '.join(ROWS)} (packed)",
    "mtp": "true: with the model's own draft layer",
    "num_spec_tokens": "draft tokens (0): further recurrent states",
    "block_size": "tokens a block (16)",
    "disable_hybrid_kv_cache_manager": "true: windows are kept like full history",
    "avail_gib": "GiB that are there for the cache (none: only the need)",
    "max_model_len": "longest request in tokens (none: the model's)",
    "max_num_batched_tokens": "token budget of a step (8192)",
    "max_concurrent_batches": "batches in flight: 2 with async scheduling (2)",
}
# A row's own labels and its answers, where a whole row of known answers is asked.
_GIVEN = {
    "name", "id", "groups", "bytes_per_block", "needed_bytes", "needed_gib", "num_blocks", "kv_tokens",
    "max_concurrency", "error", "est_max_len", "scheduler_block_size", "hash_block_size",
}  # fmt: skip


class _Asked(NamedTuple):
    """What a question is about. `longest`: where a model tells; `aligned`: blocks are final; `drafts`: there are draft
    layers; `hashing`: block hashes are computed; `sharded`: ranks that share the tokens of a request."""

    layers: list[KvLayer]
    longest: int | None
    aligned: bool
    hybrid: bool
    drafts: bool
    hashing: bool = True
    sharded: int = 1


def answer(data: Mapping[str, Any]) -> dict[str, Any]:
    """Bytes, blocks, tokens and concurrency of one pool on one rank. Raises InputError."""
    inputs = Inputs({key: value for key, value in data.items() if key not in _GIVEN}, INPUTS)
    asked = _specs(inputs) if "layers" in data else _model(inputs)
    limit = inputs.integer("max_model_len", asked.longest, least=1)
    in_flight = inputs.integer("max_num_batched_tokens", 8192, least=1) * inputs.integer(
        "max_concurrent_batches", 2, least=1
    )
    available = inputs.number("avail_gib")
    inputs.done()
    if asked.sharded > 1 and asked.hybrid and any(layer.kind in (WINDOW, CHUNK) for layer in asked.layers):
        return {"error": "AssertionError: DCP not support sliding window."}
    try:
        plan = plan_groups(asked.layers, hybrid=asked.hybrid, aligned=asked.aligned)
    except ValueError as error:
        return {"error": f"NotImplementedError: {error}"}
    return described(plan, asked, None if available is None else int(available * GIB), limit, in_flight)


def _specs(inputs: Inputs) -> _Asked:
    """Layers in the engine's words."""
    settings, given = inputs.data.get("settings") or {}, inputs.data["layers"]
    if not isinstance(settings, Mapping):
        inputs.refuse(f"must be an object, is {settings!r}", "settings")
        settings = {}
    dcp, mode = settings.get("dcp") or 1, str(settings.get("mamba_cache_mode", "none"))
    if type(dcp) is not int or dcp < 1:
        inputs.refuse(f"must be a positive integer, is {dcp!r}", "settings.dcp")
        dcp = 1
    found: list[KvLayer] = []
    for index, spec in enumerate(given if isinstance(given, list) else ()):
        try:
            found.append(layer_of(spec, dcp=dcp, mamba_mode=mode, where=f"layers[{index}]"))
        except InputError as error:
            inputs.problems += error.problems
    if not found and not inputs.problems:
        inputs.refuse("must be a list with at least one spec", "layers")
    hybrid = not (inputs.flag("disable_hybrid_kv_cache_manager") or settings.get("disable_hybrid_kv_cache_manager"))
    hashing = bool(settings.get("prefix_caching", True))
    return _Asked(found, None, True, hybrid, bool(settings.get("spec_decode")), hashing, dcp)


def _model(inputs: Inputs) -> _Asked:
    """Layers of a model under a topology."""
    topology = layouts.topology_of(inputs)
    fp8 = inputs.text("kv_cache_dtype", "auto").startswith("fp8")
    rows = inputs.text("rows", "packed", among=ROWS)
    block, drafts = inputs.integer("block_size", 16, least=1), inputs.integer("num_spec_tokens", 0)
    mtp, hybrid = inputs.flag("mtp"), not inputs.flag("disable_hybrid_kv_cache_manager")
    name = inputs.text("model")
    arch = inputs.found(lambda: find_model(name)) if name else None
    if arch is None:
        return _Asked([], 1, False, hybrid, mtp)
    layers = kv_layers(arch, topology, block=block, fp8=fp8, mtp=mtp, rows=rows, state_extra=drafts)
    return _Asked(layers, arch.max_len, False, hybrid, mtp, sharded=topology.dcp)


def described(plan: KvPlan, asked: _Asked, available: int | None, limit: int, in_flight: int) -> dict[str, Any]:
    """A pool as plain data; `error` holds the engine's refusal."""
    needed = plan.needed(limit, in_flight)
    found: dict[str, Any] = {
        "groups": [_group(group, asked, limit, in_flight) for group in plan.groups],
        "bytes_per_block": plan.bytes_per_block,
        "needed_bytes": needed,
        "needed_gib": round(needed / GIB, 4),
        "pages_per_request": plan.pages(limit, in_flight),
    }
    if available is None:
        return found | {"error": None}
    try:
        sized = capacity(plan, available, limit, in_flight)
    except ValueError as error:
        return found | {
            "error": f"ValueError: {error}",
            "est_max_len": longest_that_fits(plan, available, limit, in_flight) if available > 0 else 0,
        }
    return found | {
        "num_blocks": sized.blocks,
        "kv_tokens": sized.tokens,
        "max_concurrency": round(sized.concurrency, 4),
        "error": None,
        "scheduler_block_size": plan.scheduler_block,
        "hash_block_size": plan.hash_block if asked.hashing else plan.scheduler_block,
    }


def _group(group: Group, asked: _Asked, limit: int, in_flight: int) -> dict[str, Any]:
    return {
        "n_layers": group.layers,
        "kind": _kind(group.layer),
        "block_size": group.layer.block,
        "pages_sizes": sorted(size for size, _ in group.sizes),
        "max_pages": group.layer.pages(limit, in_flight),
        "is_eagle": asked.drafts and group.drafts,
    }


def _kind(layer: KvLayer) -> str:
    if layer.kind == STATE:
        return "MambaSpec"
    if layer.kind == CHUNK:
        return "ChunkedLocalAttentionSpec"
    if layer.kind == FULL:
        return "MLAAttentionSpec" if layer.latent else "FullAttentionSpec"
    return "SlidingWindowMLASpec" if layer.latent else "SlidingWindowSpec"
