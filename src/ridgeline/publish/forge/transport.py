"""How answers of the API are fetched: the protocol, and the one over recorded files.

A path is what stands behind the API's root, without a leading slash: `repos/acme/bench/pulls/7`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.core.where import Where
from ridgeline.publish.forge.event import read_json


class Transport(Protocol):
    """Reads, and the three writes that commands need."""

    def one(self, path: str, **query: str) -> Any | None:
        """The answer at `path`; None when there is nothing (404)."""

    def pages(self, path: str, inside: str | None = None, **query: str) -> Iterator[Any]:
        """All items of a paged list; `inside` names the list where the answer is an object."""

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """Write, once."""


class Recorded:
    """Answers recorded as files: `FOLDER/repos/acme/bench/pulls/7.json`; a query is part of the name
    (`.../runs?branch=x.json`), and a name without the query stands for all of them. Writing is refused."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError([Problem("is not a folder of recorded answers", Where(str(folder)))])
        self.folder = folder.resolve()

    def one(self, path: str, **query: str) -> Any | None:
        found = self._find(path, query)
        return None if found is None else read_json(found.read_bytes(), str(found))

    def pages(self, path: str, inside: str | None = None, **query: str) -> Iterator[Any]:
        answer = self.one(path, **query)
        items = answer.get(inside) if inside and isinstance(answer, dict) else answer
        yield from items if isinstance(items, list) else ()

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        raise EnvironmentFailed(f"recorded answers cannot be written to ({method} {path})", hint="leave out --post")

    def _find(self, path: str, query: Mapping[str, str]) -> Path | None:
        names = [f"{path}?{urlencode(query)}.json"] if query else []
        for name in [*names, f"{path}.json"]:
            file = self.folder / name
            if file.is_file() and file.resolve().is_relative_to(self.folder):
                return file
        return None
