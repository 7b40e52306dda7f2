"""Which lines of a history were touched, for a message that names them. Says where, never whether it is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile

from ridgeline.core.errors import Problem
from ridgeline.publish.changelog.refusal import SHOWN, at

_HINT = "lines already in the file stay as they are: restore them and add a new entry at the end"
# A matching of moved lines costs up to the product of both lengths: 0.3 s at this size, half a minute for whole files.
_MATCHED_PAIRS = 400_000

Span = tuple[int, int, int, int]  # old[a:b] became new[c:d]


def history_edits(base: bytes, head: bytes, file: str) -> list[Problem]:
    """One problem per run of changed lines of `base`; lines only appended at the end are no edit.

    The first problem names the line that holds the first differing byte.
    """
    old, new = base.splitlines(keepends=True), head.splitlines(keepends=True)
    problems = []
    for a, b, c, d in _spans(old, new):
        if a < len(old):
            message = _say(b"".join(old[a:b]), b"".join(new[c:d]), a + 1)
            problems.append(at(file, c + 1, message, hint=_HINT))
    return problems


def _spans(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[Span]:
    """Changed spans in order; the first begins at the first differing line."""
    start = _common(zip(old, new, strict=False))
    end = _common(zip(reversed(old[start:]), reversed(new[start:]), strict=False))
    left, right = old[start : len(old) - end], new[start : len(new) - end]
    if len(left) * len(right) <= _MATCHED_PAIRS:
        for kind, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
            if kind != "equal":
                yield (start + a, start + b, start + c, start + d)
        return
    in_place = [index for index, (was, now) in enumerate(zip(old, new, strict=False)) if was != now]
    if len(new) >= len(old) and len(in_place) <= SHOWN:  # lines edited where they stand, perhaps entries appended
        yield from ((index, index + 1, index, index + 1) for index in in_place)
    else:
        yield (start, start + len(left), start, start + len(right))


def _common(pairs: Iterable[tuple[bytes, bytes]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


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
