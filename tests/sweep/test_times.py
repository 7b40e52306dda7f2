"""How long cells take: the plan's estimate first, then what earlier cells took."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.sweep.test_run import FIXED, cell, deploy

from ridgeline.core.cell import Cell, Scenario
from ridgeline.core.record import Phases
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.times import TimesStore, default_path, estimate

SETTINGS = SweepSettings()
S = 10**9


def phases(warmup: float, window: float, drain: float) -> Phases:
    ends = [round(end * S) for end in (warmup, warmup + window, warmup + window + drain)]
    return Phases(start_ns=0, profiling_start_ns=ends[0], profiling_end_ns=ends[1], drained_ns=ends[2])


def agentic(concurrency: int, tp: int = 1) -> Cell:
    return replace(cell(concurrency, tp), scenario=Scenario("agentic-coding", duration_s=3600))


def test_nothing_learned_is_the_plan() -> None:
    one = agentic(8)
    times = TimesStore().expect(one, deploy(one)[0], SETTINGS)
    assert times == estimate(one, deploy(one)[0], SETTINGS)._replace(source="as planned")
    assert (times.start_s, times.warmup_s, times.window_s, times.drain_s) == (840.0, 300.0, 3600.0, 30.0)
    faster = estimate(one, deploy(one)[0], SweepSettings(speed=10.0))
    assert (faster.window_s, faster.drain_s) == (360.0, 3.0)
    assert estimate(one, replace(deploy(one)[0], kind="emulated"), SETTINGS).start_s < 60


def test_a_fixed_length_cell_is_planned_by_its_requests() -> None:
    few = estimate(cell(1), deploy(cell(1))[0], SweepSettings(requests_per_lane=10))
    many = estimate(cell(1), deploy(cell(1))[0], SweepSettings(requests_per_lane=40))
    assert FIXED.osl == 4
    assert few.window_s > 0
    assert many.window_s == 4 * few.window_s


def test_what_was_seen_is_expected_again(tmp_path: Path) -> None:
    store = TimesStore(tmp_path / "state" / "times.jsonl")
    one = agentic(8)
    store.note(one, deploy(one)[0], SETTINGS, 700.0, phases(200, 3600, 12))
    store.note(one, deploy(one)[0], SETTINGS, None, phases(220, 3600, 20))  # on the engine that ran already
    for fresh in (store, TimesStore(tmp_path / "state" / "times.jsonl")):
        times = fresh.expect(one, deploy(one)[0], SETTINGS)
        assert (times.start_s, times.warmup_s, times.window_s, times.drain_s) == (700.0, 210.0, 3600.0, 20.0)
        assert times.source == "as in 2 earlier cells"


def test_the_nearest_concurrency_tells_most_and_other_loads_only_the_start(tmp_path: Path) -> None:
    store = TimesStore(tmp_path / "times.jsonl")
    for concurrency, warmup in ((1, 10), (64, 640)):
        own = agentic(concurrency)
        store.note(own, deploy(own)[0], SETTINGS, 500.0, phases(warmup, 3600, 5))
    asked = agentic(32)
    assert store.expect(asked, deploy(asked)[0], SETTINGS).warmup_s == 640
    shorter = store.expect(asked, deploy(asked)[0], SweepSettings(duration_s=600))
    assert (shorter.start_s, shorter.warmup_s) == (500.0, 300.0)
    assert shorter.source == "start as before, the rest as planned"
    other = agentic(32, tp=2)
    assert store.expect(other, deploy(other)[0], SETTINGS).start_s == 840.0, "two GPUs are another engine"


def test_scaled_time_is_stored_as_real_time(tmp_path: Path) -> None:
    store, fast = TimesStore(tmp_path / "times.jsonl"), SweepSettings(speed=10.0)
    one = agentic(8)
    store.note(one, deploy(one)[0], fast, 5.0, phases(100, 3600, 10))
    assert store.expect(one, deploy(one)[0], fast).window_s == 360.0


def test_broken_lines_and_unfinished_windows_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    one = agentic(8)
    TimesStore(path).note(one, deploy(one)[0], SETTINGS, 500.0, phases(1, 2, 3))
    TimesStore(path).note(one, deploy(one)[0], SETTINGS, 500.0, Phases(start_ns=0))
    line = path.read_text()
    assert line.count("\n") == 1
    path.write_text('{"torn\n' + line + '{"deployment": 1}\n' + line.replace('"window_s": 2.0', '"window_s": -2.0'))
    assert TimesStore(path).expect(one, deploy(one)[0], SETTINGS).source == "as in 1 earlier cells"


def test_a_place_that_cannot_be_written_loses_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    one = agentic(8)
    TimesStore(tmp_path / "file" / "times.jsonl").note(one, deploy(one)[0], SETTINGS, 1.0, phases(1, 2, 3))


def test_times_lie_where_state_belongs() -> None:
    assert default_path({"XDG_STATE_HOME": "/s"}) == Path("/s/ridgeline/times.jsonl")
    assert default_path({"HOME": "/h"}) == Path("/h/.local/state/ridgeline/times.jsonl")
