"""Kernel tuning tables (AITER's FlyDSL launch geometry), found by path: nobody ships them here.

In: files or folders. Out: `TuningTable` values in the order of their names. A table is known by its file name, as the
kernel library itself knows it: `flydsl_{arch}_{model}_{kernel type}_ep{n}.json`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.spec.facts.library import read_json

_NAME = re.compile(r"flydsl_(?P<rest>.+)_(?P<kernel>[^_]+)_ep(?P<ep>\d+)\.json$")
_REQUIRED = ("dtype", "hidden_dim", "num_tokens", "block_num", "warp_num_per_block")


class TuningRule(NamedTuple):
    """One row. A field that is None is not compared."""

    dtype: str
    hidden: int
    topk: int | None
    local_experts: int | None
    zero_copy: bool
    tokens: int
    blocks: int
    warps: int


@dataclass(frozen=True, slots=True)
class TuningTable:
    """One file. `text` is the file name, on which arch and GPU model are matched."""

    text: str
    kernel: str
    ep: int
    dispatch: tuple[TuningRule, ...]
    combine: tuple[TuningRule, ...]
    source: str = ""


def load_tables(paths: Iterable[Path | str] = ()) -> tuple[TuningTable, ...]:
    """Tables of files and folders, and of `tuning/` in the folders named by RIDGELINE_FACTS. Raises InputError with
    every problem. Files of a folder whose name is no table's are passed over; a file given by name must be one."""
    found: dict[str, TuningTable] = {}
    problems: list[Problem] = []
    for path in [*map(Path, paths), *_folders()]:
        if not path.exists():
            problems.append(Problem("there is no such file or folder", Where(str(path))))
            continue
        for file in sorted(path.glob("flydsl_*.json")) if path.is_dir() else [path]:
            try:
                found.setdefault(file.name, _table(file))
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(problems)
    return tuple(found.values())


def _folders() -> list[Path]:
    extra = os.environ.get("RIDGELINE_FACTS", "")
    return [folder for part in extra.split(os.pathsep) if part and (folder := Path(part) / "tuning").is_dir()]


def _table(path: Path) -> TuningTable:
    name = _NAME.match(path.name)
    if name is None:
        hint = "flydsl_ARCH_MODEL_KERNEL_epN.json"
        raise InputError([Problem("is not the name of a tuning table", Where(str(path)), hint=hint)])
    data = read_json(path)
    problems: list[Problem] = []
    dispatch, combine = (_rules(data, phase, str(path), problems) for phase in ("dispatch", "combine"))
    if problems:
        raise InputError(problems)
    return TuningTable(path.name, name["kernel"], int(name["ep"]), dispatch, combine, source=str(path))


def _rules(data: Mapping[str, Any], phase: str, file: str, problems: list[Problem]) -> tuple[TuningRule, ...]:
    rows = data.get(phase) or []
    if not isinstance(rows, list):
        problems.append(Problem("must be a list of rules", Where(file), phase))
        return ()
    found = []
    for index, row in enumerate(rows):
        missing = [key for key in _REQUIRED if not isinstance(row, dict) or key not in row]
        if missing:
            problems.append(Problem(f"lacks {', '.join(missing)}", Where(file), f"{phase}[{index}]"))
            continue
        found.append(
            TuningRule(
                str(row["dtype"]), int(row["hidden_dim"]), row.get("topk"), row.get("local_expert_num"),
                bool(row.get("zero_copy", False)), int(row["num_tokens"]), int(row["block_num"]),
                int(row["warp_num_per_block"]),
            )
        )  # fmt: skip
    return tuple(found)
