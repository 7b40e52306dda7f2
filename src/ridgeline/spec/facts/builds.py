"""What an engine build accepts and prints, from dumps made inside it: never a list kept by hand.

In: JSON files (format ridgeline-build/1), shipped here, in `builds/` of the folders named by RIDGELINE_FACTS, or given
by path. Out: `Dump` values. A part that the build did not give is None: unknown, not empty.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.spec.facts.library import read_json

FORMAT = "ridgeline-build/1"
_SHIPPED = Path(__file__).parent / "builds"


@dataclass(frozen=True, slots=True)
class Dump:
    """One build. `options`: option string -> choices or None; every part may be None when the build did not tell."""

    kind: str
    package: str
    version: str
    options: Mapping[str, tuple[str, ...] | None] | None
    env: frozenset[str] | None
    metrics: frozenset[str] | None
    moe_backends: Mapping[str, tuple[str, ...] | None]
    connectors: frozenset[str] | None
    source: str
    importable: Mapping[str, bool] | None = None  # module -> whether it could be imported there
    attention_backends: tuple[str, ...] | None = None
    image: str = ""  # the image it was made in, where that was said: the only name a nightly has

    @property
    def name(self) -> str:
        return f"{self.package} {self.version}"


def load_dumps(paths: Iterable[Path | str] = ()) -> tuple[Dump, ...]:
    """Dumps of files and folders, those of RIDGELINE_FACTS, and those shipped. Raises InputError."""
    folders = [Path(part) / "builds" for part in os.environ.get("RIDGELINE_FACTS", "").split(os.pathsep) if part]
    found = []
    for path in [*map(Path, paths), *(folder for folder in folders if folder.is_dir()), _SHIPPED]:
        if not path.exists():
            raise InputError([Problem("there is no such file or folder", Where(str(path)))])
        found += [_dump(file) for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    return tuple(found)


@lru_cache(maxsize=32)
def _dump(path: Path) -> Dump:
    return dump_from(read_json(path), str(path))


def dump_from(data: Mapping[str, Any], file: str) -> Dump:
    """A dump from its JSON. Raises InputError for another format."""
    if data.get("format") != FORMAT:
        raise InputError([Problem(f"is not a {FORMAT} file", Where(file), "format")])
    options = data.get("options")
    backends = data.get("moe_backends") or {}
    return Dump(
        kind=str(data.get("kind")),
        package=str(data.get("package")),
        version=str(data.get("version")),
        options=None if options is None else {name: _choices(item) for name, item in options.items()},
        env=_names(data.get("env")),
        metrics=_names(data.get("metrics")),
        moe_backends={name: None if items is None else tuple(items) for name, items in backends.items()},
        connectors=_names(data.get("kv_connectors")),
        source=file,
        importable=data.get("importable"),
        attention_backends=tuple(data["attention_backends"]) if data.get("attention_backends") else None,
        image=str(data.get("image") or ""),
    )


def text_of(data: Mapping[str, Any]) -> str:
    """A dump's JSON as it is stored: names side by side, broken between them only."""
    lines: list[str] = []
    for key, value in sorted(data.items()):
        head, tail, pieces = "", "", [json.dumps(value)]
        if isinstance(value, Mapping):
            head, tail = "{", "}"
            pieces = [f"{json.dumps(name)}: {json.dumps(item)}" for name, item in sorted(value.items())]
        elif isinstance(value, list):
            head, tail, pieces = "[", "]", [json.dumps(item) for item in value]
        line = f" {json.dumps(key)}: {head}"
        for index, piece in enumerate(pieces):
            word = piece + ("," if index < len(pieces) - 1 else tail)
            if len(line) + len(word) > 118 and line.strip():
                lines.append(line.rstrip())
                line = "  "
            line += f"{word} "
        lines.append((line.rstrip() if pieces else line + tail) + ",")
    return "{\n" + "\n".join(lines).removesuffix(",") + "\n}\n"


def _choices(item: Any) -> tuple[str, ...] | None:
    """The choices of an option: a list, null, or (in dumps made before) an object that holds them."""
    found = item.get("choices") if isinstance(item, Mapping) else item
    return tuple(found) if found else None


def _names(items: Any) -> frozenset[str] | None:
    return None if items is None else frozenset(map(str, items))
