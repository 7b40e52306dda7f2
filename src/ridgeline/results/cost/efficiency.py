"""Tokens per joule and per dollar, with their inputs.

In: a point and a price sheet (either may lack what a number needs). Out: measures that follow from others by the
formulas of the register; a missing input makes a missing value that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ridgeline.core.point import Measure, Point
from ridgeline.results.cost.prices import PriceSheet
from ridgeline.results.metrics import METRICS
from ridgeline.results.metrics.cost import NO_POWER, NO_PRICES, PARTS

SECONDS_AN_HOUR = 3600
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Derived:
    """A measure with the formula it follows from and the inputs by name (None: missing)."""

    measure: Measure
    formula: str
    inputs: Mapping[str, float | None]


def efficiency(point: Point, sheet: PriceSheet | None) -> dict[str, Derived]:
    """Every measure of cost and energy of a point."""
    found: dict[str, Derived] = {}
    price = sheet.gpu_hour(str(point.facts.get("hardware", ""))) if sheet else None
    no_price = f"{sheet.name} has no price for {point.facts.get('hardware')}" if sheet else NO_PRICES
    for part in PARTS:
        joules = point.measures.get(f"power.joules_per_{part}_token")
        each = joules.value if joules else None
        value = 1 / each if each else None
        why = (joules.reason if joules else None) or NO_POWER
        found[f"tokens_per_joule.{part}"] = _derived(
            "tokens_per_joule", value, why, {f"power.joules_per_{part}_token": each}
        )
        rate = point.measures.get(f"throughput_per_gpu.{part}")
        per_gpu = rate.value if rate else None
        inputs = {f"throughput_per_gpu.{part}": per_gpu, "price of a GPU-hour": price}
        why = no_price if price is None else (rate.reason if rate and rate.reason else "no throughput")
        n = rate.n if rate else None
        known = per_gpu is not None and per_gpu > 0 and price is not None
        tokens = SECONDS_AN_HOUR * per_gpu / price if known and per_gpu and price else None
        found[f"tokens_per_dollar.{part}"] = _derived("tokens_per_dollar", tokens, why, inputs, n)
        found[f"dollars_per_million.{part}"] = _derived(
            "dollars_per_million", MILLION / tokens if tokens else None, why, inputs, n
        )
    found["revenue_per_gpu_hour"] = _revenue(point, sheet)
    return found


def _revenue(point: Point, sheet: PriceSheet | None) -> Derived:
    model = str(point.facts.get("model_prefix", ""))
    prices = sheet.tokens.get(model) if sheet else None
    hit = point.value("server_cache_hit")
    hit = point.value("usage_cache_hit") if hit is None else hit
    rates = {part: point.value(f"throughput_per_gpu.{part}") for part in ("input", "output")}
    inputs = {
        **{f"throughput_per_gpu.{part}": rate for part, rate in rates.items()},
        "cache hit": hit,
        "input price": prices.input if prices else None,
        "cached-input price": prices.cached_input if prices else None,
        "output price": prices.output if prices else None,
    }
    tokens_in, tokens_out = rates["input"], rates["output"]
    if prices is None:
        why = f"{sheet.name} has no token prices for {model}" if sheet else NO_PRICES
    elif tokens_in is None or tokens_out is None:
        why = "input and output throughput are not both known"
    elif hit is None:
        why = "the cache hit rate is not known, so neither is what was sold as cached input"
    else:
        # A seller without a price for cached input sells it as input.
        cached = prices.input if prices.cached_input is None else prices.cached_input
        paid = tokens_in * ((1 - hit) * prices.input + hit * cached) + tokens_out * prices.output
        return _derived("revenue_per_gpu_hour", SECONDS_AN_HOUR * paid / MILLION, "", inputs)
    return _derived("revenue_per_gpu_hour", None, why, inputs)


def _derived(
    metric: str, value: float | None, why: str, inputs: Mapping[str, float | None], n: int | None = None
) -> Derived:
    """`n`: samples behind the rate that it follows from."""
    about = METRICS[metric]
    measure = Measure(value, about.unit, n, None if value is not None else why)
    return Derived(measure, about.formula, dict(inputs))


def priced(point: Point, sheet: PriceSheet | None) -> Point:
    """The point with its measures of cost and energy; its facts name the price sheet and the prices that were used."""
    found = efficiency(point, sheet)
    facts = dict(point.facts)
    if sheet is not None:
        used = {name: value for item in found.values() for name, value in item.inputs.items() if "price" in name}
        facts["price_sheet"] = {**sheet.named, "prices": {name: used[name] for name in sorted(used)}}
    measures = {name: item.measure for name, item in found.items()}
    return replace(point, measures={**point.measures, **measures}, facts=facts)


def told(measure: str, points: Iterable[Point]) -> list[str]:
    """How a measure of cost came about, one line a price sheet and set of prices: formula, sheet, prices."""
    about = METRICS.get(measure.partition(".")[0])
    if about is None or about.family != "cost":
        return []
    lines = [f"{measure} = {about.formula}"]
    for point in points:
        sheet = point.facts.get("price_sheet")
        if isinstance(sheet, Mapping):
            known = {n: value for n, value in sheet["prices"].items() if value is not None and n in about.formula}
            prices = ", ".join(f"{name} {value:g} USD" for name, value in known.items()) or "none for it"
            since = f", valid from {sheet['valid_from']}" if sheet["valid_from"] else ""
            line = f"   {point.facts.get('hardware')}: {prices} ({sheet['name']}{since}, {sheet['digest'][:8]})"
            if line not in lines:
                lines.append(line)
    return lines
