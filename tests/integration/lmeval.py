"""An environment with the real lm-eval, made once beside the one of the engine (see realstack.py)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = "lm-eval[api]==0.4.13"
INSTALL_S = 420
ROOT = Path(__file__).parents[2]


def eval_program() -> Path:
    """lm-eval's command. Skips the test with a reason where it cannot be had."""
    folder = Path(os.environ.get("RIDGELINE_REALSTACK") or ROOT / ".venv-realstack") / "evals"
    stamp = folder / "stamp"
    if not stamp.exists() or stamp.read_text() != PACKAGE:
        beside = Path(sys.executable).with_name("uv")
        uv = str(beside) if beside.exists() else shutil.which("uv")
        if uv is None:
            pytest.skip("no lm-eval: uv is not installed")
        python = str(folder / "bin" / "python")
        for command in (
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)],
            [uv, "pip", "install", "--quiet", "--python", python, PACKAGE],
        ):
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
            if done.returncode:
                pytest.skip(f"no lm-eval: {done.stderr.strip().splitlines()[-1] if done.stderr else 'uv failed'}")
        stamp.write_text(PACKAGE)
    return folder / "bin" / "lm_eval"
