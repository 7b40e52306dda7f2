"""Frontiers on columns: what a store or a list of points becomes before the arithmetic, and one group's answer.

In: ids, group keys and finite values as columns. Out: one `Series` per group. Membership is by row, never by equality
of floats; ties are settled by id. It knows nothing of validity and missing values (see frontier.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.core.point import Axis, Source
from ridgeline.results import interpolate, sweepline


class Knot(NamedTuple):
    """A frontier point on the plane."""

    x: float
    y: float
    id: str


class Plane(NamedTuple):
    """Points that take part, as columns (all of one length n): what a store can fill without making points."""

    ids: Sequence[str]
    keys: Sequence[str]  # group of every point
    sources: Sequence[Source]
    x: sweepline.Floats
    y: sweepline.Floats
    north: sweepline.Floats | None = None


@dataclass(frozen=True, eq=False)
class Series:
    """One group's frontier. The larger answers are made when asked for, since a chart of 100,000 points needs few.

    `rows`: rows of the group in `plane`, in no order; `witness`: for every row of the plane its witness or -1.
    """

    key: str
    plane: Plane
    rows: sweepline.Ints
    witness: sweepline.Ints
    noisy: NDArray[np.bool_]
    off_star: NDArray[np.bool_]

    @cached_property
    def knots(self) -> tuple[Knot, ...]:
        """Frontier points by rising x, exact duplicates by id."""
        on = self.rows[self.witness[self.rows] < 0].tolist()
        return tuple(sorted(Knot(float(self.plane.x[i]), float(self.plane.y[i]), self.plane.ids[i]) for i in on))

    @cached_property
    def frontier(self) -> tuple[str, ...]:
        """Ids of the frontier by rising x."""
        return tuple(knot.id for knot in self.knots)

    @cached_property
    def dominated_by(self) -> dict[str, str]:
        """Id of every dominated point -> id of its witness, in the order of the ids."""
        ids = self.plane.ids
        off = self.rows[self.witness[self.rows] >= 0]
        return dict(sorted((ids[i], ids[j]) for i, j in zip(off.tolist(), self.witness[off].tolist(), strict=True)))

    @cached_property
    def off_north_star(self) -> frozenset[str]:
        """Dominated points whose witness beats them on the second frontier only (see `frontier`)."""
        return frozenset(self.plane.ids[i] for i in self.rows[self.off_star[self.rows]].tolist())

    @cached_property
    def within_noise(self) -> frozenset[str]:
        """Dominated, but by nobody beyond both error bars; a chart draws these differently."""
        return frozenset(self.plane.ids[i] for i in self.rows[self.noisy[self.rows]].tolist())

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        return tuple(sorted({self.plane.sources[i] for i in self.rows.tolist()}))

    def read(self, x: float) -> interpolate.Reading:
        """y of the frontier at `x` by monotone cubic interpolation over the knots, without extrapolation."""
        unique = {knot.x: knot.y for knot in self.knots}
        return interpolate.read(list(unique), list(unique.values()), x)

    def best_at_least(self, x: float) -> interpolate.Reading:
        """The measured point that serves at least `x`: a service level is a minimum. Nothing above it: a reason.

        Only for axes where higher x is better; the frontier's y then falls with x, so the nearest knot is the best.
        """
        for knot in self.knots:
            if knot.x >= x:
                return interpolate.Reading(knot.y)
        return interpolate.Reading(None, f"no measured point reaches {x:g}")


Bars = tuple[sweepline.Floats, sweepline.Floats, sweepline.Floats, sweepline.Floats]


def solve(
    plane: Plane,
    x: Axis,
    y: Axis,
    *,
    north_star: Axis | None = None,
    bars: Bars | None = None,
    coded: tuple[Sequence[str], sweepline.Ints] | None = None,
) -> tuple[Series, ...]:
    """The rules of `frontier` on columns, one series for each key, in the order of the keys.

    Values must be finite and directions given; `bars` are x low, x high, y low, y high with higher being better.
    `coded`: the sorted keys and every point's place among them, where the caller has them: `plane.keys` is unread then.
    """
    if not len(plane.ids):
        return ()
    if coded is not None:
        numbers, groups = {key: number for number, key in enumerate(coded[0])}, coded[1]
    else:
        numbers = {key: number for number, key in enumerate(sorted(set(plane.keys)))}
        groups = np.fromiter(map(numbers.__getitem__, plane.keys), dtype=np.int64, count=len(plane.keys))
    better_y = sign(y) * plane.y
    witness = _by_id(sweepline.witnesses(sign(x) * plane.x, better_y, groups), plane, groups, plane.x)
    off_star = np.zeros(len(groups), dtype=bool)
    if north_star is not None:
        assert plane.north is not None
        second = sweepline.witnesses(sign(north_star) * plane.north, better_y, groups)
        second = _by_id(second, plane, groups, plane.north)
        off_star = (witness < 0) & (second >= 0)
        witness = np.where(off_star, second, witness)
    noisy = np.zeros(len(groups), dtype=bool)
    if bars is not None:
        noisy = (witness >= 0) & ~off_star & ~sweepline.clearly_dominated(*bars, groups)
    order = np.argsort(groups)  # each group is one slice
    bounds = np.searchsorted(groups[order], np.arange(len(numbers) + 1))
    return tuple(
        Series(key, plane, order[bounds[number] : bounds[number + 1]], witness, noisy, off_star)
        for key, number in numbers.items()
    )


def _by_id(witness: sweepline.Ints, plane: Plane, groups: sweepline.Ints, x: sweepline.Floats) -> sweepline.Ints:
    """Among exact duplicates on the frontier the smallest id is the witness, whatever the order of the rows."""
    on = np.flatnonzero(witness < 0)
    first: dict[tuple[int, float, float], int] = {}
    for row, *place in zip(on.tolist(), groups[on].tolist(), x[on].tolist(), plane.y[on].tolist(), strict=True):
        at = (place[0], place[1], place[2])
        if at not in first or plane.ids[row] < plane.ids[first[at]]:
            first[at] = row
    if len(first) == len(on):
        return witness
    stand_in = np.arange(len(witness))
    for row in on.tolist():
        stand_in[row] = first[(int(groups[row]), float(x[row]), float(plane.y[row]))]
    return np.where(witness < 0, -1, stand_in[witness])


def sign(axis: Axis) -> float:
    """+1 where higher is better, -1 where lower is."""
    return 1.0 if axis.better == "higher" else -1.0
