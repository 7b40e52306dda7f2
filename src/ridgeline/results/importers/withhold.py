"""Percentiles that too few samples stand behind are withheld on the way in, as they are in our own points.

In: measures with their sample counts. Out: the same, with a reason in place of such percentiles. The value stays in
the kept source file. Where a source does not tell its count nothing is withheld, and the count stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ridgeline.core.point import Measure
from ridgeline.results.metrics.statistics import samples_needed

_PERCENTILE = re.compile(r"\.p(\d+(?:\.\d+)?)$")


def withheld(measures: Mapping[str, Measure]) -> dict[str, Measure]:
    """Measures without percentiles that their `n` does not carry."""
    found = {}
    for name, measure in measures.items():
        match = _PERCENTILE.search(name)
        if match and measure.value is not None and measure.n is not None:
            share = match.group(1)
            need = samples_needed(float(share))
            if measure.n < need:
                reason = f"withheld: p{share} needs {need} samples, there are {measure.n}"
                measure = Measure(None, measure.unit, measure.n, reason)
        found[name] = measure
    return found
