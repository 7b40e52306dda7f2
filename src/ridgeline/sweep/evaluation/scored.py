"""An evaluation of a cell on a running engine, stored beside the run's points, which carry what came of it.

RUN/evals/eval_KEY/{meta_env.json, results_TIME.json, samples_TASK_TIME.jsonl, evaluation.json, logs/}
RUN/cells/KEY/evaluation.json       of every point of the same cell and source
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.point import Source
from ridgeline.results import durable, formats
from ridgeline.results.runfolder import EVALUATION, KEY_DIGITS, RunFolder
from ridgeline.sweep.evaluation.changes import changes
from ridgeline.sweep.evaluation.lmeval import Execute, Task, execute, run_task
from ridgeline.sweep.evaluation.verdict import Evaluated, evaluated, meta_env

EVALS = "evals"
RESULT = EVALUATION


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is asked of which cells, by name. `deploy` gives a cell's deployment without prescribed acceptance.
    `command`: lm-eval's own words, where it is not beside us; `run`: executes them."""

    task: Task
    cells: frozenset[str]
    deploy: Callable[[Cell], tuple[Deployment, Source]]
    bar_of: Callable[[str, str], float]  # least score by model prefix and task
    command: Sequence[str] | None = None
    run: Execute = execute


def place_of(run: Path, run_key: str) -> Path:
    """Folder of an evaluation."""
    return run / EVALS / f"eval_{run_key[:KEY_DIGITS]}"


def is_scored(run: Path, run_key: str) -> bool:
    """Whether the evaluation of this key is stored."""
    return (place_of(run, run_key) / RESULT).exists()


def score(
    evaluation: Evaluation,
    cell: Cell,
    source: Source,
    run_key: str,
    folder: RunFolder,
    timed: Deployment,
    scored: Deployment,
    url: str,
    logs: Callable[[], Mapping[str, Path]] = dict,
) -> Evaluated:
    """Ask the questions of the task at `url` at the cell's concurrency, judge the answers, store all of it. Raises
    EnvironmentFailed when no score comes back; lm-eval's log is kept beside the run then, until the next try."""
    target = place_of(folder.path, run_key)
    work = folder.path / EVALS / f".asking-{run_key[:KEY_DIGITS]}"
    shutil.rmtree(work, ignore_errors=True)
    with durable.environment(f"write {work}"):
        work.mkdir(parents=True)
    found = run_task(
        evaluation.task, url, scored.served_model, cell.concurrency, work,
        endpoint=scored.endpoint, command=evaluation.command, run=evaluation.run,
    )  # fmt: skip
    told = evaluated(cell, evaluation.task.name, found, evaluation.bar_of, source, changes(timed, scored))
    told = replace(told, folder=str(target.relative_to(folder.path)))
    with durable.environment(f"store {target}"), durable.new_folder(target) as place:
        shutil.copytree(work, place, dirs_exist_ok=True)
        (place / "meta_env.json").write_text(json.dumps(meta_env(cell), indent=2) + "\n")
        (place / "deployment.json").write_bytes(formats.DEPLOYMENT.encode(scored))
        (place / RESULT).write_bytes(formats.encode_plain(told))
        for name, log in logs().items():
            if log.exists():
                (place / "logs").mkdir(exist_ok=True)
                shutil.copyfile(log, place / "logs" / name)
    shutil.rmtree(work, ignore_errors=True)
    attach(folder)
    return told


def attach(folder: RunFolder) -> int:
    """Lay every evaluation beside the points of its cell and source that do not have it yet; how many were laid."""
    laid = 0
    told = [(file, json.loads(file.read_bytes())) for file in sorted((folder.path / EVALS).glob(f"eval_*/{RESULT}"))]
    for point in folder.points() if told else ():
        for file, document in told:
            own = (document["cell_fingerprint"], document["source"])
            target = folder.cell_folder(point.run_key) / RESULT
            if own == (point.cell_fingerprint, str(point.source)) and not target.exists():
                with durable.environment(f"store {target}"):
                    durable.write_bytes(target, file.read_bytes())
                laid += 1
    return laid


def refuse_without_program(evaluation: Evaluation) -> None:
    """Raise EnvironmentFailed before anything is started when lm-eval is not here."""
    from ridgeline.sweep.evaluation.lmeval import program

    if evaluation.command is None:
        try:
            program()
        except EnvironmentFailed as error:
            raise EnvironmentFailed(f"accuracy cannot be scored: {error.message}", hint=error.hint) from error
