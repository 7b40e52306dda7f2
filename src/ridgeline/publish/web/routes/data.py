"""The data page: read-only SQL, downloads, and the way into the interface."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from ridgeline.core.errors import InputError
from ridgeline.core.point import Point
from ridgeline.publish.web import chart, html, sql
from ridgeline.publish.web.answers import answer, encode, etag
from ridgeline.publish.web.context import channel_of, context_of
from ridgeline.publish.web.data import Holding
from ridgeline.publish.web.question import decode

router = APIRouter()


@router.get("/data", include_in_schema=False)
def get_page(request: Request, q: str = "") -> Response:
    context = context_of(request)
    holding = context.library.holding(channel_of(request))
    found: dict[str, Any] = {"answer": None, "wrong": ""}
    if q.strip():
        try:
            found["answer"] = sql.ask(_of(holding), q)
        except InputError as error:
            found["wrong"] = error.message
    return html.page(
        request,
        "data.html",
        "data",
        script="page_data.js",
        q=q,
        schema=sql.SCHEMA,
        examples=sql.EXAMPLES,
        seconds=sql.SECONDS,
        most=sql.ROWS,
        **found,
    )


@router.get("/api/v1/sql", tags=["data"])
def get_sql(request: Request, q: str = Query(..., min_length=1)) -> Response:
    """One SELECT over `runs`, `points`, `measures` and `requests` of a channel. Read-only, and bounded in time and
    rows: `more` says that there were more rows than came."""
    holding = context_of(request).library.holding(channel_of(request))

    def make() -> bytes:
        found = sql.ask(_of(holding), q)
        return encode(
            {
                "columns": found.columns,
                "types": found.types,
                "rows": found.rows,
                "more": found.more,
                "provenance": {"dataset_version": holding.version},
            }
        )

    return answer(request, etag("sql", holding.version, q), make)


@router.get("/api/v1/export.csv", tags=["data"])
def get_csv(request: Request) -> Response:
    """Every point of a question (channel, model, on, run) in long form: one row a point and measure, empty where there
    is no value, with the reason, unit, source, validity and run. Laid-over runs are never part of an export."""
    holding, points = _asked(request)

    def make() -> bytes:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([_guarded(value) for value in row] for row in _rows(points))
        return text.getvalue().encode()

    return answer(request, etag("csv", holding.version, request.url.query), make, kind="text/csv; charset=utf-8")


@router.get("/api/v1/export.parquet", tags=["data"])
def get_parquet(request: Request) -> Response:
    """The same as export.csv, as Parquet."""
    holding, points = _asked(request)

    def make() -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = list(zip(*_rows(points), strict=True)) or [()] * len(COLUMNS)
        kinds = [_kinds().get(name, pa.string()) for name in COLUMNS]
        table = pa.Table.from_arrays(
            [pa.array(c, type=k) for c, k in zip(columns, kinds, strict=True)], names=list(COLUMNS)
        )
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="zstd")
        return sink.getvalue()

    kind = "application/vnd.apache.parquet"
    return answer(request, etag("parquet", holding.version, request.url.query), make, kind=kind)


COLUMNS = (
    "point", "name", "line", "series", "source", "validity", "model", "scenario", "concurrency", "gpus", "measured_at",
    "measure", "value", "unit", "n", "reason",
)  # fmt: skip


def _kinds() -> dict[str, Any]:
    import pyarrow as pa

    return {"concurrency": pa.int64(), "gpus": pa.int64(), "value": pa.float64(), "n": pa.int64()}


def _rows(points: tuple[Point, ...]) -> Iterator[tuple[Any, ...]]:
    for point in points:
        head = (
            point.id, point.name, point.line, point.series, str(point.source), str(point.validity),
            str(point.facts.get("model") or ""), str(point.facts.get("scenario_name") or ""), point.concurrency,
            point.gpus, point.measured_at,
        )  # fmt: skip
        for name, measure in point.measures.items():
            yield (*head, name, measure.value, measure.unit, measure.n, measure.reason)


def _guarded(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula begins with a quote."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _asked(request: Request) -> tuple[Holding, tuple[Point, ...]]:
    from dataclasses import replace

    question, _ = decode(request.query_params.multi_items())
    asked = chart.settle(context_of(request).library, replace(question, overlay=(), x=None, y=None))
    return asked.holding, asked.points


def _of(holding: Holding) -> sql.Tables:
    """Tables of a channel at its version."""
    return holding.keep("sql", lambda: sql.Tables(holding))
