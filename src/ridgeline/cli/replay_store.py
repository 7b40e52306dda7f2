"""What `ridgeline replay` leaves on disk: records as they come, then the point and the forms that others read.

records.parquet, samples.parquet           everything, in our own form (with `.part` behind it while it runs)
point.json                                 every measure, validity with reasons, cautions
profile_export.jsonl, profile_export_aiperf.json, server_metrics_export.json      AIPerf's forms
agg.json                                   InferenceX's row (agentic load)
run.json, cells/                           the same as a run folder of one cell, for `report`, `frontier` and `results`
power.csv, power.json                      the GPUs' power and what was made of it
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ridgeline import __version__
from ridgeline.core.cell import Cell
from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.core.point import Point
from ridgeline.core.record import FIELDS, Replay, Row, ServerSample
from ridgeline.replay.sink import BackgroundSink

if TYPE_CHECKING:
    from ridgeline.results.power import Power
    from ridgeline.results.runfolder import RunFolder

_OUTCOME = FIELDS.index("outcome")
EXPORTS = ("aiperf", "inferencex")


class Store:
    """Records and scrapes to the disk as they come, so that a killed replay keeps what it had; without a folder it only
    counts. `on_sample` takes a scrape, None where there is no folder."""

    def __init__(self, folder: Path | None, scrapes: bool = False) -> None:
        from ridgeline.results.records import RecordWriter
        from ridgeline.results.samples import SampleWriter

        self.folder = folder
        self.path = folder / "records.parquet" if folder else None
        self.succeeded = 0
        self._writer: RecordWriter | None = None
        self._sink: BackgroundSink | None = None
        self._samples: SampleWriter | None = None
        self.on_sample: Callable[[ServerSample], None] | None = None
        if folder is None or self.path is None:
            return
        if self.path.exists():
            raise InputError(
                [Problem(f"`{self.path}` exists", key="--out", hint="records are never overwritten: name another")]
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = RecordWriter(self.path)
            if scrapes:
                self._samples = SampleWriter(folder / "samples.parquet")
                self.on_sample = self._samples.write
        except OSError as error:
            raise EnvironmentFailed(f"cannot write to `{folder}`: {error}") from error
        self._sink = BackgroundSink(self._writer.write_rows, self._flush)

    def _flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()
        if self._samples is not None:
            self._samples.flush()

    def take(self, rows: Sequence[Row]) -> None:
        """An `on_rows`."""
        self.succeeded += sum(row[_OUTCOME] == "ok" for row in rows)
        if self._sink is not None:
            self._sink.take(rows)

    def finish(self, result: Replay) -> Replay:
        """The replay has ended: the streams become Parquet files. Gives the replay with its scrapes."""
        from ridgeline.results.records import replay_metadata
        from ridgeline.results.samples import read_samples

        if self._sink is not None and self._writer is not None:
            sink, self._sink = self._sink, None
            sink.__exit__(None, None, None)
            if self._samples is not None:
                self._samples.finish()  # before the records, whose stream is what `results recover` looks for
            self._writer.finish(replay_metadata(result))
            if self._samples is not None:
                samples = read_samples(self._samples.path) if self._samples.path.exists() else ()
                return replace(result, samples=tuple(sorted(samples, key=lambda sample: sample.at_ns)))
        return result

    def __enter__(self) -> Store:
        if self._sink is not None:
            self._sink.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is None:
            return
        failed = None
        try:
            if self._sink is not None:
                self._sink.__exit__(kind, error, trace)
                failed = self._sink.error
            self._writer.close()
            if self._samples is not None:
                self._samples.close()
        except OSError as raised:
            failed = raised
        if self._writer.part.exists():
            sys.stderr.write(
                f"the replay did not end: its records so far are in {self._writer.part}; "
                f"`ridgeline results recover {self.folder}` makes them readable\n"
            )
        if isinstance(failed, OSError):
            raise EnvironmentFailed(f"cannot write records: {failed}", hint="make room, or give another --out")


def power_of(log: Path | None, result: Replay, point: Point, gpus: int) -> Power | None:
    """Energy over the measured window from a power log; None without one. A log that cannot be read is told."""
    from ridgeline.results.power import energy_of

    if log is None:
        return None
    try:
        text = log.read_text(errors="replace")
    except OSError as error:
        raise InputError([Problem(f"cannot read `{log}`: {error}", key="--power")]) from error
    return energy_of(text, result, point, gpus)


def command_line() -> tuple[str, ...]:
    """The command as it was typed, without what headers say: that may be a key."""
    told = []
    for before, word in pairwise(("", *sys.argv[2:])):
        flag, equals, value = word.partition("=")
        if before == "--header":
            flag, equals, value = "", "", word
        elif flag != "--header" or not equals:
            told.append(word)
            continue
        told.append(f"{flag}{equals}{value.partition(':')[0]}: ...")
    return ("ridgeline", "replay", *told)


def run_folder(folder: Path, settings: Mapping[str, Any]) -> RunFolder:
    """The folder as a run, so that whatever reads runs reads it too. Called once the records have their file."""
    from ridgeline.results.runfolder import RunFolder, RunHeader

    header = RunHeader(
        name=folder.name,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command_line(),
        ridgeline=__version__,
        settings=dict(settings),
    )
    return RunFolder.adopt(folder, header)


def add_cell(folder: RunFolder, cell: Cell, point: Point) -> None:
    """The replay's cell with its records, which are not written twice: they are the same files."""
    target = folder.write_cell(cell, point, None, None)
    for name in ("records.parquet", "samples.parquet"):
        if (folder.path / name).exists():
            (target / name).hardlink_to(folder.path / name)
    folder.close()


def write_exports(
    folder: Path,
    result: Replay,
    cell: Cell,
    point: Point,
    wanted: Sequence[str],
    about: Mapping[str, Any],
    power: Power | None = None,
) -> list[Path]:
    """The summary and the foreign forms, from the records on disk. Gives what was written."""
    from ridgeline.results.export.agentic import agentic_row
    from ridgeline.results.export.aiperf import summary
    from ridgeline.results.export.aiperf_rows import jsonl
    from ridgeline.results.export.server_metrics import server_metrics
    from ridgeline.results.formats import POINT
    from ridgeline.results.stored import StoredReplay

    written = [folder / "point.json"]
    written[0].write_bytes(POINT.encode(point))
    if not wanted:
        return written
    full = StoredReplay(folder / "records.parquet", folder / "samples.parquet")
    origin = int(result.settings["origin_unix_ns"])
    if "aiperf" in wanted:
        with (folder / "profile_export.jsonl").open("wb") as lines:
            lines.writelines(jsonl(full, origin))
        reasons = ["local_trace"] + ([f"ridgeline: {reason}" for reason in point.reasons])
        metadata = {
            "dataset": dict(about),
            "scenario": "inferencex-agentx-mvp" if cell.scenario.kind == "agentic-coding" else "fixed-seq-len",
            "submission_valid": False,  # AIPerf's word: only its public data sets count
            "submission_invalid_reasons": reasons,
        }
        _json(folder / "profile_export_aiperf.json", summary(full, origin, metadata=metadata))
        written += [folder / "profile_export.jsonl", folder / "profile_export_aiperf.json"]
        if full.samples:
            _json(folder / "server_metrics_export.json", server_metrics(full, origin))
            written.append(folder / "server_metrics_export.json")
    if "inferencex" in wanted and cell.scenario.kind == "agentic-coding":
        energy = power.fields if power is not None else {}
        _json(folder / "agg.json", agentic_row(full, cell, dataset=about) | energy)
        written.append(folder / "agg.json")
    return written


def _json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(_finite(document), indent=1, allow_nan=False, default=str) + "\n")


def _finite(value: Any) -> Any:
    """Non-finite numbers as null, as AIPerf writes them."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
