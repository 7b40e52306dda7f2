"""A small language for tables of fields, and the one loop that checks plain data against them.

In: a `Table` (fields, cross-field rules) and plain data from `tree`. Out: a list of `Fault`s, all of them, each with
the path it stands at; `problems` turns them into messages with places and the nearest right key. The same tables
write docs/reference/config.md, so the page cannot disagree with the checker. design/config-validation.md says why
these are not pydantic models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ridgeline.core.errors import Problem
from ridgeline.spec.build import Path_, key_path
from ridgeline.spec.scalars import Trap
from ridgeline.spec.tree import Document


class Kind(NamedTuple):
    """What a value may be. `label` completes "must be ..."; exactly one of test, table, item and values is set:
    a scalar, a mapping with known keys, a list, a mapping with free keys. `basic` says what a scalar is in YAML, for
    hints: text, number, flag or date."""

    label: str
    test: Callable[[Any], bool] | None = None
    table: Table | None = None
    item: Kind | None = None
    values: Kind | None = None
    basic: str = ""


class Field(NamedTuple):
    """One key of a mapping. `default` is text for the reference page; `nullable` lets null mean "not given"."""

    name: str
    kind: Kind
    doc: str
    required: bool = False
    default: str = ""
    nullable: bool = False


class Fault(NamedTuple):
    """One thing wrong with plain data. `at_key` points at the key instead of the value."""

    path: Path_
    message: str
    hint: str | None = None
    at_key: bool = False


class Rule(NamedTuple):
    """A rule over several fields of one mapping. It runs only when none of the fields it `reads` is faulty."""

    reads: tuple[str, ...]
    doc: str
    check: Callable[[dict[str, Any]], Iterable[Fault]]


class Table:
    """The fields of one kind of mapping, indexed once. Never changed after it is made. `elsewhere` has a hint for
    names that people expect here and that belong somewhere else."""

    __slots__ = ("elsewhere", "fields", "name", "required", "rules")

    def __init__(
        self,
        name: str,
        fields: Iterable[Field],
        rules: Iterable[Rule] = (),
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.elsewhere = dict(elsewhere or {})
        self.fields: Mapping[str, Field] = {field.name: field for field in fields}
        self.required = frozenset(field.name for field in self.fields.values() if field.required)
        self.rules = tuple(rules)


def check(table: Table, value: Any, path: Path_, faults: list[Fault]) -> None:
    """Check one mapping and all below it; append every fault."""
    if value.__class__ is not dict:
        faults.append(_mismatch(path, value, mapping(table)))
        return
    fields = table.fields
    bad: set[str] = set()
    for name, item in value.items():
        field = fields.get(name)
        if field is None:
            faults.append(_unknown(table, path, name, value))
        elif item is not None or not field.nullable:
            before = len(faults)
            _check_kind(field.kind, item, (*path, name), faults)
            if len(faults) > before:
                bad.add(name)
    if not table.required <= value.keys():
        missing = [name for name in fields if name in table.required and name not in value]
        bad.update(missing)
        faults.extend(
            Fault((*path, name), "is required and missing", f"{name}: {fields[name].kind.label}") for name in missing
        )
    for rule in table.rules:
        if bad.isdisjoint(rule.reads):
            faults.extend(fault._replace(path=path + fault.path) for fault in rule.check(value))


def _check_kind(kind: Kind, value: Any, path: Path_, faults: list[Fault]) -> None:
    if kind.test is not None:
        if not kind.test(value):
            faults.append(_mismatch(path, value, kind))
    elif kind.table is not None:
        check(kind.table, value, path, faults)
    elif kind.item is not None:
        if value.__class__ is not list:
            faults.append(_mismatch(path, value, kind))
            return
        for index, item in enumerate(value):
            _check_kind(kind.item, item, (*path, index), faults)
    elif kind.values is not None:
        if value.__class__ is not dict:
            faults.append(_mismatch(path, value, kind))
            return
        for name, item in value.items():
            _check_kind(kind.values, item, (*path, name), faults)


# --- kinds of scalars ------------------------------------------------------------------------------------------------


def _is_positive(value: Any) -> bool:
    return value.__class__ is int and value > 0


def _is_amount(value: Any) -> bool:
    return value.__class__ in (int, float) and 0 <= value < float("inf")


def _is_fraction(value: Any) -> bool:
    return value.__class__ in (int, float) and 0 < value <= 1


TEXT = Kind("text", lambda value: value.__class__ is str, basic="text")
NAME = Kind("text that is not empty", lambda value: value.__class__ is str and value != "", basic="text")
WHOLE = Kind("a whole number", lambda value: value.__class__ is int, basic="number")
POSITIVE = Kind("a whole number above 0", _is_positive, basic="number")
FLAG = Kind("true or false", lambda value: value.__class__ is bool, basic="flag")
FRACTION = Kind("a number above 0 and at most 1", _is_fraction, basic="number")
AMOUNT = Kind("a number, 0 or more", _is_amount, basic="number")


def one_of(*values: Any) -> Kind:
    """Exactly one of these values, of the same type (true is not 1)."""
    allowed = tuple((value.__class__, value) for value in values)
    words = ["true" if v is True else "false" if v is False else str(v) for v in values]
    text = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else f"{words[0]}, nothing else"
    basic = {bool: "flag", int: "number"}.get(values[0].__class__, "text")
    return Kind(text, lambda value: (value.__class__, value) in allowed, basic=basic)


def mapping(table: Table) -> Kind:
    return Kind(f"a mapping ({table.name})", table=table)


def list_of(item: Kind, label: str) -> Kind:
    return Kind(label, item=item)


def map_of(values: Kind, label: str) -> Kind:
    return Kind(label, values=values)


# --- words for faults ------------------------------------------------------------------------------------------------


def _mismatch(path: Path_, value: Any, kind: Kind) -> Fault:
    if isinstance(value, Trap) and kind.basic == "date":
        return Fault(path, f"must be {kind.label}, not {value.text}")
    if isinstance(value, Trap):
        hint = f"write '{value.text}' in quotes" if kind.basic == "text" else "write a plain decimal number"
        return Fault(path, f"{value}; must be {kind.label}", hint)
    return Fault(path, f"must be {kind.label}, not {describe(value)}", _how_to_write(value, kind))


def _how_to_write(value: Any, kind: Kind) -> str | None:
    if kind.basic == "text" and isinstance(value, (bool, int, float)):
        return "quote the value: YAML reads it as something else without quotes"
    if not isinstance(value, str):
        return None
    text = value.strip()
    is_number = text.replace(".", "", 1).lstrip("+-").isdigit()
    if (kind.basic == "number" and is_number) or (kind.basic == "flag" and text.lower() in ("true", "false")):
        return f"remove the quotes: {text}"
    return None


def describe(value: Any) -> str:
    """A value as a person would say it: `the text 'x'`, `3`, `nothing`, `a list`."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true (also written yes, on)" if value else "false (also written no, off)"
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a mapping"
    return f"{value}" if isinstance(value, int) else f"the number {value}"


def _unknown(table: Table, path: Path_, name: str, value: Mapping[str, Any]) -> Fault:
    if name in table.elsewhere:
        return Fault((*path, name), f"is not a field of {table.name}", table.elsewhere[name], at_key=True)
    import difflib

    known = [field for field in table.fields if field not in value]
    near = difflib.get_close_matches(name.replace("_", "-").lower(), known, n=1, cutoff=0.7)
    allowed = ", ".join(table.fields)
    hint = f"did you mean `{near[0]}`?" if near else f"allowed in {table.name}: {allowed}"
    return Fault((*path, name), f"is not a known field of {table.name}", hint, at_key=True)


def problems(faults: Iterable[Fault], document: Document) -> list[Problem]:
    """Faults with their places, in the order of the file."""
    found = [
        Problem(fault.message, document.where(fault.path, at_key=fault.at_key), key_path(fault.path), fault.hint)
        for fault in faults
    ]
    return sorted(found, key=lambda problem: (problem.where.line, problem.where.column) if problem.where else (0, 0))
