"""How the catalogue came to its shape: a numbered list that only grows.

In: a connection. Out: the catalogue at the newest number. Each entry is plain SQL for both databases, written once and
never edited; a catalogue that a newer Ridgeline wrote is refused. `{clustered}` keeps a table in the order of its key
where the database can, `{bytes}` is its type of bytes. What SQL cannot say is a function between the statements.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, text

from ridgeline import __version__
from ridgeline.core.errors import InputError
from ridgeline.results.store import blocks


class Migration(NamedTuple):
    """One step: what it brings, and its statements in order."""

    number: int
    title: str
    statements: tuple[str | Callable[[Connection], None], ...]


def _pack_heads(connection: Connection) -> None:
    from ridgeline.results.store import heads  # it loads Arrow, which opening a catalogue does not need

    heads.pack(connection)


MIGRATIONS = (
    Migration(
        1,
        "imports, runs, points and their measures",
        (
            "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
            "INSERT INTO meta (name, value) VALUES ('dataset_version', '0')",
            """CREATE TABLE imports (
                no BIGINT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, format TEXT NOT NULL, version INTEGER NOT NULL,
                title TEXT NOT NULL, told TEXT NOT NULL, imported_at TEXT NOT NULL, ridgeline TEXT NOT NULL)""",
            """CREATE TABLE documents (
                import BIGINT NOT NULL REFERENCES imports (no), name TEXT NOT NULL, digest TEXT NOT NULL,
                path TEXT NOT NULL, size BIGINT NOT NULL, PRIMARY KEY (import, name))""",
            """CREATE TABLE unmapped (
                import BIGINT NOT NULL REFERENCES imports (no), name TEXT NOT NULL, count BIGINT NOT NULL,
                reason TEXT NOT NULL, example TEXT NOT NULL, PRIMARY KEY (import, name))""",
            """CREATE TABLE runs (
                no BIGINT PRIMARY KEY, id TEXT NOT NULL UNIQUE, origin TEXT NOT NULL, key TEXT NOT NULL,
                name TEXT NOT NULL, started_at TEXT, url TEXT, header TEXT NOT NULL, first_imported_at TEXT NOT NULL,
                UNIQUE (origin, key))""",
            """CREATE TABLE points (
                no BIGINT PRIMARY KEY, run BIGINT NOT NULL REFERENCES runs (no),
                import BIGINT NOT NULL REFERENCES imports (no), id TEXT NOT NULL, revision INTEGER NOT NULL,
                run_key TEXT NOT NULL, repeat INTEGER NOT NULL, attempt INTEGER NOT NULL,
                cell_fingerprint TEXT NOT NULL, name TEXT NOT NULL, line TEXT NOT NULL, series TEXT NOT NULL,
                source TEXT NOT NULL, concurrency INTEGER NOT NULL, gpus INTEGER NOT NULL, validity TEXT NOT NULL,
                model TEXT, scenario TEXT, hardware TEXT, framework TEXT, precision TEXT, measured_at TEXT,
                derived_by TEXT NOT NULL, derived_at TEXT NOT NULL, digest TEXT NOT NULL, body TEXT NOT NULL,
                UNIQUE (id, revision))""",
            "CREATE INDEX points_of_a_cell ON points (run, run_key, repeat, attempt, revision)",
            "CREATE INDEX points_by_line ON points (line, source)",
            "CREATE TABLE measure_names (no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, unit TEXT NOT NULL)",
            """CREATE TABLE measures (
                measure INTEGER NOT NULL, point BIGINT NOT NULL, value DOUBLE PRECISION NOT NULL, n BIGINT,
                PRIMARY KEY (measure, point)){clustered}""",
            """CREATE TABLE failures (
                run BIGINT NOT NULL REFERENCES runs (no), run_key TEXT NOT NULL, attempt INTEGER NOT NULL,
                name TEXT NOT NULL, line TEXT NOT NULL, concurrency INTEGER NOT NULL, layer TEXT NOT NULL,
                body TEXT NOT NULL, PRIMARY KEY (run, run_key, attempt))""",
            """CREATE VIEW current_points AS
                SELECT p.* FROM points p WHERE NOT EXISTS (
                    SELECT 1 FROM points q
                    WHERE q.run = p.run AND q.run_key = p.run_key AND q.repeat = p.repeat
                    AND (q.attempt > p.attempt OR (q.attempt = p.attempt AND q.revision > p.revision)))""",
        ),
    ),
    Migration(
        2,
        "provenance, documents of a point, request files, evaluations and changelog",
        (
            """CREATE TABLE provenance (
                point BIGINT NOT NULL REFERENCES points (no), side TEXT NOT NULL, name TEXT NOT NULL,
                value TEXT NOT NULL, PRIMARY KEY (point, side, name))""",
            "CREATE INDEX provenance_by_name ON provenance (name, side)",
            """CREATE TABLE proofs (
                point BIGINT NOT NULL REFERENCES points (no), kind TEXT NOT NULL, body TEXT NOT NULL,
                PRIMARY KEY (point, kind))""",
            """CREATE TABLE files (
                point BIGINT NOT NULL REFERENCES points (no), kind TEXT NOT NULL, path TEXT NOT NULL,
                digest TEXT NOT NULL, size BIGINT NOT NULL, PRIMARY KEY (point, kind))""",
            """CREATE TABLE evaluations (
                run BIGINT NOT NULL REFERENCES runs (no), key TEXT NOT NULL, revision INTEGER NOT NULL,
                task TEXT NOT NULL, metric TEXT NOT NULL, score DOUBLE PRECISION, stderr DOUBLE PRECISION, n BIGINT,
                line TEXT NOT NULL, concurrency INTEGER, measured_at TEXT, body TEXT NOT NULL, digest TEXT NOT NULL,
                PRIMARY KEY (run, key, revision))""",
            """CREATE TABLE changelog (
                run BIGINT NOT NULL REFERENCES runs (no), digest TEXT NOT NULL, base_ref TEXT NOT NULL,
                head_ref TEXT NOT NULL, config_keys TEXT NOT NULL, description TEXT NOT NULL, link TEXT, date TEXT,
                append_only INTEGER NOT NULL, PRIMARY KEY (run, digest))""",
        ),
    ),
    Migration(
        3,
        "channels: a run is where its last receipt put it",
        (
            """CREATE TABLE receipts (
                no BIGINT PRIMARY KEY, run BIGINT NOT NULL REFERENCES runs (no), channel TEXT NOT NULL,
                at TEXT NOT NULL, who TEXT NOT NULL, note TEXT NOT NULL)""",
            "CREATE INDEX receipts_of_a_run ON receipts (run, no)",
            """CREATE VIEW run_channels AS
                SELECT r.run, r.channel, r.at FROM receipts r
                WHERE r.no = (SELECT MAX(q.no) FROM receipts q WHERE q.run = r.run) AND r.channel <> 'withdrawn'""",
            # The newest run of a line that gave anything plottable provides all its concurrencies.
            """CREATE VIEW latest_lines AS
                SELECT channel, line, source, run FROM (
                    SELECT channel, line, source, run, ROW_NUMBER() OVER (
                        PARTITION BY channel, line, source ORDER BY COALESCE(started_at, '') DESC, run DESC) AS place
                    FROM (
                        SELECT DISTINCT c.channel, p.line, p.source, p.run, r.started_at
                        FROM points p JOIN runs r ON r.no = p.run JOIN run_channels c ON c.run = p.run
                        WHERE p.validity <> 'invalid') AS measured) AS ranked
                WHERE place = 1""",
            """CREATE VIEW latest_points AS
                SELECT p.*, l.channel FROM current_points p
                JOIN latest_lines l ON l.run = p.run AND l.line = p.line AND l.source = p.source""",
        ),
    ),
    Migration(
        4,
        "values of a measure in blocks of many points",
        (
            """CREATE TABLE measure_blocks (
                measure INTEGER NOT NULL, first BIGINT NOT NULL, numbers {bytes} NOT NULL, packed {bytes} NOT NULL,
                PRIMARY KEY (measure, first))""",
            blocks.pack,
            "DROP TABLE measures",
        ),
    ),
    Migration(
        5,
        "heads of points in blocks, and with the values their counts, units and reasons",
        (
            "CREATE TABLE point_blocks (first BIGINT PRIMARY KEY, packed {bytes} NOT NULL)",
            "ALTER TABLE measure_blocks ADD COLUMN counts {bytes}",
            "ALTER TABLE measure_blocks ADD COLUMN said TEXT",
            _pack_heads,
            # What the views and the counts of runs look at lies in the index: a row has a body of kilobytes.
            "DROP VIEW latest_points",  # heads tell them, many times faster
            "DROP VIEW latest_lines",
            "DROP INDEX points_of_a_cell",
            """CREATE INDEX points_of_a_cell ON points
                (run, run_key, repeat, attempt, revision, no, line, source, validity, measured_at)""",
        ),
    ),
)
NEWEST = MIGRATIONS[-1].number
_LEDGER = """CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER PRIMARY KEY, title TEXT NOT NULL, applied_at TEXT NOT NULL, ridgeline TEXT NOT NULL)"""


def migrate(connection: Connection, upto: int = NEWEST) -> list[int]:
    """Apply what is missing, inside the connection's transaction; numbers that were applied.

    Raises InputError when the catalogue has a number this Ridgeline does not know.
    """
    connection.execute(text(_LEDGER))
    applied = set(connection.execute(text("SELECT number FROM migrations")).scalars())
    unknown = sorted(applied - {migration.number for migration in MIGRATIONS})
    if unknown:
        raise InputError(
            f"the catalogue has migration {unknown[-1]}; this Ridgeline knows up to {NEWEST}",
            hint="open it with the Ridgeline that wrote it, or a newer one",
        )
    sqlite = connection.dialect.name == "sqlite"
    words = {"{clustered}": " WITHOUT ROWID" if sqlite else "", "{bytes}": "BLOB" if sqlite else "BYTEA"}
    done = []
    for migration in MIGRATIONS:
        if migration.number in applied or migration.number > upto:
            continue
        for statement in migration.statements:
            if callable(statement):
                statement(connection)
                continue
            for word, meaning in words.items():
                statement = statement.replace(word, meaning)
            connection.exec_driver_sql(statement)
        connection.execute(
            text("INSERT INTO migrations VALUES (:number, :title, :at, :ridgeline)"),
            {
                "number": migration.number,
                "title": migration.title,
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "ridgeline": __version__,
            },
        )
        done.append(migration.number)
    return done


def at_newest(connection: Connection) -> bool:
    """Whether the catalogue exists and lacks nothing; reads only."""
    from sqlalchemy import inspect

    if not inspect(connection).has_table("migrations"):
        return False
    return bool(connection.execute(text("SELECT MAX(number) FROM migrations")).scalar() == NEWEST)
