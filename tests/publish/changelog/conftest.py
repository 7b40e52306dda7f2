from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.publish.changelog.repo import ENVIRONMENT, Repo


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Two repositories made once and copied per test: git is what costs time here."""
    started, diverged = (tmp_path_factory.mktemp(name) for name in ("started", "diverged"))
    with pytest.MonkeyPatch.context() as patch:
        _isolate(patch)
        Repo(started).start()
        shutil.copytree(started, diverged, dirs_exist_ok=True)
        Repo(diverged).diverge()
        yield started, diverged


@pytest.fixture
def repo(templates: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """Branch `main` with one commit."""
    return _copy(templates[0], tmp_path, monkeypatch)


@pytest.fixture
def diverged(templates: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """On branch `pull`, which adds one entry; main has added another since."""
    return _copy(templates[1], tmp_path, monkeypatch)


def _copy(template: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    _isolate(monkeypatch)
    shutil.copytree(template, folder / "repo")
    return Repo(folder / "repo")


def _isolate(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "RIDGELINE_PR"):
        monkeypatch.delenv(name, raising=False)
