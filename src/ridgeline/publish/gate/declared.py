"""Fields of a user's file declared once: a dataclass whose fields say what may stand in the file and how it is read.

In: frozen dataclasses with fields made by `key`. Out: the `Table` that checks the file and writes its page, and the
value that a checked mapping becomes. So the checker, the page and the value cannot disagree. Keys are the fields' names
with dashes; a key with a default may be left out or be null.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from ridgeline.spec import schema
from ridgeline.spec.schema import Kind, Table

T = TypeVar("T")


class Shape(NamedTuple):
    """What a value may be, and what it becomes once it was checked."""

    kind: Kind
    read: Callable[[Any], Any]


def key(shape: Kind | Shape, doc: str, default: Any = MISSING) -> Any:
    """One key of the file. Without a default it is required."""
    made = shape if isinstance(shape, Shape) else Shape(shape, _same)
    metadata = {"shape": made, "doc": doc}
    if isinstance(default, Mapping):  # dataclasses take any mapping for one that is shared and changed
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


def table(of: type[Any], name: str) -> Table:
    """The table of a declared dataclass."""
    return Table(
        name,
        [
            schema.Field(
                _name(one), one.metadata["shape"].kind, one.metadata["doc"], _required(one), nullable=not _required(one)
            )
            for one in _declared(of)
        ],
    )


def build(of: type[T], raw: Mapping[str, Any], **given: Any) -> T:
    """The value of a checked mapping; `given` are fields that do not stand in it."""
    read = {
        one.name: one.metadata["shape"].read(value)
        for one in _declared(of)
        if (value := raw.get(_name(one))) is not None
    }
    return of(**read, **given)


def nested(of: type[Any], name: str) -> Shape:
    """A mapping with the keys of another declared dataclass."""
    return Shape(schema.mapping(table(of, name)), lambda raw: build(of, raw))


def many(item: Shape, label: str) -> Shape:
    """A list, read as a tuple."""
    return Shape(schema.list_of(item.kind, label), lambda raw: tuple(item.read(one) for one in raw))


def texts(label: str) -> Shape:
    """A list of texts, read as a tuple."""
    return Shape(schema.list_of(schema.NAME, label), tuple)


def named(item: Shape | Kind, label: str) -> Shape:
    """A mapping with free keys, read only, in the order of the file."""
    shape = item if isinstance(item, Shape) else Shape(item, _same)
    return Shape(
        schema.map_of(shape.kind, label),
        lambda raw: MappingProxyType({name: shape.read(value) for name, value in raw.items()}),
    )


def labelled(of: type[Any], name: str) -> Shape:
    """A mapping with free keys, each of which becomes the `label` of its value."""
    return Shape(
        schema.map_of(schema.mapping(table(of, name)), "a mapping of labels"),
        lambda raw: MappingProxyType({label: build(of, one, label=label) for label, one in raw.items()}),
    )


def _same(value: Any) -> Any:
    return value


def _declared(of: type[Any]) -> list[Field[Any]]:
    return [one for one in dataclasses.fields(of) if "shape" in one.metadata]


def _name(one: Field[Any]) -> str:
    return one.name.replace("_", "-")


def _required(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING
