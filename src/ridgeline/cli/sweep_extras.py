"""What a sweep can do beside measuring every cell once: choose cells as it goes, keep to a walltime, score accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.core.cell import Cell
from ridgeline.core.errors import InputError, Problem

if TYPE_CHECKING:
    from ridgeline.sweep.deploy import Deploy, Modelling
    from ridgeline.sweep.evaluation.scored import Evaluation
    from ridgeline.sweep.run import Chooser, Sweep
    from ridgeline.sweep.spending import Budget


LEAST_PREDICTED_S = 300  # a short window of few lanes has too few answers to place a cell by


def chooser(sweep: Sweep, budget: str | None, modelling: Modelling, measured: Sequence[Path] = ()) -> Chooser:
    """Predict every cell, then pick the next one from what was measured, here and in files of points. Raises InputError
    for a budget that is not understood and for a file that cannot be read."""
    from ridgeline.sweep.adaptive import AdaptiveOrder
    from ridgeline.sweep.predict import placed_all
    from ridgeline.sweep.spending import parse_budget, series_among, unlimited
    from ridgeline.sweep.told import told_by
    from ridgeline.sweep.workload import Workload

    limit: Budget = parse_budget(budget) if budget else unlimited()
    known = told_by(measured, series_among(sweep.cells), modelling)

    def choose(planned, stored, fits, said):  # type: ignore[no-untyped-def]  # a Chooser
        cells = list({item.cell.name: item.cell for item in planned if not item.task}.values())
        longer = replace(sweep.settings, duration_s=max(LEAST_PREDICTED_S, sweep.settings.duration_s))
        predictions = placed_all(cells, longer, Workload(longer, sweep.workload.trace), modelling)
        return AdaptiveOrder(
            planned, predictions, limit, lambda at: sweep.expected(planned[at - 1]), stored,
            known=known, fits=fits, said=said,
        )  # fmt: skip

    return choose


def evaluation(
    task: str,
    include: Path | None,
    limit: int | None,
    bar: float | None,
    pattern: str | None,
    cells: Sequence[Cell],
    deploy: Deploy,
    configs: Sequence[Path],
    runner_config: Path | None,
) -> Evaluation:
    """What is scored: the cells that match `pattern`, or those that InferenceX's policy marks, or else the highest
    concurrency of each line."""
    from ridgeline.publish.gate.policy import inferencex_policy
    from ridgeline.sweep.evaluation import Task
    from ridgeline.sweep.evaluation.scored import Evaluation

    if bar is not None and not 0 <= bar <= 1:
        raise InputError([Problem(f"must be 0 to 1, not {bar:g}", key="--eval-bar")])
    asked = Task(task, include, limit)
    asked.digest  # noqa: B018  # a folder that is not there is said now
    names = scored_cells(cells, pattern, lambda: marked(configs, runner_config))
    bars = inferencex_policy().sign_off.eval_bar
    return Evaluation(
        asked,
        names,
        replace(deploy, settings=replace(deploy.settings, accuracy=True)),
        (lambda prefix, task: bar) if bar is not None else (lambda prefix, task: bars.of(prefix, task)),
    )


def scored_cells(cells: Sequence[Cell], pattern: str | None, marks: Callable[[], frozenset[str]]) -> frozenset[str]:
    """Names of the cells to score. Raises InputError when the pattern matches none."""
    if pattern is not None:
        found = frozenset(cell.name for cell in cells if fnmatchcase(cell.name, pattern))
        if not found:
            raise InputError([Problem(f"no cell matches `{pattern}`", key="--eval-cells")])
        return found
    chosen = frozenset(cell.name for cell in cells) & marks()
    if chosen:
        return chosen
    highest: dict[str, Cell] = {}
    for cell in cells:
        if cell.line not in highest or cell.concurrency > highest[cell.line].concurrency:
            highest[cell.line] = cell
    return frozenset(cell.name for cell in highest.values())


def marked(configs: Sequence[Path], runner_config: Path | None) -> frozenset[str]:
    """Names of the cells that InferenceX would evaluate."""
    from ridgeline.plan.evals import EvalMode
    from ridgeline.plan.filters import Filters
    from ridgeline.plan.outline import outline
    from ridgeline.plan.select import full_sweep
    from ridgeline.spec.config import load_configs
    from ridgeline.spec.runners import load_runners

    runners = load_runners(runner_config) if runner_config else None
    planned = outline(full_sweep(load_configs(configs), runners, Filters()), runners, EvalMode.ONLY)
    return frozenset(item.cell.name for item in planned if item.evaluated)
