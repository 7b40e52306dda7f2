"""Importers: other tools' results, and our own run folders, as runs and points.

In: a path. Out: an `Imported` value and the bundle of files it was read from. One module a format; the order below is
the order in which a path is offered to them, most particular first. Nothing is written here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Source
from ridgeline.core.where import Where
from ridgeline.results.importers.api import (
    Bundle,
    ChangelogEntry,
    Evaluation,
    Imported,
    ImportedPoint,
    ImportedRun,
    Importer,
    Unmapped,
)

__all__ = [
    "FORMATS",
    "Bundle",
    "ChangelogEntry",
    "Evaluation",
    "Imported",
    "ImportedPoint",
    "ImportedRun",
    "Importer",
    "Unmapped",
    "find",
    "importer",
]

# format -> module
FORMATS = {
    "ridgeline": "own",
    "aiperf": "aiperf",
    "inference-perf": "inference_perf",
    "guidellm": "guidellm",
    "inferencex-api": "inferencex_api",
    "inferencex-artifacts": "inferencex_artifacts",
    "vllm-bench": "vllm_bench",
    "inferencex-csv": "dashboard_csv",
}
TOLD = (
    "run", "name", "model", "model_prefix", "precision", "framework", "hardware", "gpus", "tp", "ep", "image",
    "concurrency", "isl", "osl", "measured_at", "source",
)  # fmt: skip


def importer(name: str) -> Importer:
    """The importer of a format. Raises InputError for an unknown one."""
    if name not in FORMATS:
        raise InputError([Problem(f"unknown format `{name}`", hint=f"one of {', '.join(FORMATS)}")])
    found: Importer = importlib.import_module(f"{__name__}.{FORMATS[name]}").IMPORTER
    return found


def find(path: Path, format: str | None = None, told: Mapping[str, str] | None = None) -> tuple[Importer, Bundle]:
    """The importer of a path and the files it takes. `told`: what the user says that the files do not.

    Raises InputError when nothing is there, nothing recognises it, or `told` holds an unknown name.
    """
    unknown = sorted(set(told or {}) - set(TOLD))
    if unknown:
        problems = [Problem("is nothing an import can be told", key=name) for name in unknown]
        raise InputError(problems, hint=f"known: {', '.join(TOLD)}")
    kinds = [str(source) for source in Source]
    if told and told.get("source", kinds[0]) not in kinds:
        raise InputError([Problem(f"is no source: {told['source']}", key="source", hint=f"one of {', '.join(kinds)}")])
    if not path.exists():
        raise InputError([Problem("no such file or folder", Where(str(path)))])
    for name in [format] if format else FORMATS:
        found = importer(name)
        bundle = found.take(path)
        if bundle is not None and bundle.files:
            return found, Bundle(bundle.title, bundle.files, dict(told or {}))
    wanted = f"as {format}" if format else "by any importer"
    why, hint = _why_not(path)
    raise InputError([Problem(f"not recognised {wanted}{why}", Where(str(path)), hint=hint)])


def _why_not(path: Path) -> tuple[str, str]:
    """What is plainly wrong with a path that no importer takes, and what to do."""
    formats = "formats: " + ", ".join(FORMATS)
    if path.is_dir():
        return ("", formats) if any(path.iterdir()) else (": the folder is empty", formats)
    if not path.stat().st_size:
        return ": the file is empty", formats
    if path.suffix in (".gz", ".zst", ".zip", ".tar", ".tgz", ".xz", ".bz2"):
        return f": a {path.suffix} archive", "unpack it and import what is in it"
    if path.suffix == ".json":
        try:
            Bundle.of_file(path).data(path.name)
        except InputError as error:
            return f": {error.problems[0].message}", "is the file whole? " + formats
    return "", formats
