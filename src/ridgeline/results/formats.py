"""The JSON documents we write: each names its format and version, is refused when newer and migrated when older.

In: plain data. Out: an envelope {"format", "version", "body"} as bytes, and back. NaN and infinity are refused both
ways: a missing value is null with a reason beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where

T = TypeVar("T")
Migration = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Format:
    """A document format. `migrations[v]` turns a body of version v into one of version v + 1."""

    name: str
    version: int
    migrations: Mapping[int, Migration] = field(default_factory=dict)

    def encode(self, value: object) -> bytes:
        """UTF-8 JSON of a frozen value in its envelope. Raises ValueError for NaN and infinity."""
        envelope = {"format": self.name, "version": self.version, "body": value}
        return encode_plain(envelope)

    def decode(self, data: bytes, type: type[T], file: str) -> T:
        """The value in an envelope; `file` is named in what goes wrong. Raises InputError."""
        body = self.body(data, file)
        try:
            return msgspec.convert(body, type)
        except (msgspec.ValidationError, ValueError) as error:
            raise InputError([Problem(f"not a valid {self.name}: {error}", Where(file))]) from error

    def body(self, data: bytes, file: str) -> dict[str, Any]:
        """The body, migrated to the current version. Raises InputError for another format or a newer version."""
        try:
            envelope = json.loads(data, parse_constant=_refuse)
        except ValueError as error:
            raise InputError([Problem(f"not a JSON document: {error}", Where(file))]) from error
        if not isinstance(envelope, dict) or envelope.get("format") != self.name:
            raise InputError([Problem(f"not a {self.name} document", Where(file), key="format")])
        version, body = envelope.get("version"), envelope.get("body")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1 or not isinstance(body, dict):
            raise InputError([Problem(f"not a {self.name} document: no version or body", Where(file), key="version")])
        if version > self.version:
            raise InputError(
                [
                    Problem(
                        f"written as {self.name} version {version}; this Ridgeline reads up to {self.version}",
                        Where(file),
                        key="version",
                        hint="read it with the Ridgeline that wrote it, or a newer one",
                    )
                ]
            )
        for step in range(version, self.version):
            body = self.migrations[step](body)
        return body


def encode_plain(value: object) -> bytes:
    """UTF-8 JSON of plain data or frozen values, indented, with a final newline. Raises ValueError for NaN."""
    plain = msgspec.to_builtins(value, str_keys=True)
    return (json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON; a missing value is null with a reason")


RUN = Format("ridgeline.run", 1)
CELL = Format("ridgeline.cell", 1)
DEPLOYMENT = Format("ridgeline.deployment", 1)
POINT = Format("ridgeline.point", 1)
FAILURE = Format("ridgeline.failure", 1)
