"""What a dashboard shows, by path: run folders, folders of them, results that an importer reads, a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where

if TYPE_CHECKING:
    from ridgeline.publish.web.data import Shelf


def shelves(paths: list[Path], store: str | None) -> list[Shelf]:
    """A store's channels, folders of runs, files of others; `runs` where nothing is named. Raises InputError."""
    found: list[Shelf] = []
    if store is not None:
        from ridgeline.publish.web.stored import shelves_of

        found += shelves_of(store)
    return found + overlays(paths or ([] if store is not None else [Path("runs")]))


def overlays(paths: list[Path]) -> list[Shelf]:
    """Run folders on one shelf, files of others on another. Raises InputError for what is not there."""
    from ridgeline.publish.web.folders import FolderShelf

    folders, files = _sorted(paths)
    found: list[Shelf] = [FolderShelf(folders)] if folders else []
    if files:
        from ridgeline.publish.web.imported import ImportedShelf

        found.append(ImportedShelf(files))
    return found


def _sorted(paths: list[Path]) -> tuple[list[Path], list[Path]]:
    """Folders that hold runs of ours (or will), and everything that an importer has to read."""
    problems = [
        Problem("no such file or folder", Where(str(path)))
        for path in paths
        if not path.exists() and path != Path("runs")
    ]
    if problems:
        raise InputError(problems)
    ours = [path for path in paths if not path.is_file() and _holds_runs(path)]
    return ours, [path for path in paths if path not in ours]


def _holds_runs(path: Path) -> bool:
    if not path.exists() or (path / "run.json").exists():
        return True
    entries = list(path.iterdir())
    return not entries or any((entry / "run.json").exists() for entry in entries)
