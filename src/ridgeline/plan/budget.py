"""Which cells to run when not all can be afforded: start from a prediction, correct it with every point, and take what
promises most of the frontier for its GPU-hours.

A prediction's error is taken as a sum of what a whole series shares, what an arm shares and what fades along its
concurrencies (a Gaussian process on the logarithm, its widths as the engine model's validation gives them). The next
cell is the one with the largest expected gain of the frontier per GPU-hour, starts of engines included; a cell whose
engine is running needs no start. It stops when no cell promises more than the noise of a measurement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
LEVELS = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0, 140.0, 200.0)  # tokens/s/user where the frontier is read
NOISE = 0.01  # of a measurement, logarithm
_SERIES, _ARM, _LOCAL = 0.15, 0.15, 0.1  # standard deviations of a prediction's log error
_REACH = 2.0  # doublings of concurrency over which the local part fades
_DRAWS = 48


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cell that could be run. `x`: tokens/s/user, `y`: tokens/s/GPU, both predicted. Costs in GPU-hours."""

    id: str
    arm: str
    conc: int
    x: float
    y: float
    run_cost: float
    start_cost: float


class Seen(NamedTuple):
    """A measured cell."""

    x: float
    y: float


class Choice(NamedTuple):
    """A cell that was picked: why (expected gain of the frontier, a share), and what it costs now."""

    candidate: Candidate
    gain: float
    cost: float


def frontier_at(points: Iterable[Seen], levels: Sequence[float] = LEVELS) -> Vector:
    """Best throughput of points that reach each level; 0 where none does."""
    own = list(points)
    return np.array([max((y for x, y in own if x >= level), default=0.0) for level in levels])


class Planner:
    """Chooses among candidates, told what was measured. Deterministic."""

    def __init__(self, candidates: Sequence[Candidate], *, levels: Sequence[float] = LEVELS, seed: int = 0) -> None:
        self.levels = tuple(levels)
        self.candidates = list(candidates)
        self.seen: dict[int, Seen] = {}
        self.spent = 0.0
        self.excluded: set[int] = set()  # were tried and gave nothing, or cannot be tried
        self._running: str | None = None
        logs = np.log2([max(1, c.conc) for c in self.candidates])
        same = np.array([[a.arm == b.arm for b in self.candidates] for a in self.candidates])
        near = np.exp(-np.abs(logs[:, None] - logs[None, :]) / _REACH)
        self._cover = _SERIES**2 + same * (_ARM**2 + _LOCAL**2 * near)
        self._normal = np.random.default_rng(seed).standard_normal((_DRAWS, 2, len(self.candidates)))

    def cost(self, index: int) -> float:
        """GPU-hours of running a cell next."""
        found = self.candidates[index]
        return found.run_cost + (0.0 if found.arm == self._running else found.start_cost)

    def tell(self, index: int, seen: Seen) -> None:
        """A cell has been run."""
        self.spent += self.cost(index)
        self._running = self.candidates[index].arm
        self.seen[index] = seen

    def know(self, index: int, seen: Seen) -> None:
        """A cell that was measured before: it teaches and costs nothing."""
        self.seen[index] = seen

    def exclude(self, index: int, spent: float = 0.0) -> None:
        """A cell gives no point: it is not asked for again, and nothing is learned from it but what it cost."""
        self.spent += spent
        self.excluded.add(index)

    def stopped(self) -> None:
        """No engine runs any more: the next cell pays for a start."""
        self._running = None

    def corrected(self) -> tuple[Vector, Vector, Vector]:
        """Expected log x and log y of every candidate, and the deviation of their errors."""
        prior = np.log([[c.x, c.y] for c in self.candidates])
        known = sorted(self.seen)
        if not known:
            return prior[:, 0], prior[:, 1], np.sqrt(np.diag(self._cover))
        inner = self._cover[np.ix_(known, known)] + NOISE**2 * np.eye(len(known))
        gain = np.linalg.solve(inner, self._cover[known]).T
        errors = np.log([self.seen[index] for index in known]) - prior[known]
        moved = prior + gain @ errors
        left = np.diag(self._cover) - np.einsum("ij,ij->i", gain, self._cover[:, known])
        return moved[:, 0], moved[:, 1], np.sqrt(np.maximum(left, 1e-9))

    def best(self, budget: float) -> Choice | None:
        """The cell to run next, or None: nothing affordable promises more than noise.

        An engine that is not running is judged by all of its cells that would add something, since they share its
        start; of the best engine the cell that adds most for its own hours goes first.
        """
        x, y, deviation = self.corrected()
        have = frontier_at(self.seen.values(), self.levels)
        hopes = (
            Seen(math.exp(a), math.exp(b)) for i, (a, b) in enumerate(zip(x, y, strict=True)) if i not in self.excluded
        )
        hoped = frontier_at(hopes, self.levels)
        scale = np.maximum(have, hoped)
        drawn_x = np.exp(x + self._normal[:, 0] * deviation)
        drawn_y = np.exp(y + self._normal[:, 1] * deviation)
        worth = np.where(drawn_x[:, :, None] >= np.array(self.levels), drawn_y[:, :, None], 0.0)
        gains = np.maximum(0.0, worth - have) / np.maximum(scale, 1e-9) * (scale > 0)  # draws, cells, levels
        best: Choice | None = None
        best_rate = 0.0
        for arm in dict.fromkeys(candidate.arm for candidate in self.candidates):
            cells = [
                i
                for i, one in enumerate(self.candidates)
                if one.arm == arm and i not in self.seen and i not in self.excluded
            ]
            start = 0.0 if arm == self._running or not cells else self.candidates[cells[0]].start_cost
            alone = {i: float(gains[:, i].mean()) for i in cells if self.candidates[i].run_cost + start <= budget}
            order = sorted(alone, key=lambda i: alone[i] / self.candidates[i].run_cost, reverse=True)
            joint, cost, rate = np.zeros((len(self._normal), len(self.levels))), start, 0.0
            first: int | None = None
            for i in order:
                grown = np.maximum(joint, gains[:, i])
                if cost + self.candidates[i].run_cost > budget or alone[i] <= NOISE / 10:
                    continue
                now = float(grown.mean()) / (cost + self.candidates[i].run_cost)
                if now >= rate:
                    joint, cost, rate = grown, cost + self.candidates[i].run_cost, now
                    first = i if first is None else first
            if first is not None and rate > best_rate:
                best_rate = rate
                best = Choice(self.candidates[first], alone[first], self.cost(first))
        return best


def choose(
    candidates: Sequence[Candidate],
    budget: float,
    measure: Callable[[Candidate], Seen] | None = None,
    levels: Sequence[float] = LEVELS,
) -> list[Choice]:
    """Cells in the order to run them, within `budget` GPU-hours. Without `measure` the prediction is believed."""
    planner = Planner(candidates, levels=levels)
    index = {candidate.id: number for number, candidate in enumerate(planner.candidates)}
    found: list[Choice] = []
    while (choice := planner.best(budget - planner.spent)) is not None:
        candidate = choice.candidate
        planner.tell(index[candidate.id], measure(candidate) if measure else Seen(candidate.x, candidate.y))
        found.append(choice)
    return found
