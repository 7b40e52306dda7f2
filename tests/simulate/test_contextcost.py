"""Context parallelism: what is held, what is read, what it takes to join, and which layouts there are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ridgeline.core.errors import InputError
from ridgeline.core.topology import Topology
from ridgeline.engine.memory import memory_of
from ridgeline.engine.options import EngineOptions, options_from
from ridgeline.simulate.closedloop import ClosedLoop, GrowingPrompts
from ridgeline.simulate.contextcost import ContextCost, price_of
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import parameters_for
from ridgeline.simulate.engine import engine_of
from ridgeline.simulate.steady import decode_batch, prefill_batch
from ridgeline.simulate.virtual import simulate

P = parameters_for("default", "default")
FREE = replace(P, collective_s=1e-15, link=1e9)  # joining costs nothing


def kimi(model: str = "kimi-k2.5", **layout: int) -> EngineOptions:
    return options_from(model, "b200", Topology(8, **layout), "fp4", kv_cache_dtype="fp8")


def test_a_latent_cache_holds_as_many_tokens_more() -> None:
    plain, divided = memory_of(kimi()), memory_of(kimi(dcp=8))
    assert divided.capacity.tokens == pytest.approx(8 * plain.capacity.tokens, rel=0.001)
    assert (plain.pool.block_size, divided.pool.block_size) == (16, 128)
    assert divided.weights == plain.weights


def test_added_gpus_hold_a_share_too() -> None:
    plain, more = memory_of(kimi()), memory_of(kimi(pcp=2))
    assert kimi(pcp=2).topology.gpus == 16
    assert more.weights.total < plain.weights.total  # experts are spread over all of them
    assert more.pool.block_size == 32
    assert more.capacity.tokens > 2 * plain.capacity.tokens


def test_without_it_prices_are_the_old_ones() -> None:
    assert type(price_of(kimi(), P)) is StepCost
    divided = price_of(kimi(dcp=2), P)
    assert isinstance(divided, ContextCost)
    assert isinstance(divided.priced_by(FREE), ContextCost)


@pytest.mark.parametrize("dcp", [2, 4, 8])
def test_decoding_reads_its_share_of_the_history(dcp: int) -> None:
    plain, divided = price_of(kimi(), FREE), price_of(kimi(dcp=dcp), FREE)
    batch = decode_batch(4, 200_000)
    whole = plain.attention.decode_s(batch)
    # bytes fall with the share; arithmetic of all heads on it is what one rank's heads had on the whole
    computing = 4 * 200_000 * sum(c.decode_flops for c in plain.attention.caches)
    floor = computing / (plain.gpu.bf16_flops * FREE.prefill_attention)
    assert divided.attention.decode_s(batch) == pytest.approx(max(whole / dcp, floor), rel=1e-6)
    assert divided.seconds([batch]) < plain.seconds([batch])


def test_joining_costs_more_than_it_saves_on_short_contexts() -> None:
    plain, divided = price_of(kimi(), P), price_of(kimi(dcp=8), P)
    short, long = decode_batch(64, 512), decode_batch(64, 100_000)
    assert divided.seconds([short]) > plain.seconds([short])
    assert divided.seconds([long]) < plain.seconds([long])
    starts = 3 * 61 * P.collective_s
    assert isinstance(divided, ContextCost) and divided.context_s(short) > starts
    assert divided.context_s(decode_batch(64, 100_000)) == divided.context_s(short)  # queries and results, not keys


def test_chunks_are_divided_over_added_gpus() -> None:
    plain, parts = price_of(kimi(), P), price_of(kimi(pcp=2), P)
    chunk = prefill_batch(8192, 100_000, 16)
    assert plain.seconds([chunk]) / 2 < parts.seconds([chunk]) < plain.seconds([chunk])
    assert isinstance(parts, ContextCost)
    gathered = parts.context_s(prefill_batch(8192, 200_000, 16)) - parts.context_s(chunk)
    row = sum(cache.row_bytes for cache in plain.attention.caches)
    assert gathered == pytest.approx(100_000 / 2 * row / (plain.gpu.link_bandwidth * P.link))


def test_decoding_requests_are_everybodys() -> None:
    plain, parts = price_of(kimi(), FREE), price_of(kimi(pcp=2), FREE)
    batch = decode_batch(64, 100)
    assert parts.tokens_s(64, 64) == plain.tokens_s(64, 64)
    assert parts.seconds([batch]) > 0.6 * plain.seconds([batch])


@pytest.mark.parametrize(
    ("model", "layout", "said"),
    [
        ("kimi-k2.5", {"dcp": 3}, "3 does not divide the 8 GPUs"),
        ("kimi-k2.5", {"dcp": 2, "dp_attn": True}, "2 does not divide the 1 GPU over"),
        ("gpt-oss-120b", {"dcp": 2}, "windows of openai/gpt-oss-120b"),
        ("deepseek-v4-pro", {"dcp": 8}, "windows of deepseek-ai/DeepSeek-V4-Pro"),
        ("minimax-m2.5", {"dcp": 2}, "8 key heads over 8 GPUs are repeated 1 times"),
    ],
)
def test_layouts_that_do_not_start(model: str, layout: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        price_of(kimi(model, **layout), P)


def test_repeated_key_heads_can_be_divided() -> None:
    options = options_from("qwen3.5-397b-a17b", "b200", Topology(8, dcp=4), "fp8")  # 2 key heads on 8 GPUs
    assert price_of(options, P).seconds([decode_batch(16, 100_000)]) > 0


def test_hits_end_on_the_wider_grid() -> None:
    options = kimi(dcp=8)
    pacer = ClosedLoop(2, 3, 1000, 500, 40)
    replay = simulate(pacer, GrowingPrompts(pacer), options, engine=engine_of(options, P, lazy=True))
    cached = [record.cached_tokens for record in replay.records if record.turn_index]
    assert cached and all(hit and hit % 128 == 0 for hit in cached)
    assert max(hit or 0 for hit in cached) >= 1500
