"""What a lint rule is: id, meaning, repair, an example of each side, and the function that finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ridgeline.core.finding import Verdict
from ridgeline.plan.shell.facts import Facts
from ridgeline.plan.shell.script import Node


class Hit(NamedTuple):
    """One place and what is wrong there."""

    node: Node
    message: str


@dataclass(frozen=True, slots=True)
class Rule:
    """`reason`: what goes wrong in a run. `bad` and `good`: a script that breaks the rule, and its repaired twin."""

    id: str
    title: str
    verdict: Verdict
    reason: str
    repair: str
    bad: str
    good: str
    find: Callable[[Facts], Iterator[Hit]]
