"""A change as an edit of the file it comes from: the config's scalar, the recipe's or the script's word.

Pure text: bytes in, bytes out, everything outside the edited words unchanged. What has no place to be written says so.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

from ridgeline.core.finding import Change
from ridgeline.core.where import Where
from ridgeline.engine.argv import flags_of, last
from ridgeline.plan.checks.subject import Subject


class Edit(NamedTuple):
    """Replace `old` by `new` on a line of a file; `column` 0: where it stands alone on that line. An empty `old` adds
    `new` before the word at `column`, so that it lands in the same command or array; without a column at the end of
    the line, before a continuation mark."""

    where: Where
    old: str
    new: str
    text: str


class NotWritten(NamedTuple):
    """A change that has no place in a file, and why."""

    change: Change
    reason: str


def edits_of(subject: Subject, change: Change, configs: Mapping[str, bytes]) -> list[Edit] | NotWritten:
    """The edits of one change. `configs`: the config files' bytes, by the name that places carry."""
    assert subject.deployment is not None
    found: list[Edit] = []
    service = subject.deployment.service(change.service)
    flag = last(flags_of(service.argv)[1]).get(change.flag)
    if flag is not None and flag.where is not None and flag.value is not None and change.value is not None:
        old = flag.value if not flag.inline else f"{flag.written}={flag.value}"
        new = change.value if not flag.inline else f"{flag.written}={change.value}"
        found.append(Edit(flag.where, old, new, change.text))
    else:
        anchor = next((item for item in reversed(service.argv) if item.origin and item.origin.line), None)
        if anchor is None or anchor.origin is None or not anchor.origin.file.endswith((".sh", ".bash")):
            said = "nothing says where this command line is written"
            return NotWritten(change, said if anchor is None else f"{anchor.origin} is code: add it there by hand")
        words = f"--{change.flag}" + ("" if change.value is None else f" {_quoted(change.value)}")
        found.append(Edit(anchor.origin, "", f" {words}", change.text))
    if change.arm is not None:
        arm = _arm_edit(subject, change, configs)
        if isinstance(arm, NotWritten):
            return arm
        found.append(arm)
    return found


def _quoted(value: str) -> str:
    return value if re.fullmatch(r"[\w.,/ -]+", value) else "'" + value.replace("'", "'\\''") + "'"


def _arm_edit(subject: Subject, change: Change, configs: Mapping[str, bytes]) -> Edit | NotWritten:
    """The scalar of a search-space entry: found in the YAML nodes, so that its place is exact."""
    assert change.arm is not None
    key, value = change.arm
    where = subject.cell.where
    if where is None or where.file not in configs:
        return NotWritten(change, "the place of the search-space entry is not known")
    node = _scalar(yaml.compose(configs[where.file]), where, key)
    if node is None:
        return NotWritten(change, f"the entry at {where} does not write `{key}` itself")
    place = Where(where.file, node.start_mark.line + 1, node.start_mark.column + 1)
    return Edit(place, node.value, str(value), f"{key}: {value}")


def _scalar(root: Node | None, where: Where, key: str) -> ScalarNode | None:
    """The value of `key` in the mapping that starts at `where`, or nearest before it."""
    best: tuple[tuple[int, int], ScalarNode] | None = None
    stack = [root] if root is not None else []
    while stack:
        node = stack.pop()
        if isinstance(node, MappingNode):
            start = (node.start_mark.line + 1, node.start_mark.column + 1)
            end = (node.end_mark.line + 1, node.end_mark.column + 1)
            inside = start[0] <= where.line <= end[0] and start <= (where.line, where.column or 10**6)
            for name, value in node.value:
                stack.append(value)
                if inside and isinstance(value, ScalarNode) and name.value == key and (best is None or start > best[0]):
                    best = (start, value)
        elif not isinstance(node, ScalarNode):
            stack.extend(node.value)
    return best[1] if best else None


def patched(data: bytes, edits: Sequence[Edit]) -> tuple[bytes, list[tuple[Edit, str]]]:
    """The file's bytes with the edits made, and those that could not be made, with why. Line ends stay as they are."""
    lines = data.split(b"\n")
    left: list[tuple[Edit, str]] = []
    for edit in sorted(set(edits), key=lambda e: (e.where.line, e.where.column), reverse=True):
        index = edit.where.line - 1
        if not 0 <= index < len(lines):
            left.append((edit, f"there is no line {edit.where.line}"))
            continue
        done = _edited(lines[index], edit)
        if done is None:
            left.append((edit, f"line {edit.where.line} does not hold `{edit.old}` exactly once"))
        else:
            lines[index] = done
    return b"\n".join(lines), left


def _edited(line: bytes, edit: Edit) -> bytes | None:
    old, new = edit.old.encode(), edit.new.encode()
    if not old and edit.where.column:
        at = edit.where.column - 1
        return line[:at] + new.strip() + b" " + line[at:] if line[at : at + 1].strip() else None
    if not old:
        mark = re.search(rb"(\s*\\)?(\r?)$", line)
        assert mark is not None
        return line[: mark.start()] + new + line[mark.start() :]
    at = edit.where.column - 1
    if at >= 0 and line[at : at + len(old)] == old:
        return line[:at] + new + line[at + len(old) :]
    places = [m.start() for m in re.finditer(rb"(?<![\w.])" + re.escape(old) + rb"(?![\w.])", line)]
    if len(places) != 1:
        return None
    return line[: places[0]] + new + line[places[0] + len(old) :]


def difference(name: str, before: bytes, after: bytes) -> str:
    """A unified diff that `git apply` and `patch -p1` take."""
    old, new = (data.decode("utf-8", "surrogateescape").splitlines(keepends=True) for data in (before, after))
    text = "".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))
    return re.sub(r"([^\n])\Z", "\\1\n\\\\ No newline at end of file\n", text) if text else ""


def described(edit: Edit) -> str:
    """An edit in words, for what cannot be patched."""
    return f"{edit.where}: {json.dumps(edit.old)} -> {json.dumps(edit.new)}"
