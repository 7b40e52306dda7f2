"""The house itself: import direction, room docstrings, no machine's paths."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "ridgeline"
ROOMS = sorted(path.parent for path in SOURCE.glob("*/__init__.py"))


def test_import_direction_holds() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports"], cwd=SOURCE.parent.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("room", ROOMS, ids=lambda path: path.name)
def test_every_room_says_what_comes_in_and_out(room: Path) -> None:
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
    assert len(text.splitlines()) >= 3, f"{room.name}: state what comes in, what goes out and what it refuses to know"
