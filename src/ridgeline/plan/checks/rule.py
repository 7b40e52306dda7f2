"""A rule of the catalogue, and small helpers to say what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from ridgeline.core.finding import Change, Expectation, Finding, Verdict
from ridgeline.core.units import GIB
from ridgeline.core.where import Where
from ridgeline.plan.checks.subject import Subject

Said = Iterator[Finding | Expectation]
Check = Callable[[Subject], Said]


@dataclass(frozen=True, slots=True)
class Rule:
    """One check. `why` says what goes wrong without it, `source` where the rule was read, `example` a worked one."""

    id: str
    title: str
    check: Check
    why: str
    source: str
    example: str

    def __call__(self, subject: Subject) -> Said:
        """The rule's findings and expectations, marked with its id."""
        for said in self.check(subject):
            yield replace(said, rule=self.id)


def said(
    verdict: Verdict,
    message: str,
    arithmetic: str = "",
    *,
    where: Where | None = None,
    hint: str | None = None,
    changes: Iterable[Change] = (),
) -> Finding:
    """A finding; its rule id is filled in by the rule. Without a hint the changes are told in words."""
    made = tuple(changes)
    told = hint if hint is not None else "; or ".join(change.text for change in made) or None
    return Finding("", verdict, message, arithmetic, where, told, made)


def passes(message: str, arithmetic: str = "", where: Where | None = None) -> Finding:
    return said(Verdict.PASS, message, arithmetic, where=where)


warns = partial(said, Verdict.WARN)
unknown = partial(said, Verdict.UNKNOWN)
fails = partial(said, Verdict.FAIL)


def gib(amount: float) -> str:
    """Bytes as GiB with two decimals, the way the engines print them."""
    return f"{amount / GIB:.2f} GiB"
