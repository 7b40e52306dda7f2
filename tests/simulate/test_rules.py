"""Rules of the two schedulers, one by one: SGLang's order, the prefill interval, thresholds, look-ahead slots, and how
drafts change what a hit is worth. Ranks in lock-step run in the mode of the worst."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.simulate.test_engine import PerToken, drain
from tests.simulate.test_scheduler import LIMITS, request, step

from ridgeline.core.topology import Topology
from ridgeline.engine.options import options_from
from ridgeline.simulate.costparams import parameters_for
from ridgeline.simulate.engine import Engine, engine_of
from ridgeline.simulate.graphlog import CountedSteps
from ridgeline.simulate.limits import Limits
from ridgeline.simulate.request import Request
from ridgeline.simulate.scheduler import Scheduler

SGLANG = replace(LIMITS, prefill_first=True, reserve_full_isl=False)


def scheduler_of(limits: Limits, *requests: Request) -> Scheduler:
    found = Scheduler(limits)
    for one in requests:
        found.add(one)
    return found


def steps(scheduler: Scheduler, count: int) -> list[list[tuple[int, int]]]:
    return [step(scheduler)[0] for _ in range(count)]


def test_sglang_prefills_before_it_decodes_and_never_both_in_one_step() -> None:
    scheduler = scheduler_of(SGLANG, request(0, 20, 4), request(1, 100, 2))
    assert steps(scheduler, 4) == [
        [(0, 20), (1, 44)],  # the budget of 64 ends inside the second prompt
        [(1, 56)],  # its rest goes before the first one's tokens
        [(0, 1), (1, 1)],
        [(0, 1)],
    ]


def test_vllm_mixes_the_same_requests() -> None:
    scheduler = scheduler_of(LIMITS, request(0, 20, 4), request(1, 100, 2))
    assert steps(scheduler, 3) == [[(0, 20), (1, 44)], [(0, 1), (1, 56)], [(0, 1), (1, 1)]]


def test_an_arrival_stops_sglangs_decoding_and_not_vllms() -> None:
    for limits, second in ((SGLANG, [(1, 30)]), (LIMITS, [(0, 1), (1, 30)])):
        scheduler = scheduler_of(limits, request(0, 20, 6))
        step(scheduler)
        scheduler.add(request(1, 30, 2))
        assert step(scheduler)[0] == second


def test_a_prompt_waits_for_room_for_all_of_it_and_under_sglang_for_its_answer() -> None:
    waits = replace(SGLANG, reserve_full_isl=True)
    cases = ((SGLANG, 1, True), (LIMITS, 1, False), (waits, 1, False))
    for limits, out, admitted in cases:
        scheduler = scheduler_of(replace(limits, blocks=20, max_num_batched_tokens=16), request(0, 40, 9))
        steps(scheduler, 4)
        scheduler.add(request(1, 60, out))  # fifteen blocks, and ten are free
        step(scheduler)
        assert (len(scheduler.running) == 2) is admitted
    for answer, out, admitted in ((0, 40, True), (8, 40, False), (8, 4, True), (40, 40, False)):
        limits = replace(waits, blocks=20, max_num_batched_tokens=16, reserve_answer=answer)
        scheduler = scheduler_of(limits, request(0, 40, 9))
        steps(scheduler, 4)
        scheduler.add(request(1, 32, out))  # eight blocks, and nine are free
        step(scheduler)
        assert (len(scheduler.running) == 2) is admitted, (answer, out)


@pytest.mark.parametrize(("interval", "turns"), [(1, [1]), (4, [4]), (3, [3])])
def test_new_requests_wait_for_their_turn_of_the_interval(interval: int, turns: list[int]) -> None:
    scheduler = scheduler_of(replace(LIMITS, prefill_interval=interval), request(0, 8, 50))
    admitted = []
    for turn in range(8):
        scheduler.turn = turn
        if turn == 1:
            scheduler.add(request(1, 8, 50))
        if any(key == 1 and tokens == 8 for key, tokens in step(scheduler)[0]):
            admitted.append(turn)
    assert admitted == turns


def test_an_idle_engine_does_not_wait_for_the_interval() -> None:
    scheduler = scheduler_of(replace(LIMITS, prefill_interval=10), request(0, 8, 2))
    scheduler.turn = 7
    assert step(scheduler)[0] == [(0, 8)]


def test_the_interval_counts_the_engines_steps() -> None:
    engine = Engine(replace(LIMITS, prefill_interval=5), 1, PerToken(), async_scheduling=False)
    engine.submit(0, request(0, 8, 12), 0)
    engine.kick(0)
    engine.submit(0, request(1, 8, 1), 0)
    seen = [keys for _, keys in drain(engine)]
    assert seen.index([0, 1]) == 5


def test_a_threshold_leaves_room_for_others_and_ends_with_the_prompt() -> None:
    scheduler = scheduler_of(replace(LIMITS, long_prefill_token_threshold=16), request(0, 40, 2), request(1, 10, 3))
    assert steps(scheduler, 3) == [[(0, 16), (1, 10)], [(0, 16), (1, 1)], [(0, 8), (1, 1)]]


DRAFTS = {"query": 4, "accepted": 2.0, "look_ahead": 3}


def test_drafts_need_slots_before_anybody_knows_whether_they_are_accepted() -> None:
    plain, drafting = (
        scheduler_of(LIMITS, request(0, 8, 20)),
        scheduler_of(replace(LIMITS, **DRAFTS), request(0, 8, 20)),
    )
    for scheduler in (plain, drafting):
        steps(scheduler, 2)
    assert (plain.pool.used, drafting.pool.used) == (3, 4), "9 tokens; 8 and four computed and three slots"


def test_slots_for_drafts_make_a_full_pool_preempt_earlier() -> None:
    found = []
    for more in ({}, DRAFTS):
        scheduler = scheduler_of(replace(LIMITS, blocks=9, **more), request(0, 12, 12), request(1, 12, 12))
        while scheduler.unfinished and not scheduler.preemptions:
            step(scheduler)
        found.append(scheduler.running[0].outputs if scheduler.running else None)
    assert found[1] is not None and found[0] is not None and found[1] < found[0]


def test_with_drafts_a_hit_gives_its_last_block_up() -> None:
    for drops, cached in ((False, 12), (True, 8)):
        scheduler = scheduler_of(replace(LIMITS, drop_last=drops), request(0, 14, 1))
        step(scheduler)
        again = request(1, 14, 1, text=0)
        scheduler.add(again)
        step(scheduler)
        assert again.cached == cached


def test_acceptance_is_met_on_average_and_never_beyond_the_answer() -> None:
    limits = replace(LIMITS, blocks=1000, max_model_len=2000, query=4, accepted=2.49, look_ahead=3)
    for key in range(5):
        one = request(key, 8, 500)
        scheduler = scheduler_of(limits, one)
        count = 0
        while scheduler.unfinished:
            step(scheduler)
            count += 1
        assert one.outputs == 500
        assert 499 / (count - 1) == pytest.approx(2.49, rel=0.01)
        assert scheduler.accepted_drafts / scheduler.drafts + 1 == pytest.approx(2.49, rel=0.01)


@pytest.mark.parametrize("ahead", [False, True])
def test_async_scheduling_hides_nothing_but_the_wait(ahead: bool) -> None:
    """The same tokens come out; an arrival in mid-step waits for one step more."""
    engine = Engine(LIMITS, 1, PerToken(), async_scheduling=ahead)
    engine.submit(0, request(0, 40, 5), 0)
    engine.kick(0)
    late = request(1, 20, 2)
    engine.submit(0, late, 10_000_000)
    drain(engine)
    assert late.outputs == 2
    assert late.first_ns == (62_000_000 if ahead else 61_000_000)


def stepped(batches: list[tuple[int, int]], **more: int) -> CountedSteps:
    """One step of ranks that (prompt tokens, decoding requests) describe, after a step that made them decode."""
    options = options_from(
        "qwen3-8b", "h200", Topology(len(batches), dp_attn=True), max_num_seqs=64, kv_tokens=200_000,
        cudagraph_mode="FULL_DECODE_ONLY", **more,
    )  # fmt: skip
    engine = engine_of(options)
    engine.price = steps = CountedSteps(options, parameters_for("h200", "vllm"))
    for rank, (_, decoding) in enumerate(batches):
        for key in range(decoding):
            engine.submit(rank, Request(1000 * rank + key, 8, 50, []), 0)
    engine.kick(0)
    engine.finish()
    for rank, (prompt, _) in enumerate(batches):
        if prompt:
            engine.submit(rank, Request(9000 + rank, prompt, 4, []), engine.ends_at or 0)
    engine.finish()
    steps.ran.clear()
    engine.finish()
    return steps


def test_ranks_that_all_decode_run_in_a_graph_padded_to_the_fullest() -> None:
    ((most, padded, mode),) = stepped([(0, 3), (0, 17), (0, 1)]).ran
    assert (most, padded, mode) == (17, 24, "FULL")


def test_one_ranks_prompt_takes_the_graph_from_all() -> None:
    ((most, _, mode),) = stepped([(0, 3), (100, 2), (0, 1)]).ran
    assert (most, mode) == (102, "NONE")


@pytest.mark.parametrize(("crowd", "mode"), [(16, "FULL"), (17, "NONE")])
def test_one_rank_beyond_the_ladder_takes_the_graph_from_all(crowd: int, mode: str) -> None:
    ((most, _, found),) = stepped([(0, crowd), (0, 1), (0, 1)], max_cudagraph_capture_size=16).ran
    assert (most, found) == (crowd, mode)


KEEPING = replace(LIMITS, max_num_batched_tokens=22, held=2, room=2, aligned=True)
APART = replace(LIMITS, max_num_batched_tokens=22, slots=50, own_slots=3, merges=True)


def test_chunks_end_where_a_state_can_be_kept() -> None:
    scheduler = scheduler_of(KEEPING, request(0, 51, 2))
    # Blocks of four: chunks of five blocks, the last one to the last whole block, the rest by itself.
    assert steps(scheduler, 4) == [[(0, 20)], [(0, 20)], [(0, 8)], [(0, 3)]]
    assert scheduler.pool.match(request(0, 51, 2).hashes, 99).blocks == 12


def test_with_drafts_the_last_state_is_a_block_earlier() -> None:
    drafting = replace(KEEPING, query=2, accepted=1.5, look_ahead=1, drop_last=True)
    scheduler = scheduler_of(drafting, request(0, 51, 2))
    assert steps(scheduler, 4) == [[(0, 20)], [(0, 20)], [(0, 4)], [(0, 7)]]
    assert scheduler.pool.match(request(0, 51, 2).hashes, 12, drop=1).blocks == 11


def test_a_block_wider_than_a_step_is_gone_through_in_pieces() -> None:
    wide = replace(KEEPING, max_num_batched_tokens=3)
    assert steps(scheduler_of(wide, request(0, 9, 1)), 4) == [[(0, 3)], [(0, 1)], [(0, 3)], [(0, 1)]]


def test_a_prompt_that_leaves_another_one_keeps_a_state_where_it_does() -> None:
    def branch(key: int, at: int) -> Request:
        text = [hash((0, i)) for i in range(at // 4)] + [hash((key, i)) for i in range(at // 4, 14)]
        return Request(key, 51, 1, text)

    for limits, chunks in ((KEEPING, [[(1, 8)], [(1, 20)]]), (APART, [[(1, 22)], [(1, 9)]])):
        first = request(0, 51, 1)
        scheduler = scheduler_of(limits, first)
        while not first.done:
            steps(scheduler, 1)
        scheduler.add(branch(1, 28))  # 20 tokens can be resumed, 28 are the same
        assert steps(scheduler, 2) == chunks
        assert scheduler.pool.match(branch(3, 28).hashes, 99)[::2] == (7, 7)


def test_a_request_that_ends_leaves_its_last_state_on_a_grid() -> None:
    one = request(0, 21, 20)
    scheduler = scheduler_of(replace(APART, track=8), one)
    while not one.done:
        steps(scheduler, 1)
    assert scheduler.pool.match(one.hashes, 99) == (10, 10, 10)
    assert scheduler.pool.match(one.hashes, 9) == (5, 5, 9), "that of the prompt's end"
