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
class Finding:
    """What a check says about one cell. `arithmetic` is for people: the numbers and how they were combined."""

    rule: str
    verdict: Verdict
    message: str
    arithmetic: str = ""
    where: Where | None = None
    hint: str | None = None


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
    """A fact read from a log or a metric, with where it was read and by which parser."""

    name: str
    value: float | str
    where: Where | None = None
    parser: str = ""
