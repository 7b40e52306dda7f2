import json
import statistics
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.golden import golden

from ridgeline.core.errors import InputError
from ridgeline.core.topology import Topology
from ridgeline.engine.options import EngineOptions, options_from
from ridgeline.simulate.batch import Batch, Chunk
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import parameters_for
from ridgeline.simulate.steps import EVENNESS, EXPERT_TOP
from ridgeline.simulate.terms.collectives import all_reduce_s, dispatch_s, gather_s
from ridgeline.simulate.terms.experts import busiest_computing, busiest_reading, experts_touched, largest_of
from ridgeline.simulate.terms.roofline import overlapped, saturating
from ridgeline.spec.facts.library import find_gpu

ONE = Topology(1)


def cost(model: str, gpu: str, topology: Topology = ONE, precision: str | None = None, **more) -> StepCost:
    options: EngineOptions = options_from(model, gpu, topology, precision, **more)
    return StepCost(options, parameters_for(options.gpu.name, options.engine))


def decoding(requests: int, context: int) -> Batch:
    batch = Batch()
    batch.decodes, batch.decode_context = requests, requests * context
    batch.tokens = batch.decode_tokens = batch.emitting = requests
    return batch


def prefilling(tokens: int, context: int = 0) -> Batch:
    batch = Batch()
    batch.chunks = [Chunk(tokens, context)]
    batch.attached = (tokens + context) // 16
    batch.tokens, batch.emitting = tokens, 1
    return batch


def test_reading_and_computing_overlap_but_not_quite() -> None:
    assert overlapped(3.0, 0.0) == 3.0
    assert overlapped(1.0, 1.0) == pytest.approx(2**0.4)
    assert max(2.0, 1.0) < overlapped(2.0, 1.0) < 2.15
    assert overlapped(0.0, 0.0) == 0.0


def test_efficiency_saturates() -> None:
    assert saturating(0.8, 100, 100) == 0.4
    assert saturating(0.8, 100, 1e9) == pytest.approx(0.8)


@pytest.mark.parametrize(("tokens", "share"), [(16, 0.22), (64, 0.63), (128, 0.87), (400, 0.998)])
def test_experts_touched_by_uniform_routing(tokens: int, share: float) -> None:
    """DeepSeek-V4-Pro: 6 of 384."""
    assert experts_touched(384, 6, tokens, 1e6) / 384 == pytest.approx(share, abs=0.006)
    assert experts_touched(384, 6, 1, 1.0) == pytest.approx(6)


def test_uneven_routing_touches_fewer_experts_and_never_less_than_a_tokens_own() -> None:
    even, uneven = experts_touched(256, 8, 64, 1e6), experts_touched(256, 8, 64, 1.5)
    assert 8 < uneven < even < 256
    assert experts_touched(256, 8, 1, 0.5) == pytest.approx(8)
    assert experts_touched(256, 8, 0, 1.5) == 0


def test_kernels_are_counted_from_the_parts_of_a_model() -> None:
    """Llama has four products, attention's two and six others a layer; 4-bit ones quantise their four inputs, and in
    fp8 with one scale a tensor the kernels before do that."""
    plain, eight, four = (cost("llama-3.1-70b", "b200", Topology(2), p) for p in ("bf16", "fp8", "fp4"))
    assert plain.products == 80 * 6 + 1
    assert plain.kernels == eight.kernels == 80 * 12 + 4
    assert four.kernels - plain.kernels == 80 * 4
    blocks, plain = (cost("minimax-m2.5", "b200", Topology(4), p) for p in ("fp8", "bf16"))
    layers, products = blocks.options.arch.layers, (blocks.products - 1) / blocks.options.arch.layers
    assert blocks.products == plain.products
    assert (blocks.kernels - plain.kernels) / layers == pytest.approx(4 + 1.5 * products)
    sparse, moe = cost("minimax-m3", "b200", Topology(8), "fp8"), cost("minimax-m2.5", "b200", Topology(8), "fp8")
    assert sparse.kernels / sparse.options.arch.layers > moe.kernels / moe.options.arch.layers + 8


def test_only_vllm_stops_capturing_at_512_tokens_by_itself() -> None:
    ours, other = (cost("llama-3.1-8b", "h200", engine=engine) for engine in ("vllm", "sglang"))
    assert ours.mode([decoding(600, 10)], [600]) == "NONE"
    assert other.mode([decoding(600, 10)], [600]) == "FULL"


def test_collectives_cost_nothing_alone_and_grow_with_bytes() -> None:
    gpu, p = find_gpu("h200"), parameters_for("H200", "vllm")
    assert all_reduce_s(1e6, 1, gpu, p) == 0
    assert all_reduce_s(1e3, 8, gpu, p) == pytest.approx(p.collective_s, rel=0.01)
    big = all_reduce_s(1e9, 8, gpu, p)
    assert big == pytest.approx(2 * 1e9 * 7 / 8 / (gpu.link_bandwidth * p.link), rel=0.01)


def test_an_all_reduce_is_done_in_whichever_way_is_sooner() -> None:
    gpu, p = find_gpu("h200"), parameters_for("H200", "vllm")
    sizes = [2.0**power for power in range(10, 28)]
    for ranks in (2, 4, 8):
        times = [all_reduce_s(size, ranks, gpu, p) for size in sizes]
        assert times == sorted(times)
        assert max(b / a for a, b in pairwise(times)) <= 2  # no jump where the way changes
    assert all_reduce_s(1e9, 2, gpu, p) < 2 * p.collective_s + 1e9 / (gpu.link_bandwidth * p.link)


def test_everybody_waits_for_the_gpu_with_most_experts_to_read() -> None:
    assert busiest_reading(256, 256, 8) == 1.0  # all are read: nobody has more
    assert busiest_reading(256, 0, 8) == busiest_reading(256, 40, 1) == 1.0
    assert busiest_reading(128, 4, 8) * 4 / 8 >= 1  # four experts on eight GPUs: somebody reads one whole
    shares = [busiest_reading(256, touched, 8) for touched in (8, 32, 128, 240)]
    assert shares == sorted(shares, reverse=True)
    assert busiest_computing(256, 8, 0.75) > busiest_computing(256, 2, 0.75) > busiest_computing(256, 2, 1e6)
    assert busiest_computing(256, 1, 0.75) == 1.0


def test_the_busiest_of_many_draws_is_what_is_expected() -> None:
    """Experts drawn without putting back, the largest of eight GPUs' counts."""
    rng = np.random.default_rng(7)
    for touched in (24, 64, 160):
        counts = [
            np.bincount(rng.permutation(256)[:touched] // 32, minlength=8).max() / (touched / 8) for _ in range(400)
        ]
        assert busiest_reading(256, touched, 8) == pytest.approx(np.mean(counts), rel=0.06)


def test_the_largest_of_normal_values() -> None:
    rng = np.random.default_rng(3)
    for groups in (2, 8, 9, 16, 64):
        seen = rng.standard_normal((4000, groups)).max(axis=1).mean()
        assert largest_of(groups) == pytest.approx(seen, abs=0.07)


def test_thin_slices_of_experts_cost_more_than_whole_ones() -> None:
    """A prompt's experts, cut across eight GPUs or kept whole: whole ones are faster but for the busiest GPU."""
    cut, whole = (cost("deepseek-r1", "b200", Topology(8, ep=ep), "fp8") for ep in (1, 8))
    assert whole.experts[0].slice == 8 * cut.experts[0].slice
    assert cut.experts_s(8192) > 1.05 * whole.experts_s(8192) / busiest_computing(256, 8, cut.p.expert_evenness)


def test_slices_are_computed_in_whole_tiles() -> None:
    """MiniMax-M2.5's experts have 1,536 columns: an eighth is 192, which takes two tiles of 128."""
    four, eight = (cost("minimax-m2.5", "b200", Topology(tp), "fp8").experts[0] for tp in (4, 8))
    assert (four.slice, eight.slice) == (384, 192)
    assert eight.flops_each == pytest.approx(four.flops_each * 256 / 384)
    assert eight.bytes_each == pytest.approx(four.bytes_each / 2)


def test_eight_bit_rows_are_read_slower_where_a_kernel_turns_them() -> None:
    p = parameters_for("default", "default")

    def rate(model: str, gpu: str, engine: str, dtype: str = "fp8") -> float:
        options = options_from(model, gpu, Topology(8), "fp8", engine=engine, kv_cache_dtype=dtype)
        return StepCost(options, p).attention.bandwidth / (options.gpu.bandwidth * p.kv_read)

    assert rate("llama-3.1-70b", "h200", "vllm", "auto") == 1
    assert rate("llama-3.1-70b", "h200", "trt") == rate("llama-3.1-70b", "b200", "vllm") == p.narrow_cache
    assert rate("deepseek-r1", "h200", "vllm") == rate("llama-3.1-70b", "mi325x", "vllm") == p.narrow_cache
    assert rate("llama-3.1-70b", "h200", "vllm") == pytest.approx(0.6 * p.narrow_cache)


def test_more_work_never_takes_less_time() -> None:
    price = cost("llama-3.1-8b", "h200")
    for context in (0, 1000, 100_000):
        # sizes of the ladder: between them steps are padded to the same size
        times = [price.seconds([decoding(n, context)]) for n in (1, 2, 4, 8, 64, 128, 256, 512)]
        assert times == sorted(times)
    chunks = [price.seconds([prefilling(n, 30_000)]) for n in (1, 16, 256, 1024, 8192)]
    assert chunks == sorted(chunks)


def test_cached_context_costs_time_even_when_nothing_of_it_is_new() -> None:
    price = cost("llama-3.1-8b", "h200")
    assert price.seconds([prefilling(512, 100_000)]) > 3 * price.seconds([prefilling(512, 0)])


def test_windows_and_sparse_attention_stop_reading() -> None:
    dense, window = cost("llama-3.1-8b", "h200"), cost("gpt-oss-120b", "h200")
    assert dense.attention.decode_s(decoding(1, 100_000)) == pytest.approx(
        10 * dense.attention.decode_s(decoding(1, 10_000))
    )
    assert window.attention.decode_s(decoding(1, 100_000)) < 10 * window.attention.decode_s(decoding(1, 10_000))
    sparse = cost("glm-5.2", "b300", Topology(8), "fp4")
    assert sparse.attention.decode_s(decoding(1, 100_000)) < 4 * sparse.attention.decode_s(decoding(1, 10_000))


def test_recurrent_layers_cost_the_same_at_any_length() -> None:
    price = cost("Qwen3.5-397B-A17B", "b200", Topology(8), "fp8")
    assert price.attention.state_bytes > 0
    short, long = (price.attention.decode_s(decoding(1, context)) for context in (1, 1001))
    rows = 15 * 1000 * 2 * 256 * 2  # 15 full layers with one KV head a rank; the other 45 keep a state
    assert (long - short) * price.gpu.bandwidth * price.p.kv_read == pytest.approx(rows)


def test_one_ranks_prefill_stalls_all_ranks() -> None:
    price = cost("deepseek-r1", "b200", Topology(8, ep=8, dp_attn=True), "fp4")
    busy: list[Batch | None] = [decoding(16, 50_000) for _ in range(8)]
    calm = price.seconds(busy)
    stalled = price.seconds([prefilling(8192, 50_000), *busy[1:]])
    assert stalled > 5 * calm
    assert price.seconds([decoding(16, 50_000), *[None] * 7]) > 0.3 * calm


# vLLM's fused experts (128 of hidden size 2,048, top 8, bf16, even routing) on one H200: columns of a slice -> us for
# 128 and for 4,096 tokens.
FUSED_EXPERTS = {768: (308, 818), 384: (174, 511), 192: (102, 356), 96: (64, 294)}


def test_slices_of_experts_shorten_what_is_read_but_not_the_rows() -> None:
    own = replace(parameters_for("H200", "vllm"), expert_evenness=EVENNESS, expert_top=EXPERT_TOP)
    few, many = {}, {}
    for columns, (measured, _) in FUSED_EXPERTS.items():
        price = StepCost(options_from("qwen3-30b-a3b", "h200", Topology(768 // columns), "bf16"), own)
        kernels = (2 * own.product_kernels + 6) * own.graph_kernel_s
        few[columns], many[columns] = ((price.experts_s(tokens) / 48 + kernels) * 1e6 for tokens in (128, 4096))
        assert few[columns] == pytest.approx(measured, rel=0.12)
    rows = 4096 * 8 * 6.5 * 2 * 2048 / (price.gpu.bandwidth * own.traffic) * 1e6
    assert min(many.values()) > rows > FUSED_EXPERTS[96][1] / 2  # most of what the thinnest slice takes
    assert many[768] / many[96] == pytest.approx(FUSED_EXPERTS[768][1] / FUSED_EXPERTS[96][1], rel=0.2)


def test_experts_of_their_own_share_the_rows_and_cut_ones_do_not() -> None:
    spread, cut = (cost("qwen3-30b-a3b", "h200", Topology(8, ep=ep), "bf16").experts_s(8192) for ep in (8, 1))
    rows = 8192 * 8 * 6.5 * 2 * 2048 / (find_gpu("h200").bandwidth * 0.85) * 48
    assert cut > rows
    assert spread < cut


def test_collectives_wider_than_a_node_cross_the_scale_out_network() -> None:
    h100, gb200 = find_gpu("h100"), find_gpu("gb200")  # 8 and 72 GPUs in a domain
    p, size = parameters_for("H200", "vllm"), 16e6
    inside, across = (all_reduce_s(size, ranks, h100, p) for ranks in (8, 16))
    out = size / 8 / 2 / h100.scale_out_bandwidth  # every GPU exchanges its eighth with one other node, twice
    assert across - inside == pytest.approx(2 * (out + 2.5 * p.collective_s))
    assert all_reduce_s(size, 16, gb200, p) < 2 * all_reduce_s(size, 8, gb200, p) < across
    near, far = (dispatch_s(1024, 7168, 8, ranks, h100, p) for ranks in (8, 16))
    assert far - near > 1024 * 8 * 7168 * 3 / 4 / h100.scale_out_bandwidth
    assert gather_s(size, 16, h100, p) > gather_s(size, 8, h100, p) + 2 * 2.5 * p.collective_s


def test_prompts_of_recurrent_layers_are_launched_one_by_one() -> None:
    """However short a prompt, on each recurrent layer; a decoding step is in a graph, another model has none of it."""
    price, plain = (cost(model, "h200", ONE, "bf16") for model in ("Qwen/Qwen3.5-35B-A3B", "qwen3-30b-a3b"))
    launch = 30 * price.p.recurrent_launch_s
    assert launch < price.seconds([prefilling(64)]) < price.seconds([prefilling(1024)]) < launch + 0.02
    assert price.seconds([decoding(16, 1024)]) < launch / 5
    assert plain.seconds([prefilling(1024)]) < launch / 2
    split = cost("Qwen/Qwen3.5-35B-A3B", "h200", Topology(1, pp=2), "bf16")
    assert split.recurrent == 15


def test_the_worst_rank_decides_the_graph_mode() -> None:
    price = cost("deepseek-r1", "b200", Topology(8, dp_attn=True), "fp4", cudagraph_mode="FULL_DECODE_ONLY")
    decode, mixed = decoding(4, 100), prefilling(16)
    assert price.mode([decode, None], [4, 0]) == "FULL"
    assert price.mode([decode, mixed], [4, 16]) == "NONE"


def test_expert_parallelism_trades_all_reduces_for_dispatch() -> None:
    tensor = cost("deepseek-r1", "h200", Topology(8), "fp8")
    expert = cost("deepseek-r1", "h200", Topology(8, ep=8, dp_attn=True), "fp8")
    flat = cost("deepseek-r1", "h200", Topology(8, dp_attn=True), "fp8")
    assert tensor.collectives_s(64, 64) > 0
    assert 0 < expert.collectives_s(64, 512) < flat.collectives_s(64, 512)
    assert cost("qwen3-8b", "h200").collectives_s(64, 64) == 0


def test_narrower_weights_are_faster_and_more_gpus_too() -> None:
    times = [cost("llama-3.1-70b", "b200", t, p).seconds([decoding(8, 2000)]) for t, p in
             ((Topology(2), "bf16"), (Topology(2), "fp8"), (Topology(2), "fp4"), (Topology(4), "fp4"))]  # fmt: skip
    assert times == sorted(times, reverse=True)


def test_an_idle_engine_needs_time_to_wake() -> None:
    price = cost("qwen3-8b", "h200")
    batch = [decoding(1, 10)]
    assert price.seconds(batch, from_idle=True) - price.seconds(batch) == pytest.approx(price.p.wake_s)


def test_index_keys_are_scored_in_eight_bits() -> None:
    price = cost("glm-5.2", "b300", Topology(8), "fp4")
    near, far = (price.attention.prefill_s(prefilling(1000, context)) for context in (100_000, 200_000))
    scan = sum(c.scan_flops for c in price.attention.caches)
    assert scan and all(
        c.limit is not None and c.limit < 100_000 for c in price.attention.caches
    )  # so only the scan grows
    peak = price.gpu.flops("fp8") * price.p.sparse_attention
    assert far - near == pytest.approx(1000 * 100_000 * scan / peak)


def test_every_parameter_says_where_it_comes_from() -> None:
    own, fitted, assumed = (parameters_for(*name) for name in (("H200", "vllm"), ("MI355X", "vllm"), ("MI300X", "trt")))
    assert len(own.provenance) == 28
    assert all("measured" in text or "assumption" in text for text in own.provenance.values())
    assert all(text.startswith("assumed as measured on H200") for text in assumed.provenance.values())
    assert assumed.kv_read == own.kv_read
    assert fitted.provenance["narrow_cache"].startswith("fitted to ")
    assert fitted.provenance["link"].startswith("assumed as measured on H200")


def test_prompts_of_text_are_tokenised_first() -> None:
    plain = parameters_for("H200", "vllm")
    text = plain.for_text()
    assert text.frontend_token_s == plain.frontend_token_s + plain.text_token_s
    assert text.for_text().text_token_s == plain.text_token_s > plain.frontend_token_s > 0


def test_a_parameter_file_overrides_and_is_checked(tmp_path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"values": {"kv_read": {"value": 0.5, "source": "fitted"}}}')
    found = parameters_for("H200", "vllm", path)
    assert (found.kv_read, found.provenance["kv_read"]) == (0.5, "fitted")
    bad = tmp_path / "bad.json"
    bad.write_text('{"values": {"speed": {"value": 1, "source": ""}, "link": {"value": 0, "source": ""}}}')
    with pytest.raises(InputError) as raised:
        parameters_for("H200", "vllm", bad)
    assert {problem.key for problem in raised.value.problems} == {"speed", "link"}
    with pytest.raises(InputError, match="not a ridgeline-cost/1 file"):
        parameters_for("H200", "vllm", tmp_path / "none.json")


def _error(price: StepCost, rows: list[dict]) -> list[float]:
    return [price.seconds([decoding(row["B"], row["C"])]) * 1e3 / row["ms"] - 1 for row in rows]


def test_decode_and_prefill_of_a_real_engine() -> None:
    """The parameters come from these very measurements, so this shows that a dozen numbers describe them all, not that
    the model foresees others."""
    known = json.loads(golden("h200/results.json").read_text())
    for key, model, allowed in (("llama8b_graph", "llama-3.1-8b", 0.03), ("qwen3moe_graph", "qwen3-30b-a3b", 0.03)):
        even = replace(parameters_for("H200", "vllm"), expert_evenness=EVENNESS, expert_top=EXPERT_TOP)
        price = StepCost(options_from(model, "h200", ONE, "bf16"), even)
        errors = _error(price, known["decode_step_ms"][key])
        assert statistics.mean(map(abs, errors)) < allowed
        assert max(map(abs, errors)) < 0.15
    price = cost("llama-3.1-8b", "h200", precision="bf16")
    errors = [
        price.seconds([prefilling(row["c"], row["C"])], from_idle=True) * 1e3 / row["ms"] - 1
        for row in known["prefill"]["llama8b"]
    ]
    assert statistics.mean(map(abs, errors)) < 0.08
    assert max(map(abs, errors)) < 0.25


def test_stages_and_drafts_pay_for_all_ranks_tokens_once() -> None:
    """Experts of a stage are its own layers already; a draft layer hands the tokens of all ranks around."""
    whole, halves = (
        cost("deepseek-r1", "h200", Topology(8, pp=pp, ep=8, dp_attn=True), "fp8").collectives_s(64, 512)
        for pp in (1, 2)
    )
    assert halves == pytest.approx(whole / 2, rel=0.1)
    alone = cost("deepseek-r1", "h200", Topology(1, pcp=8), "fp8")
    assert alone.collectives_s(64, 64) > 0


def test_a_graph_of_everything_still_launches_prompts_of_recurrent_layers() -> None:
    price = cost("Qwen/Qwen3.5-35B-A3B", "h200", ONE, "bf16", cudagraph_mode="FULL")
    assert price.seconds([prefilling(64)]) > 30 * price.p.recurrent_launch_s
