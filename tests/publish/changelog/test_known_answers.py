"""The peer's own verdicts and outputs: strict contract, pull-request check, canonical links, conflicts, selections."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from tests.golden import golden

from ridgeline.core.errors import RidgelineError
from ridgeline.publish.changelog.contract import strict
from ridgeline.publish.changelog.expansion import MasterConfigs
from ridgeline.publish.changelog.gate import added_entries
from ridgeline.publish.changelog.links import Links
from ridgeline.publish.changelog.merging import canonicalize, resolve
from ridgeline.publish.changelog.output import as_object
from ridgeline.publish.changelog.repository import diff
from ridgeline.publish.changelog.selection import Modifiers, Selection, select


def cases(name: str, having: str = "name") -> list[Any]:
    try:
        found = json.loads(golden(f"golden/changelog/{name}").read_text())["cases"]
    except pytest.skip.Exception as reason:
        return [pytest.param(None, marks=pytest.mark.skip(reason=str(reason)))]
    return [pytest.param(case, id=case["name"]) for case in found if having in case]


@cache
def fixtures(**replaced: str) -> MasterConfigs:
    folder = golden("golden/changelog/fixtures")
    files = [
        (name, replaced.get(name, (folder / f"{name}.yaml").read_text())) for name in ("amd-master", "nvidia-master")
    ]
    runners = (folder / "runners.yaml").read_bytes()
    return MasterConfigs.read([(name, text.encode()) for name, text in files], ("runners.yaml", runners))


def accepted(judge: Any) -> bool:
    try:
        judge()
    except RidgelineError as refused:
        assert str(refused)
        return False
    return True


def gate(base: bytes, head: bytes, masters: MasterConfigs, modifiers: Modifiers = Modifiers()) -> Selection:
    return select(added_entries(head, diff(base, head)), masters, fixtures, modifiers)


@pytest.mark.parametrize("case", cases("append.json"))
def test_strict_contract(case: dict[str, Any]) -> None:
    base, head, links = case["base"].encode(), case["head"].encode(), Links.of(case["pr_number"])
    assert accepted(lambda: strict(base, head, links)) == (case["strict"] == "accept")
    if case["strict"] == "accept":
        change = strict(base, head, links)
        assert (len(change.additions), len(change.corrections)) == (case["additions"], case["corrections"])


@pytest.mark.parametrize("case", cases("append.json"))
def test_pull_request_check(case: dict[str, Any]) -> None:
    base, head = case["base"].encode(), case["head"].encode()
    assert accepted(lambda: gate(base, head, fixtures())) == (case["gate"] == "accept")


@pytest.mark.parametrize("case", cases("append.json", having="canonicalize"))
def test_canonical_links(case: dict[str, Any]) -> None:
    base, head, links = case["base"].encode(), case["head"].encode(), Links.of(case["pr_number"])
    assert accepted(lambda: canonicalize(base, head, links)) == (case["canonicalize"] == "accept")
    if case["canonicalize"] == "accept":
        assert canonicalize(base, head, links).decode() == case["canonicalized_head"]


@pytest.mark.parametrize("case", cases("conflict.json"))
def test_conflict_with_main(case: dict[str, Any]) -> None:
    sides = [case[name].encode() for name in ("base", "pr", "main")]
    links = Links.of(case["pr_number"])
    assert accepted(lambda: resolve(*sides, links)) == (case["verdict"] == "accept")
    if case["verdict"] == "accept":
        assert resolve(*sides, links).decode() == case["result"]


@pytest.mark.parametrize("case", cases("process.json"))
def test_selection(case: dict[str, Any]) -> None:
    base: bytes = json.loads(golden("golden/changelog/process.json").read_text())["base_changelog"].encode()
    head = base + b"\n" + case["added"].encode()
    flags = case["flags"]
    modifiers = Modifiers("--all-evals" in flags, "--evals-only" in flags, "--trim-conc" in flags)
    replaced = {
        name.removeprefix("head_").replace("_", "-"): text for name, text in case.items() if name.startswith("head_")
    }
    masters = fixtures(**replaced)
    assert accepted(lambda: gate(base, head, masters, modifiers)) == (case["verdict"] == "accept")
    if case["verdict"] == "accept":
        # dumped, so that the order of keys and the types count as well
        ours = json.dumps(as_object(gate(base, head, masters, modifiers), "BASE", "HEAD"))
        assert ours == json.dumps(case["output"])
