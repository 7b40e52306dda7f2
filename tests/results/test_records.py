"""Records and samples in Parquet: exact round trips, versions, and streams that were cut off."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.results.builders import failed, record, replay, sample

from ridgeline.core.errors import InputError
from ridgeline.core.record import Outcome, Record, ServerSample
from ridgeline.results import records, samples
from ridgeline.results.records import RecordWriter, read_records, recover, replay_metadata, write_records
from ridgeline.results.streams import part_of

BIG = 2**62


def _field(name: str, annotation: str) -> st.SearchStrategy[Any]:
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    narrow = records.SCHEMA.field(name).type == pa.int32()
    number = st.integers(-(2**31), 2**31 - 1) if narrow else st.integers(-BIG, BIG)
    return {
        "int": number,
        "int | None": st.none() | number,
        "str": text,
        "str | None": st.none() | text,
        "Outcome": st.sampled_from(Outcome),
        "tuple[str, ...]": st.lists(text, max_size=3).map(tuple),
        "tuple[int, ...]": st.lists(st.integers(0, BIG), max_size=4).map(tuple),
    }[annotation]


any_record = st.builds(Record, **{f.name: _field(f.name, str(f.type)) for f in dataclasses.fields(Record)})


@settings(max_examples=25, deadline=None)
@given(st.lists(any_record, max_size=4))
def test_every_record_survives_the_table(rows: list[Record]) -> None:
    table = records.to_table(rows)
    assert table.schema == records.SCHEMA
    assert records.from_table(table) == tuple(rows)


def test_a_replay_survives_the_file(tmp_path: Path) -> None:
    data = replay(
        [record(0), failed(1)],
        speed=60.0,
        health={"loop_lag_p99_s": 0.001},
        settings={"seed": 7, "lanes": [1, 2]},
        prompt_mode="token-ids",
        aborted="too many failures",
        samples=(sample(1, vllm__a=1.0), ServerSample(at_ns=2, endpoint="e", values=None)),
    )
    write_records(tmp_path / "r.parquet", data)
    samples.write_samples(tmp_path / "s.parquet", data.samples)
    assert read_records(tmp_path / "r.parquet", tmp_path / "s.parquet") == data
    assert read_records(tmp_path / "r.parquet").samples == ()


def test_column_names_carry_units_and_match_the_record() -> None:
    assert tuple(f.name for f in dataclasses.fields(Record)) == records.FIELDS
    for field in records.SCHEMA:
        if field.name in ("scheduled_ns", "chunk_ns") or field.name.endswith("_ns"):
            assert field.name.endswith("_ns")
    nullable = {f.name for f in dataclasses.fields(Record) if "None" in str(f.type)}
    assert {f.name for f in records.SCHEMA if f.nullable} == nullable


def test_nan_and_wrong_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
        records.to_table([record(prompt_tokens=float("nan"))])
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
        records.to_table([record(lane="first")])
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_records(tmp_path / "r.parquet", replay([record()], health={"lag": float("nan")}))


def test_newer_and_foreign_files_are_refused(tmp_path: Path) -> None:
    table = records.with_metadata(records.to_table([record()]), replay_metadata(replay([])) | {"version": 9})
    pq.write_table(table, tmp_path / "new.parquet")
    with pytest.raises(InputError, match="version 9; this Ridgeline reads up to 1"):
        read_records(tmp_path / "new.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "foreign.parquet")
    for read in (read_records, samples.read_samples):
        with pytest.raises(InputError, match="no version"):
            read(tmp_path / "foreign.parquet")
        with pytest.raises(InputError, match="no such file"):
            read(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(InputError, match="not a Parquet file"):
        read_records(tmp_path / "text.parquet")
    newer = pa.Table.from_batches([], samples.SCHEMA.with_metadata({samples.KEY: json.dumps({"version": 2})}))
    pq.write_table(newer, tmp_path / "samples.parquet")
    with pytest.raises(InputError, match="version 2"):
        samples.read_samples(tmp_path / "samples.parquet")


def test_some_columns_can_be_read_alone(tmp_path: Path) -> None:
    write_records(tmp_path / "r.parquet", replay([record(0), record(1)]))
    table = records.read_table(tmp_path / "r.parquet", ["sent_ns", "outcome"])
    assert table.column_names == ["sent_ns", "outcome"] and table.num_rows == 2


def test_a_writer_makes_the_same_file_as_one_write(tmp_path: Path) -> None:
    rows = [record(i, at=i * 10) for i in range(25)]
    data = replay(rows, speed=2.0)
    with RecordWriter(tmp_path / "r.parquet", every=10) as writer:
        for row in rows:
            writer.write([row])
        writer.finish(replay_metadata(data))
    assert read_records(tmp_path / "r.parquet") == data
    assert not part_of(tmp_path / "r.parquet").exists()


def test_a_killed_writer_keeps_its_whole_batches_wherever_it_was_cut(tmp_path: Path) -> None:
    rows = [record(i, session_id=f"session-{i}") for i in range(12)]
    writer = RecordWriter(tmp_path / "r.parquet", every=4)
    sizes = []
    for i in range(0, 12, 4):
        writer.write(rows[i : i + 4])
        sizes.append(writer.part.stat().st_size)
    stream = writer.part.read_bytes()  # as the kernel has it: nothing is closed yet
    writer.close()
    cut = tmp_path / "cut.part"
    for length in range(sizes[0], len(stream) + 1, 997):
        cut.write_bytes(stream[:length])
        got = records.from_table(recover(cut))
        whole = 4 * sum(size <= length for size in sizes)
        assert got == tuple(rows[: len(got)]) and len(got) >= whole
    cut.write_bytes(stream[:50])
    with pytest.raises(InputError, match="not an Arrow stream"):
        recover(cut)


scrapes = st.lists(
    st.builds(
        ServerSample,
        at_ns=st.integers(0, BIG),
        endpoint=st.sampled_from(["a", "b"]),
        values=st.none() | st.dictionaries(st.sampled_from(['x{l="1"}', "y"]), st.floats(allow_nan=False), max_size=2),
    ),
    max_size=5,
)


@settings(max_examples=50, deadline=None)
@given(scrapes)
def test_samples_survive_gaps_and_empty_scrapes(rows: list[ServerSample]) -> None:
    assert samples.from_table(samples.to_table(rows)) == tuple(rows)


def test_a_scrape_s_time_is_kept_and_older_files_have_none(tmp_path: Path) -> None:
    timed = (dataclasses.replace(sample(0), took_ns=7), dataclasses.replace(sample(1), values=None, took_ns=9))
    table = samples.to_table(timed)
    assert samples.from_table(table) == timed
    pq.write_table(table.drop_columns(["took_ns"]), tmp_path / "old.parquet")
    assert [one.took_ns for one in samples.read_samples(tmp_path / "old.parquet")] == [None, None]


def test_scrapes_written_as_they_come_make_the_same_file_and_survive_a_kill(tmp_path: Path) -> None:
    taken = [sample(k, endpoint=f"http://{k % 2}", vllm__x=k) for k in range(7)]
    taken[3] = dataclasses.replace(taken[3], values=None)
    writer = samples.SampleWriter(tmp_path / "s.parquet")
    assert samples.recover(writer.part) == ()
    for one in taken:
        writer.write(one)
        writer.flush()
    whole = writer.part.read_bytes()
    (tmp_path / "cut.part").write_bytes(whole[:-20])
    assert samples.recover(writer.part) == tuple(taken)
    assert samples.recover(tmp_path / "cut.part") == tuple(taken[:6])
    writer.finish()
    assert samples.read_samples(tmp_path / "s.parquet") == tuple(taken) and not writer.part.exists()


def test_scrapes_of_a_while_are_written_together(tmp_path: Path) -> None:
    writer = samples.SampleWriter(tmp_path / "s.parquet")
    writer.write(sample(0))
    assert samples.recover(writer.part) == ()
    writer.close()
    assert samples.recover(writer.part) == (sample(0),)


def test_no_scrape_leaves_no_file(tmp_path: Path) -> None:
    writer = samples.SampleWriter(tmp_path / "s.parquet")
    writer.finish()
    assert list(tmp_path.iterdir()) == []


def test_a_series_that_says_nan_has_no_value() -> None:
    (back,) = samples.from_table(samples.to_table([sample(0, a=float("nan"), b=1.0)]))
    assert back.values == {"b": 1.0}
