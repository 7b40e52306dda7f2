"""Families of jobs and what each job is sent, on the recorded selections."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tests.golden import golden

from ridgeline.publish.gate.decision import Situation, decide
from ridgeline.publish.gate.jobs import jobs_of
from ridgeline.publish.gate.policy import inferencex_policy

POLICY = inferencex_policy()
EMPTY: dict[str, Any] = {
    "single_node": {},
    "multi_node": {},
    **{key: [] for key in ("evals", "agentic_evals", "multinode_evals", "multinode_agentic_evals")},
}
FIXED = {"isl": 1024, "osl": 1024, "tp": 8, "conc": 4, "run-eval": False}
AGENTIC = {"scenario-type": "agentic-coding", "tp": 8, "conc": 4, "duration": 3600}
POOLS = {"prefill": {"tp": 8}, "decode": {"tp": 8}}


def made(output: dict[str, Any], *labels: str) -> Any:
    decision = decide(Situation(action="labeled", changed_label=labels[0], labels=labels), POLICY)
    return jobs_of({**EMPTY, **output}, decision, POLICY)


def test_inputs_of_each_kind() -> None:
    output = {
        "single_node": {"1k1k": [FIXED], "agentic": [AGENTIC], "512_128": [FIXED]},
        "multi_node": {"8k1k": [{**FIXED, **POOLS, "conc": [4, 8]}], "agentic": [{**AGENTIC, **POOLS, "conc": [16]}]},
        "multinode_evals": [{**FIXED, **POOLS, "conc": [4, 8], "eval-all-concs": True}],
        "multinode_agentic_evals": [{**AGENTIC, **POOLS, "conc": [16, 32], "eval-conc": 32}],
    }
    found = made(output, "full-sweep-enabled")
    sent = {family.name: [(dict(job.inputs), job.minutes) for job in family.jobs] for family in found.families}
    plain = {"isl": "0", "osl": "0", "max-model-len": "0"}
    timed = {"duration": 3600, "warmup-requests-per-lane": 10}
    assert sent == {
        "multi 8k1k": [({"run-eval": False}, 480)],
        "agentic": [({"run-eval": False, **plain, "disagg": False, **timed}, 500)],
        "multi agentic": [({"run-eval": False, **plain, "conc": 16, **timed}, 780)],
        "multi evals": [({"run-eval": True, "eval-only": True, "eval-conc": "4 8"}, 480)],
        "multi agentic evals": [({"run-eval": True, "eval-only": True, "eval-conc": "32", **plain, "conc": 16}, 780)],
    }
    assert found.canary is not None and found.canary.row["conc"] == 4  # the one row of 1k1k went ahead
    assert found.never == (FIXED,) and found.collects == ("throughput", "evaluations") and found.total == 6


def test_fast_mode_changes_agentic_throughput_only() -> None:
    output = {"single_node": {"1k1k": [FIXED], "agentic": [AGENTIC]}, "agentic_evals": [AGENTIC]}
    found = made(output, "non-canary-full-sweep-enabled", "agentx-fast")
    inputs = {family.name: family.jobs[0].inputs for family in found.families}
    assert (inputs["agentic"]["duration"], inputs["agentic"]["warmup-requests-per-lane"]) == (1200, 1)
    assert "duration" not in inputs["agentic evals"] and "duration" not in inputs["single 1k1k"]


def test_a_purely_agentic_sweep_gathers_nothing_and_has_no_canary() -> None:
    found = made({"single_node": {"agentic": [AGENTIC]}}, "full-sweep-fail-fast")
    assert found.canary is None and found.collects == () and all(family.fail_fast for family in found.families)
    assert found.ingest == "agentic"
    assert made({"single_node": {"1k1k": [FIXED]}}, "full-sweep-fail-fast").ingest == "fixed"


def test_no_row_of_a_recorded_selection_is_lost() -> None:
    cases = json.loads(golden("golden/changelog/process.json").read_text())["cases"]
    for case in cases:
        if case.get("output") is None:
            continue
        output = case["output"]
        rows = [row for kind in ("single_node", "multi_node") for rows in output[kind].values() for row in rows]
        rows += [row for key in EMPTY if key.endswith("evals") for row in output[key]]
        found = made(output, "full-sweep-enabled")
        kept = [job.row for family in found.families for job in family.jobs] + list(found.never)
        kept += [found.canary.row] if found.canary else []
        count = lambda many: Counter(json.dumps({**row, "run-eval": 0}, sort_keys=True) for row in many)  # noqa: E731
        assert count(kept) == count(rows), case["name"]
