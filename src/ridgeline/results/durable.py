"""Writing so that a reader sees all of it or nothing, whatever kills the writer.

In: a folder to fill or bytes to place. Out: files that are on the disk when the call returns. What the file system
refuses (full, read-only, no permission) becomes an `EnvironmentFailed` with a hint; leftovers have a known prefix.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ridgeline.core.errors import EnvironmentFailed

LEFTOVER = ".unfinished-"

_HINTS = {
    errno.ENOSPC: "free some space and run the same command again; finished cells are kept",
    errno.EDQUOT: "the quota is used up: free some space and run the same command again; finished cells are kept",
    errno.EROFS: "the file system is read-only: choose another folder with --out",
    errno.EACCES: "no permission to write there: choose another folder with --out",
    errno.EPERM: "no permission to write there: choose another folder with --out",
    errno.ENOTDIR: "a part of the path is a file: choose another folder with --out",
    errno.EIO: "the disk reports an error: look at its health before running again",
}


@contextmanager
def environment(what: str) -> Iterator[None]:
    """Turn an OSError inside into an EnvironmentFailed that says `what` could not be done and what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        hint = _HINTS.get(error.errno or 0, "look at the path and the disk, then run the same command again")
        raise EnvironmentFailed(f"cannot {what}: {reason}", hint=hint) from error


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to fill that becomes `target` when the block ends well, and leaves nothing behind when it does not.

    Every file and folder is synced before the rename, and the parent after it. Raises FileExistsError when `target`
    is there already, before anything is written.
    """
    if target.exists():
        raise FileExistsError(errno.EEXIST, "already there", str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{LEFTOVER}{target.name}-{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        yield unfinished
        _sync_tree(unfinished)
        unfinished.rename(target)
        sync(target.parent)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def write_bytes(target: Path, data: bytes) -> None:
    """Replace `target` with `data` in one step."""
    unfinished = target.with_name(f"{LEFTOVER}{target.name}-{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(target)
        sync(target.parent)
    except BaseException:
        with suppress(FileNotFoundError):
            unfinished.unlink()
        raise


def remove_leftovers(folder: Path) -> list[str]:
    """Remove what killed writers left in `folder`; names of what was removed. Only the one writer may call this."""
    removed = []
    for path in sorted(folder.glob(f"{LEFTOVER}*")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        removed.append(path.name)
    return removed


def sync(path: Path) -> None:
    """fsync a file or a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_tree(root: Path) -> None:
    for folder, _, files in os.walk(root, topdown=False):
        for name in files:
            sync(Path(folder) / name)
        sync(Path(folder))
