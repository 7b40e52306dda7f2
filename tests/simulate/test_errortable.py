"""The error table says what it says: errors, what stands beside them, and how sure predictions are."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.topology import Topology
from ridgeline.simulate import validate
from ridgeline.simulate.bands import AGENTIC, ASSUMED, FIRST, FIRST_POOLS, POOLS, UNFITTED, UNSEEN, band, spread_of
from ridgeline.simulate.errortable import LEGEND, Errors, error_table, order, shown
from ridgeline.simulate.evaluate import MEASURES, Row
from ridgeline.simulate.points import Measured, Prefill

POINT = Measured(
    row=2, hardware="b200", engine="trt", model="llama70b", precision="fp8", spec="none", topology=Topology(4), conc=4,
    isl=1024, osl=1024,
)  # fmt: skip
AGENT = replace(POINT, isl=None, osl=None)
TPUT, TPOT, FIRST_TOKEN, HIT = MEASURES[:4]


def rows(
    measured: dict[int, float], predicted: dict[int, float], measure: str = TPUT, base: Measured = POINT
) -> list[Row]:
    return [
        Row("f.csv", replace(base, row=at, conc=conc), measure, value, predicted[conc], 0.0, 100.0)
        for at, (conc, value) in enumerate(measured.items(), 2)
    ]


def line(table: list[Errors], measure: str, group: str | None = None) -> Errors:
    return next(found for found in table if found.measure == measure and group in (None, found.group))


def test_errors_order_and_band() -> None:
    found = line(error_table(rows({4: 10, 8: 20, 16: 400}, {4: 11, 8: 16, 16: 500})), TPUT)
    assert (found.n, found.error, found.bias) == (3, pytest.approx(0.55 / 3), pytest.approx(0.15 / 3))
    assert found.tau == 1.0 and found.inside == pytest.approx(2 / 3)


def test_interpolation_knows_the_neighbours_and_not_the_point() -> None:
    straight = {4: 10.0, 8: 20.0, 16: 40.0, 32: 80.0}
    assert line(error_table(rows(straight, straight)), TPUT).interpolation == pytest.approx(0)
    bent = line(error_table(rows({**straight, 8: 30.0}, straight)), TPUT)
    # 4: through 8 and 16 back to 22.5; 8: between 4 and 16; 16: between 8 and 32; 32: through 8 and 16 on to 53.3
    wanted = [22.5 / 10 - 1, 1 - 20 / 30, 30**0.5 * 80**0.5 / 40 - 1, 1 - 40 * 40 / 30 / 80]
    assert bent.interpolation == pytest.approx(sum(map(abs, wanted)) / 4)
    assert line(error_table(rows({4: 10.0, 8: 20.0}, straight)), TPUT).interpolation is None


def test_the_roofline_takes_the_constant_of_the_groups_other_points() -> None:
    from ridgeline.simulate.fit import predict

    plain = {conc: predict(replace(POINT, conc=conc), validate.roofline(), {}).tput_per_gpu for conc in (4, 8, 16)}
    scaled = {conc: value / 3 for conc, value in plain.items()}
    assert line(error_table(rows(scaled, scaled)), TPUT).roofline == pytest.approx(0, abs=1e-9)
    off = line(error_table(rows({**scaled, 4: scaled[4] * 2}, scaled)), TPUT)
    assert off.roofline is not None and off.roofline > 0.3
    assert line(error_table(rows(scaled, scaled, HIT, AGENT)), HIT).roofline is None


def test_repeats_are_runs_of_one_point_within_days() -> None:
    def run(value: float, day: str | None, **more: object) -> Row:
        return Row("f", replace(POINT, row=int(value), date=day, **more), TPUT, value, 100.0, None, None)  # type: ignore[arg-type]

    near = error_table([run(99, "2026-07-01"), run(101, "2026-07-03")])[0]
    assert near.repeats == pytest.approx(0.02) and near.tau is None
    assert error_table([run(99, "2026-07-01"), run(101, "2026-07-09")])[0].repeats is None
    assert error_table([run(99, None), run(101, None)])[0].repeats == pytest.approx(0.02)
    assert error_table([run(99, None), run(101, None, source="other quantisation")])[0].repeats is None
    assert error_table([run(99, None), run(101, None)._replace(file="g")])[0].repeats is None
    assert error_table([run(99, "2026-07-01"), run(101, "2026-07-01")._replace(file="g")])[0].repeats is not None


def test_knees_of_six_loads() -> None:
    tput = {1: 10.0, 2: 19.0, 4: 36.0, 8: 60.0, 16: 70.0, 32: 75.0}
    tpot = {conc: conc / value for conc, value in tput.items()}
    points = {c: replace(POINT, row=c, conc=c, tput=tput[c], tpot_s=tpot[c]) for c in tput}
    both = [row._replace(point=points[row.point.conc]) for row in (*rows(tput, tput), *rows(tpot, tpot, TPOT))]
    assert line(error_table(both), TPUT).knee == (1, 1, 1)
    assert line(error_table(both[:5] + both[6:11]), TPUT).knee is None


def test_a_straight_line_has_no_knee_to_miss() -> None:
    loads = (1, 2, 4, 8, 16, 32)
    points = {c: replace(POINT, row=c, conc=c, tput=10.0, tpot_s=0.1) for c in loads}
    flat = [
        *rows(dict.fromkeys(loads, 10.0), dict.fromkeys(loads, 9.0)),
        *rows(dict.fromkeys(loads, 0.1), dict.fromkeys(loads, 0.1), TPOT),
    ]
    flat = [row._replace(point=points[row.point.conc]) for row in flat]
    assert line(error_table(flat), TPUT).knee == (1, 1, 1)


def test_doubtful_rows_are_shown_with_and_without() -> None:
    many = rows({4: 10, 8: 20}, {4: 10, 8: 20})
    odd = Row("f", replace(POINT, row=9, conc=512, tput=10, tpot_s=1e-3), TPUT, 10, 100, None, None)
    assert odd.point.doubtful
    table = error_table([*many, odd])
    assert line(table, TPUT, "all but doubtful rows").error == 0
    assert all(found.group != "all but doubtful rows" for found in error_table(many))


def test_a_reader_who_has_never_seen_it_finds_every_column_explained() -> None:
    text = shown(error_table([*rows({4: 10, 8: 20}, {4: 11, 8: 21}), *rows({4: 0.5}, {4: 0.75}, HIT, AGENT)]))
    head, first = text.splitlines()[:2]
    assert first.startswith("b200/trt llama70b fp8 none") and "7.5 %" in first and "+7.5 %" in first
    assert "0.25" in text and "+0.25" in text
    for column in ("error", "bias", "interp.", "roofline", "repeats", "tau", "knee", "in band"):
        assert column in head
        assert any(words.startswith(column) for words in LEGEND)


PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=12)


@given(PAIRS)
@settings(max_examples=60)
def test_order_is_kendalls_tau(pairs: list[tuple[int, int]]) -> None:
    floats = [(float(a), float(b)) for a, b in pairs]
    assert order(floats) == pytest.approx(validate.tau(floats))


def test_many_rows_of_one_series_take_no_square() -> None:
    chance = random.Random(1)
    pairs = [(chance.random(), chance.random()) for _ in range(30_000)]
    assert abs(order(pairs)) < 0.02


def test_bands_widen_with_what_is_not_known() -> None:
    assert spread_of(POINT, TPUT, 0.1) == 0.1
    assert spread_of(POINT, TPUT, None) == UNFITTED
    assert spread_of(POINT, FIRST_TOKEN, 0.1) == FIRST
    assert spread_of(AGENT, HIT, 0.1) == AGENTIC[HIT]
    assert spread_of(replace(AGENT, prefill=Prefill(Topology(4), 1)), HIT, 0.1) > 2 * AGENTIC[HIT]
    pools = replace(POINT, prefill=Prefill(Topology(4), 1))
    assert spread_of(pools, TPUT, 0.1) == POOLS and spread_of(pools, FIRST_TOKEN, 0.1) == FIRST_POOLS
    assert spread_of(POINT, TPUT, 0.1, seen=False) == UNSEEN and spread_of(POINT, TPUT, 0.4, seen=False) > 0.4
    assert spread_of(replace(POINT, assumed=("a", "b")), TPUT, 0.1) == pytest.approx(0.1 * ASSUMED**2)
    low, high = band(100.0, TPUT, 0.1)
    assert low * high == pytest.approx(100.0**2) and low < 100 < high
    assert band(0.95, HIT, 0.1) == (pytest.approx(0.95 - 0.12816), 1.0)
