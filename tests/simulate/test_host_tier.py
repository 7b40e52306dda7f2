"""The second tier in host memory: what is stored, how long it takes to come back, what a lease keeps and loses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.simulate.test_engine import MS, PerToken
from tests.simulate.test_scheduler import LIMITS, request, step

from ridgeline.core.topology import Topology
from ridgeline.engine.options import options_from
from ridgeline.simulate.engine import Engine, engine_of
from ridgeline.simulate.limits import Limits
from ridgeline.simulate.metrics import snapshot
from ridgeline.simulate.request import Request
from ridgeline.simulate.scheduler import Scheduler, check

SMALL = replace(LIMITS, blocks=12, host_blocks=10, reserve_full_isl=False)


def run_dry(scheduler: Scheduler, *requests: Request) -> None:
    for one in requests:
        scheduler.add(one)
    while scheduler.waiting or scheduler.running:
        step(scheduler)


def lost_from_the_gpu() -> tuple[Scheduler, Request]:
    """A prompt of six blocks that is on the host alone, asked for again: five of them are on the way."""
    scheduler = Scheduler(SMALL)
    run_dry(scheduler, request(0, 24, 1))
    run_dry(scheduler, request(1, 47, 1))  # all of the GPU, and too long for the host
    again = request(2, 24, 1, text=0)
    scheduler.add(again)
    assert scheduler.schedule() is None
    assert scheduler.incoming.loads == [(again, 5)], "all but the block of the last token"
    scheduler.incoming.loads.clear()
    return scheduler, again


def test_what_the_gpu_lost_comes_from_the_host() -> None:
    scheduler, again = lost_from_the_gpu()
    scheduler.loaded(again)
    assert step(scheduler)[0] == [(2, 4)]
    assert (again.cached, again.external, scheduler.incoming.hits) == (20, 20, 20)
    check(scheduler, [again])


def test_a_lease_keeps_blocks_that_are_on_their_way() -> None:
    scheduler, again = lost_from_the_gpu()
    run_dry(scheduler, request(3, 24, 1))  # wants six blocks of the host; five of ten are leased, one was A's last
    assert scheduler.incoming.host is not None
    assert scheduler.incoming.host.pool.match(again.hashes, 6).blocks >= 5
    scheduler.loaded(again)
    step(scheduler)
    assert again.cached == 20


def test_without_the_lease_they_are_evicted_and_computed_again() -> None:
    scheduler, again = lost_from_the_gpu()
    scheduler.incoming.lapse(again)
    run_dry(scheduler, request(3, 28, 1))  # seven blocks: three of the six that were there are left
    scheduler.loaded(again)
    assert step(scheduler)[0] == [(2, 12)]
    assert (again.cached, again.external, scheduler.incoming.hits) == (12, 12, 12)
    run_dry(scheduler)
    assert again.outputs == 1
    check(scheduler, [again])


def test_a_lapsed_lease_costs_nothing_where_nothing_was_evicted() -> None:
    scheduler, again = lost_from_the_gpu()
    scheduler.incoming.lapse(again)
    scheduler.loaded(again)
    step(scheduler)
    assert again.cached == 20


def test_an_abort_ends_the_lease() -> None:
    scheduler, again = lost_from_the_gpu()
    scheduler.abort(again)
    assert scheduler.incoming.host is not None
    assert scheduler.incoming.host.pool.used == 0, "nobody holds a block of it"
    assert scheduler.pool.used == 0


def test_the_host_forgets_what_was_used_least_recently() -> None:
    scheduler = Scheduler(replace(SMALL, blocks=30))
    first, second = request(0, 16, 1), request(1, 16, 1)
    run_dry(scheduler, first)
    run_dry(scheduler, second)
    run_dry(scheduler, request(2, 16, 1, text=0))  # the first text again: now the second is older
    run_dry(scheduler, request(3, 16, 1))
    assert scheduler.incoming.host is not None
    found = [scheduler.incoming.host.pool.match(request(9, 16, 1, text=text).hashes, 4).blocks for text in (0, 1, 3)]
    assert found == [4, 2, 4], "ten blocks: the end of the second text is gone"


def loading(lease_s: float, load_s: float = 1.0) -> tuple[Engine, list[Request]]:
    """An engine whose host link brings a block a second, with a prompt of six blocks on the host alone."""
    engine = Engine(replace(SMALL, max_num_batched_tokens=64), 1, PerToken(), load_s=load_s, lease_s=lease_s)
    done = [request(0, 24, 1), request(1, 47, 1)]
    for one in done:
        engine.submit(0, one, 0)
        engine.kick(0)
        while engine.ends_at is not None:
            engine.finish()
    return engine, done


def drain(engine: Engine, now: int) -> int:
    engine.kick(now)
    while (wakes := engine.wakes_at) is not None:
        now = wakes
        if engine.ends_at is not None:
            engine.finish()
        else:
            engine.kick(now)
    return now


def test_loads_take_their_time_one_behind_the_other() -> None:
    engine, _ = loading(60.0)
    again, more = request(2, 24, 1, text=0), request(3, 24, 1, text=0)
    for one in (again, more):
        engine.submit(0, one, 1000 * MS)
    drain(engine, 1000 * MS)
    assert again.first_ns == 6004 * MS, "five blocks at a second each, then four tokens"
    assert more.first_ns == 11004 * MS, "the link is one"


@pytest.mark.parametrize(("lease_s", "cached"), [(60.0, 20), (2.0, 12)])
def test_a_load_slower_than_its_lease_can_come_short(lease_s: float, cached: int) -> None:
    engine, _ = loading(lease_s)
    again, other = request(2, 24, 1, text=0), request(3, 28, 1)
    engine.submit(0, again, 1000 * MS)
    engine.kick(1000 * MS)
    engine.submit(0, other, 4000 * MS)  # stored while the blocks are on the way: evicts them, unless they are leased
    drain(engine, 4000 * MS)
    assert again.cached == cached


def test_bytes_over_the_host_link() -> None:
    more = {"kv_tokens": 1600, "host_kv_tokens": 16_000, "max_model_len": 1500}
    options = options_from("qwen3-8b", "h200", Topology(1), **more)
    engine = engine_of(options)
    first, other, again = (Request(k, 800, 1, [hash((k % 2, i)) for i in range(50)]) for k in (0, 1, 2))
    other.hashes = [hash(("other", i)) for i in range(94)]
    other.prompt = 1490
    now = 0
    for one in (first, other, again):
        start = now
        engine.submit(0, one, now)
        now = drain(engine, now)
    blocks = again.external // 16
    assert blocks > 10
    shown = snapshot(engine.ranks, engine.metrics, "m", histograms=False)
    external = {name.split("{")[0]: value for name, value in shown.items() if "external_prefix_cache" in name}
    assert external["vllm:external_prefix_cache_hits_total"] == again.external
    assert external["vllm:external_prefix_cache_queries_total"] >= 800 + 1490 + again.external
    size = 16 * 36 * 2 * 8 * 128 * 2  # tokens x layers x (keys, values) x heads x values x bytes
    assert (again.first_ns or 0) - start > blocks * size / options.gpu.host_bandwidth * 1e9


def test_limits_come_from_options() -> None:
    limits = engine_of(options_from("qwen3-8b", "h200", Topology(1), host_kv_tokens=32_000)).limits
    assert isinstance(limits, Limits)
    assert limits.host_blocks == 2000
