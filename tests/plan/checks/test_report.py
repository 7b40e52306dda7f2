import datetime
from dataclasses import replace

import pytest
from tests.plan.checks.making import DP8_FREE, TODAY, make

from ridgeline.core.finding import Verdict
from ridgeline.plan.checks.catalogue import CATALOGUE, rule_called
from ridgeline.plan.checks.memory import RULES as MEMORY
from ridgeline.plan.checks.report import check
from ridgeline.plan.checks.workload import PUBLISHED, workload_of
from ridgeline.spec.settings import Settings, Waiver


def waiving(until: datetime.date, cells: str = "*") -> Settings:
    return Settings({}, {}, waivers=(Waiver("M1", cells, "known machine", until),))


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [
        (None, Verdict.FAIL),
        (waiving(TODAY), Verdict.PASS),
        (waiving(TODAY - datetime.timedelta(days=1)), Verdict.FAIL),
        (waiving(TODAY, "other/*"), Verdict.FAIL),
    ],
)
def test_a_waiver_accepts_a_finding_until_its_last_day(settings: Settings | None, verdict: Verdict) -> None:
    found = check(make(**DP8_FREE), settings, today=TODAY, rules=MEMORY[:1])
    assert found.verdict is verdict
    assert found.judged[0].finding.verdict is Verdict.FAIL  # the finding itself stays


def test_the_worst_finding_decides() -> None:
    assert [v.rank for v in (Verdict.PASS, Verdict.WARN, Verdict.UNKNOWN, Verdict.FAIL)] == [0, 1, 2, 3]
    assert check(make(free=None), rules=MEMORY[:2]).verdict is Verdict.UNKNOWN


def test_ids_are_unique_and_every_rule_is_told() -> None:
    ids = [rule.id for rule in CATALOGUE]
    assert len(ids) == len(set(ids)) >= 34
    for rule in CATALOGUE:
        assert all((rule.title, rule.why, rule.source, rule.example)), rule.id
    assert rule_called("m3") is rule_called("M3") is not None
    assert rule_called("Z9") is None


def test_a_cell_without_a_deployment_is_unknown() -> None:
    bare = replace(make(), deployment=None, launches=(), why="no recipe launches it")
    found = check(bare)
    assert found.verdict is Verdict.UNKNOWN
    assert "no recipe launches it" in found.judged[[j.finding.rule for j in found.judged].index("P0")].finding.message


def test_a_traces_contexts_replace_the_published_ones() -> None:
    cell = make().cell
    assert workload_of(cell) == PUBLISHED and PUBLISHED.assumed
    own = workload_of(cell, range(1, 101), "a trace")
    assert (own.p50, own.p95, own.longest, own.assumed) == (50, 95, 100, False)
    assert own.in_flight(32, 8) == 8
