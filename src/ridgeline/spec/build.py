"""YAML nodes become plain dicts, lists and scalars, in one walk.

In: the root node of a file. Out: plain data, and every problem that YAML's own constructs can have: keys given twice,
merge keys that override, keys that are not text, foreign tags, endless nesting. It does not know any schema.
"""

from __future__ import annotations

from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ridgeline.core.errors import Problem
from ridgeline.core.where import Where
from ridgeline.spec.scalars import WORDS, Trap, read

Path_ = tuple[str | int, ...]
MAX_DEPTH = 60  # deepest real config: 8
MAX_NODES = 500_000  # aliases can make a small file huge; the largest real file has 40,000 nodes
_TAG = "tag:yaml.org,2002:"
_UNTAGGED_PLAIN: Any = (True, False)  # the `tag` that `tree` leaves on plain scalars
_PLAIN: dict[str, Any] = dict(WORDS)  # what each plain scalar reads as; grows with the distinct scalars seen
_PLAIN_LIMIT = 100_000


class TooMuchError(Exception):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class Builder:
    """One walk over the nodes. Problems are collected; every key keeps its first value."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[tuple[Node, str, str | None]] = []
        self.left = MAX_NODES
        if len(_PLAIN) > _PLAIN_LIMIT:
            _PLAIN.clear()
            _PLAIN.update(WORDS)

    def build(self, node: Node, depth: int = 0) -> Any:
        if node.__class__ is ScalarNode:
            return self.scalar(node)
        if depth > MAX_DEPTH:
            raise TooMuchError(f"nested more than {MAX_DEPTH} levels deep (or an alias inside itself)", line_of(node))
        self.left -= len(node.value)
        if self.left < 0:
            raise TooMuchError(f"more than {MAX_NODES} values (aliases repeat theirs)", line_of(node))
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
        for key in result:
            if key in merged:
                self.overrides(node, key)
        return merged | result

    def merge(self, node: Node, merged: dict[str, Any], depth: int) -> None:
        for source in node.value if isinstance(node, SequenceNode) else [node]:
            value = self.build(source, depth + 1)
            if not isinstance(value, dict):
                self.report(node, "a merge key `<<` needs a mapping or a list of mappings")
                continue
            for key in (key for key in value if key in merged):
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
            f"is given twice: in {place_of(first)} and in {place_of(again)}",
            "remove one of them; a plain YAML reader would silently take the last",
        )

    def overrides(self, node: MappingNode, key: str) -> None:
        own = next(k for k, _ in node.value if isinstance(k, ScalarNode) and k.value == key)
        source = child(node, key, merged_only=True)
        brought = f" in {place_of(source[0])}" if source and source[0] is not None else ""
        self.report(
            own,
            f"in {place_of(own)} overrides the value that the merge key `<<` brings{brought}",
            "leave the key out of the merged mapping, or out of here",
        )

    def report(self, node: Node, message: str, hint: str | None = None) -> None:
        self.found.append((node, message, hint))

    def problems(self, root: Node) -> list[Problem]:
        """Everything found, with places and key paths; what stands in an aliased mapping is told once."""
        paths = _paths(root) if self.found else {}
        told = dict.fromkeys(
            Problem(message, where(self.file, node), key_path(paths.get(id(node), ())) or None, hint)
            for node, message, hint in self.found
        )
        return list(told)


def _paths(root: Node) -> dict[int, Path_]:
    """Path of every node by its id; keys have the path of their value, aliased nodes that of their anchor."""
    paths: dict[int, Path_] = {}
    waiting: list[tuple[Node, Path_]] = [(root, ())]
    while waiting:
        node, path = waiting.pop()
        if id(node) in paths:
            continue
        paths[id(node)] = path
        if isinstance(node, SequenceNode):
            waiting += [(item, (*path, index)) for index, item in reversed(list(enumerate(node.value)))]
        elif isinstance(node, MappingNode):
            for key, value in reversed(node.value):
                below = (*path, key.value) if isinstance(key, ScalarNode) else path
                paths.setdefault(id(key), below)
                waiting.append((value, below))
    return paths


def where(file: str, node: Node) -> Where:
    """The place where a node starts."""
    return Where(file, node.start_mark.line + 1, node.start_mark.column + 1)


def place_of(node: Node) -> str:
    """`line 3 (column 7)`."""
    return f"line {node.start_mark.line + 1} (column {node.start_mark.column + 1})"


def line_of(node: Node) -> int:
    return int(node.start_mark.line)


def child(node: Node | None, step: str | int, *, merged_only: bool = False) -> tuple[Node | None, Node] | None:
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
                found = child(source, step)
                if found is not None:
                    return found
    return None


def key_path(path: Path_) -> str:
    """`key.scenarios.fixed-seq-len[0].tp`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
