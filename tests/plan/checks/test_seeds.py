"""What one search space's reviewers found, and what is true: each is answered with its arithmetic."""

import json
from dataclasses import replace

import pytest
from tests.golden import golden
from tests.plan.checks.making import DSV4, findings, make, report, seen, table, verdict

from ridgeline.core.finding import Verdict
from ridgeline.core.topology import Topology
from ridgeline.core.units import GIB
from ridgeline.engine.sizing import size
from ridgeline.plan.checks.changes import after_change
from ridgeline.spec.facts.builds import load_dumps
from ridgeline.spec.facts.observations import Observation, load_observations

DP4 = Topology(4, ep=4, dp_attn=True)
DP8 = Topology(8, ep=8, dp_attn=True)


@pytest.mark.parametrize(
    ("share", "free", "known", "text"),
    [
        (0.95, 256.0, Verdict.FAIL, "273.60"),
        (0.90, 256.0, Verdict.FAIL, "259.20 GiB; free 256 GiB"),
        (0.86, 256.0, Verdict.PASS, "slack 8.32"),
        (0.88, 256.0, Verdict.WARN, "253.44"),
        (0.90, None, Verdict.UNKNOWN, "259.20"),
        (0.90, 280.0, Verdict.PASS, "259.20"),
    ],
)
def test_utilisation_fails_only_against_what_was_seen_free(share, free, known, text) -> None:
    subject = make(free=free, flags={"gpu-memory-utilization": share})
    (found,) = findings(subject, "M1")
    assert (found.verdict, text in found.arithmetic) == (known, True), found.arithmetic


def test_the_rejected_layout_is_one_flag_away() -> None:
    subject = make(DP4, observations=load_observations())
    (found,) = findings(subject, "M3")
    assert found.verdict is Verdict.FAIL
    assert "14.88 GiB needed against 12.09 GiB" in found.message
    assert "224.83 GiB weights" in found.arithmetic and "62% of them for windows and states" in found.arithmetic
    assert "--max-num-batched-tokens 4096 (10.28 GiB needed, 12.09 GiB there)" in (found.hint or "")
    assert subject.sizing(subject.launches[0]).needed / GIB == pytest.approx(14.8765, abs=5e-5)
    half = next(change for change in found.changes if change.flag == "max-num-batched-tokens")
    assert verdict(after_change(subject, half), "M3") is Verdict.PASS


def test_without_the_observation_nobody_knows() -> None:
    (found,) = findings(make(DP4), "M3")
    assert found.verdict is Verdict.UNKNOWN
    assert "not observed" in found.arithmetic
    assert "9.62 GiB are left for activations" in found.message


@pytest.mark.parametrize(
    ("flags", "known", "text"),
    [
        ({"max-num-seqs": 32}, Verdict.PASS, "64 sequences"),
        ({"max-num-seqs": 448}, Verdict.WARN, "largest captured size 512: 128 sequences"),
        ({"max-num-seqs": 448, "max-cudagraph-capture-size": 448}, Verdict.WARN, "112 sequences"),
        ({"max-num-seqs": 448, "max-cudagraph-capture-size": 1792}, Verdict.PASS, "448 sequences"),
        ({"max-num-seqs": 32, "max-cudagraph-capture-size": 32}, Verdict.FAIL, "8 sequences"),
        ({"max-num-seqs": 32, "cudagraph-capture-sizes": list(range(1, 33))}, Verdict.FAIL, "8 sequences"),
        ({"max-num-seqs": 32, "cudagraph-capture-sizes": list(range(4, 129, 4))}, Verdict.PASS, "32 sequences"),
    ],
)
def test_how_many_sequences_have_graphs(flags, known, text) -> None:
    for mode in ("FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"):  # the second rescues nothing above the maximum
        subject = make(concurrency=64, flags={**flags, "compilation-config": {"cudagraph_mode": mode}})
        (found,) = findings(subject, "G1")
        assert found.verdict is known, found
        if "largest" in text or known is not Verdict.PASS:
            assert text in found.arithmetic, found.arithmetic


def test_the_cap_warns_where_the_load_passes() -> None:
    """2 x 224 sequences may come to each of eight ranks; 70 are expected on the fullest."""
    (found,) = findings(make(concurrency=224), "G1")
    assert found.verdict is Verdict.WARN
    assert "129 to 448 sequences" in found.message
    assert "peak on one rank 70, scheduler admits 448" in found.arithmetic
    assert {change.flag for change in found.changes} == {"max-cudagraph-capture-size", "max-num-seqs"}


def test_one_prefilling_rank_takes_the_graphs_of_all() -> None:
    only = {"compilation-config": {"cudagraph_mode": "FULL_DECODE_ONLY"}}
    assert verdict(make(flags=only), "G3") is Verdict.WARN
    assert verdict(make(flags={**only, "prefill-schedule-interval": 8}), "G3") is Verdict.PASS
    assert verdict(make(), "G3") is Verdict.PASS


def test_padding_is_the_price_of_split_experts() -> None:
    (found,) = findings(make(Topology(8)), "M7")
    assert found.verdict is Verdict.WARN
    assert found.message.startswith("32.42 GiB a GPU are padding")
    later = make(Topology(8), image="vllm/vllm-openai-rocm:v0.30.0")
    assert verdict(later, "M7") is Verdict.PASS


def test_a_tuning_table_is_not_enough() -> None:
    fused = {"moe-backend": "flydsl"}
    assert verdict(make(flags=fused, tables=(table(),)), "T2") is Verdict.PASS
    assert verdict(make(flags=fused), "T1") is Verdict.UNKNOWN
    mega = make(flags={"moe-backend": "aiter_mega_moe"}, tables=(table(),))
    (found,) = findings(mega, "T2")
    assert found.verdict is Verdict.FAIL and "without a warning" in found.message
    refused = make(flags=fused, dumps=load_dumps())
    assert verdict(refused, "P2") is Verdict.PASS  # 0.26.0 has the name among its choices
    assert verdict(refused, "P3") is Verdict.FAIL  # and refuses it for MXFP4 experts
    assert verdict(make(flags=fused), "P3") is Verdict.UNKNOWN
    foreign = make(flags=fused, tables=(table("flydsl_gfx942_mi300x_IntraNode_ep8.json"),))
    assert verdict(foreign, "T1") is Verdict.FAIL


def test_the_golden_length_and_no_other() -> None:
    assert verdict(make(), "S1") is Verdict.PASS
    (found,) = findings(make(flags={"speculative-config": _spec(2.27)}), "S3")
    assert "measured with 2 drafts" in found.message


def _spec(length: float) -> dict:
    return {
        "method": "mtp", "num_speculative_tokens": 3, "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": length,
    }  # fmt: skip


def test_public_start_of_eight_ranks_without_expert_parallelism() -> None:
    """160.66 GiB of weights and 34.17 GiB of cache were seen at 0.86: our parts, buffers and one separate table."""
    subject = make(Topology(8, dp_attn=True))
    sized = subject.sizing(subject.launches[0])
    table_gib = 2 * 129280 * 7168 / GIB
    assert sized.weights.total / GIB == pytest.approx(156.85, abs=0.01)
    assert sized.loaded / GIB + table_gib == pytest.approx(160.66, rel=0.01)
    assert sized.high / GIB > 34.17


@pytest.mark.parametrize(
    ("budget", "tokens", "pages", "blocks", "gib"),
    [(8192, 8_524_228, 10_778, 87_618, 120.23), (16384, 4_730_981, 17_434, 78_659, 107.94)],
)
def test_public_pools_of_eight_way_tensor_parallelism(
    budget: int, tokens: int, pages: int, blocks: int, gib: float
) -> None:
    """Both figures follow from the layout: tokens = blocks / pages of a longest request x its length, with the blocks
    of one pool. The build of those starts counted pages; 0.26 weighs each group's pages by its bytes. Blocks are whole,
    so one number of them is left, and with it what the start took beside weights and cache."""
    subject = make(Topology(8, ep=8), flags={"max-num-batched-tokens": budget})
    sized = subject.sizing(subject.launches[0])
    plan, length = sized.plan, sized.length
    assert plan is not None
    assert plan.pages(length, 2 * budget) == pages
    near = tokens * pages // length
    assert [n for n in range(near - 9, near + 9) if int(n / pages * length) == tokens] == [blocks]
    weighed = plan.blocks_per_request(length, 2 * budget)
    assert not any(
        int(n / weighed * length) == tokens for n in range(near // 2, 2 * near)
    )  # 0.26 prints no such figure
    assert blocks * plan.bytes_per_block / GIB == pytest.approx(gib, abs=0.01)
    split = make(Topology(8), flags={"max-num-batched-tokens": budget})
    padded = split.sizing(split.launches[0])
    assert (padded.high / GIB < gib) is (budget == 8192)  # padded shards would not leave the smaller budget its pool


def test_what_those_starts_took_beside_weights_and_cache() -> None:
    """Utilisation 0.86 of 288 GiB less weights, buffers and blocks: 22.3 GiB at 8,192 tokens and 33.6 at 16,384. It
    grows with the budget, by 1.4 MiB a token, which is why a start at another budget only bounds it."""
    left = []
    for budget, blocks in ((8192, 87_618), (16384, 78_659)):
        subject = make(Topology(8, ep=8), flags={"max-num-batched-tokens": budget})
        sized = subject.sizing(subject.launches[0])
        assert sized.plan is not None
        left.append((sized.high - blocks * sized.plan.bytes_per_block) / GIB)
    assert left == [pytest.approx(22.31, abs=0.01), pytest.approx(33.61, abs=0.01)]
    known = seen(make(Topology(8, ep=8)), left[0]).known.observations
    after = make(Topology(8, ep=8), flags={"max-num-batched-tokens": 16384}, observations=known)
    bounds = after.sizing(after.launches[0]).overhead
    assert (bounds.low, bounds.high) == (pytest.approx(left[0]), None)
    assert bounds.low < left[1]


LLAMA = {
    "model": "meta-llama/Llama-3.1-8B", "runner": "h200", "image": "vllm/vllm-openai:v0.24.0", "precision": "bf16",
    "free": 139.29,
}  # fmt: skip


def test_two_starts_tell_the_others() -> None:
    facts = json.loads(golden("h200/results.json").read_text())["facts"]

    def observation(name: str) -> Observation:
        fact = facts[name]
        return Observation(
            image="vllm-0.24.0", model="meta-llama/Meta-Llama-3.1-8B", gpu="H200", topology="TP1",
            batched_tokens=8192, utilization=fact["util"], total_gib=fact["total_gib"],
            weights_gib=fact["model_gib"], kv_gib=fact["kv_gib"],
        )  # fmt: skip

    known = (observation("l8_f50"), observation("l8_f80"))
    for name in ("l8_f50", "l8_f80", "l8_f90", "l8_decode", "l8_prefill", "l8_eager"):
        share = facts[name].get("util", 0.9)
        flags = {"gpu-memory-utilization": share, "max-num-seqs": 1024, "max-model-len": 131072}
        subject = make(Topology(1), **LLAMA, flags=flags, observations=known)
        sized = size(
            subject.launches[0], subject.arch, subject.gpu, subject.formats, known, subject.cell.benchmark.image
        )
        assert sized.plan is not None and sized.low is not None
        tokens = sized.plan.blocks(int(sized.low)) * 16
        assert tokens == pytest.approx(facts[name]["kv_tokens"], rel=0.01), name
        assert verdict(subject, "M3") is Verdict.PASS


def test_expectations_are_left_for_the_run() -> None:
    subject = seen(make(), 10.76)
    names = {item.name for item in report(subject).expectations}
    assert {"weights_gib", "kv_tokens", "full_graph_sizes", "acceptance_rate_position_1", "engines"} <= names
    rates = [e.value for e in report(subject).expectations if e.name.startswith("acceptance_rate")]
    assert rates == [1.0, 0.49, 0.0]


def test_the_model_length_is_only_shortened_where_that_is_allowed() -> None:
    base = make(DP4, observations=load_observations(), contexts=(100_000, 400_000))
    allowed = replace(base, known=replace(base.known, shorter=True))
    flags = [{change.flag for change in findings(item, "M3")[0].changes} for item in (base, allowed)]
    assert "max-model-len" not in flags[0]
    assert DSV4 in base.cell.benchmark.model
