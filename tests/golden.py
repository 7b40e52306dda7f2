"""Known answers that are not part of the repository: where they lie, or why a test is skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def golden(path: str) -> Path:
    """The file or folder `path` below RIDGELINE_GOLDEN (default `../shared`); skips the test when it is absent."""
    folder = ROOT / os.environ.get("RIDGELINE_GOLDEN", "../shared")
    if not (folder / path).exists():
        pytest.skip(f"no known answers at {path} (RIDGELINE_GOLDEN)")
    return folder / path
