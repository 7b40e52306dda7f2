"""Connections to the catalogue: one writer at a time, readers never in its way, nothing half done.

In: a location. Out: transactions. SQLite runs in write-ahead mode with full syncs and takes its write lock at the
start of a transaction; PostgreSQL writers take an advisory lock. What the database or the disk refuses becomes an
`EnvironmentFailed`; whatever is not committed is gone, whatever is committed stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, NoSuchModuleError

from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.results import durable
from ridgeline.results.store import migrations
from ridgeline.results.store.location import Location

WAIT_S = 60.0  # for another writer
_LOCK = 7_236_548_109  # any number, the same for all writers of one PostgreSQL database


class Database:
    """The catalogue behind a location, brought to the newest migration when it is opened."""

    def __init__(self, location: Location) -> None:
        self.location = location
        if location.sqlite:
            folder = _file_of(location.url).parent
            with durable.environment(f"make {folder}"):
                folder.mkdir(parents=True, exist_ok=True)
        self.engine = _engine(location)
        try:
            with _translated(location):
                with self.engine.connect() as connection:
                    newest = migrations.at_newest(connection)
                if not newest:
                    with self.writing() as connection:
                        migrations.migrate(connection)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A consistent view of what is committed."""
        with _translated(self.location), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction with the write lock held; committed when the block ends well."""
        with _translated(self.location), self.engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                if not self.location.sqlite:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
                yield connection

    def close(self) -> None:
        self.engine.dispose()


def _engine(location: Location) -> Engine:
    if not location.sqlite:
        try:
            return create_engine(location.url)
        except (ModuleNotFoundError, NoSuchModuleError) as error:
            raise EnvironmentFailed(
                f"PostgreSQL needs a driver that is not installed: {error}",
                hint="install `ridgeline[postgresql]`, or use a folder as the store",
            ) from error
    engine = create_engine(location.url, connect_args={"timeout": WAIT_S})

    @event.listens_for(engine, "connect")
    def _on_connect(raw: Any, record: Any) -> None:
        raw.isolation_level = None  # the driver must not begin transactions on its own: we say which kind
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


@contextmanager
def _translated(location: Location) -> Iterator[None]:
    """Turn what the database refuses into an error for people. Faults of our own SQL stay what they are."""
    try:
        yield
    except DBAPIError as error:
        said = str(error.orig).strip().partition("\n")[0]
        low = said.lower()
        hints = {
            "full": "free some space and run the same command again; what was committed is kept",
            "no space left": "free some space and run the same command again; what was committed is kept",
            "locked": "another process is writing: try again when it is done",
            "readonly": "no permission to write there: choose another store with --store",
            "unable to open": "no permission there, or the folder is gone: choose another store with --store",
            "not a database": "the file is no catalogue of ours: choose another store with --store",
            "malformed": "the catalogue is damaged: take it from a backup, then import what came after",
            "disk i/o": "the disk reports an error: look at its health before trying again",
            "connection": "look at the address, and whether the server runs and lets you in",
            "authentication": "look at the user and password of the address",
            "does not exist": "make the database first, or look at the address",
        }
        hint = next((text for word, text in hints.items() if word in low), None)
        if hint is None:
            raise
        raise EnvironmentFailed(f"the catalogue cannot be used: {said}", hint=hint) from error


def _file_of(url: str) -> Any:
    from pathlib import Path

    if not url.startswith("sqlite:///"):
        raise InputError(f"not a SQLite address: {url}")
    return Path(url.removeprefix("sqlite:///"))
