"""append-only: proof that a change of the configs only adds points, and those points.

Everything measured before must still be there, unchanged; every new point must belong to a series that was already
drawn, with the one image of that series. Then nothing needs to be measured again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ridgeline.core.errors import Problem
from ridgeline.publish.changelog.entry import Entry
from ridgeline.publish.changelog.expansion import Master, Run, expand
from ridgeline.publish.changelog.refusal import ChangelogRefused, at
from ridgeline.publish.changelog.rows import Row, concurrencies, fingerprint, is_agentic, is_multinode

Written = Mapping[str, Mapping[str, Any]]
_HINT = "append-only adds concurrencies or recipes to a series already published; leave it out to measure all again"


class Series(NamedTuple):
    """What makes points belong to one curve. Lengths in tokens; None where the kind has none."""

    model: Any
    model_prefix: Any
    precision: Any
    framework: Any
    runner: Any
    disagg: bool
    agentic: bool
    isl: int | None
    osl: int | None
    offloads: bool
    spec_decoding: str
    prefill_hardware: str | None
    decode_hardware: str | None


def added_points(
    entries: Sequence[Entry],
    runs: Sequence[Run],
    base: Master,
    head: Master,
    head_rows: Sequence[Row],
    file: str,
) -> list[Row]:
    """The rows of `runs` at head, cut down to the points that base did not have.

    Raises ChangelogRefused when anything but added points changed, or nothing was added.
    """
    line = entries[0].line
    _refuse(_config_changes(_scopes(runs), base.written, head.written), file, line)
    old = expand(base, runs)
    known, kept = _points(old), _points(head_rows)
    if not old:
        _refuse(["the base revision has no point in this selection to add to"], file, line)
    _refuse([_lost(row, kept) for row in old if _lost(row, kept)], file, line)
    delta = _delta(head_rows, known)
    if not delta:
        _refuse(["no point was added"], file, line)
    images: dict[Series, set[Any]] = {}
    for row in old:
        images.setdefault(series(row), set()).add(row.get("image"))
    _refuse([_foreign(row, images) for row in delta if _foreign(row, images)], file, line)
    return delta


def series(row: Mapping[str, Any]) -> Series:
    """The curve a row's points are drawn on."""
    agentic = is_agentic(row)
    pools = [row.get(name) or {} for name in ("prefill", "decode")]
    return Series(
        model=row.get("model"),
        model_prefix=row.get("model-prefix"),
        precision=row.get("precision"),
        framework=row.get("framework"),
        runner=row.get("runner"),
        disagg=bool(row.get("disagg")),
        agentic=agentic,
        isl=None if agentic else row.get("isl"),
        osl=None if agentic else row.get("osl"),
        offloads=row.get("kv-offloading") not in (None, "none"),
        spec_decoding="" if agentic else row.get("spec-decoding") or "none",
        prefill_hardware=pools[0].get("hardware"),
        decode_hardware=pools[1].get("hardware"),
    )


def _scopes(runs: Sequence[Run]) -> dict[str, set[str]]:
    """Config key → the scenarios selected of it."""
    scopes: dict[str, set[str]] = {}
    for run in runs:
        for key in run.keys:
            scopes.setdefault(key, set()).update(run.scenarios)
    return scopes


def _config_changes(scopes: Mapping[str, set[str]], before: Written, after: Written) -> list[str]:
    changes = []
    for key in dict.fromkeys([*before, *after]):
        if key not in scopes:
            if before.get(key) != after.get(key):
                changes.append(f"config `{key}` is not selected but changed")
        elif key not in before:
            changes.append(f"config `{key}` is new: append-only needs one that exists at the base")
        else:
            changes += _scope_changes(key, scopes[key], before[key], after[key])
    return changes


def _scope_changes(key: str, selected: set[str], before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    was, now = before["scenarios"], after["scenarios"]
    if set(was) != set(now):
        return [f"config `{key}` has other scenarios than at the base: {', '.join(sorted(set(was) ^ set(now)))}"]
    others = set(now) - selected
    changes = [
        f"scenario `{name}` of `{key}` is not selected but changed" for name in sorted(others) if was[name] != now[name]
    ]
    names = [name for name in dict.fromkeys([*before, *after]) if name != "scenarios"]
    if others:
        changes += [
            f"`{name}` of `{key}` changed, which touches the scenario that is not selected"
            for name in names
            if before.get(name) != after.get(name)
        ]
    return changes


def _points(rows: Sequence[Row]) -> dict[str, set[int]]:
    points: dict[str, set[int]] = {}
    for row in rows:
        points.setdefault(fingerprint(row), set()).update(concurrencies(row))
    return points


def _lost(row: Row, kept: Mapping[str, set[int]]) -> str | None:
    recipe = fingerprint(row)
    if recipe not in kept:
        return (
            f"a recipe of `{row['exp-name']}` on {row['runner']} changed or is gone (image, topology and options count)"
        )
    lost = sorted(set(concurrencies(row)) - kept[recipe])
    return f"`{row['exp-name']}` lost concurrency {', '.join(map(str, lost))}" if lost else None


def _delta(rows: Sequence[Row], known: Mapping[str, set[int]]) -> list[Row]:
    seen = {recipe: set(points) for recipe, points in known.items()}
    delta: list[Row] = []
    for row in rows:
        points = seen.setdefault(fingerprint(row), set())
        new = [conc for conc in dict.fromkeys(concurrencies(row)) if conc not in points]
        points.update(new)
        if new:
            delta.append({**row, "conc": new} if is_multinode(row) else row)
    return delta


def _foreign(row: Row, images: Mapping[Series, set[Any]]) -> str | None:
    drawn = images.get(series(row))
    if drawn is None:
        return f"`{row['exp-name']}` on {row['runner']} starts a series that the base does not have"
    if len(drawn) > 1:
        return f"`{row['exp-name']}` belongs to a series with {len(drawn)} images at the base"
    if row.get("image") is None or drawn != {row["image"]}:
        return f"`{row['exp-name']}` runs image `{row.get('image')}`, its series runs `{next(iter(drawn))}`"
    return None


def _refuse(reasons: Sequence[str | None], file: str, line: int) -> None:
    problems: list[Problem] = [
        at(file, line, reason, key="append-only", hint=_HINT) for reason in dict.fromkeys(reasons) if reason
    ]
    if problems:
        raise ChangelogRefused(problems)
