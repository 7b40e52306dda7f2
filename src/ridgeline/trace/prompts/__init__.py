"""From a send to what the model reads: as spans of tokens (for engines in virtual time) or as bytes (for the wire)."""

from __future__ import annotations

from ridgeline.trace.prompts.api import Layout, PromptSource, Span
from ridgeline.trace.prompts.make import make_prompts

__all__ = ["Layout", "PromptSource", "Span", "make_prompts"]
