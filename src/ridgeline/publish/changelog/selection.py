"""Added entries → the rows they select: throughput rows, evaluation rows, and which scenarios each entry still covers.

Per config and scenario the first entry to ask wins, with separate books for throughput and evaluations; entries with
`all-evals` are served first so that the wider selection wins. Expansion itself is asked of a `Master`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from ridgeline.core.errors import Problem
from ridgeline.plan.evals import EvalMode
from ridgeline.publish.changelog.added_points import added_points
from ridgeline.publish.changelog.contract import FILE
from ridgeline.publish.changelog.entry import SCENARIOS, Entry
from ridgeline.publish.changelog.expansion import Master, Run, expand
from ridgeline.publish.changelog.refusal import ChangelogRefused, at
from ridgeline.publish.changelog.rows import Row, fingerprint, lowest_concurrency


class Modifiers(NamedTuple):
    """What the labels of a pull request ask for on top of its entries."""

    all_evals: bool = False  # widens evaluations and keeps throughput, unlike the entry field of this name
    evals_only: bool = False
    trim_concurrency: bool = False


class Selection(NamedTuple):
    """The selected rows in order; throughput rows carry their fingerprint. `entries` in source order."""

    throughput: tuple[Row, ...]
    evals: tuple[Row, ...]
    entries: tuple[Entry, ...]


def select(
    entries: Sequence[Entry],
    head: Master,
    base: Callable[[], Master],
    modifiers: Modifiers = Modifiers(),
    file: str = FILE,
) -> Selection:
    """The rows that `entries` select from `head`. `base` is only read for append-only entries.

    Raises ChangelogRefused for unknown keys, append-only entries beside normal ones or under eval modifiers, and
    append-only changes that do more than add points; InputError when a config cannot be expanded.
    """
    append_only = _append_only(entries, modifiers, file)
    asked = _resolve_all(entries, tuple(head.written), file)
    covered_throughput: dict[str, set[str]] = {}
    covered_evals: dict[str, set[str]] = {}
    throughput_runs: list[Run] = []
    eval_rows: list[Row] = []
    for entry, keys in sorted(zip(entries, asked, strict=True), key=lambda pair: not pair[0].all_evals):
        if not (modifiers.evals_only or entry.evals_only or entry.all_evals):
            throughput_runs += _runs(entry, keys, covered_throughput)
        if append_only:
            continue
        evals = EvalMode.ALL if modifiers.all_evals or entry.all_evals else EvalMode.ONLY
        found = expand(head, _runs(entry, keys, covered_evals), evals)
        eval_rows += [row for row in found if _wide_enough(row, entry.eval_min_prefill_ep)]
    rows = expand(head, throughput_runs)
    if append_only:
        rows = added_points(entries, throughput_runs, base(), head, rows, file)
    if modifiers.trim_concurrency:
        rows = lowest_concurrency(rows)
    return Selection(
        tuple({**row, "recipe-fingerprint": fingerprint(row)} for row in rows), tuple(eval_rows), tuple(entries)
    )


def matching(pattern: str, known: Iterable[str]) -> tuple[str, ...]:
    """Config keys behind a pattern, in file order; `*` stands for any run of characters and is the only wildcard."""
    expression = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    return tuple(key for key in known if expression.fullmatch(key))


def _runs(entry: Entry, keys: tuple[str, ...], covered: dict[str, set[str]]) -> list[Run]:
    """What of `entry` is not covered yet, grouped by identical scenario sets, and cover it."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for key in keys:
        seen = covered.setdefault(key, set())
        remaining = tuple(name for name in SCENARIOS if name in entry.scenarios and name not in seen)
        seen.update(remaining)
        if remaining:
            groups.setdefault(remaining, []).append(key)
    return [Run(tuple(group), scenarios) for scenarios, group in groups.items()]


def _append_only(entries: Sequence[Entry], modifiers: Modifiers, file: str) -> bool:
    marked = [entry for entry in entries if entry.append_only]
    if marked and len(marked) < len(entries):
        hint = "put them into pull requests of their own"
        raise ChangelogRefused(
            [
                at(file, one.line, "append-only entries do not mix with others", key="append-only", hint=hint)
                for one in marked
            ]
        )
    if marked and (modifiers.all_evals or modifiers.evals_only):
        what = "added points are not evaluated, so all-evals and evals-only do not apply"
        raise ChangelogRefused([at(file, marked[0].line, what, key="append-only", hint="take the label off")])
    return bool(marked)


def _resolve_all(entries: Sequence[Entry], known: Sequence[str], file: str) -> list[tuple[str, ...]]:
    problems: list[Problem] = []
    resolved = []
    for entry in entries:
        keys: dict[str, None] = {}
        for pattern, line in zip(entry.config_keys, entry.key_lines, strict=True):
            found = matching(pattern, known)
            keys.update(dict.fromkeys(found))
            if not found:
                problems.append(at(file, line, _unknown(pattern), key="config-keys", hint=_nearest(pattern, known)))
        resolved.append(tuple(keys))
    if problems:
        raise ChangelogRefused(problems)
    return resolved


def _unknown(pattern: str) -> str:
    return f"no config matches `{pattern}`" if "*" in pattern else f"no config `{pattern}`"


def _nearest(pattern: str, known: Sequence[str]) -> str:
    near = get_close_matches(pattern, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"{len(known)} configs are known; `*` is the only wildcard"


def _wide_enough(row: Row, threshold: int | None) -> bool:
    """Rows without a prefill pool stay; a pool whose ep is no number does not."""
    if threshold is None or not isinstance(row.get("prefill"), Mapping):
        return True
    width = row["prefill"].get("ep", 1)
    return isinstance(width, int) and width >= threshold
