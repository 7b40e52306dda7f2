"""The pull-request check's reading of a change: what the diff adds, parsed on its own.

It is looser than the strict contract (links, separators, position, duplicate YAML keys are not looked at) and narrower:
it needs an addition, so a change that only corrects links is refused. `validate` applies both.
"""

from __future__ import annotations

from ridgeline.publish.changelog.contract import FILE
from ridgeline.publish.changelog.diffing import Diff
from ridgeline.publish.changelog.entry import Entry
from ridgeline.publish.changelog.parsing import parse, read_entries
from ridgeline.publish.changelog.refusal import ChangelogRefused, at


def added_entries(head: bytes, diff: Diff, file: str = FILE) -> tuple[Entry, ...]:
    """The entries that `diff` adds to reach `head`, with their lines in `head`. Raises ChangelogRefused."""
    problems = [] if head.endswith(b"\n") else [at(file, head.count(b"\n") + 1, "the last line has no newline")]
    for line in diff.removed:
        if line.text.strip():
            text = line.text.decode("utf-8", "backslashreplace").strip()
            hint = "bring the branch up to date with its base, or restore the line"
            problems.append(
                at(file, line.number, f"removed from the base (its line {line.number}): `{text}`", hint=hint)
            )
    if not any(line.text.strip() for line in diff.added):
        problems.append(at(file, 0, "no entry was added", hint="add an entry at the end of the file"))
    if problems:
        raise ChangelogRefused(problems)
    numbers = tuple(line.number for line in diff.added)
    try:
        text = b"\n".join(line.text for line in diff.added).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ChangelogRefused([at(file, numbers[0], "the added lines are not UTF-8")]) from error
    parsed = parse(text, file, strict=False, lines=numbers)
    if not parsed.value:
        raise ChangelogRefused(
            [at(file, numbers[0], "the added lines hold no entry", hint="add an entry, not a comment")]
        )
    return read_entries(parsed, file)
