"""Which run's results may be used for a pull request: at merge (reuse) or before (staging).

In: the pull request, its commits, candidate runs with their artifacts. Out: the run, or the reasons against each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ridgeline.publish.forge.event import PullRequest
from ridgeline.publish.forge.github import Artifact, LabelEvent, WorkflowRun
from ridgeline.publish.gate.policy import GatePolicy, matches

FINISHED = ("success", "failure", "cancelled")
Artifacts = Callable[[int], Sequence[Artifact]]


class Choice(NamedTuple):
    """A run, or None with `why`: a sentence for each run that was looked at."""

    run: WorkflowRun | None
    why: tuple[str, ...]


def label_faults(pull: PullRequest, policy: GatePolicy) -> list[str]:
    """Why results of this pull request may not be reused, as far as its labels go."""
    faults = [
        f"label `{name}` makes a sweep that is not reused; take it off and sweep again"
        for name, one in policy.labels.modifiers.items()
        if name in pull.labels and not one.reusable
    ]
    if not set(policy.full_sweeps) & set(pull.labels):
        faults.append(f"no full-sweep label; put one of {', '.join(policy.full_sweeps)} on it")
    return faults


def reuse_faults(
    run: WorkflowRun, artifacts: Sequence[Artifact], commits: Sequence[str], policy: GatePolicy, *, pinned: bool
) -> list[str]:
    """Why a run may not stand in at merge. A pinned one may have failed in parts."""
    allowed = FINISHED if pinned else ("success",)
    faults = [*_run_faults(run, policy, allowed)]
    if run.head_sha not in commits:
        faults.append(f"its commit {run.head_sha[:12]} is no longer part of the pull request")
    return faults + _artifact_faults(artifacts, policy)


def choose_for_reuse(
    pinned: int | None,
    candidates: Iterable[WorkflowRun],
    artifacts: Artifacts,
    commits: Sequence[str],
    policy: GatePolicy,
) -> Choice:
    """The pinned run if it is fit, else the newest fit candidate. `candidates` come newest first; with a pin they hold
    that run only, or nothing when GitHub knows none."""
    return _choose(
        pinned, candidates, lambda run: reuse_faults(run, artifacts(run.id), commits, policy, pinned=bool(pinned))
    )


def stage_faults(
    run: WorkflowRun,
    artifacts: Sequence[Artifact],
    pull: PullRequest,
    commits: Sequence[str],
    history: Sequence[LabelEvent],
    policy: GatePolicy,
    *,
    pinned: bool,
) -> list[str]:
    """Why a run may not be staged. It may have failed in parts; a pinned one may be listed under the pull request
    although its commit is gone."""
    faults = [*_run_faults(run, policy, FINISHED)]
    listed = pinned and pull.number in run.pulls
    if run.head_sha not in commits and not listed:
        faults.append(f"its commit {run.head_sha[:12]} is not part of the pull request")
    if not labelled_full_at(run.created_at, history, policy):
        faults.append(f"no full-sweep label was on the pull request when it started ({run.created_at})")
    if not any(one.name == policy.runs.metadata and not one.expired for one in artifacts):
        faults.append(f"artifact `{policy.runs.metadata}` is missing or expired")
    return faults + _artifact_faults(artifacts, policy)


def choose_for_staging(
    pinned: int | None,
    candidates: Iterable[WorkflowRun],
    artifacts: Artifacts,
    pull: PullRequest,
    commits: Sequence[str],
    history: Sequence[LabelEvent],
    policy: GatePolicy,
) -> Choice:
    """As `choose_for_reuse`, by the rules of staging."""
    return _choose(
        pinned,
        candidates,
        lambda run: stage_faults(run, artifacts(run.id), pull, commits, history, policy, pinned=bool(pinned)),
    )


def labelled_full_at(moment: str, history: Sequence[LabelEvent], policy: GatePolicy) -> bool:
    """Whether some full-sweep label was on at an ISO time (UTC with Z, as GitHub writes it), replayed from events."""
    on: set[str] = set()
    for event in sorted(history, key=lambda one: one.at):
        if event.at > moment:
            break
        if event.label in policy.full_sweeps:
            (on.add if event.action == "labeled" else on.discard)(event.label)
    return bool(on)


def _choose(
    pinned: int | None, candidates: Iterable[WorkflowRun], faults_of: Callable[[WorkflowRun], list[str]]
) -> Choice:
    why = []
    for run in candidates:
        faults = faults_of(run)
        if not faults:
            return Choice(run, ())
        why.append(f"run {run.id}: {'; '.join(faults)}")
    if not why:
        why = [f"run {pinned} does not exist" if pinned else "no completed run of the sweep on this branch"]
    return Choice(None, tuple(why))


def _run_faults(run: WorkflowRun, policy: GatePolicy, conclusions: Sequence[str]) -> Iterable[str]:
    if run.path != policy.runs.workflow:
        yield f"it is of workflow `{run.path}`, not of `{policy.runs.workflow}`"
    if run.event != "pull_request":
        yield f"it was started by `{run.event}`, not by a pull request"
    if run.status != "completed":
        yield f"it is `{run.status}`; wait for it to end"
    elif run.conclusion not in conclusions:
        yield f"it ended as `{run.conclusion}`"


def _artifact_faults(artifacts: Sequence[Artifact], policy: GatePolicy) -> list[str]:
    results = [one for one in artifacts if matches(one.name, policy.runs.results)]
    if not results:
        return ["it has no result artifacts"]
    if all(one.expired for one in results):
        return [f"its result artifacts expired ({results[0].expires_at or 'time unknown'})"]
    return []
