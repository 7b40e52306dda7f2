"""Points are read, fits find what made the points, and what cannot be supported is refused."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from tests.golden import golden

from ridgeline.core.errors import InputError
from ridgeline.core.topology import Topology
from ridgeline.engine.options import options_from
from ridgeline.simulate import validate
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import ANY_MODEL, parameters_for
from ridgeline.simulate.errortable import error_table, shown
from ridgeline.simulate.evaluate import evaluated, table
from ridgeline.simulate.fit import covered, engine_options, fit, names_of, predict, prior_of
from ridgeline.simulate.fitfile import text_of
from ridgeline.simulate.points import Measured, Prefill, read_points
from ridgeline.simulate.steady import Load, Steady, crowded_prefill_s, decode_batch, disaggregated, prefill_s, steady
from ridgeline.simulate.validate import knee, tau

HEAD = (
    "hardware,framework,model,precision,spec_method,disagg,decode_tp,decode_ep,decode_dp_attention,isl,osl,conc,"
    "median_tpot_s,tput_per_gpu\n"
)


def made(slow: float = 1.0, engine: str = "trt", gpu: str = "b200", model: str = "llama70b") -> list[Measured]:
    """Points that the model itself made, every time `slow` times as long."""
    found = []
    for tp in (1, 2, 4, 8):
        for conc in (4, 16, 64, 256):
            point = Measured(
                row=len(found), hardware=gpu, engine=engine, model=model, precision="fp8", spec="none",
                topology=Topology(tp), conc=conc, isl=1024, osl=1024,
            )  # fmt: skip
            seen = predict(point, prior_of(gpu, engine), {})
            found.append(replace(point, tput=seen.tput_per_gpu / slow, tpot_s=seen.tpot_s * slow))
    return found


def test_a_fit_finds_a_slower_machine() -> None:
    points = made(slow=1.4)
    found = fit(points, "b200", "trt")
    before = validate.errors([validate.Guess(p, predict(p, found.prior, {}), None, None, "") for p in points])
    after = validate.errors([validate.Guess(p, seen, None, None, "") for p, seen in validate.in_sample(found)])
    assert before.tpot == pytest.approx(1 - 1 / 1.4, abs=0.001)
    assert after.tpot < 0.05
    assert after.tput < 0.05
    left = validate.of_topology(found, validate.Baseline(points))
    assert {guess.fold for guess in left} == {"TP1", "TP2", "TP4", "TP8"}
    assert validate.errors(left).tput < 0.12
    assert '"spread": 0.05' in text_of(found, 0.05, "made.csv")


def test_nothing_to_fit_changes_nothing() -> None:
    found = fit(made(), "b200", "trt")
    assert max(abs(value) for value in found.theta) < 0.02


def test_fewer_points_than_parameters_are_refused() -> None:
    with pytest.raises(InputError, match="5 points cannot support 6 parameters of b200 and trt"):
        fit(made()[:5], "b200", "trt")


def test_more_load_is_slower_and_yields_more() -> None:
    from ridgeline.engine.options import options_from
    from ridgeline.simulate.cost import StepCost

    price = StepCost(options_from("llama-3.1-70b", "h200", Topology(4), "fp8"), parameters_for("H200", "vllm"))
    seen = [steady(price, Load(1024, 1024, conc)) for conc in (1, 8, 64)]
    assert seen[0].tpot_s < seen[1].tpot_s < seen[2].tpot_s
    assert seen[0].tput_per_gpu < seen[1].tput_per_gpu < seen[2].tput_per_gpu
    short = steady(price, Load(1024, 1024, 64), kv_tokens=1536 * 16)
    assert short.running == 16
    assert short.ttft_s > seen[2].ttft_s


def test_a_request_alone_does_not_decode_beside_its_own_prompt() -> None:
    from ridgeline.engine.options import options_from
    from ridgeline.simulate.cost import StepCost

    price = StepCost(options_from("llama-3.1-70b", "h200", Topology(4), "fp8"), parameters_for("H200", "vllm"))
    alone, two = (steady(price, Load(8192, 1024, conc)) for conc in (1, 2))
    step = price.seconds([decode_batch(1, 8704)])
    assert alone.tpot_s == pytest.approx(step)
    assert alone.ttft_s > prefill_s(price, 8192)
    assert two.tpot_s > step + 0.9 * prefill_s(price, 8192) / 1024


def test_prompts_that_wait_are_computed_together() -> None:
    p = parameters_for("default", "default")
    tensor, spread = (
        StepCost(options_from("deepseek-r1", "h200", topology, "fp8"), p)
        for topology in (Topology(8), Topology(8, ep=8, dp_attn=True))
    )
    assert crowded_prefill_s(tensor, 512) < 0.6 * prefill_s(tensor, 512)  # launches and experts' weights are shared
    assert crowded_prefill_s(tensor, 8192) == pytest.approx(prefill_s(tensor, 8192))
    assert prefill_s(spread, 8192) / 8 < crowded_prefill_s(spread, 8192) < prefill_s(spread, 8192)
    assert crowded_prefill_s(tensor, 20_000) == pytest.approx(prefill_s(tensor, 20_000))


def test_the_first_wave_waits_for_a_prefill_pool() -> None:
    """All lanes ask at once; ten waves are measured, so the mean request waits a twentieth of all prompts."""
    p = parameters_for("default", "default")
    price = StepCost(options_from("llama-3.1-70b", "h200", Topology(8), "fp8"), p)
    few, many = (disaggregated(price, price, Load(1024, 1024, conc), 1, 1) for conc in (2, 64))
    prompt = crowded_prefill_s(price, 1024)
    assert many.ttft_s - few.ttft_s == pytest.approx(62 * prompt / 20, rel=0.05)


def test_sglangs_prefill_step_is_one_of_all_ranks() -> None:
    wide = Topology(8, ep=8, dp_attn=True)
    point = Measured(
        row=0, hardware="h200", engine="sglang", model="dsr1", precision="fp8", spec="none", topology=wide, conc=8,
        isl=1024, osl=1024,
    )  # fmt: skip
    assert engine_options(point, wide).max_num_batched_tokens == 1024
    assert engine_options(point, Topology(8)).max_num_batched_tokens == 8192
    assert engine_options(replace(point, hardware="b200"), Topology(8)).max_num_batched_tokens == 16384
    assert engine_options(replace(point, engine="vllm"), wide).max_num_batched_tokens == 8192


def test_drafts_that_rows_leave_out_are_fitted_and_said_ones_are_not() -> None:
    plain = [replace(point, drafts=3, accepted=2.5, spec="mtp") for point in made()]
    truth = replace(parameters_for("default", "default"), unsaid_drafts=0.6)
    unsaid = []
    for point in plain:
        seen = predict(replace(point, unsaid=True), truth, {})
        unsaid.append(replace(point, unsaid=True, tput=seen.tput_per_gpu, tpot_s=seen.tpot_s))
    assert "unsaid_drafts" not in names_of(plain)
    found = fit(made() + unsaid, "b200", "trt")
    assert found.parameters.unsaid_drafts == pytest.approx(0.6, abs=0.15)
    said = predict(plain[0], found.parameters, {})
    assert said.tpot_s < predict(unsaid[0], found.parameters, {}).tpot_s


def test_the_band_of_few_points_is_a_rank_wider() -> None:
    def left(errors: list[float]) -> list[validate.Guess]:
        point = replace(made()[0], tput=100.0)
        return [validate.Guess(point, Steady(0.01, 0.1, 100 * math.exp(e), 1), None, None, "") for e in errors]

    assert validate.spread(left([0.1 * k for k in range(1, 10)])) * validate.BAND == pytest.approx(0.8)
    assert validate.spread(left([0.1, 0.2])) * validate.BAND == pytest.approx(0.2)
    many = [k / 1000 for k in range(1, 1001)]
    assert validate.spread(left(many)) * validate.BAND == pytest.approx(0.8, abs=0.002)


def test_tensorrt_admits_only_what_will_fit_in_full() -> None:
    from ridgeline.engine.options import options_from
    from ridgeline.simulate.cost import StepCost

    known = parameters_for("H200", "vllm")
    ours, trt = (
        steady(
            StepCost(options_from("llama-3.1-70b", "h200", Topology(4), "fp8", engine=engine), known),
            Load(1024, 3072, 64), kv_tokens=4096 * 16,
        )
        for engine in ("vllm", "trt")
    )  # fmt: skip
    assert trt.running == 16
    assert ours.running > trt.running


def test_factors_are_those_of_the_nearest_checkpoint() -> None:
    known = replace(
        parameters_for("default", "default"), models={"a fp8": (2.0, 1.0), "b fp4": (8.0, 4.0), ANY_MODEL: (3.0, 2.0)}
    )
    assert known.factors("a", "fp8") == (2.0, 1.0)
    assert known.factors("b", "fp8") == pytest.approx((8.0, 4.0))
    assert known.factors("c", "fp8") == (3.0, 2.0)


def test_what_was_measured_on_the_gpu_is_not_fitted_again() -> None:
    known = {(gpu, engine): names_of(made(gpu=gpu, engine=engine)) for gpu in ("h200", "b200") for engine in ("vllm",)}
    assert not {"device", "graph_kernel_s"} & set(known["h200", "vllm"])
    assert {"device", "graph_kernel_s", "narrow_cache"} <= set(known["b200", "vllm"])
    assert "collective_s" in known["h200", "vllm"]
    assert prior_of("h200", "vllm").device == 1.0


def test_a_checkpoint_that_is_served_badly_does_not_move_the_others() -> None:
    points = made() + made(model="qwen3-30b-a3b") + made(slow=3.0, model="gptoss120b")
    found = fit(points, "b200", "trt")
    assert found.parameters.device == pytest.approx(1.0, abs=0.08)
    assert found.parameters.factors("openai/gpt-oss-120b", "fp8")[0] > 2
    left = validate.of_model(found, validate.Baseline(points))
    assert {guess.fold for guess in left} == {"llama70b", "qwen3-30b-a3b", "gptoss120b"}


def test_rows_say_what_ran(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text(HEAD + "h100,vllm,gptoss120b,fp4,none,False,8,1,False,1024,1024,512,0.00531,730\n")
    [point] = read_points(path)
    assert (point.label, point.gpus, point.drafts, point.kind) == ("TP8", 8, 0, "fixed")
    assert point.implied == pytest.approx(730 * 8 / 2 * 0.00531)
    assert point.doubtful


def test_problems_name_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text(HEAD + "h100,vllm,x,fp4,none,False,8,1,False,1024,abc,4,1,1\n" * 2)
    with pytest.raises(InputError) as caught:
        read_points(path)
    assert [problem.where.line for problem in caught.value.problems if problem.where] == [2, 3]
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="no columns that are understood"):
        read_points(path)


def test_unknown_models_are_left_out_by_name(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text(HEAD + "h100,vllm,nobody,fp8,none,False,8,1,False,1024,1024,4,0.01,100\n")
    good, refused = covered(read_points(path))
    assert not good
    assert "nobody" in refused[0].reason


def test_order_knee_and_levels() -> None:
    assert tau([(1, 1), (2, 2), (3, 1.5)]) == pytest.approx(1 / 3)
    assert knee([(100, 1), (90, 10), (10, 20)]) == 1
    real, said = (
        [(1, 100.0, 10), (2, 95.0, 19), (4, 80.0, 36), (8, 20.0, 40)],
        [(100.0, 10), (60.0, 19), (20.0, 36), (18.0, 40)],
    )
    pairs = [
        (replace(made()[0], conc=conc, tput=y, tpot_s=1 / x), Steady(1 / x2, 0.1, y2, conc))
        for (conc, x, y), (x2, y2) in zip(real, said, strict=True)
    ]
    [(steps, share)] = validate.knees(pairs, least=4)
    assert knee([(x, y) for _, x, y in real]) == 2
    assert steps == abs(2 - knee(said)) == 1
    assert 0.5 < share < 1
    assert validate.knees([(p, Steady(p.tpot_s or 1, 0.1, p.tput or 1, p.conc)) for p, _ in pairs], least=4) == [
        (0, 1.0)
    ]


def test_shipped_sets_have_a_band_and_stand_in_for_relatives() -> None:
    own, near = parameters_for("B200", "vllm"), parameters_for("B300", "vllm")
    assert own.spread is not None
    assert near.spread is not None
    assert near.spread > own.spread
    assert near.gemm_top == own.gemm_top
    assert all(source.startswith("borrowed from b200-vllm") for source in near.provenance.values())
    assert parameters_for("B200", "vllm", measured_only=True).models == {}


def test_measured_steps_of_an_h200() -> None:
    rows, refused, *_ = evaluated([golden("h200/results.json")])
    lines = {line.name: line.errors[0] for line in table(rows)}
    assert not refused
    assert lines["h200/vllm decode llama8b_graph"][1] < 0.02
    assert lines["h200/vllm decode qwen3moe_graph"][1] < 0.06
    assert lines["h200/vllm prefill llama8b"][1] < 0.08


def test_the_uncalibrated_model_ranks() -> None:
    """Fitted parameters deleted, every series of 12 points or more is in order, by throughput and by time per token."""
    points, _ = covered(read_points(golden("results/fixed_seq_points.csv")))
    found = validate.taus(validate.uncalibrated([point for point in points if not point.doubtful]))
    assert len(found) > 80
    assert min(tput for tput, _ in found.values()) >= 0.6
    assert min(tpot for _, tpot in found.values()) >= 0.6


def test_shipped_parameters_on_the_points_they_were_fitted_to() -> None:
    rows, refused, *_ = evaluated([golden("results/fixed_seq_points.csv")])
    assert not refused
    errors = [abs(math.log(row.predicted / row.measured)) for row in rows if not row.point.doubtful]
    assert sorted(errors)[len(errors) // 2] < 0.08
    inside = [row.low <= row.measured <= row.high for row in rows if row.low and row.high]
    assert 0.7 < sum(inside) / len(inside) < 0.95


@pytest.mark.integration
@pytest.mark.parametrize(
    "path",
    [
        "results/inferencex_api/2026-05-05/benchmarks.json",
        "results/inferencex_api/2026-05-05/benchmarks-history.json",
        "results/sglang_cookbook_dsv4",
        "results/token_position_h200",
        "results/fixed_seq_pr_tables.csv",
        "results/blog_tables.json",
    ],
)
def test_published_points_of_every_kind_are_predicted(path: str) -> None:
    """GPUs, engines and models that no fit has seen, pools of every shape: all have a prediction and a band."""
    found = evaluated([golden(path)])
    assert not found.left_out and not found.problems
    assert all(row.low is not None and row.low < row.predicted < (row.high or 0) for row in found.rows)
    text = shown(error_table(found.rows))
    assert "tokens/s/GPU" in text and "time per token" in text
    runs = [row for row in found.rows if row.measure == "tokens/s/GPU"]
    inside = [(row.low or 0) <= row.measured <= (row.high or 0) for row in runs]
    if "token_position" not in path:  # early software, four times slower than any arithmetic
        assert sum(inside) / len(inside) > 0.6


def test_a_prefill_pool_must_hold_the_weights_too() -> None:
    point = replace(made()[0], engine="dynamo-trt", model="dsr1", topology=Topology(8), prefill=Prefill(Topology(1), 2))
    good, refused = covered([point, replace(point, prefill=Prefill(Topology(8), 1))])
    assert len(good) == 1 and "TP1 of dsr1 fp8: 627 GiB of weights" in refused[0].reason


def test_less_cache_never_yields_more_behind_a_prefill_pool() -> None:
    price = StepCost(options_from("llama-3.1-70b", "h200", Topology(8), "fp8"), parameters_for("default", "default"))
    load = Load(1024, 8192, 256)
    rates = [disaggregated(price, price, load, 1, 1, room).tput_per_gpu for room in (10_000, 20_000, 100_000, 1e9)]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1] / 4
