"""What the place that stages results reports back: `started` or `completed`, checked before anything is posted.

In: the payload of a `repository_dispatch` event, hostile like any other. Out: a frozen `Callback` with what may be told
on the pull request, or an InputError with every field that is wrong.
"""

from __future__ import annotations

import datetime
import re
from typing import Any, NamedTuple

from ridgeline.publish.forge.event import Reader

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class Callback(NamedTuple):
    """`success` is None while it only started."""

    kind: str
    pull: int
    run: int
    attempt: int
    date: datetime.date
    requester: str
    comment: int
    success: bool | None


def read_callback(payload: Any, repository: str, file: str = "callback") -> Callback:
    """The callback of a parsed payload, which must come from `repository`. Raises InputError."""
    read = Reader(payload, file)
    source = read.repository("repository")
    if source and source.lower() != repository.lower():
        read.wrong(("repository",), f"must be {repository}")
    kind = read.text("type")
    if kind not in ("started", "completed"):
        read.wrong(("type",), "must be started or completed")
    date = _date(read)
    success = read.at("success")
    if kind == "completed" and success.__class__ is not bool:
        read.wrong(("success",), "must be true or false")
    found = Callback(
        kind,
        read.whole("pr-number"),
        read.whole("run-id"),
        read.whole("run-attempt"),
        date,
        read.login("requester"),
        read.whole("comment-id"),
        success if kind == "completed" else None,
    )
    read.finish()
    return found


def text(callback: Callback) -> str:
    """What is told on the pull request. Only numbers, dates and an account's checked name are in it."""
    about = f"run {callback.run} (attempt {callback.attempt}) of {callback.date.isoformat()}"
    if callback.success is None:
        return f"Staging {about} has started.\n"
    return f"Staging {about} {'is done' if callback.success else 'failed'}.\n"


def marker(run: int, attempt: int) -> str:
    """The hidden text by which the comment of a run is found again: what completes rewrites what was acknowledged."""
    return f"<!-- ridgeline-stage run={run} attempt={attempt} -->"


def _date(read: Reader) -> datetime.date:
    written = read.text("date")
    try:
        if _DATE.fullmatch(written):
            return datetime.date.fromisoformat(written)
    except ValueError:
        pass  # a day that no calendar has is told like any other shape
    read.wrong(("date",), "must be a date like 2026-08-21")
    return datetime.date.min
