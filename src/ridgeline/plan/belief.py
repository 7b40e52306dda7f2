"""How wrong predictions of a series are, and what measured cells say of the others.

In: where cells lie (layout, concurrency), errors of cells that were measured, of this series and of the same engine
under other lengths. Out: the expected error of every cell, its deviation, and draws of all errors together. An error is
the logarithm of measured over predicted; speed and throughput share it, since both come from the time of a step.

A Student process: the shape of its covariance is known and its size is learned with the errors. Most series are
predicted within a few per cent and some are off by half; one fixed width would take all for alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

# Standard deviations of log errors, by maximum likelihood over the public fixed-sequence series of Llama 70B and
# DeepSeek-R1 (half of them), each predicted by parameters from which it was left out. They hold as well on the others.
SHARED = 0.094  # by all layouts at near concurrencies
OWN = 0.14  # by one layout at near concurrencies
SPREAD = 0.22  # by layouts with data-parallel attention
NOISE = 0.009  # a point's own
REACH = 6.0  # doublings of concurrency over which errors part, by a factor of e
# The same engine under other lengths errs alike: correlation of the shared part, and of what belongs to layouts.
SHARED_BETWEEN, OWN_BETWEEN = 0.2, 0.72
FREEDOM = 4.0  # degrees of freedom of the process: how unsure its size is before anything is measured


class Place(NamedTuple):
    """Where a cell lies. `spread`: data-parallel attention; `lengths` tells series of one engine apart."""

    layout: str
    conc: int
    spread: bool = False
    lengths: str = ""


class Known(NamedTuple):
    """A point measured under other lengths: where it lies, and log(measured / predicted) of speed and throughput."""

    place: Place
    x: float
    y: float


class Posterior(NamedTuple):
    """Of every cell: expected errors of speed and throughput (cells, 2), their deviation, and draws of what is left of
    them (draws, cells)."""

    mean: Vector
    deviation: Vector
    draws: Vector


class Belief:
    """About the errors of the cells at `places`, told points of the same engine under other lengths. Deterministic."""

    def __init__(self, places: Sequence[Place], known: Sequence[Known] = (), *, draws: int = 96, seed: int = 0) -> None:
        own = len(places)
        everywhere = [*places, *(each.place for each in known)]
        whole = covariance(everywhere)
        normal = np.random.default_rng(seed).standard_normal((draws, len(everywhere)))
        drawn = normal @ np.linalg.cholesky(whole + 1e-9 * np.eye(len(whole))).T
        mean, misfit = np.zeros((own, 2)), 0.0
        if known:
            told = np.array([[each.x, each.y] for each in known])
            among, across = whole[own:, own:] + NOISE**2 * np.eye(len(known)), whole[own:, :own]
            solved = np.linalg.solve(among, across)
            mean = solved.T @ told
            misfit = _misfit(among, told)
            noisy = drawn[:, own:] + NOISE * np.random.default_rng(seed + 1).standard_normal((draws, len(known)))
            drawn, whole = drawn[:, :own] - noisy @ solved, whole.copy()
            whole[:own, :own] -= across.T @ solved
        self._mean, self._cover, self._drawn = mean, whole[:own, :own], drawn
        self._told, self._misfit, self._seed = len(known), misfit, seed
        self._noise = NOISE * np.random.default_rng(seed + 2).standard_normal((draws, own))

    def given(self, errors: Mapping[int, tuple[float, float]]) -> Posterior:
        """What is believed once cells, by their place in the list, were measured with these errors."""
        mean, cover, drawn, misfit = self._mean, self._cover, self._drawn, self._misfit
        if errors:
            seen = sorted(errors)
            apart = np.array([errors[index] for index in seen]) - mean[seen]
            among = cover[np.ix_(seen, seen)] + NOISE**2 * np.eye(len(seen))
            solved = np.linalg.solve(among, cover[seen])
            mean = mean + solved.T @ apart
            misfit += _misfit(among, apart)
            drawn = (
                drawn - (drawn[:, seen] + self._noise[:, seen]) @ solved
            )  # Matheron's rule: draws follow what is seen
            variance = np.diag(cover) - np.einsum("ij,ij->j", solved, cover[seen])
        else:
            variance = np.diag(cover)
        freedom = FREEDOM + self._told + len(errors)
        size = (FREEDOM - 2 + misfit) / (freedom - 2)
        tails = np.random.default_rng(self._seed + 3).chisquare(freedom, len(drawn)) / (freedom - 2)
        return Posterior(mean, np.sqrt(np.maximum(variance * size, 1e-9)), drawn * np.sqrt(size / tails)[:, None])


def covariance(places: Sequence[Place]) -> Vector:
    """Of the errors at these places, before anything is measured."""
    logs = np.log2([max(1, place.conc) for place in places])
    near = np.exp(-np.abs(logs[:, None] - logs[None, :]) / REACH)
    spread = np.array([float(place.spread) for place in places])
    layouts, lengths = (np.unique([str(name) for name in names], return_inverse=True)[1]
                        for names in ([p.layout for p in places], [p.lengths for p in places]))  # fmt: skip
    same = lengths[:, None] == lengths[None, :]
    of_layout = OWN**2 * near * (layouts[:, None] == layouts[None, :]) + SPREAD**2 * np.outer(spread, spread)
    return np.asarray(
        np.where(same, 1.0, SHARED_BETWEEN) * SHARED**2 * near + np.where(same, 1.0, OWN_BETWEEN) * of_layout
    )


def _misfit(among: Vector, errors: Vector) -> float:
    """Squared size of errors in units of what was expected: about one a point when the widths are right."""
    both = errors.mean(axis=1)
    return float(both @ np.linalg.solve(among, both))
