"""A sweep for a pull request from a fork: started by a maintainer's label, pinned to exact commits, never reusable.

The fork's own workflow gets no secrets. So a trusted workflow of the base repository runs the trial merge that was
there when a maintainer applied the label; anything that moved since is refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ridgeline.publish.forge.event import Event, PullRequest
from ridgeline.publish.gate.decision import effects, sweep_labels
from ridgeline.publish.gate.policy import GatePolicy


class Dispatch(NamedTuple):
    """`inputs` start the trusted sweep; None with `why` when it must not start."""

    inputs: dict[str, Any] | None
    why: tuple[str, ...]


def dispatch(event: Event, now: PullRequest, permission: str, policy: GatePolicy) -> Dispatch:
    """Decide. `now`: the pull request as it is, not as the event says; `permission`: the sender's."""
    then = event.pull
    assert then is not None, "the caller has checked that this is an event of a pull request"
    why = []
    if event.action != "labeled" or event.changed_label not in policy.labels.sweeps:
        why.append("only a sweep label that was just applied starts this")
    if not now.fork:
        why.append("the branch does not lie in a fork; the ordinary sweep serves it")
    if permission not in policy.commands.permissions:
        why.append(f"the sender's permission is `{permission}`; {' or '.join(policy.commands.permissions)} is needed")
    if now.state != "open":
        why.append("the pull request is not open")
    if now.draft:
        why.append("the pull request is a draft")
    on = sweep_labels(now.labels, policy)
    if len(on) != 1 or on[0] != event.changed_label:
        why.append(f"exactly the one sweep label that was applied must be on, not {', '.join(on) or 'none'}")
    if now.head_sha != then.head_sha:
        why.append("the head moved since the label was applied; take the label off, look again, and re-apply it")
    if now.merge_sha is None:
        why.append("there is no trial merge; the branch conflicts with its base, or GitHub is still computing it")
    if why:
        return Dispatch(None, tuple(why))
    sweep, asked = policy.labels.sweeps[on[0]], effects(now.labels, policy)
    inputs = {
        "pr-number": now.number,
        "merge-sha": now.merge_sha,
        "base-sha": now.base_sha,
        "head-sha": now.head_sha,
        "trim-conc": sweep.trimmed,
        "all-evals": "all-evals" in asked,
        "evals-only": "evals-only" in asked,
        "fail-fast": sweep.fail_fast,
        "agentx-fast": "fast" in asked,
        "canary": False,  # a canary would start before the trusted sweep has its own say
        "reusable": False,
    }
    return Dispatch(inputs, ())
