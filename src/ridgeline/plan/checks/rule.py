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
ENGINES = ("vllm", "sglang", "atom", "trt")


@dataclass(frozen=True, slots=True)
class Rule:
    """One check. `why` says what goes wrong without it, `source` where the rule was read, `example` a worked one.

    `check` is asked (subject, launch) for each launch of an engine among `engines`, or (subject) once when it is about
    the `whole` cell. A finding that names no place is at the first of the options `at` that the command line has.
    """

    id: str
    title: str
    check: Callable[..., Said]
    why: str
    source: str
    example: str
    at: tuple[str, ...] = ()
    engines: tuple[str, ...] = ENGINES
    whole: bool = False

    def __call__(self, subject: Subject) -> Said:
        """The rule's findings and expectations, marked with its id and their place."""
        if self.whole:
            yield from (self._marked(said, subject.cell.where) for said in self.check(subject))
            return
        for launch in subject.launches:
            if launch.build.kind in self.engines:
                place = launch.where(*self.at)
                yield from (self._marked(said, place) for said in self.check(subject, launch))

    def _marked(self, said: Finding | Expectation, place: Where | None) -> Finding | Expectation:
        if isinstance(said, Expectation):
            return replace(said, rule=self.id)
        return replace(said, rule=self.id, where=said.where or place)


def said(
    verdict: Verdict,
    message: str,
    arithmetic: str = "",
    hint: str | None = None,
    *,
    where: Where | None = None,
    changes: Iterable[Change] = (),
) -> Finding:
    """A finding; the rule fills in its id, and its place where none is named. Without a hint the changes are told in
    words."""
    made = tuple(changes)
    told = hint if hint is not None else "; or ".join(change.text for change in made) or None
    return Finding("", verdict, message, arithmetic, where, told, made)


passes = partial(said, Verdict.PASS)
warns = partial(said, Verdict.WARN)
unknown = partial(said, Verdict.UNKNOWN)
fails = partial(said, Verdict.FAIL)


def gib(amount: float) -> str:
    """Bytes as GiB with two decimals, the way the engines print them."""
    return f"{amount / GIB:.2f} GiB"
