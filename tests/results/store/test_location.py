"""Where a store may lie, and the network file systems it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.results.store.location import file_system, locate

MOUNTS = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:50 / {shared} rw,relatime shared:1 - nfs4 server:/export rw,vers=4.2
31 30 0:51 / {shared}/scratch rw - xfs /dev/nvme0n1 rw
"""


def mounts(tmp_path: Path) -> str:
    (tmp_path / "shared" / "scratch").mkdir(parents=True)
    return MOUNTS.format(shared=tmp_path / "shared")


def test_sqlite_on_a_network_file_system_is_refused_with_the_reason(tmp_path: Path) -> None:
    table = mounts(tmp_path)
    with pytest.raises(EnvironmentFailed, match=r"is on a network file system \(nfs4\); SQLite's locks") as caught:
        locate(tmp_path / "shared" / "new" / "store", mounts=table)
    assert "PostgreSQL" in str(caught.value.hint)
    assert locate(tmp_path / "shared" / "scratch" / "store", mounts=table).sqlite, "a local disk mounted inside it"
    assert locate(tmp_path / "elsewhere", mounts=table).data == tmp_path / "elsewhere" / "data"


def test_postgresql_may_keep_its_files_there(tmp_path: Path) -> None:
    found = locate("postgres://me@host/db", tmp_path / "shared", mounts=mounts(tmp_path))
    assert found.url == "postgresql+psycopg://me@host/db" and found.data == tmp_path / "shared"
    with pytest.raises(InputError, match="needs a folder for its files"):
        locate("postgresql://me@host/db")


def test_the_longest_mount_point_counts_and_names_are_unescaped(tmp_path: Path) -> None:
    place = tmp_path / "a b"
    place.mkdir()
    table = f"1 0 8:1 / / rw - ext4 x rw\n2 1 0:2 / {str(place).replace(' ', chr(92) + '040')} rw - cifs y rw\nbroken\n"
    assert file_system(place / "deep" / "er", table) == "cifs"
    assert file_system(tmp_path, table) == "ext4"


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a store: mysql://x"):
        locate("mysql://x")
    file = tmp_path / "f"
    file.write_text("")
    with pytest.raises(InputError, match="is a file"):
        locate(file)
