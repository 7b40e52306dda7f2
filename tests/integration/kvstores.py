"""An environment with a real LMCache server and a real Mooncake master, made once in a cache folder.

It lies beside the one of the engine (realstack.py). LMCache needs a CPU build of torch from pip's `find-links`,
Mooncake libraries of the system. Where something is missing, tests skip and say so.
"""

from __future__ import annotations

import ctypes.util
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.realstack import INSTALL_S, ROOT, uv, wheel_folder

LMCACHE = ("lmcache==0.5.6", "torch==2.13.0+cpu")
MOONCAKE = ("mooncake-transfer-engine-non-cuda==0.3.13.post1",)
NOT_WANTED = ("cupy-cuda13x", "nixl")  # need a GPU's libraries
LIBRARIES = ("ibverbs", "rdmacm", "numa", "curl", "uring")  # that mooncake's programs are linked with


def lmcache_bin() -> Path:
    """Where `lmcache` is."""
    return _made("lmcache", LMCACHE, wheel_folder("LMCache"))


def mooncake_bin() -> Path:
    """Where `mooncake_master` is."""
    missing = [name for name in LIBRARIES if ctypes.util.find_library(name) is None]
    if missing:
        pytest.skip(f"no real Mooncake: the system lacks {', '.join(f'lib{name}' for name in missing)}")
    return _made("mooncake", MOONCAKE, None)


def _made(name: str, packages: tuple[str, ...], wheels: Path | None) -> Path:
    folder = Path(os.environ.get("RIDGELINE_REALSTACK") or ROOT / ".venv-realstack") / name
    recipe = hashlib.sha256("\n".join((*packages, *NOT_WANTED)).encode()).hexdigest()
    stamp = folder / "stamp"
    if not stamp.exists() or stamp.read_text() != recipe:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "overrides.txt").write_text("".join(f"{name} ; sys_platform == 'never'\n" for name in NOT_WANTED))
        python = folder / "venv" / "bin" / "python"
        found = ["--find-links", str(wheels)] if wheels else []
        for command in (
            [uv(name), "venv", "--quiet", "--clear", "--python", sys.executable, str(folder / "venv")],
            [uv(name), "pip", "install", "--quiet", "--python", str(python), *found, "--override",
             str(folder / "overrides.txt"), *packages],
        ):  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
            if done.returncode:
                pytest.skip(f"no real {name}: {done.stderr.strip().splitlines()[-1] if done.stderr else 'uv failed'}")
        stamp.write_text(recipe)
    return folder / "venv" / "bin"
