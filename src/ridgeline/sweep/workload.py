"""What a sweep's cells are loaded with: sessions, the pacing machine and the prompts of each cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ridgeline.core.cell import Cell
from ridgeline.core.errors import InputError, Problem
from ridgeline.sweep.settings import SweepSettings
from ridgeline.trace import load
from ridgeline.trace.corpus import Corpus
from ridgeline.trace.pacing import AgentPacer, ClosedLoopPacer, Pacer
from ridgeline.trace.prompts import PromptSource, make_prompts
from ridgeline.trace.session import Session
from ridgeline.trace.synth import fixed_sessions


class Load(NamedTuple):
    """A cell's pacing machine and prompts. Both are used up by one replay."""

    pacer: Pacer
    prompts: PromptSource


@dataclass(slots=True)
class Workload:
    """The sessions of a sweep, read once and only when a cell needs them."""

    settings: SweepSettings
    trace: Path | None = None
    _corpus: Corpus | None = field(default=None)
    _prompts: dict[str, PromptSource] = field(default_factory=dict)

    def corpus(self) -> Corpus:
        """The recorded sessions. Raises InputError when there are none or the file cannot be read."""
        if self._corpus is None:
            if self.trace is None:
                hint = "give recorded sessions with --trace, or make some with `ridgeline trace synth`"
                raise InputError([Problem("agentic cells need sessions to replay", key="--trace", hint=hint)])
            settings = self.settings
            self._corpus = load(
                self.trace, max_context=settings.max_context, limit=settings.max_sessions, profile=settings.profile
            )
        return self._corpus

    def read(self, cells: Iterable[Cell]) -> None:
        """Read now what these cells need. Raises as `corpus` does."""
        if any(cell.scenario.kind == "agentic-coding" for cell in cells):
            self.corpus()

    def digest(self, cell: Cell) -> str | None:
        """Digest of what a cell replays: of the corpus, or None where the lengths in the cell say it all."""
        return self.corpus().digest if cell.scenario.kind == "agentic-coding" else None

    def source(self, cell: Cell) -> str:
        """What a cell replays, in words."""
        return self.corpus().source if cell.scenario.kind == "agentic-coding" else "synthetic requests of fixed length"

    def load(self, cell: Cell, run_id: str, model: str) -> Load:
        """The load of one cell. `run_id` makes its markers, ids and fixed-length texts its own: equal ids give equal
        bytes."""
        settings = self.settings
        if cell.scenario.kind == "agentic-coding":
            sessions: Sequence[Session] = self.corpus().sessions
            pacer: Pacer = AgentPacer(sessions, settings.agentic(cell.concurrency, run_id))
            if model not in self._prompts:  # prompts differ between cells by the send's own marker alone
                self._prompts[model] = make_prompts(sessions, settings.prompts, model=model, seed=settings.seed)
            return Load(pacer, self._prompts[model])
        else:
            pacing = settings.fixed(cell.concurrency, run_id)
            count = (pacing.requests or 0) + pacing.warmup_requests
            isl, osl = cell.scenario.isl or 0, cell.scenario.osl or 0
            sessions = fixed_sessions(isl, osl, count, seed=settings.seed, run=run_id)
            pacer = ClosedLoopPacer(sessions, pacing)
        return Load(pacer, make_prompts(sessions, settings.prompts, model=model, seed=settings.seed))
