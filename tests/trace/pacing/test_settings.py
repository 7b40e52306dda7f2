from typing import Any

import pytest

from ridgeline.core.errors import InputError
from ridgeline.core.units import SECOND
from ridgeline.trace.pacing import ArrivalSettings, LoopSettings, PacingSettings
from ridgeline.trace.pacing.settings import PROFILES


def test_the_defaults_are_those_of_the_canonical_run() -> None:
    canonical = PacingSettings(concurrency=8, benchmark_id="b")
    assert (canonical.duration_ns, canonical.grace_ns, canonical.seed) == (3600 * SECOND, 30 * SECOND, 42)
    assert (canonical.start_min_ratio, canonical.start_max_ratio) == (0.25, 0.75)
    assert (canonical.warmup_requests_per_lane, canonical.warmup_grace_ns) == (10, 1800 * SECOND)
    assert (canonical.system_idle_cap_ns, canonical.trace_idle_cap_ns) == (10 * SECOND, 300 * SECOND)
    assert canonical.failure_threshold == 0.10
    assert canonical.rules is PROFILES["agentx"]


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"concurrency": 0, "profile": "x", "order": "y"}, ["profile", "order", "concurrency"]),
        (
            {"start_style": "z", "grace_ns": -1, "trace_idle_cap_ns": -1},
            ["start_style", "grace_ns", "trace_idle_cap_ns"],
        ),
        ({"start_min_ratio": 0.8}, ["start_min_ratio"]),
        ({"start_max_ratio": 1.1}, ["start_min_ratio"]),
        ({"start_max_ratio": float("nan")}, ["start_min_ratio"]),
        ({"failure_threshold": 2.0}, ["failure_threshold"]),
        ({"duration_ns": None}, ["duration_ns"]),
    ],
)
def test_every_problem_is_named_at_once(changes: dict[str, Any], keys: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        PacingSettings(**({"concurrency": 1, "benchmark_id": "b"} | changes))
    assert [problem.key for problem in caught.value.problems] == keys


def test_a_run_may_end_by_count_alone() -> None:
    assert PacingSettings(concurrency=1, benchmark_id="b", duration_ns=None, max_trees=1).max_trees == 1


def test_loops_name_every_problem_too() -> None:
    with pytest.raises(InputError) as caught:
        LoopSettings(concurrency=0, warmup_requests=-1, failure_threshold=7.0)
    assert [p.key for p in caught.value.problems] == ["concurrency", "warmup_requests", "failure_threshold", "requests"]
    with pytest.raises(InputError) as caught:
        ArrivalSettings(
            concurrency=1,
            duration_ns=1,
            requests_per_second=float("inf"),
            arrivals="x",  # type: ignore[arg-type]
            burstiness=0.0,
            max_in_flight=0,
        )
    keys = [problem.key for problem in caught.value.problems]
    assert keys == ["requests_per_second", "arrivals", "burstiness", "max_in_flight"]
