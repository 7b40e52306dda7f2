"""Verdicts: planted changes are found, equal runs stay equal, and every figure says where it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.errors import InputError
from ridgeline.core.point import Measure, Point, Source, Validity
from ridgeline.results.compare import MEASURES, Comparison, Side, Verdict, compare, noise
from ridgeline.results.compare.student import quantile, two_sided

# Standard deviation of one run: a pair differs by the square root of 2 times that. Published figures of InferenceX:
# median relative spread of a pair 0.42 % throughput, 0.33 % time per token, 2 % TTFT.
FIXED = tuple(spread / 0.6745 / 2**0.5 for spread in (0.0042, 0.0033, 0.02))
AGENTIC = tuple(spread / 2**0.5 for spread in (0.023, 0.04, 0.31))
# The same published figures read as medians of pairs, not as their deviation: half as large again.
AGENTIC_LARGE = tuple(spread / 0.6745 for spread in AGENTIC)
REPEATS = (0.0025, 0.0025, 0.0033)


def point(concurrency: int, values: Sequence[float], *, id: str, **changes: Any) -> Point:
    measures = {name: Measure(value, "u", 200) for name, value in zip(MEASURES, values, strict=True)}
    base: dict[str, Any] = {
        "id": id, "run_key": id, "cell_fingerprint": "f", "name": f"l/c{concurrency}", "line": "l", "series": "s",
        "source": Source.MEASURED, "concurrency": concurrency, "gpus": 8,
        "facts": {"scenario": "fixed-seq-len", "hardware": "h200"},
        "measures": {**measures, "duration": Measure(60.0 * concurrency, "s")},
    }  # fmt: skip
    return Point(**(base | changes))


def side(
    name: str,
    rng: np.random.Generator,
    spread: Sequence[float],
    *,
    points: int = 6,
    repeats: int = 1,
    factors: Sequence[float] = (1.0, 1.0, 1.0),
    about: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Side:
    found, told = [], {}
    for i in range(points):
        for r in range(repeats):
            base = (1000.0 / (1 + i), 0.01 * (1 + i), 0.2 * (1 + i))
            noisy = np.exp(rng.normal(0, 1, 3) * np.array(spread)) * np.array(factors)
            id = f"{name}{i}r{r}"
            found.append(point(2**i, [float(b * f) for b, f in zip(base, noisy, strict=True)], id=id, **changes))
            told[id] = dict(about or {})
    return Side(name, tuple(found), told)


def pair(factors: Sequence[float], spread: Sequence[float] = FIXED, seed: int = 1, **changes: Any) -> Comparison:
    rng = np.random.default_rng(seed)
    before = side("a", rng, spread, **changes)
    return compare(before, side("b", rng, spread, factors=factors, **changes))


AGENTIC_FACTS = {"facts": {"scenario": "agentic-coding", "hardware": "h200"}}


@pytest.mark.parametrize(
    ("spread", "changes"),
    [(FIXED, {}), (FIXED, {"points": 1}), (FIXED, {"points": 20}), (REPEATS, {"repeats": 3}), (REPEATS, {"repeats": 5}),
     (AGENTIC, AGENTIC_FACTS), (REPEATS, {"repeats": 2})],
)  # fmt: skip
def test_planted_changes_and_noise(spread: Sequence[float], changes: dict[str, Any]) -> None:
    for seed in range(3):
        better = pair((1.115, 1 / 1.115, 1.0), spread, seed, **changes)
        assert better.overall.verdict is Verdict.BETTER and not better.regressed
        worse = pair((1 / 3, 3.0, 3.0), spread, seed, **changes)
        assert worse.overall.verdict is Verdict.WORSE and all(p.verdict is Verdict.WORSE for p in worse.points)
        assert worse.regressed
        equal = pair((1.0, 1.0, 1.0), spread, seed, **changes)
        assert equal.overall.verdict in (Verdict.SAME, Verdict.UNCLEAR)
        if "facts" not in changes:
            assert equal.overall.verdict is Verdict.SAME


@pytest.mark.parametrize(
    ("points", "spread", "changes"),
    [
        (6, FIXED, {}),
        pytest.param(1, FIXED, {}, marks=pytest.mark.integration),
        pytest.param(6, AGENTIC, AGENTIC_FACTS, marks=pytest.mark.integration),
        (1, AGENTIC_LARGE, AGENTIC_FACTS),
        pytest.param(2, AGENTIC_LARGE, AGENTIC_FACTS, marks=pytest.mark.integration),
        pytest.param(6, AGENTIC_LARGE, AGENTIC_FACTS, marks=pytest.mark.integration),
    ],
)
def test_two_hundred_pairs_of_equal_runs_alarm_in_at_most_a_twentieth(
    points: int, spread: Sequence[float], changes: dict[str, Any]
) -> None:
    rng = np.random.default_rng(7)
    found = [
        compare(side("a", rng, spread, points=points, **changes), side("b", rng, spread, points=points, **changes))
        for _ in range(200)
    ]
    assert sum(item.regressed for item in found) <= 10
    assert sum(item.overall.verdict in (Verdict.WORSE, Verdict.BETTER) for item in found) <= 10


def test_the_false_alarm_test_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """With gates of half the width, or without Holm's correction, equal runs do alarm too often."""
    half = {kind: {name: (gate / 2, df, text) for name, (gate, df, text) in row.items()}
            for kind, row in noise._MODEL.items()}  # fmt: skip
    monkeypatch.setattr(noise, "_MODEL", half)
    rng = np.random.default_rng(7)
    found = [compare(side("a", rng, FIXED, points=1), side("b", rng, FIXED, points=1)) for _ in range(200)]
    assert sum(item.overall.verdict in (Verdict.WORSE, Verdict.BETTER) for item in found) > 10


@pytest.mark.integration
def test_the_stored_model_is_not_narrower_than_pairs_of_the_given_history() -> None:
    """Pairs of equal points at most three days apart, images unknown: the middle half of them must fit the model."""
    import datetime
    import itertools
    import json
    from collections import defaultdict

    from tests.golden import golden

    names = {"throughput_per_gpu.total": "tput_per_gpu", "itl.p50": "median_tpot", "ttft.p50": "median_ttft"}
    groups: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in json.loads((golden("results/inferencex_api/2026-05-05") / "benchmarks-history.json").read_text()):
        told = {key: value for key, value in row.items() if key not in ("id", "metrics", "date", "run_url", "image")}
        groups[json.dumps(told, sort_keys=True)][f"{row['date']} {row['run_url']}"] = row
    spreads: dict[str, list[float]] = defaultdict(list)
    for rows in groups.values():
        ordered = [rows[key] for key in sorted(rows)]
        for a, b in itertools.pairwise(ordered):
            apart = datetime.date.fromisoformat(b["date"]) - datetime.date.fromisoformat(a["date"])
            if apart.days > 3 or "mi355x" in a["hardware"]:
                continue
            for ours, theirs in names.items():
                x, y = a["metrics"].get(theirs), b["metrics"].get(theirs)
                if x and y:
                    spreads[ours].append(abs(float(np.log(y / x))))
    fixed = point(1, (1, 1, 1), id="a")
    for measure, found in spreads.items():
        model = noise.of(fixed, measure)
        assert isinstance(model, noise.Noise) and len(found) > 300
        middle = float(np.median(found)) / 0.6745  # the deviation of a normal spread with this median
        assert 0.6 * middle < model.sigma < 1.8 * middle, (measure, middle, model.sigma)


@pytest.mark.integration
def test_repeats_alarm_in_at_most_a_twentieth_even_when_they_are_noisy() -> None:
    rng = np.random.default_rng(11)
    noisy = tuple(10 * s for s in REPEATS)
    found = [
        compare(side("a", rng, noisy, points=4, repeats=4), side("b", rng, noisy, points=4, repeats=4))
        for _ in range(60)
    ]
    assert sum(item.regressed for item in found) <= 3


@pytest.mark.integration
def test_what_runs_have_in_common_does_not_average_out() -> None:
    rng = np.random.default_rng(13)
    alarms = 0
    for _ in range(200):
        shared = np.exp(rng.normal(0, 1, 3) * np.array(FIXED) * 2**0.5 * 0.7)
        before = side("a", rng, [0.7 * s for s in FIXED], points=10)
        after = side("b", rng, [0.7 * s for s in FIXED], points=10, factors=[float(f) for f in shared])
        alarms += compare(before, after).regressed
    assert alarms <= 10


def test_a_small_loss_that_all_points_share_is_found_as_such() -> None:
    answer = pair((0.98, 1.0, 1.0), points=20)
    (shift,) = [shift for shift in answer.shifts if shift.measure == MEASURES[0]]
    assert shift.verdict is Verdict.WORSE and shift.points == 20 and shift.change == pytest.approx(-0.02, abs=0.004)
    assert answer.regressed and "all points together" in answer.overall.reason


def test_every_figure_says_its_n_and_where_its_interval_is_from() -> None:
    for changes, words in (
        ({}, "one run each; stored noise model"),
        ({"repeats": 2}, "2 and 2 repeats, too few for a bootstrap; stored noise model"),
        ({"repeats": 4}, "bootstrap over 4 and 4 repeats, plus the run-to-run part"),
    ):
        for item in pair((1.0, 1.0, 1.0), REPEATS, **changes).points:
            for difference in item.differences:
                found = difference.to_json()
                assert words in found["interval_from"] and found["interval"][0] < found["change"] < found["interval"][1]
                assert found["samples"] == [200 * changes.get("repeats", 1)] * 2


def test_the_median_wait_of_a_single_agentic_run_decides_nothing_and_says_so() -> None:
    answer = pair((1.0, 1.0, 1.4), (0.001, 0.001, 0.001), **AGENTIC_FACTS)
    for item in answer.points:
        (wait,) = [d for d in item.differences if d.measure == "ttft.p50"]
        assert wait.judged.verdict is Verdict.UNCLEAR and "single agentic run varies by a third" in wait.judged.reason
        assert not wait.gates and wait.estimate is not None and wait.estimate.change == pytest.approx(0.4, abs=0.01)
        assert wait.to_json()["interval"] is None
    assert answer.overall.verdict is Verdict.SAME
    repeated = pair((1.0, 1.0, 1.4), (0.001, 0.001, 0.001), repeats=4, **AGENTIC_FACTS)
    assert repeated.overall.verdict is Verdict.WORSE, "with repeats it may be judged"


def test_no_difference_between_values_that_scatter_widely_is_unclear_not_same() -> None:
    rng = np.random.default_rng(2)
    wide = side("a", rng, (0.001, 0.001, 0.5), points=1, repeats=3, **AGENTIC_FACTS)
    (wait,) = [d for d in compare(wide, wide).points[0].differences if d.measure == "ttft.p50"]
    assert wait.estimate is not None and wait.estimate.change == 0
    assert wait.judged.verdict is Verdict.UNCLEAR and "more repeats would settle it" in wait.judged.reason


def test_withheld_values_are_not_compared() -> None:
    a, b = side("a", np.random.default_rng(1), FIXED, points=1), side("b", np.random.default_rng(2), FIXED, points=1)
    measures = {
        **b.points[0].measures,
        "ttft.p50": Measure(None, "s", 3, "withheld: p50 needs 10 samples, there are 3"),
    }
    answer = compare(a, Side("b", (replace(b.points[0], measures=measures),)))
    (wait,) = [d for d in answer.points[0].differences if d.measure == "ttft.p50"]
    assert wait.estimate is None and wait.judged.reason == "withheld or not measured on side B" and not wait.gates
    assert answer.overall.verdict is Verdict.SAME


def test_a_tail_without_repeats_and_an_unknown_noise_are_reported_not_judged() -> None:
    sides = []
    for name, value in (("a", 0.1), ("b", 0.2)):
        only = side(name, np.random.default_rng(1), FIXED, points=1).points[0]
        measures = {"ttft.p99": Measure(value, "s", 900), "error_rate": Measure(value, "ratio")}
        sides.append(Side(name, (replace(only, measures=measures),)))
    answer = compare(*sides, ("ttft.p99", "error_rate"))
    reasons = [d.judged.reason for d in answer.points[0].differences]
    assert "no noise figure is stored for the tail (p99): measure repeats" in reasons[0]
    assert "no noise figure is stored for error_rate" in reasons[1]
    assert answer.overall.verdict is Verdict.UNCLEAR and not answer.regressed


def test_nodes_are_an_effect() -> None:
    rng = np.random.default_rng(1)
    slow = {"found.node": "slow"}
    # A ran on both nodes, B on the slow one only; the slow node costs 10 %.
    fast_a = side("af", rng, REPEATS, points=1, repeats=3, about={"found.node": "fast"})
    slow_a = side("as", rng, REPEATS, points=1, repeats=3, factors=(0.9, 1 / 0.9, 1.0), about=slow)
    a = Side("a", fast_a.points + slow_a.points, {**fast_a.about, **slow_a.about})
    b = side("b", rng, REPEATS, points=1, repeats=3, factors=(0.9, 1 / 0.9, 1.0), about=slow)
    answer = compare(a, b)
    assert answer.overall.verdict is Verdict.SAME, "compared on the node they share, nothing changed"
    estimate = answer.points[0].differences[0].estimate
    assert estimate is not None and estimate.notes == ("compared on the shared nodes only: slow",)
    apart = compare(fast_a, b)
    estimate = apart.points[0].differences[0].estimate
    assert estimate is not None and "the difference contains that of the nodes" in estimate.notes[0]
    assert [(c.kind, c.before, c.after) for c in apart.changes] == [("node", "fast", "slow")]


@pytest.mark.parametrize("told", [{"found.node.host": "n1"}, {"found.node": {"host": "n1", "memory_free": 1}}])
def test_a_node_is_known_by_its_name_and_what_differs_from_start_to_start_is_no_change(told: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    sides = []
    for name, free in (("a", 1), ("b", 2)):
        probe = {
            key: {**value, "memory_free": free} if isinstance(value, dict) else value for key, value in told.items()
        }
        began = {"found.phases.engine": [{"name": "start", "ended": float(free)}], "found.node.memory_free": free}
        sides.append(side(name, rng, FIXED, about=probe | began))
    answer = compare(*sides)
    assert answer.changes == ()
    estimate = answer.points[0].differences[0].estimate
    assert estimate is not None and not any("nodes" in note for note in estimate.notes)


def test_clusters_are_nodes_then_runs_then_repeats() -> None:
    rng = np.random.default_rng(1)
    parts = [side(f"{name}{k}", rng, FIXED, points=1, about={"run": f"{name}{k}"}) for name in "ab" for k in range(3)]
    sides = [
        Side(name, tuple(p for s in chosen for p in s.points), {k: v for s in chosen for k, v in s.about.items()})
        for name, chosen in (("a", parts[:3]), ("b", parts[3:]))
    ]
    estimate = compare(*sides).points[0].differences[0].estimate
    assert estimate is not None and estimate.source == "bootstrap over 3 and 3 runs", "runs show what runs share"


def test_changes_are_ranked_and_counted() -> None:
    before = {
        "found.image_digest": "sha256:1", "found.packages.torch": "2.1", "found.node": "n1", "asked.settings.seed": 1,
        "asked.argv.engine": "serve --max-num-seqs 64 --tp 8", "found.ready_s.engine": 12, "found.driver": "550",
    }  # fmt: skip
    after = before | {
        "found.image_digest": "sha256:2", "found.packages.torch": "2.2", "asked.settings.seed": 2, "found.node": "n2",
        "asked.argv.engine": "serve --max-num-seqs 128 --tp 8 --new", "found.ready_s.engine": 15,
    }  # fmt: skip
    rng = np.random.default_rng(1)
    answer = compare(side("a", rng, FIXED, about=before), side("b", rng, FIXED, about=after))
    found = [(c.kind, c.before, c.after, c.points, c.of) for c in answer.changes]
    assert found == [
        ("image digest", "sha256:1", "sha256:2", 6, 6),
        ("packages", "2.1", "2.2", 6, 6),
        ("node", "n1", "n2", 6, 6),
        ("recipe", "--max-num-seqs 64", "--max-num-seqs 128 --new", 6, 6),
        ("settings", 1, 2, 6, 6),
    ]


def test_the_cheapest_cells_are_run_again_with_a_control() -> None:
    rng = np.random.default_rng(3)
    a, b = side("a", rng, (0, 0, 0)), side("b", rng, (0, 0, 0))
    moved = [replace(p, measures={**p.measures, MEASURES[0]: Measure((p.value(MEASURES[0]) or 0) * 0.982, "u", 200)})
             if p.concurrency in (8, 32) else p for p in b.points]  # fmt: skip
    answer = compare(a, Side("b", tuple(moved)))
    assert answer.again[0].name == "l/c8" and answer.again[-1].control and answer.again[-1].name == "l/c1"
    costs = [item.gpu_seconds for item in answer.again if not item.control]
    assert costs == sorted(costs, key=lambda cost: cost or 0)
    first = answer.again[0]
    assert first.gpu_seconds == 2 * first.repeats * 8 * 60.0 * 8
    assert compare(a, b).again == (), "nothing to settle"


def test_unmatched_lost_and_failed_cells() -> None:
    rng = np.random.default_rng(1)
    a = side("a", rng, (0, 0, 0), points=4)
    b = side("b", rng, (0, 0, 0), points=4)
    broken = replace(b.points[1], validity=Validity.INVALID, reasons=("error-rate: 60 %",))
    more = point(64, (1.0, 1.0, 1.0), id="more")
    answer = compare(a, Side("b", (b.points[0], broken, more), failed=(("l", 4, "start: no memory"),)))
    verdicts = {item.pair.concurrency: (item.verdict, item.reason) for item in answer.points}
    assert verdicts[1][0] is Verdict.SAME
    assert verdicts[2] == (Verdict.WORSE, "side B has no valid point: error-rate: 60 %")
    assert verdicts[4] == (Verdict.WORSE, "side B has no valid point: failed: start: no memory")
    assert [(item.side, item.name) for item in answer.alone] == [("A", "l/c8"), ("B", "l/c64")]
    assert answer.regressed


def test_points_pair_by_what_was_measured_where_names_differ() -> None:
    facts = {"scenario": "fixed-seq-len", "hardware": "h200", "model_prefix": "m", "topology": {"tp": 8}, "isl": 1024}
    a = point(4, (1.0, 1.0, 1.0), id="a", line="ours", facts=facts)
    b = point(4, (1.0, 1.0, 1.0), id="b", line="theirs", facts={**facts, "image": "other"})
    assert len(compare(Side("a", (a,)), Side("b", (b,))).points) == 1
    other = replace(b, facts={**facts, "topology": {"tp": 4}})
    assert compare(Side("a", (a,)), Side("b", (other,))).points == ()
    twice = (b, replace(b, id="c", line="third"))
    assert compare(Side("a", (a,)), Side("b", twice)).points == (), "two candidates are no match"


def test_sources_are_not_mixed_unasked() -> None:
    rng = np.random.default_rng(1)
    measured, predicted = side("a", rng, (0, 0, 0)), side("b", rng, (0, 0, 0), source=Source.PREDICTED)
    with pytest.raises(InputError, match="measured and predicted points; a comparison does not mix sources unasked"):
        compare(measured, predicted)
    both = compare(measured, predicted, mix_sources=True)
    assert len(both.points) == 6 and both.to_json()["sources"] == ["measured", "predicted"]
    exact = compare(predicted, side("c", rng, (0, 0, 0), source=Source.PREDICTED, factors=(0.99, 1, 1)))
    assert exact.overall.verdict is Verdict.WORSE, "predictions have no noise"


def test_a_measure_without_direction_or_name_is_refused() -> None:
    rng = np.random.default_rng(1)
    a = side("a", rng, FIXED)
    with pytest.raises(InputError, match="no better direction"):
        compare(a, a, ("duration",))
    with pytest.raises(InputError, match="no measure is called"):
        compare(a, a, ("ttft.p51",))


def test_the_noise_model_is_the_published_gate() -> None:
    fixed, amd = point(1, (1, 1, 1), id="a"), point(1, (1, 1, 1), id="b", facts={"hardware": "mi355x"})
    agentic = point(1, (1, 1, 1), id="c", **AGENTIC_FACTS)
    gates = [
        [found.gate if isinstance(found, noise.Noise) else None for found in (noise.of(p, m) for m in MEASURES)]
        for p in (fixed, amd, agentic)
    ]
    assert gates == [[0.015, 0.012, 0.08], [0.045, 0.036, 0.08], [0.05, 0.10, None]]


@pytest.mark.parametrize(
    ("tail", "df", "t"),
    [(0.05, 1, 12.7062047), (0.05, 2, 4.30265273), (0.05, 10, 2.22813885), (0.01, 5, 4.03214298),
     (0.05, 1e9, 1.95996398), (0.001, 8, 5.04130543)],
)  # fmt: skip
def test_students_t_as_tables_have_it(tail: float, df: float, t: float) -> None:
    assert quantile(tail, df) == pytest.approx(t, rel=1e-6)
    assert two_sided(t, df) == pytest.approx(tail, rel=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.5, 2.0), min_size=3, max_size=3), st.integers(1, 4), st.integers(1, 4))
def test_turning_the_sides_round_turns_the_verdicts_round(factors: list[float], repeats: int, points: int) -> None:
    rng = np.random.default_rng(5)
    a = side("a", rng, REPEATS, points=points, repeats=repeats)
    b = side("b", rng, REPEATS, points=points, repeats=repeats, factors=factors)
    there, back = compare(a, b), compare(b, a)
    turned = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
    for one, other in zip(there.points, back.points, strict=True):
        for d, e in zip(one.differences, other.differences, strict=True):
            assert d.estimate is not None and e.estimate is not None
            assert d.estimate.log_ratio == pytest.approx(-e.estimate.log_ratio)
            if repeats < 3:  # a bootstrap draws other samples when the sides change places
                assert turned.get(d.judged.verdict, d.judged.verdict) is e.judged.verdict
