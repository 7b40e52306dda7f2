"""What earlier starts of engines showed: memory that only a start can tell, kept with where it was seen.

In: JSON lines, shipped here, in `observations/` of the folders named by RIDGELINE_FACTS, or in files by path. Out:
`Observation` values. Refused: lines without what identifies a start. A figure that was not printed is None.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where

_SHIPPED = Path(__file__).parent / "observations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One start of one engine, as its log told. GiB and tokens on one rank. `image`: an image reference or a build
    (`vllm-0.24.0`); `topology`: its label; `backends`: what the log named, or "" when it did not say; `precision`: of
    the weights, as configs name it, or "" when not known."""

    image: str
    model: str
    gpu: str
    topology: str
    batched_tokens: int
    backends: str = ""
    precision: str = ""
    runner: str = ""  # "v1" | "v2" | "" when not known
    drafts: int = 0
    utilization: float | None = None
    total_gib: float | None = None
    free_gib: float | None = None
    weights_gib: float | None = None
    activation_gib: float | None = None
    non_torch_gib: float | None = None
    graph_gib: float | None = None
    kv_gib: float | None = None
    kv_tokens: int | None = None
    date: str = ""
    source: str = ""

    @property
    def overhead_gib(self) -> float | None:
        """What neither weights nor cache took of the requested memory: total x utilisation - weights - cache."""
        if None in (self.utilization, self.total_gib, self.weights_gib, self.kv_gib):
            return None
        assert self.utilization is not None and self.total_gib is not None
        assert self.weights_gib is not None and self.kv_gib is not None
        return self.total_gib * self.utilization - self.weights_gib - self.kv_gib


_REQUIRED = ("image", "model", "gpu", "topology", "batched_tokens")
_TEXTS = {"image", "model", "gpu", "topology", "backends", "precision", "runner", "date", "source"}


def load_observations(paths: Iterable[Path | str] = (), *, shipped: bool = True) -> tuple[Observation, ...]:
    """Observations of files and folders, those of RIDGELINE_FACTS, and those shipped. Raises InputError with every
    problem, at its line."""
    folders = [Path(part) / "observations" for part in os.environ.get("RIDGELINE_FACTS", "").split(os.pathsep) if part]
    chosen = [*map(Path, paths), *(f for f in folders if f.is_dir()), *([_SHIPPED] if shipped else [])]
    found: list[Observation] = []
    problems: list[Problem] = []
    for path in chosen:
        if not path.exists():
            problems.append(Problem("there is no such file or folder", Where(str(path))))
            continue
        for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
            rows, wrong = _file(file, file.stat().st_mtime_ns)
            found += rows
            problems += wrong
    if problems:
        raise InputError(problems)
    return tuple(found)


@lru_cache(maxsize=32)
def _file(path: Path, _: int) -> tuple[tuple[Observation, ...], tuple[Problem, ...]]:
    found, problems = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
        except ValueError as error:
            problems.append(Problem(f"not JSON: {error}", Where(str(path), number)))
            continue
        wrong = list(_wrong(data))
        problems += [Problem(message, Where(str(path), number), key) for key, message in wrong]
        if not wrong:
            found.append(Observation(**data))
    return tuple(found), tuple(problems)


def _wrong(data: Any) -> Iterable[tuple[str, str]]:
    if not isinstance(data, Mapping):
        yield "", "must be a JSON object"
        return
    known = {item.name for item in fields(Observation)}
    yield from ((key, "is required") for key in _REQUIRED if data.get(key) is None)
    for key, value in data.items():
        if key not in known:
            yield key, "is not a field of an observation"
        elif value is not None and not isinstance(value, str if key in _TEXTS else (int, float)):
            yield key, f"must be {'text' if key in _TEXTS else 'a number'}, is {value!r}"
