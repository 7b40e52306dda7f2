"""Both gates at once: the strict contract of a merge and the pull-request check, with every problem of either."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ridgeline.core.errors import Problem
from ridgeline.publish.changelog.contract import FILE, Change, strict
from ridgeline.publish.changelog.diffing import Diff
from ridgeline.publish.changelog.expansion import Master
from ridgeline.publish.changelog.gate import added_entries
from ridgeline.publish.changelog.links import Links
from ridgeline.publish.changelog.refusal import ChangelogRefused
from ridgeline.publish.changelog.selection import Selection, select


class Validated(NamedTuple):
    """A change that may be merged. `selection` is None for a change that only corrects links."""

    change: Change
    selection: Selection | None


def validate(
    base: bytes,
    head: bytes,
    diff: Diff,
    links: Links,
    master: Master,
    base_master: Callable[[], Master],
    file: str = FILE,
) -> Validated:
    """The change from `base` to `head`, whose line diff is `diff`, if both gates accept it.

    Raises ChangelogRefused with the problems of both, InputError when base or a config is unusable.
    """
    problems: list[Problem] = []
    change = selection = None
    try:
        change = strict(base, head, links, file)
    except ChangelogRefused as refused:
        problems += refused.problems
    try:
        selection = select(added_entries(head, diff, file), master, base_master, file=file)
    except ChangelogRefused as refused:
        # what the looser gate says about a line that the strict one complained of already is the same complaint
        lines = {problem.where.line for problem in problems if problem.where}
        problems += [
            one for one in refused.problems if not problems or (one.where and one.where.line not in {0, *lines})
        ]
    if change is None or selection is None or problems:
        raise ChangelogRefused(problems)
    return Validated(change, selection)


def validate_corrections(base: bytes, head: bytes, links: Links, file: str = FILE) -> Validated | None:
    """The change if the strict contract accepts it as link corrections only; None when it is anything else."""
    try:
        change = strict(base, head, links, file)
    except ChangelogRefused:
        return None
    return Validated(change, None) if change.corrections else None
