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
from yaml.nodes import Node, SequenceNode

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.spec.build import Builder, Path_, TooMuchError, child


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
            found = child(node, step)
            if found is None:
                break
            key, node = found
            mark = (key if key is not None and (at_key and step is path[-1]) else node).start_mark
        return Where(self.file, mark.line + 1, mark.column + 1) if mark else Where(self.file)

    def places(self, path: Path_) -> list[Where]:
        """Places of all items of the list at `path`."""
        node = self.root
        for step in path:
            found = child(node, step)
            node = found[1] if found else None
        marks = [item.start_mark for item in node.value] if isinstance(node, SequenceNode) else []
        return [Where(self.file, mark.line + 1, mark.column + 1) for mark in marks]


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
        builder = Builder(file)
        value = builder.build(root) if root is not None else None
    except (yaml.YAMLError, UnicodeError, ValueError) as error:
        return Document(file, None, None, (_syntax(error, file, data),))
    except TooMuchError as error:
        return Document(file, None, None, (Problem(str(error), Where(file, error.line + 1)),))
    finally:
        if collecting:
            gc.enable()
    if root is None:
        return Document(file, None, None, (Problem("the file is empty", Where(file), hint="a mapping is expected"),))
    return Document(file, root, value, tuple(builder.problems(root)))


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
