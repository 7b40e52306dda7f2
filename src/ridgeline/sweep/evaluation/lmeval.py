"""lm-eval as a program: it asks a running endpoint the questions of a task and scores the answers.

It is an optional extra (`pip install ridgeline[evals]`), run in a process of its own, so that neither its imports nor
its failures are ours. Nothing is downloaded unless the environment says `HF_DATASETS_OFFLINE=0`: a task that needs a
data set from elsewhere fails and says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline.core.errors import EnvironmentFailed, InputError, Problem

TIMEOUT_S = 4 * 3600.0
LAST_LINES = 12
# Tasks come from a folder or a cache unless the user's environment says otherwise: a run must not depend on a download.
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}

Execute = Callable[[Sequence[str], Path, Path], int]  # words, working folder, log -> exit status


class Score(NamedTuple):
    """One metric of one task. `metric` with its filter, as lm-eval writes it: `exact_match,strict-match`."""

    task: str
    metric: str
    value: float
    stderr: float | None
    samples: int | None


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked. `include`: a folder with the task's YAML (and its questions); None: one of lm-eval's own. `limit`:
    the first so many questions only."""

    name: str
    include: Path | None = None
    limit: int | None = None

    @property
    def digest(self) -> str:
        """sha256 (hex) of the name, the limit and every file of its folder. Raises InputError for a folder that is not
        there."""
        found = hashlib.sha256(f"{self.name}\0{self.limit}\0".encode())
        if self.include is not None:
            if not self.include.is_dir():
                raise InputError([Problem(f"there is no folder `{self.include}`", key="--eval-include")])
            for file in sorted(path for path in self.include.rglob("*") if path.is_file()):
                found.update(f"{file.relative_to(self.include)}\0".encode() + file.read_bytes() + b"\0")
        return found.hexdigest()


def program() -> list[str]:
    """lm-eval's command: of this environment, else the first on the path. Raises EnvironmentFailed without one."""
    beside = Path(sys.executable).with_name("lm_eval")
    found = str(beside) if beside.exists() else shutil.which("lm_eval")
    if found is None:
        raise EnvironmentFailed(
            "lm-eval is not installed here", hint="`pip install ridgeline[evals]`, or leave --eval out"
        )
    return [found]


def words(task: Task, url: str, model: str, concurrency: int, out: Path, endpoint: str) -> list[str]:
    """The command line. Answers are compared by text; prompts go as text, so no tokenizer is needed. Nothing is asked
    twice: a retry would hide an error."""
    chat = endpoint.endswith("/chat/completions")
    about = {
        "model": model,
        "base_url": f"{url}{endpoint}",
        "num_concurrent": max(2, concurrency),  # at 1 it switches to another client
        "max_retries": 1,
        "tokenizer_backend": "none",
        "tokenized_requests": "False",
    }
    found = ["--model", "local-chat-completions" if chat else "local-completions"]
    found += ["--model_args", ",".join(f"{name}={value}" for name, value in about.items())]
    found += ["--tasks", task.name, "--output_path", str(out), "--log_samples", "--batch_size", "1"]
    found += ["--apply_chat_template"] if chat else []
    found += ["--include_path", str(task.include.resolve())] if task.include else []
    return found + (["--limit", str(task.limit)] if task.limit else [])


def execute(command: Sequence[str], folder: Path, log: Path) -> int:
    """Run a command with its output in `log`. Raises EnvironmentFailed after TIMEOUT_S."""
    with log.open("ab") as output:
        try:
            return subprocess.run(
                list(command), cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env={**OFFLINE, **os.environ, **_without_proxy(os.environ)}, timeout=TIMEOUT_S, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise EnvironmentFailed(f"lm-eval did not end within {TIMEOUT_S:,.0f} s") from error


def _without_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    """The engine is asked directly, whatever proxy downloads go through."""
    names = ("no_proxy", "NO_PROXY")
    return {name: ",".join(filter(None, (environ.get(name), "127.0.0.1", "localhost"))) for name in names}


def run_task(
    task: Task,
    url: str,
    model: str,
    concurrency: int,
    folder: Path,
    *,
    endpoint: str,
    command: Sequence[str] | None = None,
    run: Execute = execute,
) -> tuple[Score, ...]:
    """Score `model` at `url`; result and sample files end up in `folder` under lm-eval's names. Raises
    EnvironmentFailed with lm-eval's last words when it gives no result."""
    out, log = folder / ".lm-eval", folder / "lm-eval.log"
    call = [*(program() if command is None else command), *words(task, url, model, concurrency, out, endpoint)]
    status = run(call, task.include or folder, log)
    results = sorted(out.rglob("results_*.json"))
    if status or not results:
        said = log.read_text("utf-8", "replace").strip().splitlines()[-LAST_LINES:] if log.exists() else []
        raise EnvironmentFailed(
            f"lm-eval gave no result for `{task.name}` (exit {status})" + "".join(f"\n  | {line}" for line in said),
            hint=f"its log is `{log.name}` of the evaluation",
        )
    for file in (*results, *sorted(out.rglob("samples_*.jsonl"))):
        file.rename(folder / file.name)
    shutil.rmtree(out, ignore_errors=True)
    return scores(json.loads((folder / results[-1].name).read_text()))


def scores(document: dict[str, Any]) -> tuple[Score, ...]:
    """Every score of a result file of lm-eval's, standard errors beside their metrics."""
    found = []
    counts = document.get("n-samples") or {}
    for task, values in (document.get("results") or {}).items():
        samples = (counts.get(task) or {}).get("effective")
        for key, value in values.items():
            base = key.partition(",")[0]
            if not _is_number(value) or base.endswith("_stderr"):
                continue
            error = values.get(re.sub(r"^[^,]+", f"{base}_stderr", key))
            stderr = float(error) if _is_number(error) else None
            found.append(Score(task, key, float(value), stderr, samples if isinstance(samples, int) else None))
    return tuple(found)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
