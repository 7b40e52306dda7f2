"""The frontier's rules, by hand and by property (permutation, idempotence, witnesses, mirror, dominated additions)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.errors import InputError
from ridgeline.core.point import Axis, Measure, Point, Source, Validity
from ridgeline.results.frontier import Exclusion, Frontier, frontier

X = Axis("interactivity.p50", "tok/s/user", "higher")
Y = Axis("throughput_per_gpu.output", "tok/s/GPU", "higher")
STAR = Axis("e2e_interactivity.p50", "tok/s/user", "higher")


def point(id: str, x: float | None, y: float | None, star: float | None = None, **changes: Any) -> Point:
    def measure(value: float | None, unit: str) -> Measure:
        return Measure(value, unit, reason=None if value is not None else "not scraped")

    measures = {X.measure: measure(x, X.unit), Y.measure: measure(y, Y.unit)}
    if star is not None:
        measures[STAR.measure] = measure(star, STAR.unit)
        changes = {"facts": {"scenario": "agentic-coding"}} | changes
    base = Point(
        id=id,
        run_key="r",
        cell_fingerprint="f",
        name=f"cell-{id}",
        line="l",
        series="s",
        source=Source.MEASURED,
        concurrency=1,
        gpus=1,
        facts={},
        measures=measures,
    )
    return dataclasses.replace(base, **changes)


def only(result: Frontier) -> tuple[str, ...]:
    assert len(result.series) == 1
    return result.series[0].frontier


def test_better_corner_and_witnesses() -> None:
    result = frontier([point("a", 1, 9), point("b", 5, 5), point("c", 4, 4), point("d", 9, 1), point("e", 5, 3)], X, Y)
    assert only(result) == ("a", "b", "d")
    assert result.dominated_by == {"c": "b", "e": "b"}


@pytest.mark.parametrize(
    ("x_better", "y_better", "members"),
    [
        ("higher", "higher", {"top", "right", "middle"}),
        ("higher", "lower", {"right"}),
        ("lower", "higher", {"top"}),
        ("lower", "lower", {"top", "right", "middle"}),
    ],
)
def test_all_four_corners(x_better: Any, y_better: Any, members: set[str]) -> None:
    x, y = dataclasses.replace(X, better=x_better), dataclasses.replace(Y, better=y_better)
    result = frontier([point("top", 1, 9), point("middle", 5, 5), point("right", 9, 1)], x, y)
    assert result.members == members


def test_equal_x_keeps_the_better_y_and_exact_duplicates_stay() -> None:
    result = frontier([point("b", 5, 5), point("a", 5, 5), point("c", 5, 4), point("d", 1, 5)], X, Y)
    assert only(result) == ("a", "b"), "duplicates are all kept, in the order of their ids"
    assert result.dominated_by == {"c": "a", "d": "a"}


def test_a_single_point_zero_and_negatives_are_frontiers() -> None:
    assert only(frontier([point("a", 0, 0)], X, Y)) == ("a",)
    assert only(frontier([point("a", -3, 0), point("b", 0, -3)], X, Y)) == ("a", "b")
    assert frontier([], X, Y).series == ()


def test_no_direction_is_refused() -> None:
    with pytest.raises(InputError, match="no better direction"):
        frontier([point("a", 1, 1)], X, dataclasses.replace(Y, better=None))


def test_missing_is_excluded_with_its_reason_and_never_zero() -> None:
    cheap = dataclasses.replace(Y, better="lower")  # a missing cost read as 0 would win
    unheard = dataclasses.replace(point("c", 3, 3), measures={})
    infinite = point("d", float("inf"), 1)
    result = frontier([point("a", 1, 5), point("b", 2, None), unheard, infinite], X, cheap)
    assert only(result) == ("a",)
    assert [(item.id, item.code) for item in result.excluded] == [
        ("b", "missing"),
        ("c", "missing"),
        ("d", "not-finite"),
    ]
    assert "not scraped" in result.excluded[0].reason
    assert result.excluded_counts == {"missing": 2, "not-finite": 1}


def test_validity_decides_who_takes_part() -> None:
    points = [
        point("valid", 1, 1),
        point("unproven", 2, 0.5, validity=Validity.UNPROVEN),
        point("degraded", 9, 9, validity=Validity.DEGRADED, reasons=("graphs: eager decode",)),
        point("invalid", 8, 8, validity=Validity.INVALID, reasons=("error-rate: 40 %",)),
    ]
    failed = Exclusion("cell-x", "cell-x", "failed", "engine: died")
    result = frontier(points, X, Y, failed=[failed])
    assert result.members == {"valid", "unproven"}
    assert [(item.code, item.reason) for item in result.excluded] == [
        ("degraded", "graphs: eager decode"),
        ("invalid", "error-rate: 40 %"),
        ("failed", "engine: died"),
    ]


def test_sources_do_not_mix_unasked() -> None:
    points = [point("m", 1, 1), point("e", 2, 2, source=Source.EMULATED, series="s/emulated")]
    with pytest.raises(InputError, match="emulated and measured"):
        frontier(points, X, Y)
    chosen = frontier(points, X, Y, source=Source.MEASURED)
    assert chosen.members == {"m"}
    assert chosen.excluded == (Exclusion("e", "cell-e", "other-source", "emulated, not measured"),)
    mixed = frontier(points, X, Y, mix_sources=True)
    assert [(series.key, series.sources) for series in mixed.series] == [
        ("s", (Source.MEASURED,)),
        ("s/emulated", (Source.EMULATED,)),
    ]
    together = frontier(points, X, Y, mix_sources=True, group=lambda p: "all")
    assert together.series[0].sources == (Source.EMULATED, Source.MEASURED)


def test_groups_never_dominate_each_other() -> None:
    result = frontier([point("a", 1, 1, series="s2"), point("b", 9, 9, series="s1")], X, Y)
    assert [(s.key, s.frontier) for s in result.series] == [("s1", ("b",)), ("s2", ("a",))]


def test_one_id_for_two_points_is_refused_and_the_same_point_twice_counts_once() -> None:
    with pytest.raises(InputError, match="two different points"):
        frontier([point("a", 1, 1), point("a", 2, 2)], X, Y)
    assert only(frontier([point("a", 1, 1), point("a", 1, 1)], X, Y)) == ("a",)


def test_within_noise_needs_a_win_beyond_both_bars_on_both_axes() -> None:
    points = [point("best", 100, 100), point("near", 99, 99.5), point("far", 80, 80), point("one-axis", 99, 50)]
    result = frontier(points, X, Y, epsilon=0.02)
    assert only(result) == ("best",), "noise never changes membership"
    assert result.series[0].within_noise == {"near", "one-axis"}
    assert frontier(points, X, Y, epsilon=(0.0, 0.02)).series[0].within_noise == {"near"}


def test_intervals_of_repeats_go_before_epsilon() -> None:
    points = [point("best", 100, 100), point("wide", 80, 80)]

    def interval(p: Point, axis: Axis) -> tuple[float, float] | None:
        return (60.0, 110.0) if p.id == "wide" else None

    assert frontier(points, X, Y, interval=interval).series[0].within_noise == {"wide"}


def test_lower_is_better_bars_are_turned_round() -> None:
    cost = dataclasses.replace(Y, better="lower")
    points = [point("best", 100, 1.00), point("near", 99, 1.01), point("dear", 90, 2.0)]
    assert frontier(points, X, cost, epsilon=0.01).series[0].within_noise == {"near"}


def test_north_star_keeps_only_points_on_both_frontiers() -> None:
    points = [
        point("fast-decode-long-queue", 90, 50, star=1),
        point("balanced", 80, 60, star=40),
        point("dominated", 70, 55, star=39),
    ]
    result = frontier(points, X, Y, north_star=STAR)
    assert only(result) == ("balanced",)
    assert result.dominated_by == {"fast-decode-long-queue": "balanced", "dominated": "balanced"}
    assert result.series[0].off_north_star == {"fast-decode-long-queue"}
    assert frontier(points, X, Y).members == {"fast-decode-long-queue", "balanced"}


def test_north_star_missing_is_an_exclusion() -> None:
    agentic = {"scenario": "agentic-coding"}
    result = frontier([point("a", 1, 1, star=1), point("b", 2, 2, facts=agentic)], X, Y, north_star=STAR)
    assert result.members == {"a"}
    assert "e2e_interactivity" in result.excluded[0].reason


def test_north_star_leaves_points_of_other_workloads_alone() -> None:
    fixed = [point("f1", 9, 1), point("f2", 1, 9), point("f3", 1, 1)]
    stars = [point("s1", 90, 50, star=1, series="agentic"), point("s2", 80, 60, star=40, series="agentic")]
    for x in (X, dataclasses.replace(X, better="lower")):
        result = frontier([*fixed, *stars], x, Y, north_star=STAR)
        plain = frontier(fixed, x, Y)
        assert {id for id in result.members if id.startswith("f")} == plain.members
        assert "s1" not in result.members


def test_hypervolume_against_a_reference() -> None:
    result = frontier([point("a", 1, 3), point("b", 2, 2), point("c", 4, 1)], X, Y)
    assert result.hypervolume("s", (0, 0)) == pytest.approx(1 * 3 + 1 * 2 + 2 * 1)
    assert result.hypervolume("s", (1, 1)) == pytest.approx(1.0)
    assert result.hypervolume("s", (10, 10)) == 0.0
    cost = dataclasses.replace(Y, better="lower")
    cheap = frontier([point("a", 1, 3), point("b", 2, 5)], X, cost)
    assert cheap.hypervolume("s", (0, 10)) == pytest.approx(1 * 7 + 1 * 5)
    with pytest.raises(KeyError):
        result.hypervolume("other", (0, 0))


def test_reading_a_service_level() -> None:
    series = frontier([point("a", 10, 300), point("b", 20, 200), point("c", 40, 50)], X, Y).series[0]
    assert series.read(20).value == 200
    assert series.read(41).value is None and "outside" in (series.read(41).reason or "")
    assert series.best_at_least(15).value == 200, "a measured point above the level qualifies"
    assert series.best_at_least(41).value is None


values = st.one_of(st.integers(-4, 4).map(float), st.floats(-1e6, 1e6))
clouds = st.lists(
    st.tuples(values, values, st.sampled_from("ab")),
    max_size=25,
).map(lambda rows: [point(f"p{i:02}", x, y, series=key) for i, (x, y, key) in enumerate(rows)])


def dominates(p: Point, q: Point) -> bool:
    px, py, qx, qy = (r.value(m) for r in (p, q) for m in (X.measure, Y.measure))
    assert px is not None and py is not None and qx is not None and qy is not None
    return p.series == q.series and px >= qx and py >= qy and (px, py) != (qx, qy)


@settings(max_examples=40, deadline=None)
@given(clouds, st.randoms(use_true_random=False))
def test_properties(points: list[Point], rng: Any) -> None:
    result = frontier(points, X, Y)
    by_id = {p.id: p for p in points}
    # The definition itself, by brute force.
    assert result.members == {p.id for p in points if not any(dominates(q, p) for q in points)}
    # Every dropped point has a witness that is on the frontier.
    for id, by in result.dominated_by.items():
        assert dominates(by_id[by], by_id[id]) and by in result.members
    assert set(result.dominated_by) | result.members == set(by_id)
    # The order of the points does not matter.
    shuffled = list(points)
    rng.shuffle(shuffled)
    assert frontier(shuffled, X, Y).to_json() == result.to_json()
    # F(F(P)) = F(P).
    assert frontier([by_id[id] for id in result.members], X, Y).members == result.members
    # Turning sign and direction round together changes nothing.
    flipped = [point(p.id, p.value(X.measure), -(p.value(Y.measure) or 0.0), series=p.series) for p in points]
    assert frontier(flipped, X, dataclasses.replace(Y, better="lower")).members == result.members


@settings(max_examples=25, deadline=None)
@given(clouds.filter(bool), st.data())
def test_adding_a_dominated_point_changes_nothing(points: list[Point], data: st.DataObject) -> None:
    victim = data.draw(st.sampled_from(points))
    x, y = victim.value(X.measure), victim.value(Y.measure)
    assert x is not None and y is not None
    worse = point("worse", x - 1e-3 * max(1.0, abs(x)), y, series=victim.series)
    assert frontier([*points, worse], X, Y).members == frontier(points, X, Y).members


@settings(max_examples=30, deadline=None)
@given(clouds, st.floats(0, 0.2), st.floats(0, 0.2))
def test_noise_by_brute_force_and_growing(points: list[Point], small: float, more: float) -> None:
    def bars(p: Point, m: str, e: float) -> tuple[float, float]:
        value = p.value(m) or 0.0
        return value - abs(value) * e, value + abs(value) * e

    def clear(q: Point, p: Point, e: float) -> bool:
        (ql, _), (_, ph) = bars(q, X.measure, e), bars(p, X.measure, e)
        (rl, _), (_, sh) = bars(q, Y.measure, e), bars(p, Y.measure, e)
        return q.series == p.series and ql >= ph and rl >= sh and (ql > ph or rl > sh)

    result = frontier(points, X, Y, epsilon=small)
    noisy = {id for series in result.series for id in series.within_noise}
    dominated = [p for p in points if p.id in result.dominated_by]
    assert noisy == ({p.id for p in dominated if not any(clear(q, p, small) for q in points)} if small else set())
    wider = frontier(points, X, Y, epsilon=small + more)
    assert noisy <= {id for series in wider.series for id in series.within_noise}
