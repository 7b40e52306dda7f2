"""A shell script as a tree of plain nodes. Any bytes give one; what does not parse is a node of kind ERROR.

The tree is copied out of tree-sitter's, without recursion, so that deep nesting costs memory and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from ridgeline.core.where import Where

if TYPE_CHECKING:
    from tree_sitter import Parser

SUBSHELLS = ("subshell", "command_substitution", "process_substitution")
BRANCHES = ("if_statement", "case_item", "elif_clause", "else_clause")


@dataclass(slots=True, eq=False)
class Node:
    """One node. `line` and `column` count from 1, `start` and `end` are offsets into the source."""

    kind: str
    start: int
    end: int
    line: int
    column: int
    parent: Node | None
    source: bytes = field(repr=False)
    children: list[Node] = field(default_factory=list, repr=False)
    order: int = 0  # among its parent's children

    @property
    def text(self) -> str:
        return self.source[self.start : self.end].decode("utf-8", "replace")

    @property
    def above(self) -> Iterator[Node]:
        """Its ancestors, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def below(self) -> Iterator[Node]:
        """Itself and everything below it, in the order of the text."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += reversed(node.children)

    def inside(self, *kinds: str) -> Node | None:
        """The nearest ancestor of one of the kinds."""
        return next((node for node in self.above if node.kind in kinds), None)


@dataclass(slots=True)
class Script:
    """A parsed script. `nodes` holds every node in the order of the text."""

    file: str
    source: bytes
    root: Node
    nodes: list[Node]

    def where(self, node: Node) -> Where:
        return Where(self.file, node.line, node.column)

    def of(self, *kinds: str) -> Iterator[Node]:
        """Every node of the kinds."""
        return (node for node in self.nodes if node.kind in kinds)

    @property
    def text(self) -> str:
        return self.source.decode("utf-8", "replace")


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def parse(source: bytes, file: str = "script") -> Script:
    """The tree of any bytes."""
    cursor = _parser().parse(source).walk()
    nodes: list[Node] = []
    parent: Node | None = None
    while True:
        found = cursor.node
        assert found is not None, "a cursor stands on a node"
        row, column = found.start_point
        node = Node(found.type, found.start_byte, found.end_byte, row + 1, column + 1, parent, source)
        nodes.append(node)
        if parent is not None:
            node.order = len(parent.children)
            parent.children.append(node)
        if cursor.goto_first_child():
            parent = node
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return Script(file, source, nodes[0], nodes)
            parent = parent.parent if parent is not None else None


def function_of(node: Node) -> str | None:
    """The name of the function a node is in, None at the script's own level."""
    definition = node.inside("function_definition")
    if definition is None:
        return None
    return next((child.text for child in definition.children if child.kind == "word"), "")


def in_subshell(node: Node) -> bool:
    """Whether a node runs in a shell of its own, whose traps and variables end with it."""
    return node.inside(*SUBSHELLS) is not None


def in_branch(node: Node) -> Node | None:
    """The nearest case or if around a node within its function or script."""
    for ancestor in node.above:
        if ancestor.kind == "function_definition":
            return None
        if ancestor.kind in BRANCHES:
            return ancestor
    return None


def exclusive(one: Node, other: Node) -> bool:
    """Whether two nodes stand in different branches of one case or if, so that only one of them runs."""
    mine = [(node.parent, node) for node in (one, *one.above)]
    theirs = {id(node.parent): node for node in (other, *other.above)}
    for parent, node in mine:
        twin = theirs.get(id(parent))
        if parent is None or twin is None or twin is node:
            continue
        kinds = {node.kind, twin.kind}
        if parent.kind == "case_statement":
            return kinds == {"case_item"}
        if parent.kind == "if_statement":
            return bool(kinds & {"else_clause", "elif_clause"})
        return False
    return False


def unquoted(text: str) -> str:
    """A word without the quotes around it."""
    for quote in ("'", '"'):
        if len(text) >= 2 and text[0] == text[-1] == quote:
            return text[1:-1]
    return text
