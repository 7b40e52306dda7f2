"""What an event sets in motion: the changelog check, the reuse gate, the sweep. Pure; the policy decides.

In: a `Situation`. Out: a `Decision` whose reasons are sentences. Whether the changelog is valid and whether reuse is
authorised are found out elsewhere and given.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ridgeline.publish.gate.policy import GatePolicy, Sweep

PUSH = "push"
LABELING = ("labeled", "unlabeled")


class Outcome(StrEnum):
    """Conclusion of a job, in GitHub's words."""

    SUCCESS = "success"
    FAILURE = "failure"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """`action`: a pull request's action, or `push` for one to the main branch. `head_message`: the whole message of the
    head commit. `touches_changelog`: events of other changes are not looked at."""

    action: str
    changed_label: str | None = None
    labels: tuple[str, ...] = ()
    draft: bool = False
    fork: bool = False
    reuse_authorised: bool = False
    head_message: str = ""
    changelog_valid: bool = True
    touches_changelog: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`reuse_gate`: whether the gate that looks for an authorisation ran. `sweep`: what starts, None for nothing, with
    `why`. The flags are what the labels ask for; they are set only when a sweep starts."""

    check: Outcome
    reuse_gate: Outcome
    runs: bool
    why: str
    sweep: Sweep | None = None
    trimmed: bool = False
    canary: bool = False
    fail_fast: bool = False
    all_evals: bool = False
    evals_only: bool = False
    fast: bool = False
    skip_queue: bool = False
    reusable: bool = False


class Group(NamedTuple):
    """A group of workflow runs, and whether a new one of it cancels those that run."""

    name: str
    cancels: bool


def sweep_labels(labels: tuple[str, ...], policy: GatePolicy) -> tuple[str, ...]:
    """The sweep labels among `labels`, in the policy's order."""
    return tuple(name for name in policy.labels.sweeps if name in labels)


def effects(labels: tuple[str, ...], policy: GatePolicy) -> frozenset[str]:
    """What the modifier labels among `labels` do."""
    return frozenset(one.effect for name, one in policy.labels.modifiers.items() if name in labels)


def reusable(labels: tuple[str, ...], policy: GatePolicy) -> bool:
    """Whether results of a sweep under these labels may be reused: a full-sweep label, and no modifier that forbids."""
    allowed = any(policy.labels.sweeps[name].reusable for name in sweep_labels(labels, policy))
    return allowed and all(one.reusable for name, one in policy.labels.modifiers.items() if name in labels)


def decide(now: Situation, policy: GatePolicy) -> Decision:
    """The decision for one event."""
    if not now.touches_changelog:
        return _nothing(Outcome.SKIPPED, Outcome.SKIPPED, "the change does not touch the changelog")
    if now.action == PUSH:
        # a push measures what was merged: no label trims or widens it, and a skip marker does not hold it back
        return Decision(
            check=Outcome.SKIPPED, reuse_gate=Outcome.SKIPPED, runs=True, why="pushed to the main branch", reusable=True
        )
    ignored = _ignored(now, policy)
    if ignored:
        return _nothing(Outcome.SKIPPED, Outcome.SKIPPED, ignored)
    several = sweep_labels(now.labels, policy)
    if len(several) > 1:
        why = f"more than one sweep label: {', '.join(several)}; keep one"
        return _nothing(Outcome.FAILURE, Outcome.SKIPPED, why)
    if not now.changelog_valid:
        return _nothing(Outcome.FAILURE, Outcome.SKIPPED, "the changelog is not valid")
    # only a push of commits asks whether its sweep may be left out; a label that changes always sweeps again
    asks = now.action == "synchronize" and reusable(now.labels, policy)
    gate = Outcome.SUCCESS if asks else Outcome.SKIPPED
    stop = _stops(now, asks, policy)
    if stop:
        return _nothing(Outcome.SUCCESS, gate, stop)
    sweep = policy.labels.sweeps[several[0]]
    asked = effects(now.labels, policy)
    return Decision(
        check=Outcome.SUCCESS,
        reuse_gate=gate,
        runs=True,
        why=f"label `{sweep.label}`",
        sweep=sweep,
        trimmed=sweep.trimmed,
        canary=sweep.canary,
        fail_fast=sweep.fail_fast,
        all_evals="all-evals" in asked,
        evals_only="evals-only" in asked,
        fast="fast" in asked,
        skip_queue="skip-queue" in asked,
        reusable=reusable(now.labels, policy),
    )


def group(now: Situation, number: int | None, commit: str, policy: GatePolicy) -> Group:
    """In which group of runs the event stands. Events of code and of labels that mean something cancel the running
    sweep of their pull request; others must not, and pushes to the main branch each stand alone."""
    if now.action == PUSH or number is None:
        return Group(f"sweep-{commit}", False)
    if now.action in LABELING and now.changed_label not in policy.known_labels:
        return Group(f"sweep-{number}-other", False)
    return Group(f"sweep-{number}", True)


def _ignored(now: Situation, policy: GatePolicy) -> str:
    """Why an event of a pull request is not looked at; empty when it is."""
    if now.action not in policy.events.actions:
        return f"`{now.action}` is not looked at"
    if now.draft:
        return "the pull request is a draft"
    if now.action in LABELING and now.changed_label not in policy.known_labels:
        return "the label that changed means nothing here"
    return ""


def _stops(now: Situation, asks: bool, policy: GatePolicy) -> str:
    """Why no sweep starts although the changelog is in order; empty when one does."""
    if asks and now.reuse_authorised:
        return "reuse is authorised: the sweep of an earlier commit stands in"
    if now.fork:
        return "the branch lies in a fork: a maintainer starts it by applying a sweep label"
    if policy.events.skip_marker in now.head_message:
        return f"the head commit's message holds `{policy.events.skip_marker}`"
    if not sweep_labels(now.labels, policy):
        return f"no sweep label; `{policy.labels.recommended}` is the usual one"
    return ""


def _nothing(check: Outcome, gate: Outcome, why: str) -> Decision:
    return Decision(check=check, reuse_gate=gate, runs=False, why=why)
