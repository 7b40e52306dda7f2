"""The `pr-link` rule: what a canonical link is and which links an added entry may carry at which moment.

A pull request may still carry a placeholder, or its own address; the main branch only canonical links of any number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

DEFAULT_REPOSITORY = "SemiAnalysisAI/InferenceX"
PLACEHOLDER = "XXX"


@dataclass(frozen=True, slots=True)
class Links:
    """Links of one repository (`organisation/name`) as seen from a pull request, from main, or from a branch whose
    pull request has no known number yet (`unnumbered`: placeholders and canonical links of any number pass)."""

    repository: str = DEFAULT_REPOSITORY
    pr: int | None = None
    seen_from: Literal["pull-request", "main", "unnumbered"] = "main"

    @classmethod
    def of(cls, pr: int | None, repository: str = DEFAULT_REPOSITORY) -> Links:
        """The rule for pull request `pr`, or for main when there is no number."""
        return cls(repository, pr, "main" if pr is None else "pull-request")

    @classmethod
    def unnumbered(cls, repository: str = DEFAULT_REPOSITORY) -> Links:
        """The rule for a branch whose pull request is not numbered yet."""
        return cls(repository, None, "unnumbered")

    @property
    def url(self) -> str | None:
        """The canonical address of this pull request; None when its number is not known."""
        return None if self.pr is None else f"{self._prefix}{self.pr}"

    @property
    def _prefix(self) -> str:
        return f"https://github.com/{self.repository}/pull/"

    def is_canonical(self, link: str) -> bool:
        """The whole text is `https://github.com/<organisation>/<name>/pull/<digits>` of this repository."""
        return re.fullmatch(re.escape(self._prefix) + "[0-9]+", link) is not None

    def is_placeholder(self, link: str) -> bool:
        """`XXX`, or the canonical address with `XXX` as its number."""
        return link in (PLACEHOLDER, self._prefix + PLACEHOLDER)

    def allows_in_addition(self, link: str) -> bool:
        """Whether a newly added entry may carry `link`."""
        if self.seen_from == "pull-request":
            return self.is_placeholder(link) or link == self.url
        return self.is_canonical(link) or (self.seen_from == "unnumbered" and self.is_placeholder(link))

    @property
    def allowed(self) -> str:
        """What an added entry may carry, for a message."""
        if self.seen_from == "pull-request":
            return f"`{PLACEHOLDER}`, `{self._prefix}{PLACEHOLDER}` or `{self.url}`"
        canonical = f"`{self._prefix}<number>`"
        return f"`{PLACEHOLDER}` or {canonical}" if self.seen_from == "unnumbered" else canonical
