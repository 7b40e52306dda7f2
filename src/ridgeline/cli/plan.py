"""`ridgeline plan`: cells of a search space for people, or rows in InferenceX's format with its generator's flags.

argparse and not typer: start-up counts here (a full sweep of the two master files is a fifth of a second), and the
flags with several values (`--config-files A B`) are argparse's own.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from pathlib import Path
from typing import Any

from ridgeline.plan.filters import SCENARIO_TYPES, SEQUENCE_LENGTHS, Filters

DEFAULT_RUNNERS = "configs/runners.yaml"
_SUBCOMMANDS = ("full-sweep", "test-config")


def run(argv: list[str]) -> int:
    """Parse, expand, print. Usage errors print themselves and give 2; wrong input raises `InputError`."""
    collecting = gc.isenabled()
    gc.disable()  # a short job whose values all live to its end: collecting would only cost time
    try:
        return _run(argv)
    finally:
        if collecting:
            gc.enable()


def _run(argv: list[str]) -> int:
    kind = argv[0] if argv and argv[0] in _SUBCOMMANDS else "cells"
    parser = _parser(kind)
    try:
        given = parser.parse_args(argv if kind == "cells" else argv[1:])
        _check_usage(parser, given)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    if getattr(given, "budget", None):
        return _budget(given)
    output = given.format or ("inferencex" if kind != "cells" and not sys.stdout.isatty() else "table")
    sys.stdout.write(_rows(kind, given) if output == "inferencex" else _plan(kind, given, output))
    if output == "table" and sys.stdout.isatty():
        sys.stderr.write("next: `ridgeline check CONFIG...` proves that the cells can start\n")
    return 0


def _rows(kind: str, given: argparse.Namespace) -> str:
    from ridgeline.plan import rows
    from ridgeline.plan.evals import EvalMode

    configs, runners = _load(given)
    expand = rows.test_config if kind == "test-config" else rows.full_sweep
    found = expand(configs, runners, _filters(given), EvalMode(_evals(given)))
    if given.order == "priority":
        from ridgeline.plan.priority import annotate, order_rows

        policy, context = _policy(given), _context(given)
        found = order_rows(found, policy, context)
        if given.queue_namespace:
            found = annotate(found, policy, context, given.queue_namespace)
    return json.dumps(found) + "\n"


def _plan(kind: str, given: argparse.Namespace, output: str) -> str:
    from ridgeline.plan import select, table
    from ridgeline.plan.estimate import arm_plans
    from ridgeline.plan.evals import EvalMode
    from ridgeline.plan.outline import outline
    from ridgeline.spec.settings import load_settings

    configs, runners = _load(given)
    filters = _filters(given)
    if kind == "cells" and filters.keys:
        configs = select.only(configs, filters.keys)
    walk = select.test_config if kind == "test-config" else select.full_sweep
    planned = outline(walk(configs, runners, filters), runners, EvalMode(_evals(given)))
    if given.order == "priority":
        from ridgeline.plan.priority import cell_score

        policy, context = _policy(given), _context(given)
        scores = {item.cell: cell_score(item.cell, policy, context) for item in planned}
        planned = tuple(sorted(planned, key=lambda item: -scores[item.cell]))
    arms = arm_plans(planned)
    price = load_settings(given.settings).price if given.settings else None
    if output == "table":
        return table.text(arms, price)
    return json.dumps(table.data(arms, price), indent=2) + "\n"


def _budget(given: argparse.Namespace) -> int:
    """Predict every cell and print those worth their GPU-hours, in the order to run them. Exit 1 when the engine model
    refuses one."""
    from ridgeline.cli.rests import Rests
    from ridgeline.cli.sweep_options import recipe_settings
    from ridgeline.core.cell import Cell
    from ridgeline.plan.expand import cells as expand
    from ridgeline.spec.settings import load_settings
    from ridgeline.sweep.adaptive import picks
    from ridgeline.sweep.deploy import Modelling
    from ridgeline.sweep.overrides import recipes_with
    from ridgeline.sweep.pinned import pinned
    from ridgeline.sweep.predict import placed_all
    from ridgeline.sweep.settings import SweepSettings
    from ridgeline.sweep.spending import parse_budget, series_among
    from ridgeline.sweep.told import told_by
    from ridgeline.sweep.workload import Workload
    from ridgeline.trace.synth import quickstart_trace

    budget = parse_budget(given.budget)
    configs, runners = _load(given)
    if given.config_keys:
        from ridgeline.plan import select

        configs = select.only(configs, tuple(given.config_keys))
    user = load_settings(given.settings)
    cells = pinned(
        [cell for cell in expand(configs, runners) if not given.conc or cell.concurrency in given.conc], user
    )
    settings = SweepSettings(duration_s=given.window, warmup_per_lane=1)
    modelling = Modelling(recipe_settings(settings), recipes_with(user), user)
    predictions = placed_all(cells, settings, Workload(settings, given.trace or quickstart_trace()), modelling)
    known = told_by(given.measured or (), series_among(cells), modelling)

    def poor(cell: Cell, cost: float, left: float) -> None:
        what = f"{cell.name}, the cheapest of its series, costs {cost:.3g} GPU-hours with its start"
        sys.stderr.write(f"not chosen: {what}, and {left:.3g} are left\n")

    chosen = picks(predictions, budget, known, poor)
    if given.format == "json":
        rows = [
            {"cell": pick.cell.name, "gain": pick.gain, "gpu_hours": pick.gpu_hours, **pick.expected._asdict()}
            for pick in chosen
        ]
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    else:
        width = max((len(pick.cell.name) for pick in chosen), default=4)
        sys.stdout.write(f"{'cell':<{width}}  GPU-hours     gain  tok/s/user  tok/s/GPU\n")
        for pick in chosen:
            sys.stdout.write(
                f"{pick.cell.name:<{width}}  {pick.gpu_hours:>9.2f}  {pick.gain:>7.1%}  {pick.expected.x:>10,.1f}"
                f"  {pick.expected.y:>9,.0f}\n"
            )
    spent = sum(pick.gpu_hours for pick in chosen)
    sys.stderr.write(f"{len(chosen)} of {len(cells)} cells, {spent:.1f} GPU-hours, starts included\n")
    sys.stderr.write(f"gain: {GAIN}; a series is done when no cell left is expected to gain more than repeats differ\n")
    rests = Rests()
    for prediction in predictions:
        rests.add(prediction)
    sys.stderr.write(rests.text)
    refused = [prediction for prediction in predictions if prediction.point is None]
    for prediction in refused:
        sys.stderr.write(f"not predicted: {prediction.cell.name}: {prediction.refusal}\n")
    return 1 if refused else 0


GAIN = (
    "what a cell is expected to add to the best tokens/s/GPU of its series, mean over "
    "20, 40, 60 and 100 tokens/s/user, given the cells above it"
)


def _load(given: argparse.Namespace) -> tuple[Any, Any]:
    from ridgeline.core.errors import InputError, Problem
    from ridgeline.spec.config import load_configs
    from ridgeline.spec.runners import load_runners

    problems: list[Problem] = []
    configs = runners = None
    runner_file = given.runner_config or (DEFAULT_RUNNERS if Path(DEFAULT_RUNNERS).is_file() else None)
    try:
        configs = load_configs(given.config_files)
    except InputError as error:
        problems += error.problems
    try:
        runners = load_runners(runner_file) if runner_file else None
    except InputError as error:
        problems += error.problems
    if problems:
        raise InputError(problems)
    return configs, runners


def _policy(given: argparse.Namespace) -> Any:
    from ridgeline.spec.policy import default_policy, load_policy

    return load_policy(given.priority_policy) if given.priority_policy else default_policy()


def _context(given: argparse.Namespace) -> Any:
    from ridgeline.plan.priority import Context

    criteria = None if given.criteria is None else tuple(given.criteria)
    return Context(event_name=given.event, labels=tuple(given.labels), criteria=criteria)


def _evals(given: argparse.Namespace) -> str:
    if given.all_evals:
        return "all"
    return "none" if given.no_evals else "only" if given.evals_only else "default"


def _filters(given: argparse.Namespace) -> Filters:
    """Flags that a sub-command does not have keep their defaults."""
    got = vars(given)
    lists = ("model_prefix", "precision", "framework", "runner_type", "seq_lens", "conc")
    return Filters(
        keys=tuple(got.get("config_keys") or ()),
        scenario_type=tuple(got.get("scenario_type") or SCENARIO_TYPES),
        node=got.get("runner_node_filter"),
        step=got.get("step_size", 2),
        min_conc=got.get("min_conc"),
        max_conc=got.get("max_conc"),
        max_tp=got.get("max_tp"),
        max_ep=got.get("max_ep"),
        single_node=got.get("single_node", False),
        multi_node=got.get("multi_node", False),
        **{name: tuple(got.get(name) or ()) for name in lists},
    )


def _check_usage(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    if getattr(given, "measured", None) and not given.budget:
        parser.error("argument --measured: needs --budget")
    if given.no_evals and given.all_evals:
        parser.error("argument --all-evals: not allowed with argument --no-evals")
    if given.queue_namespace and given.order != "priority":
        parser.error("argument --queue-namespace: needs --order priority")
    if getattr(given, "step_size", 2) <= 1:
        parser.error("argument --step-size: must be greater than 1")
    low, high = getattr(given, "min_conc", None), getattr(given, "max_conc", None)
    if low is not None and high is not None and low > high:
        parser.error("argument --min-conc: must not be above --max-conc")


def _parser(kind: str) -> argparse.ArgumentParser:
    if kind == "cells":
        parser = argparse.ArgumentParser(
            prog="ridgeline plan",
            description="Cells of a search space, grouped by benchmark and arm, with estimated GPU-hours.",
            epilog="`ridgeline plan full-sweep --help` and `ridgeline plan test-config --help` explain the "
            "sub-commands that take the flags of InferenceX's generator and print its rows.",
        )
        parser.add_argument("config_files", nargs="+", metavar="CONFIG", help="master config files")
        parser.add_argument(
            "--config-keys", nargs="+", metavar="KEY", help="only these keys; `*` and `?` are wildcards"
        )
        parser.add_argument("--conc", nargs="+", type=int, metavar="N", help="only these concurrencies")
        parser.add_argument(
            "--budget", metavar="N", help="the cells that tell most of the frontier for N cells, Nh GPU-hours or N%%"
        )
        parser.add_argument(
            "--trace", type=Path, help="with --budget: sessions of agentic cells (default: shipped ones)"
        )
        parser.add_argument(
            "--measured",
            type=Path,
            nargs="+",
            metavar="POINTS",
            help="with --budget: files of points, as `calibrate` reads them, that tell how wrong predictions of these "
            "engines are",
        )
        parser.add_argument(
            "--window",
            type=int,
            default=600,
            metavar="S",
            help="with --budget: simulated seconds of agentic cells (600)",
        )
    else:
        parser = argparse.ArgumentParser(
            prog=f"ridgeline plan {kind}", description="Rows of the matrix, as InferenceX's generator prints them."
        )
        parser.add_argument("--config-files", nargs="+", required=True, metavar="CONFIG", help="master config files")
    _shared(parser)
    if kind == "test-config":
        parser.add_argument(
            "--config-keys", nargs="+", required=True, metavar="KEY", help="keys; `*` and `?` are wildcards"
        )
        parser.add_argument("--conc", nargs="+", type=int, metavar="N", help="only these concurrencies")
    else:
        _sweep_filters(parser)
    return parser


def _shared(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--runner-config", metavar="FILE", help=f"runners file (default: {DEFAULT_RUNNERS} when it is there)")
    evals = parser.add_mutually_exclusive_group()
    evals.add_argument("--no-evals", action="store_true", help="mark no evaluations")
    evals.add_argument("--evals-only", action="store_true", help="only what is evaluated")
    add("--all-evals", action="store_true", help="only evaluations, of every point of the selection")
    add("--runner-node-filter", metavar="TEXT", help="machines whose name contains this; one row each")
    add("--scenario-type", nargs="+", choices=SCENARIO_TYPES, help="only these scenarios")
    add("--seq-lens", nargs="+", choices=tuple(SEQUENCE_LENGTHS), help="only these lengths of fixed-seq-len")
    add("--format", choices=("inferencex", "table", "json"), help="inferencex: rows as one line of JSON")
    add("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    add("--order", choices=("file", "priority"), default="file", help="priority: what CI would run first comes first")
    add("--priority-policy", metavar="FILE", help="priority policy (default: InferenceX's, built in)")
    add("--event", metavar="NAME", help="event of the priority, e.g. push")
    add("--labels", nargs="+", default=[], metavar="LABEL", help="labels of the pull request, for the priority")
    add("--criteria", nargs="*", metavar="NAME", help="attributes that count for the priority (default: all)")
    add("--queue-namespace", metavar="RUN:ATTEMPT", help="with --order priority, add a score and a queue token to rows")
    add(
        "--settings",
        metavar="FILE",
        help="ridgeline.yaml, for prices; with --budget also for fleets, models and recipes",
    )


def _sweep_filters(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--model-prefix", nargs="+", metavar="P", help="config keys that start with one of these")
    add("--precision", nargs="+", metavar="P", help="only these precisions")
    add("--framework", nargs="+", metavar="F", help="only these frameworks")
    add("--runner-type", nargs="+", metavar="R", help="only these runner labels")
    add("--step-size", type=int, default=2, metavar="N", help="factor between concurrencies of a range (default 2)")
    add("--min-conc", type=int, metavar="N", help="lowest concurrency")
    add("--max-conc", type=int, metavar="N", help="highest concurrency")
    add("--max-tp", type=int, metavar="N", help="largest tp (single-node fixed-seq-len)")
    add("--max-ep", type=int, metavar="N", help="largest ep (single-node fixed-seq-len); larger ones are cut to it")
    add("--single-node", action="store_true", help="only single-node entries")
    add("--multi-node", action="store_true", help="only multi-node entries")
