"""Two sides, point by point: what differs, by how much, and whether that is more than noise.

In: two `Side`s (points with repeats, and what is known of each). Out: a `Comparison`. Pure: where the points come from
is the caller's affair. It refuses to compare sources unless asked, and then labels them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ridgeline.core.errors import InputError
from ridgeline.core.point import Point, Source
from ridgeline.core.units import Better
from ridgeline.results.compare import again, noise
from ridgeline.results.compare.again import Again, Candidate
from ridgeline.results.compare.changes import Change, changes
from ridgeline.results.compare.estimate import Estimate, estimate, observations
from ridgeline.results.compare.match import Alone, Pair, match
from ridgeline.results.compare.verdict import ALPHA, Judged, Shift, Verdict, judge, of_point, overall
from ridgeline.results.metrics import axis

MEASURES = ("throughput_per_gpu.total", "itl.p50", "ttft.p50")


@dataclass(frozen=True)
class Side:
    """One side. `about`: point id -> flat facts of its provenance (`found.node`, `asked.image`, `run`, ...); `failed`:
    (line, concurrency, reason) of cells that were tried and gave no point."""

    name: str
    points: tuple[Point, ...]
    about: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    failed: tuple[tuple[str, int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """One measure of one pair. `estimate` is None where there is nothing to compare, and `judged` says why."""

    measure: str
    unit: str
    better: Better
    estimate: Estimate | None
    judged: Judged
    gates: bool  # takes part in the verdict of the point

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "measure": self.measure, "unit": self.unit, "better": self.better, "verdict": str(self.judged.verdict),
            "reason": self.judged.reason, "gates": self.gates,
        }  # fmt: skip
        if self.estimate is not None:
            item = self.estimate
            found |= {
                "a": item.a, "b": item.b, "change": item.change, "interval": item.interval(), "runs": list(item.runs),
                "samples": list(item.samples), "interval_from": item.source, "notes": list(item.notes),
            }  # fmt: skip
        return found


@dataclass(frozen=True, slots=True)
class Compared:
    """One pair with its verdict."""

    pair: Pair
    differences: tuple[Difference, ...]
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Comparison:
    """Everything a comparison says. `regressed` is what a gate asks."""

    a: str
    b: str
    points: tuple[Compared, ...]
    shifts: tuple[Shift, ...]
    overall: Judged
    changes: tuple[Change, ...]
    again: tuple[Again, ...]
    alone: tuple[Alone, ...]
    sources: tuple[Source, ...]
    looks: int

    @property
    def regressed(self) -> bool:
        return self.overall.verdict is Verdict.WORSE

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "a": self.a,
            "b": self.b,
            "verdict": str(self.overall.verdict),
            "reason": self.overall.reason,
            "looks": self.looks,
            "alpha": ALPHA,
            "noise_model": noise.VERSION,
            "sources": [str(source) for source in self.sources],
            "shifts": [shift._asdict() | {"verdict": str(shift.verdict)} for shift in self.shifts],
            "points": [
                {
                    "name": item.pair.name,
                    "line": item.pair.line,
                    "concurrency": item.pair.concurrency,
                    "source": str(item.pair.source),
                    "repeats": [len(item.pair.a), len(item.pair.b)],
                    "ids": [[point.id for point in side] for side in (item.pair.a, item.pair.b)],
                    "verdict": str(item.verdict),
                    "reason": item.reason,
                    "differences": [difference.to_json() for difference in item.differences],
                }
                for item in self.points
            ],
            "changes": [change._asdict() for change in self.changes],
            "run_again": [item._asdict() for item in self.again],
            "unmatched": [item._asdict() for item in self.alone],
        }


def compare(
    a: Side,
    b: Side,
    measures: Sequence[str] = MEASURES,
    *,
    alpha: float = ALPHA,
    mix_sources: bool = False,
) -> Comparison:
    """Compare two sides.

    `measures`: judged for every point; a measure without a better direction is refused. `alpha`: how often two equal
    sides may be called different. Raises InputError for unknown measures and for sides of different sources unless
    `mix_sources` is set.
    """
    axes = {name: axis(name) for name in measures}
    better: dict[str, Better] = {}
    for name, found in axes.items():
        if found.better is None:
            raise InputError(f"`{name}` has no better direction, so it cannot be judged", hint="choose another measure")
        better[name] = found.better
    sources = tuple(sorted({point.source for side in (a, b) for point in side.points}))
    kinds = [{point.source for point in side.points} for side in (a, b)]
    if not mix_sources and all(kinds) and kinds[0].isdisjoint(kinds[1]):
        raise InputError(
            f"the sides are {' and '.join(sources)} points; a comparison does not mix sources unasked",
            hint="ask for it with --across-sources: every row is then labelled",
        )
    about = {**a.about, **b.about}
    matched = match(a.points, b.points, b.failed, mix_sources=mix_sources)
    looks: dict[tuple[str, str], Estimate] = {}
    absent: dict[tuple[str, str], str] = {}
    for number, pair in enumerate(matched.pairs):
        for name in measures if pair.b else ():
            found_a, found_b = (observations(side, name, about) for side in (pair.a, pair.b))
            answer = estimate(found_a, found_b, noise.of(pair.a[0], name), f"{pair.name}/{name}")
            if isinstance(answer, str):
                absent[str(number), name] = answer
            else:
                looks[str(number), name] = answer
    judged, shifts = judge(looks, better, alpha=alpha)
    points = []
    candidates = []
    for number, pair in enumerate(matched.pairs):
        differences = tuple(
            Difference(
                name,
                axes[name].unit,
                better[name],
                looks.get((str(number), name)),
                judged.get((str(number), name), Judged(Verdict.UNCLEAR, absent.get((str(number), name), ""))),
                gates=(str(number), name) in looks and looks[str(number), name].why_not is None,
            )
            for name in (measures if pair.b else ())
        )
        verdict, reason = _of_pair(pair, differences)
        points.append(Compared(pair, differences, verdict, reason))
        candidates.append(Candidate(pair, verdict, _least_clear(differences, verdict)))
    return Comparison(
        a=a.name,
        b=b.name,
        points=tuple(points),
        shifts=shifts,
        overall=overall(
            [point.verdict for point in points],
            shifts,
            edges=sum(map(_at_the_edge, points)),
            measures=max((sum(item.gates for item in point.differences) for point in points), default=1),
        ),
        changes=changes(matched.pairs, about),
        again=again.plan(candidates),
        alone=matched.alone,
        sources=sources,
        looks=sum(item.why_not is None for item in looks.values()),
    )


def _at_the_edge(point: Compared) -> bool:
    unclear = [item.judged for item in point.differences if item.gates and item.judged.verdict is Verdict.UNCLEAR]
    return point.verdict is Verdict.UNCLEAR and bool(unclear) and all(item.edge for item in unclear)


def _of_pair(pair: Pair, differences: Sequence[Difference]) -> tuple[Verdict, str]:
    if pair.lost is not None:
        return Verdict.WORSE, f"side B has no valid point: {pair.lost}"
    verdict = of_point([item.judged.verdict for item in differences if item.gates])
    deciding = [item for item in differences if item.gates and item.judged.verdict is verdict]
    reason = "; ".join(f"{item.measure}: {item.judged.reason}" for item in deciding[:2])
    if not deciding:
        reason = "; ".join(f"{item.measure}: {item.judged.reason}" for item in differences[:2]) or "nothing to compare"
    return verdict, reason


def _least_clear(differences: Sequence[Difference], verdict: Verdict) -> Estimate | None:
    """The estimate that keeps a point from being clear, else its first."""
    found = [item for item in differences if item.estimate is not None]
    for item in found:
        if item.gates and item.judged.verdict is verdict:
            return item.estimate
    return found[0].estimate if found else None
