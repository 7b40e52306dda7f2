"""What a store promises, on every database: nothing twice, nothing overwritten, the newest run of a line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import inspect, select, text
from tests.golden import golden
from tests.results.builders import S, cell, deployment, record, replay

from ridgeline.core.cell import Cell
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.core.point import Axis, Measure, Point, Source, Validity
from ridgeline.results import frontier as rules
from ridgeline.results.aggregate import aggregate
from ridgeline.results.importers.api import Bundle, Imported, ImportedPoint, ImportedRun, Importer
from ridgeline.results.metrics import axis
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.results.store import Store, blocks, migrations, tables
from ridgeline.results.store.ingest import Counts

X, Y = axis("interactivity.p50"), axis("throughput_per_gpu.output")


def point(line: str, concurrency: int, *, x: float | None = 50.0, y: float | None = 100.0, **changes: Any) -> Point:
    key = changes.pop("key", f"{line}/{concurrency}")
    attempt = changes.get("attempt", 1)
    base: dict[str, Any] = {
        "id": f"{key}.{attempt}",
        "run_key": key,
        "cell_fingerprint": "f",
        "name": f"{line}/c{concurrency}",
        "line": line,
        "series": line.split("/")[0],
        "source": Source.MEASURED,
        "concurrency": concurrency,
        "gpus": 8,
        "facts": {"model_prefix": "tiny", "scenario": "fixed-seq-len", "scenario_name": "1k1k", "hardware": "h200"},
        "measures": {
            X.measure: Measure(x, X.unit, 50, None if x is not None else "no tokens"),
            Y.measure: Measure(y, Y.unit, 50, None if y is not None else "no usage"),
        },
        "measured_at": "2026-01-02T03:04:05+00:00",
    }
    return Point(**(base | changes))


def importer(runs: list[ImportedRun], name: str = "ridgeline") -> Importer:
    """An importer that says `runs` whatever the files are."""
    return Importer(
        name, 1, "made up", lambda path: None, lambda b, d: Imported(format=name, version=1, runs=tuple(runs))
    )


def run(key: str, points: list[Point | ImportedPoint], started: str = "2026-01-01T00:00:00+00:00") -> ImportedRun:
    items = tuple(item if isinstance(item, ImportedPoint) else ImportedPoint(point=item) for item in points)
    return ImportedRun(origin="test", key=key, name=f"run {key}", started_at=started, points=items)


def add(store: Store, tmp_path: Path, runs: list[ImportedRun], *, mark: str = "", channel: str = "local") -> Counts:
    """Import made-up runs from a file whose content is `mark`."""
    file = tmp_path / f"source{mark}.json"
    file.write_text(json.dumps([mark, [item.key for item in runs]]))
    return store.add(importer(runs), Bundle.of_file(file), channel=channel).counts


def test_the_catalogue_is_what_the_tables_say(store: Store) -> None:
    with store.database.reading() as connection:
        found = inspect(connection)
        names = set(found.get_table_names()) | set(found.get_view_names())
        for table in tables.METADATA.tables.values():
            assert table.name in names
            columns = {column["name"] for column in found.get_columns(table.name)}
            assert {column.name for column in table.columns} == columns, table.name
        applied = connection.execute(text("SELECT number FROM migrations ORDER BY number")).scalars().all()
    assert applied == [migration.number for migration in migrations.MIGRATIONS] == list(range(1, migrations.NEWEST + 1))


def test_a_store_of_an_older_number_is_brought_up_and_keeps_its_data(store: Store, tmp_path: Path) -> None:
    add(store, tmp_path, [run("1", [point(f"a/l{n}", 1, x=n / 3 or None, y=n / 7) for n in range(1202)])])
    ids = {item.id: item for item in store.points()}
    with store.database.writing() as connection:
        old = {measure.measure: blocks.read(connection, measure.measure) for measure in (X, Y)}
        names = dict(map(tuple, connection.execute(select(tables.measure_names.c.name, tables.measure_names.c.no))))
        connection.execute(text("DROP VIEW run_channels"))
        for table in ("receipts", "measure_blocks", "point_blocks"):
            connection.execute(text(f"DROP TABLE {table}"))
        connection.execute(text("DELETE FROM migrations WHERE number >= 3"))
        kinds = "measure INTEGER, point BIGINT, value DOUBLE PRECISION, n BIGINT"
        connection.execute(text(f"CREATE TABLE measures ({kinds}, PRIMARY KEY (measure, point))"))
        insert = text("INSERT INTO measures (measure, point, value) VALUES (:m, :p, :v)")
        for name, (numbers, values) in old.items():
            rows = [
                {"m": names[name], "p": number, "v": value}
                for number, value in zip(numbers.tolist(), values.tolist(), strict=True)
                if value == value  # what was missing had no row then
            ]
            connection.execute(insert, rows)
        assert not migrations.at_newest(connection)
        assert migrations.migrate(connection) == [3, 4, 5]
        for name, (numbers, values) in old.items():
            found = blocks.read(connection, name)
            np.testing.assert_array_equal(found[0], numbers)
            np.testing.assert_array_equal(found[1], values)
        assert not inspect(connection).has_table("measures")
    store.move("run 1", "local")
    with Store(store.location) as again:
        assert {item.id: item for item in again.points()} == ids
        told = again.measured("local").to_pylist()
    assert {(row["point"], row["measure"], row["value"], row["n"], row["reason"]) for row in told} == {
        (id, name, one.value, one.n, one.reason) for id, item in ids.items() for name, one in item.measures.items()
    }


def test_a_newer_catalogue_is_refused_by_name(store: Store) -> None:
    with store.database.writing() as connection:
        connection.execute(text("INSERT INTO migrations VALUES (99, 'later', 'now', '9')"))
    with pytest.raises(InputError, match="migration 99; this Ridgeline knows up to 5"):
        Store(store.location)


def test_the_same_import_twice_changes_nothing(store: Store, tmp_path: Path) -> None:
    runs = [run("1", [point("a/x", 1), point("a/x", 2)])]
    assert add(store, tmp_path, runs) == Counts(runs=1, points=2)
    before = store.dataset_version()
    assert add(store, tmp_path, runs) == Counts()
    assert add(store, tmp_path, runs, mark="other file, equal rows") == Counts(unchanged=2)
    assert store.dataset_version() == before
    assert len(store.points()) == 2


def test_a_changed_point_is_a_revision_and_the_old_one_stays(store: Store, tmp_path: Path) -> None:
    add(store, tmp_path, [run("1", [point("a/x", 1, y=100.0)])])
    assert add(store, tmp_path, [run("1", [point("a/x", 1, y=90.0)])], mark="2").revised == 1
    (now,) = store.points()
    assert now.value(Y.measure) == 90.0
    assert [item["revision"] for item in store.describe(now.id)["revisions"]] == [1, 2]
    with store.database.reading() as connection:
        numbers, values = blocks.read(connection, Y.measure)
    assert numbers.tolist() == [1, 2] and values.tolist() == [100.0, 90.0]


def test_the_same_row_with_less_in_it_is_nothing_new(store: Store, tmp_path: Path) -> None:
    rich = point("a/x", 1, facts={**point("a/x", 1).facts, "image": "i:1"})
    poor = replace(
        rich, facts=point("a/x", 1).facts, measures={X.measure: rich.measures[X.measure]}, cell_fingerprint="g"
    )
    add(store, tmp_path, [run("1", [rich])])
    assert add(store, tmp_path, [run("1", [poor])], mark="2") == Counts(unchanged=1)
    add(store, tmp_path, [run("2", [poor])], mark="3")
    assert add(store, tmp_path, [run("2", [rich])], mark="4").revised == 1, "more detail is a revision"


def test_retries_supersede_and_repeats_stay(store: Store, tmp_path: Path) -> None:
    key = "k"
    items = [
        ImportedPoint(point=point("a/x", 1, key=key, attempt=1, y=1.0), repeat=1),
        ImportedPoint(point=point("a/x", 1, key=key, attempt=3, y=3.0), repeat=1),
        ImportedPoint(point=point("a/x", 1, key=key, attempt=2, y=2.0), repeat=2),
    ]
    add(store, tmp_path, [run("1", list(items))])
    assert [(p.provenance["repeat"], p.value(Y.measure)) for p in store.points()] == [(1, 3.0), (2, 2.0)]


def test_the_newest_run_of_a_line_gives_all_its_concurrencies(store: Store, tmp_path: Path) -> None:
    old = run("old", [point("a/x", c, y=float(c)) for c in (1, 2, 4)] + [point("b/x", 1)], "2026-01-01T00:00:00+00:00")
    new = run("new", [point("a/x", 2, y=20.0)], "2026-02-01T00:00:00+00:00")
    broken = run(
        "broken",
        [point("a/x", 8, validity=Validity.INVALID, reasons=("error-rate: all",))],
        "2026-03-01T00:00:00+00:00",
    )
    emulated = run("emulated", [point("a/x", 1, source=Source.EMULATED)], "2026-04-01T00:00:00+00:00")
    # Imported in another order than they were started.
    add(store, tmp_path, [emulated, broken, new, old])
    found = [(p.line, p.concurrency, p.value(Y.measure)) for p in store.points(source="measured")]
    assert found == [("a/x", 2, 20.0), ("b/x", 1, 100.0)], "a partial sweep shortens the line, runs are not stitched"
    assert [p.concurrency for p in store.points(source="emulated")] == [1], "sources are lines of their own"
    assert [p.concurrency for p in store.points(run="old", line="a/x")] == [1, 2, 4], "the old run is all there"


def test_three_dates_and_channels_with_receipts(store: Store, tmp_path: Path) -> None:
    add(store, tmp_path, [run("1", [point("a/x", 1)], "2026-01-01T00:00:00+00:00")])
    (header,) = store.runs()
    assert (header["measured_at"], header["started_at"], header["published_at"], header["channel"]) == (
        "2026-01-02T03:04:05+00:00", "2026-01-01T00:00:00+00:00", None, "local",
    )  # fmt: skip
    store.move("run 1", "staging", who="ann")
    receipt = store.move(header["id"], "published", who="ben", note="fine")
    assert store.runs("published")[0]["published_at"] == receipt["at"] and store.runs("staging") == []
    assert [p.concurrency for p in store.points(channel="published")] == [1] and store.points(channel="local") == ()
    store.move(header["id"], "withdrawn")
    assert store.points(channel="published") == () and store.points() == ()
    assert [item["channel"] for item in store.receipts("run 1")] == ["local", "staging", "published", "withdrawn"]
    with pytest.raises(InputError, match="no channel is called `prod`"):
        store.move(header["id"], "prod")


def test_only_measured_points_can_be_published(store: Store, tmp_path: Path) -> None:
    add(store, tmp_path, [run("1", [point("a/x", 1), point("b/x", 1, source=Source.PREDICTED)])])
    store.move("run 1", "staging")
    with pytest.raises(InputError, match="holds predicted points; only measured ones can be published"):
        store.move("run 1", "published")
    assert store.runs()[0]["channel"] == "staging"


def test_the_frontier_of_the_store_is_that_of_its_points(store: Store, tmp_path: Path) -> None:
    points: list[Point | ImportedPoint] = [point("a/x", c, x=100.0 / c, y=10.0 * c) for c in (1, 2, 4, 8)]
    points += [point("a/y", 3, x=1.0, y=1.0), point("b/x", 1, x=None), point("b/x", 2)]
    points += [point("b/x", 4, validity=Validity.INVALID, reasons=("aborted: gone",))]
    add(store, tmp_path, [run("1", points)])
    for options in ({}, {"epsilon": 0.5}, {"north_star": axis("e2e_interactivity.p90")}):
        ours = store.frontier(X, Y, **options)  # type: ignore[arg-type]
        assert ours.to_json() == rules.frontier(store.points(), X, Y, **options).to_json()  # type: ignore[arg-type]
    assert store.frontier(X, Y, line="a/y").members == {store.points(line="a/y")[0].id}
    before = store.frontier(X, Y)
    add(store, tmp_path, [run("2", [point("a/x", 1, x=500.0, y=500.0)], "2026-05-01T00:00:00+00:00")])
    assert store.frontier(X, Y).members != before.members, "columns follow the dataset's version"


def test_the_frontier_of_the_store_refuses_what_the_rules_refuse(store: Store, tmp_path: Path) -> None:
    add(store, tmp_path, [run("1", [point("a/x", 1), point("b/x", 1, source=Source.PREDICTED)])])
    with pytest.raises(InputError, match="does not mix sources unasked"):
        store.frontier(X, Y)
    assert len(store.frontier(X, Y, source=Source.PREDICTED).members) == 1
    assert len(store.frontier(X, Y, mix_sources=True).sources) == 2
    with pytest.raises(InputError, match="no better direction"):
        store.frontier(Axis("duration"), Y)
    with pytest.raises(InputError, match="is not a filter"):
        store.frontier(X, Y, colour="red")


def test_runs_and_points_are_found_by_the_beginning_of_their_id(store: Store, tmp_path: Path) -> None:
    add(store, tmp_path, [run("1", [point("a/x", 1)]), run("2", [point("a/x", 1)])])
    first = next(item["id"] for item in store.runs() if item["name"] == "run 1")
    assert store.run_id(first[:6]) == store.run_id("run 1") == first
    assert store.describe(store.points(run="run 1")[0].id)["run"]["id"] == first
    with pytest.raises(InputError, match="no run is called `nothing`"):
        store.run_id("nothing")
    with pytest.raises(InputError, match="no point has the id"):
        store.describe("nothing")
    assert len({p.id for key in ("run 1", "run 2") for p in store.points(run=key)}) == 2, "equal keys in two runs"


def stored_run(path: Path, cells: list[Cell], *, attempts: int = 1) -> RunFolder:
    """A run folder with real records: three requests a cell."""
    with RunFolder.create_or_open(path, RunHeader(name=path.name, created_at="2026-06-01T00:00:00+00:00")) as folder:
        for c in cells:
            for attempt in range(1, attempts + 1):
                made = replay([record(i, i * S) for i in range(3 + attempt)])
                key = f"{c.concurrency:02x}" * 32
                found = aggregate(
                    made,
                    cell=c,
                    source=Source.MEASURED,
                    run_key=key,
                    attempt=attempt,
                    measured_at="2026-06-01T00:01:00+00:00",
                    provenance={"node": "n1", "trace": "t"},
                )
                folder.write_cell(c, found, made, deployment(), extra={"found": {"engine_version": "1.2"}})
        failed = cell(99)
        folder.write_failure(failed, "99" * 32, "start", "no memory")
    return RunFolder.open(path)


def test_a_run_folder_with_requests_provenance_and_failures(store: Store, tmp_path: Path) -> None:
    stored_run(tmp_path / "r", [cell(4), cell(8)], attempts=2)
    counts = store.add_path(tmp_path / "r").counts
    assert counts == Counts(runs=1, points=4, failures=1)
    points = store.points(run="r")
    assert [(p.concurrency, p.provenance["repeat"]) for p in points] == [(4, 1), (4, 2), (8, 1), (8, 2)]
    told = store.provenance([points[0].id])[points[0].id]
    assert told["found.engine_version"] == "1.2" and told["found.node"] == "n1" and told["asked.trace"] == "t"
    assert "serve" in told["asked.argv.engine"]
    assert store.failures("r")[0]["message"] == "no memory"
    answer = store.requests("SELECT run, cell, count(*) AS n FROM records GROUP BY ALL ORDER BY n, cell")
    assert answer.column("n").to_pylist() == [4, 4, 5, 5] and len(set(answer.column("run").to_pylist())) == 1
    file = store.request_file(points[0].id)
    assert file is not None and file.exists()
    assert store.add_path(tmp_path / "r").known


def test_a_folder_that_grew_is_the_same_run(store: Store, tmp_path: Path) -> None:
    stored_run(tmp_path / "r", [cell(4)])
    store.add_path(tmp_path / "r")
    stored_run(tmp_path / "r", [cell(8)])
    assert store.add_path(tmp_path / "r").counts == Counts(points=1, unchanged=1, failures=1)
    assert len(store.runs()) == 1


def test_rebuild_derives_every_value_from_the_kept_files(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    stored_run(tmp_path / "r", [cell(4), cell(8)])
    store.add_path(tmp_path / "r")
    shutil.rmtree(tmp_path / "r")  # what it was imported from is not needed any more
    done = store.rebuild()
    assert done.imports == 1 and done.counts.unchanged == 2 and not done.counts.changed and not done.missing
    before = store.points()[0]

    from ridgeline.results.metrics import registry

    metric = registry.METRICS["duration"]
    doubled = replace(metric, compute=lambda scope: registry.Amount(2 * (scope.duration_s or 0)))
    monkeypatch.setitem(registry.METRICS, "duration", doubled)
    assert store.rebuild().counts.revised == 2
    after = store.points()[0]
    assert after.value("duration") == 2 * (before.value("duration") or 0)
    assert after.value("ttft.p50") == before.value("ttft.p50")


def test_rebuild_keeps_what_the_sweep_found_and_names_files_that_are_gone(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    c = cell(4)
    made = replay([record(i, i * S) for i in range(30)])
    key = "ab" * 32
    found = aggregate(made, cell=c, source=Source.MEASURED, run_key=key)
    degraded = replace(found, validity=Validity.DEGRADED, reasons=("kv-pool: expected 1900000 tokens, found 12",))
    with RunFolder.create_or_open(folder, RunHeader(name="r", created_at="2026-06-01T00:00:00+00:00")) as out:
        out.write_cell(c, degraded, made, None)
    store.add_path(folder)
    assert not store.rebuild().counts.changed
    assert store.points(run="r")[0].validity is Validity.DEGRADED
    file = store.request_file(store.points(run="r")[0].id)
    assert file is not None
    file.chmod(0o644)
    file.unlink()
    assert store.rebuild().missing == (f"r: cells/{key[:16]}/records.parquet",)
    assert len(store.points(run="r")) == 1


def test_an_import_that_fails_leaves_nothing(store: Store, tmp_path: Path) -> None:
    add(store, tmp_path, [run("1", [point("a/x", 1)])])
    broken = run("2", [point("a/x", 1), point("b/x", 1, measures={"m": Measure(float("nan"), "u")})])
    with pytest.raises(ValueError):
        add(store, tmp_path, [broken], mark="2")
    assert [item["name"] for item in store.runs()] == ["run 1"] and store.dataset_version() == 1
    assert add(store, tmp_path, [run("2", [point("a/x", 1)])], mark="3").points == 1


def test_wrong_sql_is_the_users_and_nothing_can_be_written(store: Store, tmp_path: Path) -> None:
    stored_run(tmp_path / "r", [cell(4)])
    store.add_path(tmp_path / "r")
    with pytest.raises(InputError, match="DuckDB says"):
        store.requests("SELECT nonsense FROM records")
    target = tmp_path / "out.csv"
    inside = store.files.root / "out.csv"
    for sql in (
        "",
        f"COPY records TO '{target}'",
        f"COPY (SELECT 1) TO '{inside}'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SET threads = 1",
    ):
        with pytest.raises(InputError):
            store.requests(sql)
    assert not target.exists() and not inside.exists()


@pytest.mark.integration
def test_the_given_snapshot(store: Store) -> None:
    folder = golden("results/inferencex_api/2026-05-05")
    first = store.add_path(folder)
    assert first.counts.points > 1000 and first.counts.runs > 100 and first.counts.evaluations > 0
    before = (store.dataset_version(), store.runs(), store.points())
    second = store.add_path(folder)
    assert second.known and not second.counts.changed
    assert (store.dataset_version(), store.runs(), store.points()) == before
    ours = store.frontier(X, Y)
    assert ours.members == _independent(folder) and len(ours.members) > 100
    assert not store.rebuild().counts.changed


def _independent(folder: Path) -> set[str]:
    """The frontier of the newest run of every line, worked out from the raw rows by comparing all pairs."""
    import re
    from collections import defaultdict

    from ridgeline.results.importers.api import Notes
    from ridgeline.results.importers.inferencex_api import point_of, run_name

    rows = [
        row
        for name in ("benchmarks", "benchmarks-history")
        for row in json.loads((folder / f"{name}.json").read_text())
    ]
    created = {
        r["github_run_id"]: r["created_at"] for r in json.loads((folder / "workflow-info.json").read_text())["runs"]
    }
    dates: dict[str, str] = {}
    evaluations = json.loads((folder / "evaluations.json").read_text())
    for row in [*rows, *evaluations]:
        key = re.findall(r"/runs/(\d+)", row["run_url"])[0]
        dates[key] = min(dates.get(key, row["date"]), row["date"])
    best: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    lines: dict[tuple[Any, ...], list[tuple[int, float, float, str, tuple[Any, ...]]]] = defaultdict(list)
    for row in rows:
        key = re.findall(r"/runs/(\d+)", row["run_url"])[0]
        attempt = int(re.findall(r"/attempts/(\d+)", row["run_url"])[0])
        m = row["metrics"]
        pool = ("tp", "ep", "dp_attention", "num_workers")
        config = tuple(row[f"{role}_{name}"] for role in ("prefill", "decode") for name in pool)
        series = (
            row["model"],
            row["isl"],
            row["osl"],
            row["hardware"],
            row["framework"],
            row["precision"],
            row["spec_method"],
        )
        if not (row["disagg"] and row["is_multinode"]):
            config = config[4:7]
        line = (*series, row["disagg"], config)
        item = point_of(row, run_name(row["run_url"], ""), Notes())
        run = ImportedRun(origin="inferencex", key=key, name="").id
        out = m.get("output_tput_per_gpu")
        if row["disagg"] and out is not None:
            p, d = row["num_prefill_gpu"], row["num_decode_gpu"]
            if row["is_multinode"]:
                out = out * d / (p + d)
            else:
                out = m["tput_per_gpu"] - m["input_tput_per_gpu"] * (m["tput_per_gpu"] - out) / (
                    m["input_tput_per_gpu"] - out
                )
        place = (created.get(key, dates[key])[:10], created.get(key, ""), run)
        if line not in best or (place[0], _order(key)) > (best[line][0], _order(best[line][3])):
            best[line] = (*place, key)
        lines[(line, key)].append((attempt, row["conc"], 1 / m["median_tpot"], out, f"{run}.{item.point.id}", series))
    groups: dict[Any, list[tuple[float, float, str]]] = defaultdict(list)
    for line, place in best.items():
        newest: dict[int, Any] = {}
        for attempt, conc, x, y, id, series in lines[(line, place[3])]:
            if conc not in newest or attempt > newest[conc][0]:
                newest[conc] = (attempt, x, y, id, series)
        for _, x, y, id, series in newest.values():
            if y is not None:
                groups[series].append((x, y, id))
    return {
        id
        for members in groups.values()
        for x, y, id in members
        if not any(u >= x and v >= y and (u > x or v > y) for u, v, _ in members)
    }


def _order(key: str) -> str:
    """Runs of one day are numbered in the order in which they are imported: by their key."""
    return key


def test_exports_of_a_run(store: Store, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    from ridgeline.results.export import columns
    from ridgeline.results.store.export import inferencex_rows

    stored_run(tmp_path / "r", [cell(4, "fixed-seq-len"), cell(8)])
    store.add_path(tmp_path / "r")
    rows = {item.name: item.row for item in inferencex_rows(store, "r")}
    assert len(rows) == 2 and all(row is not None for row in rows.values())
    fixed = next(row for name, row in rows.items() if row and "1k1k" in name)
    agentic = next(row for name, row in rows.items() if row and "agentic" in name)
    assert fixed["p99_ttft"] == pytest.approx(0.05) and fixed["tput_per_gpu"] > 0, (
        "every percentile, few samples or not"
    )
    assert agentic["scenario_type"] == "agentic-coding" and agentic["request_metrics"]["latency"]["ttft"]["p50"] == 0.05
    points = store.points(run="r")
    columns.write(tmp_path / "p.parquet", points)
    table = pq.read_table(tmp_path / "p.parquet")
    assert table.column("throughput_per_gpu.output").to_pylist() == [
        p.value("throughput_per_gpu.output") for p in points
    ]
    assert table.column("ttft.p99").to_pylist() == [None, None]
    assert "withheld" in json.loads(table.column("missing")[0].as_py())["ttft.p99"]


def test_a_catalogue_that_cannot_be_reached_says_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "catalogue.sqlite").write_bytes(b"this is not a database, but long enough to be looked at as one" * 40)
    with pytest.raises(EnvironmentFailed, match="not a database"):
        Store.open(folder)
