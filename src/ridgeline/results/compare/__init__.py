"""Comparing two runs with honesty about noise.

In: points with repeats of both sides. Out: matched differences with intervals, verdicts, what changed, what to run
again. The statistics and their reasons are in design/gate-statistics.md.
"""

from ridgeline.results.compare.compare import MEASURES, Compared, Comparison, Difference, Side, compare
from ridgeline.results.compare.verdict import Verdict

__all__ = ["MEASURES", "Compared", "Comparison", "Difference", "Side", "Verdict", "compare"]
