"""Exports of a run on disk are those of the run in memory, and hold little of it at a time."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.results.builders import MS, S, cell, failed, record, replay

from ridgeline.core.errors import InputError
from ridgeline.core.record import Outcome, Phases, Record, Replay, ServerSample
from ridgeline.results.export import aiperf, aiperf_rows
from ridgeline.results.export.agentic import agentic_row
from ridgeline.results.export.server_metrics import server_metrics
from ridgeline.results.records import RecordWriter, read_records, replay_metadata, write_records
from ridgeline.results.samples import write_samples
from ridgeline.results.stored import StoredReplay, integers, is_profiling, numbers


def mixed() -> Replay:
    """Every outcome in both phases, out of order, with missing values and two scrapes."""
    outcomes = [outcome for outcome in Outcome if outcome is not Outcome.OK]
    records = [record(k, k * S // 3, phase="warmup" if k < 3 else "profiling", lane=k % 2) for k in range(30)]
    records += [failed(30 + k, (9 + k) * S, outcome=outcome) for k, outcome in enumerate(outcomes)]
    records += [failed(50, 3 * S, status=None, outcome=Outcome.CLIENT_ERROR, phase="warmup")]
    records += [record(60, 4 * S, completion_tokens=None, first_visible_ns=None, max_tokens=None)]
    samples = tuple(
        ServerSample(at_ns=at * S, endpoint="http://e", values={"vllm:prompt_tokens_total": 100.0 * at})
        for at in (0, 20)
    )
    return Replay(
        records=tuple(records[::-1]),
        phases=Phases(profiling_start_ns=S, profiling_end_ns=15 * S, drained_ns=16 * S),
        samples=samples,
        settings={"request_id_prefix": "p-", "origin_unix_ns": 10**18},
    )


@pytest.fixture
def stored(tmp_path: Path) -> StoredReplay:
    write_records(tmp_path / "records.parquet", mixed())
    write_samples(tmp_path / "samples.parquet", mixed().samples)
    return StoredReplay(tmp_path / "records.parquet", tmp_path / "samples.parquet")


def test_all_exports_are_those_of_the_replay_in_memory(stored: StoredReplay) -> None:
    assert list(aiperf_rows.jsonl(stored, 10**18)) == list(aiperf_rows.jsonl(mixed(), 10**18))
    assert aiperf.summary(stored, 10**18) == aiperf.summary(mixed(), 10**18)
    assert agentic_row(stored, cell()) == agentic_row(mixed(), cell())
    assert server_metrics(stored, 10**18) == server_metrics(mixed(), 10**18)
    assert tuple(stored.records) == tuple(stored.records) == mixed().records, "every use walks them again"


def test_columns_tell_missing_from_zero(stored: StoredReplay) -> None:
    for name in ("request_id", "end_ns", "status"):
        assert np.array_equal(numbers(stored, name), numbers(mixed(), name), equal_nan=True)
        assert np.array_equal(integers(stored, name), integers(mixed(), name))
    assert np.isnan(numbers(stored, "status")).sum() == 1
    assert np.array_equal(is_profiling(stored), is_profiling(mixed()))


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(InputError, match="not a Parquet file"):
        StoredReplay(tmp_path / "x.parquet")
    with pytest.raises(InputError, match="no such file"):
        StoredReplay(tmp_path / "y.parquet")


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=30), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_rows_come_in_the_order_of_completion(ends: list[tuple[int, bool]], rng: object) -> None:
    records = [
        record(k, 0, end_ns=end * S, phase="profiling" if measured else "warmup")
        for k, (end, measured) in enumerate(ends)
    ]
    rng.shuffle(records)  # type: ignore[attr-defined]
    rows = list(aiperf_rows.rows(replay(records), 0))
    order = sorted(records, key=lambda one: (one.end_ns or 0, one.request_id))
    assert [row["metadata"]["conversation_id"] for row in rows] == [one.conversation_id for one in order]
    for phase in ("warmup", "profiling"):
        numbered = {
            row["metadata"]["conversation_id"]: row["metadata"]["session_num"]
            for row in rows
            if row["metadata"]["benchmark_phase"] == phase
        }
        ids = [f"s{k}/root" for k, (_, measured) in enumerate(ends) if measured == (phase == "profiling")]
        assert numbered == {name: number for number, name in enumerate(ids)}


def long_run(path: Path, count: int, chunks: int) -> None:
    writer = RecordWriter(path)
    for k in range(count):
        at = k * 10 * MS
        writer.write([record(k, at, chunk_ns=tuple(range(at, at + chunks * MS, MS)))])
    writer.finish(replay_metadata(Replay(records=(), phases=Phases(profiling_start_ns=0))))


def test_an_export_holds_a_part_of_the_records_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand records of a hundred arrivals: as objects they take 5 MB."""
    monkeypatch.setattr("ridgeline.results.stored.BATCH", 32)
    path = tmp_path / "records.parquet"
    long_run(path, 1000, 100)
    sum(1 for _ in aiperf_rows.rows(StoredReplay(path), 0))  # what is imported and cached once
    tracemalloc.start()
    count = sum(1 for _ in aiperf_rows.rows(StoredReplay(path), 0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1000 and peak < 1_500_000


def test_a_stream_becomes_a_file_in_pieces_worth_a_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ridgeline.results.records.ARRIVALS", 1000)  # a batch every five records
    monkeypatch.setattr("ridgeline.results.records.BYTES", 40_000)
    path = tmp_path / "records.parquet"
    long_run(path, 200, 200)
    import pyarrow.parquet as pq

    assert 4 < pq.ParquetFile(path).num_row_groups < 20
    found = read_records(path)
    assert [one.request_id for one in found.records] == list(range(200))
    assert all(isinstance(one, Record) and len(one.chunk_ns) == 200 for one in found.records)
    assert not path.with_name("records.parquet.part").exists()
