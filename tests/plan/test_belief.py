"""What one measured cell says of the others: alike layouts, near concurrencies, the same engine under other lengths."""

import numpy as np
import pytest

from ridgeline.plan.belief import Belief, Known, Place, covariance

PLACES = [Place(layout, conc, layout[0] == "D") for layout in ("TP4", "TP8", "DP8") for conc in (4, 16, 64)]
TP4_4, TP4_16, TP4_64, TP8_4, TP8_64, DP8_4 = 0, 1, 2, 3, 5, 6


def test_nothing_measured_nothing_moved() -> None:
    believed = Belief(PLACES).given({})
    assert not believed.mean.any()
    assert believed.deviation[DP8_4] > believed.deviation[TP4_4] > 0.1


def test_an_error_moves_its_layout_first_and_near_concurrencies_more() -> None:
    mean = Belief(PLACES).given({TP4_4: (-0.2, -0.2)}).mean[:, 1]
    assert mean[TP4_4] == pytest.approx(-0.2, abs=0.01)
    assert mean[TP4_4] < mean[TP4_16] < mean[TP4_64] < mean[TP8_64] < -0.01
    assert mean[TP8_4] < mean[TP8_64], "what layouts share belongs to a concurrency"


def test_the_size_of_errors_is_learned() -> None:
    as_foretold = Belief(PLACES).given({TP4_4: (0.001, 0.001), TP8_4: (-0.001, -0.001)}).deviation
    far_off = Belief(PLACES).given({TP4_4: (0.5, 0.5), TP8_4: (-0.5, -0.5)}).deviation
    assert (as_foretold < Belief(PLACES).given({}).deviation).all()
    assert (far_off > 2 * as_foretold).all()


def test_other_lengths_of_the_engine_teach_its_layouts() -> None:
    known = [Known(Place("TP4", conc, lengths="8192/1024"), 0.1, 0.1) for conc in (4, 16, 64)]
    told = Belief(PLACES, known).given({})
    assert (told.mean[: TP4_64 + 1, 1] > 0.05).all()
    assert (told.mean[: TP4_64 + 1, 1] < 0.1).all(), "other lengths are not this one"
    assert abs(told.mean[TP8_4, 1]) < told.mean[TP4_4, 1] / 2
    here = Belief(PLACES, known).given({TP4_4: (-0.1, -0.1)}).mean[:, 1]
    assert here[TP4_4] == pytest.approx(-0.1, abs=0.02), "what was measured here outweighs them"


def test_draws_follow_what_was_measured() -> None:
    """Drawn once and moved by Matheron's rule; they must have the covariance of the textbook formula."""
    seen = [TP4_16, DP8_4]
    known = [Known(Place("TP8", 4, lengths="other"), 0.02, 0.02)]
    believed = Belief(PLACES, known, draws=20_000).given({TP4_16: (0.03, 0.03), DP8_4: (-0.2, -0.2)})
    whole = covariance([*PLACES, known[0].place])
    told = [*seen, len(PLACES)]
    among = whole[np.ix_(told, told)] + 0.009**2 * np.eye(3)
    left = whole - whole[:, told] @ np.linalg.solve(among, whole[told])
    expected = whole[:, told] @ np.linalg.solve(among, [0.03, -0.2, 0.02])
    assert believed.mean[:, 0] == pytest.approx(expected[:-1], abs=1e-9)
    spread = np.cov(believed.draws.T)
    scale = (believed.deviation[TP8_64] ** 2) / left[TP8_64, TP8_64]
    assert spread == pytest.approx(scale * left[:-1, :-1], abs=4e-4)
    assert np.sqrt(np.diag(spread))[TP8_64] == pytest.approx(believed.deviation[TP8_64], rel=0.03)


def test_the_same_again() -> None:
    one, other = (Belief(PLACES, seed=3).given({0: (0.1, 0.1)}).draws for _ in range(2))
    assert (one == other).all()
