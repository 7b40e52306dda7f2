"""Every problem of a JSON value against a msgspec struct, not only the first, each with its place and key path."""

from __future__ import annotations

import re
import types
from typing import Any, Union, get_args, get_origin

import msgspec
import yaml

from ridgeline.core.errors import Problem
from ridgeline.core.where import Where

LOCATE_BYTES = 1 << 20  # above this, looking for the column of a problem costs more than it helps
MOST = 50


def problems(data: bytes, struct: type[msgspec.Struct], where: Where) -> list[Problem]:
    """What is wrong with `data` as `struct`; empty when nothing is. At most 50, then one that counts the rest."""
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        return [Problem(f"not JSON: {error}", at_byte(data, str(error), where))]
    found: list[tuple[tuple[str | int, ...], str]] = []
    _walk(value, struct, (), found)
    places = _Places(data, where)
    shown = [Problem(message, places.of(path), _dotted(path)) for path, message in found[:MOST]]
    if len(found) > MOST:
        shown.append(Problem(f"and {len(found) - MOST} more problems", where))
    return shown


def _walk(value: Any, kind: Any, path: tuple[str | int, ...], found: list[tuple[tuple[str | int, ...], str]]) -> None:
    if isinstance(value, list):  # of an optional list, the list
        kind = next((option for option in _options(kind) if get_origin(option) is list), kind)
    options = [option for option in _options(kind) if isinstance(option, type) and issubclass(option, msgspec.Struct)]
    if value is None and type(None) in _options(kind):
        return
    if options:
        _walk_struct(value, options, path, found)
    elif get_origin(kind) is list and any(_structs(option) for option in get_args(kind)):
        if not isinstance(value, list):
            found.append((path, f"must be a list, not {_name(value)}"))
            return
        for index, item in enumerate(value):
            _walk(item, get_args(kind)[0], (*path, index), found)
    elif kind is not msgspec.Raw:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            message, _, inner = str(error).partition(" - at `$")
            steps = tuple(int(place) if place else name for place, name in re.findall(r"\[(\d+)\]|\.(\w+)", inner))
            found.append(((*path, *steps), message[:1].lower() + message[1:]))


def _walk_struct(
    value: Any, options: list[type[msgspec.Struct]], path: tuple[str | int, ...], found: list[Any]
) -> None:
    if not isinstance(value, dict):
        found.append((path, f"must be an object, not {_name(value)}"))
        return
    struct = options[0]
    tag = struct.__struct_config__.tag_field
    if tag:
        by_tag = {option.__struct_config__.tag: option for option in options}
        if tag not in value:
            found.append(((*path, tag), "is missing"))
            return
        if value[tag] not in by_tag:
            known = ", ".join(repr(name) for name in by_tag)
            found.append(((*path, tag), f"{value[tag]!r} is not one of {known}"))
            return
        struct = by_tag[value[tag]]
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    for key in value if struct.__struct_config__.forbid_unknown_fields else ():
        if key not in fields and key != tag:
            found.append(((*path, key), "unknown key"))
    for name, field in fields.items():
        if name in value:
            _walk(value[name], checked(struct).get(field.name, field.type), (*path, name), found)
        elif field.required:
            found.append(((*path, name), "is missing"))


def checked(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Types of fields that are decoded late (kept raw for speed) but checked like any other."""
    return getattr(struct, "late_types", {})


def _options(kind: Any) -> list[Any]:
    return list(get_args(kind)) if get_origin(kind) in (Union, types.UnionType) else [kind]


def _structs(kind: Any) -> bool:
    return any(isinstance(option, type) and issubclass(option, msgspec.Struct) for option in _options(kind))


def _name(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true/false", type(None): "null"}
    return names.get(type(value), "a number")


def _dotted(path: tuple[str | int, ...]) -> str | None:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.lstrip(".") or None


def at_key(data: bytes, key: str | None, where: Where) -> Where:
    """The place of a key path (`turns[0].text`) in a record's own file; of what is not there, the nearest above it."""
    steps = [int(place) if place else name for place, name in re.findall(r"\[(\d+)\]|([^.\[\]]+)", key or "")]
    return _Places(data, where).of(tuple(steps))


def at_byte(data: bytes, message: str, where: Where) -> Where:
    """The place a JSON error message speaks of ("byte N"), in the record's own file."""
    match = re.search(r"byte (\d+)", message)
    if not match:
        return where
    before = data[: int(match[1])]
    line = before.count(b"\n")
    return Where(where.file, (where.line or 1) + line, len(before) - (before.rfind(b"\n") + 1) + 1)


class _Places:
    """Line and column of key paths. JSON is YAML, whose nodes know where they are."""

    def __init__(self, data: bytes, where: Where) -> None:
        self.where = where
        self.root: yaml.Node | None = None
        if len(data) <= LOCATE_BYTES:
            try:
                self.root = yaml.compose(data.decode(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            except (yaml.YAMLError, UnicodeDecodeError):
                self.root = None  # JSON that YAML reads differently: the record's line must do

    def of(self, path: tuple[str | int, ...]) -> Where:
        if self.root is None:
            return self.where
        node, mark = self.root, self.root.start_mark
        for step in path:
            found = _step(node, step)
            if found is None:
                break
            key, node = found
            mark = key.start_mark
        return Where(self.where.file, (self.where.line or 1) + mark.line, mark.column + 1)


def _step(node: yaml.Node, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None
