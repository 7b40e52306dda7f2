"""SQL over what is shown, read-only by construction.

In: one statement. Out: rows, or DuckDB's words for what is wrong with it. The database is in memory and sees copies:
`runs`, `points`, `measures` of the asked channel, and views over the Parquet files of requests. It can open those files
and nothing else, cannot be configured, and runs one SELECT at a time with bounds on time, rows and memory. Nothing that
a statement does can reach the store. A copy is made when a statement first names its table, and kept for its version.
"""

from __future__ import annotations

import datetime
import decimal
import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.publish.web import tabled
from ridgeline.publish.web.data import Holding, TableName
from ridgeline.results.store.heads import WORD

SECONDS = 5.0
ROWS = 2000
MEMORY = "512MB"
CHARACTERS = 20_000  # of a statement
CELL_CHARACTERS = 4000
FILES = 2000  # of requests that are opened
_ALLOWED = ("SELECT", "EXPLAIN")
AT_ONCE = 2  # statements; others wait for their turn, and not for long
_TURNS = threading.BoundedSemaphore(AT_ONCE)
SCHEMA = {
    "runs": "id, name, channel, started_at, last_worked_on, points, failed, sources",
    "points": "id, run, name, line, series, model, scenario, hardware, framework, precision, arm, source, validity, "
    "concurrency, gpus, measured_at, reasons",
    "measures": "point, measure, value, unit, n, reason (value is null where it was not measured, never 0)",
    "requests": "one row a request of every point that stored them; point, and the columns of records.parquet",
}
EXAMPLES = {
    "Best output throughput of each series": "SELECT series, max(value) AS best, any_value(unit) AS unit\n"
    "FROM measures JOIN points ON points.id = measures.point\n"
    "WHERE measure = 'throughput_per_gpu.output' AND validity IN ('valid', 'unproven')\n"
    "GROUP BY series ORDER BY best DESC",
    "What was not measured, and why": "SELECT reason, count(*) AS times FROM measures WHERE value IS NULL\n"
    "GROUP BY reason ORDER BY times DESC LIMIT 20",
    "Slowest first tokens": "SELECT point, request_id, session_id, (first_token_ns - sent_ns) / 1e9 AS ttft_s\n"
    "FROM requests WHERE outcome = 'ok' ORDER BY ttft_s DESC LIMIT 20",
}


class Answer(NamedTuple):
    """`more`: there were more rows than the bound."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool
    seconds: float


class Tables:
    """What a statement may ask, as Arrow tables, and the request files it may open. Threads may share it."""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self._kept: dict[str, pa.Table] = {}
        self._lock = threading.Lock()

    def table(self, name: str) -> pa.Table:
        """One of `runs`, `points` and `measures`."""
        with self._lock:
            if name not in self._kept:
                self._kept[name] = _MADE[name](self._holding)
            return self._kept[name]

    @cached_property
    def requests(self) -> tuple[tuple[str, Path], ...]:
        """A point's address and its file, of the first FILES points that stored their requests."""
        shelves = self._holding.shelves
        return tuple(islice((one for shelf in shelves for one in shelf.request_files(FILES)), FILES))


def ask(tables: Tables, sql: str, *, seconds: float = SECONDS, rows: int = ROWS) -> Answer:
    """The answer to one statement. Raises InputError for what is no SELECT, for wrong SQL, and when the time is up."""
    if len(sql) > CHARACTERS:
        raise InputError([Problem(f"has {len(sql):,} characters; {CHARACTERS:,} are read", key="q")])
    if not _TURNS.acquire(timeout=seconds):
        raise EnvironmentFailed("other statements are being answered", hint="ask again in a moment")
    try:
        return _ask(tables, sql, seconds, rows)
    finally:
        _TURNS.release()


def _ask(tables: Tables, sql: str, seconds: float, rows: int) -> Answer:
    began = time.monotonic()
    with duckdb.connect(":memory:", config={"threads": 1, "memory_limit": MEMORY}) as connection:
        _only_select(connection, sql)
        named = {name for name in SCHEMA if re.search(rf"\b{name}\b", sql, re.IGNORECASE)}
        files = tables.requests if "requests" in named else ()
        for name in _MADE:
            if name in named:
                _see_table(connection, name, tables.table(name))
        _see(connection, files)
        _lock(connection, [file for _, file in files])
        late = threading.Event()

        def stop() -> None:
            late.set()
            connection.interrupt()

        timer = threading.Timer(seconds, stop)
        timer.start()
        try:
            result = connection.execute(sql)
            columns = tuple(str(item[0]) for item in result.description or ())
            types = tuple(str(item[1]) for item in result.description or ())
            found = result.fetchmany(rows + 1)
        except duckdb.Error as error:
            said = f"stopped after {seconds:g} s" if late.is_set() else f"DuckDB says: {str(error).strip()}"
            hint = "ask for fewer rows, or copy the store and ask there" if late.is_set() else None
            raise InputError([Problem(said, key="q", hint=hint)]) from error
        finally:
            timer.cancel()
    plain = tuple(tuple(_plain(value) for value in row) for row in found[:rows])
    return Answer(columns, types, plain, len(found) > rows, time.monotonic() - began)


def _see_table(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    """A view over a copy, in which words are words and not an enumeration of all that were seen."""
    connection.register(f"_{name}", table)
    words = [f"{one.name}::VARCHAR AS {one.name}" if one.type == WORD else one.name for one in table.schema]
    connection.execute(f"CREATE VIEW {name} AS SELECT {', '.join(words)} FROM _{name}")


def _see(connection: duckdb.DuckDBPyConnection, files: Sequence[tuple[str, Path]]) -> None:
    """A view over request files, each row with its point."""
    if not files:
        return
    connection.register("_files", pa.table({"file": [str(f) for _, f in files], "point": [p for p, _ in files]}))
    connection.execute("CREATE TABLE _request_files AS SELECT * FROM _files")
    connection.unregister("_files")
    listed = ", ".join(_quoted(str(file)) for _, file in files)
    connection.execute(
        "CREATE VIEW requests AS SELECT f.point, r.* EXCLUDE (filename) FROM read_parquet("
        f"[{listed}], filename = true, union_by_name = true) r JOIN _request_files f ON f.file = r.filename"
    )


def _only_select(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise InputError([Problem(f"DuckDB says: {str(error).strip()}", key="q")]) from error
    kinds = [str(statement.type).rsplit(".", 1)[-1] for statement in statements]
    if len(kinds) != 1 or kinds[0] not in _ALLOWED:
        said = f"{len(kinds)} statements" if len(kinds) != 1 else f"a statement of kind {kinds[0]}"
        raise InputError([Problem(f"this is {said}; one SELECT is answered", key="q")])


def _lock(connection: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> None:
    """From here on only the named files can be opened, nothing loaded or attached, and nothing of this changed."""
    listed = ", ".join(_quoted(str(file)) for file in files)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET temp_directory = ''")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _plain(value: Any) -> Any:
    """As JSON has it: no NaN, no bytes, nothing endless."""
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, (datetime.date, datetime.datetime, datetime.time)):
        return value.isoformat()
    text = str(value)
    return text if len(text) <= CELL_CHARACTERS else f"{text[:CELL_CHARACTERS]} ..."


def _runs(holding: Holding) -> pa.Table:
    rows = [
        (run.id, run.name, holding.channel, run.header.created_at, run.when, run.n, run.failed, ", ".join(run.sources))
        for run in holding.runs
    ]
    names = ("id", "name", "channel", "started_at", "last_worked_on", "points", "failed", "sources")
    kinds = (*[pa.string()] * 5, pa.int64(), pa.int64(), pa.string())
    return tabled.table(pa.schema(zip(names, kinds, strict=True)), rows)


def _joined(name: TableName) -> Callable[[Holding], pa.Table]:
    return lambda holding: pa.concat_tables(
        [tabled.SCHEMAS[name].empty_table(), *(shelf.table(name) for shelf in holding.shelves)]
    ).unify_dictionaries()


_MADE: dict[str, Callable[[Holding], pa.Table]] = {
    "runs": _runs,
    "points": _joined("points"),
    "measures": _joined("measures"),
}
