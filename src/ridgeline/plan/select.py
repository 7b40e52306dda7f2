"""The one walk over a search space that rows and cells share.

In: configs, runners, filters. Out: `Selected` arms in row order: configs as in the files (or as their keys were
asked for), fixed-seq-len before agentic, entries as written. It does not know what a row or a cell looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.plan import concurrency
from ridgeline.plan.filters import SEQUENCE_LENGTHS, Filters
from ridgeline.spec.config import AgenticItem, ConfigSet, Entry, FixedItem, Space
from ridgeline.spec.runners import Runners


class Selected(NamedTuple):
    """One arm to run: exactly one of `fixed` and `agentic` is set. `ep` is after clamping; `machines` are the runner
    names its rows go to (the label itself unless a node filter is given)."""

    entry: Entry
    fixed: FixedItem | None
    agentic: AgenticItem | None
    space: Space
    ep: int
    values: list[int]
    machines: list[str]


def full_sweep(configs: ConfigSet, runners: Runners | None, filters: Filters) -> Iterator[Selected]:
    """Every arm that the filters let through. Raises `InputError` for a runner type that is no label."""
    _check_runners(runners, filters)
    for entry in configs.values():
        if not _wanted(entry, filters):
            continue
        machines = _machines(entry, runners, filters.node)
        if machines:
            yield from _arms(entry, machines, filters, _bounded)


def test_config(configs: ConfigSet, runners: Runners | None, filters: Filters) -> Iterator[Selected]:
    """The arms of `filters.keys`, in the order of the arguments. Raises `InputError` for a key that matches nothing."""
    _check_runners(runners, filters)
    for key in matching_keys(configs, filters.keys):
        entry = configs[key]
        machines = _label_and_machines(entry, runners, filters.node)
        if machines:
            yield from _arms(entry, machines, filters, _asked_for)


test_config.__test__ = False  # type: ignore[attr-defined]  # the name is the peer's; pytest must not collect it


def only(configs: ConfigSet, wanted: tuple[str, ...]) -> ConfigSet:
    """The entries that `wanted` names, in the order of the names."""
    return ConfigSet((configs[key] for key in matching_keys(configs, wanted)), configs.files)


def matching_keys(configs: ConfigSet, wanted: tuple[str, ...]) -> list[str]:
    """Keys for exact names and shell patterns (`*`, `?`, and `[...]` beside one of them), without repeats."""
    found: dict[str, None] = {}
    problems = []
    for key in wanted:
        if "*" in key or "?" in key:
            hits = [name for name in configs if fnmatchcase(name, key)]
        else:
            hits = [key] if key in configs else []
        if not hits:
            what = "pattern matches no config key" if "*" in key or "?" in key else "is not a config key"
            problems.append(Problem(what, key=key, hint=_known_keys(configs, key)))
        found |= dict.fromkeys(hits)
    if problems:
        raise InputError(problems)
    return list(found)


def _known_keys(configs: ConfigSet, key: str) -> str:
    import difflib

    near = difflib.get_close_matches(key, list(configs), n=3)
    known = ", ".join(sorted(configs))
    return (f"did you mean {' or '.join(f'`{name}`' for name in near)}? " if near else "") + f"known keys: {known}"


def _check_runners(runners: Runners | None, filters: Filters) -> None:
    """Runner types must be labels, and what selects machines needs a runners file."""
    if runners is None:
        if filters.runner_type or filters.node:
            raise InputError("choosing runners or machines needs a runners file", hint="give --runner-config FILE")
        return
    known = ", ".join(sorted(runners.labels))
    unknown = [label for label in filters.runner_type if label not in runners.labels]
    if unknown:
        message, where = "is not a label of the runners file", Where(runners.file)
        raise InputError([Problem(message, where, label, f"labels: {known}") for label in unknown])


def _wanted(entry: Entry, filters: Filters) -> bool:
    if filters.single_node != filters.multi_node and entry.multinode != filters.multi_node:
        return False
    return (
        (not filters.model_prefix or entry.key.startswith(filters.model_prefix))
        and (not filters.precision or entry.precision in filters.precision)
        and (not filters.framework or entry.framework in filters.framework)
        and (not filters.runner_type or entry.runner in filters.runner_type)
    )


def _machines(entry: Entry, runners: Runners | None, node: str | None) -> list[str]:
    if not node:
        return [entry.runner]
    return [name for name in _nodes(entry, runners) if node in name]


def _label_and_machines(entry: Entry, runners: Runners | None, node: str | None) -> list[str]:
    if not node:
        return [entry.runner]
    return [name for name in dict.fromkeys([entry.runner, *_nodes(entry, runners)]) if node in name]


def _nodes(entry: Entry, runners: Runners | None) -> tuple[str, ...]:
    return runners.labels.get(entry.runner, ()) if runners is not None else ()


Values = Callable[[Entry, bool, Space, Filters], list[int]]


def _arms(entry: Entry, machines: list[str], filters: Filters, values_of: Values) -> Iterator[Selected]:
    lengths = {SEQUENCE_LENGTHS[name] for name in filters.seq_lens}
    if "fixed-seq-len" in filters.scenario_type:
        for item in entry.fixed:
            if lengths and (item.isl, item.osl) not in lengths:
                continue
            for space in item.spaces:
                ep = _expert_parallel(entry, space, filters)
                values = values_of(entry, True, space, filters) if ep is not None else []
                if values and ep is not None:
                    yield Selected(entry, item, None, space, ep, values, machines)
    if "agentic-coding" in filters.scenario_type:
        for agentic in entry.agentic:
            for space in agentic.spaces:
                values = values_of(entry, False, space, filters)
                if values:
                    yield Selected(entry, None, agentic, space, 1 if space.ep is None else space.ep, values, machines)


def _expert_parallel(entry: Entry, space: Space, filters: Filters) -> int | None:
    """ep of a fixed arm after `max_tp` and `max_ep`; None leaves the arm out. A stated ep is cut, not dropped."""
    ep = 1 if space.ep is None else space.ep
    if entry.multinode:
        return ep
    if filters.max_tp is not None and (filters.max_tp <= 0 or (space.tp or 0) > filters.max_tp):
        return None
    if filters.max_ep is None:
        return ep
    if filters.max_ep <= 0:
        return None
    return ep if space.ep is None else min(ep, filters.max_ep)


def _bounded(entry: Entry, fixed: bool, space: Space, filters: Filters) -> list[int]:
    rule = (
        concurrency.agentic if not fixed else concurrency.multi_fixed if entry.multinode else concurrency.single_fixed
    )
    return concurrency.chosen(rule(space, filters.step, filters.min_conc, filters.max_conc), filters.conc)


def _asked_for(entry: Entry, fixed: bool, space: Space, filters: Filters) -> list[int]:
    return concurrency.chosen(concurrency.written(space, 2, list_wins=fixed), filters.conc)
