"""Decisions and canaries made by the peer's own workflow conditions."""

from __future__ import annotations

import json

import pytest
from tests.golden import golden

from ridgeline.publish.gate.canary import pick
from ridgeline.publish.gate.decision import Situation, decide
from ridgeline.publish.gate.policy import inferencex_policy


def test_every_recorded_decision_is_made_again() -> None:
    data = json.loads(golden("golden/policy/gating.json").read_text())
    policy, wrong = inferencex_policy(), []
    for row in data["rows"]:
        action, label, labels, draft, authorised, skip, fork, *expected = row
        situation = Situation(
            action=action,
            changed_label=label,
            labels=tuple(labels),
            draft=bool(draft),
            fork=bool(fork),
            reuse_authorised=bool(authorised),
            head_message="fix\n\n[skip-sweep]" if skip else "fix",
        )
        made = decide(situation, policy)
        found = [made.check.value, made.reuse_gate.value, "RUN" if made.runs else "SKIP"]
        if found != expected:
            wrong.append((row, found))
    assert len(data["rows"]) > 1000
    assert not wrong, f"{len(wrong)} of {len(data['rows'])}: {wrong[:3]}"


def test_every_recorded_canary_is_picked_again() -> None:
    outputs = {
        case["name"]: case.get("output")
        for case in json.loads(golden("golden/changelog/process.json").read_text())["cases"]
    }
    cases = json.loads(golden("golden/policy/canary.json").read_text())["cases"]
    seen = 0
    for case in cases:
        output = outputs.get(case["process_case"])
        if output is None:
            continue
        seen += 1
        found = pick(output["single_node"], inferencex_policy().canary.buckets)
        assert ([] if found.job is None else [found.job]) == case["canary"], case["process_case"]
        kept = {name: rows for name, rows in found.remaining.items() if rows}
        assert kept == {name: rows for name, rows in case["remaining_single_node"].items() if rows}
    if not seen:
        pytest.skip("none of the changelog outputs that the canaries name is here")
