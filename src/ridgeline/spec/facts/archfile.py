"""Our own model files (format ridgeline-model/1): a `ModelArch` as JSON, small, with its source and licence named."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.spec.facts.model import Block, Compressed, Dense, Experts, Gqa, Indexer, Mla, ModelArch, Recurrent

FORMAT = "ridgeline-model/1"
_KINDS: dict[str, type] = {part.kind: part for part in (Gqa, Mla, Compressed, Recurrent, Dense, Experts)}


def to_json(arch: ModelArch, names: tuple[str, ...] = ()) -> dict[str, Any]:
    """JSON data of a model; values equal to a field's default are left out. `names`: other names it is known by."""
    data = _plain(arch)
    return {"format": FORMAT, "name": data.pop("name"), "names": list(names), **data}


def from_json(data: Mapping[str, Any], file: str) -> ModelArch:
    """The model of one of our files. Raises InputError with the key that is wrong."""
    fields: dict[str, Any] = {key: value for key, value in data.items() if key not in ("format", "names")}
    try:
        for key in ("blocks", "mtp"):
            fields[key] = tuple(_block(item, file) for item in fields.get(key, ()))
        return ModelArch(**fields)
    except (TypeError, AttributeError) as error:
        raise InputError([Problem(f"not a {FORMAT} file: {error}", Where(file))]) from error


def _plain(value: Any) -> Any:
    if not dataclasses.is_dataclass(value):
        return [_plain(item) for item in value] if isinstance(value, tuple) else value
    kind = {"kind": value.kind} if hasattr(value, "kind") else {}
    pairs = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
    return kind | {field.name: _plain(item) for field, item in pairs if item != field.default}


def _block(item: Mapping[str, Any], file: str) -> Block:
    return Block(int(item["count"]), _part(item.get("attention"), file), _part(item.get("ffn"), file))


def _part(item: Mapping[str, Any] | None, file: str) -> Any:
    if item is None:
        return None
    if item.get("kind") not in _KINDS:
        raise InputError([Problem(f"must be one of {', '.join(_KINDS)}, is {item.get('kind')!r}", Where(file), "kind")])
    fields = {key: value for key, value in item.items() if key != "kind"}
    if fields.get("indexer") is not None:
        fields["indexer"] = Indexer(**fields["indexer"])
    return _KINDS[item["kind"]](**fields)
