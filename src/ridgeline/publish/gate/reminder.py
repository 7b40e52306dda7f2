"""What a contributor is told once, when a change to the benchmarks comes up for review.

In: an event's action, the changed files, the comments that are there. Out: the reminder's comment when it is due. Its
words are the policy's. All comments are looked at, so that it is not repeated in long conversations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ridgeline.publish.forge.event import Comment
from ridgeline.publish.gate.policy import GatePolicy, matches

MARKER = "<!-- ridgeline-reminder -->"


def due(action: str, files: Iterable[str], comments: Sequence[Comment] | None, policy: GatePolicy) -> str | None:
    """The comment to write now; None when there is nothing to say, or it was said. Only apps' comments count: anyone
    may write the marker. `comments` None: nobody could look."""
    told = policy.reminder
    if told is None or action not in told.actions or not any(matches(path, told.paths) for path in files):
        return None
    if any(one.body.startswith(MARKER) and one.author.endswith("[bot]") for one in comments or ()):
        return None
    return f"{MARKER}\n{told.text.replace('{label}', policy.labels.recommended).strip()}\n"
