"""The timeline's columns and the engine's panels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.publish.web import sample

from ridgeline.publish.web import panels, timeline
from ridgeline.results import records, samples


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("point")
    replay = sample.replay()
    records.write_records(folder / "records.parquet", replay)
    samples.write_samples(folder / "samples.parquet", replay.samples)
    return folder / "records.parquet", folder / "samples.parquet"


def test_every_request_is_there_in_order_of_lane_row_and_time(stored: tuple[Path, Path]) -> None:
    header, columns = timeline.unpack(timeline.timeline_bytes(stored[0]))
    assert header["count"] == 60 and sorted(columns["id"].tolist()) == list(range(60))
    order = list(zip(columns["lane"].tolist(), columns["row"].tolist(), columns["sent"].tolist(), strict=True))
    assert order == sorted(order)
    assert header["phases"] == {
        "start_ns": -2000,
        "profiling_start_ns": 0,
        "profiling_end_ns": 38_000,
        "drained_ns": 39_000,
    }


def test_times_are_milliseconds_of_the_window_and_what_did_not_happen_has_none(stored: tuple[Path, Path]) -> None:
    header, columns = timeline.unpack(timeline.timeline_bytes(stored[0]))
    at = {int(id): i for i, id in enumerate(columns["id"])}
    assert [int(columns[name][at[3]]) for name in ("wanted", "sent", "first", "end")] == [0, 50, 350, 1051]
    assert columns["first"][at[10]] == header["none"] and columns["flags"][at[10]] & 1
    assert header["outcomes"][columns["outcome"][at[10]]] == "timeout"
    assert columns["flags"][at[0]] & 4 and not columns["flags"][at[3]] & 4  # warm-up


def test_subagents_have_rows_of_their_own_while_they_live(stored: tuple[Path, Path]) -> None:
    header, columns = timeline.unpack(timeline.timeline_bytes(stored[0]))
    deep = (columns["flags"] & 2) > 0
    assert set(columns["row"][~deep]) == {0} and columns["row"][deep].min() >= 1
    for row in set(columns["row"][deep]):
        mine = deep & (columns["row"] == row)
        assert set(columns["lane"][mine]) == {1}
    assert [lane[:2] for lane in header["lanes"]] == [[0, 0], [1, int(columns["row"].max())], [2, 0]]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=30))
def test_two_streams_never_share_a_row_at_one_time(streams: list[tuple[int, int, int]]) -> None:
    base = sample.replay().records[0]
    made = [
        replace(
            base,
            request_id=i,
            lane=lane,
            depth=1,
            correlation_id=f"s{i}",
            scheduled_ns=start,
            sent_ns=start,
            end_ns=start + long,
        )
        for i, (lane, start, long) in enumerate(streams)
    ]
    table = records.to_table(made)
    lane = np.array([one.lane for one in made])
    rows = timeline._rows(table, lane)
    for i, one in enumerate(made):
        for j in range(i):
            other = made[j]
            if one.lane == other.lane and rows[i] == rows[j]:
                assert (one.end_ns or 0) <= (other.sent_ns or 0) or (other.end_ns or 0) <= (one.sent_ns or 0)
    for number in set(lane.tolist()):
        most = max(sum((o.sent_ns or 0) <= t < (o.end_ns or 0) for o in made if o.lane == number) for t in range(71))
        assert rows[lane == number].max() == most


def test_columns_survive_the_wire() -> None:
    columns = {"a": np.array([1, -5, 7], dtype="<i4"), "b": np.array([1, 2, 3], dtype="<u1")}
    header, found = timeline.unpack(timeline.pack({"count": 3, "said": "ü"}, columns))
    assert header["said"] == "ü" and all((found[name] == columns[name]).all() for name in columns)
    with pytest.raises(ValueError, match="not a timeline"):
        timeline.unpack(b"PAR1....")


def panel(stored: tuple[Path, Path], key: str) -> dict[str, object]:
    found = json.loads(panels.panels_bytes(*stored))["panels"]
    return next(one for one in found if one["key"] == key)


def test_ranks_are_drawn_beside_their_mean_and_a_gap_stays_a_gap(stored: tuple[Path, Path]) -> None:
    lines = {line["name"]: line for line in panel(stored, "kv")["lines"]}  # type: ignore[index,attr-defined]
    assert set(lines) == {"rank 0", "rank 1", "mean"}
    assert set(lines["mean"]["v"]) == {0.6}
    assert 7000 not in lines["rank 0"]["t"] and 6000 in lines["rank 0"]["t"]  # the scrape at 9 s failed


def test_a_hit_rate_is_a_ratio_of_sums(stored: tuple[Path, Path]) -> None:
    [line] = panel(stored, "hit")["lines"]  # type: ignore[misc]
    assert set(line["v"]) == {0.8}  # type: ignore[index]


def test_running_and_waiting_share_a_panel(stored: tuple[Path, Path]) -> None:
    lines = {line["name"]: set(line["v"]) for line in panel(stored, "running")["lines"]}  # type: ignore[index,attr-defined]
    assert lines == {"running": {2.0}, "waiting": {1.0}}


def test_what_users_felt_comes_from_the_requests(stored: tuple[Path, Path]) -> None:
    lines = {line["name"]: line for line in panel(stored, "ttft")["lines"]}  # type: ignore[index,attr-defined]
    assert {value for value in lines["p50"]["v"] if value is not None} == {0.3}
    assert set(lines["p90"]["v"]) == {None}  # too few requests in a bin


def test_without_scrapes_the_panels_say_so(stored: tuple[Path, Path]) -> None:
    found = json.loads(panels.panels_bytes(stored[0], None))
    assert found["missing"] == ["No server metrics were scraped."]
    assert {one["from"] for one in found["panels"]} == {"requests"}


def test_long_series_are_averaged_not_cut() -> None:
    at = np.arange(6000) * 1e9
    found = panels._series(at, np.ones(6000), 0)
    assert len(found["t"]) == panels.STEPS and set(found["v"]) == {1.0} and found["t"][-1] > 5.98e6
