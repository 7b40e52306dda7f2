"""`ridgeline results import|list|show|export|recover|rebuild|query`: the store of everything that was measured."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeline.cli.prices import PricesOption, SettingsOption, chosen_prices
from ridgeline.cli.stores import DATA_HELP, STORE_HELP, open_store, told
from ridgeline.cli.table import table
from ridgeline.cli.typed import run_app

if TYPE_CHECKING:
    from ridgeline.core.point import Point
    from ridgeline.results.store import Store

app = typer.Typer(add_completion=False, no_args_is_help=True, help="The store: import, list, show, export, rebuild.")

StoreOption = Annotated[str | None, typer.Option("--store", metavar="STORE", help=STORE_HELP)]
DataOption = Annotated[Path | None, typer.Option("--data", metavar="DIR", help=DATA_HELP)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


class As(StrEnum):
    """Formats of an export."""

    CSV = "csv"
    PARQUET = "parquet"
    INFERENCEX = "inferencex"


@app.command("import")
def import_(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Run folders, or results of another tool.")],
    store: StoreOption = None,
    data: DataOption = None,
    format: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="Read it as this format. (default: recognised)")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="What the files do not say: gpus, hardware, source, ..."),
    ] = None,
    channel: Annotated[str, typer.Option(metavar="CHANNEL", help="Where new runs go: local or staging.")] = "local",
    as_json: JsonOption = False,
) -> int:
    """Import run folders and other tools' results. The same files twice change nothing the second time."""
    given = told(settings or [])
    found = []
    with open_store(store, data, make=True) as opened:
        for path in paths:
            found.append(opened.add_path(path, format=format, told=given, channel=channel))
    if as_json:
        rows = [
            {
                "format": item.format, "title": item.title, "runs": list(item.runs), "known": item.known,
                **item.counts._asdict(),
                "unmapped": [{"name": u.name, "count": u.count, "reason": u.reason} for u in item.unmapped],
            }
            for item in found
        ]  # fmt: skip
        _json(rows)
        return 0
    for item in found:
        counts = {name: count for name, count in item.counts._asdict().items() if count}
        text = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing new"
        _out(f"{item.title} ({item.format}): {'known already' if item.known else text}")
        for left in item.unmapped:
            _out(f"   not mapped: {left.name} ({left.count}x): {left.reason}")
    _next(f"`ridgeline results list` names the runs; the store is {opened.location.data.parent}")
    return 0


@app.command("list")
def list_(
    store: StoreOption = None,
    data: DataOption = None,
    channel: Annotated[str | None, typer.Option(metavar="CHANNEL", help="Only runs of this channel.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Runs of the store, newest first."""
    with open_store(store, data) as opened:
        runs = opened.runs(channel)
    if as_json:
        _json(runs)
        return 0
    rows = [("run", "started", "channel", "points", "failed", "source", "name")]
    for run in runs:
        rows.append(
            (
                run["id"], (run["started_at"] or "")[:16], run["channel"], f"{run['valid']}/{run['points']}",
                str(run["failures"]), "+".join(run["sources"]), run["name"][:60],
            )
        )  # fmt: skip
    _table(rows)
    return 0


@app.command()
def show(
    what: Annotated[str, typer.Argument(metavar="RUN|POINT", help="Id, beginning of an id, or name.")],
    store: StoreOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> int:
    """A run with its points, or one point with everything known of it."""
    from ridgeline.core.errors import InputError

    with open_store(store, data) as opened:
        try:
            run = opened.run_id(what)
        except InputError:
            about = opened.describe(what)
            _json(about) if as_json else _show_point(about)
            return 0
        header = next(item for item in opened.runs() if item["id"] == run)
        points = opened.points(run=run)
        failures = opened.failures(run)
        answer = {
            "run": header,
            "receipts": opened.receipts(run),
            "points": [_short(point) for point in points],
            "failures": failures,
            "evaluations": opened.evaluations(run),
            "changelog": opened.changelog(run),
        }
    if as_json:
        _json(answer)
        return 0
    for name, value in header.items():
        _out(f"{name:>18}  {value if value is not None else 'not known'}")
    rows = [("point", "repeat", "validity", "tok/s/GPU", "tok/s/user p50", "id")]
    for point in points:
        short = _short(point)
        rows.append(
            (point.name, str(short["repeat"]), str(point.validity), _number(point, "throughput_per_gpu.output"),
             _number(point, "interactivity.p50"), point.id[:40])
        )  # fmt: skip
    _out("")
    _table(rows)
    for failure in failures:
        _out(f"failed: {failure['name']}: {failure['layer']}: {failure['message']}")
    return 0


@app.command()
def export(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A run of the store. (default: the latest of every line)")
    ] = None,
    form: Annotated[As, typer.Option("--as", help="Format.")] = As.CSV,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="PATH", help="File, or a folder for inferencex.")
    ] = None,
    measures: Annotated[
        list[str] | None, typer.Option("--measure", metavar="MEASURE", help="Columns of the CSV. (default: all)")
    ] = None,
    channel: Annotated[str | None, typer.Option(metavar="CHANNEL", help="Latest points of this channel.")] = None,
    prices: PricesOption = None,
    settings: SettingsOption = None,
    store: StoreOption = None,
    data: DataOption = None,
) -> int:
    """Write points as CSV or Parquet, or a run as the aggregate rows that InferenceX ingests."""
    from ridgeline.core.errors import InputError

    with open_store(store, data) as opened:
        if form is As.INFERENCEX:
            if run is None or out is None:
                raise InputError(
                    "InferenceX rows need a run and a folder", hint="results export RUN --as inferencex -o DIR"
                )
            return _rows(opened, run, out)
        points = opened.points(run=run, channel=channel)
    sheet = chosen_prices(prices, settings)
    if sheet is not None:
        from ridgeline.results.cost import priced

        points = tuple(priced(point, sheet) for point in points)
    if form is As.CSV:
        from ridgeline.results.export.table import to_csv

        text = to_csv(points, measures)
        if out is None:
            sys.stdout.write(text)
            return 0
        from ridgeline.results import durable

        with durable.environment(f"write {out}"):
            durable.write_bytes(out, text.encode())
    else:
        from ridgeline.results.export import columns

        if out is None:
            raise InputError("Parquet is no text", hint="name a file with -o")
        columns.write(out, points)
    _next(f"{len(points)} points in {out}")
    return 0


def _rows(opened: Store, run: str, out: Path) -> int:
    from ridgeline.results import durable, formats
    from ridgeline.results.store.export import inferencex_rows

    written = refused = 0
    with durable.environment(f"write to {out}"):
        out.mkdir(parents=True, exist_ok=True)
        for item in inferencex_rows(opened, run):
            if item.row is None:
                refused += 1
                sys.stderr.write(f"not exported: {item.name}: {item.refused}\n")
                continue
            durable.write_bytes(out / f"{item.name}.json", formats.encode_plain(item.row))
            written += 1
    _next(f"{written} rows in {out}" + (f", {refused} not exported" if refused else ""))
    return 0 if written else 1


@app.command()
def recover(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `ridgeline replay --out` named.")],
    as_json: JsonOption = False,
) -> int:
    """Make the records and scrapes of a killed replay readable. There is no point: its window never closed."""
    from ridgeline.results.recovery import recover as recovered

    found = recovered(folder)
    if as_json:
        _json({"records": str(found.records), "requests": found.requests, "scrapes": found.scrapes})
    else:
        scrapes = "" if found.scrapes is None else f" and {found.scrapes} scrapes"
        _out(f"{found.requests} requests{scrapes}: {found.records}")
    return 0


@app.command()
def rebuild(store: StoreOption = None, data: DataOption = None, as_json: JsonOption = False) -> int:
    """Work every value out again from the kept files. What differs becomes a new revision; the old one stays."""
    with open_store(store, data) as opened:
        done = opened.rebuild()
    if as_json:
        _json({"imports": done.imports, **done.counts._asdict(), "missing": list(done.missing)})
    else:
        counts = done.counts
        told = f"{counts.unchanged} points as they were, {counts.revised} revised, {counts.points} new"
        _out(f"{done.imports} imports: {told}")
        for name in done.missing:
            _out(f"   left as it is, files are gone: {name}")
    return 1 if done.missing else 0


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A question over the tables `records` and `samples`.")],
    store: StoreOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> int:
    """Ask DuckDB about requests and server series of all runs; columns `run` and `cell` say whose they are."""
    with open_store(store, data) as opened:
        table = opened.requests(sql)
    rows = table.to_pylist()
    if as_json:
        sys.stdout.write(json.dumps(rows, indent=1, default=str) + "\n")
    else:
        _table([tuple(table.column_names), *(tuple("" if v is None else str(v) for v in row.values()) for row in rows)])
    return 0


def _short(point: Point) -> dict[str, Any]:
    return {
        "id": point.id,
        "name": point.name,
        "repeat": point.provenance.get("repeat"),
        "source": str(point.source),
        "validity": str(point.validity),
        "reasons": list(point.reasons),
        "cautions": [caution.code for caution in point.cautions],
        "measured_at": point.measured_at,
        "measures": {name: measure.value for name, measure in point.measures.items() if measure.value is not None},
    }


def _show_point(about: dict[str, Any]) -> None:
    point = about["point"]
    about_it = f"{point['validity']}, {point['source']}, repeat {about['repeat']}, revision {about['revision']}"
    _out(f"{point['name']}  ({about_it})")
    for reason in point["reasons"]:
        _out(f"   {reason}")
    rows = [("measure", "value", "unit", "n", "")]
    for name, measure in point["measures"].items():
        value = "" if measure["value"] is None else f"{measure['value']:.6g}"
        n = "" if measure["n"] is None else str(measure["n"])
        rows.append((name, value, measure["unit"], n, measure["reason"] or ""))
    _table(rows)
    for side in ("asked", "found"):
        for name, value in sorted(about[side].items()):
            _out(f"{side:>6}  {name} = {value}")
    for file in about["files"]:
        _out(f"  file  {file['kind']}: {file['path']}")


def _number(point: Point, measure: str) -> str:
    value = point.value(measure)
    return "-" if value is None else f"{value:.4g}"


def _table(rows: Sequence[tuple[str, ...]]) -> None:
    for line in table(rows):
        _out(line)


def _json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _out(line: str) -> None:
    sys.stdout.write(line + "\n")


def _next(text: str) -> None:
    sys.stderr.write(text + "\n")


def run(argv: list[str]) -> int:
    """Entry of the verb."""
    return run_app(app, "results", argv)
