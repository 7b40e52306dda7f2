"""A real git repository with a changelog and two small master configs, isolated from the machine's git settings."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.publish.changelog.texts import HISTORY, URL, entry

FILE = "perf-changelog.yaml"
OURS, THEIRS = entry("new"), entry("other", URL + "41")
CONFIG = """\
{key}:
  image: acme/engine:1
  model: acme/{key}
  model-prefix: {key}
  runner: h1
  precision: fp8
  framework: vllm
  multinode: false
  scenarios:
    fixed-seq-len:
    - isl: 8192
      osl: 1024
      search-space:
      - {{ tp: 4, conc-list: [8, 16, 32] }}
"""
RUNNERS = "labels:\n  h1: [h1-a]\n"
ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
}


class Repo:
    """A work tree and shorthands for it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / FILE

    def start(self) -> None:
        """Branch `main` with one commit."""
        root = self.root
        (root / "configs").mkdir()
        (root / "configs/amd-master.yaml").write_text("".join(CONFIG.format(key=key) for key in ("one", "two")))
        (root / "configs/nvidia-master.yaml").write_text("".join(CONFIG.format(key=key) for key in ("new", "other")))
        (root / "configs/runners.yaml").write_text(RUNNERS)
        self.log.write_bytes(HISTORY)
        self.git("init", "-q", "-b", "main", "--template=")
        self.commit("start")

    def diverge(self) -> None:
        """Branch `pull` adds one entry, main another; `pull` is checked out."""
        self.branch("pull")
        self.add(OURS)
        self.switch("main")
        self.add(THEIRS)
        self.switch("pull")

    def git(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True, check=False)
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def branch(self, name: str) -> None:
        self.git("checkout", "-q", "-b", name, "main")

    def switch(self, name: str) -> None:
        self.git("checkout", "-q", name)

    def add(self, text: str, message: str = "entry") -> str:
        """Append an entry under an empty line and commit."""
        self.log.write_bytes(self.log.read_bytes() + b"\n" + text.encode())
        return self.commit(message)
