"""Nothing that tests learn about times reaches the user's own state."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

gc.disable()  # until everything is collected: imports make much and leave little behind


def pytest_collection_finish() -> None:
    """What collecting made stays to the end: no search for garbage, of which every replay makes two, need walk it."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
    yield
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before
