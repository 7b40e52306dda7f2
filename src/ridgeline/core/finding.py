"""Findings before a run, expectations for it, evidence after it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ridgeline.core.where import Where


class Verdict(StrEnum):
    """PASS < WARN < UNKNOWN < FAIL: how bad it is not to look."""

    PASS = "pass"
    WARN = "warn"
    UNKNOWN = "unknown"
    FAIL = "fail"

    @property
    def rank(self) -> int:
        return list(Verdict).index(self)


@dataclass(frozen=True, slots=True)
class Change:
    """One edit of a command line that would make a rule pass: `flag` of `service` set to `value` (None: a bare switch),
    or taken away. `arm`: what the search-space entry must then say too, e.g. ("ep", 8)."""

    service: str
    flag: str
    value: str | None
    text: str
    remove: bool = False
    arm: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check says about one cell. `arithmetic` is for people: the numbers and how they were combined. `changes`
    passed when they were tried, nearest first."""

    rule: str
    verdict: Verdict
    message: str
    arithmetic: str = ""
    where: Where | None = None
    hint: str | None = None
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Expectation:
    """A claim that the run must later confirm: `name op value`, e.g. `kv_tokens >= 1900000`."""

    name: str
    op: str
    value: float | str
    unit: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A fact read from a log or a metric, with where it was read and by which parser (with its version).

    `offset`: where the line begins in its file, bytes. `where` of a metric is the page's address, without a line.
    """

    name: str
    value: float | str
    where: Where | None = None
    parser: str = ""
    offset: int | None = None
