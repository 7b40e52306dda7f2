"""Every metric a point can hold, defined once. Importing this package fills the register.

In: a `Scope`. Out: measures with unit, sample count and a reason when missing. No IO.
"""

from ridgeline.results.metrics import cache, client, cost, engine, latency, outcomes, speed, throughput, tokens
from ridgeline.results.metrics.registry import METRICS, Metric, axis, metric_of
from ridgeline.results.metrics.scope import Scope, Slo

__all__ = ["METRICS", "Metric", "Scope", "Slo", "axis", "metric_of"]

_MODULES = (latency, speed, throughput, outcomes, tokens, cache, engine, client, cost)
