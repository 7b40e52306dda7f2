"""What a push to main does about reuse, and what an event of a pull request does: InferenceX's decision, as values.

An authorisation that cannot be honoured fails; it never falls back to a sweep that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ridgeline.core.errors import AnswerIsNo
from ridgeline.publish.forge.event import PullRequest
from ridgeline.publish.forge.github import GitHub, WorkflowRun
from ridgeline.publish.gate.policy import GatePolicy
from ridgeline.publish.reuse.source import choose_for_reuse, label_faults
from ridgeline.publish.reuse.words import authorisation


class Reuse(NamedTuple):
    """`skip_sweep`: a push to a pull request leaves its sweep out. `enabled`: a merge uses `run`."""

    enabled: bool
    skip_sweep: bool
    reason: str
    run: int | None = None
    attempt: int | None = None
    url: str | None = None
    pull: int | None = None
    head_sha: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "enabled": self.enabled,
            "skip-pr-sweep": self.skip_sweep,
            "source-run-id": self.run,
            "source-run-attempt": self.attempt,
            "source-run-url": self.url,
            "pr-number": self.pull,
            "head-sha": self.head_sha,
            "reason": self.reason,
        }


def on_pull_request(pull: PullRequest, action: str, github: GitHub, policy: GatePolicy) -> Reuse:
    """For an event of a pull request: only `synchronize` can leave a sweep out, and only where labels allow it."""
    if action != "synchronize":
        return Reuse(False, False, f"`{action}` always sweeps", pull=pull.number)
    if pull.draft:
        return Reuse(False, False, "the pull request is a draft", pull=pull.number)
    faults = label_faults(pull, policy)
    if faults:
        return Reuse(False, False, "; ".join(faults), pull=pull.number)
    asked = authorisation(github.comments(pull.number), policy)
    if asked is None:
        return Reuse(False, False, f"nobody who may wrote `{policy.commands.reuse}`", pull=pull.number)
    return Reuse(False, True, f"authorised by comment {asked.comment.id}", pull=pull.number, head_sha=pull.head_sha)


def on_push(commit: str, github: GitHub, policy: GatePolicy) -> Reuse:
    """For a push of `commit` to main. Raises AnswerIsNo when an authorisation cannot be honoured, with every reason."""
    pulls = github.pulls_of(commit)
    asked = [(pull, found) for pull in pulls if (found := authorisation(github.comments(pull.number), policy))]
    if not asked:
        return Reuse(False, False, "no pull request of this commit asks for reuse")
    if len(pulls) > 1:
        numbers = ", ".join(f"#{pull.number}" for pull in pulls)
        raise AnswerIsNo(f"the commit belongs to several pull requests ({numbers}) and reuse is authorised for one")
    listed, words = asked[0]
    pull = github.pull(listed.number) or listed
    faults = label_faults(pull, policy)
    if not pull.merged:
        faults.append("the pull request is not merged")
    choice = choose_for_reuse(
        words.run, candidates(words.run, pull, github, policy), github.artifacts, github.commits(pull.number), policy
    )
    if choice.run is None:
        faults += choice.why
    if faults or choice.run is None:
        hint = "remove the comment to sweep after the merge, or pin another run in a newer one"
        raise AnswerIsNo("reuse is authorised but not possible: " + "; ".join(faults), hint=hint)
    run = choice.run
    reason = f"authorised by comment {words.comment.id}"
    return Reuse(True, False, reason, run.id, run.attempt, run.url, pull.number, run.head_sha)


def candidates(pinned: int | None, pull: PullRequest, github: GitHub, policy: GatePolicy) -> Sequence[WorkflowRun]:
    """The pinned run, or all completed ones of the branch, newest first."""
    if pinned is None:
        return github.runs(pull.head_ref, policy.runs.workflow)
    run = github.run(pinned)
    return [] if run is None else [run]
