"""Channels: where a run is to be seen. A receipt says who moved it when; nothing else changes.

In: a transaction and a run's id. Out: receipts. `local` holds what was imported here, `staging` what is shown for
approval, `published` what counts; `withdrawn` is in none. Only measured points can be published.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, insert, select

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Source
from ridgeline.results.store import ingest
from ridgeline.results.store import tables as t

LOCAL, STAGING, PUBLISHED, WITHDRAWN = "local", "staging", "published", "withdrawn"
CHANNELS = (LOCAL, STAGING, PUBLISHED)


def check(channel: str) -> None:
    """Raises InputError for a word that is no channel."""
    if channel not in CHANNELS:
        raise InputError([Problem(f"no channel is called `{channel}`", hint=f"one of {', '.join(CHANNELS)}")])


def move(connection: Connection, run: str, channel: str, *, who: str, note: str) -> dict[str, Any]:
    """Write a receipt. Raises InputError for an unknown channel, or points that may not be published."""
    if channel != WITHDRAWN:
        check(channel)
    number = connection.execute(select(t.runs.c.no).where(t.runs.c.id == run)).scalar_one()
    if channel == PUBLISHED:
        p = t.current_points.c
        sources = set(connection.execute(select(p.source).where(p.run == number).distinct()).scalars())
        other = sorted(sources - {str(Source.MEASURED)})
        if other:
            message = f"run {run} holds {' and '.join(other)} points; only measured ones can be published"
            raise InputError(message, hint="publish a run of a real engine, or leave this one in staging")
    receipt = {
        "no": ingest.next_no(connection, t.receipts),
        "run": number,
        "channel": channel,
        "at": ingest.now(),
        "who": who,
        "note": note,
    }
    connection.execute(insert(t.receipts), receipt)
    return {**receipt, "run": run}


def receipts(connection: Connection, run: str) -> list[dict[str, Any]]:
    """Receipts of a run, oldest first."""
    r = t.receipts.c
    number = connection.execute(select(t.runs.c.no).where(t.runs.c.id == run)).scalar_one()
    rows = connection.execute(select(r.no, r.channel, r.at, r.who, r.note).where(r.run == number).order_by(r.no))
    return [{"run": run, **dict(row)} for row in rows.mappings()]
