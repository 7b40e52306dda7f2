"""How an agentic point is predicted: engine, load, and what counts as seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.core.errors import InputError
from ridgeline.core.record import Outcome, Phases, Record, Replay
from ridgeline.core.topology import Topology
from ridgeline.simulate.agentic import (
    NODE_HOST_BYTES,
    agent_sessions,
    agentic_engines,
    agentic_options,
    agentic_pacing,
    old_pacing,
    predicted,
    seen,
)
from ridgeline.simulate.costparams import parameters_for
from ridgeline.simulate.evaluate import MEASURES, Row, table
from ridgeline.simulate.points import Measured, Prefill, read_points
from ridgeline.simulate.replays import Replays
from ridgeline.simulate.virtual import Pools
from ridgeline.trace.agentx import agentx_sessions

GLM = Measured(
    row=2, hardware="b300", engine="sglang", model="glm5.2", precision="fp4", spec="none", topology=Topology(8), conc=8
)


def test_engines_are_started_as_the_public_scripts_start_them() -> None:
    plain = agentic_options(GLM)
    assert (plain.gpu_memory_utilization, plain.max_num_batched_tokens, plain.max_num_seqs) == (0.85, 8192, 16)
    spread = agentic_options(replace(GLM, topology=Topology(8, dp_attn=True)))
    assert spread.topology.ep == 8 and spread.max_num_batched_tokens == 32_768 // 8  # one budget for all ranks
    qwen = replace(GLM, model="qwen3.5", precision="fp8")
    assert agentic_options(qwen).max_num_batched_tokens == 16_384
    assert agentic_options(replace(qwen, hardware="h200")).max_num_batched_tokens == 8192
    assert agentic_options(replace(qwen, hardware="h200")).gpu_memory_utilization == 0.80
    vllm = agentic_options(replace(GLM, engine="dynamo-vllm"))
    assert (vllm.gpu_memory_utilization, vllm.max_num_batched_tokens, vllm.prefill_first) == (0.9, 8192, False)


def test_a_layout_that_cannot_hold_the_weights_ran_on_stages() -> None:
    kimi = replace(GLM, model="kimik3", engine="vllm", hardware="b200")
    assert agentic_options(kimi).topology.pp == 2 and agentic_options(kimi).topology.gpus == 16
    assert agentic_options(replace(kimi, hardware="b300")).topology.pp == 1
    with pytest.raises(InputError, match="weights"):
        agentic_options(replace(kimi, hardware="h100", topology=Topology(1)))
    with pytest.raises(InputError, match="layout is not said"):
        agentic_options(replace(kimi, topology=None))


def test_recurrent_states_are_cached_only_where_the_start_asks_for_it() -> None:
    kimi = replace(GLM, model="kimik3", engine="vllm", hardware="b300")
    asks = (
        replace(kimi, drafts=3),
        replace(kimi, offload=True),
        replace(GLM, engine="vllm"),
        replace(kimi, engine="sglang"),
    )
    assert [agentic_options(point).enable_prefix_caching for point in (kimi, *asks)] == [False, True, True, True, True]


def test_a_host_tier_is_shared_by_the_gpus_of_a_node() -> None:
    def tokens(point: Measured) -> int:
        return agentic_options(replace(point, offload=True)).host_kv_tokens

    four, vllm = replace(GLM, topology=Topology(4)), {"engine": "vllm", "drafts": 3}
    assert agentic_options(GLM).host_kv_tokens == 0
    assert tokens(GLM) == pytest.approx(tokens(four), rel=0.01)  # SGLang: a copy in every GPU's eighth
    assert tokens(replace(GLM, **vllm)) == pytest.approx(2 * tokens(replace(four, **vllm)), rel=0.01)  # vLLM: one
    qwen = replace(GLM, model="qwen3.5", hardware="h200", precision="fp8")
    assert tokens(qwen) == pytest.approx(NODE_HOST_BYTES / 8 * 15 / 31 / (15 * 512), rel=0.01)  # states have the rest


def test_pools_are_engines_of_their_own_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    point = replace(
        GLM, engine="dynamo-sglang", hardware="gb300", topology=Topology(4), workers=2, drafts=3, conc=4,
        prefill=Prefill(Topology(4), 3),
    )  # fmt: skip
    options, pools, gpus = agentic_engines(point, parameters_for("gb300", "dynamo-sglang"))
    assert isinstance(pools, Pools) and gpus == 20 and options.topology == Topology(4)
    assert (len(pools.prefill), len(pools.decode)) == (3, 2)
    assert [engine.limits.query for engine in (pools.prefill[0], pools.decode[0])] == [1, 4]
    _, several, gpus = agentic_engines(replace(point, prefill=None), parameters_for("gb300", "sglang"))
    assert isinstance(several, Pools) and not several.prefill and gpus == 8
    monkeypatch.setattr("ridgeline.simulate.agentic.agent_sessions", lambda whole, old=False: agentx_sessions(6))
    found = predicted(point, parameters_for("gb300", "dynamo-sglang"), 60)
    assert found is not None and found.hit > 0.5 and found.tput_per_gpu > 0


def test_points_before_the_present_pacing_are_paced_as_they_were() -> None:
    old, new = replace(GLM, date="2026-07-18"), replace(GLM, date="2026-07-29")
    assert old_pacing(old) and not old_pacing(new) and not old_pacing(GLM)
    assert agentic_pacing(old).warmup_requests_per_lane == 0
    assert agentic_pacing(new).warmup_requests_per_lane == 10
    assert agentic_pacing(new).duration_ns == 3600 * 10**9


def test_a_replay_is_summed_up_as_the_harness_does() -> None:
    def record(number: int, sent: int, first: int, end: int, **more: object) -> Record:
        values: dict[str, object] = {"phase": "profiling", "cached_tokens": 900, **more}
        return Record(
            request_id=number, lane=0, tree=0, session_id="s", conversation_id="s", turn_index=number,
            sent_ns=sent * 10**9, first_token_ns=first * 10**9, last_token_ns=end * 10**9, end_ns=end * 10**9,
            prompt_tokens=1000, completion_tokens=11, **values,  # type: ignore[arg-type]
        )  # fmt: skip

    records = (
        record(0, 0, 1, 2, phase="warmup"),
        record(1, 10, 11, 31),
        record(2, 20, 24, 34, cached_tokens=600),
        record(3, 25, 26, 110),  # ends in the grace
        record(4, 30, 31, 200, outcome=Outcome.CANCELLED),
        record(5, 40, 41, 45, outcome=Outcome.HTTP_ERROR),
    )
    found = seen(_replay(records), gpus=2)
    assert found is not None and found.requests == 3
    assert found.tput_per_gpu == pytest.approx(3 * 1011 / (110 - 10) / 2)
    assert found.itl_s == pytest.approx((20 + 10 + 84) / 10 / 3)
    assert (found.ttft_mean_s, found.ttft_median_s) == (pytest.approx(2.0), 1.0)
    assert found.hit == pytest.approx(0.8) and (found.prompt, found.answer) == (1000, 11)
    assert seen(_replay(records[:1]), gpus=2) is None


def _replay(records: tuple[Record, ...]) -> Replay:
    return Replay(records=records, phases=Phases(), samples=(), settings={}, prompt_mode="bytes", aborted=None)


def test_columns_say_which_statistic_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "run_or_date,hardware,framework,model,precision,spec,tp,conc,total_tput_per_gpu,mean_ttft_ms,p50_ttft_s,"
        "mean_tpot_ms,mean_intvty\n"
        "run 9 2026-07-18,b300,sglang,glm5.2,fp4,none,8,4,9000,,0.6,,100\n"
        "baseline,h200,sglang,qwen3.5,fp8,mtp,8,4,2655,693,,4.5,\n"
    )
    median, mean = read_points(path)
    assert (median.ttft_s, median.ttft_median, median.tpot_s, median.date) == (0.6, True, 0.01, "2026-07-18")
    assert (mean.ttft_s, mean.tpot_s) == (pytest.approx(0.693), pytest.approx(0.0045))
    assert (mean.ttft_median, mean.date) == (False, None)
    path.write_text(
        "hardware,conc,spec_method,offload_mode,date,tput_per_gpu,mean_itl_s,mean_tpot_s,mean_ttft_s,mean_intvty\n"
        "b300,1,mtp,off,2026-08-11,1689.95,0.00556,0.00116,1.37193,179.9\n"
    )
    (both,) = read_points(path)  # of the whole response, as the harness's own figure is
    assert (both.tpot_s, both.date) == (0.00556, "2026-08-11")


def test_an_error_of_a_hit_rate_is_a_difference() -> None:
    rows = [Row("f", GLM, MEASURES[3], 0.05, 0.25, None, None), Row("f", GLM, MEASURES[0], 100.0, 150.0, None, None)]
    errors = {name: (size, bias) for name, size, bias, _ in table(rows)[0].errors}
    assert errors[MEASURES[3]] == (pytest.approx(0.2), pytest.approx(0.2))
    assert errors[MEASURES[0]] == (pytest.approx(0.5), pytest.approx(0.5))


def test_a_cache_too_small_for_its_lanes_collapses(monkeypatch: pytest.MonkeyPatch) -> None:
    module, own, p = "ridgeline.simulate.agentic", agentic_options, parameters_for("b300", "sglang")
    monkeypatch.setattr(f"{module}.agent_sessions", lambda whole, old=False: agentx_sessions(6))
    point = replace(GLM, conc=4)
    kept = predicted(point, p, 60)
    monkeypatch.setattr(f"{module}.agentic_options", lambda point: replace(own(point), kv_tokens=400_000))
    lost = predicted(point, p, 60)
    assert kept is not None and lost is not None
    assert lost.hit < 0.9 < kept.hit and lost.ttft_mean_s > kept.ttft_mean_s
    assert kept.ttft_median_s > p.text_token_s * kept.prompt / 2  # text is tokenised before anything else


def test_sessions_are_those_of_the_models_set(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int | None, float | None]] = []
    monkeypatch.setattr(
        "ridgeline.simulate.agentic.agentx_sessions",
        lambda *, longest, start_gap_cap_s: asked.append((longest, start_gap_cap_s)) or (),
    )
    agent_sessions.cache_clear()
    for whole, old in ((True, False), (False, False), (True, True)):
        agent_sessions(whole, old)
    agent_sessions.cache_clear()
    assert asked == [(None, None), (256_000, None), (None, 10.0)]


def test_points_are_replayed_alike_in_one_process_and_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = agentx_sessions(6)
    for module in ("agentic", "replays"):
        monkeypatch.setattr(f"ridgeline.simulate.{module}.agent_sessions", lambda whole, old=False: sessions)
    p = parameters_for("b300", "sglang")
    tasks = [(replace(GLM, conc=conc), p, 60) for conc in (1, 2)] + [(replace(GLM, model="nobody"), p, 60)]
    alone, shared = (list(Replays(tasks).all(jobs)) for jobs in (1, 2))
    assert alone == shared
    assert [isinstance(seen, str) for seen in alone] == [False, False, True]
    assert "no facts about model `nobody`" in str(alone[2])
