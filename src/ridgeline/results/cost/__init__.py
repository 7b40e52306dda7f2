"""Power and cost on points: a versioned price sheet, and tokens per joule and per dollar with their inputs shown.

In: a point (with power measures where there was a log) and a price sheet. Out: measures, each with its formula and the
numbers it was made of. No price is built in: prices are somebody's, and the sheet says whose.
"""

from ridgeline.results.cost.efficiency import Derived, efficiency, priced, told
from ridgeline.results.cost.prices import PriceSheet, TokenPrices, load_prices

__all__ = ["Derived", "PriceSheet", "TokenPrices", "efficiency", "load_prices", "priced", "told"]
