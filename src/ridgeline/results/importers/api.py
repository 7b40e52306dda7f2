"""What an importer takes and gives, whatever the format.

In: a bundle (names and files of one import). Out: runs with points, failures, evaluations and changelog entries, and
a list of everything the importer saw and could not map. An importer knows nothing of the store; reading the same
bundle twice gives equal values, so that a store can tell "nothing new" and derive everything again from kept files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ridgeline.core.cell import digest
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Point
from ridgeline.core.record import Replay
from ridgeline.core.where import Where
from ridgeline.results.runfolder import Failure

MOST_BYTES = 1 << 30  # a JSON document above this is no result of a benchmark


def json_or_none(path: Path) -> Any:
    """A file as JSON data, None for one that is none or too large to be a result. Non-finite numbers become None."""
    try:
        if path.stat().st_size > MOST_BYTES:
            return None
        return json.loads(path.read_bytes(), parse_constant=lambda _: None)
    except (ValueError, OSError, RecursionError):
        return None


@dataclass(frozen=True)
class Bundle:
    """The files of one import by relative name. `title`: what it is called in messages; `told`: what the user says of
    it because the files do not (gpus, hardware, precision, framework, model_prefix, image, concurrency, isl, osl)."""

    title: str
    files: Mapping[str, Path]
    told: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_file(cls, path: Path) -> Bundle:
        return cls(path.name, {path.name: path})

    @classmethod
    def of_folder(cls, path: Path, patterns: Iterable[str]) -> Bundle:
        """Files under `path` whose relative name matches one of the patterns (`*` crosses folders)."""
        wanted = tuple(patterns)
        found = {}
        for file in sorted(item for item in path.rglob("*") if item.is_file()):
            name = file.relative_to(path).as_posix()
            if any(fnmatchcase(name, pattern) for pattern in wanted):
                found[name] = file
        return cls(path.name, found)

    @classmethod
    def of_json(cls, path: Path, is_one: Callable[[Any], object], *, deep: bool = False) -> Bundle | None:
        """JSON files at `path` (in its folders too, when `deep`) whose contents `is_one` takes; None without any."""
        if path.is_file():
            return cls.of_file(path) if path.suffix == ".json" and is_one(json_or_none(path)) else None
        listed = sorted(path.rglob("*.json") if deep else path.glob("*.json"))
        files = {file.relative_to(path).as_posix(): file for file in listed if is_one(json_or_none(file))}
        return cls(path.name, files) if files else None

    def matching(self, pattern: str) -> list[str]:
        """Names that match, sorted."""
        return sorted(name for name in self.files if fnmatchcase(name, pattern))

    def text(self, name: str) -> str:
        """Contents of a file. Raises InputError when it is not UTF-8 text."""
        try:
            return self.files[name].read_text("utf-8")
        except UnicodeDecodeError as error:
            raise InputError([Problem(f"not UTF-8 text: {error}", self.where(name))]) from error

    def data(self, name: str) -> Any:
        """A file as JSON data; non-finite numbers become None. Raises InputError."""
        text = self.text(name)
        try:
            return json.loads(text, parse_constant=lambda _: None)
        except ValueError as error:
            raise InputError([Problem(f"not a JSON document: {error}", self.where(name))]) from error
        except RecursionError as error:
            raise InputError(
                [Problem("not a result: lists within lists too deep to read", self.where(name))]
            ) from error

    def where(self, name: str) -> Where:
        return Where(str(self.files[name]))


@dataclass(frozen=True, slots=True)
class Unmapped:
    """Something that was read and has no place with us: how often, an example, and why it was left out."""

    name: str
    count: int
    reason: str
    example: str = ""


@dataclass(frozen=True, kw_only=True)
class ImportedPoint:
    """A point with what belongs to it. `repeat` counts measurements of one cell in one run; a later `point.attempt` of
    the same repeat supersedes an earlier one. `asked`, `found`: provenance before and after the start. `documents`:
    plain data by kind (expectations, evidence, ...). Records and samples are files of the bundle or a replay."""

    point: Point
    repeat: int = 1
    asked: Mapping[str, Any] = field(default_factory=dict)
    found: Mapping[str, Any] = field(default_factory=dict)
    documents: Mapping[str, Any] = field(default_factory=dict)
    records: Path | None = None
    samples: Path | None = None
    replay: Replay | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """An accuracy result. `key` is unique inside the run; `score` is None when only a flexible match was scored."""

    key: str
    task: str
    metric: str
    score: float | None
    stderr: float | None
    n: int | None
    line: str
    concurrency: int | None
    measured_at: str | None
    facts: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ChangelogEntry:
    """Why a run was made."""

    base_ref: str
    head_ref: str
    config_keys: tuple[str, ...]
    description: str
    link: str | None = None
    date: str | None = None
    append_only: bool = False


@dataclass(frozen=True, kw_only=True)
class ImportedRun:
    """One execution. `key` names it for good within its origin (a CI run's number, a folder's header)."""

    origin: str
    key: str
    name: str
    started_at: str | None = None
    url: str | None = None
    header: Mapping[str, Any] = field(default_factory=dict)
    points: tuple[ImportedPoint, ...] = ()
    failures: tuple[Failure, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    changelog: tuple[ChangelogEntry, ...] = ()

    @property
    def id(self) -> str:
        """16 hexadecimal digits that follow from origin and key."""
        return digest({"origin": self.origin, "key": self.key})[:16]


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Everything of one bundle."""

    format: str
    version: int
    runs: tuple[ImportedRun, ...]
    unmapped: tuple[Unmapped, ...] = ()


@dataclass(frozen=True)
class Importer:
    """One foreign format. `take` finds the files of it at a path, or None when the path holds none; `read` turns them
    into values (`derive`: work every value out again from raw data instead of believing stored ones). `version` goes
    up whenever `read` gives other values for the same files."""

    name: str
    version: int
    title: str
    take: Callable[[Path], Bundle | None]
    read: Callable[[Bundle, bool], Imported]


class Notes:
    """Collects what could not be mapped, counted by name."""

    def __init__(self) -> None:
        self._found: dict[str, Unmapped] = {}

    def add(self, name: str, reason: str, example: object = "") -> None:
        before = self._found.get(name)
        if before:
            self._found[name] = Unmapped(name, before.count + 1, before.reason, before.example)
        else:
            self._found[name] = Unmapped(name, 1, reason, str(example)[:120])

    def all(self) -> tuple[Unmapped, ...]:
        return tuple(self._found[name] for name in sorted(self._found))
