"""Which side of a conflict is main's: git says ours and theirs, the rule needs to know whose bytes come first."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ridgeline.core.errors import RidgelineError
from ridgeline.publish.changelog.contract import strict
from ridgeline.publish.changelog.links import Links

Main = Literal["auto", "ours", "theirs"]


class Sides(NamedTuple):
    """The two changed revisions by role."""

    pull: bytes
    main: bytes


def sides(base: bytes, ours: bytes, theirs: bytes, links: Links, main: Main = "auto") -> Sides:
    """Assign the roles. `auto`: the one side whose added entries still carry what only a pull request may carry (a
    placeholder, or its own address) is the pull request; if that does not decide, main is being merged into it."""
    if main == "auto":
        decided = _is_open(base, theirs, links) and not _is_open(base, ours, links)
        main = "ours" if decided else "theirs"
    return Sides(ours, theirs) if main == "theirs" else Sides(theirs, ours)


def _is_open(base: bytes, side: bytes, links: Links) -> bool:
    """Whether this side holds added entries of a pull request that is not merged yet."""
    try:
        added = strict(base, side, Links.unnumbered(links.repository)).additions
    except RidgelineError:
        return False
    own = [entry for entry in added if links.is_placeholder(entry.pr_link) or entry.pr_link == links.url]
    return bool(own) and len(own) == len(added)
