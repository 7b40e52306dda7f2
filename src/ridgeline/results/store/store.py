"""The store as the rest of the house uses it.

In: a location. Out: imports with counts, points, frontiers, requests, channels, rebuilds. One call, one transaction:
files first, then the catalogue names them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, insert, select, update

from ridgeline import __version__
from ridgeline.core.cell import digest
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Axis, Point, Source
from ridgeline.results import importers
from ridgeline.results.frontier import Frontier
from ridgeline.results.importers.api import Bundle, Imported, Importer, Unmapped
from ridgeline.results.store import channels, ingest, query
from ridgeline.results.store import tables as t
from ridgeline.results.store.database import Database
from ridgeline.results.store.filing import Filed, Files
from ridgeline.results.store.ingest import Counts
from ridgeline.results.store.location import Location, locate

if TYPE_CHECKING:
    import pyarrow as pa

    from ridgeline.results.store.heads import Heads


@dataclass(frozen=True, slots=True)
class Added:
    """What an import did. `known`: the same files had been read by the same importer, and nothing was looked at."""

    format: str
    title: str
    runs: tuple[str, ...]
    counts: Counts
    unmapped: tuple[Unmapped, ...]
    known: bool = False


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What deriving again found. `revised`: points whose values changed; `missing`: files that are gone."""

    imports: int
    counts: Counts
    missing: tuple[str, ...]


class Store:
    """A catalogue and its files. Opening makes or migrates it."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.database = Database(location)
        self.files = Files(location.data)
        self._heads: Heads | None = None
        self._columns: tuple[Heads, query.Columns] | None = None

    @classmethod
    def open(cls, target: str | Path, data: Path | None = None) -> Store:
        """The store at a folder or PostgreSQL address (see `locate`)."""
        return cls(locate(target, data))

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Importing

    def add_path(
        self,
        path: Path,
        *,
        format: str | None = None,
        told: Mapping[str, str] | None = None,
        channel: str = channels.LOCAL,
    ) -> Added:
        """Import a file or folder. Reading it twice changes nothing the second time. Raises InputError for what no
        importer recognises or what is damaged, EnvironmentFailed when disk or database refuse."""
        channels.check(channel)
        if channel == channels.PUBLISHED:
            raise InputError(
                [Problem("nothing is published by importing it", key="channel", hint="stage the run, then promote it")]
            )
        importer, bundle = importers.find(path, format, told)
        return self.add(importer, bundle, channel=channel)

    def add(self, importer: Importer, bundle: Bundle, *, channel: str = channels.LOCAL) -> Added:
        """Import a bundle with its importer."""
        documents = {name: self.files.keep_document(file) for name, file in sorted(bundle.files.items())
                     if file.suffix != ".parquet"}  # fmt: skip
        imported = importer.read(bundle, False)
        filed, partitions = self._file(imported, bundle)
        documents |= partitions
        mark = digest([importer.name, {name: file.digest for name, file in documents.items()}, dict(bundle.told)])
        runs = tuple(run.id for run in imported.runs)
        with self.database.writing() as connection:
            version = connection.execute(select(t.imports.c.version).where(t.imports.c.digest == mark)).scalar()
            if version is not None:
                return Added(importer.name, bundle.title, runs, Counts(), imported.unmapped, known=True)
            number = ingest.next_no(connection, t.imports)
            self._note(connection, number, mark, importer, bundle, documents, imported.unmapped)
            counts = ingest.add(connection, imported, number, filed, channel=channel)
            if counts.changed:
                query.bump(connection)
        return Added(importer.name, bundle.title, runs, counts, imported.unmapped)

    def _file(
        self, imported: Imported, bundle: Bundle
    ) -> tuple[dict[tuple[str, str], dict[str, Filed]], dict[str, Filed]]:
        """Records and samples of every point as partitions; (run, point) -> kind -> file, and by name of the bundle."""
        names = {file: name for name, file in bundle.files.items()}
        found: dict[tuple[str, str], dict[str, Filed]] = {}
        named: dict[str, Filed] = {}
        for run in imported.runs:
            for item in run.points:
                point = item.point
                cell = f"{point.run_key[:16]}.{point.attempt}"
                kept: dict[str, Filed] = {}
                for kind, path in (("records", item.records), ("samples", item.samples)):
                    if path is not None:
                        kept[kind] = self.files.keep_partition(kind, run.id, cell, path)
                        if path in names:
                            named[names[path]] = kept[kind]
                if item.replay is not None:
                    kept |= self.files.keep_replay(run.id, cell, item.replay)
                if kept:
                    found[run.id, point.id] = kept
        return found, named

    def _note(
        self,
        connection: Connection,
        number: int,
        mark: str,
        importer: Importer,
        bundle: Bundle,
        documents: Mapping[str, Filed],
        unmapped: Sequence[Unmapped],
    ) -> None:
        row = {
            "no": number,
            "digest": mark,
            "format": importer.name,
            "version": importer.version,
            "title": bundle.title,
            "told": json.dumps(dict(bundle.told), sort_keys=True),
            "imported_at": ingest.now(),
            "ridgeline": __version__,
        }
        connection.execute(insert(t.imports), row)
        rows = [
            {"import_no": number, "name": name, "digest": file.digest, "path": file.path, "size": file.size}
            for name, file in documents.items()
        ]
        if rows:
            connection.execute(insert(t.documents), rows)
        if unmapped:
            left = [
                {"import_no": number, "name": u.name, "times": u.count, "reason": u.reason, "example": u.example}
                for u in unmapped
            ]
            connection.execute(insert(t.unmapped), left)

    # Deriving again

    def rebuild(self) -> Rebuilt:
        """Work every value out again from the kept files, with this version's importers, formulas and gates.

        What differs becomes a further revision; the old one stays. An import whose files are gone is left as it is and
        named. Raises EnvironmentFailed when disk or database refuse.
        """
        with self.database.reading() as connection:
            i, d = t.imports.c, t.documents.c
            listed = connection.execute(select(i.no, i.format, i.title, i.told).order_by(i.no)).all()
            kept: dict[int, dict[str, str]] = {}
            for number, name, path in connection.execute(select(d.import_no, d.name, d.path)):
                kept.setdefault(number, {})[name] = path
        counts, missing, done = Counts(), [], 0
        for number, format, title, told in listed:
            files = {name: self.files.path(path) for name, path in kept.get(number, {}).items()}
            gone = sorted(name for name, path in files.items() if not path.exists())
            if gone:
                missing.append(f"{title}: {', '.join(gone[:3])}" + (f" and {len(gone) - 3} more" if gone[3:] else ""))
                continue
            importer = importers.importer(format)
            imported = importer.read(Bundle(title, files, json.loads(told)), True)
            filed, _ = self._file(imported, Bundle(title, files))
            with self.database.writing() as connection:
                found = ingest.add(connection, imported, number, filed, channel=channels.LOCAL, again=True)
                connection.execute(update(t.imports).where(t.imports.c.no == number).values(version=importer.version))
                if found.changed:
                    query.bump(connection)
            counts += found
            done += 1
        return Rebuilt(done, counts, tuple(missing))

    # Asking

    def dataset_version(self) -> int:
        """Goes up with every change of what a question may answer: a cache key that cannot go stale."""
        with self.database.reading() as connection:
            return query.version(connection)

    def runs(self, channel: str | None = None) -> list[dict[str, Any]]:
        """Runs, newest first: id, origin, name, three dates, channel, counts of points and failures, sources."""
        with self.database.reading() as connection:
            return query.runs(connection, self._read_heads(connection), channel)

    def run_id(self, prefix: str) -> str:
        """The run with this id, beginning of an id, or name. Raises InputError for none or several."""
        with self.database.reading() as connection:
            return query.run_id(connection, prefix)

    def points(self, *, run: str | None = None, channel: str | None = None, **facts: str) -> tuple[Point, ...]:
        """Points as they stand, by line, concurrency and repeat: of one run (all repeats), or the latest of every line
        in a channel (any, when None). `facts`: model, scenario, hardware, framework, precision, source, line."""
        with self.database.reading() as connection:
            return query.points(connection, self._read_heads(connection), run=run, channel=channel, facts=facts)

    def frontier(
        self,
        x: Axis,
        y: Axis,
        *,
        channel: str | None = None,
        source: Source | None = None,
        mix_sources: bool = False,
        north_star: Axis | None = None,
        epsilon: float = 0.0,
        **facts: str,
    ) -> Frontier:
        """The frontier of the latest points, by the rules of `results.frontier`."""
        with self.database.reading() as connection:
            heads, kept = self._read_heads(connection), self._columns
            if kept is None or kept[0] is not heads:
                kept = self._columns = heads, query.Columns(heads)
            return query.frontier(
                connection, kept[1], x, y, channel=channel, source=source, mix_sources=mix_sources,
                north_star=north_star, epsilon=epsilon, facts=facts,
            )  # fmt: skip

    def heads(self) -> Heads:
        """Every point without its values, as columns; kept for the dataset version."""
        with self.database.reading() as connection:
            return self._read_heads(connection)

    def measured(self, channel: str) -> pa.Table:
        """Every measure of the points of a channel that count: point, measure, value, unit, n, reason."""
        from ridgeline.results.store import blocks

        with self.database.reading() as connection:
            heads = self._read_heads(connection)
            rows = heads.rows(channel, latest=False)
            return blocks.table(connection, heads.no[rows], heads.table["id"].take(rows).combine_chunks())

    def _read_heads(self, connection: Connection) -> Heads:
        from ridgeline.results.store.heads import Heads

        now, kept = query.version(connection), self._heads
        if kept is None or kept.version != now:
            kept = self._heads = Heads.read(connection, now)
        return kept

    def requests(self, sql: str, *, run: str | None = None) -> pa.Table:
        """An SQL question over `records` and `samples` (all stored requests and server series, with columns `run` and
        `cell`), answered by DuckDB. Raises InputError for wrong SQL."""
        from ridgeline.results.store import requests

        return requests.ask(self.files.root, sql, run)

    def request_file(self, id: str, kind: str = "records") -> Path | None:
        """The Parquet file of a point's records or samples; None when only the point is known."""
        with self.database.reading() as connection:
            found = query.file_of(connection, id, kind)
        return self.files.path(found) if found else None

    def describe(self, id: str) -> dict[str, Any]:
        """Everything known of one point: point, provenance asked and found, proofs, files, revisions, receipts."""
        with self.database.reading() as connection:
            return query.describe(connection, id)

    def provenance(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Point id -> `side.name` -> value, for the newest revisions."""
        with self.database.reading() as connection:
            return query.provenance(connection, ids)

    def failures(self, run: str) -> list[dict[str, Any]]:
        with self.database.reading() as connection:
            return query.failures(connection, run)

    def evaluations(self, run: str | None = None) -> list[dict[str, Any]]:
        with self.database.reading() as connection:
            return query.evaluations(connection, run)

    def changelog(self, run: str | None = None) -> list[dict[str, Any]]:
        with self.database.reading() as connection:
            return query.changelog(connection, run)

    def unmapped(self) -> list[dict[str, Any]]:
        """What importers could not map, by import."""
        with self.database.reading() as connection:
            return query.unmapped(connection)

    # Channels

    def move(self, run: str, channel: str, *, who: str = "", note: str = "") -> dict[str, Any]:
        """Put a run into a channel (or withdraw it) with a receipt; the receipt. Raises InputError when the run holds
        anything but measured points and is to be published."""
        with self.database.writing() as connection:
            receipt = channels.move(connection, query.run_id(connection, run), channel, who=who, note=note)
            query.bump(connection)
        return receipt

    def receipts(self, run: str) -> list[dict[str, Any]]:
        """Receipts of a run, oldest first."""
        with self.database.reading() as connection:
            return channels.receipts(connection, query.run_id(connection, run))
