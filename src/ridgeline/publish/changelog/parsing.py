"""YAML text → plain values with their nodes, so that every later complaint can name a line.

Two readings exist: the strict one refuses duplicate and unhashable mapping keys; the lenient one lets the last
duplicate win, as a plain safe load does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ridgeline.core.errors import Problem
from ridgeline.publish.changelog.entry import Entry, EntryProblem, read_entry
from ridgeline.publish.changelog.refusal import ChangelogRefused, at

# libyaml is an order of magnitude faster; wheels carry it, a source build of PyYAML may not.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LineOf = Callable[[Any], int]


class Parsed(NamedTuple):
    """The value and its node (both None for a text that holds nothing), and the line to name for a mark."""

    value: Any
    node: Node | None
    line_of: LineOf


def line_numbers(text: str, lines: tuple[int, ...] | None = None) -> LineOf:
    """Mark of `text` → line number from 1; `lines` replaces number i by lines[i - 1].

    Counted from the mark's character index: YAML also breaks lines at U+0085, U+2028 and U+2029, files and editors
    do not.
    """
    breaks = [index for index, letter in enumerate(text) if letter == "\n"]

    def line_of(mark: Any) -> int:
        number = bisect_right(breaks, mark.index - 1)
        return number + 1 if lines is None else lines[min(number, len(lines) - 1)] if lines else 0

    return line_of


def parse(text: str, file: str, *, strict: bool, lines: tuple[int, ...] | None = None) -> Parsed:
    """One YAML document; `lines` says which line to name for each line of `text`. Raises ChangelogRefused."""
    line_of = line_numbers(text, lines)
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return Parsed(None, None, line_of)
        faults = list(_key_faults(loader, node, file, line_of)) if strict else []
        if faults:
            raise ChangelogRefused(faults)
        return Parsed(loader.construct_document(node), node, line_of)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = line_of(mark) if mark else 0
        raise ChangelogRefused([at(file, line, f"not valid YAML: {error.problem or error.context}")]) from error
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # ValueError: scalars that look like a date or a number and are none; RecursionError: absurd nesting
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ChangelogRefused([at(file, 0, f"not valid YAML: {reason}")]) from error
    finally:
        if loader is not None:
            loader.dispose()


def read_entries(parsed: Parsed, file: str) -> tuple[Entry, ...]:
    """Every item of a parsed list as an entry. Raises ChangelogRefused with all faults of all items."""
    if not isinstance(parsed.value, list) or not isinstance(parsed.node, SequenceNode):
        raise ChangelogRefused([at(file, 0, "the changelog is a list of entries (`- config-keys:` ...)")])
    entries: list[Entry] = []
    problems: list[Problem] = []
    for number, (raw, node) in enumerate(zip(parsed.value, parsed.node.value, strict=True), 1):
        try:
            entries.append(_with_lines(read_entry(raw), node, parsed.line_of))
        except EntryProblem as fault:
            for path, message in fault.faults:
                line = parsed.line_of(_find(node, path).start_mark)
                key = ".".join(str(part) for part in path) or None
                problems.append(at(file, line, f"entry {number}: {message}", key=key))
    if problems:
        raise ChangelogRefused(problems)
    return tuple(entries)


def _with_lines(entry: Entry, node: Node, line_of: LineOf) -> Entry:
    keys = _find(node, ("config-keys",))
    items = keys.value if isinstance(keys, SequenceNode) else []
    return replace(
        entry,
        line=line_of(node.start_mark),
        link_line=line_of(_find(node, ("pr-link",)).start_mark),
        key_lines=tuple(line_of(item.start_mark) for item in items),
    )


def _find(node: Node, path: tuple[str | int, ...]) -> Node:
    """The deepest node on `path` that exists: where a person has to look."""
    for part in path:
        if isinstance(node, MappingNode):
            inner = [value for key, value in node.value if key.value == part]
        elif isinstance(node, SequenceNode) and isinstance(part, int):
            inner = node.value[part : part + 1]
        else:
            inner = []
        if not inner:
            return node
        node = inner[-1]
    return node


def _key_faults(loader: Any, root: Node, file: str, line_of: LineOf) -> Iterator[Problem]:
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen or isinstance(node, ScalarNode):
            continue
        seen.add(id(node))
        if isinstance(node, SequenceNode):
            waiting += node.value
            continue
        first: dict[Hashable, int] = {}
        for key_node, value in node.value:
            waiting.append(value)
            line = line_of(key_node.start_mark)
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                yield at(file, line, "a mapping key must be a plain scalar")
            elif key in first:
                yield at(file, line, f"duplicate key, first written in line {first[key]}", key=str(key))
            else:
                first[key] = line
