"""`ridgeline calc`: one question of the preflight, answered from flags or from JSON lines on standard input."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ridgeline.cli.calc_view import shown
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where

Answer = Callable[[Mapping[str, Any]], dict[str, Any]]
# kind -> what it answers
KINDS = {
    "graphs": "which graphs an engine captures, and which batches run in them",
    "kv": "bytes, blocks and tokens of a KV pool, for a layout or a model",
    "weights": "weight bytes on one GPU by part, for a topology",
    "tuning": "the kernel tuning row that a shape hits, or why none",
    "acceptance": "per-position acceptance of a golden length",
}


def run(argv: list[str]) -> int:
    """Parse, answer, print. Exit 1 when an answer is a refusal of the engine (asked by flags), 2 for wrong input."""
    if not argv or argv[0] not in KINDS:
        return _usage(argv)
    kind = argv[0]
    parser, names = _parser(kind)
    try:
        given = parser.parse_args(argv[1:])
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    answer = _answering(kind, given)
    asked = {name: _value(text) for name in names if (text := getattr(given, name)) is not None}
    if asked or sys.stdin.isatty():
        found = answer(asked)
        sys.stdout.write(json.dumps(found) + "\n" if given.json else shown(found))
        return 1 if found.get("error") else 0
    return _lines(answer, given.json)


def _usage(argv: list[str]) -> int:
    lines = [f"  {kind:<11} {text}" for kind, text in KINDS.items()]
    text = (
        "Usage: ridgeline calc KIND [OPTIONS]\n\n"
        + "\n".join(lines)
        + "\n\n`ridgeline calc KIND --help` lists inputs.\n"
    )
    if argv and argv[0] in ("-h", "--help"):
        sys.stdout.write(text)
        return 0
    sys.stderr.write((f"error: `{argv[0]}` is none of {', '.join(KINDS)}\n\n" if argv else "") + text)
    return 2


def _parser(kind: str) -> tuple[argparse.ArgumentParser, tuple[str, ...]]:
    inputs = _inputs(kind)
    parser = argparse.ArgumentParser(
        prog=f"ridgeline calc {kind}",
        description=f"{KINDS[kind].capitalize()}. Without flags, JSON lines are read from standard input: an object of "
        "the inputs below (or one with `inputs`), an answer a line.",
    )
    for name, text in inputs.items():
        parser.add_argument(f"--{name.replace('_', '-')}", nargs="?", const="true", help=text, metavar="X")
    if kind == "tuning":
        parser.add_argument(
            "--table", action="append", default=[], type=Path, metavar="PATH", help="a tuning table or a folder of them"
        )
    if kind == "acceptance":
        parser.add_argument(
            "--golden", action="append", default=[], type=Path, metavar="PATH", help="golden lengths, files or folders"
        )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser, tuple(inputs)


def _inputs(kind: str) -> dict[str, str]:
    if kind == "graphs":
        from ridgeline.engine.answers.graphs import INPUTS as found
    elif kind == "kv":
        from ridgeline.engine.answers.kv import INPUTS as found
    elif kind == "weights":
        from ridgeline.engine.answers.weights import INPUTS as found
    elif kind == "acceptance":
        from ridgeline.engine.answers.acceptance import INPUTS as found
    else:
        from ridgeline.engine.answers.tuning import INPUTS, SELECTOR_INPUTS

        found = INPUTS | SELECTOR_INPUTS
    return found


def _answering(kind: str, given: argparse.Namespace) -> Answer:
    """The function that answers, with the files it needs read."""
    if kind == "tuning":
        from ridgeline.engine.answers.tuning import answer as tuned
        from ridgeline.spec.facts.tuning import load_tables

        tables = load_tables(given.table)
        return lambda data: tuned(data, tables)
    if kind == "acceptance":
        from ridgeline.engine.answers.acceptance import answer as accepted
        from ridgeline.spec.facts.acceptance import find_folder, load_curves
        from ridgeline.spec.facts.golden import shipped_curves

        near = [folder] if (folder := find_folder(Path.cwd() / "here")) else []
        curves = load_curves(given.golden or near) or shipped_curves()
        return lambda data: accepted(data, curves)
    if kind == "graphs":
        from ridgeline.engine.answers.graphs import answer
    elif kind == "kv":
        from ridgeline.engine.answers.kv import answer
    else:
        from ridgeline.engine.answers.weights import answer
    return answer


def _value(text: str) -> Any:
    """A flag's text as JSON where it is JSON or a list of numbers, else as text."""
    if "," in text and all(part.strip().isdigit() for part in text.split(",") if part):
        return [int(part) for part in text.split(",") if part]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _lines(answer: Answer, as_json: bool) -> int:
    """An answer for every line. A line that is wrong is answered with its problems and makes the exit code 2."""
    code = 0
    for number, data in _questions():
        try:
            if isinstance(data, Problem):
                raise InputError([data])
            found = answer(data)
        except InputError as error:
            code, found = 2, {"error": error.message, "line": number}
        sys.stdout.write(json.dumps(found) + "\n" if as_json else shown(found) + "\n")
    return code


def _questions() -> Iterator[tuple[int, Mapping[str, Any] | Problem]]:
    for number, line in enumerate(sys.stdin, 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line, object_pairs_hook=_once)
        except ValueError as error:
            yield number, Problem(f"not JSON: {error}", Where("<stdin>", number))
            continue
        except RecursionError:
            yield number, Problem("not a question: lists within lists too deep to read", Where("<stdin>", number))
            continue
        inner = data.get("inputs", data) if isinstance(data, dict) else None
        yield number, inner if isinstance(inner, dict) else Problem("must be a JSON object", Where("<stdin>", number))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Raises ValueError for a key that stands twice: one of its values would be lost unsaid."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"`{next(name for name in names if names.count(name) > 1)}` stands twice")
    return found
