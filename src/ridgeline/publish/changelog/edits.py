"""Which lines of a history were touched, for a message that names them. Says where, never whether it is allowed."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import takewhile

from ridgeline.core.errors import Problem
from ridgeline.publish.changelog.refusal import at

_HINT = "lines already in the file stay as they are: restore them and add a new entry at the end"


def history_edits(base: bytes, head: bytes, file: str) -> list[Problem]:
    """One problem per run of changed lines of `base`; lines only appended at the end are no edit.

    The first problem names the line that holds the first differing byte.
    """
    old, new = base.splitlines(keepends=True), head.splitlines(keepends=True)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    # a common tail is cut off as well: comparing 6,000 lines with themselves is what costs time
    old_rest, new_rest = old[same:], new[same:]
    while old_rest and new_rest and old_rest[-1] == new_rest[-1]:
        old_rest.pop()
        new_rest.pop()
    problems = []
    for kind, i, i_end, j, j_end in SequenceMatcher(None, old_rest, new_rest, autojunk=False).get_opcodes():
        if kind == "equal" or (kind == "insert" and same + i == len(old)):
            continue
        was, now = b"".join(old_rest[i:i_end]), b"".join(new_rest[j:j_end])
        problems.append(at(file, same + j + 1, _say(was, now, same + i + 1), hint=_HINT))
    return problems


def _say(was: bytes, now: bytes, line: int) -> str:
    if not was:
        return f"inserted into history: {_quote(now)}"
    if not now:
        return f"removed from history (line {line} before): {_quote(was)}"
    return f"history changed: was {_quote(was)}, now {_quote(now)}"


def _quote(text: bytes) -> str:
    lines = text.splitlines()
    first = ascii(lines[0].decode("utf-8", "backslashreplace"))[1:-1]
    first = first if len(first) <= 80 else first[:77] + "..."
    return f"`{first}`" + (f" and {len(lines) - 1} more lines" if len(lines) > 1 else "")
