"""KV from another engine: its bytes are counted, its way takes time, and nothing is computed twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.simulate.serving import options

from ridgeline.simulate.engine import Engine, engine_of
from ridgeline.simulate.handover import Handover
from ridgeline.simulate.metrics import snapshot
from ridgeline.simulate.request import Request

BLOCK = 16
GB = 10**9


def test_bytes_over_bandwidth_one_after_the_other() -> None:
    link = Handover(2, 1000, 1e6)
    assert link.fetch(0, 50, 0) == 50_000_000, "50 kB at 1 MB/s"
    assert link.fetch(0, 10, 0) == 60_000_000, "the second waits for the first"
    assert link.fetch(1, 10, 0) == 10_000_000, "every rank has its own link"
    assert link.fetch(0, 10, 80_000_000) == 90_000_000, "an idle link starts at once"
    assert (link.fetched, link.fetches) == ([70_000, 10_000], [3, 1])
    assert link.seconds == pytest.approx([0.05 + 0.06 + 0.01, 0.01])
    assert link.offer(1, 3) == 3000
    lines = list(link.lines())
    assert 'ridgeline:kv_transfer_bytes_total{engine="0"} 70000.0' in lines
    assert 'ridgeline:kv_offered_bytes_total{engine="1"} 3000.0' in lines


def decode_engine(bandwidth: float = 1 * GB, **more: object) -> Engine:
    return engine_of(options(**more), kv_bandwidth=bandwidth)


def request(key: int, prompt: int, answer: int, name: int = 0, remote: bool = True) -> Request:
    found = Request(key, prompt, answer, [hash((name, block)) for block in range((prompt + answer) // BLOCK)])
    found.remote = prompt if remote else 0
    return found


def run(engine: Engine, *requests: Request) -> int:
    """Until nothing is left to do; the simulated end."""
    for one in requests:
        engine.submit(0, one, 0)
    now = 0
    engine.kick(now)
    while (wakes := engine.wakes_at) is not None:
        now = wakes
        if engine.ends_at is not None:
            engine.finish()
        else:
            engine.kick(now)
    return now


def test_a_prompt_that_was_computed_elsewhere_only_decodes_here() -> None:
    engine = decode_engine()
    one = request(1, 1000, 8)
    run(engine, one)
    blocks = (1000 - 1) // BLOCK
    size = engine.handover.block_bytes
    assert engine.handover.fetched == [blocks * size]
    assert one.done
    assert one.first_ns is not None
    moved = round(blocks * size / GB * 1e9)
    assert one.first_ns > moved, "no token before its KV is there"
    computed = one.first_ns - moved
    alone = request(1, 1000 - blocks * BLOCK, 8, remote=False)
    fresh = decode_engine()
    run(fresh, alone)
    assert alone.first_ns is not None
    assert computed < 1.3 * alone.first_ns, "what is left of the prompt is a few tokens"
    metrics = snapshot(engine.ranks, engine.metrics, "m", histograms=False)
    by_source = {key: value for key, value in metrics.items() if "by_source" in key}
    assert sum(by_source.values()) == 1000
    external = [value for key, value in by_source.items() if "external_kv_transfer" in key]
    assert external == [blocks * BLOCK]


def test_a_faster_link_is_an_earlier_token() -> None:
    firsts = []
    for bandwidth in (0.1 * GB, 1 * GB, 10 * GB):
        engine, one = decode_engine(bandwidth), request(1, 2000, 4)
        run(engine, one)
        firsts.append(one.first_ns or 0)
    assert firsts[0] > firsts[1] > firsts[2]
    slow, fast = firsts[0], firsts[1]
    size = ((2000 - 1) // BLOCK) * decode_engine().handover.block_bytes
    assert slow - fast == pytest.approx(size * (1 / 0.1 - 1), rel=0.02), "the difference is the transfer alone"


def test_what_is_in_the_cache_here_is_not_fetched_again() -> None:
    engine = decode_engine()
    run(engine, request(1, 800, 16))
    first = engine.handover.fetched[0]
    run(engine, request(2, 1600, 16))  # the same session goes on
    again = engine.handover.fetched[0] - first
    size = engine.handover.block_bytes
    assert first == (799 // BLOCK) * size
    assert again < (1599 // BLOCK) * size - first + 4 * size, "only what is new"
    assert engine.ranks[0].hits >= 800 // BLOCK * BLOCK


def test_without_a_hand_over_it_computes_by_itself() -> None:
    engine, one = decode_engine(), request(1, 1000, 4, remote=False)
    run(engine, one)
    assert engine.handover.fetched == [0]
    assert one.external == 0


def test_transfers_overlap_with_steps_of_others() -> None:
    engine = decode_engine(0.05 * GB)
    busy, late = request(1, 64, 200, remote=False), request(2, 2000, 4, name=1)
    run(engine, busy, late)
    assert busy.last_ns is not None
    assert late.first_ns is not None
    alone = request(1, 64, 200, remote=False)
    run(decode_engine(), alone)
    assert alone.last_ns is not None
    assert busy.last_ns < 1.2 * alone.last_ns, "the others do not wait for the link"


def test_a_preempted_request_computes_what_it_had_got() -> None:
    engine = decode_engine(kv_tokens=1600, max_model_len=1500)
    first, second = request(1, 600, 400, name=1), request(2, 600, 400, name=2)
    run(engine, first, second)
    assert first.done
    assert second.done
    assert engine.ranks[0].preemptions > 0
    assert engine.handover.fetches == [2], "once each"


def test_every_gpu_of_a_rank_brings_its_share() -> None:
    from ridgeline.core.topology import Topology

    one = decode_engine()
    two = engine_of(replace(options(), topology=Topology(2)), kv_bandwidth=1 * GB)
    assert two.handover.bandwidth == 2 * one.handover.bandwidth
