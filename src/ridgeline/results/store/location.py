"""Where a store lies, and where it must not.

In: what the user typed (a folder, or a `postgresql://` address) and a data folder. Out: a `Location`. SQLite on a
network file system is refused with the reason: its locks and its shared memory do not hold there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ridgeline.core.errors import EnvironmentFailed, InputError, Problem

CATALOGUE = "catalogue.sqlite"
DATA = "data"
MOUNTS = Path("/proc/self/mountinfo")
# File systems that several machines share. 9p and virtiofs are left out: a virtual machine's own disk is one of them.
NETWORK = {
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "pvfs2", "orangefs",
    "ocfs2", "gfs2", "wekafs", "panfs", "davfs", "coda", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs",
    "fuse.gcsfuse", "fuse.juicefs", "fuse.rclone", "fuse.beegfs",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Location:
    """A catalogue's address as SQLAlchemy takes it, and the folder of its files."""

    url: str
    data: Path

    @property
    def sqlite(self) -> bool:
        return self.url.startswith("sqlite")


def locate(target: str | Path, data: Path | None = None, mounts: str | None = None) -> Location:
    """The location of a store.

    `target`: a folder (its catalogue is a SQLite file in it) or a PostgreSQL address, which needs `data`. `mounts`:
    text of the mount table, the system's own by default. Raises InputError for a target that cannot be one,
    EnvironmentFailed for SQLite on a network file system.
    """
    text = str(target)
    if text.startswith(("postgresql:", "postgres:", "postgresql+psycopg:")):
        if data is None:
            message = "a store in PostgreSQL needs a folder for its files"
            raise InputError([Problem(message, key="--data", hint="name one that this machine can write to")])
        return Location("postgresql+psycopg:" + text.split(":", 1)[1], data.absolute())
    if "://" in text:
        hint = "name a folder, or an address that begins with postgresql://"
        raise InputError([Problem(f"not a store: {text}", key="--store", hint=hint)])
    folder = Path(text).expanduser().absolute()
    if folder.is_file():
        raise InputError([Problem(f"{folder} is a file", key="--store", hint="a store is a folder")])
    refuse_network(folder, mounts)
    return Location(f"sqlite:///{folder / CATALOGUE}", (data or folder / DATA).absolute())


def refuse_network(folder: Path, mounts: str | None = None) -> None:
    """Raises EnvironmentFailed when `folder` would lie on a file system that machines share."""
    kind = file_system(folder, mounts)
    if kind in NETWORK:
        raise EnvironmentFailed(
            f"{folder} is on a network file system ({kind}); SQLite's locks and shared memory do not hold there, and "
            "two writers could damage the catalogue",
            hint="choose a folder on a local disk (--store), or a PostgreSQL address with --data on the shared folder",
        )


def file_system(folder: Path, mounts: str | None = None) -> str | None:
    """The type of the file system a folder is (or would be) on; None where the system does not tell."""
    if mounts is None:
        if not MOUNTS.exists():
            return None
        mounts = MOUNTS.read_text(errors="replace")
    place = next(parent for parent in (folder, *folder.parents) if parent.exists()).resolve()
    best, kind = -1, None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) < 5 or not kinds:
            continue
        point = Path(_unescape(fields[4]))
        # Later lines lie over earlier ones of the same mount point.
        if (place == point or point in place.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), kinds[0]
    return kind


def _unescape(text: str) -> str:
    """Mount tables write blanks and backslashes in octal."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
