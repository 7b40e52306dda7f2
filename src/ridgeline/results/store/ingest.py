"""From imported values to rows: new ones are added, equal ones are not, changed ones become a further revision.

In: a transaction, an `Imported` with the number of its import, and where its files lie. Out: counts of what was added.
Nothing that is there is changed; the view `current_points` and the heads of points say what counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Table, func, insert, select

from ridgeline import __version__
from ridgeline.core.cell import canonical, digest
from ridgeline.core.point import Measure, Point
from ridgeline.results.importers.api import Imported, ImportedPoint, ImportedRun
from ridgeline.results.store import blocks
from ridgeline.results.store import tables as t
from ridgeline.results.store.filing import Filed

_TABLES = (t.points, t.point_blocks, t.measure_names, t.measure_blocks, t.provenance, t.proofs, t.files)


class Counts(NamedTuple):
    """What an import added. `unchanged`: points that were there already, equal or in more detail."""

    runs: int = 0
    points: int = 0
    revised: int = 0
    unchanged: int = 0
    failures: int = 0
    evaluations: int = 0
    changelog: int = 0

    def __add__(self, other: object) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def changed(self) -> bool:
        return any(value for name, value in self._asdict().items() if name != "unchanged")


def now() -> str:
    """The present moment as the catalogue writes it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def add(
    connection: Connection,
    imported: Imported,
    import_no: int,
    filed: Mapping[tuple[str, str], Mapping[str, Filed]],
    *,
    channel: str,
    again: bool = False,
) -> Counts:
    """Everything of an import. `filed`: (run id, point id) -> kind -> file; `channel`: where new runs go.

    `again`: the import is read anew, to derive its values again. Then any difference is a revision, and points whose
    newest revision another import told are left alone.
    """
    counts = Counts()
    for run in imported.runs:
        number, fresh = _run(connection, run, channel)
        counts += Counts(runs=int(fresh))
        counts += _points(connection, run, number, import_no, filed, again)
        counts += _failures(connection, run, number)
        counts += _evaluations(connection, run, number)
        counts += _changelog(connection, run, number)
    return counts


def next_no(connection: Connection, table: Table) -> int:
    """The next number of a table. Only the holder of the write lock may ask."""
    return int(connection.execute(select(func.coalesce(func.max(table.c.no), 0))).scalar_one()) + 1


def catalogued_id(run: str, point: Point) -> str:
    """A point's id in the store: two runs may hold the same run key and attempt."""
    return f"{run}.{point.id}"


def _run(connection: Connection, run: ImportedRun, channel: str) -> tuple[int, bool]:
    known = connection.execute(select(t.runs.c.no).where(t.runs.c.id == run.id)).scalar()
    if known is not None:
        return int(known), False
    number, at = next_no(connection, t.runs), now()
    row = _some(run, ("id", "origin", "key", "name", "started_at", "url"))
    connection.execute(insert(t.runs), {"no": number, "header": _json(run.header), "first_imported_at": at, **row})
    receipt = {"no": next_no(connection, t.receipts), "run": number, "channel": channel, "at": at}
    receipt |= {"who": "", "note": "imported"}
    connection.execute(insert(t.receipts), receipt)
    return number, True


def _points(
    connection: Connection,
    run: ImportedRun,
    number: int,
    import_no: int,
    filed: Mapping[tuple[str, str], Mapping[str, Filed]],
    again: bool,
) -> Counts:
    known, run_id, at = _known(connection, number), run.id, now()
    names = {name: (no, unit) for no, name, unit in connection.execute(select(t.measure_names))}
    no = next_no(connection, t.points) - 1
    rows: dict[Table, list[dict[str, Any]]] = {table: [] for table in _TABLES}
    waiting = _Waiting(names, [], {})
    fresh = revised = unchanged = 0
    for item in run.points:
        id = catalogued_id(run_id, item.point)
        body = _json(item.point)
        mark = hashlib.sha256(f"{item.repeat} {body}".encode()).hexdigest()
        before = known.get(id)
        if before is not None and (before.digest == mark or _nothing_new(before, body, import_no, again)):
            unchanged += 1
            continue
        revision = 1 if before is None else before.revision + 1
        fresh, revised = (fresh + 1, revised) if before is None else (fresh, revised + 1)
        no += 1
        row = {"no": no, "run": number, "import_no": import_no, "id": id, "revision": revision, "derived_at": at}
        row |= _row(item)
        rows[t.points].append({**row, "digest": mark, "body": body})
        waiting.heads.append({**row, **head(item.point)})
        known[id] = _Known(revision, mark, body, import_no)
        for name, measure in item.point.measures.items():
            if name not in names:
                names[name] = (len(names) + 1, measure.unit)
                rows[t.measure_names].append({"no": len(names), "name": name, "unit": measure.unit})
            waiting.measures.setdefault(names[name][0], []).append((no, measure))
        rows[t.provenance] += _provenance(item, no)
        rows[t.proofs] += [{"point": no, "kind": kind, "body": _json(body)} for kind, body in item.documents.items()]
        rows[t.files] += [
            {"point": no, "kind": kind, "path": file.path, "digest": file.digest, "size": file.size}
            for kind, file in filed.get((run_id, item.point.id), {}).items()
        ]
        if len(rows[t.points]) >= blocks.AT_ONCE:  # the rows of all points of a large import would take a gigabyte
            _write(connection, rows, waiting)
    _write(connection, rows, waiting)
    return Counts(points=fresh, revised=revised, unchanged=unchanged)


class _Waiting(NamedTuple):
    """What goes into blocks. `names`: number and usual unit of every measure."""

    names: Mapping[str, tuple[int, str]]
    heads: list[dict[str, Any]]
    measures: dict[int, list[tuple[int, Measure]]]


def _write(connection: Connection, rows: Mapping[Table, list[dict[str, Any]]], waiting: _Waiting) -> None:
    """Rows into their tables, in the order in which these refer to each other; nothing waits any more then."""
    if waiting.heads:
        from ridgeline.results.store import heads  # loads Arrow

        rows[t.point_blocks].append(heads.block(waiting.heads))
    rows[t.measure_blocks].extend(blocks.rows(waiting.measures, dict(waiting.names.values())))
    waiting.heads.clear()
    waiting.measures.clear()
    for table, made in rows.items():
        if made:
            connection.execute(insert(table), made)
            made.clear()


class _Known(NamedTuple):
    revision: int
    digest: str
    body: str
    import_no: int


def _known(connection: Connection, run: int) -> dict[str, _Known]:
    """The newest revision of every point of a run."""
    p = t.points.c
    query = select(p.id, p.revision, p.digest, p.body, p.import_no).where(p.run == run).order_by(p.revision)
    return {id: _Known(*row) for id, *row in connection.execute(query)}


def _nothing_new(before: _Known, body: str, import_no: int, again: bool) -> bool:
    return before.import_no != import_no if again else _covers(json.loads(before.body), json.loads(body))


def _covers(known: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
    """Whether the known point says everything that the new reading says: the same row served again with less (a
    history without images, an older schema without p90) is nothing new."""
    for name, value in told.items():
        if name == "measures":
            told_values = {key: item["value"] for key, item in value.items() if item["value"] is not None}
            if any(known["measures"].get(key, {}).get("value") != item for key, item in told_values.items()):
                return False
        elif name == "facts":
            if any(known["facts"].get(key) != item for key, item in value.items() if item not in (None, "")):
                return False
        elif name not in ("cell_fingerprint", "measured_at", "cautions", "provenance") and known.get(name) != value:
            return False
    return True


def _row(item: ImportedPoint) -> dict[str, Any]:
    """The columns of a point that follow from it alone."""
    point, facts = item.point, item.point.facts
    wanted = ("run_key", "attempt", "cell_fingerprint", "name", "line", "series", "concurrency", "gpus", "measured_at")
    return {
        "repeat": item.repeat, "derived_by": __version__,
        "source": str(point.source), "validity": str(point.validity),
        "model": facts.get("model_prefix") or facts.get("model"), "scenario": facts.get("scenario_name"),
        **{name: facts.get(name) for name in ("hardware", "framework", "precision")},
        **_some(point, wanted),
    }  # fmt: skip


def head(point: Point) -> dict[str, Any]:
    """What the head of a point holds besides the columns of its row."""
    facts = {"full_model": point.facts.get("model"), "arm": point.facts.get("arm")}
    plain = {name: None if value is None else str(value) for name, value in facts.items()}
    return {**plain, "reasons": "; ".join(point.reasons)}


def _provenance(item: ImportedPoint, no: int) -> Iterable[dict[str, Any]]:
    for side, told in (("asked", item.asked), ("found", item.found)):
        for name, value in flatten(told).items():
            if value is not None:
                yield {"point": no, "side": side, "name": name, "value": _json(value)}


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as `a.b.c` -> value; lists stay values."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, Mapping):
            found |= flatten(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def _failures(connection: Connection, run: ImportedRun, number: int) -> Counts:
    f = t.failures.c
    known = set(connection.execute(select(f.run_key, f.attempt).where(f.run == number)))
    wanted = ("run_key", "attempt", "name", "line", "concurrency", "layer")
    rows = [
        {"run": number, "body": _json(item), **_some(item, wanted)}
        for item in run.failures
        if (item.run_key, item.attempt) not in known
    ]
    if rows:
        connection.execute(insert(t.failures), rows)
    return Counts(failures=len(rows))


def _some(item: object, names: Iterable[str]) -> dict[str, Any]:
    """Fields that a table has under the same names."""
    return {name: getattr(item, name) for name in names}


def _evaluations(connection: Connection, run: ImportedRun, number: int) -> Counts:
    e = t.evaluations.c
    query = select(e.key, e.revision, e.digest).where(e.run == number).order_by(e.revision)
    known = {key: (revision, mark) for key, revision, mark in connection.execute(query)}
    rows = []
    for item in run.evaluations:
        body = _json(item)
        mark = hashlib.sha256(body.encode()).hexdigest()
        revision, before = known.get(item.key, (0, ""))
        if before == mark:
            continue
        wanted = ("key", "task", "metric", "score", "stderr", "n", "line", "concurrency", "measured_at")
        rows.append({"run": number, "revision": revision + 1, "body": body, "digest": mark, **_some(item, wanted)})
    if rows:
        connection.execute(insert(t.evaluations), rows)
    return Counts(evaluations=len(rows))


def _changelog(connection: Connection, run: ImportedRun, number: int) -> Counts:
    known = set(connection.execute(select(t.changelog.c.digest).where(t.changelog.c.run == number)).scalars())
    rows = []
    for item in run.changelog:
        plain = canonical(item)
        mark = digest(plain)
        if mark in known:
            continue
        known.add(mark)
        row = _some(item, ("base_ref", "head_ref", "description", "link", "date"))
        row |= {"config_keys": _json(list(item.config_keys)), "append_only": int(item.append_only)}
        rows.append({"run": number, "digest": mark, **row})
    if rows:
        connection.execute(insert(t.changelog), rows)
    return Counts(changelog=len(rows))


def point_of_body(body: str, id: str) -> Point:
    """The point of a row, under its id in the store."""
    return replace(msgspec.convert(json.loads(body), Point), id=id)


def _json(value: Any) -> str:
    """Compact JSON with sorted keys. Raises ValueError for NaN and infinity."""
    plain = msgspec.to_builtins(value, str_keys=True)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
