"""vLLM's scheduling rules on small cases, and invariants on random ones."""

import random
from dataclasses import replace
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.simulate.batch import Batch
from ridgeline.simulate.limits import Limits
from ridgeline.simulate.request import Request
from ridgeline.simulate.scheduler import Scheduler, check

LIMITS = Limits(max_num_batched_tokens=64, max_num_seqs=4, max_model_len=1000, block_size=4, blocks=100)


def request(key: int, prompt: int, out: int, text: int | None = None) -> Request:
    """A request whose blocks are those of text `text` (its own key when None)."""
    name = key if text is None else text
    return Request(key, prompt, out, [hash((name, i)) for i in range((prompt + out) // 4)])


def step(scheduler: Scheduler) -> tuple[list[tuple[int, int]], list[int]]:
    """One step without look-ahead: (request, tokens) scheduled, and keys that got a token."""
    batch = scheduler.schedule()
    assert batch is not None
    got = [token.request.key for token in scheduler.complete(batch)]
    return [(entry.request.key, entry.tokens) for entry in batch.entries], got


def test_running_first_then_waiting_under_one_budget() -> None:
    scheduler = Scheduler(LIMITS)
    for key, prompt in enumerate((10, 60, 30)):
        scheduler.add(request(key, prompt, 3))
    assert step(scheduler) == ([(0, 10), (1, 54)], [0])
    assert step(scheduler) == ([(0, 1), (1, 6), (2, 30)], [0, 1, 2])
    assert step(scheduler) == ([(0, 1), (1, 1), (2, 1)], [0, 1, 2])
    assert [r.key for r in scheduler.running] == [1, 2]


def test_max_num_seqs_holds_requests_back() -> None:
    scheduler = Scheduler(replace(LIMITS, max_num_seqs=2))
    for key in range(3):
        scheduler.add(request(key, 4, 2))
    assert step(scheduler)[0] == [(0, 4), (1, 4)]
    assert (len(scheduler.running), len(scheduler.waiting), scheduler.load) == (2, 1, 6)


def test_a_threshold_caps_each_prefill() -> None:
    scheduler = Scheduler(replace(LIMITS, long_prefill_token_threshold=8))
    scheduler.add(request(0, 40, 1))
    scheduler.add(request(1, 20, 1))
    assert step(scheduler)[0] == [(0, 8), (1, 8)]


def test_a_whole_prompt_hit_stops_before_its_last_token() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add(request(0, 8, 1))
    step(scheduler)
    again = request(1, 8, 1, text=0)
    scheduler.add(again)
    assert step(scheduler)[0] == [(1, 4)]  # one block of two: the last token needs computing, and hits are whole blocks
    assert again.cached == 4
    assert (scheduler.queries, scheduler.hits) == (16, 4)


@pytest.mark.parametrize(("prompt", "out"), [(8, 1), (8, 4), (8, 5), (8, 6), (10, 13), (3, 1)])
def test_answers_are_cached_too_up_to_the_token_before_the_last(prompt: int, out: int) -> None:
    """The next turn finds floor(prompt + output - 1) in whole blocks, as measured on a real engine."""
    scheduler = Scheduler(LIMITS)
    scheduler.add(request(0, prompt, out))
    while scheduler.unfinished:
        step(scheduler)
    following = request(1, prompt + out + 20, 1, text=0)
    scheduler.add(following)
    step(scheduler)
    assert following.cached == (prompt + out - 1) // 4 * 4


def test_without_prefix_caching_nothing_is_found() -> None:
    scheduler = Scheduler(replace(LIMITS, prefix_caching=False))
    for key in range(2):
        scheduler.add(request(key, 8, 1, text=0))
        step(scheduler)
    assert (scheduler.queries, scheduler.hits) == (0, 0)


def test_two_prompts_of_one_step_share_what_the_first_has_just_claimed() -> None:
    scheduler = Scheduler(LIMITS)
    scheduler.add(request(0, 20, 1))
    scheduler.add(request(1, 20, 1, text=0))
    assert step(scheduler)[0] == [(0, 20), (1, 4)]


def test_the_last_running_request_gives_way_and_starts_over() -> None:
    scheduler = Scheduler(replace(LIMITS, blocks=5))
    first, second = request(0, 8, 8), request(1, 7, 4)
    scheduler.add(first)
    scheduler.add(second)
    assert step(scheduler) == ([(0, 8), (1, 7)], [0, 1])
    assert step(scheduler) == ([(0, 1), (1, 1)], [0, 1])  # the fifth block goes to the first request
    # The second now needs a third block, there is none, and it is the last one itself.
    assert step(scheduler) == ([(0, 1)], [0])
    assert (second.preemptions, second.outputs, scheduler.preemptions) == (1, 2, 1)
    assert scheduler.waiting[0] is second
    while scheduler.unfinished:
        step(scheduler)
        check(scheduler, [first, second])
    assert (first.outputs, second.outputs) == (8, 4)


def test_a_long_prompt_waits_until_all_of_it_would_fit() -> None:
    scheduler = Scheduler(replace(LIMITS, blocks=10, max_num_batched_tokens=8))
    scheduler.add(request(0, 16, 9))
    scheduler.add(request(1, 28, 1))
    assert step(scheduler)[0] == [(0, 8)]
    assert step(scheduler)[0] == [(0, 8)]
    assert step(scheduler)[0] == [(0, 1)]  # 5 blocks free, 7 needed
    eager = Scheduler(replace(LIMITS, blocks=10, max_num_batched_tokens=8, reserve_full_isl=False))
    eager.add(request(0, 16, 9))
    eager.add(request(1, 28, 1))
    step(eager)
    step(eager)
    assert step(eager)[0] == [(0, 1), (1, 7)]


def test_a_watermark_is_kept_free_except_for_an_empty_engine() -> None:
    scheduler = Scheduler(replace(LIMITS, blocks=10, watermark_blocks=6))
    scheduler.add(request(0, 20, 1))
    scheduler.add(request(1, 4, 1))
    assert step(scheduler)[0] == [(0, 20)]


def test_windows_hold_blocks_while_a_request_runs() -> None:
    scheduler = Scheduler(replace(LIMITS, held=3))
    scheduler.add(request(0, 8, 1))
    batch = scheduler.schedule()
    assert scheduler.pool.used == 2 + 3
    assert batch is not None
    scheduler.complete(batch)
    assert scheduler.pool.used == 0


def test_what_can_never_fit_is_refused() -> None:
    scheduler = Scheduler(LIMITS)
    assert not scheduler.fits(request(0, 390, 12))
    assert not Scheduler(replace(LIMITS, max_model_len=20)).fits(request(0, 20, 1))
    with pytest.raises(ValueError, match="never fit"):
        scheduler.add(request(0, 999, 2))


def test_look_ahead_books_tokens_before_they_are_known() -> None:
    """With async scheduling the next batch is put together while the first one runs."""
    scheduler = Scheduler(LIMITS)
    scheduler.add(request(0, 8, 2))
    one, two = scheduler.schedule(), scheduler.schedule()
    assert one is not None
    assert two is not None
    assert [(e.tokens, e.emits) for e in (*one.entries, *two.entries)] == [(8, True), (1, True)]
    assert scheduler.schedule() is None  # its last token is under way
    assert [token.last for token in scheduler.complete(one) + scheduler.complete(two)] == [False, True]


def test_results_of_a_preempted_request_are_void() -> None:
    scheduler = Scheduler(replace(LIMITS, blocks=4))
    first, second = request(0, 8, 8), request(1, 4, 8)
    scheduler.add(first)
    scheduler.add(second)
    one = scheduler.schedule()
    two = scheduler.schedule()  # no block is left for the second request's next token
    assert one is not None
    assert two is not None
    assert [entry.request.key for entry in two.entries] == [0]
    assert second.preemptions == 1
    assert [token.request.key for token in scheduler.complete(one)] == [0]
    assert second.outputs == 0


def test_an_aborted_request_frees_its_blocks_and_gets_nothing() -> None:
    scheduler = Scheduler(LIMITS)
    running, waiting = request(0, 8, 5), request(1, 8, 5)
    scheduler.add(running)
    batch = scheduler.schedule()
    scheduler.add(waiting)
    for gone in (running, waiting, running):
        scheduler.abort(gone)
    assert batch is not None
    assert scheduler.complete(batch) == []
    assert (scheduler.pool.used, scheduler.unfinished) == (0, 0)
    check(scheduler, [running, waiting])


@st.composite
def _limits(draw: st.DrawFn) -> Limits:
    return Limits(
        max_num_batched_tokens=draw(st.integers(1, 40)),
        max_num_seqs=draw(st.integers(1, 6)),
        max_model_len=120,
        block_size=draw(st.sampled_from([1, 4, 16])),
        blocks=draw(st.integers(8, 60)),
        held=draw(st.integers(0, 2)),
        prefix_caching=draw(st.booleans()),
        long_prefill_token_threshold=draw(st.sampled_from([0, 3, 16])),
        watermark_blocks=draw(st.sampled_from([0, 2])),
        reserve_full_isl=draw(st.booleans()),
    )


def _play(limits: Limits, seed: int, ahead: bool) -> list[tuple[object, ...]]:
    """Random arrivals and aborts; every step is checked. The story as plain values."""
    chance = random.Random(seed)
    scheduler = Scheduler(limits)
    everyone: list[Request] = []
    gone: set[int] = set()
    story: list[tuple[object, ...]] = []
    planned: Batch | None = None
    for turn in range(4000):
        if len(everyone) < 14 and chance.random() < 0.4:
            new = _random_request(chance, len(everyone), limits.block_size)
            if scheduler.fits(new):
                everyone.append(new)
                scheduler.add(new)
        if everyone and chance.random() < 0.03:
            victim = chance.choice(everyone)
            scheduler.abort(victim)
            if victim.outputs < victim.max_tokens:
                gone.add(victim.key)
        batch = planned or scheduler.schedule()
        planned = scheduler.schedule() if ahead and batch else None
        check(scheduler, everyone)
        if batch is None:
            if turn > 60 and not scheduler.unfinished:
                break
            continue
        assert 0 < batch.tokens <= limits.max_num_batched_tokens
        assert batch.tokens == sum(entry.tokens for entry in batch.entries)
        assert batch.tokens == batch.decodes + sum(chunk.tokens for chunk in batch.chunks)
        assert batch.emitting == sum(entry.emits for entry in batch.entries)
        assert len({entry.request.key for entry in batch.entries}) == len(batch.entries)
        assert len(scheduler.running) <= limits.max_num_seqs
        tokens = scheduler.complete(batch)
        check(scheduler, everyone)
        story.append((batch.tokens, batch.decodes, tuple((t.request.key, t.last) for t in tokens)))
    assert not scheduler.unfinished
    assert all(r.outputs == r.max_tokens for r in everyone if r.key not in gone)
    assert scheduler.pool.used == 0
    return story


def _random_request(chance: random.Random, key: int, size: int) -> Request:
    """One of a few texts, cut anywhere: many shared prefixes."""
    prompt, out, text = chance.randint(1, 60), chance.randint(1, 30), chance.randint(0, 2)
    shared = prompt // size
    hashes = [hash((text, i)) for i in range(shared)]
    return Request(key, prompt, out, hashes + [hash((key, text, i)) for i in range(shared, (prompt + out) // size)])


@settings(max_examples=30, deadline=None)
@given(_limits(), st.integers(0, 10**6), st.booleans())
def test_invariants_and_determinism(limits: Limits, seed: int, ahead: bool) -> None:
    assert _play(limits, seed, ahead) == _play(limits, seed, ahead)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 4, 16]))
def test_hits_of_requests_one_after_the_other_are_the_longest_common_beginning(seed: int, size: int) -> None:
    """With room for everything the cache is a set of all token sequences computed so far: the naive oracle."""
    chance = random.Random(seed)
    scheduler = Scheduler(replace(LIMITS, block_size=size, blocks=10_000, max_num_batched_tokens=50))
    computed: list[list[int]] = []
    texts = [[chance.randint(0, 1) for _ in range(200)] for _ in range(3)]
    for key in range(12):
        tokens = chance.choice(texts)[: chance.randint(1, 90)] + [2 + key] * chance.randint(1, 20)
        out = [1000 + key] * chance.randint(1, 20)
        whole = tokens + out
        hashes = [hash(tuple(whole[:end])) for end in range(size, len(whole) + 1, size)]
        found = Request(key, len(tokens), len(out), hashes)
        scheduler.add(found)
        while scheduler.unfinished:
            step(scheduler)
        best = 0
        for old in computed:
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, tokens, strict=False)))
            best = max(best, min(same, len(tokens) - 1) // size * size)
        assert found.cached == best
        computed.append(whole[:-1])


def test_blocks_that_never_filled_are_taken_before_anything_cached() -> None:
    """As vLLM frees them: in front of the queue where they have no hash, at its back where they have one."""
    scheduler = Scheduler(replace(LIMITS, blocks=10))
    for key in range(2):  # two texts of four blocks and a part of a fifth each: all ten blocks have been used
        scheduler.add(request(key, 18, 1))
        while scheduler.unfinished:
            step(scheduler)
    scheduler.add(request(2, 7, 1))  # two blocks: the two parts
    step(scheduler)
    assert scheduler.pool.evictions == 0
    found = [scheduler.pool.match(request(9, 18, 1, text=text).hashes, 4).blocks for text in (0, 1)]
    assert found == [4, 4]


@pytest.mark.parametrize("lazy", [False, True])
def test_one_that_gives_way_in_the_middle_of_decoding_is_computed_again(lazy: bool) -> None:
    scheduler = Scheduler(LIMITS, lazy=lazy)
    requests = [request(key, 10, 40) for key in range(3)]
    for each in requests:
        scheduler.add(each)
    for number in range(400):
        if number % 7 == 6 and scheduler.running:
            scheduler.preempt_last()
            check(scheduler, requests)
        if (batch := scheduler.schedule()) is None:
            break
        scheduler.complete(batch, number)
    assert [each.outputs for each in requests] == [40, 40, 40] and all(each.done for each in requests)
    assert scheduler.preemptions == sum(each.preemptions for each in requests) == 5
    with pytest.raises(IndexError):
        scheduler.preempt_last()
