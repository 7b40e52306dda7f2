"""A run on disk: what finished stays, what did not leaves no trace, and a second start goes on where the first ended.

    RUN/run.json                                     who ran what (RunHeader) and every later resumption
    RUN/cells/KEY/{cell,deployment,point}.json       a finished cell; KEY is the run key's first 16 digits, with
    RUN/cells/KEY/{records,samples}.parquet, logs/   `.N` from the second attempt on
    RUN/cells/KEY/artifacts/                         what a launch script left
    RUN/cells/KEY/evaluation.json                    of the same cell, laid there when it was scored
    RUN/evals/eval_KEY/                              an accuracy evaluation with lm-eval's own files
    RUN/failures/KEY/N/failure.json, logs/           attempt N failed, in which layer and why

In: cells with their points, replays and logs. Out: the same, read back. It knows nothing of how they were made.
Formats and versions: docs/reference/run-folder.md.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.core.point import Caution, Point
from ridgeline.core.record import Replay
from ridgeline.core.where import Where
from ridgeline.results import durable, formats
from ridgeline.results.frontier import Exclusion

KEY_DIGITS = 16
EVALUATION = "evaluation.json"
MOST_ARTIFACTS = 256 << 20  # bytes of one cell


@dataclass(frozen=True, kw_only=True)
class RunHeader:
    """Who ran what. `created_at`: aware ISO time; `command`: as typed; `resumed_at`: later starts in this folder."""

    name: str
    created_at: str
    command: tuple[str, ...] = ()
    ridgeline: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    resumed_at: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An attempt that gave no point. `layer`: where it failed (check, launch, replay, results, ...)."""

    run_key: str
    name: str
    line: str
    concurrency: int
    layer: str
    message: str
    hint: str = ""
    attempt: int = 1
    failed_at: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exclusion(self) -> Exclusion:
        """How a frontier lists it."""
        return Exclusion(self.run_key, self.name, "failed", f"{self.layer}: {self.message}")


@dataclass(frozen=True)
class StoredCell:
    """Body of cell.json."""

    run_key: str
    attempt: int
    cell: Cell


class RunFolder:
    """One run on disk. Made by `create_or_open` (the one writer) or `open` (any number of readers)."""

    def __init__(self, path: Path, header: RunHeader, lock: int | None = None) -> None:
        self.path = path
        self.header = header
        self._lock = lock

    @classmethod
    def create_or_open(cls, path: Path, header: RunHeader) -> RunFolder:
        """The run at `path` for writing: new with `header`, or an old one, whose header stays and notes the resumption.

        Leftovers of a killed writer are removed. Raises EnvironmentFailed when another process writes to it or the
        disk refuses, InputError when something else lies there or a newer Ridgeline wrote it.
        """
        with durable.environment(f"write to {path}"):
            if path.exists() and not (path / "run.json").exists() and _is_foreign(path):
                message = "exists and is not a run folder"
                raise InputError([Problem(message, Where(str(path)), hint="choose an empty or new folder")])
            path.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(path)
            try:
                return cls._opened(path, header, lock)
            except BaseException:
                os.close(lock)
                raise

    @classmethod
    def adopt(cls, path: Path, header: RunHeader) -> RunFolder:
        """A folder that already holds files of ours (a replay's records) as a run for writing. Raises as
        `create_or_open` does, except that other files are no objection."""
        with durable.environment(f"write to {path}"):
            lock = _take_lock(path)
            try:
                return cls._opened(path, header, lock)
            except BaseException:
                os.close(lock)
                raise

    @classmethod
    def _opened(cls, path: Path, header: RunHeader, lock: int) -> RunFolder:
        if (path / "run.json").exists():
            before = _read_header(path)
            header = replace(before, resumed_at=(*before.resumed_at, header.created_at))
        durable.write_bytes(path / "run.json", formats.RUN.encode(header))
        for folder in (path, path / "cells", *sorted((path / "failures").glob("*"))):
            folder.mkdir(exist_ok=True)
            durable.remove_leftovers(folder)
        return cls(path, header, lock)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run at `path` for reading, while it runs or after. Raises InputError when there is none."""
        if not (path / "run.json").exists():
            raise InputError([Problem("no run here: run.json is missing", Where(str(path)), hint="name a run folder")])
        return cls(path, _read_header(path))

    def close(self) -> None:
        """Let another writer in. A writer that dies is let go by the system."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Writing

    def write_cell(
        self,
        cell: Cell,
        point: Point,
        replay: Replay | None,
        deployment: Deployment | None,
        logs: Mapping[str, Path] | None = None,
        extra: Mapping[str, Any] | None = None,
        artifacts: Path | None = None,
    ) -> Path:
        """Store a finished cell in one step; returns its folder.

        `logs`: name -> file to copy (one that does not exist is left out). `extra`: name -> plain data or frozen
        values, stored as NAME.json (expectations, evidence, findings). `artifacts`: a folder to copy, without links
        and what is hidden in it.

        Raises EnvironmentFailed when the disk refuses (nothing is left of this cell, others are intact) and
        ValueError for NaN, or for an attempt that is stored already.
        """
        self._must_write()
        target = self.path / "cells" / _folder(point.run_key, point.attempt)
        if target.exists():
            raise ValueError(f"attempt {point.attempt} of {point.run_key} is stored already: {target}")
        with durable.environment(f"store {cell.name} in {self.path}"), durable.new_folder(target) as folder:
            stored = StoredCell(point.run_key, point.attempt, cell)
            (folder / "cell.json").write_bytes(formats.CELL.encode(stored))
            (folder / "point.json").write_bytes(formats.POINT.encode(point))
            if deployment is not None:
                (folder / "deployment.json").write_bytes(formats.DEPLOYMENT.encode(deployment))
            if replay is not None:
                from ridgeline.results import records, samples  # Arrow is slow to import; readers of points need it not

                records.write_records(folder / "records.parquet", replay)
                samples.write_samples(folder / "samples.parquet", replay.samples)
            for name, value in (extra or {}).items():
                (folder / f"{_plain_name(name)}.json").write_bytes(formats.encode_plain(value))
            _copy_logs(folder, logs or {})
            if artifacts is not None:
                _copy_tree(artifacts, folder / "artifacts")
        return target

    def write_failure(
        self,
        cell: Cell,
        run_key: str,
        layer: str,
        message: str,
        *,
        hint: str = "",
        logs: Mapping[str, Path] | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> Failure:
        """Record that an attempt failed: it counts as an attempt, and a later success supersedes it.

        Raises EnvironmentFailed when the disk refuses.
        """
        self._must_write()
        failure = Failure(
            run_key=run_key,
            name=cell.name,
            line=cell.line,
            concurrency=cell.concurrency,
            layer=layer,
            message=message,
            hint=hint,
            attempt=self.attempts(run_key) + 1,
            failed_at=datetime.now(UTC).isoformat(timespec="seconds"),
            detail=dict(detail or {}),
        )
        target = self.path / "failures" / run_key[:KEY_DIGITS] / str(failure.attempt)
        with (
            durable.environment(f"store the failure of {cell.name} in {self.path}"),
            durable.new_folder(target) as folder,
        ):
            (folder / "failure.json").write_bytes(formats.FAILURE.encode(failure))
            _copy_logs(folder, logs or {})
        return failure

    def _must_write(self) -> None:
        if self._lock is None:
            raise ValueError("this run folder was opened for reading; use RunFolder.create_or_open to write")

    # Reading

    def finished(self, run_key: str) -> bool:
        """Whether a point of this run key is stored."""
        return self._latest(run_key) is not None

    def attempts(self, run_key: str) -> int:
        """How many attempts were made, finished and failed ones together (the highest number given out)."""
        done = [_attempt(path.name) for path in self._folders(run_key)]
        failed = [int(path.name) for path in (self.path / "failures" / run_key[:KEY_DIGITS]).glob("[0-9]*")]
        return max([0, *done, *failed])

    def points(self) -> tuple[Point, ...]:
        """Every stored point by line, concurrency and attempt. Raises InputError for a damaged or newer one."""
        found = [self._point(path) for path in self._all_cells()]
        return tuple(sorted(found, key=lambda point: (point.line, point.concurrency, point.attempt, point.id)))

    def failures(self) -> tuple[Failure, ...]:
        """The last failure of every run key that has no point yet."""
        found = []
        for folder in sorted((self.path / "failures").glob("*")):
            last = max(folder.glob("[0-9]*"), key=lambda path: int(path.name), default=None)
            if last is None:
                continue
            file = last / "failure.json"
            failure = formats.FAILURE.decode(file.read_bytes(), Failure, str(file))
            if not self.finished(failure.run_key):
                found.append(failure)
        return tuple(sorted(found, key=lambda failure: (failure.line, failure.concurrency)))

    def cell_folder(self, run_key: str) -> Path:
        """Folder of the last finished attempt of a run key (or an unambiguous prefix of it). Raises InputError."""
        latest = self._latest(run_key)
        if latest is None:
            raise InputError([Problem(f"no finished cell with run key {run_key}", Where(str(self.path)))])
        return latest

    def cell_of(self, run_key: str) -> Cell:
        """The cell that was run under a run key."""
        file = self.cell_folder(run_key) / "cell.json"
        return formats.CELL.decode(file.read_bytes(), StoredCell, str(file)).cell

    def point_of(self, run_key: str) -> Point:
        """The point of the last finished attempt."""
        return self._point(self.cell_folder(run_key))

    def deployment_of(self, run_key: str) -> Deployment | None:
        """What was started, None where nothing was."""
        file = self.cell_folder(run_key) / "deployment.json"
        return formats.DEPLOYMENT.decode(file.read_bytes(), Deployment, str(file)) if file.exists() else None

    def replay_of(self, run_key: str) -> Replay:
        """Records and samples of the last finished attempt. Raises InputError when none were stored."""
        from ridgeline.results import records

        folder = self.cell_folder(run_key)
        return records.read_records(folder / "records.parquet", folder / "samples.parquet")

    def _point(self, folder: Path) -> Point:
        file = folder / "point.json"
        return with_evaluation(formats.POINT.decode(file.read_bytes(), Point, str(file)), folder / EVALUATION)

    def _all_cells(self) -> list[Path]:
        return sorted(path for path in (self.path / "cells").glob("[0-9a-f]*") if (path / "point.json").exists())

    def _folders(self, run_key: str) -> list[Path]:
        prefix = run_key[:KEY_DIGITS]
        return [path for path in self._all_cells() if path.name == prefix or path.name.startswith(f"{prefix}.")]

    def _latest(self, run_key: str) -> Path | None:
        return max(self._folders(run_key), key=lambda path: _attempt(path.name), default=None)


def with_evaluation(point: Point, file: Path) -> Point:
    """The point with the accuracy evaluation that lies beside it, if any: its status among the facts, all of it in the
    provenance, and a caution when it is below its bar. Raises InputError when the file is damaged."""
    try:
        told = json.loads(file.read_bytes())
        status = str(told["status"])
    except FileNotFoundError:
        return point
    except (ValueError, TypeError, KeyError) as error:
        raise InputError([Problem(f"is no evaluation: {error}", Where(str(file)))]) from error
    cautions = point.cautions
    if status == "failed":
        text = f"{told.get('task')} scored {told.get('score')}, and the bar is {told.get('bar')}"
        cautions = (*cautions, Caution("accuracy", text, "look at the samples of the evaluation"))
    facts = {**point.facts, "evaluation": status}
    return replace(point, facts=facts, cautions=cautions, provenance={**point.provenance, "evaluation": told})


def _folder(run_key: str, attempt: int) -> str:
    return run_key[:KEY_DIGITS] + (f".{attempt}" if attempt > 1 else "")


def _attempt(folder: str) -> int:
    return int(folder.partition(".")[2] or 1)


def _read_header(path: Path) -> RunHeader:
    file = path / "run.json"
    return formats.RUN.decode(file.read_bytes(), RunHeader, str(file))


def _is_foreign(path: Path) -> bool:
    return not path.is_dir() or any(not item.name.startswith((durable.LEFTOVER, ".lock")) for item in path.iterdir())


def _take_lock(path: Path) -> int:
    """A lock of the system's on RUN/.lock: it belongs to this process, not to children, and goes when it dies."""
    handle = os.open(path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        os.close(handle)
        raise EnvironmentFailed(
            f"another process is writing to {path}", hint="wait for it, stop it, or choose another folder with --out"
        ) from error
    return handle


def _plain_name(name: str) -> str:
    if not name or name != Path(name).name or name.startswith(".") or name in ("cell", "point", "deployment"):
        raise ValueError(f"not a name for a file of a cell: {name!r}")
    return name


def _copy_logs(folder: Path, logs: Mapping[str, Path]) -> None:
    for name, source in logs.items():
        if not source.exists():  # a service that never wrote a line; no reason to lose the cell
            continue
        (folder / "logs").mkdir(exist_ok=True)
        shutil.copyfile(source, folder / "logs" / _plain_name(name))


def _copy_tree(source: Path, target: Path) -> None:
    """Copy files, the smallest first, up to a size; what is too much is named in LEFT-OUT."""
    files = [path for path in source.rglob("*") if path.is_file() and not path.is_symlink()]
    files = [path for path in files if not path.relative_to(source).parts[0].startswith(".")]
    room, refused = MOST_ARTIFACTS, []
    for path in sorted(files, key=lambda path: (path.stat().st_size, path)):
        name = path.relative_to(source)
        if path.stat().st_size > room:
            refused.append(f"{name}\n")
            continue
        room -= path.stat().st_size
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)
    if refused:
        target.mkdir(exist_ok=True)
        (target / "LEFT-OUT").write_text("".join(sorted(refused)))
