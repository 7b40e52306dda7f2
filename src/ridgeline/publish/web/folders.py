"""Shelves made of run folders: what `sweep` and `simulate` leave behind, read while it is written.

In: run folders, or folders that hold them. Out: runs. A finished cell never changes, so its point is read once. The
lock of a run folder tells whether its writer is alive; asking for it takes nothing from the writer.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ridgeline.core.errors import RidgelineError
from ridgeline.core.point import Point
from ridgeline.publish.web.data import Channel, Files, Now
from ridgeline.publish.web.memory import Held, MemoryShelf, Snapshot, held
from ridgeline.results import formats
from ridgeline.results.frontier import Exclusion
from ridgeline.results.runfolder import EVALUATION, Failure, RunFolder, with_evaluation
from ridgeline.sweep import live

LOOK_AGAIN_S = 0.5  # a listing is believed for so long
_KNOWN = frozenset({"cell", "point", "deployment"})


class FolderShelf(MemoryShelf):
    """Run folders below `roots` (each a run folder itself, or one that holds run folders) as one channel."""

    def __init__(self, roots: Sequence[Path], channel: Channel = "local") -> None:
        self.channel = channel
        self._roots = tuple(roots)
        self._points: dict[tuple[Path, str], Point | Exclusion] = {}
        self._seen: tuple[float, str, dict[str, Path]] = (0.0, "", {})
        self._snapshot = Snapshot("", ())
        self._lock = threading.Lock()

    def version(self) -> str:
        at, version, _ = self._seen
        if at and time.monotonic() - at < LOOK_AGAIN_S:
            return version
        return self._look()

    def snapshot(self) -> Snapshot:
        version = self.version()
        with self._lock:
            if self._snapshot.version != version:
                read = [one for id, path in self._seen[2].items() if (one := self._run(id, path)) is not None]
                read.sort(key=lambda one: (one.run.when, one.run.id), reverse=True)
                self._snapshot = Snapshot(version, tuple(read))
            return self._snapshot

    def files_of(self, held: Held, point: Point) -> Files:
        path = self._seen[2].get(held.run.id)
        cell = _cell_folder(path, point) if path else None
        if path is None or cell is None or not cell.exists():
            return Files()
        documents: dict[str, Any] = {}
        for file in sorted(cell.glob("*.json")):
            if file.stem not in _KNOWN:
                documents[file.stem] = msgspec.json.decode(file.read_bytes())
        return Files(
            deployment=RunFolder.open(path).deployment_of(point.run_key),
            records=_existing(cell / "records.parquet"),
            samples=_existing(cell / "samples.parquet"),
            documents=documents,
            logs={file.name: file for file in sorted((cell / "logs").glob("*")) if file.is_file()},
        )

    def _look(self) -> str:
        """List the runs and what they hold; names and times of folders only, no content."""
        found: dict[str, Path] = {}
        digest = hashlib.sha256()
        for path in sorted(set(self._found())):
            id = _free(_slug(path), found)
            found[id] = path
            digest.update(f"{id}\0{path}\0{_stamp(path / 'run.json')}\0{_live(path)}".encode())
            for part in ("cells", "failures", "evals", ".live"):
                if (path / part).is_dir():
                    names = sorted(entry.name for entry in os.scandir(path / part) if not entry.name.startswith("."))
                    digest.update("\0".join(names).encode() + b"\1")
            digest.update(_stamp(path / live.LIVE / live.STATE).encode())
        self._seen = (time.monotonic(), digest.hexdigest(), found)
        return self._seen[1]

    def _found(self) -> Iterator[Path]:
        for root in self._roots:
            if (root / "run.json").exists():
                yield root
            elif root.is_dir():
                for entry in root.iterdir():
                    if not entry.name.startswith(".") and (entry / "run.json").exists():
                        yield entry

    def _run(self, id: str, path: Path) -> Held | None:
        try:
            folder = RunFolder.open(path)
            failures: list[Failure | Exclusion] = list(folder.failures())
        except RidgelineError:  # gone since the listing, or half made: the next look has it
            return None
        points: list[Point] = []
        for cell in sorted((path / "cells").glob("[0-9a-f]*")):
            read = self._read(cell)
            if isinstance(read, Point):
                points.append(read)
            elif read is not None:
                failures.append(read)
        scored = [one for file in sorted((path / "evals").glob("eval_*/evaluation.json")) if (one := _scored(file))]
        points.sort(key=lambda point: (point.line, point.concurrency, point.attempt, point.id))
        live_now = _now(path) if _live(path) else None
        return held(id, folder.header, points, failures, live=live_now, evaluations=scored)

    def _read(self, cell: Path) -> Point | Exclusion | None:
        """The point of a cell folder, once, and again when it was scored. A damaged one is named with its reason and
        does not hide the others."""
        key = (cell, _stamp(cell / EVALUATION))
        known = self._points.get(key)
        if known is None:
            file = cell / "point.json"
            try:
                known = formats.POINT.decode(file.read_bytes(), Point, f"{cell.name}/point.json")
                known = with_evaluation(known, cell / EVALUATION)
            except FileNotFoundError:
                return None
            except RidgelineError as error:
                known = Exclusion(cell.name, cell.name, "unreadable", str(error))
            self._points[key] = known
        return known


def _scored(file: Path) -> dict[str, Any] | None:
    """What an evaluation cell scored, as shelves list it; None for a file that is none (half written, damaged)."""
    try:
        told = msgspec.json.decode(file.read_bytes())
        line, _, _ = str(told["name"]).rpartition("/")
        return {
            "task": str(told["task"]),
            "metric": str(told.get("metric") or "none"),
            "score": told.get("score"),
            "stderr": told.get("stderr"),
            "n": told.get("samples"),
            "line": line,
            "concurrency": told.get("concurrency"),
            "measured_at": None,
            "source": str(told["source"]),
        }
    except (OSError, msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return None


def _cell_folder(path: Path, point: Point) -> Path:
    return path / "cells" / (point.run_key[:16] + (f".{point.attempt}" if point.attempt > 1 else ""))


def _existing(path: Path) -> Path | None:
    return path if path.exists() else None


def _stamp(path: Path) -> str:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return "-"
    return f"{stat.st_mtime_ns}.{stat.st_size}"


def _slug(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().name).strip("-.") or "run"


def _free(slug: str, taken: dict[str, Path]) -> str:
    number = 1
    while (name := slug if number == 1 else f"{slug}-{number}") in taken:
        number += 1
    return name


def _live(path: Path) -> bool:
    """Whether a writer holds the run's lock: asked of the system (F_GETLK), without taking it."""
    try:
        handle = os.open(path / ".lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        # struct flock on Linux: type, whence, start, length, pid
        asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        return bool(struct.unpack("hhqqi4x", fcntl.fcntl(handle, fcntl.F_GETLK, asked))[0] != fcntl.F_UNLCK)
    except OSError:
        return False
    finally:
        os.close(handle)


def _now(path: Path) -> Now:
    """Where the sweep is, from what it writes down as it goes."""
    state = live.read_state(path) or {}
    cells = state.get("cells", [])
    under_way = [cell for cell in cells if cell["state"] not in ("waiting", "done", "failed", "skip")]
    settled = sum(cell["state"] in ("done", "failed", "skip") for cell in cells)
    return Now(
        cells=tuple(str(cell["name"]) for cell in under_way),
        text="; ".join(map(_step, under_way)),
        index=settled if cells else None,
        total=len(cells) or None,
    )


def _step(cell: dict[str, Any]) -> str:
    progress = cell.get("progress")
    text = f"{cell['name']}: {cell['state']}"
    if cell["state"] in ("replay", "progress") and progress:
        done, flying = progress["done"], progress["in_flight"]
        text = f"{cell['name']}: {progress['phase']}, {done:,} requests done, {flying} in flight"
    return text
