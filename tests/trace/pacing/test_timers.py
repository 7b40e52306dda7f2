from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.trace.pacing.timers import Timers


def take_all(timers: Timers[str], now: int) -> list[tuple[int, str]]:
    taken = []
    while (due := timers.take(now)) is not None:
        taken.append(tuple(due))
    return taken


def test_timers_fire_in_order_of_time_and_then_of_adding() -> None:
    timers: Timers[str] = Timers()
    for group, at, item in ((1, 30, "c"), (2, 10, "a"), (1, 20, "b"), (3, 20, "b2"), (1, 40, "d")):
        timers.add(group, at, item)
    assert take_all(timers, 30) == [(10, "a"), (20, "b"), (20, "b2"), (30, "c")]
    assert (timers.earliest(), timers.earliest_of(1), timers.earliest_of(2), len(timers)) == (40, 40, None, 1)


def test_a_shift_of_all_moves_later_additions_not() -> None:
    timers: Timers[str] = Timers()
    timers.add(1, 60, "a")
    timers.add(2, 75, "b")
    timers.shift_all(50)
    timers.add(3, 20, "c")
    assert take_all(timers, 100) == [(10, "a"), (20, "c"), (25, "b")]


def test_a_shift_of_one_group_leaves_the_others() -> None:
    timers: Timers[str] = Timers()
    timers.add(1, 60, "a")
    timers.add(1, 70, "b")
    timers.add(2, 65, "c")
    timers.shift_group(1, 20)
    timers.add(1, 64, "d")
    assert take_all(timers, 100) == [(40, "a"), (50, "b"), (64, "d"), (65, "c")]


def test_nothing_is_left_after_clear() -> None:
    timers: Timers[str] = Timers()
    timers.add(1, 60, "a")
    timers.clear()
    timers.shift_all(5)
    timers.shift_group(1, 5)
    assert (timers.earliest(), timers.take(100), len(timers)) == (None, None, 0)
    timers.add(1, 10, "b")
    assert take_all(timers, 10) == [(10, "b")]


def test_a_far_timer_that_is_overtaken_again_and_again_takes_no_room() -> None:
    timers: Timers[str] = Timers()
    timers.add(1, 10**9, "far")
    for now in range(1000):
        timers.add(1, now, "near")
        assert timers.take(now) == (now, "near")
    assert len(timers._heads) == 1
    assert timers.take(10**9) == (10**9, "far")


operation = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 3), st.integers(0, 100)),
    st.tuples(st.just("all"), st.just(0), st.integers(0, 20)),
    st.tuples(st.just("group"), st.integers(0, 3), st.integers(0, 20)),
    st.tuples(st.just("take"), st.just(0), st.integers(0, 100)),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(operation, max_size=40))
def test_timers_agree_with_a_plain_list(operations: list[tuple[str, int, int]]) -> None:
    timers: Timers[int] = Timers()
    plain: list[list[int]] = []  # [due, serial, group]
    for serial, (what, group, amount) in enumerate(operations):
        if what == "add":
            timers.add(group, amount, serial)
            plain.append([amount, serial, group])
        elif what == "all":
            timers.shift_all(amount)
            for entry in plain:
                entry[0] -= amount
        elif what == "group":
            timers.shift_group(group, amount)
            for entry in plain:
                entry[0] -= amount if entry[2] == group else 0
        else:
            plain.sort()
            due = timers.take(amount)
            if plain and plain[0][0] <= amount:
                assert due is not None and [due.at_ns, due.item] == plain.pop(0)[:2]
            else:
                assert due is None
        assert timers.earliest() == min((entry[0] for entry in plain), default=None)
        for each in range(4):
            assert timers.earliest_of(each) == min((entry[0] for entry in plain if entry[2] == each), default=None)
