"""C3: the image can be pulled again, the same. (C1 and C2 judge pull requests, see `ridgeline changelog validate`.)"""

from __future__ import annotations

import re

from ridgeline.plan.checks.rule import Rule, Said, fails, passes, warns
from ridgeline.plan.checks.subject import Subject

_MOVING = ("latest", "nightly", "main", "dev", "edge")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


def image(subject: Subject) -> Said:
    """C3: the tag names one image for ever."""
    name = subject.cell.benchmark.image
    _, colon, tag = name.rpartition(":")
    if "@sha256:" in name:
        yield passes("the image is pinned by digest")
    elif not colon or "/" in tag:
        text = f"`{name}` has no tag: it is whatever is newest when it is pulled"
        yield fails(text, hint="name a version or a digest")
    elif tag in _MOVING or (any(word in tag for word in _MOVING) and not _COMMIT.search(tag)):
        yield warns(f"tag `{tag}` moves", hint="name a version, a commit or a digest")
    else:
        yield passes(f"tag `{tag}` names one build")


RULES = (
    Rule("C3", "The image is immutable", image, "A tag that moves makes a point that nobody can repeat.",
         "InferenceX's policy", "`:latest` warns, no tag at all fails, `nightly-COMMIT` passes.", whole=True),
)  # fmt: skip
