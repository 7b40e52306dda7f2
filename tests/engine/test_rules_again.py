"""The rules once more, written naively from their statement and held against the engine room's over random inputs.

Known answers pin single cases; these say that nothing between them differs.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.topology import Topology
from ridgeline.engine.acceptance import schedule
from ridgeline.engine.answers.graphs import described
from ridgeline.engine.builds import build_of, expert_pad
from ridgeline.engine.formats import Formats
from ridgeline.engine.graphs import MODES, ladder
from ridgeline.engine.kv import CHUNK, FULL, STATE, WINDOW, KvLayer, plan_groups
from ridgeline.engine.kvlayers import kv_layers
from ridgeline.engine.tuning import DEFAULTS, geometry, token_bucket
from ridgeline.engine.weights import routed_bytes, weights
from ridgeline.spec.facts.library import find_model
from ridgeline.spec.facts.model import Experts
from ridgeline.spec.facts.tuning import TuningRule

modest = settings(max_examples=80, deadline=None)


def naive_ladder(
    seqs: int, budget: int, drafts: int, mode: str, sizes: list[int] | None, top: int | None, dense: bool, tp: int
) -> tuple[list[int], list[int], list[int]] | None:
    """(sizes, full, piecewise) on the first model runner; None where the engine refuses."""
    if mode == "NONE":
        return [], [], []
    q = drafts + 1
    limit = min(seqs * q * 2, 512) if top is None else top
    limit = min(limit, budget)
    if limit < 1:
        return None
    if sizes is None:
        rungs = set(range(1, 33)) if dense else {1, 2, 4}
        rungs |= {8 * k for k in range(1, 32)} | {16 * k for k in range(16, 4096)} | {budget}
        found = sorted(size for size in rungs if size <= limit)
    else:
        found = sorted({size for size in sizes if size <= budget})
        if not found:
            return None
    if tp > 1:
        found = [size for size in found if size % tp == 0]
    last = max(found, default=0)
    if sizes is not None and top is not None and last != min(top, budget):
        return None
    decode, mixed = MODES[mode]
    if decode == "FULL" and q > 1:
        step = max(q, tp)
        if step % q or step % tp:
            return None
        up = sorted({math.ceil(size / step) * step for size in found})
        kept = [size for size in up if size <= last]
        if not kept and step > last:
            return None
        found = kept or [step]
    full = [size for size in found if q <= size <= q * seqs] if decode == "FULL" else []
    return found, full, found if mixed == "PIECEWISE" else []


@modest
@given(
    seqs=st.integers(1, 160), budget=st.integers(1, 9000), drafts=st.integers(0, 7), mode=st.sampled_from(list(MODES)),
    sizes=st.none() | st.lists(st.integers(1, 700), min_size=1, max_size=12), top=st.none() | st.integers(1, 2500),
    dense=st.booleans(), tp=st.sampled_from([1, 1, 1, 2, 4, 8]),
)  # fmt: skip
def test_the_ladder_is_the_one_that_is_stated(seqs, budget, drafts, mode, sizes, top, dense, tp) -> None:
    expected = naive_ladder(seqs, budget, drafts, mode, sizes, top, dense, tp)
    options = {"sizes": sizes, "top": top, "dense": dense, "sequence_parallel": tp, "mode": mode, "spec_tokens": drafts}
    if expected is None:
        with pytest.raises(ValueError):
            ladder(max_num_seqs=seqs, max_num_batched_tokens=budget, **options)
        return
    found = ladder(max_num_seqs=seqs, max_num_batched_tokens=budget, **options)
    assert (list(found.sizes), list(found.full), list(found.piecewise)) == expected
    # A batch of n sequences runs in the smallest captured size that holds it, in full where that one is for decoding.
    q, told = drafts + 1, described(found)
    spans = {n: run for first, last, run in told["uniform_decode_mode_by_num_seqs"] for n in range(first, last + 1)}
    assert sorted(spans) == list(range(1, seqs + 1))
    for n in {1, seqs // 2 or 1, seqs}:
        size = min((s for s in expected[0] if s >= n * q), default=None)
        whole = size is not None and (size in expected[1] or mode == "FULL")
        assert spans[n] == ("NONE" if size is None else "FULL" if whole else "PIECEWISE" if expected[2] else "NONE")


def naive_pages(kind: str, block: int, window: int, shards: int, extra: int, length: int, flight: int) -> int:
    if kind == STATE:
        return 1 + extra
    if kind == FULL:
        return math.ceil(math.ceil(length / shards) / block)
    reach = min((window if kind == CHUNK else window - 1) + flight, length)
    return math.ceil(reach / block) + (kind == WINDOW)


layers = st.builds(
    KvLayer, count=st.integers(1, 40), kind=st.sampled_from([FULL, WINDOW, CHUNK]), row_bytes=st.integers(1, 4096),
    block=st.sampled_from([1, 4, 8, 16, 64, 128, 256]), window=st.sampled_from([8, 128, 512, 8192]),
    shards=st.sampled_from([1, 2, 8]),
)  # fmt: skip


@modest
@given(layers, st.integers(1, 300_000), st.integers(0, 40_000))
def test_pages_of_a_request(layer: KvLayer, length: int, flight: int) -> None:
    expected = naive_pages(layer.kind, layer.block, layer.window, layer.shards, 0, length, flight)
    assert layer.pages(length, flight) == expected
    uniform = plan_groups([layer])
    assert uniform.bytes_per_block == layer.count * layer.block * layer.row_bytes
    assert uniform.needed(length, flight) == uniform.bytes_per_block * expected


@modest
@given(
    st.integers(1, 40), st.integers(1, 60), st.integers(1, 4), st.sampled_from([64, 128, 1024]), st.integers(1, 100_000)
)
def test_full_and_window_layers_are_cut_into_equal_groups(
    full: int, windows: int, wider: int, window: int, length: int
) -> None:
    """Group size: the lesser count, or the greater when it is less than half as much again; pages are made equal by
    larger blocks for the narrower layers."""
    plan = plan_groups([KvLayer(full, FULL, 256 * wider, 16), KvLayer(windows, WINDOW, 256, 16, window=window)])
    low, high = min(full, windows), max(full, windows)
    size = high if high < 1.5 * low else low
    groups = math.ceil(full / size) + math.ceil(windows / size)
    page = 256 * wider * 16
    assert len(plan.groups) == groups and plan.bytes_per_block == page * size
    pages = math.ceil(full / size) * math.ceil(length / 16)
    pages += math.ceil(windows / size) * (math.ceil(min(window - 1 + 64, length) / (16 * wider)) + 1)
    assert plan.needed(length, 64) == page * size * pages
    assert sum(group.layers for group in plan.groups) == full + windows


@modest
@given(
    st.integers(1, 40), st.integers(1, 80),
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from([4, 8])), min_size=1, max_size=2),
    st.integers(1, 1 << 20), st.integers(0, 40_000),
)  # fmt: skip
def test_compressed_history_is_packed_into_tuples(
    full: int, windows: int, states: list[tuple[int, int]], length: int, flight: int
) -> None:
    """The tuple width is the one with the least padding, the wider one on a tie."""
    states = list({block: (count, block) for count, block in states}.values())
    found = [
        KvLayer(full, FULL, 584, 256, ratio=4, align=576, latent=True),
        KvLayer(windows, WINDOW, 584, 64, align=576, window=128, latent=True),
        *(KvLayer(count, WINDOW, 512, block, align=576, window=16, latent=True) for count, block in states),
    ]
    page = math.ceil(64 * 584 / 576) * 576
    plan = plan_groups(found)
    counts = [windows, *(count for count, _ in states)]
    best: tuple[int, int] | None = None
    for width in range(full, max(full, *counts) + 1):
        waste = width - full + sum(math.ceil(count / width) * width - count for count in counts)
        if best is None or waste <= best[0]:
            best = (waste, width)
    assert best is not None
    width = best[1]
    parts = {(64, 128): math.ceil(windows / width)} | {(b, 16): math.ceil(c / width) for c, b in states}
    assert len(plan.groups) == 1 + sum(parts.values())
    pages = math.ceil(length / 256)
    pages += sum(n * (math.ceil(min(w - 1 + flight, length) / b) + 1) for (b, w), n in parts.items())
    assert plan.needed(length, flight) == width * page * pages
    assert [group.drafts for group in plan.groups].count(True) >= 1 and not plan.groups[0].drafts


@pytest.mark.parametrize("name", ["deepseek-r1", "kimi-k2.5", "llama-3.1-70b", "qwen3-235b-a22b", "minimax-m2.5"])
@settings(max_examples=12, deadline=None)
@given(tp=st.sampled_from([1, 2, 4, 8, 16]), fp8=st.booleans(), length=st.integers(1, 100_000))
def test_plain_models_keep_a_row_a_token(name: str, tp: int, fp8: bool, length: int) -> None:
    """Heads are split to one a rank and copied beyond; a latent of 512 + 64 is never split."""
    arch, width = find_model(name), 1 if fp8 else 2
    plan = plan_groups(kv_layers(arch, Topology(tp), fp8=fp8))
    attention = arch.blocks[0].attention
    if attention.kind == "mla":
        row = (attention.kv_lora + attention.rope) * width
    else:
        row = max(1, attention.kv_heads // tp) * (attention.qk_dim + attention.v_dim) * width
    assert plan.needed(length, 0) == math.ceil(length / 16) * 16 * row * arch.layers


@settings(max_examples=60, deadline=None)
@given(
    gpus=st.sampled_from([1, 2, 4, 8, 16]), whole=st.booleans(), dp=st.booleans(), pad=st.sampled_from([1, 128, 256])
)
def test_weights_of_a_layout(gpus: int, whole: bool, dp: bool, pad: int) -> None:
    """DeepSeek-V4-Pro by its dimensions: 61 layers of 384 experts of 3 x 7168 x 3072 at 17/32 bytes."""
    arch = find_model("deepseek-v4-pro")
    topology = Topology(gpus, ep=gpus if whole else 1, dp_attn=dp)
    parts = weights(arch, topology, Formats("mxfp4", "fp8"), pad=pad)
    width = 3072 if whole or gpus == 1 else math.ceil(3072 / gpus / pad) * pad
    held = 384 // gpus if whole else 384
    assert parts.routed == 61 * held * 3 * 7168 * math.ceil(width / pad) * pad * 17 / 32
    assert parts.shared == pytest.approx(61 * 3 * 7168 * 3072 / (1 if dp else gpus) * (1 + 4 / 16384))
    assert parts.embed == 2 * 2 * 129_280 * 7168 / (1 if dp else gpus)


@given(
    st.sampled_from(["mxfp4", "nvfp4", "fp8", "bf16", "int4"]), st.sampled_from(["amd", "nvidia"]), st.integers(19, 40)
)
def test_padding_by_build(form: str, vendor: str, minor: int) -> None:
    found = expert_pad(build_of(f"vllm/vllm-openai:v0.{minor}.0"), Formats(form, "fp8"), vendor)
    assert found == (1 if form != "mxfp4" else 256 if vendor == "amd" and minor <= 26 else 128)


@modest
@given(st.integers(1, 12), st.floats(0, 1))
def test_acceptance_is_the_schedule_of_least_variance(drafts: int, share: float) -> None:
    length = 1 + share * drafts
    rates = schedule(length, drafts).rates
    assert sum(rates) == pytest.approx(length - 1, abs=1e-6)
    assert list(rates) == sorted(rates, reverse=True) and all(0 <= rate <= 1 for rate in rates)
    assert sum(0 < rate < 1 for rate in rates) <= 1


@modest
@given(
    st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 256), st.integers(1, 16)), max_size=8),
    st.integers(1, 20_000),
)
def test_a_row_is_the_next_larger_one_or_the_last(rows: list[tuple[int, int, int]], tokens: int) -> None:
    rules = [TuningRule("fp4", 1, 1, 1, False, *row) for row in rows]
    found = geometry(rules, "dispatch", tokens)
    if not rows:
        assert (found.blocks, found.warps, found.bucket) == (*DEFAULTS["dispatch"], None)
        return
    bucket = next((size for size in sorted({row[0] for row in rows}) if size >= tokens), max(row[0] for row in rows))
    assert (found.bucket, found.overflow) == (bucket, tokens > bucket)
    assert (found.blocks, found.warps) == next(row[1:] for row in reversed(rows) if row[0] == bucket)


@modest
@given(st.integers(1, 70_000))
def test_the_nearest_bucket_wins_and_the_larger_on_a_tie(tokens: int) -> None:
    buckets = [1, *(2**power for power in range(2, 16))]
    best = min(abs(size - tokens) for size in buckets)
    assert token_bucket(tokens) == max(size for size in buckets if abs(size - tokens) == best)


def test_expert_bytes_of_a_layer_by_hand() -> None:
    block = next(item for item in find_model("gpt-oss-120b").blocks if isinstance(item.ffn, Experts))
    # 128 experts of three 2,880 x 2,880 matrices, a quarter of the columns on each of four ranks: 720 become 768
    assert routed_bytes(block, 2880, Topology(4), Formats("mxfp4", "bf16"), 128) == 128 * 3 * 2944 * 768 * 17 / 32
