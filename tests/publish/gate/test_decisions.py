"""What events set in motion, for any combination: against the rules told once more as conditions of jobs, the way a
workflow has them, and against what must never happen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.plan.priority import Context, score
from ridgeline.publish.gate.canary import pick
from ridgeline.publish.gate.decision import Situation, decide, group, reusable
from ridgeline.publish.gate.jobs import jobs_of
from ridgeline.publish.gate.policy import inferencex_policy
from ridgeline.spec.policy import default_policy

POLICY = inferencex_policy()
PRIMARY = {
    # label: (trimmed, canary, fail-fast, reusable), the table of the specification
    "sweep-enabled": (True, False, False, False),
    "full-sweep-fail-fast": (False, True, True, True),
    "full-sweep-enabled": (False, True, False, True),
    "full-sweep-fail-fast-no-canary": (False, False, True, True),
    "non-canary-full-sweep-enabled": (False, False, False, True),
}
MODIFIERS = ["all-evals", "evals-only", "agentx-fast", "skip_queue"]
ORDER = ["ci-patchwork", "engine-patch", "ci-patchwork-waived", "ci-checklist-complete"]
KNOWN = [*PRIMARY, *MODIFIERS, *ORDER]
OTHER = ["bug", "full-sweep", "SWEEP-ENABLED", ""]
ACTIONS = ["ready_for_review", "synchronize", "labeled", "unlabeled", "opened", "reopened", "edited", "closed", "push"]


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    action = draw(st.sampled_from(ACTIONS))
    labels = draw(st.lists(st.sampled_from([*KNOWN, *OTHER]), unique=True, max_size=5))
    changed = draw(st.sampled_from([*KNOWN, *OTHER])) if action in ("labeled", "unlabeled") else None
    flags = [draw(st.booleans()) for _ in range(5)]
    message = draw(st.sampled_from(["fix", "fix\n\n[skip-sweep]", "[skip-sweep] x", "[SKIP-SWEEP]", "skip-sweep"]))
    return Situation(
        action=action,
        changed_label=changed,
        labels=tuple(labels),
        draft=flags[0] and flags[4],
        fork=flags[1],
        reuse_authorised=flags[2],
        changelog_valid=flags[3] or flags[4],
        head_message=message,
    )


def oracle(now: Situation) -> tuple[str, str, str]:
    """The three jobs' conditions, one after the other, as expressions over each other's results."""
    pull, labels = now.action != "push", set(now.labels)
    watched = now.action in ("ready_for_review", "synchronize", "labeled", "unlabeled")
    label_event = now.action in ("labeled", "unlabeled")
    primaries = labels & set(PRIMARY)
    check = "skipped"
    if pull and watched and not now.draft and (not label_event or now.changed_label in KNOWN):
        check = "failure" if len(primaries) > 1 or not now.changelog_valid else "success"
    gate = "skipped"
    if check == "success" and now.action == "synchronize" and not now.draft:
        full = any(PRIMARY[name][3] for name in primaries)
        gate = "success" if full and not labels & {"evals-only", "agentx-fast"} else "skipped"
    goes = gate == "skipped" or not now.reuse_authorised
    wanted = (
        watched
        and not now.draft
        and not now.fork
        and "[skip-sweep]" not in now.head_message
        and bool(primaries)
        and (not label_event or now.changed_label in KNOWN)
    )
    setup = check in ("success", "skipped") and goes and (not pull or wanted)
    return check, gate, "RUN" if setup else "SKIP"


@settings(max_examples=250, deadline=None)
@given(situations())
def test_any_event_is_decided_as_the_jobs_conditions_say(now: Situation) -> None:
    made = decide(now, POLICY)
    assert (made.check.value, made.reuse_gate.value, "RUN" if made.runs else "SKIP") == oracle(now)


@settings(max_examples=120, deadline=None)
@given(situations())
def test_what_a_sweep_does_follows_its_labels_alone(now: Situation) -> None:
    made = decide(now, POLICY)
    flags = (made.trimmed, made.canary, made.fail_fast)
    assert made.why  # a person is told why, whatever it is
    if not made.runs or now.action == "push":
        assert (
            made.sweep is None
            and flags == (False, False, False)
            and not (made.all_evals or made.evals_only or made.fast)
        )
        return
    assert made.sweep is not None and (*flags, made.sweep.reusable) == PRIMARY[made.sweep.label]
    asked = [name in now.labels for name in ("all-evals", "evals-only", "agentx-fast", "skip_queue")]
    assert [made.all_evals, made.evals_only, made.fast, made.skip_queue] == asked
    assert made.reusable == reusable(now.labels, POLICY) == (made.sweep.reusable and not asked[1] and not asked[2])


@settings(max_examples=80, deadline=None)
@given(situations(), st.permutations([*KNOWN, *OTHER]))
def test_order_of_labels_and_labels_that_mean_nothing_change_nothing(now: Situation, order: list[str]) -> None:
    from dataclasses import replace

    shuffled = replace(now, labels=tuple(sorted(now.labels, key=order.index)))
    noise = replace(now, labels=(*now.labels, "good first issue"))
    assert decide(now, POLICY) == decide(shuffled, POLICY) == decide(noise, POLICY)


@settings(max_examples=100, deadline=None)
@given(situations())
def test_only_what_means_something_cancels(now: Situation) -> None:
    found = group(now, None if now.action == "push" else 77, "c" * 40, POLICY)
    means_nothing = now.action in ("labeled", "unlabeled") and now.changed_label not in KNOWN
    assert found.cancels == (now.action != "push" and not means_nothing)
    assert len({group(now, number, "c" * 40, POLICY).name for number in (77, 78)}) == (1 if now.action == "push" else 2)


ROWS = st.lists(
    st.fixed_dictionaries(
        {"conc": st.integers(1, 8), "run-eval": st.sampled_from([True, False, None]), "tp": st.integers(1, 2)}
    ),
    max_size=5,
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from(["1k1k", "8k1k", "agentic", "512_128"]), ROWS))
def test_the_canary_is_the_cheapest_row_of_the_first_lengths(single: dict[str, list[dict[str, Any]]]) -> None:
    found = pick(single, POLICY.canary.buckets)
    fit = {name: [row for row in single.get(name, ()) if row["run-eval"] is not True] for name in ("1k1k", "8k1k")}
    lowest = min((row["conc"] for rows in fit.values() for row in rows), default=None)
    if lowest is None:
        assert found.job is None and found.remaining == single
        return
    name = next(name for name in ("1k1k", "8k1k") if any(row["conc"] == lowest for row in fit[name]))
    first = next(row for row in fit[name] if row["conc"] == lowest)
    assert found.job == {**first, "run-eval": False}
    left = list(single[name])
    left.remove(first)
    assert found.remaining == {**single, name: left}  # exactly one occurrence went


FIXED = {"isl": 1024, "osl": 1024, "tp": 8, "conc": 4, "run-eval": False}
AGENTIC = {"scenario-type": "agentic-coding", "tp": 8, "conc": 4, "duration": 3600}
POOLS = {"prefill": {"tp": 8}, "decode": {"tp": 8}}
OUTPUT = {
    "single_node": {"1k1k": [FIXED, {**FIXED, "conc": 8}], "8k1k": [FIXED], "agentic": [AGENTIC]},
    "multi_node": {"1k1k": [{**FIXED, **POOLS, "conc": [4]}], "agentic": [{**AGENTIC, **POOLS, "conc": [16, 32]}]},
    "evals": [{**FIXED, "run-eval": True}],
    "agentic_evals": [AGENTIC],
    "multinode_evals": [{**FIXED, **POOLS, "conc": [4, 8], "eval-conc": 8}],
    "multinode_agentic_evals": [{**AGENTIC, **POOLS, "conc": [16, 32], "eval-all-concs": True}],
}


@pytest.mark.parametrize("label", [*PRIMARY, None])
@pytest.mark.parametrize("modifiers", [(), ("all-evals",), ("evals-only", "skip_queue"), ("agentx-fast",)])
def test_families_of_any_sweep(label: str | None, modifiers: tuple[str, ...]) -> None:
    """Fast mode, evaluations, the canary and fail-fast reach exactly the jobs they are for. No label: a push."""
    decision = decide(
        Situation(action="synchronize" if label else "push", labels=(*modifiers, *([label] if label else []))), POLICY
    )
    assert decision.runs
    jobs = jobs_of(OUTPUT, decision, POLICY)
    assert (jobs.canary is not None) == decision.canary
    assert {family.fail_fast for family in jobs.families} == {decision.fail_fast}
    for family in jobs.families:
        for job in family.jobs:
            evaluates, agentic = family.name.endswith("evals"), "agentic" in family.name
            assert job.inputs["run-eval"] is evaluates and job.inputs.get("eval-only", False) is evaluates
            timed = agentic and not evaluates
            assert job.inputs.get("duration") == ((1200 if decision.fast else 3600) if timed else None)
            assert job.inputs.get("warmup-requests-per-lane") == ((1 if decision.fast else 10) if timed else None)
            assert (job.inputs.get("isl") == "0") is agentic
            assert job.minutes == ((780 if agentic else 480) if "multi" in family.name else 500)
    sent = {family.name: family.jobs[0].inputs.get("eval-conc") for family in jobs.families}
    assert sent["multi evals"] == "8" and sent["multi agentic evals"] == "16 32"


PRIORITY = default_policy()
ATTRIBUTES: Mapping[str, tuple[dict[str, Any], str]] = {
    "multi-node": ({"prefill": {}}, "1.25"),
    "agentic": ({"scenario-type": "agentic-coding"}, "1.0"),
    "fp4": ({"precision": "fp4"}, "0.75"),
    "mtp": ({"spec-decoding": "mtp"}, "0.75"),
    "vllm": ({"framework": "vllm"}, "0.5"),
    "kimik3": ({"model-prefix": "kimik3"}, "1.5"),
}


@pytest.mark.parametrize("event", [None, "push", "pull_request"])
@settings(max_examples=100, deadline=None)
@given(
    has=st.sets(st.sampled_from(sorted(ATTRIBUTES))),
    criteria=st.none()
    | st.sets(st.sampled_from([*sorted(ATTRIBUTES), "eval-only", "checklist-complete", "patchwork"])),
    labels=st.sets(st.sampled_from([*ORDER, "skip_queue", "full-sweep-enabled"])),
)
def test_priority_is_the_sum_of_what_counts(
    event: str | None, has: set[str], criteria: set[str] | None, labels: set[str]
) -> None:
    from decimal import Decimal

    row: dict[str, Any] = {
        "runner": "r",
        "framework": "trt",
        "precision": "fp8",
        "spec-decoding": "none",
        "model-prefix": "x",
    }
    for name in has:
        row |= ATTRIBUTES[name][0]
    expected = Decimal(1) + (2 if event == "push" else 0)
    expected += sum(Decimal(ATTRIBUTES[name][1]) for name in has if criteria is None or name in criteria)
    if "ci-checklist-complete" in labels or "checklist-complete" in (criteria or ()):
        expected += Decimal("0.25")
    patchwork = labels & {"ci-patchwork", "engine-patch"} or "patchwork" in (criteria or ())
    if patchwork and "ci-patchwork-waived" not in labels:
        expected = Decimal(0)
    told = Context(event, tuple(labels), None if criteria is None else tuple(criteria))
    assert score(row, PRIORITY, told) == expected
