"""The strict contract between two revisions of a changelog: history stays as it is, byte for byte.

A change is either additions at the end or corrections of links in history, never both. `strict` decides and says what
was added and corrected; it does not look at the configs.
"""

from __future__ import annotations

from typing import NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.publish.changelog.document import LINK, MARKER, Document, read_document
from ridgeline.publish.changelog.edits import history_edits
from ridgeline.publish.changelog.entry import Entry
from ridgeline.publish.changelog.links import Links
from ridgeline.publish.changelog.refusal import ChangelogRefused, at

FILE = "perf-changelog.yaml"


class Correction(NamedTuple):
    """Entry `position` (from 0) of history with another link, before and after."""

    position: int
    before: Entry
    after: Entry


class Change(NamedTuple):
    """A change that keeps the contract. At most one of `additions` and `corrections` holds something."""

    base: Document
    head: Document
    additions: tuple[Entry, ...]
    corrections: tuple[Correction, ...]


def strict(base: bytes, head: bytes, links: Links, file: str = FILE) -> Change:
    """What `head` adds to or corrects in `base`.

    Raises ChangelogRefused with every breach, at lines of `head`; InputError when `base` itself is malformed, since
    then no head can be right.
    """
    try:
        old = read_document(base, f"{file} (base)")
    except ChangelogRefused as refused:
        raise InputError(
            refused.problems, hint="the base revision breaks the contract itself; repair it first"
        ) from None
    try:
        new = read_document(head, file)
    except ChangelogRefused as refused:
        if head.startswith(base):
            raise
        # base is well-formed, so faults inside its lines only follow from the edits: name those
        last = base.count(b"\n")
        beyond = [one for one in refused.problems if one.where and one.where.line > last]
        raise ChangelogRefused([*(history_edits(base, head, file) or refused.problems), *beyond]) from None
    return _compare(old, new, links)


def _compare(old: Document, new: Document, links: Links) -> Change:
    pairs = list(zip(old.entries, new.entries, strict=False))
    corrections = tuple(
        Correction(index, before, after)
        for index, (before, after) in enumerate(pairs)
        if before != after and before.content == after.content
    )
    immutable = all(before.content == after.content for before, after in pairs) and len(new.entries) >= len(old.entries)
    additions = new.entries[len(old.entries) :]
    if not immutable:
        raise ChangelogRefused(history_edits(old.data, new.data, new.file))
    problems = [*_link_faults(additions, corrections, links, new.file)]
    if additions and corrections:
        problems += history_edits(old.data, new.data, new.file)
        hint = "correct links of history in a change of their own"
        problems.append(at(new.file, additions[0].line, "new entries and link corrections do not mix", hint=hint))
    elif additions:
        problems += _addition_faults(old, new, additions)
    elif corrections:
        problems += _correction_faults(old, new, corrections)
    elif old.data != new.data:
        problems += history_edits(old.data, new.data, new.file) or _tail_edit(old, new)
    if problems:
        raise ChangelogRefused(problems)
    return Change(old, new, additions, corrections)


def _link_faults(
    additions: tuple[Entry, ...], corrections: tuple[Correction, ...], links: Links, file: str
) -> list[Problem]:
    faults = [
        at(file, entry.link_line, f"`{entry.pr_link}` may not stand here", key="pr-link", hint=f"use {links.allowed}")
        for entry in additions
        if not links.allows_in_addition(entry.pr_link)
    ]
    hint = f"use {Links(links.repository).allowed}"
    return faults + [
        at(
            file,
            one.after.link_line,
            f"corrected to `{one.after.pr_link}`, which is not canonical",
            key="pr-link",
            hint=hint,
        )
        for one in corrections
        if not links.is_canonical(one.after.pr_link)
    ]


def _addition_faults(old: Document, new: Document, additions: tuple[Entry, ...]) -> list[Problem]:
    if not new.data.startswith(old.data):
        return history_edits(old.data, new.data, new.file) or _tail_edit(old, new)
    lines = new.data.split(b"\n")
    faults = []
    first = old.data.count(b"\n")
    blank = 0 if old.data.endswith(b"\n\n") else 1
    if lines[first : first + blank] != [b""] * blank or not lines[first + blank].startswith(MARKER):
        what = "the first new entry must follow history after exactly one empty line, with nothing else between"
        faults.append(at(new.file, first + 1, what, hint="leave one empty line, then `- config-keys:`"))
    for entry in additions[1:]:
        above = lines[entry.line - 3 : entry.line - 1]
        if above[1] != b"" or above[0] == b"":
            what = "exactly one empty line must stand before each new entry"
            faults.append(at(new.file, entry.line, what, hint="leave one empty line between entries"))
    if new.data.endswith(b"\n\n"):
        faults.append(at(new.file, len(lines) - 1, "the file ends with an empty line", hint="end it with one newline"))
    return faults


def _correction_faults(old: Document, new: Document, corrections: tuple[Correction, ...]) -> list[Problem]:
    before, after = old.data.splitlines(keepends=True), new.data.splitlines(keepends=True)
    if len(before) != len(after):
        what = "a link correction may not add or remove lines"
        return [*history_edits(old.data, new.data, new.file), at(new.file, corrections[0].after.link_line, what)]
    differing = [number for number, (was, now) in enumerate(zip(before, after, strict=True), 1) if was != now]
    faults = [
        at(new.file, number, "a link correction may only change `  pr-link:` lines", hint="restore this line")
        for number in differing
        if not (before[number - 1].startswith(LINK) and after[number - 1].startswith(LINK))
    ]
    if not faults and len(differing) != len(corrections):
        what = f"{len(differing)} lines differ for {len(corrections)} corrected links"
        expected = {one.after.link_line for one in corrections}
        faults = [
            at(new.file, number, what, hint="restore this line") for number in differing if number not in expected
        ]
        faults = faults or [at(new.file, differing[0], what)]
    return faults


def _tail_edit(old: Document, new: Document) -> list[Problem]:
    """Bytes appended that hold no entry: blank lines or comments."""
    line = min(old.data.count(b"\n"), new.data.count(b"\n")) + 1
    return [at(new.file, line, "changed without a new entry", hint="only whole entries may be added")]
