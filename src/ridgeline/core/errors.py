"""What can go wrong, as a caller sees it. The class decides the exit code; the message is shown as it is.

RidgelineError
├── AnswerIsNo          exit 1   the question was understood and the answer is no
├── InputError          exit 2   what the user gave is wrong; carries every problem found, not the first
└── EnvironmentFailed   exit 3   the world did not play along: an engine died, a port is taken, a disk is full
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from ridgeline.core.where import Where


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in what the user gave: where, at which key, what, and what to do about it."""

    message: str
    where: Where | None = None
    key: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        key = f"`{self.key}`: " if self.key else ""
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{place}{key}{self.message}{hint}"


class RidgelineError(Exception):
    """Base of every error meant for the user. Anything else that escapes is a bug and shows a traceback."""

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n\nhint: {self.hint}" if self.hint else self.message


class AnswerIsNo(RidgelineError):
    """Findings that fail, a regression, a gate that stays shut."""

    exit_code = 1


class InputError(RidgelineError):
    """The input is wrong. `problems` holds all of them, in the order of the file."""

    exit_code = 2

    def __init__(self, problems: str | Iterable[Problem], *, hint: str | None = None) -> None:
        self.problems = (Problem(problems),) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems), hint=hint)


class EnvironmentFailed(RidgelineError):
    """The environment failed: not the user's input and not our code."""

    exit_code = 3
