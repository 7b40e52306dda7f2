"""Trace files of every known format become a `Corpus`. The only part of `trace/` that reads files."""

from ridgeline.trace.formats.load import load

__all__ = ["load"]
