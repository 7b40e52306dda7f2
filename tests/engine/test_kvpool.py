"""Room for recurrent states: what is shared with history, what is apart, and a published start of Kimi K3."""

from dataclasses import replace

import pytest

from ridgeline.core.topology import Topology
from ridgeline.core.units import GIB
from ridgeline.engine.kvpool import COUNTED_SLOTS, PAGE, copies, keeps, state_bytes, token_bytes
from ridgeline.engine.memory import memory_of
from ridgeline.engine.options import EngineOptions, options_from
from ridgeline.simulate.limits import limits_of

EIGHT = Topology(8)


def kimi(**more: object) -> EngineOptions:
    return options_from("kimi-k3", "b300", EIGHT, "fp4", kv_cache_dtype="fp8", **more)


def qwen(engine: str = "sglang", **more: object) -> EngineOptions:
    more = {"kv_cache_dtype": "fp8", "gpu_memory_utilization": 0.8, **more}
    return options_from("qwen3.5-397b-a17b", "h200", EIGHT, "fp8", engine=engine, **more)


def test_tokens_of_a_published_start_are_met_to_the_token() -> None:
    """InferenceX (Apache-2.0), run 30326393603, eight B300: 42.23 GiB of cache, 3,249,215 tokens."""
    memory = memory_of(kimi(kv_cache_memory_bytes=int(42.23 * GIB)))
    assert memory.capacity.tokens == 3_249_215
    assert (memory.pool.block_size, memory.pool.room, memory.pool.held) == (1536, 3, 3)


def test_drafts_take_states_and_without_a_prefix_cache_none_is_kept() -> None:
    plain, drafting = memory_of(kimi()).pool, memory_of(kimi(num_speculative_tokens=3)).pool
    assert (drafting.held, drafting.room) == (3 * (1 + 3), plain.room)
    off = kimi(enable_prefix_caching=False)
    assert not keeps(off)
    assert (memory_of(off).pool.held, memory_of(off).pool.room) == (3, 0)
    limits = limits_of(kimi(), memory_of(kimi()))
    assert (limits.room, limits.aligned, limits.slots, limits.merges) == (3, True, 0, False)


def test_sglang_gives_states_nine_nineteenths_of_the_memory() -> None:
    options = qwen()
    memory = memory_of(options)
    pool, state = memory.pool, state_bytes(options)
    assert pool.slots is not None
    assert pool.slots == pytest.approx(memory.available * 0.9 / 1.9 / state, rel=0.01)
    assert pool.blocks * PAGE * token_bytes(options, memory.plan) == pytest.approx(memory.available / 1.9, rel=0.01)
    assert memory.capacity.tokens == pool.blocks * PAGE
    limits = limits_of(options, memory)
    assert (limits.slots, limits.room, limits.aligned, limits.merges) == (pool.slots, 0, False, True)


def test_sglang_sets_states_aside_for_every_draft_token_of_a_request() -> None:
    def slots(**more: object) -> int:
        return memory_of(qwen(**more)).pool.slots or 0

    drafting = slots(num_speculative_tokens=3, max_num_seqs=32)
    assert drafting == pytest.approx(slots() / (1 + 4 / COUNTED_SLOTS), rel=0.03)
    many = qwen(num_speculative_tokens=3, max_num_seqs=1000)
    assert limits_of(many, memory_of(many)).max_num_seqs == (memory_of(many).pool.slots or 0) // COUNTED_SLOTS


def test_an_overridden_pool_keeps_states_too() -> None:
    options = kimi(kv_tokens=1_000_000)
    assert (memory_of(options).pool.room, memory_of(options).pool.held) == (3, 0)
    assert (memory_of(replace(qwen(), kv_tokens=1_000_000)).pool.slots or 0) > 10_000


def test_only_vllm_shares_a_latent_in_host_memory() -> None:
    latent, heads = kimi(), qwen("vllm")
    assert (copies(latent, memory_of(latent).plan), copies(heads, memory_of(heads).plan)) == (8, 1)
    glm = options_from("glm-5.2", "b300", EIGHT, "fp4", engine="sglang")
    assert copies(glm, memory_of(glm).plan) == 1
