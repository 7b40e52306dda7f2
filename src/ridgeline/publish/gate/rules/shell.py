"""Bash as a syntax tree: what the script rules need of it. Any bytes give a tree; nothing is ever executed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def parse(data: bytes) -> tuple[Node, str]:
    """The root node, and the text with comments blanked (same lines, same columns for ASCII)."""
    root = _parser().parse(data).root_node
    blanked = bytearray(data)
    for node in nodes(root):
        if node.type == "comment":
            for index in range(node.start_byte, node.end_byte):
                if blanked[index] != 0x0A:
                    blanked[index] = 0x20
    return root, blanked.decode("utf-8", "replace")


def nodes(root: Node) -> Iterator[Node]:
    """Every node, outer before inner; without recursion, since a hostile file nests as deep as it likes."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def words(root: Node) -> Iterator[Node]:
    """Words, and strings as a whole: the places where an argument can stand."""
    for node in nodes(root):
        if node.type in ("word", "string_content", "raw_string", "ansi_c_string"):
            yield node


def text(node: Node) -> str:
    """The source text of a node."""
    return (node.text or b"").decode("utf-8", "replace")
