"""P02 to P05: the changelog's own contract, its problems under the gate's rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ridgeline.core.errors import InputError, Problem
from ridgeline.publish.changelog import validation
from ridgeline.publish.changelog.diffing import Diff
from ridgeline.publish.changelog.edits import history_edits
from ridgeline.publish.changelog.expansion import Master
from ridgeline.publish.changelog.links import Links
from ridgeline.publish.changelog.refusal import ChangelogRefused
from ridgeline.publish.changelog.validation import Validated
from ridgeline.publish.gate.rule import Remark, of_problem, remark

_BEHIND = "the branch lacks newer entries of its base, which count as removed; merge the base into it first"


def judge(
    base: bytes,
    head: bytes,
    diff: Diff,
    links: Links,
    master: Master,
    base_master: Callable[[], Master],
    file: str,
    *,
    behind: bool,
) -> tuple[Validated | None, list[Remark]]:
    """The change if both gates of the changelog accept it, else None, with a remark for every problem. A change that
    only corrects links is accepted. `behind`: the branch does not contain its base."""
    try:
        corrected = validation.validate_corrections(base, head, links, file)
        if corrected is not None:
            return corrected, []
        return validation.validate(base, head, diff, links, master, base_master, file), []
    except ChangelogRefused as refused:
        edits = set(history_edits(base, head, file)) if not head.startswith(base) else set()
        return None, list(_ruled(refused.problems, edits, behind))
    except InputError as error:
        return None, [of_problem("P07", problem) for problem in error.problems]


def _ruled(problems: Iterable[Problem], edits: set[Problem], behind: bool) -> Iterable[Remark]:
    for problem in problems:
        if problem in edits or problem.message.startswith("removed from the base"):
            hint = _BEHIND if behind else problem.hint
            yield remark("P02", problem.message, problem.where, hint=hint)
        elif problem.key == "pr-link":
            yield of_problem("P04", problem)
        elif problem.key == "append-only":
            yield of_problem("P03", problem)
        else:
            yield of_problem("P05", problem)
