"""Questions to the catalogue.

In: a reading transaction. Out: plain rows, points, and frontiers. A frontier is made from columns that are read once
for a dataset version: a chart changes axes and filters far more often than the data changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, Select, func, select, update

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Axis, Point, Source, Validity
from ridgeline.results import frontier as rules
from ridgeline.results.frontier import Exclusion, Frontier
from ridgeline.results.plane import Plane, sign, solve
from ridgeline.results.store import blocks
from ridgeline.results.store import tables as t
from ridgeline.results.store.ingest import point_of_body
from ridgeline.results.sweepline import Floats, Ints

if TYPE_CHECKING:
    from ridgeline.results.store.heads import Heads

FILTERS = ("model", "scenario", "hardware", "framework", "precision", "source", "line", "series")
_EXPLAINED = 500  # excluded points whose stored reason is looked up; more get the general one
_BATCH = 500  # ids in one question


def version(connection: Connection) -> int:
    """The dataset version."""
    return int(connection.execute(select(t.meta.c.value).where(t.meta.c.name == "dataset_version")).scalar_one())


def bump(connection: Connection) -> None:
    """Say that the data changed."""
    value = str(version(connection) + 1)
    connection.execute(update(t.meta).where(t.meta.c.name == "dataset_version").values(value=value))


def refuse_unknown(facts: Mapping[str, str]) -> None:
    """Raises InputError for a filter that is none."""
    unknown = sorted(set(facts) - set(FILTERS))
    if unknown:
        problems = [Problem("is not a filter", key=name) for name in unknown]
        raise InputError(problems, hint=f"filters: {', '.join(FILTERS)}")


def runs(connection: Connection, heads: Heads, channel: str | None) -> list[dict[str, Any]]:
    """Runs, newest first, with their counts."""
    r, c = t.runs.c, t.run_channels.c
    published = select(t.receipts.c.run, func.max(t.receipts.c.at).label("at"))
    published_at = published.where(t.receipts.c.channel == "published").group_by(t.receipts.c.run).subquery()
    failed = select(t.failures.c.run, func.count().label("failures")).group_by(t.failures.c.run).subquery()
    query = (
        select(
            r.id, r.origin, r.name, r.url, r.started_at, published_at.c.at.label("published_at"),
            r.first_imported_at, c.channel, failed.c.failures, r.no,
        )
        .select_from(t.runs)
        .outerjoin(t.run_channels, c.run == r.no)
        .outerjoin(failed, failed.c.run == r.no)
        .outerjoin(published_at, published_at.c.run == r.no)
        .order_by(func.coalesce(r.started_at, "").desc(), r.no.desc())
    )  # fmt: skip
    if channel is not None:
        query = query.where(c.channel == channel)
    counts, found = heads.by_run(), []
    for row in connection.execute(query).mappings():
        plain = dict(row)
        mine = counts.get(plain.pop("no"))
        told = mine._asdict() if mine else {"points": 0, "valid": 0, "measured_at": None, "sources": []}
        plain |= {"channel": plain["channel"] or "withdrawn", "failures": int(plain["failures"] or 0)}
        found.append({**plain, **told})
    return found


def run_id(connection: Connection, prefix: str) -> str:
    """The run with this id, beginning of an id, key or name. Raises InputError."""
    r = t.runs.c
    exact = (
        connection.execute(select(r.id).where((r.id == prefix) | (r.key == prefix) | (r.name == prefix)))
        .scalars()
        .all()
    )
    found = exact or connection.execute(select(r.id).where(r.id.startswith(prefix, autoescape=True))).scalars().all()
    if len(found) == 1:
        return str(found[0])
    message = f"no run is called `{prefix}`" if not found else f"`{prefix}` may be {', '.join(sorted(found)[:4])}"
    raise InputError([Problem(message, hint="`ridgeline results list` names them")])


def points(
    connection: Connection, heads: Heads, *, run: str | None, channel: str | None, facts: Mapping[str, str]
) -> tuple[Point, ...]:
    """Points with their repeat in the provenance, by line, concurrency, repeat and id."""
    refuse_unknown(facts)
    if run is not None:
        number = connection.execute(select(t.runs.c.no).where(t.runs.c.id == run_id(connection, run))).scalar_one()
        rows = np.flatnonzero(heads.current & (heads.run == number))
    else:
        rows = heads.rows(channel, latest=True)
    for name, value in facts.items():
        words = heads.words(name).take(rows)
        rows = rows[words.codes == words.code(value)]
    p, numbers = t.points.c, heads.no[rows].tolist()
    found: list[Any] = []
    for at in range(0, len(numbers), _BATCH):
        query = select(p.line, p.concurrency, p.repeat, p.id, p.body).where(p.no.in_(numbers[at : at + _BATCH]))
        found += connection.execute(query).all()
    return tuple(
        _with_repeat(point_of_body(row.body, row.id), row.repeat) for row in sorted(found, key=lambda r: r[:4])
    )


def _with_repeat(point: Point, repeat: int) -> Point:
    return replace(point, provenance={**point.provenance, "repeat": repeat})


class Selection(NamedTuple):
    """Points that one filter lets in: rows, those of them that take no part, and their plane without values."""

    take: Ints
    left_out: Ints
    ids: list[str]
    sources: list[Source]
    kinds: list[str]
    keys: list[str]
    codes: Ints


class Columns:
    """Latest points as columns, in the order of their numbers; measures are read when first asked for."""

    def __init__(self, heads: Heads) -> None:
        rows = heads.rows(None, latest=True)
        table = heads.table.take(rows)
        self.no = heads.no[rows]
        self.ids: list[str] = table["id"].to_pylist()
        self.names: list[str] = table["name"].to_pylist()
        self.words = {name: heads.words(name).take(rows) for name in (*FILTERS, "validity")}
        self.words["channel"] = heads.channel.take(rows)
        scenario = self.words["scenario"]
        self.agentic = scenario.codes == scenario.code("agentic")
        self._measures: dict[str, Floats] = {}
        # A filter's points are asked for again and again with other axes.
        self._chosen: dict[tuple[tuple[str, str | None], ...], Selection] = {}

    def measure(self, connection: Connection, name: str) -> Floats:
        """Values of a measure for every row, NaN where a point has none."""
        if name not in self._measures:
            found = np.full(len(self.no), np.nan)
            at, values = blocks.read(connection, name)
            if np.array_equal(at, self.no):  # a store without revisions, and a measure that every point has
                found = values
            elif len(at):
                place = np.minimum(np.searchsorted(at, self.no), len(at) - 1)
                known = at[place] == self.no
                found[known] = values[place[known]]
            self._measures[name] = found
        return self._measures[name]

    def select(self, filters: Mapping[str, str | None], source: Source | None) -> Selection:
        """Points that match every filter that is not None, and what a plane needs of them; kept for the next axes."""
        key = (*sorted(filters.items()), ("only", source))
        if key not in self._chosen:
            keep = np.ones(len(self.no), dtype=bool)
            for name, value in filters.items():
                if value is not None:
                    keep &= self.words[name].codes == self.words[name].code(value)
            validity, sources = self.words["validity"], self.words["source"]
            fine = np.isin(validity.codes, [validity.code(str(one)) for one in (Validity.VALID, Validity.UNPROVEN)])
            if source is not None:
                fine &= sources.codes == sources.code(str(source))
            take = np.flatnonzero(keep & fine)
            series, kinds = self.words["series"].take(take).dense(), sources.take(take).dense()
            named = [Source(kind) for kind in kinds.words]
            self._chosen[key] = Selection(
                take=take,
                left_out=np.flatnonzero(keep & ~fine),
                ids=[self.ids[i] for i in take.tolist()],
                sources=[named[code] for code in kinds.codes.tolist()],
                kinds=kinds.words,
                keys=series.words,
                codes=series.codes,
            )
        return self._chosen[key]


def frontier(
    connection: Connection,
    columns: Columns,
    x: Axis,
    y: Axis,
    *,
    channel: str | None,
    source: Source | None,
    mix_sources: bool,
    north_star: Axis | None,
    epsilon: float,
    facts: Mapping[str, str],
) -> Frontier:
    """The same answer as `results.frontier.frontier` over the same points, from columns."""
    refuse_unknown(facts)
    for name, axis in (("x", x), ("y", y), ("north star", north_star)):
        if axis is not None and axis.better is None:
            raise InputError(f"`{axis.measure}` has no better direction, so there is no frontier on it ({name} axis)")
    chosen = columns.select({"channel": channel, **facts}, source)
    take, kinds = chosen.take, chosen.kinds
    if len(kinds) > 1 and not mix_sources:
        raise InputError(
            f"points are {' and '.join(kinds)}; a frontier does not mix sources unasked",
            hint="choose one source, or ask for all of them to be shown with their labels",
        )
    along, up = columns.measure(connection, x.measure)[take], columns.measure(connection, y.measure)[take]
    known = np.isfinite(along) & np.isfinite(up)
    north = None
    if north_star is not None:
        star = columns.measure(connection, north_star.measure)[take]
        north = np.where(columns.agentic[take], star, sign(x) * sign(north_star) * along)
        known &= np.isfinite(north)
    if known.all():
        ids, sources, keys, codes = chosen.ids, chosen.sources, chosen.keys, chosen.codes
    else:
        listed = np.flatnonzero(known).tolist()
        ids, sources = [chosen.ids[i] for i in listed], [chosen.sources[i] for i in listed]
        left, codes = np.unique(chosen.codes[known], return_inverse=True)
        keys = [chosen.keys[i] for i in left.tolist()]
        along, up, north = along[known], up[known], None if north is None else north[known]
    plane = Plane(ids, keys, sources, along, up, north)
    bars = None
    if epsilon:
        sides = [(sign(axis) * values, np.abs(values) * epsilon) for axis, values in ((x, plane.x), (y, plane.y))]
        bars = tuple(value for middle, half in sides for value in (middle - half, middle + half))
    series = solve(plane, x, y, north_star=north_star, bars=bars, coded=(keys, codes))  # type: ignore[arg-type]
    gone = np.concatenate([chosen.left_out, take[~known]])
    excluded = _excluded(connection, columns, gone, x, y, north_star, source)
    return Frontier(x=x, y=y, series=series, excluded=excluded, sources=tuple(Source(kind) for kind in kinds))


def _excluded(
    connection: Connection, columns: Columns, rows: Ints, x: Axis, y: Axis, north: Axis | None, source: Source | None
) -> tuple[Exclusion, ...]:
    """Why each of these rows takes no part. Few are explained by their stored reasons, many by the general one."""
    listed = sorted(rows.tolist(), key=lambda i: columns.ids[i])
    if len(listed) <= _EXPLAINED:
        bodies = _bodies(connection, [int(columns.no[i]) for i in listed])
        found = [point_of_body(bodies[int(columns.no[i])], columns.ids[i]) for i in listed]
        if not found:
            return ()
        answer = rules.frontier(found, x, y, source=source, mix_sources=True, north_star=north)
        return answer.excluded
    wanted = [axis for axis in (x, y, north) if axis is not None]
    exclusions = []
    for i in listed:
        validity = str(columns.words["validity"].at(i))
        if source is not None and columns.words["source"].at(i) != str(source):
            exclusions.append(Exclusion(columns.ids[i], columns.names[i], "other-source", f"not {source}"))
        elif validity not in (str(Validity.VALID), str(Validity.UNPROVEN)):
            exclusions.append(Exclusion(columns.ids[i], columns.names[i], validity, "its reasons are with the point"))
        else:
            name = next((a.measure for a in wanted if not np.isfinite(columns.measure(connection, a.measure)[i])), "")
            exclusions.append(Exclusion(columns.ids[i], columns.names[i], "missing", f"no {name}: not measured"))
    return tuple(exclusions)


def _bodies(connection: Connection, numbers: Sequence[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for at in range(0, len(numbers), _BATCH):
        query = select(t.points.c.no, t.points.c.body).where(t.points.c.no.in_(numbers[at : at + _BATCH]))
        found |= dict(connection.execute(query).all())
    return found


def _number(connection: Connection, id: str) -> int:
    """The number of a point's newest revision. Raises InputError."""
    p = t.points.c
    query = select(p.no).where((p.id == id) | p.id.startswith(id, autoescape=True)).order_by(p.revision.desc(), p.no)
    ids = select(p.id).where((p.id == id) | p.id.startswith(id, autoescape=True)).distinct()
    names = connection.execute(ids).scalars().all()
    if len(names) != 1 and id not in names:
        message = f"no point has the id `{id}`" if not names else f"`{id}` begins the ids of {len(names)} points"
        raise InputError([Problem(message, hint="`ridgeline results show RUN` lists ids")])
    query = query.where(p.id == (id if id in names else names[0]))
    return int(connection.execute(query).scalars().first() or 0)


def file_of(connection: Connection, id: str, kind: str) -> str | None:
    f = t.files.c
    found = connection.execute(select(f.path).where(f.point == _number(connection, id), f.kind == kind)).scalar()
    return str(found) if found is not None else None


def describe(connection: Connection, id: str) -> dict[str, Any]:
    """Everything known of one point, as plain data."""
    number = _number(connection, id)
    p, r = t.points.c, t.runs.c
    row = connection.execute(
        select(p.id, p.body, p.repeat, p.revision, p.derived_by, p.derived_at, r.id.label("run"), r.name, r.started_at)
        .join_from(t.points, t.runs, r.no == p.run)
        .where(p.no == number)
    ).one()
    told: dict[str, dict[str, Any]] = {"asked": {}, "found": {}}
    v = t.provenance.c
    for side, name, value in connection.execute(select(v.side, v.name, v.value).where(v.point == number)):
        told[side][name] = json.loads(value)
    proofs = connection.execute(select(t.proofs.c.kind, t.proofs.c.body).where(t.proofs.c.point == number))
    f = t.files.c
    files = connection.execute(select(f.kind, f.path, f.digest, f.size).where(f.point == number)).mappings()
    revisions = connection.execute(
        select(p.revision, p.derived_by, p.derived_at).where(p.id == row.id).order_by(p.revision)
    ).mappings()
    return {
        "id": row.id,
        "run": {"id": row.run, "name": row.name, "started_at": row.started_at},
        "repeat": row.repeat,
        "revision": row.revision,
        "point": json.loads(row.body),
        "asked": told["asked"],
        "found": told["found"],
        "documents": {kind: json.loads(body) for kind, body in proofs},
        "files": [dict(item) for item in files],
        "revisions": [dict(item) for item in revisions],
    }


def provenance(connection: Connection, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Point id -> `side.name` -> value."""
    wanted = list(ids)
    found: dict[str, dict[str, Any]] = {}
    v, p = t.provenance.c, t.current_points.c
    for at in range(0, len(wanted), _BATCH):
        query = (
            select(p.id, v.side, v.name, v.value)
            .join_from(t.provenance, t.current_points, p.no == v.point)
            .where(p.id.in_(wanted[at : at + _BATCH]))
        )
        for id, side, name, value in connection.execute(query):
            found.setdefault(id, {})[f"{side}.{name}"] = json.loads(value)
    return found


def failures(connection: Connection, run: str) -> list[dict[str, Any]]:
    """The last failure of every cell without a point."""
    f = t.failures.c
    number = select(t.runs.c.no).where(t.runs.c.id == run_id(connection, run)).scalar_subquery()
    done = select(t.points.c.run_key).where(t.points.c.run == number)
    query = select(f.run_key, f.attempt, f.body).where(f.run == number, f.run_key.not_in(done)).order_by(f.attempt)
    last = {key: json.loads(body) for key, _, body in connection.execute(query)}
    return [last[key] for key in sorted(last)]


def _of_run(connection: Connection, query: Select[Any], column: Any, run: str | None) -> list[dict[str, Any]]:
    if run is not None:
        number = select(t.runs.c.no).where(t.runs.c.id == run_id(connection, run)).scalar_subquery()
        query = query.where(column == number)
    return [dict(row) for row in connection.execute(query).mappings()]


def evaluations(connection: Connection, run: str | None) -> list[dict[str, Any]]:
    """Newest revision of every evaluation."""
    e, r = t.evaluations.c, t.runs.c
    newer = t.evaluations.alias()
    later = select(newer.c.key).where(newer.c.run == e.run, newer.c.key == e.key, newer.c.revision > e.revision)
    query = (
        select(r.id.label("run"), e.task, e.metric, e.score, e.stderr, e.n, e.line, e.concurrency, e.measured_at)
        .join_from(t.evaluations, t.runs, r.no == e.run)
        .where(~later.exists())
        .order_by(e.line, e.task, e.key)
    )
    return _of_run(connection, query, e.run, run)


def changelog(connection: Connection, run: str | None) -> list[dict[str, Any]]:
    """Changelog entries with the run they belong to, newest first."""
    c, r = t.changelog.c, t.runs.c
    query = (
        select(r.id.label("run"), c.date, c.base_ref, c.head_ref, c.config_keys, c.description, c.link, c.append_only)
        .join_from(t.changelog, t.runs, r.no == c.run)
        .order_by(c.date.desc(), c.digest)
    )
    found = _of_run(connection, query, c.run, run)
    return [{**row, "config_keys": json.loads(row["config_keys"])} for row in found]


def unmapped(connection: Connection) -> list[dict[str, Any]]:
    """What importers could not map."""
    u, i = t.unmapped.c, t.imports.c
    query = (
        select(i.format, i.title, u.name, u.times.label("count"), u.reason, u.example)
        .join_from(t.unmapped, t.imports, i.no == u.import_no)
        .order_by(i.no, u.name)
    )
    return [dict(row) for row in connection.execute(query).mappings()]
