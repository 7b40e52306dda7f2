import math
from dataclasses import replace

import pytest

from ridgeline.core.topology import Topology
from ridgeline.simulate import choices
from ridgeline.simulate.choices import at_all, at_least, at_speed, contest
from ridgeline.simulate.fit import fit, predict, prior_of
from ridgeline.simulate.points import Measured
from ridgeline.simulate.steady import Steady

CURVE = [(10.0, 100.0), (40.0, 25.0)]


def arm(tp: int, points: list[tuple[int, float, float]]) -> list[Measured]:
    """(concurrency, tokens/s/user, tokens/s/GPU)."""
    return [
        Measured(
            row=0, hardware="b200", engine="trt", model="llama70b", precision="fp8", spec="none",
            topology=Topology(tp), conc=conc, isl=1024, osl=1024, tput=tput, tpot_s=1 / speed,
        )
        for conc, speed, tput in points
    ]  # fmt: skip


def said(points: list[Measured], factor: float = 1.0) -> list[choices.Pair]:
    return [(p, Steady((p.tpot_s or 1) / factor, 0.1, (p.tput or 1) * factor, p.conc)) for p in points]


NARROW = arm(2, [(4, 50, 100), (16, 30, 300), (64, 15, 600)])
WIDE = arm(8, [(4, 110, 60), (16, 80, 170), (64, 45, 350)])


def test_a_curve_is_read_between_its_points() -> None:
    assert at_speed(CURVE, 20) == pytest.approx(50)
    assert at_speed(CURVE, 50) is None
    assert at_least(CURVE, 50) == 0
    assert at_least(CURVE, 20) == pytest.approx(50)
    assert at_least(CURVE, 5) == at_all(CURVE, 5) == 100


def test_a_layout_that_is_faster_than_asked_still_serves() -> None:
    """At 30 tokens/s/user the wide layout, measured at 45 and up, has 350 to give where the narrow one has 300."""
    pairs = said(NARROW) + said(WIDE)
    assert contest(pairs, at_speed, (30.0,)).asked == 0
    served = contest(pairs, at_least, (30.0,))
    assert (served.asked, served.right) == (1, 1)
    wrong = contest(said(NARROW, 1.3) + said(WIDE), at_least, (30.0,))
    assert (wrong.asked, wrong.right) == (1, 0)
    assert wrong.mean_cost == wrong.mean_of_wrong == pytest.approx(1 - 300 / 350)


def test_choices_within_the_noise_of_repeats_are_right() -> None:
    near = [replace(p, topology=Topology(4), tput=(p.tput or 0) * 0.99) for p in NARROW]
    far = [replace(p, topology=Topology(4), tput=(p.tput or 0) * 0.9) for p in NARROW]
    assert contest(said(NARROW) + said(near, 1.05), levels=(20.0, 40.0)).share == 1
    assert contest(said(NARROW) + said(far, 1.3), levels=(20.0, 40.0)).share == 0
    assert math.isnan(contest(said(NARROW)).share)
    both = choices.together([contest(said(NARROW) + said(far, 1.3), levels=(20.0,))] * 2)
    assert (both.asked, both.right, len(both.costs)) == (2, 0, 2)


def test_the_measurements_choose_themselves_and_worse_the_more_they_are_disturbed() -> None:
    close = [replace(p, topology=Topology(4), tput=(p.tput or 0) * 0.93) for p in NARROW]
    points = NARROW + close
    assert contest(choices.straightened(points)).share == 1
    lines = choices.from_neighbours(points)
    assert {p.conc for p, _ in lines} == {4, 16, 64}
    assert {p.conc: s for p, s in lines if p.topology == Topology(2)}[16].tput_per_gpu == pytest.approx(
        math.sqrt(100 * 600)
    )
    calm, wild = (choices.disturbed(points, deviation, draws=40) for deviation in (0.005, 0.3))
    assert calm > 0.95 > wild
    assert choices.disturbed(points, 0.3, draws=5) == choices.disturbed(points, 0.3, draws=5)


def test_one_fit_prices_seen_and_unseen_layouts() -> None:
    prior, points = prior_of("b200", "trt"), []
    for tp in (1, 2, 4, 8):
        for point in arm(tp, [(conc, 1, 1) for conc in (1, 4, 16, 64)]):
            seen = predict(point, prior, {})
            points.append(replace(point, tput=seen.tput_per_gpu, tpot_s=seen.tpot_s))
    asked = choices.with_one_unseen(fit(points, "b200", "trt"))
    assert asked.asked >= 4
    assert asked.share == 1
