"""Heads of points: which of them count, which are the latest of their line, and what they and their measures say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.results.store.test_store import add, point, run

from ridgeline.core.point import Measure, Source, Validity
from ridgeline.results.store import Store
from ridgeline.results.store.heads import Words

DAYS = st.sampled_from(["2026-01-01", "2026-01-02", ""])
POINTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 2), st.integers(1, 2), st.sampled_from(list(Source)),
              st.sampled_from([Validity.VALID, Validity.VALID, Validity.INVALID])),
    max_size=5, unique_by=lambda one: (one[:4]),
)  # fmt: skip
RUNS = st.lists(st.tuples(DAYS, st.sampled_from(["local", "staging", "withdrawn"]), POINTS), min_size=1, max_size=4)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(RUNS)
def test_the_latest_of_a_line_is_what_its_newest_run_measured(tmp_path_factory: Any, made: list[Any]) -> None:
    """Against the rule written out: per channel, line and source the run that began last, of those with a point that
    may be plotted; of that run all that counts."""
    folder: Path = tmp_path_factory.mktemp("latest")
    with Store.open(folder / "store") as store:
        for number, (day, channel, listed) in enumerate(made):
            points = [
                point(
                    f"s/{line}", concurrency, source=source, validity=validity, attempt=attempt,
                    reasons=() if validity is Validity.VALID else ("broke",), key=f"{line}{concurrency}{source}",
                )
                for line, concurrency, attempt, source, validity in listed
            ]  # fmt: skip
            add(store, folder, [run(str(number), list(points), day)], mark=str(number))
            store.move(f"run {number}", channel)
        ids = {int(row["name"].split()[1]): row["id"] for row in store.runs()}
        for channel in ("local", "staging", None):
            expected = {f"{ids[number]}.{rest}" for number, rest in _expected(made, channel)}
            assert {item.id for item in store.points(channel=channel)} == expected


def _expected(made: list[Any], channel: str | None) -> set[tuple[int, str]]:
    """Number of the run and the rest of the id."""
    last: dict[tuple[int, str, int, Source], tuple[int, Validity]] = {}
    for number, (_, of, listed) in enumerate(made):
        for line, concurrency, attempt, source, validity in listed:
            cell = (number, line, concurrency, source)
            if of != "withdrawn" and attempt > last.get(cell, (0, ""))[0]:
                last[cell] = (attempt, validity)
    newest: dict[tuple[str, str, Source], tuple[str, int]] = {}
    for (number, line, _, source), (_, validity) in last.items():
        day, of, _ = made[number]
        if validity is not Validity.INVALID:
            newest[of, line, source] = max(newest.get((of, line, source), ("", -1)), (day, number))
    return {
        (number, f"{line}{concurrency}{source}.{attempt}")
        for (number, line, concurrency, source), (attempt, _) in last.items()
        if channel in (None, made[number][1])
        and newest.get((made[number][1], line, source)) == (made[number][0], number)
    }


def test_what_a_measure_says_is_kept_beside_its_value(store: Store, tmp_path: Path) -> None:
    one = point("a/x", 1)
    odd = replace(
        point("a/y", 2, y=None, facts={**one.facts, "model": "Tiny-1B", "arm": "tp2"}),
        measures={
            "ttft.p50": Measure(2.0, "ms", reason="clock of the client"),
            "new": Measure(None, "s", None, "no log"),
        },
    )
    add(store, tmp_path, [run("1", [one, odd])])
    add(store, tmp_path, [run("2", [point("a/x", 1, x=60.0)], "2026-02-01")], mark="2", channel="staging")
    first, second = sorted(item.id for item in store.points(channel="local"))
    told = {(row["point"], row["measure"]): row for row in store.measured("local").to_pylist()}
    assert told == {
        (id, name): {"point": id, "measure": name, "value": m.value, "unit": m.unit, "n": m.n, "reason": m.reason}
        for id, of in ((first, one), (second, odd))
        for name, m in of.measures.items()
    }
    heads = store.heads()
    assert [heads.words("full_model").at(row) for row in heads.rows("local", latest=False)] == [None, "Tiny-1B"]
    assert [heads.channel.at(row) for row in range(3)] == ["local", "local", "staging"]
    add(store, tmp_path, [run("1", [replace(one, measures={})])], mark="3")
    assert len(store.heads().rows("local", latest=False)) == 2, "a revision stands in for the one before"


def test_an_empty_store_has_no_heads(store: Store) -> None:
    assert store.points() == () and store.measured("local").num_rows == 0
    assert not len(store.heads().rows(None, latest=True))


def test_words_that_occur_are_renumbered_in_their_order() -> None:
    found = Words(np.array([2, 0, 2]), ["b", "never", "a"]).dense()
    assert found.words == ["a", "b"] and found.codes.tolist() == [0, 1, 0]
    assert found.at(1) == "b" and found.code("never") == -2
