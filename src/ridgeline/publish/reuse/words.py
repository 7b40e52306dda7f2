"""Commands in comments: a line or a whole comment that asks for reuse or staging, and who may.

Nothing of a comment's text is used but the command and its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ridgeline.publish.forge.event import Comment
from ridgeline.publish.forge.github import newest_first
from ridgeline.publish.gate.policy import GatePolicy

_BLANKS = " \t"


class Asked(NamedTuple):
    """A command. `run`: the run it pins, None for the newest fit one."""

    run: int | None
    comment: Comment


def reuse_line(body: str, command: str) -> tuple[bool, int | None]:
    """Whether a comment holds the reuse command on a line of its own, and the run of its last such line."""
    found: tuple[bool, int | None] = (False, None)
    for line in re.split(r"\r\n|\r|\n", body):
        asked, run = _command(line.strip(_BLANKS), command)
        if asked:
            found = (True, run)
    return found


def stage_body(body: str, command: str) -> tuple[bool, bool, int | None]:
    """(addressed to us, well-formed, run): the whole comment must be the command with at most a number."""
    text = body.strip()
    asked, run = _command(text, command)
    if asked:
        return True, True, run
    return text == command or re.match(re.escape(command) + r"(?=\s)", text) is not None, False, None


def may_reuse(comment: Comment, policy: GatePolicy) -> bool:
    """Whether GitHub's word for the author's belonging allows it."""
    return comment.association in policy.commands.associations


def authorisation(comments: Iterable[Comment], policy: GatePolicy) -> Asked | None:
    """The newest comment by somebody who may that holds the command."""
    for comment in newest_first(comments):
        if may_reuse(comment, policy):
            asked, run = reuse_line(comment.body, policy.commands.reuse)
            if asked:
                return Asked(run, comment)
    return None


def _command(text: str, command: str) -> tuple[bool, int | None]:
    match = re.fullmatch(re.escape(command) + r"(?:[ \t]+([0-9]{1,18}))?", text)
    if match is None or (match[1] is not None and int(match[1]) == 0):
        return False, None
    return True, int(match[1]) if match[1] else None
