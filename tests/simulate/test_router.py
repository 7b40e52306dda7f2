"""Where requests go, by every policy."""

from dataclasses import dataclass

import pytest

from ridgeline.simulate.router import Router


@dataclass
class Busy:
    load: int = 0
    unfinished: int = 0


def idle(count: int) -> list[Busy]:
    return [Busy() for _ in range(count)]


NAMES = [f"session-{number}" for number in range(4000)]


def test_a_session_keeps_its_rank_whatever_the_load() -> None:
    targets = idle(4)
    router = Router("session", targets)
    before = [router.pick(name) for name in NAMES[:100]]
    targets[before[0]].load = 1000
    assert [router.pick(name) for name in NAMES[:100]] == before
    assert [Router("session", idle(4)).pick(name) for name in NAMES[:100]] == before, "another process, the same ranks"


def test_sessions_are_spread_evenly() -> None:
    router = Router("session", idle(8))
    counts = [0] * 8
    for name in NAMES:
        counts[router.pick(name)] += 1
    assert min(counts) > 0.7 * 500
    assert max(counts) < 1.3 * 500


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_further_rank_takes_its_share_and_moves_nobody_else(count: int) -> None:
    few, more = Router("session", idle(count)), Router("session", idle(count + 1))
    moved = [(few.pick(name), more.pick(name)) for name in NAMES if few.pick(name) != more.pick(name)]
    assert all(after == count for _, after in moved), "only to the new one"
    assert len(moved) / len(NAMES) == pytest.approx(1 / (count + 1), rel=0.25)


def test_without_a_name_a_session_router_takes_the_least_loaded() -> None:
    assert Router("session", [Busy(4), Busy(1), Busy(1)]).pick(None) == 1


def test_round_robin_takes_turns() -> None:
    router = Router("round-robin", idle(3))
    assert [router.pick("a") for _ in range(5)] == [0, 1, 2, 0, 1]


def test_least_loaded_looks_every_time() -> None:
    targets = [Busy(8), Busy(5), Busy(5)]
    router = Router("least-loaded", targets)
    assert router.pick("a") == 1
    targets[1].load = 9
    assert router.pick("a") == 2


def test_cache_aware_follows_a_beginning_that_was_sent_before() -> None:
    router = Router("cache-aware", idle(3))
    first = router.pick(None, [1, 2, 3, 4])
    other = router.pick(None, [11, 12, 13])
    third = router.pick(None, [21, 22])
    assert {first, other, third} == {0, 1, 2}, "new prompts go where least was sent"
    assert router.pick(None, [1, 2, 3, 4, 5, 6]) == first
    assert router.pick(None, [11, 12, 13, 14]) == other
    assert router.pick(None, [1, 2, 31, 32, 33]) == first, "two of five are more than three tenths"


def test_cache_aware_spreads_what_shares_too_little() -> None:
    router = Router("cache-aware", idle(2))
    system = [1]
    first = router.pick(None, [*system, 2, 3, 4])
    assert router.pick(None, [*system, 12, 13, 14]) == 1 - first, "one block of four is not followed"


def test_cache_aware_gives_up_affinity_far_out_of_balance() -> None:
    targets = idle(2)
    router = Router("cache-aware", targets)
    first = router.pick(None, [1, 2, 3])
    targets[first].unfinished = 64
    assert router.pick(None, [1, 2, 3, 4]) == first, "64 apart is still balanced"
    targets[first].unfinished = 65
    assert router.pick(None, [1, 2, 3, 4]) == 1 - first
    targets[0].unfinished, targets[1].unfinished = 200, 140
    chosen = router.pick(None, [1, 2, 3, 4, 5])
    targets[chosen].unfinished, targets[1 - chosen].unfinished = 300, 230
    assert router.pick(None, [1, 2, 3, 4, 5]) == chosen, "70 apart, but not by half"


def test_one_target_takes_everything() -> None:
    assert Router("cache-aware", idle(1)).pick("a", [1]) == Router("session", idle(1)).pick("a") == 0
