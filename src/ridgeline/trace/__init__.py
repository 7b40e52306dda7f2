"""Recorded sessions become session trees, and the pacing machine decides when each turn is sent.

In: trace files, or numbers that describe sessions to synthesise. Out: `Session` values, their statistics, prompts as
layouts of token spans, and the pure pacing machine. It refuses to know HTTP, engines and configs. Reading files is
kept in `trace/formats/`; everything else does no IO.
"""
