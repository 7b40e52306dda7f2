"""A changelog file as it lies on disk: its bytes, its entries, and the block of bytes that each entry owns.

The form is checked here (last byte, forbidden bytes, YAML, one `- config-keys:` line per entry, schema); what may
change between two revisions is `contract`'s business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ridgeline.core.errors import Problem
from ridgeline.publish.changelog.entry import Entry
from ridgeline.publish.changelog.parsing import parse, read_entries
from ridgeline.publish.changelog.refusal import ChangelogRefused, at

MARKER = b"- config-keys:"
LINK = b"  pr-link:"
_FORBIDDEN = (
    (b"\r", "CR byte", "save the file with LF line ends"),
    (b"\t", "tab", "use spaces"),
    (b"\0", "NUL byte", "remove it"),
)


@dataclass(frozen=True, slots=True)
class Document:
    """A well-formed changelog. `entries[i]` starts at line `entries[i].line`."""

    file: str
    data: bytes
    entries: tuple[Entry, ...]

    def block(self, index: int) -> bytes:
        """The bytes from the first line of entry `index` up to the next entry, or to the end of the file."""
        lines = self.data.splitlines(keepends=True)
        last = self.entries[index + 1].line - 1 if index + 1 < len(self.entries) else len(lines)
        return b"".join(lines[self.entries[index].line - 1 : last])


def read_document(data: bytes, file: str) -> Document:
    """Parse and check the form of one revision. Raises ChangelogRefused with every fault found."""
    problems = list(_byte_faults(data, file))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ChangelogRefused([*problems, at(file, line, "not UTF-8", hint="save the file as UTF-8")]) from error
    try:
        entries = read_entries(parse(text, file, strict=True), file)
    except ChangelogRefused as refused:
        raise ChangelogRefused([*problems, *refused.problems]) from refused
    problems += _marker_faults(data, file, entries)
    if problems:
        raise ChangelogRefused(problems)
    return Document(file, data, entries)


def set_link(block: bytes, url: str, file: str, line: int) -> bytes:
    """The block with its one `  pr-link:` line rewritten to `url`; every other byte stays. Raises ChangelogRefused."""
    found = list(re.finditer(rb"^" + LINK + rb"[^\n]*", block, re.MULTILINE))
    if len(found) != 1:
        hint = "write the link as one line: two spaces, `pr-link:`, the link"
        raise ChangelogRefused([at(file, line, f"entry has {len(found)} lines starting `  pr-link:`", hint=hint)])
    start, end = found[0].span()
    return block[:start] + LINK + b" " + url.encode() + block[end:]


def _byte_faults(data: bytes, file: str) -> list[Problem]:
    faults = []
    for byte, name, hint in _FORBIDDEN:
        lines = [number for number, line in enumerate(data.split(b"\n"), 1) if byte in line]
        if lines:
            more = f", and in {len(lines) - 1} more lines" if len(lines) > 1 else ""
            faults.append(at(file, lines[0], f"{name}{more}", hint=hint))
    if not data.endswith(b"\n"):
        faults.append(at(file, data.count(b"\n") + 1, "the last line has no newline", hint="end the file with one"))
    return faults


def _marker_faults(data: bytes, file: str, entries: tuple[Entry, ...]) -> list[Problem]:
    """Blocks can only be moved as bytes when each entry begins with its own `- config-keys:` line."""
    marked = {number for number, line in enumerate(data.split(b"\n"), 1) if line.startswith(MARKER)}
    begun = {entry.line for entry in entries}
    hint = "start each entry with `- config-keys:` in the first column, one key to a line"
    faults = [
        at(file, line, "entry does not start with `- config-keys:`", hint=hint) for line in sorted(begun - marked)
    ]
    return faults + [
        at(file, line, "`- config-keys:` starts no entry here", hint=hint) for line in sorted(marked - begun)
    ]
