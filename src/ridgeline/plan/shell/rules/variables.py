"""Rules about variables and arithmetic."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ridgeline.core.finding import Verdict
from ridgeline.plan.shell.facts import Assignment, Facts, names_in
from ridgeline.plan.shell.rule import Hit, Rule
from ridgeline.plan.shell.script import Node

# Read by the shell, by what it starts, or by the library that launch scripts include.
CONTRACT = {
    "IFS",
    "PATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PS4",
    "SHELLOPTS",
    "HOME",
    "TMPDIR",
    "REPLAY_CMD",
    "PYTHONPATH",
}
DEFAULTS = ("-", ":-", "+", ":+", "=", ":=", "?", ":?")


def never_read(facts: Facts) -> Iterator[Hit]:
    """By the text: `$NAME` in any quoting counts, since a string may be evaluated later."""
    if "allexport" in facts.options:
        return
    exported = _exported(facts)
    read = names_in(facts.script.text) | _bare(facts) | set(facts.pid_names)
    for name, item in _first(facts.assignments).items():
        if name and not name.startswith("_") and name not in CONTRACT | exported | read:
            yield Hit(item.node, f"`{name}` is set and never used")


def _bare(facts: Facts) -> set[str]:
    """Names read without a dollar sign: in arithmetic, by `-v`, by builtins that take a name, by indirection."""
    found = set()
    for node in facts.script.of("variable_name", "word", "string_content"):
        above = node.parent.kind if node.parent is not None else ""
        assigned = node.kind == "variable_name" and above in ("variable_assignment", "declaration_command")
        if not assigned and above != "command_name":
            found.add(node.text)
    return found


def _exported(facts: Facts) -> set[str]:
    found = {item.name for item in facts.assignments if item.exported}
    for node in facts.script.of("declaration_command"):
        words = [child.text for child in node.children]
        if words and (words[0] == "export" or any(re.fullmatch(r"-\w*x\w*", word) for word in words)):
            found |= {child.text for child in node.children if child.kind == "variable_name"}
    return found


def _first(assignments: list[Assignment]) -> dict[str, Assignment]:
    found: dict[str, Assignment] = {}
    for item in assignments:
        found.setdefault(item.name, item)
    return found


def bad_divisor(facts: Facts) -> Iterator[Hit]:
    quotients = {item.name for item in facts.assignments if _divides(item.node)}
    for node in facts.script.of("binary_expression"):
        sides = [child for child in node.children if child.kind not in ("/", "%")]
        if len(sides) != 2 or len(node.children) != 3 or node.children[1].kind not in ("/", "%"):
            continue
        divisor = _bare_expression(sides[1])
        if divisor.kind == "number" and re.fullmatch(r"0+", divisor.text):
            yield Hit(node, f"`{node.text}` divides by zero")
        elif divisor.kind == "binary_expression" and any(c.kind in ("/", "%", "-") for c in divisor.children):
            yield Hit(node, f"`{node.text}`: `{divisor.text}` can be cut down to 0, or to less than was meant")
        elif divisor.text.lstrip("$").strip("{}") in quotients:
            yield Hit(node, f"`{node.text}`: `{divisor.text}` is itself a quotient that can be cut down to 0")


def _divides(node: Node) -> bool:
    """Whether an assignment takes an integer quotient as its whole value."""
    value = node.children[-1] if node.children else node
    if value.kind == "string" and len(value.children) == 3:
        value = value.children[1]
    if value.kind != "arithmetic_expansion" or len(value.children) != 3:
        return False
    inner = _bare_expression(value.children[1])
    return inner.kind == "binary_expression" and len(inner.children) == 3 and inner.children[1].kind == "/"


def _bare_expression(node: Node) -> Node:
    while node.kind == "parenthesized_expression" and len(node.children) == 3:
        node = node.children[1]
    return node


def bare_under_nounset(facts: Facts) -> Iterator[Hit]:
    """A variable that comes from outside, has a default in one place, and is expanded without one in another."""
    if "nounset" not in facts.options:
        return
    assigned = {item.name for item in facts.assignments}
    defaulted: set[str] = set()
    settled: set[str] = set()  # `${X:=v}` and `${X:?}` make later uses safe
    bare: dict[str, list[Node]] = {}
    for node in facts.script.of("expansion", "simple_expansion"):
        name = next((child.text for child in node.children if child.kind == "variable_name"), "")
        operator = next((child.kind for child in node.children if child.kind in DEFAULTS), "")
        if operator:
            (settled if operator.strip(":") in ("=", "?") else defaulted).add(name)
        elif name and not any(child.kind in ("!", "#") for child in node.children):
            bare.setdefault(name, []).append(node)
    for name in sorted(defaulted - assigned - settled):
        for node in bare.get(name, []):
            if not _tested(node, name):
                yield Hit(node, f"`${name}` has a default elsewhere and none here: unset, it ends the script")


def _tested(node: Node, name: str) -> bool:
    """Whether a condition around the use asks for the variable with a default first."""
    pattern = re.compile(rf"\$\{{{name}:?[-+]|-v\s+{name}\b")
    for ancestor in node.above:
        if ancestor.kind not in ("if_statement", "elif_clause", "list", "while_statement", "case_statement"):
            continue
        if pattern.search(node.source[ancestor.start : node.start].decode("utf-8", "replace")):
            return True
    return False


RULES = (
    Rule(
        "L12",
        "A value that is set and never used",
        Verdict.WARN,
        "Somebody meant it to matter: a computed limit that no flag carries, a log that nothing is written to.",
        "Use it where it was meant, export it, or delete it.",
        'TOKENS_PER_SEQ=4\nvllm serve "$MODEL" --max-cudagraph-capture-size "$SEQS"\n',
        'TOKENS_PER_SEQ=4\nvllm serve "$MODEL" --max-cudagraph-capture-size "$((SEQS * TOKENS_PER_SEQ))"\n',
        never_read,
    ),
    Rule(
        "L13",
        "A divisor that can be zero",
        Verdict.FAIL,
        "Shell division cuts off: 8 / 16 is 0, and dividing by it ends the script; 8 / 3 is 2, a wrong share.",
        "Multiply first and divide once: `X * TP / 8` instead of `X / (8 / TP)`.",
        'SHARE=$((TOTAL / (8 / TP)))\nvllm serve "$MODEL" --kv-offloading-size "$SHARE"\n',
        'SHARE=$((TOTAL * TP / 8))\nvllm serve "$MODEL" --kv-offloading-size "$SHARE"\n',
        bad_divisor,
    ),
    Rule(
        "L25",
        "A variable without its default under `set -u`",
        Verdict.FAIL,
        "The script gives the variable a default in one place, so it may be unset; here that ends the run.",
        "Write the default everywhere, or once at the top: `EVAL_ONLY=${EVAL_ONLY:-false}`.",
        'set -eu\necho "${EVAL_ONLY:-false}"\nif [ "$EVAL_ONLY" = true ]; then run_eval; fi\n',
        'set -eu\nEVAL_ONLY=${EVAL_ONLY:-false}\nif [ "$EVAL_ONLY" = true ]; then run_eval; fi\n',
        bare_under_nounset,
    ),
)
