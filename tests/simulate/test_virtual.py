import csv
import gzip
import json
import os
import statistics
import subprocess
import sys

import pytest
from tests.golden import golden
from tests.simulate.closed_loop import ClosedLoop, GrowingPrompts, told

from ridgeline.core.record import Outcome, Replay
from ridgeline.core.topology import Topology
from ridgeline.engine.options import EngineOptions, options_from
from ridgeline.simulate.engine import engine_of
from ridgeline.simulate.virtual import simulate

MS = 1_000_000


def options(**more) -> EngineOptions:
    return options_from("qwen3-0.6b", "h200", more.pop("topology", Topology(1)), **more)


def run(pacer: ClosedLoop, quote: bool = True, **more) -> Replay:
    return simulate(pacer, GrowingPrompts(pacer, quote), options(**more))


def test_records_tell_a_consistent_story() -> None:
    replay = run(ClosedLoop(lanes=3, turns=4, start=1000, grow=300, out=20, think_ns=50 * MS))
    assert [record.request_id for record in replay.records] == list(range(12))
    for record in replay.records:
        assert record.outcome is Outcome.OK
        assert record.scheduled_ns <= record.sent_ns < record.first_token_ns < record.last_token_ns == record.end_ns
        assert (record.chunk_ns[0], record.chunk_ns[-1]) == (record.first_token_ns, record.last_token_ns)
        assert list(record.chunk_ns) == sorted(set(record.chunk_ns))
        assert record.completion_tokens == record.chunks == len(record.chunk_ns) == 20
        assert record.prompt_tokens == record.asked_prompt_tokens == 1000 + 300 * record.turn_index
    assert replay.prompt_mode == "token-ids"
    assert replay.aborted is None
    assert replay.settings["gpu"] == "H200"


def test_a_turn_finds_all_but_the_last_token_of_the_one_before() -> None:
    replay = run(ClosedLoop(lanes=2, turns=4, start=1000, grow=300, out=20))
    for record in replay.records:
        before = 1000 + 300 * (record.turn_index - 1) + 20 - 1
        assert record.cached_tokens == (before // 16 * 16 if record.turn_index else 0)


def test_prompts_that_do_not_quote_the_answer_find_the_prompt_only() -> None:
    replay = run(ClosedLoop(lanes=1, turns=3, start=1000, grow=300, out=20), quote=False)
    assert [record.cached_tokens for record in replay.records] == [0, 1000 // 16 * 16, 1300 // 16 * 16]


def test_a_pool_too_small_for_all_conversations_loses_everything_under_cyclic_use() -> None:
    loop = {
        "lanes": 4,
        "turns": 4,
        "start": 4000,
        "grow": 200,
        "out": 10,
        "think_ns": 1000 * MS,
        "stagger_ns": 300 * MS,
    }
    roomy, tight = run(ClosedLoop(**loop), kv_tokens=40_000), run(ClosedLoop(**loop), kv_tokens=10_000)
    assert all(record.cached_tokens for record in roomy.records if record.turn_index)
    assert not any(record.cached_tokens for record in tight.records)


def test_counters_agree_with_the_records() -> None:
    replay = run(ClosedLoop(lanes=3, turns=3, start=2000, grow=500, out=30))
    last, label = replay.samples[-1].values, '{engine="0",model_name="Qwen/Qwen3-0.6B"}'
    assert last is not None
    assert last[f"vllm:prompt_tokens_total{label}"] == sum(r.prompt_tokens for r in replay.records)
    assert last[f"vllm:generation_tokens_total{label}"] == sum(r.completion_tokens for r in replay.records)
    assert last[f"vllm:prompt_tokens_cached_total{label}"] == sum(r.cached_tokens for r in replay.records)
    assert last[f"vllm:time_to_first_token_seconds_count{label}"] == 9


def test_samples_come_every_second_and_at_phase_boundaries() -> None:
    pacer = ClosedLoop(lanes=1, turns=3, start=100, grow=50, out=5, think_ns=1500 * MS)
    replay = simulate(pacer, GrowingPrompts(pacer), options(), sample_s=1.0)
    whole = [sample.at_ns for sample in replay.samples if sample.at_ns % 1_000_000_000 == 0]
    assert set(whole) >= {0, 1_000_000_000, 2_000_000_000, 3_000_000_000}
    full = [sample for sample in replay.samples if any("_bucket" in name for name in sample.values or ())]
    assert (full[0].at_ns, full[-1].at_ns) == (0, replay.records[-1].end_ns)


def test_a_prompt_beyond_the_context_is_an_overflow_and_the_rest_goes_on() -> None:
    replay = run(ClosedLoop(lanes=1, turns=3, start=1000, grow=1000, out=10), max_model_len=2500)
    assert [record.outcome for record in replay.records] == [Outcome.OK, Outcome.OK, Outcome.OVERFLOW]
    assert replay.records[2].status == 400
    assert "maximum context length is 2500" in (replay.records[2].error or "")
    assert replay.records[2].prompt_tokens is None


def test_a_cancelled_request_keeps_what_had_reached_the_client() -> None:
    # The second lane's start makes the pacing machine cancel the first lane's request in mid-answer.
    replay = run(ClosedLoop(lanes=2, turns=1, start=500, grow=0, out=200, stagger_ns=100 * MS, cancel=(0,)))
    gone, kept = replay.records
    assert (gone.outcome, kept.outcome) == (Outcome.CANCELLED, Outcome.OK)
    assert 0 < (gone.chunks or 0) < 200
    assert all(at <= 100 * MS for at in gone.chunk_ns)
    assert gone.completion_tokens is None
    assert kept.completion_tokens == 200


def test_sessions_stay_on_their_rank_and_other_policies_cost_hits() -> None:
    loop = {"lanes": 6, "turns": 5, "start": 2000, "grow": 200, "out": 10, "think_ns": 20 * MS}
    ranks = Topology(4, dp_attn=True)
    sticky = run(ClosedLoop(**loop), topology=ranks)
    spread = run(ClosedLoop(**loop), topology=ranks, router="round-robin")
    hits = [sum(record.cached_tokens for record in replay.records) for replay in (sticky, spread)]
    assert hits[0] == sum((2000 + 200 * turn + 9) // 16 * 16 for turn in range(4)) * 6
    assert hits[1] < hits[0]
    engines = {name.split('engine="')[1][0] for name in sticky.samples[-1].values or () if 'engine="' in name}
    assert engines == {"0", "1", "2", "3"}


def test_a_machine_that_waits_for_nothing_is_reported() -> None:
    class Stuck(ClosedLoop):
        def completed(self, send_id: int, at_ns: int, outcome: Outcome) -> None:
            pass

    pacer = Stuck(lanes=1, turns=2, start=100, grow=50, out=5)
    assert "nothing left to happen" in (simulate(pacer, GrowingPrompts(pacer), options()).aborted or "")


def test_the_same_input_gives_the_same_prediction_in_any_process() -> None:
    """Bit for bit, here and in a process with another hash seed."""
    code = "import sys; from tests.simulate.closed_loop import told; sys.stdout.write(told())"
    other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = {**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": "."}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    assert found.stdout == told()


def _real(sessions: int) -> tuple[list[tuple[int, int, int]], list[dict]]:
    with gzip.open(golden(f"h200/traces/l8_srv_N{sessions}_iterations.csv.gz"), "rt") as file:
        rows = [(int(r["ctx_reqs"]), int(r["ctx_tokens"]), int(r["gen_reqs"])) for r in csv.DictReader(file)]
    with gzip.open(golden(f"h200/traces/l8_srv_N{sessions}_requests.json.gz"), "rt") as file:
        return rows, json.load(file)


@pytest.mark.parametrize(("sessions", "same_from_start"), [(1, 1600), (16, 200)])
def test_a_real_engine_iteration_by_iteration(sessions: int, same_from_start: int) -> None:
    """Batch make-up and cached tokens of a real vLLM in a closed loop. With one session every iteration must agree;
    with 16, until arrival times (which the model does not know to the millisecond) first decide who shares a step."""
    rows, requests = _real(sessions)
    engine = engine_of(options_from("llama-3.1-8b", "h200", Topology(1), "bf16"))
    seen: list[tuple[int, int, int]] = []
    finish = engine.finish

    def watched(until_ns: int = 0):
        step = finish(until_ns)
        batch = step.batches[0]
        assert batch is not None
        seen.append((len(batch.chunks), sum(chunk.tokens for chunk in batch.chunks), batch.decodes))
        return step

    engine.finish = watched  # type: ignore[method-assign]
    pacer = ClosedLoop(sessions, 8, 8192, 1024, 200, think_ns=6 * MS, stagger_ns=6 * MS)
    model = options_from("llama-3.1-8b", "h200", Topology(1), "bf16")
    replay = simulate(pacer, GrowingPrompts(pacer), model, engine=engine)
    assert seen[:same_from_start] == rows[:same_from_start]
    assert sum(tokens for _, tokens, _ in seen) == sum(tokens for _, tokens, _ in rows)

    def cached(turn: int) -> list[int]:
        return sorted(r["usage"]["prompt_tokens_details"]["cached_tokens"] for r in requests if r["turn"] == turn)

    for turn in range(8):
        assert sorted(r.cached_tokens or 0 for r in replay.records if r.turn_index == turn) == cached(turn)
    between = [b - a for r in replay.records for a, b in zip(r.chunk_ns, r.chunk_ns[1:], strict=False)]
    real = [gap * MS for request in requests for gap in request["itl"]]
    assert statistics.mean(between) == pytest.approx(statistics.mean(real), rel=0.05)
    assert replay.records[-1].end_ns / 1e9 == pytest.approx(max(r["t0"] + r["e2e"] for r in requests), rel=0.05)


@pytest.mark.parametrize(("sessions", "same_from_start", "same_prefills"), [(1, 1600, 8), (16, 200, 4)])
def test_a_real_engine_without_walking_decode_steps(sessions: int, same_from_start: int, same_prefills: int) -> None:
    """The engine that predictions run on goes through steps that only decode at once. Iteration by iteration they are
    made up as the real ones are, and every turn finds the same tokens cached."""
    rows, requests = _real(sessions)
    model = options_from("llama-3.1-8b", "h200", Topology(1), "bf16")
    engine = engine_of(model, lazy=True)
    (metrics,) = engine.metrics
    note_step, note_quiet = metrics.note_step, metrics.note_quiet
    every: list[tuple[int, int, int]] = []
    walked = 0

    def watched(batch, *rest) -> None:
        nonlocal walked
        walked += 1
        every.append((len(batch.chunks), sum(chunk.tokens for chunk in batch.chunks), batch.decodes))
        note_step(batch, *rest)

    def skipped(batch, seconds: float, steps: int) -> None:
        every.extend([(0, 0, batch.decodes)] * steps)
        note_quiet(batch, seconds, steps)

    metrics.note_step, metrics.note_quiet = watched, skipped  # type: ignore[method-assign]
    pacer = ClosedLoop(sessions, 8, 8192, 1024, 200, think_ns=6 * MS, stagger_ns=6 * MS)
    replay = simulate(pacer, GrowingPrompts(pacer), model, engine=engine)
    seen, prefills = ([row for row in table if row[0]] for table in (every, rows))
    assert walked < len(rows) / 2
    assert every[:same_from_start] == rows[:same_from_start]
    assert seen[:same_prefills] == prefills[:same_prefills]
    assert sum(tokens for _, tokens, _ in seen) == sum(tokens for _, tokens, _ in prefills)
    for turn in range(8):
        cached = sorted(r["usage"]["prompt_tokens_details"]["cached_tokens"] for r in requests if r["turn"] == turn)
        assert sorted(r.cached_tokens or 0 for r in replay.records if r.turn_index == turn) == cached
    assert replay.records[-1].end_ns / 1e9 == pytest.approx(max(r["t0"] + r["e2e"] for r in requests), rel=0.05)
