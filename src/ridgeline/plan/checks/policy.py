"""C3: the image can be pulled again, the same. (C1 and C2 judge pull requests, see `ridgeline changelog validate`.)"""

from __future__ import annotations

import re

from ridgeline.plan.checks.rule import Rule, Said, fails, passes, warns
from ridgeline.plan.checks.subject import Subject

_MOVING = ("latest", "nightly", "main", "dev", "edge")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


def image(subject: Subject) -> Said:
    """C3: the tag names one image for ever."""
    name, where = subject.cell.benchmark.image, subject.cell.where
    if "@sha256:" in name:
        yield passes("the image is pinned by digest", where=where)
        return
    _, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        yield fails(
            f"`{name}` has no tag: it is whatever is newest when it is pulled",
            where=where,
            hint="name a version or a digest",
        )
    elif tag in _MOVING or (any(word in tag for word in _MOVING) and not _COMMIT.search(tag)):
        yield warns(f"tag `{tag}` moves", where=where, hint="name a version, a commit or a digest")
    else:
        yield passes(f"tag `{tag}` names one build", where=where)


RULES = (
    Rule("C3", "The image is immutable", image, "A tag that moves makes a point that nobody can repeat.",
         "InferenceX's policy", "`:latest` warns, no tag at all fails, `nightly-COMMIT` passes."),
)  # fmt: skip
