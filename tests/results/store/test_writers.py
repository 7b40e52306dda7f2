"""Writers that meet, die or find the disk full: what was committed stays, what was not is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.results.store.test_store import add, point, run

from ridgeline.core.errors import EnvironmentFailed
from ridgeline.results.store import Store

PROGRAM = """
    import os, signal, sys
    from pathlib import Path
    from ridgeline.results.importers.api import Bundle, Imported, ImportedPoint, ImportedRun, Importer
    from ridgeline.results.store import Store, ingest
    from ridgeline.core.point import Measure, Point, Source

    target, data, first, count, die = sys.argv[1:6]

    def point(i):
        return Point(id=f"{i}.1", run_key=str(i), cell_fingerprint="f", name=f"l/c{i}", line="l", series="s",
                     source=Source.MEASURED, concurrency=i, gpus=1, facts={}, measures={"m": Measure(float(i), "u")})

    if die == "yes":
        def killed(connection):
            os.kill(os.getpid(), signal.SIGKILL)
        from ridgeline.results.store import query
        query.bump = killed  # the last statement before the commit

    with Store.open(target, Path(data)) as store:
        for i in range(int(first), int(first) + int(count)):
            file = Path(data) / f"source{i}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(str(i))
            made = ImportedRun(origin="t", key=str(i), name=str(i), points=(ImportedPoint(point=point(i)),))
            read = lambda b, d, made=made: Imported(format="t", version=1, runs=(made,))
            store.add(Importer("t", 1, "t", lambda p: None, read), Bundle.of_file(file))
"""


def writer(address: str, data: Path, first: int, count: int, die: bool = False) -> subprocess.Popen[bytes]:
    arguments = [address, str(data), str(first), str(count), "yes" if die else "no"]
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM), *arguments], stderr=subprocess.PIPE)


@pytest.mark.integration
def test_writers_at_the_same_time_lose_nothing(address: str, tmp_path: Path) -> None:
    writers = [writer(address, tmp_path / "data", 100 * (k + 1), 8) for k in range(3)]
    for process in writers:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
    with Store.open(address, tmp_path / "data") as store:
        assert len(store.runs()) == 24 and store.dataset_version() == 24
        assert sum(item["points"] for item in store.runs()) == 24


@pytest.mark.integration
def test_a_killed_writer_leaves_what_was_committed(address: str, tmp_path: Path) -> None:
    process = writer(address, tmp_path / "data", 1, 3)
    process.communicate(timeout=60)
    assert process.returncode == 0
    process = writer(address, tmp_path / "data", 50, 1, die=True)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    with Store.open(address, tmp_path / "data") as store:
        assert sorted(item["name"] for item in store.runs()) == ["1", "2", "3"] and store.dataset_version() == 3
        add(store, tmp_path, [run("after", [point("a/x", 1)])])
        assert len(store.runs()) == 4


def test_a_full_disk_loses_nothing_committed(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        add(store, tmp_path, [run("1", [point("a/x", 1)])])
        before = store.points()
        with store.database.engine.connect() as connection:  # SQLite's own stand-in for a disk without room
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        from sqlalchemy import event

        @event.listens_for(store.database.engine, "begin")
        def _limit(connection: object) -> None:
            connection.connection.driver_connection.execute(f"PRAGMA max_page_count = {pages}")  # type: ignore[attr-defined]

        many = [point("b/x", c, facts={"text": "x" * 20000}) for c in range(50)]
        with pytest.raises(EnvironmentFailed, match="full") as caught:
            add(store, tmp_path, [run("2", list(many))], mark="2")
        assert "what was committed is kept" in str(caught.value.hint)
        assert store.points() == before and len(store.runs()) == 1


def test_files_that_cannot_be_kept_stop_the_import_before_the_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    with Store.open(tmp_path / "s") as store:
        add(store, tmp_path, [run("1", [point("a/x", 1)])])

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("ridgeline.results.store.filing.shutil.copyfileobj", full)
        with pytest.raises(EnvironmentFailed, match="No space left"):
            add(store, tmp_path, [run("2", [point("a/x", 1)])], mark="2")
        monkeypatch.undo()
        assert len(store.runs()) == 1
        assert not [name for name in _all_files(tmp_path / "s") if ".unfinished-" in name]
        assert add(store, tmp_path, [run("2", [point("a/x", 1)])], mark="2").points == 1


def test_kept_files_cannot_be_changed_by_accident(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        source = tmp_path / "a.json"
        source.write_text(json.dumps({"a": 1}))
        first, second = store.files.keep_document(source), store.files.keep_document(source)
        assert first == second and first.digest in first.path
        assert (store.files.path(first.path).stat().st_mode & 0o222) == 0


def _all_files(root: Path) -> list[str]:
    return [str(Path(folder) / name) for folder, _, names in os.walk(root) for name in names]
