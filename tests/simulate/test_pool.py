"""The pool of runs against the plainest possible retelling of vLLM's rules, block by block."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulate.plain_pool import PlainPool

from ridgeline.simulate.limits import Limits
from ridgeline.simulate.pool import BlockPool, Held
from ridgeline.simulate.request import Request
from ridgeline.simulate.scheduler import Scheduler


def chain(*text: int) -> list[int]:
    return [hash(text[: end + 1]) for end in range(len(text))]


def held(pool: BlockPool, hashes: list[int]) -> Held:
    """Blocks for a chain, found or new, all findable."""
    found = pool.match(hashes, len(hashes))
    taken = pool.hold(hashes, found.blocks)
    pool.allocate(taken, len(hashes) - found.blocks)
    pool.name(taken, len(hashes))
    return taken


def test_tails_are_lost_before_beginnings() -> None:
    pool, text = BlockPool(4), chain(1, 2, 3)
    pool.release(held(pool, text))
    pool.allocate(Held(()), 2)  # the unused block, then the tail
    assert pool.match(text, 9).blocks == 2
    assert pool.evictions == 1


def test_a_hit_leaves_the_queue_and_counts_what_it_takes() -> None:
    pool, text = BlockPool(4), chain(7)
    pool.release(held(pool, text))
    assert pool.match(text, 1)[:2] == (1, 1)
    again = pool.hold(text, 1)
    assert (pool.free, pool.used, pool.match(text, 1).free) == (3, 1, 0)
    pool.release(again)
    assert pool.free == 4


def test_two_blocks_of_one_content_stand_in_for_each_other() -> None:
    pool, text = BlockPool(2), chain(5)
    first, second = Held(text), Held(text)
    for one in (first, second):
        pool.allocate(one, 1)
    pool.name(first, 1)
    pool.name(second, 1)
    pool.release(first)
    pool.allocate(Held(()), 1)  # the first one's block; the second one's takes over
    assert pool.match(text, 1)[:2] == (1, 0)
    pool.release(second)
    assert pool.match(text, 1)[:2] == (1, 1)
    pool.check()


def test_what_continues_a_copy_is_found_after_the_other_copy_is_gone() -> None:
    pool, text = BlockPool(4), chain(1, 2)
    first, second = Held(text[:1]), Held(text)
    pool.allocate(first, 1)
    pool.allocate(second, 2)
    pool.name(first, 1)
    pool.name(second, 2)
    pool.release(first)
    pool.allocate(Held(()), 2)
    assert pool.evictions == 1
    assert pool.match(text, 2)[:2] == (2, 0)
    pool.check()


def test_more_than_there_is_cannot_be_had() -> None:
    pool = BlockPool(2)
    with pytest.raises(IndexError, match="3 blocks wanted, 2 free"):
        pool.allocate(Held(()), 3)


def test_forgetting_everything_keeps_the_books() -> None:
    pool, text = BlockPool(3), chain(1, 2)
    taken = held(pool, text)
    pool.forget_all()
    assert pool.match(text, 2).blocks == 0
    pool.release(taken)
    assert pool.free == 3
    pool.release(held(pool, text))
    pool.release(held(pool, chain(8, 9, 10)))
    assert pool.match(chain(8, 9, 10), 3).blocks == 3
    pool.check()


def test_windows_are_resumed_at_marks_and_on_the_grid_only() -> None:
    pool = BlockPool(100, marked=True, grid=4)
    text = chain(*range(11))
    taken = held(pool, text)
    pool.mark(taken, 7)
    assert [pool.match(text, limit).blocks for limit in (3, 5, 7, 8, 11)] == [0, 4, 7, 8, 8]
    fork = chain(0, 1, 2, 3, 4, 99)
    assert pool.match(fork, 6).blocks == 4
    pool.release(taken)
    pool.allocate(Held(()), 95)  # 89 unused, then six from the tail: 5 are left
    assert pool.match(text, 11)[:2] == (4, 4)


def kept(pool: BlockPool, hashes: list[int], *depths: int) -> Held:
    taken = held(pool, hashes)
    for depth in depths:
        pool.mark(taken, depth)
    return taken


def test_a_kept_state_takes_blocks_and_a_match_ends_where_one_is() -> None:
    pool, text = BlockPool(20, room=3), chain(*range(8))
    pool.release(kept(pool, text, 3, 6))
    assert (pool.free, pool._unused, pool.evictions) == (20, 6, 0)
    assert [pool.match(text, limit) for limit in (2, 5, 8)] == [(0, 0, 2), (3, 3, 5), (6, 6, 8)]
    assert pool.match(text, 8, drop=3) == (3, 3, 5), "drafts give blocks up before a state is looked for"


def test_the_state_resumed_last_is_evicted_last_and_half_a_state_is_none() -> None:
    pool, text = BlockPool(20, room=3), chain(*range(8))
    pool.release(kept(pool, text, 3, 6))
    pool.release(pool.hold(text, 3))  # its state goes behind the other one
    pool.allocate(Held(()), 7)  # six that nobody used, and one of the older state's
    assert pool.match(text, 8).blocks == 3
    pool.allocate(Held(()), 2)  # the rest of it: no state that could be found is lost
    assert (pool.match(text, 8), pool.evictions) == ((3, 3, 8), 3)
    pool.check()


def test_a_state_in_a_pool_of_its_own_is_lost_with_the_blocks_before_it() -> None:
    pool, text = BlockPool(8, slots=4), chain(*range(4))
    pool.release(kept(pool, text, 2, 4))
    pool.allocate(Held(()), 5)  # four that nobody used, and the last of the chain
    assert (pool.match(text, 4), len(pool._states)) == ((2, 2, 3), 1)


def test_decoding_leaves_a_state_when_it_begins_a_block() -> None:
    pool, text = BlockPool(12, room=2), chain(*range(4))
    taken = Held(text)
    pool.allocate(taken, 2)
    pool.cross(taken)  # in its second block: the state before it is there, but its block is not full yet
    assert (pool.match(text, 4).blocks, pool.free) == (0, 10)
    pool.name(taken, 1)
    assert pool.match(text, 4) == (1, 0, 1)


def test_states_in_a_pool_of_their_own_give_way_to_running_requests() -> None:
    pool, text = BlockPool(20, slots=4, own=1), chain(*range(8))
    pool.release(kept(pool, text, 2, 4, 6))
    assert (pool.free, pool.match(text, 8).blocks) == (20, 6)
    pool.hold(text, 2)  # now that state was used last, and two requests run
    pool.hold((), 0)
    pool.hold((), 0)
    assert [pool.match(text, limit).blocks for limit in (8, 5, 2)] == [2, 2, 2]
    assert pool.evictions == 0, "no block was lost"


def test_who_computed_what_others_have_gives_it_back() -> None:
    pool, text = BlockPool(8, merges=True), chain(*range(5))
    first, second = held(pool, text[:3]), Held(text)
    pool.allocate(second, 5)
    assert pool.free == 0
    pool.name(second, 2)
    assert pool.free == 2
    pool.name(second, 5)
    assert (pool.free, pool.match(text, 5)[:2]) == (3, (5, 0))
    for one in (first, second):
        pool.release(one)
    assert (pool.free, pool.match(text, 5)[:2]) == (8, (5, 5))
    pool.check()


def _states(chance: Callable[[Sequence[int]], int], block_size: int) -> dict[str, Any]:
    """One of the ways to keep states: not at all, in the same pool, in another, and SGLang's way with blocks."""
    way = chance([0, 0, 1, 2, 3])
    room = chance([1, 2, 3]) if way == 1 else 0
    slots = chance([6, 9, 20]) if way == 2 else 0
    return {
        "room": room,
        "aligned": room > 0,
        "host_room": 2 * room,
        "slots": slots,
        "own_slots": chance([1, 2]) if slots else 0,
        "track": chance([0, 2 * block_size]) if slots else 0,
        "host_slots": slots,
        "merges": way > 1,
        "checkpoints": "chunks" if way == 0 and chance([0, 1]) else "all",
    }


@st.composite
def _limits(draw: st.DrawFn) -> Limits:
    query, block_size = draw(st.sampled_from([1, 1, 2, 4])), draw(st.sampled_from([1, 4, 16]))
    states = _states(lambda items: draw(st.sampled_from(items)), block_size)
    return Limits(
        max_num_batched_tokens=draw(st.integers(4, 40)),
        max_num_seqs=draw(st.integers(1, 6)),
        max_model_len=120,
        block_size=block_size,
        blocks=draw(st.integers(8, 60)) + 6 * states["room"],
        held=draw(st.integers(0, 2)) + states["room"],
        long_prefill_token_threshold=draw(st.sampled_from([0, 3, 16])),
        watermark_blocks=draw(st.sampled_from([0, 2])),
        reserve_full_isl=draw(st.booleans()),
        query=query,
        accepted=1.0 if query == 1 else draw(st.floats(1, query)),
        look_ahead=query - 1,
        drop_last=query > 1,
        prefill_first=draw(st.booleans()),
        host_blocks=draw(st.sampled_from([0, 0, 30])),
        **states,
    )


def play(limits: Limits, seed: int, *, plain: bool = False, lazy: bool = False, ahead: bool = False) -> list[object]:
    """A random trace of few texts cut anywhere, with aborts; what was found, computed, evicted, step by step."""
    chance = random.Random(seed)
    scheduler = Scheduler(limits, lazy=lazy)
    if plain:
        states = {"room": limits.room, "slots": limits.slots, "own": limits.own_slots}
        scheduler.pool = PlainPool(limits.blocks, **states, merges=limits.merges)  # type: ignore[assignment]
    everyone: list[Request] = []
    story: list[object] = []
    flying = []
    for turn in range(1500):
        if len(everyone) < 12 and chance.random() < 0.15:
            key, prompt, out, text = len(everyone), chance.randint(1, 60), chance.randint(1, 30), chance.randint(0, 2)
            shared = prompt // limits.block_size
            hashes = [hash((text, i)) for i in range(shared)]
            hashes += [hash((key, text, i)) for i in range(shared, (prompt + out) // limits.block_size)]
            new = Request(key, prompt, out, hashes)
            if scheduler.fits(new):
                everyone.append(new)
                scheduler.add(new)
        if everyone and chance.random() < 0.02:
            scheduler.abort(chance.choice(everyone))
        for request in [*scheduler.incoming.loading]:
            if chance.random() < 0.3:
                scheduler.loaded(request)
        batch = scheduler.schedule()
        scheduler.incoming.loads.clear()
        if batch:
            chunks = tuple(batch.chunks)
            shown = (batch.tokens, batch.decodes, batch.emitting)
            if limits.query == 1:
                shown += (round(batch.decode_context),)
            story.append((turn, *shown, chunks))
            flying.append(batch)
        if flying and (len(flying) > ahead or not batch):
            for token in scheduler.complete(flying.pop(0), turn):
                if token.last:
                    request = token.request
                    story.append((turn, request.key, request.cached, request.outputs, request.preemptions))
        if not lazy:
            scheduler.pool.check()
        if turn > 200 and not scheduler.unfinished and not flying:
            break
    scheduler.settle()
    story.append((scheduler.queries, scheduler.hits, scheduler.incoming.hits, scheduler.preemptions))
    story.append((scheduler.pool.evictions, scheduler.pool.free))
    return story


@settings(max_examples=60, deadline=None)
@given(_limits(), st.integers(0, 10**6), st.booleans())
def test_runs_find_what_blocks_find(limits: Limits, seed: int, ahead: bool) -> None:
    limits = replace(limits, checkpoints="all")  # the oracle knows no marks without states
    assert play(limits, seed, ahead=ahead) == play(limits, seed, ahead=ahead, plain=True)


@settings(max_examples=60, deadline=None)
@given(_limits(), st.integers(0, 10**6), st.booleans())
def test_quiet_steps_are_the_same_steps(limits: Limits, seed: int, ahead: bool) -> None:
    assert play(limits, seed, ahead=ahead, lazy=True) == play(limits, seed, ahead=ahead)


@pytest.mark.fuzz
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_traces(part: int) -> None:
    """Runs against blocks, and quiet steps against walked ones, on 10,000 random traces."""
    chance = random.Random(part)
    for seed in range(part * 1000, part * 1000 + 1000):
        query, block_size = chance.choice([1, 1, 2, 4]), chance.choice([1, 4, 16])
        states = _states(chance.choice, block_size)
        limits = Limits(
            max_num_batched_tokens=chance.randint(4, 40),
            max_num_seqs=chance.randint(1, 6),
            max_model_len=120,
            block_size=block_size,
            blocks=chance.randint(8, 60) + 6 * states["room"],
            held=chance.randint(0, 2) + states["room"],
            long_prefill_token_threshold=chance.choice([0, 3, 16]),
            query=query,
            accepted=1.0 if query == 1 else chance.uniform(1, query),
            look_ahead=query - 1,
            drop_last=query > 1,
            host_blocks=chance.choice([0, 0, 30]),
            **states,
        )
        ahead = chance.random() < 0.5
        story = play(limits, seed, ahead=ahead)
        if limits.checkpoints == "all":
            assert story == play(limits, seed, ahead=ahead, plain=True)
        assert story == play(limits, seed, ahead=ahead, lazy=True)
        roomy = replace(limits, blocks=1000)
        assert play(roomy, seed, ahead=ahead, lazy=True) == play(roomy, seed, ahead=ahead)
