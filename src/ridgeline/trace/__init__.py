"""Recorded sessions become session trees, and the pacing machine decides when each turn is sent.

In: trace files, or numbers that describe sessions to synthesise. Out: `Session` values, their statistics, prompts as
layouts of token spans, and the pure pacing machine. It refuses to know HTTP, engines and configs. Reading files is
kept in `trace/formats/`; everything else does no IO.
"""

from __future__ import annotations

from pathlib import Path

from ridgeline.trace.corpus import Corpus

__all__ = ["Corpus", "load"]


def load(
    path: str | Path,
    *,
    format: str | None = None,
    max_context: int | None = None,
    limit: int | None = None,
    profile: str = "agentx",
) -> Corpus:
    """Sessions of a trace file or folder: see `ridgeline.trace.formats.load.load`."""
    from ridgeline.trace.formats import load as read  # the readers' libraries are loaded only when used

    return read(path, format=format, max_context=max_context, limit=limit, profile=profile)
