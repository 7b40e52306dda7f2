"""Typed options become arguments: every value once, spelled by one place, with its origin.

In: a frozen dataclass of options, whose fields are named as the engine names its flags. Out: `Item`s. None is left
out, so an engine's own default stays visible as such. Nested dataclasses are groups of flags.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from ridgeline.core.deployment import Item
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.recipes.origin import Option, Value, plain

Env = Mapping[str, Option[str] | Option[int]]


def dashed(name: str) -> str:
    """`max_num_seqs` -> `--max-num-seqs`."""
    return f"--{name.replace('_', '-')}"


def flags(
    options: Any, default: Where, *, spell: Callable[[str], str] = dashed, negatable: Sequence[str] = ()
) -> tuple[Item, ...]:
    """Arguments of every field that is set, in the order of the fields; `extra` pairs come last, verbatim.

    True is the bare flag; False is `--no-FLAG` where the engine has one (`negatable`), else it is left out. Mappings
    become JSON, sequences one word an element. Raises InputError for a flag that would appear twice.
    """
    items: list[Item] = []
    seen: dict[str, str] = {}
    twice: list[Problem] = []
    for flag, value, origin in _written(options, default, spell, negatable):
        if flag in seen:
            twice.append(Problem(f"`{flag}` is given twice: `{seen[flag]}` and `{value}`", origin, flag))
        seen[flag] = str(value)
        items.append(Item(flag, origin))
        items += [Item(word, origin) for word in _words(value)]
    if twice:
        raise InputError(twice)
    return tuple(items)


def environment(default: Where, *parts: Env) -> tuple[tuple[str, Item], ...]:
    """Environment additions, sorted by name; a later part replaces an earlier one."""
    merged = {name: value for part in parts for name, value in part.items() if plain(value) is not None}
    return tuple((name, Item(str(plain(value)), _origin(value, default))) for name, value in sorted(merged.items()))


def items(words: Iterable[str], origin: Where | None) -> tuple[Item, ...]:
    """Words that all come from one place."""
    return tuple(Item(word, origin) for word in words)


def compact(value: Any) -> str:
    """JSON as one word, with the keys in the order they were written."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _written(
    options: Any, default: Where, spell: Callable[[str], str], negatable: Sequence[str]
) -> Iterator[tuple[str, Any, Where]]:
    for name, option in _leaves(options):
        value = plain(option)
        origin = _origin(option, default)
        if name == "extra":
            for flag, word in value or ():
                yield flag, word if word is not None else True, origin
        elif value is False and name in negatable:
            yield f"--no-{spell(name).removeprefix('--')}", True, origin
        elif value is not None and value is not False:
            yield spell(name), value, origin


def _leaves(options: Any) -> Iterator[tuple[str, Any]]:
    for field in fields(options):
        value = getattr(options, field.name)
        if field.metadata.get("positional"):
            continue
        if is_dataclass(value) and not isinstance(value, Value):
            yield from _leaves(value)
        else:
            yield field.name, value


def _words(value: Any) -> list[str]:
    if value is True:
        return []
    if isinstance(value, Mapping):
        return [compact(value)]
    if isinstance(value, (tuple, list)):
        return [str(item) for item in value]
    return [f"{value:g}" if isinstance(value, float) else str(value)]


def _origin(option: Any, default: Where) -> Where:
    return (option.origin or default) if isinstance(option, Value) else default
