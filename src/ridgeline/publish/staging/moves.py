"""The three moves of a run between channels, and what keeps each from happening.

A receipt names the run's points by number and digest, so that a later reader can tell whether what is shown is what was
approved. Moving a run to where it is, unchanged, does nothing and gives the old receipt.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from sqlalchemy import select

from ridgeline.core.cell import canonical, digest
from ridgeline.core.errors import AnswerIsNo, EnvironmentFailed
from ridgeline.core.point import Point, Source, Validity
from ridgeline.results.store import Store
from ridgeline.results.store import tables as t
from ridgeline.results.store.channels import LOCAL, PUBLISHED, STAGING, WITHDRAWN

_MARK = re.compile(r"\[(\d+) points?, sha256 ([0-9a-f]{64})\]\Z")


class Receipt(NamedTuple):
    """Who moved what where. `done` False: the run was there already, unchanged, and this is the receipt of that time.
    `points` and `digest`: of what was moved; None in a receipt that another tool wrote."""

    run: str
    name: str
    before: str
    channel: str
    at: str
    who: str
    note: str
    points: int | None
    digest: str | None
    done: bool

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


class Held(NamedTuple):
    """A run as the store lists it, with its points."""

    id: str
    name: str
    channel: str
    points: tuple[Point, ...]

    @property
    def digest(self) -> str:
        """Digest of every point, whatever their order."""
        return digest(sorted(digest(canonical(point)) for point in self.points))


def held(store: Store, run: str) -> Held:
    """The run with this id, beginning of an id, or name. Raises InputError for none or several."""
    id = store.run_id(run)
    row = next(row for row in store.runs() if row["id"] == id)
    return Held(id, row["name"] or id, row["channel"], store.points(run=id))


def stage(store: Store, run: str, *, who: str, note: str = "") -> Receipt:
    """Show a run for approval. Others stay staged. Raises AnswerIsNo when it has no points, or is published already."""
    found = held(store, run)
    if not found.points:
        raise AnswerIsNo(f"run {found.id} has no points", hint="`ridgeline results show RUN` says what failed")
    if found.channel == PUBLISHED:
        raise AnswerIsNo(f"run {found.id} is published", hint="withdraw it first if it must be looked at again")
    return _move(store, found, STAGING, who, note)


def promote(store: Store, run: str, *, who: str, note: str = "") -> Receipt:
    """Publish a staged run, and read it back. Raises AnswerIsNo for a run that is not staged, was changed since, holds
    points that were not measured, or no valid one; EnvironmentFailed when what is read back differs."""
    found = held(store, run)
    others = sorted({str(point.source) for point in found.points if point.source is not Source.MEASURED})
    if others:
        many = f"run {found.id} holds {' and '.join(others)} points; only measured ones are published"
        raise AnswerIsNo(many, hint="promote a run of a real engine; this one may stay in staging")
    if found.channel == PUBLISHED:
        return _move(store, found, PUBLISHED, who, note)
    if found.channel != STAGING:
        where = "was withdrawn" if found.channel == WITHDRAWN else f"is in `{found.channel}`"
        raise AnswerIsNo(f"run {found.id} {where}, not in staging", hint=f"ridgeline stage {found.id}")
    if not any(point.validity in (Validity.VALID, Validity.DEGRADED) for point in found.points):
        raise AnswerIsNo(f"run {found.id} has no point that may be shown as a number")
    last = receipts(store, found.id)[-1]
    if last.digest not in (None, found.digest):
        raise AnswerIsNo(
            f"run {found.id} has other points than when it was staged ({last.at})", hint=f"ridgeline stage {found.id}"
        )
    receipt = _move(store, found, PUBLISHED, who, note)
    if not verify(store, found.id):
        raise EnvironmentFailed(
            f"run {found.id} was published and reads back differently", hint="withdraw it, and report"
        )
    return receipt


def withdraw(store: Store, run: str, *, who: str, note: str) -> Receipt:
    """Take a run out of every channel; it stays in the store. Raises AnswerIsNo without a reason, or for a run that
    nobody sees."""
    if not note.strip():
        raise AnswerIsNo("a withdrawal needs a reason", hint="--note 'what was wrong'")
    found = held(store, run)
    if found.channel == LOCAL:
        raise AnswerIsNo(f"run {found.id} is in `local` only: nobody is shown it")
    return _move(store, found, WITHDRAWN, who, note)


def verify(store: Store, run: str) -> bool:
    """Whether a run's points are those of its last receipt. A receipt without a digest verifies nothing: False."""
    found = held(store, run)
    written = receipts(store, found.id)
    return bool(written) and written[-1].channel == found.channel and written[-1].digest == found.digest


def receipts(store: Store, run: str) -> list[Receipt]:
    """Every receipt of a run, oldest first."""
    id = store.run_id(run)
    return [one for one in history(store) if one.run == id]


def history(store: Store) -> list[Receipt]:
    """Every receipt of every run, oldest first: who moved what where. Withdrawn runs are among them."""
    r, runs = t.receipts.c, t.runs.c
    query = select(runs.id.label("run"), runs.name, r.channel, r.at, r.who, r.note)
    where: dict[str, str] = {}
    found = []
    with store.database.reading() as connection:
        for row in connection.execute(query.join_from(t.receipts, t.runs, runs.no == r.run).order_by(r.no)).mappings():
            before = where.get(row["run"], "none")
            where[row["run"]] = row["channel"]
            found.append(_receipt(dict(row), row["name"] or row["run"], before, done=True))
    return found


def _move(store: Store, found: Held, channel: str, who: str, note: str) -> Receipt:
    last = store.receipts(found.id)
    if found.channel == channel and last:
        receipt = _receipt(last[-1], found.name, channel, done=False)
        if receipt.digest == found.digest or channel == WITHDRAWN:
            return receipt
    count = len(found.points)
    mark = f"[{count} point{'' if count == 1 else 's'}, sha256 {found.digest}]"
    row = store.move(found.id, channel, who=who, note=f"{note.strip()} {mark}".strip())
    return _receipt(row, found.name, found.channel, done=True)


def _receipt(row: dict[str, Any], name: str, before: str, *, done: bool) -> Receipt:
    text = row["note"] or ""
    mark = _MARK.search(text)
    return Receipt(
        run=row["run"],
        name=name,
        before=before,
        channel=row["channel"],
        at=row["at"],
        who=row["who"],
        note=text[: mark.start()].strip() if mark else text,
        points=int(mark[1]) if mark else None,
        digest=mark[2] if mark else None,
        done=done,
    )
