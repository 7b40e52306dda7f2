"""The answer no, with every reason found, each at its line."""

from __future__ import annotations

from collections.abc import Iterable

from ridgeline.core.errors import AnswerIsNo, Problem
from ridgeline.core.where import Where

SHOWN = 20


class ChangelogRefused(AnswerIsNo):
    """The change breaks the contract. `problems` holds all reasons in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=_place))
        super().__init__(listing(self.problems))


def listing(problems: tuple[Problem, ...]) -> str:
    """One problem as it is; several under a count. Long lists say how many more there are."""
    if len(problems) == 1:
        return str(problems[0])
    shown = [str(problem) for problem in problems[:SHOWN]]
    rest = len(problems) - SHOWN
    return "\n".join([f"{len(problems)} problems", *shown, *([f"and {rest} more"] if rest > 0 else [])])


def at(file: str, line: int, message: str, *, key: str | None = None, hint: str | None = None) -> Problem:
    """A problem at a line of a file; line 0 means the whole file."""
    return Problem(message, Where(file, line), key, hint)


def _place(problem: Problem) -> tuple[str, bool, int]:
    """By file and line; what concerns a whole file comes after what has a line."""
    return (problem.where.file, not problem.where.line, problem.where.line) if problem.where else ("", True, 0)
