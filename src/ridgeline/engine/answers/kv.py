"""How many bytes a pool needs for its longest request, and what fits into what is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ridgeline.core.errors import InputError
from ridgeline.core.units import GIB
from ridgeline.engine.answers import layouts
from ridgeline.engine.answers.inputs import Inputs
from ridgeline.engine.kv import CHUNK, FULL, STATE, Group, KvLayer, KvPlan, capacity, longest_that_fits, plan_groups
from ridgeline.engine.kvlayers import ROWS, kv_layers
from ridgeline.engine.kvspecs import layer_of
from ridgeline.spec.facts.library import find_model

INPUTS = {
    "layers": "list of KV cache specs in the engine's words (instead of a model)",
    "settings": "dcp, disable_hybrid_kv_cache_manager, mamba_cache_mode of those layers",
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


def answer(data: Mapping[str, Any]) -> dict[str, Any]:
    """Bytes, blocks, tokens and concurrency of one pool on one rank. Raises InputError."""
    inputs = Inputs({key: value for key, value in data.items() if key not in _GIVEN}, INPUTS)
    layers, longest, aligned, hybrid = _layers(inputs)
    limit = inputs.integer("max_model_len", longest, least=1)
    in_flight = inputs.integer("max_num_batched_tokens", 8192, least=1) * inputs.integer(
        "max_concurrent_batches", 2, least=1
    )
    available = inputs.number("avail_gib")
    inputs.done()
    try:
        plan = plan_groups(layers, hybrid=hybrid, aligned=aligned)
    except ValueError as error:
        return {"error": f"NotImplementedError: {error}"}
    return described(plan, None if available is None else int(available * GIB), limit, in_flight)


def _layers(inputs: Inputs) -> tuple[list[KvLayer], int | None, bool, bool]:
    """Layers, the longest request where a model tells, whether blocks are final, and the hybrid manager."""
    data = inputs.data
    hybrid = not inputs.flag("disable_hybrid_kv_cache_manager")
    if "layers" in data:
        settings = data.get("settings") or {}
        if not isinstance(settings, Mapping):
            inputs.refuse(f"must be an object, is {settings!r}", "settings")
            settings = {}
        found: list[KvLayer] = []
        for index, spec in enumerate(data["layers"] if isinstance(data["layers"], list) else ()):
            try:
                mode = str(settings.get("mamba_cache_mode", "none"))
                found.append(layer_of(spec, dcp=_dcp(settings, inputs), mamba_mode=mode, where=f"layers[{index}]"))
            except InputError as error:
                inputs.problems += error.problems
        if not found and not inputs.problems:
            inputs.refuse("must be a list with at least one spec", "layers")
        return found, None, True, hybrid and not settings.get("disable_hybrid_kv_cache_manager")
    topology = layouts.topology_of(inputs)
    fp8 = inputs.text("kv_cache_dtype", "auto").startswith("fp8")
    rows = inputs.text("rows", "packed", among=ROWS)
    block, drafts, mtp = (
        inputs.integer("block_size", 16, least=1),
        inputs.integer("num_spec_tokens", 0),
        inputs.flag("mtp"),
    )
    name = inputs.text("model")
    if not name:
        return [], 1, False, hybrid
    arch = find_model(name)
    layers = kv_layers(arch, topology, block=block, fp8=fp8, mtp=mtp, rows=rows, state_extra=drafts)
    return layers, arch.max_len, False, hybrid


def _dcp(settings: Mapping[str, Any], inputs: Inputs) -> int:
    value = settings.get("dcp") or 1
    if type(value) is int and value > 0:
        return value
    inputs.refuse(f"must be a positive integer, is {value!r}", "settings.dcp")
    return 1


def described(plan: KvPlan, available: int | None, limit: int, in_flight: int) -> dict[str, Any]:
    """A pool as plain data; `error` holds the engine's refusal."""
    needed = plan.needed(limit, in_flight)
    found: dict[str, Any] = {
        "groups": [_group(group, limit, in_flight) for group in plan.groups],
        "bytes_per_block": plan.bytes_per_block,
        "needed_bytes": needed,
        "needed_gib": round(needed / GIB, 4),
        "pages_per_request": sum(group.layer.pages(limit, in_flight) for group in plan.groups),
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
        "hash_block_size": plan.hash_block,
    }


def _group(group: Group, limit: int, in_flight: int) -> dict[str, Any]:
    sizes: Sequence[tuple[int, int]] = group.sizes
    return {
        "n_layers": sum(count for _, count in sizes),
        "kind": _kind(group.layer),
        "block_size": group.layer.block,
        "pages_sizes": sorted(size for size, _ in sizes),
        "max_pages": group.layer.pages(limit, in_flight),
    }


def _kind(layer: KvLayer) -> str:
    if layer.kind == STATE:
        return "MambaSpec"
    if layer.kind == CHUNK:
        return "ChunkedLocalAttentionSpec"
    if layer.kind == FULL:
        return "MLAAttentionSpec" if layer.latent else "FullAttentionSpec"
    return "SlidingWindowMLASpec" if layer.latent else "SlidingWindowSpec"
