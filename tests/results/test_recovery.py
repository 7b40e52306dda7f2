"""What a killed replay left becomes files that everything reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ridgeline.cli.main import main
from ridgeline.core.errors import InputError
from ridgeline.core.record import Record, ServerSample
from ridgeline.results.records import RecordWriter, read_records
from ridgeline.results.recovery import KILLED, recover
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.results.samples import SampleWriter


def record(number: int) -> Record:
    return Record(
        request_id=number,
        phase="warmup" if number < 2 else "profiling",
        lane=0,
        tree=0,
        session_id="s",
        conversation_id="s",
        turn_index=number,
        scheduled_ns=1000 * number,
        chunk_ns=(1000 * number + 1, 1000 * number + 5),
    )


SAMPLES = (
    ServerSample(at_ns=5, endpoint="http://a", values={"x": 1.0}),
    ServerSample(at_ns=9, endpoint="http://a", values=None),
)
ROWS = tuple(map(record, range(6)))


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Path]:
    """A replay's folder as a kill leaves it: streams that nobody ended."""
    writer, scrapes = RecordWriter(tmp_path / "records.parquet"), SampleWriter(tmp_path / "samples.parquet")
    writer.write(ROWS)
    writer.flush()
    for sample in SAMPLES:
        scrapes.write(sample)
    scrapes.flush()
    settings = {"speed": 4.0, "model": "m", "prompt_mode": "bytes"}
    header = RunHeader(name="r", created_at="2026-11-30T12:00:00+00:00", command=("ridgeline",), settings=settings)
    with RunFolder.adopt(tmp_path, header):
        yield tmp_path
    writer.close()
    scrapes.close()


def test_records_scrapes_and_settings_come_back_and_the_streams_go(killed: Path) -> None:
    found = recover(killed)
    assert (found.records, found.requests, found.scrapes) == (killed / "records.parquet", 6, 2)
    replay = read_records(found.records, killed / "samples.parquet")
    assert (replay.records, replay.samples, replay.aborted) == (ROWS, SAMPLES, KILLED)
    assert (replay.speed, replay.prompt_mode, replay.settings["model"]) == (4.0, "bytes", "m")
    assert (replay.phases.profiling_start_ns, replay.phases.profiling_end_ns) == (2000, None)
    assert not list(killed.glob("*.part"))


def test_a_kill_before_anything_was_measured_or_scraped(tmp_path: Path) -> None:
    RecordWriter(tmp_path / "records.parquet").close()
    SampleWriter(tmp_path / "samples.parquet").close()
    assert recover(tmp_path).requests == 0
    replay = read_records(tmp_path / "records.parquet", tmp_path / "samples.parquet")
    assert (replay.records, replay.samples, replay.phases.profiling_start_ns) == ((), (), None)


def test_nothing_to_recover_and_what_cannot_be(tmp_path: Path, killed: Path) -> None:
    recover(killed)
    with pytest.raises(InputError, match="ended in order"):
        recover(killed)
    with pytest.raises(InputError, match="replay --out"):
        recover(tmp_path / "elsewhere")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "records.parquet.part").write_bytes(b"nothing of ours")
    with pytest.raises(InputError, match="not an Arrow stream"):
        recover(broken)
    assert (broken / "records.parquet.part").exists() and not (broken / "records.parquet").exists()


def test_scrapes_that_cannot_be_read_change_nothing(killed: Path) -> None:
    (killed / "samples.parquet.part").write_bytes(b"nothing of ours")
    with pytest.raises(InputError, match="not an Arrow stream"):
        recover(killed)
    assert (killed / "records.parquet.part").exists() and not (killed / "records.parquet").exists()
    (killed / "samples.parquet.part").unlink()
    assert recover(killed).requests == 6


def test_the_verb(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "recover", str(killed)]) == 0
    assert capsys.readouterr().out == f"6 requests and 2 scrapes: {killed / 'records.parquet'}\n"
    assert main(["results", "recover", str(killed)]) == 2
    assert "no records of a killed replay" in capsys.readouterr().err
