"""A corpus: sessions in order, and where they came from."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.trace.session import Session

PROFILES = ("agentx", "aiperf-0.13")


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Sessions ready to be replayed.

    `clock`: how the times inside subagents were read, "relative" (to the spawn), "absolute" (on the session's clock),
    or "none" when nothing told. `digest`: sha256 (hex) of the chosen records' text and of what shaped them.
    `context_dropped`: sessions left out because their longest context exceeded the limit asked for.
    """

    sessions: tuple[Session, ...]
    source: str
    format: str
    digest: str
    clock: str = "none"
    profile: str = "agentx"
    context_dropped: int = 0
    notes: tuple[str, ...] = ()

    def session(self, session_id: str) -> Session:
        """The session called so. Raises KeyError."""
        for session in self.sessions:
            if session.id == session_id:
                return session
        raise KeyError(session_id)


def peak_context(session: Session) -> int:
    """The longest context any request of the session needs: input and at least one output token."""
    return max(turn.input_tokens + turn.max_tokens for conv in session.conversations for turn in conv.turns)
