"""Cells become a run.

The only room that joins the others: groups cells by engine, launches, replays, aggregates, stores, resumes. It holds
no formula and no protocol of its own.
"""
