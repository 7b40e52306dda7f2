"""The comparison of a change's results with the published line, as the gate's comment shows it.

The verdict is `results.compare`'s, never computed here. Values are what it found, with the reason where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Matched(NamedTuple):
    """One cell on both sides. `change`: relative, None with a `verdict` that says why. Values in `unit`."""

    name: str
    before: float | None
    after: float | None
    unit: str
    change: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Performance:
    """`verdict`: better, same, worse, mixed or unclear. `picture`: where the frontier's picture lies (a path or an
    address). `command` reproduces the comparison; `overlay` opens the run over the published line on a dashboard, and
    `serve` starts one that has it."""

    verdict: str
    sentence: str
    matched: tuple[Matched, ...] = ()
    unmatched: tuple[str, ...] = ()
    picture: str | None = None
    command: str | None = None
    overlay: str | None = None
    serve: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "matched": [one._asdict() for one in self.matched],
            "unmatched": list(self.unmatched),
            "picture": self.picture,
            "command": self.command,
            "overlay": self.overlay,
            "serve": self.serve,
        }
