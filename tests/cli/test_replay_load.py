"""Which load the options of `ridgeline replay` make."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ridgeline.cli import replay_load
from ridgeline.cli.replay_load import LoadOptions, choose_load
from ridgeline.core.errors import InputError
from ridgeline.core.units import SECOND
from ridgeline.trace.pacing import AgentPacer, ClosedLoopPacer, OpenLoopPacer, SchedulePacer
from ridgeline.trace.synth import quickstart_trace


@pytest.fixture(autouse=True)
def few_to_deal_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty thousand sessions take half a second to make."""
    monkeypatch.setattr(replay_load, "POOL", 50)


def options(**changes: Any) -> LoadOptions:
    plain: dict[str, Any] = {
        "trace": None, "isl": None, "osl": None, "concurrency": None, "rate": None, "schedule": False, "requests": None,
        "duration": None, "warmup": None, "grace": 30.0, "profile": "agentx", "seed": 42, "max_context": None,
        "sessions": None, "arrivals": "poisson", "burstiness": 1.0, "max_in_flight": None, "range_ratio": 1.0,
        "repeated": False, "force": False,
    }  # fmt: skip
    return LoadOptions(**(plain | changes))


FIXED = {"isl": 100, "osl": 8}
TRACE = {"trace": quickstart_trace()}


@pytest.mark.parametrize(
    ("changes", "pacer", "said"),
    [
        (TRACE | {"concurrency": 4}, AgentPacer, {"duration_ns": 3600 * SECOND, "warmup_requests_per_lane": 10}),
        (TRACE | {"concurrency": 4, "profile": "aiperf-0.13"}, AgentPacer, {"warmup_requests_per_lane": 0}),
        (TRACE | {"concurrency": 4, "warmup": 1, "duration": 60}, AgentPacer, {"warmup_requests_per_lane": 1}),
        (TRACE | {"schedule": True}, SchedulePacer, {"duration_ns": None}),
        (FIXED | {"concurrency": 3, "requests": 30}, ClosedLoopPacer, {"requests": 30, "warmup_requests": 3}),
        (FIXED | {"rate": 5.0, "requests": 9}, OpenLoopPacer, {"arrivals": "poisson", "requests_per_second": 5.0}),
        (FIXED | {"rate": 5.0, "duration": 2.0, "arrivals": "constant"}, OpenLoopPacer, {"duration_ns": 2 * SECOND}),
        (
            FIXED | {"rate": 5.0, "requests": 9, "arrivals": "gamma", "burstiness": 0.25, "max_in_flight": 2},
            OpenLoopPacer,
            {"arrivals": "gamma", "burstiness": 0.25, "max_in_flight": 2},
        ),
        (FIXED | {"rate": math.inf, "requests": 9}, OpenLoopPacer, {"requests_per_second": "inf"}),
    ],
)
def test_options_choose_the_machine_and_its_settings(
    changes: dict[str, Any], pacer: type, said: dict[str, Any]
) -> None:
    load = choose_load(options(**changes))
    assert type(load.pacer) is pacer
    assert {name: load.pacing[name] for name in said} == said
    json.dumps([load.pacing, load.about], allow_nan=False)  # it is stored beside the records


def test_two_runs_of_one_seed_send_other_texts() -> None:
    first, second = (choose_load(options(**FIXED, concurrency=1, requests=5)) for _ in range(2))
    assert first.run_id != second.run_id
    assert not {one.id for one in first.sessions} & {one.id for one in second.sessions}
    again, same = (choose_load(options(**FIXED, concurrency=1, requests=5, repeated=True)) for _ in range(2))
    assert {one.hash_scope for one in (*again.sessions, *same.sessions)} == {"global"}, "a warm cache is what is asked"


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({}, ["--trace", "--concurrency"]),
        (TRACE | FIXED | {"concurrency": 1}, ["--isl"]),
        ({"isl": 5, "concurrency": 1, "requests": 5}, ["--osl"]),
        (FIXED | {"schedule": True, "requests": 5}, ["--schedule"]),
        (FIXED | {"concurrency": 0, "duration": -1.0, "grace": -1.0}, ["--concurrency", "--duration", "--grace"]),
        (FIXED | {"concurrency": 1}, ["--requests"]),
        (FIXED | {"concurrency": 8, "requests": 10}, ["--requests"]),
        (FIXED | {"rate": -1.0, "requests": 5}, ["--rate"]),
        (FIXED | {"rate": math.nan, "requests": 5}, ["--rate"]),
        (FIXED | {"rate": 1.0, "requests": 5, "concurrency": 5}, ["--rate"]),
        (
            FIXED | {"concurrency": 1, "requests": 5, "arrivals": "often", "burstiness": 2.0, "max_in_flight": 1},
            ["--arrivals", "--burstiness", "--max-in-flight"],
        ),
        (TRACE | {"concurrency": 1, "range_ratio": 0.5, "repeated": True}, ["--range-ratio", "--repeated"]),
        (FIXED | {"concurrency": 1, "requests": 0, "force": True}, ["--requests"]),
        ({"isl": 0, "osl": -1, "concurrency": 1, "requests": 5}, ["--isl", "--osl"]),
        (TRACE | {"concurrency": 1, "sessions": 0, "max_context": 0}, ["--sessions", "--max-context"]),
        (FIXED | {"rate": math.inf, "duration": 5.0}, ["requests_per_second"]),
        (FIXED | {"rate": 1.0, "requests": 5, "arrivals": "often", "burstiness": 0.0}, ["arrivals", "burstiness"]),
        (TRACE | {"concurrency": 1, "profile": "newest"}, [None]),
    ],
)
def test_what_does_not_fit_together_is_told_at_once(changes: dict[str, Any], keys: list[str | None]) -> None:
    with pytest.raises(InputError) as caught:
        choose_load(options(**changes))
    assert [problem.key for problem in caught.value.problems] == keys


def test_a_trace_may_arrive_at_a_rate_once_each(tmp_path: Path) -> None:
    rows = [{"input_length": 10 + k, "output_length": 3} for k in range(6)]
    path = tmp_path / "m.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    load = choose_load(options(trace=path, rate=2.0))
    assert type(load.pacer) is OpenLoopPacer and load.pacing["requests"] == 6 and load.concurrency is None
