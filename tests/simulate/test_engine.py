"""Ranks in lock-step and look-ahead, with prices a test can do in its head."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from ridgeline.core.errors import InputError
from ridgeline.core.topology import Topology
from ridgeline.engine.options import options_from
from ridgeline.simulate.batch import Batch
from ridgeline.simulate.engine import Engine, engine_of
from ridgeline.simulate.limits import Limits
from ridgeline.simulate.request import Request
from ridgeline.simulate.router import Router
from ridgeline.simulate.scheduler import Scheduler

LIMITS = Limits(max_num_batched_tokens=100, max_num_seqs=8, max_model_len=1000, block_size=4, blocks=200)
MS = 1_000_000


@dataclass
class PerToken:
    """A millisecond per token of the busiest rank."""

    frontend: float = 0.0

    def seconds(self, batches: Sequence[Batch | None], *, from_idle: bool = False) -> float:
        return max(batch.tokens if batch else 0 for batch in batches) / 1000

    def frontend_s(self, prompt_tokens: int) -> float:
        return self.frontend


def request(key: int, prompt: int, out: int) -> Request:
    return Request(key, prompt, out, [hash((key, i)) for i in range((prompt + out) // 4)])


def drain(engine: Engine) -> list[tuple[int, list[int]]]:
    """(end in ms, keys that got a token) of every step."""
    steps = []
    while engine.ends_at is not None:
        step = engine.finish()
        steps.append((step.end_ns // MS, [token.request.key for tokens in step.tokens for token in tokens]))
    return steps


def test_an_arrival_in_mid_step_waits_for_the_step_after_the_next() -> None:
    engine = Engine(LIMITS, 1, PerToken())
    engine.submit(0, request(0, 50, 4), 0)
    engine.kick(0)
    engine.submit(0, request(1, 20, 1), 10 * MS)  # the step from 50 to 51 ms has been planned without it
    assert drain(engine) == [(50, [0]), (51, [0]), (72, [0, 1]), (73, [0])]


def test_without_look_ahead_it_joins_the_next_step() -> None:
    engine = Engine(LIMITS, 1, PerToken(), async_scheduling=False)
    engine.submit(0, request(0, 50, 2), 0)
    engine.kick(0)
    engine.submit(0, request(1, 20, 1), 10 * MS)
    assert drain(engine) == [(50, [0]), (71, [0, 1])]


def test_all_of_an_instant_start_together() -> None:
    engine = Engine(LIMITS, 1, PerToken())
    for key in range(3):
        engine.submit(0, request(key, 10, 1), 5 * MS)
    engine.kick(5 * MS)
    assert drain(engine) == [(35, [0, 1, 2])]


def test_the_slowest_rank_decides_and_idle_ranks_run_along() -> None:
    engine = Engine(LIMITS, 3, PerToken())
    engine.submit(0, request(0, 4, 3), 0)
    engine.submit(1, request(1, 60, 2), 0)
    engine.kick(0)
    assert drain(engine) == [(60, [0, 1]), (61, [0, 1]), (62, [0])]


def test_a_rank_that_was_idle_joins_at_the_next_step() -> None:
    engine = Engine(LIMITS, 2, PerToken())
    engine.submit(0, request(0, 50, 3), 0)
    engine.kick(0)
    engine.submit(1, request(1, 10, 1), 1 * MS)
    assert drain(engine) == [(50, [0]), (60, [0, 1]), (61, [0])]


def test_an_abort_in_mid_step_lets_the_others_go_on() -> None:
    engine = Engine(LIMITS, 1, PerToken())
    gone = request(0, 10, 5)
    engine.submit(0, gone, 0)
    engine.submit(0, request(1, 10, 2), 0)
    engine.kick(0)
    engine.abort(0, gone)
    engine.abort(0, gone)
    assert [keys for _, keys in drain(engine)] == [[1], [1]]
    assert engine.metrics[0].ends["abort"] == 1
    assert engine.ranks[0].pool.used == 0


def test_times_of_a_request_add_up() -> None:
    engine = Engine(LIMITS, 1, PerToken())
    found = request(0, 10, 3)
    engine.submit(0, found, 2 * MS)
    engine.kick(7 * MS)
    drain(engine)
    assert (found.queued_ns, found.scheduled_ns, found.first_ns, found.last_ns) == (2 * MS, 7 * MS, 17 * MS, 19 * MS)
    seen = engine.metrics[0].histograms
    assert seen["time_to_first_token_seconds"].total == pytest.approx(0.015)
    assert seen["request_queue_time_seconds"].total == pytest.approx(0.005)
    assert seen["inter_token_latency_seconds"].total == pytest.approx(0.002)
    assert seen["e2e_request_latency_seconds"].total == pytest.approx(0.017)


def test_options_become_ranks_and_limits() -> None:
    options = options_from(
        "gpt-oss-20b", "h200", Topology(4, dp_attn=True), kv_tokens=4000, max_model_len=131072, watermark=0.1
    )
    engine = engine_of(options)
    assert len(engine.ranks) == 4
    assert (engine.limits.blocks, engine.limits.watermark_blocks, engine.limits.max_num_seqs) == (250, 25, 1024)
    assert engine.limits.max_model_len == 4000  # longer requests could never fit the overridden pool


def test_routing_policies() -> None:
    ranks = [Scheduler(LIMITS) for _ in range(3)]
    session = Router("session", ranks)
    assert len({session.pick("a") for _ in range(5)}) == 1
    assert {session.pick(f"key-{i}") for i in range(50)} == {0, 1, 2}
    spread = Router("round-robin", ranks)
    assert [spread.pick("a") for _ in range(4)] == [0, 1, 2, 0]
    ranks[0].add(request(0, 4, 1))
    for router in (Router("least-loaded", ranks), session):
        assert router.pick(None) == 1
    assert Router("session", ranks[:1]).pick("anything") == 0


def test_layouts_that_no_engine_starts_with_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="8 key heads over 4 GPUs are repeated 1 times, less than 4"):
        engine_of(options_from("qwen3-8b", "h200", Topology(4, pcp=2, dcp=4)))


def staged(stages: int) -> Engine:
    return Engine(replace(LIMITS, in_turn=stages > 1), 1, PerToken(), stages=stages)


def test_a_pipeline_takes_its_time_once_a_stage_and_begins_when_the_first_is_free() -> None:
    engine = staged(3)
    engine.submit(0, request(0, 100, 1), 0)  # two batches' worth: 100 tokens are one budget
    engine.submit(0, request(1, 100, 1), 0)
    engine.kick(0)
    assert engine.ends_at == 300 * MS
    assert engine.wakes_at == 100 * MS, "the first stage is free"
    engine.kick(100 * MS)
    first, second = engine.finish(), engine.finish()
    assert (first.start_ns, first.end_ns) == (0, 300 * MS)
    assert (second.start_ns, second.end_ns) == (100 * MS, 400 * MS)
    assert [token.request.key for token in first.tokens[0] + second.tokens[0]] == [0, 1]
    assert engine.wakes_at is None


def test_a_request_is_in_one_stage_at_a_time_and_others_fill_the_rest() -> None:
    engine = staged(2)
    for key in range(2):
        engine.submit(0, request(key, 100, 4), 0)
    engine.kick(0)
    engine.kick(100 * MS)
    seen = []
    while (wakes := engine.wakes_at) is not None:
        if engine.ends_at == wakes:
            step = engine.finish()
            seen.append((step.start_ns // MS, step.end_ns // MS, [t.request.key for t in step.tokens[0]]))
        engine.kick(wakes)
    assert seen[:2] == [(0, 200, [0]), (100, 300, [1])]
    assert seen[2] == (200, 301, [0]), "its token waits in the last stage behind the other's prompt"
    assert all(end - start == 2 for start, end, _ in seen[4:]), "a token takes both stages"
    assert [keys for _, _, keys in seen].count([0]) == 4


def test_chunks_of_one_prompt_follow_each_other_through_the_stages() -> None:
    engine = staged(2)
    engine.submit(0, request(0, 300, 1), 0)
    engine.kick(0)
    ends = []
    while (wakes := engine.wakes_at) is not None:
        if engine.ends_at == wakes:
            ends.append(engine.finish().end_ns // MS)
        engine.kick(wakes)
    assert ends == [200, 300, 400], "three chunks of 100 ms a stage, one behind the other"


def test_an_arrival_uses_a_stage_that_had_nothing_to_do() -> None:
    engine = staged(2)
    engine.submit(0, request(0, 100, 1), 0)
    engine.kick(0)
    engine.kick(100 * MS)  # nothing is there
    assert engine.wakes_at == 200 * MS
    engine.submit(0, request(1, 50, 1), 120 * MS)
    engine.kick(120 * MS)
    assert [engine.finish().end_ns // MS for _ in range(2)] == [200, 250], "the last stage is busy until 200"


def test_stages_divide_the_work_and_their_step_is_shorter() -> None:
    whole, staged = (engine_of(options_from("llama-3.1-70b", "h200", Topology(4 // pp, pp=pp))) for pp in (1, 4))
    for engine in (whole, staged):
        engine.submit(0, Request(0, 4096, 1, []), 0)
        engine.kick(0)
        assert engine.ends_at is not None
    alone = staged.ends_at or 0
    staged.submit(0, Request(1, 4096, 1, []), 0)
    free = staged.wakes_at or 0
    assert free == pytest.approx(alone / 4, rel=0.01), "four equal stages"
    assert alone > 2 * (whole.ends_at or 0), "one prompt alone gains nothing from stages, tensor parallelism does"


def test_no_leap_goes_past_an_answer() -> None:
    """The client of a rank's only request may send its next turn at once, while the other ranks only decode."""
    ends = []
    for until in (0, 10_000 * MS):
        engine = Engine(LIMITS, 2, PerToken(), lazy=True)
        engine.submit(0, request(0, 8, 3), 0)
        engine.submit(1, request(1, 8, 400), 0)
        engine.kick(0)
        while engine.ends_at is not None:
            step = engine.finish(until)
            if any(token.last for tokens in step.tokens for token in tokens):
                ends.append((step.end_ns, engine.steps))
                break
    assert ends[0] == ends[1]


def test_an_engine_that_lost_its_last_rank_goes_on_with_the_others() -> None:
    engine = Engine(LIMITS, 3, PerToken(), lazy=True)
    engine.lose_rank()
    for rank in range(2):
        engine.submit(rank, request(rank, 50, 4), 0)
    engine.kick(0)
    assert [end for end, _ in drain(engine)] == [50, 51, 52, 53]
    assert engine.unfinished == 0 and len(engine.metrics) == 2
