"""How wide a prediction's band is: the middle 80 % of what is expected, from the spread of earlier misses.

A parameter set that was fitted says how far layouts missed that it had not seen. Where nothing was fitted, where a row
left something out, and for measures that no fit looks at, the spreads below stand; each is the robust standard
deviation of log(predicted / measured) over public points, of a hit rate that of the plain difference.
"""

from __future__ import annotations

import math

from ridgeline.simulate.points import Measured

BAND = 1.2816  # standard deviations on each side of an 80 % band
UNFITTED = 0.35  # tokens/s/GPU and time per token of GPUs and engines without a set of their own or a relative's
UNSEEN = 0.30  # at least that for a model that no fit of the set has seen, and
STRANGER = 1.5  # times the set's own spread: errors of models left out over those of layouts left out
POOLS = 0.35  # prefill and decode on workers of their own, on GPUs that no set was fitted on with pools
FIRST, FIRST_POOLS = 1.0, 2.0  # first tokens under a closed loop of fixed lengths; behind a prefill pool
ASSUMED = 1.3  # wider for everything that a row does not say
AGENTIC = {
    "tokens/s/GPU": 0.35,
    "output tokens/s/GPU": 0.5,
    "time per token": 0.35,
    "first token": 0.8,
    "cache hit": 0.15,
}
AGENTIC_POOLS = 2.5  # times those behind a prefill pool, whose cache tiers tables do not say
EXACT = {"step time": 0.06, "weights": 0.01, "KV tokens": 0.02}  # on the machine whose parameters were measured


def spread_of(point: Measured, measure: str, fitted: float | None, *, seen: bool = True) -> float:
    """Standard deviation that is expected of a point's prediction (see `expected_spread`)."""
    pools, agentic = point.prefill is not None, point.kind == "agentic"
    return expected_spread(measure, fitted, agentic=agentic, pools=pools, seen=seen) * ASSUMED ** len(point.assumed)


def expected_spread(
    measure: str, fitted: float | None, *, agentic: bool = False, pools: bool = False, seen: bool = True
) -> float:
    """Standard deviation that is expected of a prediction. `fitted`: what the parameter set says of layouts it had not
    seen; None: it was not held against any points. `seen`: the set was fitted on the model, too. `pools`: behind a
    prefill pool."""
    if measure in EXACT:
        return EXACT[measure]
    if agentic:
        found = AGENTIC[measure] * (AGENTIC_POOLS if pools else 1.0)
    elif measure == "first token":
        found = FIRST_POOLS if pools else FIRST
    elif fitted is None:
        found = UNFITTED
    else:
        found = fitted if seen else max(UNSEEN, STRANGER * fitted)
    return max(found, POOLS) if pools else found


def band(predicted: float, measure: str, spread: float) -> tuple[float, float]:
    """Bounds of the middle 80 %."""
    if measure == "cache hit":
        return max(0.0, predicted - BAND * spread), min(1.0, predicted + BAND * spread)
    width = math.exp(BAND * spread)
    return predicted / width, predicted * width
