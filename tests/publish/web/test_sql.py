from __future__ import annotations

from pathlib import Path

import pytest
from tests.publish.web import sample
from tests.publish.web.client import client

from ridgeline.core.errors import InputError
from ridgeline.publish.web import sql
from ridgeline.publish.web.data import Library
from ridgeline.publish.web.folders import FolderShelf

pytestmark = pytest.mark.integration  # takes seconds of processor time


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> sql.Tables:
    path = tmp_path_factory.mktemp("runs")
    sample.folder(path, "it's mine")
    return sql.Tables(Library([FolderShelf([path])]).holding("local"))


def test_runs_points_measures_and_requests_can_be_asked(tables: sql.Tables) -> None:
    assert sql.ask(tables, "SELECT name, points, failed FROM runs").rows == (("it's mine", 3, 1),)
    assert sql.ask(tables, "SELECT count(*) FROM points").rows == ((3,),)
    missing = sql.ask(tables, "SELECT DISTINCT value, reason FROM measures WHERE measure = 'tpot.p99'").rows
    assert missing == ((None, "100 samples: a p99 needs 500"),)
    joined = sql.ask(
        tables, "SELECT p.concurrency, count(*) FROM requests r JOIN points p ON p.id = r.point GROUP BY 1"
    )
    assert joined.rows == ((1, 60),)


@pytest.mark.parametrize("text", list(sql.EXAMPLES.values()))
def test_the_examples_answer(tables: sql.Tables, text: str) -> None:
    assert sql.ask(tables, text).columns


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE points",
        "DELETE FROM points",
        "INSERT INTO runs SELECT * FROM runs",
        "UPDATE points SET name = ''",
        "CREATE TABLE x AS SELECT 1",
        "ATTACH 'x.db'",
        "COPY points TO 'x.csv'",
        "EXPORT DATABASE 'x'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "PRAGMA version",
        "CALL pragma_version()",
        "SELECT 1; DROP TABLE points",
        "",
        "   -- nothing",
    ],
)
def test_only_one_select_is_answered(tables: sql.Tables, text: str) -> None:
    with pytest.raises(InputError, match="one SELECT is answered"):
        sql.ask(tables, text)
    assert sql.ask(tables, "SELECT count(*) FROM points").rows == ((3,),)


@pytest.mark.parametrize(
    "source",
    [
        "read_csv('/etc/passwd')",
        "read_text('/etc/passwd')",
        "'/etc/passwd'",
        "glob('/etc/*')",
        "read_parquet('/tmp/*.parquet')",
        "read_blob('/proc/self/environ')",
        "read_csv('https://example.org/x.csv')",
        "sqlite_scan('/tmp/x.db', 't')",
    ],
)
def test_no_other_file_can_be_opened(tables: sql.Tables, source: str) -> None:
    with pytest.raises(InputError):
        sql.ask(tables, f"SELECT * FROM {source}")


@pytest.mark.parametrize("text", ["SELECT getenv('HOME')", "SELECT nothing FROM points", "SELEKT 1"])
def test_what_is_wrong_is_said_in_the_engine_s_words(tables: sql.Tables, text: str) -> None:
    with pytest.raises(InputError, match="DuckDB says"):
        sql.ask(tables, text)


def test_rows_and_time_are_bounded(tables: sql.Tables) -> None:
    found = sql.ask(tables, "SELECT * FROM range(10)", rows=4)
    assert len(found.rows) == 4 and found.more
    with pytest.raises(InputError, match=r"stopped after 0\.2 s"):
        sql.ask(tables, "SELECT count(*) FROM range(100000000000) a, range(1000) b", seconds=0.2)
    with pytest.raises(InputError, match="characters"):
        sql.ask(tables, "SELECT 1 " + " " * sql.CHARACTERS)


def test_values_are_plain(tables: sql.Tables) -> None:
    [row] = sql.ask(tables, "SELECT 'nan'::DOUBLE, 1.5::DECIMAL(4,2), DATE '2026-01-02', NULL, [1, 2], 'x'").rows
    assert row == ("nan", 1.5, "2026-01-02", None, "[1, 2]", "x")


def test_the_page_and_the_interface_ask_the_same(tmp_path: Path) -> None:
    sample.folder(tmp_path)
    shown = client(FolderShelf([tmp_path]))
    assert shown.get("/api/v1/sql?q=SELECT count(*) AS n FROM points").json()["rows"] == [[3]]
    assert ">3</td>" in shown.get("/data?q=SELECT count(*) AS n FROM points").text
    wrong = shown.get("/api/v1/sql?q=DROP TABLE points")
    assert wrong.status_code == 400 and "one SELECT" in wrong.json()["error"]
    assert "one SELECT is answered" in shown.get("/data?q=DROP TABLE points").text
