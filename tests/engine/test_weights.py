import json

import pytest
from tests.golden import golden

from ridgeline.core.errors import InputError
from ridgeline.core.topology import Topology
from ridgeline.core.units import GIB
from ridgeline.engine.builds import build_of, expert_pad
from ridgeline.engine.formats import BYTES, Formats, compute_width, formats_of
from ridgeline.engine.parameters import attention_parameters
from ridgeline.engine.weights import weights
from ridgeline.spec.facts.library import find_gpu, find_model
from ridgeline.spec.facts.model import Block, Dense, Experts, Gqa, Mla, ModelArch

BF16 = Formats("bf16", "bf16")


def arch(*blocks: Block, **more) -> ModelArch:
    return ModelArch(name="m", family="f", hidden=64, vocab=128, max_len=1024, blocks=blocks, **more)


def test_a_dense_model_is_split_by_tensor_parallelism() -> None:
    model = arch(Block(2, Gqa(8, 4, 8, 8), Dense(256)))
    whole, half = weights(model, Topology(1), BF16), weights(model, Topology(2), BF16)
    assert whole.attention == 2 * 2 * (2 * 64 * 64 + 2 * 64 * 32)
    assert whole.dense == 2 * 2 * 3 * 64 * 256
    assert whole.embed == 2 * 2 * 128 * 64
    assert (half.attention, half.dense, half.embed) == (whole.attention / 2, whole.dense / 2, whole.embed / 2)
    assert half.norms == whole.norms


def test_kv_projections_are_copied_once_ranks_outnumber_kv_heads() -> None:
    parameters = attention_parameters(Gqa(8, 2, 8, 8), 64)
    assert parameters.on_rank(8) == parameters.sharded / 8 + parameters.kv / 2


def test_latent_down_projections_are_on_every_rank() -> None:
    mla = Mla(8, 32, 16, 8, 4, 8)
    model = arch(Block(1, mla, Dense(64)))
    down = 64 * 32 + 64 * (16 + 4)
    per_head = 32 * 8 * 12 + 16 * 8 * 16 + 8 * 8 * 64
    assert weights(model, Topology(4), BF16).attention == 2 * (down + per_head / 4)


def test_data_parallel_attention_copies_everything_but_the_experts() -> None:
    model = arch(Block(1, Gqa(8, 8, 8, 8), Experts(16, 2, 32, shared=32)))
    tp, dp = weights(model, Topology(4), BF16), weights(model, Topology(4, dp_attn=True), BF16)
    assert dp.routed == tp.routed
    assert (dp.attention, dp.shared, dp.embed) == (tp.attention * 4, tp.shared * 4, tp.embed * 4)


def test_experts_whole_with_expert_parallelism_else_split_and_padded() -> None:
    model = arch(Block(1, None, Experts(16, 2, 96)))
    one = 3 * 64 * 96 * 2
    assert weights(model, Topology(4, ep=4), BF16).routed == 4 * one
    assert weights(model, Topology(4), BF16).routed == 4 * one
    assert weights(model, Topology(4, ep=2), BF16).routed == 8 * one / 2
    assert weights(model, Topology(4), BF16, pad=64).routed == 16 * 3 * 64 * 64 * 2  # 24 wide, rounded up to 64
    assert weights(arch(Block(1, None, Experts(10, 2, 96))), Topology(4, ep=4), BF16).routed == 3 * one


def test_stages_share_layers_and_no_gpu_holds_both_tables() -> None:
    model = arch(Block(4, None, Dense(64)))
    staged = weights(model, Topology(1, pp=2), BF16)
    assert staged.dense == weights(model, Topology(1), BF16).dense / 2
    assert staged.embed == weights(model, Topology(1), BF16).embed / 2


def test_tied_tables_count_once() -> None:
    assert weights(arch(Block(1, None, Dense(8)), tied=True), Topology(1), BF16).embed == 2 * 128 * 64


def test_formats_of_a_precision() -> None:
    h200, mi355x = find_gpu("h200"), find_gpu("mi355x")
    deepseek, oss, llama = find_model("deepseek-r1"), find_model("gpt-oss-120b"), find_model("llama-3.1-8b")
    assert formats_of(deepseek, "fp8", h200) == ("fp8", "fp8")
    assert formats_of(deepseek, "fp4", h200) == ("nvfp4", "fp8")
    assert formats_of(deepseek, "fp4", mi355x) == ("mxfp4", "fp8")
    assert formats_of(oss, "fp4", h200) == ("mxfp4", "bf16")
    assert formats_of(llama, "fp4", find_gpu("b200")) == ("nvfp4", "nvfp4")
    assert formats_of(llama, "bf16", h200) == ("bf16", "bf16")
    with pytest.raises(InputError, match="fp16"):
        formats_of(llama, "fp16", h200)


def test_narrow_weights_compute_as_wide_as_the_gpu_must() -> None:
    assert compute_width("nvfp4", find_gpu("h200")) == "bf16"
    assert compute_width("nvfp4", find_gpu("b200")) == "fp4"
    assert compute_width("int4", find_gpu("b200")) == "bf16"
    assert compute_width("fp8", find_gpu("h200")) == "fp8"
    assert BYTES["mxfp4"] == 0.53125


def test_deepseek_v4_pro_on_seven_layouts() -> None:
    known = json.loads(golden("golden/weights_dsv4pro.json").read_text())["weights_gib"]
    layouts = {
        "DP4+EP4": Topology(4, ep=4, dp_attn=True), "DP8+EP8": Topology(8, ep=8, dp_attn=True), "TP8+EP1": Topology(8),
        "TP8+EP8": Topology(8, ep=8), "TP4+EP1": Topology(4), "TP4+EP4": Topology(4, ep=4),
        "DP8+EP1": Topology(8, dp_attn=True),
    }  # fmt: skip
    model = find_model("deepseek-v4-pro")
    formats = formats_of(model, "fp4", find_gpu("mi355x"))
    names = {"routed": "routed", "attention": "attention", "shared": "shared", "gate": "gate", "hyper": "hc"}
    assert len(known) == 7
    pad = expert_pad(build_of("vllm 0.26.0"), formats, "amd")
    for name, parts in known.items():
        found = weights(model, layouts[name.partition("(")[0]], formats, mtp=True, pad=pad)
        assert found.total / GIB == pytest.approx(parts["total"], rel=5e-5), name
        for ours, theirs in names.items():
            assert getattr(found, ours) / GIB == pytest.approx(parts[theirs], abs=2e-3), (name, ours)
        assert found.embed / GIB == pytest.approx(parts["embed_lmhead"], abs=1e-3)
