"""Which cells to run when not all can be afforded: start from a prediction, correct it with every point, and take what
promises most of the frontier for its GPU-hours.

How wrong predictions are, and what a measured cell says of the others, is told by plan/belief.py.

The next cell is the first of a whole plan for what is left: which engines to start, and which of their cells to run, so
that the expected frontier grows most. One engine after the other by gain per hour spends the budget on small engines
and cannot pay the large one's start. The plan is made anew after every point. A cell whose engine is running needs no
start. It stops when no cell promises more than the noise of a measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.plan.belief import Belief, Known, Place, Posterior

Vector = NDArray[np.float64]
LEVELS = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0, 140.0, 200.0)  # tokens/s/user where the frontier is read
NOISE = 0.01  # of a measurement, logarithm
_APART = 0.015  # of the error of speed beyond that of throughput, logarithm
_DRAWS = 96
_BEAM = 4  # sets of engines that are followed further
_ENGINES = 8  # that are combined
_CELLS = 8  # of an engine that plans are made of: those that are most often its best


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cell that could be run. `x`: tokens/s/user, `y`: tokens/s/GPU, both predicted. Costs in GPU-hours. `arm`: cells
    that share a start; `layout` (else the arm) and `spread` (data-parallel attention): what errs alike."""

    id: str
    arm: str
    conc: int
    x: float
    y: float
    run_cost: float
    start_cost: float
    layout: str = ""
    spread: bool = False

    @property
    def place(self) -> Place:
        """Where it lies among cells that may err alike."""
        return Place(self.layout or self.arm, self.conc, self.spread)


class Seen(NamedTuple):
    """A measured cell."""

    x: float
    y: float


class Choice(NamedTuple):
    """A cell that was picked: why (expected gain of the frontier, a share), what it costs now, and its place among the
    candidates."""

    candidate: Candidate
    gain: float
    cost: float
    at: int


def frontier_at(points: Iterable[Seen], levels: Sequence[float] = LEVELS) -> Vector:
    """Best throughput of points that reach each level; 0 where none does."""
    own = list(points)
    return np.array([max((y for x, y in own if x >= level), default=0.0) for level in levels])


class Planner:
    """Chooses among candidates, told what was measured. Deterministic."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        *,
        levels: Sequence[float] = LEVELS,
        known: Sequence[Known] = (),
        seed: int = 0,
    ) -> None:
        self.levels = tuple(levels)
        self.candidates = list(candidates)
        self.seen: dict[int, Seen] = {}
        self.spent = 0.0
        self.excluded: set[int] = set()  # were tried and gave nothing, or cannot be tried
        self.known = list(known)
        self._running: str | None = None
        self._seed = seed
        self._belief: Belief | None = None
        self._apart = np.exp(_APART * np.random.default_rng(seed).standard_normal((_DRAWS, len(self.candidates))))
        self._prior = np.log([[c.x, c.y] for c in self.candidates])
        self._runs = np.array([c.run_cost for c in self.candidates])

    def cost(self, index: int) -> float:
        """GPU-hours of running a cell next."""
        found = self.candidates[index]
        return found.run_cost + (0.0 if found.arm == self._running else found.start_cost)

    def tell(self, index: int, seen: Seen) -> None:
        """A cell has been run."""
        self.spent += self.cost(index)
        self._running = self.candidates[index].arm
        self.seen[index] = seen

    def learn(self, known: Known) -> None:
        """A point of the same engine was measured under other lengths."""
        self.known.append(known)
        self._belief = None

    def error(self, index: int) -> tuple[float, float]:
        """Of a measured cell: log(measured / predicted) of speed and throughput."""
        x, y = np.log(self.seen[index]) - self._prior[index]
        return float(x), float(y)

    def exclude(self, index: int, spent: float = 0.0) -> None:
        """A cell gives no point: it is not asked for again, and nothing is learned from it but what it cost."""
        self.spent += spent
        self.excluded.add(index)

    def runs(self, index: int) -> None:
        """A cell's engine is running, whatever came of the cell."""
        self._running = self.candidates[index].arm

    def stopped(self) -> None:
        """No engine runs any more: the next cell pays for a start."""
        self._running = None

    def corrected(self) -> tuple[Vector, Vector, Vector]:
        """Expected log x and log y of every candidate, and the deviation of their errors."""
        believed = self._believed()
        moved = self._prior + believed.mean
        return moved[:, 0], moved[:, 1], believed.deviation

    def expected(self, index: int) -> Seen:
        """Where a candidate is believed to lie."""
        x, y = np.exp(self._prior[index] + self._believed().mean[index])
        return Seen(float(x), float(y))

    def _believed(self) -> Posterior:
        if self._belief is None:
            places = [candidate.place for candidate in self.candidates]
            self._belief = Belief(places, self.known, draws=_DRAWS, seed=self._seed)
        return self._belief.given({index: self.error(index) for index in self.seen})

    def best(self, budget: float) -> Choice | None:
        """The cell to run next, or None: nothing affordable promises more than noise."""
        gains = self._gains()
        alone = gains.sum(axis=1) / _DRAWS / len(self.levels)
        arms: dict[str, list[int]] = {}
        for i, candidate in enumerate(self.candidates):
            if i not in self.seen and i not in self.excluded and alone[i] > NOISE / 10:
                arms.setdefault(candidate.arm, []).append(i)
        plan = self._plan({arm: _often_best(cells, gains) for arm, cells in arms.items()}, gains, budget)
        if not plan:
            return None
        engines: dict[str, list[int]] = {}
        for i in plan:
            engines.setdefault(self.candidates[i].arm, []).append(i)

        def rate(arm: str) -> float:
            cells = engines[arm]
            hours = self._runs[cells].sum() + self._start(cells[0])
            return float("inf") if arm == self._running else float(gains[cells].max(axis=0).sum() / hours)

        first = max(engines[max(engines, key=rate)], key=lambda i: alone[i] / self._runs[i])
        return Choice(self.candidates[first], float(alone[first]), self.cost(first), first)

    def _start(self, index: int) -> float:
        return self.cost(index) - self.candidates[index].run_cost

    def _gains(self) -> Vector:
        """By how much of the best that there may be each cell would raise the frontier: (cells, draws x levels). Each
        draw is one way the series may turn out; levels that nothing reaches in it do not count."""
        believed = self._believed()
        moved = np.exp(self._prior + believed.mean)
        error = np.exp(believed.draws)
        drawn_x, drawn_y = (moved[:, 0] * error * self._apart).T, (moved[:, 1] * error).T
        found = np.where(drawn_x[:, :, None] >= np.array(self.levels), drawn_y[:, :, None], 0.0)
        gone = sorted(self.excluded | self.seen.keys())
        found[gone] = 0.0
        have = frontier_at(self.seen.values(), self.levels)
        best = np.maximum(found.max(axis=0), have)
        counted = np.maximum(1, (best > 0).sum(axis=1, keepdims=True)) / len(self.levels)
        found -= have
        np.maximum(found, 0.0, out=found)
        found /= np.maximum(best, 1e-9) * counted
        return found.reshape(len(found), -1)

    def _plan(self, arms: Mapping[str, list[int]], gains: Vector, budget: float) -> tuple[int, ...]:
        """Cells of the best set of engines that is found by adding one engine after the other to the few best sets."""
        running = arms.get(self._running or "", [])
        best, plan = self._filled(running, gains, budget)
        front: list[tuple[str, ...]] = [()]
        tried: set[frozenset[str]] = set()
        while front:
            grown: list[tuple[float, tuple[str, ...], tuple[int, ...]]] = []
            for engines in front:
                for arm in arms:
                    more = (*engines, arm)
                    if arm in engines or arm == self._running or frozenset(more) in tried:
                        continue
                    tried.add(frozenset(more))
                    left = budget - sum(self._start(arms[name][0]) for name in more)
                    if left > 0:
                        cells = running + [i for name in more for i in arms[name]]
                        worth, chosen = self._filled(cells, gains, left)
                        grown.append((worth, more, chosen))
            grown.sort(key=lambda one: -one[0])
            if front == [()]:
                arms = self._worth_combining({more[0]: chosen for _, more, chosen in grown if chosen}, arms, gains)
                grown = [one for one in grown if one[1][0] in arms]
            front = [engines for worth, engines, _ in grown[:_BEAM] if worth > best]
            if front:
                best, _, plan = grown[0]
        return plan

    def _worth_combining(
        self, plans: Mapping[str, tuple[int, ...]], arms: Mapping[str, list[int]], gains: Vector
    ) -> dict[str, list[int]]:
        """The few engines that add most for their hours to those before them; `plans`: cells of each for itself."""
        if len(plans) <= _ENGINES:
            return {arm: arms[arm] for arm in plans}
        rows = np.array([gains[list(own)].max(axis=0) for own in plans.values()])
        hours = np.array([self._start(own[0]) + self._runs[list(own)].sum() for own in plans.values()])
        reached, names, found = np.zeros(gains.shape[1]), list(plans), dict[str, list[int]]()
        while len(found) < _ENGINES:
            best = int(np.argmax(np.maximum(rows - reached, 0.0).sum(axis=1) / hours))
            if names[best] in found:
                break  # nothing adds anything
            found[names[best]] = arms[names[best]]
            reached = np.maximum(reached, rows[best])
        return found

    def _filled(self, cells: Sequence[int], gains: Vector, budget: float) -> tuple[float, tuple[int, ...]]:
        """Cells of running engines for a budget, one after the other, by gain per hour or by gain, whichever is better:
        the expected gain of all levels together, and the cells."""
        best, chosen = 0.0, tuple[int, ...]()
        for by_hour in (True, False):
            reached, left, taken = np.zeros(gains.shape[1]), budget, []
            rest = np.array(cells, dtype=int)
            while (rest := rest[self._runs[rest] <= left]).size:
                more = np.maximum(gains[rest] - reached, 0.0).sum(axis=1) / _DRAWS
                at = int(np.argmax(more / self._runs[rest] if by_hour else more))
                if more[at] <= NOISE / 4:
                    break
                taken.append(int(rest[at]))
                reached = np.maximum(reached, gains[rest[at]])
                left -= self.candidates[taken[-1]].run_cost
                rest = rest[(more > 0) & (np.arange(rest.size) != at)]  # gains of what is left only shrink
            worth = float(reached.sum() / _DRAWS)
            if worth > best:
                best, chosen = worth, tuple(taken)
        return best, chosen


def _often_best(cells: list[int], gains: Vector) -> list[int]:
    """The few cells of an engine that raise the frontier most where they are its best."""
    if len(cells) <= _CELLS:
        return cells
    own = gains[cells]
    best = np.zeros(len(cells))
    np.add.at(best, own.argmax(axis=0), own.max(axis=0))
    return sorted(cells[int(at)] for at in np.argsort(-best, kind="stable")[:_CELLS])


def choose(
    candidates: Sequence[Candidate],
    budget: float,
    measure: Callable[[Candidate], Seen] | None = None,
    levels: Sequence[float] = LEVELS,
    known: Sequence[Known] = (),
    seed: int = 0,
) -> list[Choice]:
    """Cells in the order to run them, within `budget` GPU-hours. Without `measure` the prediction is believed, as
    corrected by what is `known` of the same engine under other lengths."""
    planner = Planner(candidates, levels=levels, known=known, seed=seed)
    found: list[Choice] = []
    while (choice := planner.best(budget - planner.spent)) is not None:
        candidate = choice.candidate
        planner.tell(choice.at, measure(candidate) if measure else planner.expected(choice.at))
        found.append(choice)
    return found
