"""A change as an edit of the file it comes from: the config's scalar, the recipe's or the script's word.

Pure text: bytes in, bytes out, everything outside the edited words unchanged. What has no place to be written says so.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import NamedTuple

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

from ridgeline.core.deployment import Service
from ridgeline.core.finding import Change
from ridgeline.core.where import Where
from ridgeline.engine.argv import Flag, flags_of, last
from ridgeline.plan.checks.subject import Subject
from ridgeline.recipes.atom import Atom
from ridgeline.recipes.sglang import Sglang
from ridgeline.recipes.vllm import Vllm

SHELL, CONFIG, CODE = (".sh", ".bash"), (".yaml", ".yml"), ".py"
ARM_KEYS = ("tp", "ep", "pp")  # what a search-space entry may leave out
OPTIONS = {
    kind: frozenset(field.name for field in fields(options))
    for kind, options in (("vllm", Vllm), ("sglang", Sglang), ("atom", Atom))
}


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


def edits_of(subject: Subject, change: Change, texts: Mapping[str, bytes]) -> list[Edit] | NotWritten:
    """The edits of one change. `texts`: files by the name that places carry, configs and recipes alike.

    A flag is edited where its value stands; a new one is added to the script's command or to the recipe's options. What
    a recipe derives from the search space follows from an edit there.
    """
    assert subject.deployment is not None
    service = subject.deployment.service(change.service)
    scripts = [item.origin for item in service.argv if item.origin and item.origin.file.endswith(SHELL)]
    found: list[Edit] = []
    if scripts or change.arm is None:
        flag = last(flags_of(service.argv)[1]).get(change.flag.removeprefix("no-"))
        own = _changed(flag, change) if flag is not None else None
        if own is None and flag is not None and not scripts:
            return NotWritten(change, f"{flag.written} follows from {flag.where or 'the search space'}")
        edit = own or _added(service, change, scripts, OPTIONS.get(subject.build.kind, frozenset()), texts)
        if isinstance(edit, NotWritten):
            return edit
        found.append(edit)
    if change.arm is not None:
        arm = _arm_edit(subject, change, texts)
        if isinstance(arm, NotWritten):
            return arm
        found.append(arm)
    return found


def _changed(flag: Flag, change: Change) -> Edit | None:
    """A flag's value where it stands; None where it stands nowhere of its own."""
    place = flag.where
    if place is None or place.file.endswith(CONFIG):
        return None
    if flag.value is None:  # a switch: a recipe writes it as True
        off = change.flag.startswith("no-") and place.file.endswith(CODE)
        return Edit(place, "True", "False", change.text) if off else None
    if change.value is None:
        return None
    before = f"{flag.written}=" if flag.inline else ""
    return Edit(place, before + flag.value, before + change.value, change.text)


def _added(
    service: Service, change: Change, scripts: Sequence[Where], options: frozenset[str], texts: Mapping[str, bytes]
) -> Edit | NotWritten:
    """A flag that is not there: after the script's last word, or as one more option of the recipe's call."""
    if scripts:
        words = f"--{change.flag}" + ("" if change.value is None else f" {_quoted(change.value)}")
        return Edit(scripts[-1], "", f" {words}", change.text)
    name = change.flag.removeprefix("no-").replace("-", "_")
    for flag in reversed(flags_of(service.argv)[1]):
        line = _line(texts, flag.where)
        own = flag.name.replace("-", "_")
        if line is None or not (start := re.match(rf"(\s*){own}=here\(".encode(), line)):
            continue
        if name in options:
            value = "False" if change.flag.startswith("no-") else "True" if change.value is None else change.value
            assert flag.where is not None
            end = "\r\n" if line.endswith(b"\r") else "\n"
            new = f"{name}=here({value}),{end}{start[1].decode()}{own}"
            return Edit(replace(flag.where, column=len(start[1]) + 1), own, new, change.text)
        return NotWritten(change, f"`{name}` is no option of its own at {flag.where}")
    return NotWritten(change, "nothing says where this command line is written")


def _line(texts: Mapping[str, bytes], where: Where | None) -> bytes | None:
    """The line of a place, where its file is there."""
    lines = texts[where.file].split(b"\n") if where is not None and where.file in texts else []
    return lines[where.line - 1] if where is not None and 0 < where.line <= len(lines) else None


def _quoted(value: str) -> str:
    return value if re.fullmatch(r"[\w.,/ -]+", value) else "'" + value.replace("'", "'\\''") + "'"


def _arm_edit(subject: Subject, change: Change, texts: Mapping[str, bytes]) -> Edit | NotWritten:
    """The scalar of a search-space entry, found in the YAML nodes so that its place is exact; one that is not written
    is added before the entry's first key."""
    assert change.arm is not None
    (key, value), where = change.arm, subject.cell.where
    if where is None or where.file not in texts:
        return NotWritten(change, "the place of the search-space entry is not known")
    said, entry = f"{key}: {value}", None
    for node in _mappings(yaml.compose(texts[where.file]), where):
        scalar = next((v for k, v in node.value if k.value == key and isinstance(v, ScalarNode)), None)
        if scalar is not None:
            return Edit(_start(where.file, scalar), scalar.value, str(value), said)
        if node.value and _start(where.file, node) == where:
            entry = node
            break
    if entry is None or key not in ARM_KEYS:
        return NotWritten(change, f"the entry at {where} does not write `{key}` itself")
    first = entry.value[0][0]
    place = _start(where.file, first)
    end = "\r\n" if (_line(texts, place) or b"").endswith(b"\r") else "\n"
    joint = ", " if entry.flow_style else end + " " * (place.column - 1)
    return Edit(place, first.value, f"{said}{joint}{first.value}", said)


def _start(file: str, node: Node) -> Where:
    return Where(file, node.start_mark.line + 1, node.start_mark.column + 1)


def _mappings(root: Node | None, where: Where) -> list[MappingNode]:
    """The mappings that a place lies in, the innermost first."""
    found: list[MappingNode] = []
    stack = [root] if root is not None else []
    while stack:
        node = stack.pop()
        if isinstance(node, MappingNode):
            start = (node.start_mark.line + 1, node.start_mark.column + 1)
            if start <= (where.line, where.column or 10**6) and where.line <= node.end_mark.line + 1:
                found.append(node)
            stack += [value for _, value in node.value]
        elif not isinstance(node, ScalarNode):
            stack.extend(node.value)
    return sorted(found, key=lambda node: (node.start_mark.line, node.start_mark.column), reverse=True)


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
    beside = name.lstrip("/")  # a patch names no path twice rooted
    text = "".join(difflib.unified_diff(old, new, f"a/{beside}", f"b/{beside}"))
    return re.sub(r"([^\n])\Z", "\\1\n\\\\ No newline at end of file\n", text) if text else ""


def described(edit: Edit) -> str:
    """An edit in words, for what cannot be patched."""
    return f"{edit.where}: {json.dumps(edit.old)} -> {json.dumps(edit.new)}"
