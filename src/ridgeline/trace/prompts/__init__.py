"""From a send to what the model reads: as spans of tokens (for engines in virtual time) or as bytes (for the wire)."""

from ridgeline.trace.prompts.api import Layout, PromptSource, Span

__all__ = ["Layout", "PromptSource", "Span"]
