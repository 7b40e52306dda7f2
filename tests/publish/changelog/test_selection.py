"""Which expansions an addition asks for, and what becomes of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ridgeline.plan.evals import EvalMode
from ridgeline.publish.changelog.entry import Entry
from ridgeline.publish.changelog.refusal import ChangelogRefused
from ridgeline.publish.changelog.rows import Row, bucket, fingerprint, lowest_concurrency
from ridgeline.publish.changelog.selection import Modifiers, Selection, matching, select

FIXED, AGENTIC = ("fixed-seq-len",), ("agentic-coding",)
BOTH = FIXED + AGENTIC
Call = tuple[tuple[str, ...], tuple[str, ...], EvalMode]


class Master:
    """Remembers what it was asked for and answers with one row per key and scenario."""

    def __init__(self, *keys: str) -> None:
        self.written: Mapping[str, Mapping[str, Any]] = {key: {"scenarios": {}} for key in keys}
        self.calls: list[Call] = []

    def rows(self, keys: Sequence[str], scenarios: Sequence[str], evals: EvalMode) -> list[Row]:
        self.calls.append((tuple(keys), tuple(scenarios), evals))
        return [{"name": key, "conc": 4, "prefill": {"ep": len(key)}} for key in keys for _ in scenarios]


def asked(*keys: str, **fields: Any) -> Entry:
    return Entry(keys, ("why",), "XXX", **fields, line=7, key_lines=tuple(range(8, 8 + len(keys))))


def chosen(*entries: Entry, modifiers: Modifiers = Modifiers()) -> tuple[Selection, list[Call]]:
    master = Master("a", "ab", "abc", "b")
    return select(entries, master, lambda: pytest.fail("base is for append-only"), modifiers), master.calls


def of(calls: list[Call], evals: EvalMode) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(keys, scenarios) for keys, scenarios, asked_for in calls if asked_for is evals]


def test_star_is_the_only_wildcard_and_matches_in_file_order() -> None:
    known = ["b", "ab", "a", "a?c", "a.c"]
    assert matching("a*", known) == ("ab", "a", "a?c", "a.c")
    assert matching("*b*", known) == ("b", "ab")
    assert matching("a?c", known) == ("a?c",)
    assert matching("a.c", known) == ("a.c",)
    assert matching("A*", known) == matching("[a]*", known) == ()


def test_unknown_keys_are_all_named_with_their_lines() -> None:
    with pytest.raises(ChangelogRefused) as caught:
        chosen(asked("a", "zz", "q*"), asked("abcd"))
    problems = caught.value.problems
    assert [(one.where.line, one.message) for one in problems if one.where] == [
        (8, "no config `abcd`"),
        (9, "no config `zz`"),
        (10, "no config matches `q*`"),
    ]
    assert problems[0].hint == "did you mean `abc`?"


def test_repeated_keys_are_selected_once() -> None:
    _, calls = chosen(asked("b", "a*", "a"), asked("ab", "b"))
    assert of(calls, EvalMode.NONE) == of(calls, EvalMode.ONLY) == [(("b", "a", "ab", "abc"), BOTH)]


def test_configs_are_grouped_by_what_remains_of_them() -> None:
    _, calls = chosen(asked("ab", scenario_type=FIXED), asked("*"))
    assert of(calls, EvalMode.NONE) == [(("ab",), FIXED), (("a", "abc", "b"), BOTH), (("ab",), AGENTIC)]


def test_throughput_and_evaluations_keep_separate_books() -> None:
    _, calls = chosen(asked("a", evals_only=True), asked("a"))
    assert of(calls, EvalMode.ONLY) == of(calls, EvalMode.NONE) == [(("a",), BOTH)]


def test_entries_with_all_evals_are_served_first_and_run_no_throughput() -> None:
    selection, calls = chosen(asked("a", "b"), asked("a", all_evals=True))
    assert of(calls, EvalMode.ALL) == [(("a",), BOTH)]
    assert of(calls, EvalMode.ONLY) == [(("b",), BOTH)]
    assert of(calls, EvalMode.NONE) == [(("a", "b"), BOTH)]
    assert [one.all_evals for one in selection.entries] == [False, True]


def test_the_label_all_evals_keeps_throughput_and_evals_only_drops_it() -> None:
    _, calls = chosen(asked("a"), modifiers=Modifiers(all_evals=True))
    assert [mode for _, _, mode in calls] == [EvalMode.ALL, EvalMode.NONE]
    _, calls = chosen(asked("a"), modifiers=Modifiers(evals_only=True))
    assert [mode for _, _, mode in calls] == [EvalMode.ONLY]


def test_the_prefill_threshold_drops_narrow_evaluations_only() -> None:
    selection, _ = chosen(asked("*", eval_min_prefill_ep=2, scenario_type=FIXED))
    assert [row["name"] for row in selection.evals] == ["ab", "abc"]
    assert [row["name"] for row in selection.throughput] == ["a", "ab", "abc", "b"]


@pytest.mark.parametrize("width", [None, "8", 1])
def test_a_width_that_is_no_number_or_missing_is_narrow(width: object) -> None:
    class Odd(Master):
        def rows(self, keys: Sequence[str], scenarios: Sequence[str], evals: EvalMode) -> list[Row]:
            pool = {} if width == 1 else {"ep": width}
            return [{"conc": [4], "prefill": pool}, {"conc": 4}]

    selection = select([asked("a", eval_min_prefill_ep=2)], Odd("a"), lambda: Odd("a"))
    assert selection.evals == ({"conc": 4},)


def test_append_only_mixes_with_nothing() -> None:
    with pytest.raises(ChangelogRefused, match="do not mix"):
        chosen(asked("a", append_only=True), asked("b"))
    for modifiers in (Modifiers(all_evals=True), Modifiers(evals_only=True)):
        with pytest.raises(ChangelogRefused, match="not evaluated"):
            chosen(asked("a", append_only=True), modifiers=modifiers)


def test_trimming_keeps_the_lowest_of_each_recipe_in_place() -> None:
    rows: list[Row] = [
        {"tp": 4, "conc": 8, "exp-name": "x8"},
        {"tp": 8, "conc": 2, "exp-name": "y"},
        {"tp": 4, "conc": 4, "exp-name": "x4"},
        {"tp": 4, "conc": 4, "exp-name": "again"},
        {"prefill": {}, "conc": [64, 16, 32]},
        {"prefill": {}, "conc": [4], "scenario-type": "agentic-coding"},
        {"prefill": {}, "conc": [8], "scenario-type": "agentic-coding"},
    ]
    trimmed = lowest_concurrency(rows)
    assert [row.get("exp-name") for row in trimmed] == ["y", "x4", None, None, None]
    assert [row["conc"] for row in trimmed] == [2, 4, [16], [4], [8]]
    assert rows[4]["conc"] == [64, 16, 32]


def test_the_fingerprint_is_of_everything_but_concurrency_and_name() -> None:
    row = {"tp": 4, "run-eval": False, "conc": 4, "exp-name": "x", "recipe-fingerprint": "old"}
    assert fingerprint(row) == fingerprint({"run-eval": False, "tp": 4, "conc": [9]})
    assert fingerprint(row) != fingerprint({"tp": 4})
    # what `sha256sum` says of {"run-eval":false,"tp":4}
    assert fingerprint(row) == "f81cb8438ac36b46f230abf9720e4c73c12c7d91471e7a4fed840e131ca7dddf"


def test_buckets() -> None:
    lengths = [(1024, 1024), (8192, 1024), (1024, 8192)]
    assert [bucket({"isl": isl, "osl": osl}) for isl, osl in lengths] == ["1k1k", "8k1k", "1024_8192"]
    assert bucket({"scenario-type": "agentic-coding"}) == "agentic"
