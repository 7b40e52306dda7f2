"""The catalogue's tables and views as SQLAlchemy Core sees them. Their making is in migrations.py; a test holds both
equal, column by column."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Float, Integer, LargeBinary, MetaData, String, Table
from sqlalchemy.types import TypeEngine

METADATA = MetaData()


_KINDS: dict[type, TypeEngine[Any]] = {int: BigInteger(), str: String(), float: Float(), bytes: LargeBinary()}


def _table(title: str, /, **columns: type) -> Table:
    return Table(title, METADATA, *(Column(column, _KINDS[kind]) for column, kind in columns.items()))


meta = _table("meta", name=str, value=str)
imports = _table(
    "imports", no=int, digest=str, format=str, version=int, title=str, told=str, imported_at=str, ridgeline=str
)
documents = Table(
    "documents",
    METADATA,
    Column("import", BigInteger, key="import_no"),
    Column("name", String),
    Column("digest", String),
    Column("path", String),
    Column("size", BigInteger),
)
unmapped = Table(
    "unmapped",
    METADATA,
    Column("import", BigInteger, key="import_no"),
    Column("name", String),
    Column("count", BigInteger, key="times"),
    Column("reason", String),
    Column("example", String),
)
runs = _table(
    "runs", no=int, id=str, origin=str, key=str, name=str, started_at=str, url=str, header=str, first_imported_at=str
)


def _points(name: str) -> Table:
    texts = (
        "id", "run_key", "cell_fingerprint", "name", "line", "series", "source", "validity", "model", "scenario",
        "hardware", "framework", "precision", "measured_at", "derived_by", "derived_at", "digest", "body",
    )  # fmt: skip
    numbers = ("no", "run", "repeat", "attempt", "revision", "concurrency", "gpus")
    columns = [Column(column, String) for column in texts] + [Column(column, Integer) for column in numbers]
    return Table(name, METADATA, *columns, Column("import", BigInteger, key="import_no"))


points = _points("points")
current_points = _points("current_points")
measure_names = _table("measure_names", no=int, name=str, unit=str)
measure_blocks = _table("measure_blocks", measure=int, first=int, numbers=bytes, packed=bytes, counts=bytes, said=str)
point_blocks = _table("point_blocks", first=int, packed=bytes)
failures = _table(
    "failures", run=int, run_key=str, attempt=int, name=str, line=str, concurrency=int, layer=str, body=str
)
provenance = _table("provenance", point=int, side=str, name=str, value=str)
proofs = _table("proofs", point=int, kind=str, body=str)
files = _table("files", point=int, kind=str, path=str, digest=str, size=int)
evaluations = _table(
    "evaluations",
    run=int, key=str, revision=int, task=str, metric=str, score=float, stderr=float, n=int, line=str, concurrency=int,
    measured_at=str, body=str, digest=str,
)  # fmt: skip
changelog = _table(
    "changelog",
    run=int, digest=str, base_ref=str, head_ref=str, config_keys=str, description=str, link=str, date=str,
    append_only=int,
)  # fmt: skip
receipts = _table("receipts", no=int, run=int, channel=str, at=str, who=str, note=str)
run_channels = _table("run_channels", run=int, channel=str, at=str)
