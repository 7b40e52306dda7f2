"""YAML bytes become plain dicts, lists and scalars that still know their places.

In: bytes and the name of the file. Out: a `Document` whose `value` is plain data and whose `where` finds line and
column of any key or value, plus every problem YAML itself has: syntax, duplicate keys, merge keys that override,
keys that are not text, foreign tags, more than one document. It does not know any schema.

Nodes come from libyaml through PyYAML's CParser. Its resolver (which decides types with Python regexes, node by node)
is replaced by ours, which looks each distinct scalar up once: that is most of what makes loading fast.
"""

from __future__ import annotations

import gc
import operator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from yaml._yaml import CParser
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.spec.scalars import WORDS, Trap, read

Path_ = tuple[str | int, ...]
MAX_DEPTH = 60  # deepest real config: 8
MAX_NODES = 500_000  # aliases can make a small file huge; the largest real file has 40,000 nodes
_TAG = "tag:yaml.org,2002:"
_UNTAGGED_PLAIN: Any = (True, False)  # the `tag` that `_Composer` leaves on plain scalars
_PLAIN: dict[str, Any] = dict(WORDS)  # what each plain scalar reads as; grows with the distinct scalars seen
_PLAIN_LIMIT = 100_000


class _Composer(CParser):
    """Nodes whose `tag` is (plain?, quoted?) when the file gives none. The two hooks of the resolver do nothing here;
    builtins stand in for them because they are called for every node."""

    descend_resolver = staticmethod(operator.is_)
    ascend_resolver = bool

    def resolve(self, kind: type[Node], value: str | None, implicit: Any) -> Any:
        return implicit


class Document(NamedTuple):
    """A parsed file: plain data, its node tree for places, and the problems met so far."""

    file: str
    root: Node | None
    value: Any
    problems: tuple[Problem, ...]

    def where(self, path: Path_, *, at_key: bool = False) -> Where:
        """Place of the value at `path`, or of its key; of the deepest part that exists when it leads nowhere."""
        node, mark = self.root, self.root.start_mark if self.root else None
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            key, node = found
            mark = (key if key is not None and (at_key and step is path[-1]) else node).start_mark
        return Where(self.file, mark.line + 1, mark.column + 1) if mark else Where(self.file)

    def places(self, path: Path_) -> list[Where]:
        """Places of all items of the list at `path`."""
        node = self.root
        for step in path:
            found = _child(node, step)
            node = found[1] if found else None
        marks = [item.start_mark for item in node.value] if isinstance(node, SequenceNode) else []
        return [Where(self.file, mark.line + 1, mark.column + 1) for mark in marks]

    def text(self, path: Path_) -> str | None:
        """The scalar at `path` as it is written, or None when no scalar stands there."""
        node = self.root
        for step in path:
            found = _child(node, step)
            if found is None:
                return None
            node = found[1]
        return node.value if isinstance(node, ScalarNode) else None


def parse_file(path: str | Path) -> Document:
    """Read and parse one file. A file that cannot be read is a problem of the document, not an exception."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "check the path" if isinstance(error, FileNotFoundError) else None
        return Document(
            str(path), None, None, (Problem(f"cannot read the file: {reason}", Where(str(path)), hint=hint),)
        )
    return parse(data, str(path))


def parse(data: bytes, file: str) -> Document:
    """Parse YAML. Never raises for what the bytes hold: see `problems`."""
    collecting = gc.isenabled()
    gc.disable()  # tens of thousands of nodes that all stay alive: collecting meanwhile costs half of the time
    try:
        root = _Composer(data).get_single_node()
        builder = _Builder(file)
        value = builder.build(root) if root is not None else None
    except (yaml.YAMLError, UnicodeError, ValueError) as error:
        return Document(file, None, None, (_syntax(error, file, data),))
    except _TooMuchError as error:
        return Document(file, None, None, (Problem(str(error), Where(file, error.line + 1)),))
    finally:
        if collecting:
            gc.enable()
    problems = list(dict.fromkeys(builder.problems))  # an aliased mapping is walked once for every alias
    if root is None:
        problems.append(Problem("the file is empty", Where(file), hint="a mapping is expected"))
    return Document(file, root, value, tuple(problems))


class _TooMuchError(Exception):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class _Builder:
    """One walk over the nodes. Problems are collected; every key keeps its first value."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.left = MAX_NODES
        if len(_PLAIN) > _PLAIN_LIMIT:
            _PLAIN.clear()
            _PLAIN.update(WORDS)

    def build(self, node: Node, depth: int = 0) -> Any:
        if node.__class__ is ScalarNode:
            return self.scalar(node)
        if depth > MAX_DEPTH:
            raise _TooMuchError(f"nested more than {MAX_DEPTH} levels deep (or an alias inside itself)", _line(node))
        self.left -= len(node.value)
        if self.left < 0:
            raise _TooMuchError(f"more than {MAX_NODES} values (aliases repeat theirs)", _line(node))
        tag: Any = node.tag
        if tag.__class__ is str and tag != _TAG + ("map" if node.__class__ is MappingNode else "seq"):
            self.foreign_tag(node)
        if node.__class__ is SequenceNode:
            return [self.build(item, depth + 1) for item in node.value]
        return self.mapping(node, depth)  # type: ignore[arg-type]  # the third and last class of nodes

    def mapping(self, node: MappingNode, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.scalar(key_node) if key_node.__class__ is ScalarNode else None
            if key.__class__ is not str:
                self.bad_key(key_node, key)
                continue
            if key == "<<" and key_node.tag == _UNTAGGED_PLAIN:
                self.merge(value_node, merged, depth)
                continue
            if key in result:
                self.duplicate(node, key, key_node)
                continue
            if value_node.__class__ is ScalarNode:
                result[key] = self.scalar(value_node)
            else:
                result[key] = self.build(value_node, depth + 1)
        if not merged:
            return result
        for key in merged.keys() & result.keys():
            self.overrides(node, key)
        return merged | result

    def merge(self, node: Node, merged: dict[str, Any], depth: int) -> None:
        for source in node.value if isinstance(node, SequenceNode) else [node]:
            value = self.build(source, depth + 1)
            if not isinstance(value, dict):
                self.report(node, "a merge key `<<` needs a mapping or a list of mappings")
                continue
            for key in merged.keys() & value.keys():
                self.report(
                    node,
                    f"merged mappings both give `{key}`",
                    "write the key out in the place that needs it and leave it out of the shared mapping",
                )
            merged |= value

    def scalar(self, node: ScalarNode) -> Any:
        tag: Any = node.tag
        if tag == _UNTAGGED_PLAIN:
            text = node.value
            try:
                return _PLAIN[text]
            except KeyError:
                value = _PLAIN[text] = read(text)
                return value
        return node.value if tag.__class__ is tuple else self.tagged(node)

    def tagged(self, node: ScalarNode) -> Any:
        """`!!str 8`, `!!int "8"`: the five scalar tags of the core schema, applied as written."""
        if node.tag == _TAG + "str":
            return node.value
        value = read(node.value)
        wanted = {"int": (int,), "float": (float, int), "bool": (bool,), "null": (type(None),)}
        kinds = wanted.get(node.tag.removeprefix(_TAG), ())
        if value.__class__ in kinds:
            return value
        if kinds:
            self.report(node, f"`{node.value}` does not fit its tag `!!{node.tag.removeprefix(_TAG)}`")
        else:
            self.foreign_tag(node)
        return node.value

    def foreign_tag(self, node: Node) -> None:
        tag = node.tag.replace(_TAG, "!!")
        self.report(node, f"the tag `{tag}` is not allowed here", "write plain mappings, lists, text and numbers")

    def bad_key(self, node: Node, key: Any) -> None:
        if not isinstance(node, ScalarNode):
            self.report(node, "a key must be text, not a list or mapping")
        elif isinstance(key, Trap):
            self.report(node, f"key: {key}", f"write '{node.value}' in quotes")
        else:
            kind = "empty" if key is None else "a boolean" if isinstance(key, bool) else "a number"
            self.report(
                node, f"the unquoted key `{node.value}` is {kind} in YAML, not text", f"write '{node.value}' in quotes"
            )

    def duplicate(self, node: MappingNode, key: str, again: Node) -> None:
        first = next(k for k, _ in node.value if isinstance(k, ScalarNode) and k.value == key)
        self.report(
            again,
            f"`{key}` is given twice: in line {_line(first) + 1} and in line {_line(again) + 1}",
            "remove one of them; a plain YAML reader would silently take the last",
            key,
        )

    def overrides(self, node: MappingNode, key: str) -> None:
        own = next(k for k, _ in node.value if isinstance(k, ScalarNode) and k.value == key)
        source = _child(node, key, merged_only=True)
        line = f" in line {_line(source[0]) + 1}" if source and source[0] is not None else ""
        self.report(
            own,
            f"`{key}` in line {_line(own) + 1} overrides the value that the merge key `<<` brings{line}",
            "leave the key out of the merged mapping, or out of here",
            key,
        )

    def report(self, node: Node, message: str, hint: str | None = None, key: str | None = None) -> None:
        place = Where(self.file, node.start_mark.line + 1, node.start_mark.column + 1)
        self.problems.append(Problem(message, place, key, hint))


def _line(node: Node) -> int:
    return int(node.start_mark.line)


def _child(node: Node | None, step: str | int, *, merged_only: bool = False) -> tuple[Node | None, Node] | None:
    if isinstance(node, SequenceNode) and isinstance(step, int):
        return (None, node.value[step]) if step < len(node.value) else None
    if not isinstance(node, MappingNode):
        return None
    for key, value in node.value:
        if isinstance(key, ScalarNode) and key.value == step and not merged_only:
            return key, value
    for key, value in node.value:
        if isinstance(key, ScalarNode) and key.value == "<<":
            for source in value.value if isinstance(value, SequenceNode) else [value]:
                found = _child(source, step)
                if found is not None:
                    return found
    return None


def _syntax(error: Exception, file: str, data: bytes) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    what = getattr(error, "problem", None) or str(error).splitlines()[0] or type(error).__name__
    context = getattr(error, "context", None)
    message = f"not valid YAML: {what}" + (f" ({context})" if context else "")
    if mark is None:
        return Problem(message, Where(file), hint="the file must be text in UTF-8")
    lines = data.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else b""
    hint = None
    if b"\t" in line:
        hint = "the line has a tab: indent with spaces"
    elif "single document" in what or "single document" in str(context):
        hint = "one document a file: remove the second `---`"
    return Problem(message, Where(file, mark.line + 1, mark.column + 1), hint=hint)


def fail_if(problems: list[Problem]) -> None:
    """Raise `InputError` with all problems, in the order of files and lines; do nothing when there are none."""
    if problems:
        raise InputError(problems)
