"""Requests and server series of the store, asked in SQL.

In: the data folder and a question. Out: an Arrow table. DuckDB reads the Parquet partitions where they lie; `records`
and `samples` are views over all of them with columns `run` and `cell`. The connection can read only: nothing can be
written, loaded or fetched from it.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from ridgeline.core.errors import InputError, Problem


def ask(data: Path, sql: str, run: str | None = None) -> pa.Table:
    """The answer to `sql`, over one run's partitions or all. Raises InputError for wrong SQL, with DuckDB's words."""
    with duckdb.connect(":memory:", config={"threads": 2}) as connection:
        for kind in ("records", "samples"):
            place = data / kind / (f"run={run}" if run else "*") / "*" / "*.parquet"
            if not any(data.glob(f"{kind}/{f'run={run}' if run else '*'}/*/*.parquet")):
                continue
            quoted = str(place).replace("'", "''")
            connection.execute(
                f"CREATE VIEW {kind} AS SELECT * FROM read_parquet('{quoted}', hive_partitioning = true, "
                "hive_types = {'run': VARCHAR, 'cell': VARCHAR}, union_by_name = true)"
            )
        allowed = str(data).replace("'", "''")
        connection.execute(f"SET allowed_directories = ['{allowed}']")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            # The folder must be allowed for reading, which allows writing too: so only questions are let in.
            if any(item.type != duckdb.StatementType.SELECT for item in connection.extract_statements(sql)):
                raise InputError([Problem("only questions (SELECT) are answered", key="sql")])
            answer = connection.sql(sql)
            if answer is None:
                raise InputError([Problem("asks nothing", key="sql")])
            return answer.to_arrow_table()
        except duckdb.Error as error:
            raise InputError([Problem(f"DuckDB says: {str(error).strip()}", key="sql")]) from error
