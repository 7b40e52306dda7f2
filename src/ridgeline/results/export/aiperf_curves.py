"""AIPerf's curves over time: how many requests were in flight, and at what rate tokens went in and came out.

In: a few numbers of every good request, and the gaps between its chunks. Out: for each curve its statistics over a
window, weighted by time (`effective_*`, `tokens_in_flight`), and over those parts of it in which the phase in question
had a request at all (`active_*`).

A request is in prefill from its start to its first token and decodes from there to its end. Its prompt's tokens go in
evenly over its prefill; of its n output tokens one comes with the first chunk and the others evenly with the chunks
after it. The total counts the others evenly over the whole decode instead. Found in recorded exports of AIPerf 0.13 and
of its fork, which a test repeats.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ridgeline.results.metrics.scrapes import Window
from ridgeline.results.sweepline import Floats, Ints

MOST_GAPS = 500_000  # beyond, tokens count as even over the decode: the curves take 100 bytes a gap
QUANTILES = (50, 90, 95, 99)
_RESIDUE = 1e-9  # of the highest value: what is left of sums that should have cancelled


@dataclass(frozen=True)
class Steps:
    """A function that holds `values[i]` from `at[i]` to `at[i + 1]`, and nothing before the first."""

    at: Floats
    values: Floats

    @classmethod
    def of(cls, at: Sequence[Floats], change: Sequence[Floats]) -> Steps:
        """The running sum of changes at moments in any order."""
        moments, changes = np.concatenate(at), np.concatenate(change)
        order = np.argsort(moments)
        values = np.cumsum(changes[order])
        if len(values):
            values[np.abs(values) < _RESIDUE * np.abs(values).max()] = 0.0
        return cls(moments[order], values)

    @classmethod
    def between(cls, start: Floats, end: Floats, height: Floats) -> Steps:
        """`height` from `start` to `end`, summed over all rows that have all three."""
        known = ~np.isnan(start + end + height)
        start, end, height = start[known], end[known], height[known]
        return cls.of((start, end), (height, -height))

    def on(self, moments: Floats) -> Floats:
        """Its values at other moments."""
        if not len(self.at):
            return np.zeros(len(moments))
        place = np.searchsorted(self.at, moments, side="right") - 1
        return np.where(place >= 0, self.values[place], 0.0)

    def per(self, divisor: Steps) -> Steps:
        """Divided by another, zero where that one is."""
        at = _merged(self.at, divisor.at)
        below = divisor.on(at)
        return Steps(at, np.divide(self.on(at), below, out=np.zeros(len(at)), where=below > 0))

    def statistics(self, window: Window, unit: str, scale: float = 1.0, while_: Steps | None = None) -> dict[str, Any]:
        """Weighted by time over the window, or over where `while_` is above zero; zeros where that is nowhere."""
        inside = self.at[(self.at > window[0]) & (self.at < window[1])]
        if while_ is not None:
            inside = _merged(inside, while_.at[(while_.at > window[0]) & (while_.at < window[1])])
        edges = np.concatenate((window[:1], inside, window[1:]))
        weights, start = np.diff(edges), edges[:-1]
        taken = weights > 0
        if while_ is not None:
            taken &= while_.on(start) > 0
        weights, values = weights[taken], self.on(start)[taken]
        if not len(values):
            return {"unit": unit, "avg": 0.0, **{f"p{q}": 0.0 for q in QUANTILES}, "min": 0.0, "max": 0.0, "std": 0.0}
        order = np.argsort(values)
        share = np.cumsum(weights[order])
        places = np.searchsorted(share / share[-1], [q / 100 for q in QUANTILES])
        spread = values[order][np.minimum(places, len(values) - 1)] * scale
        mean = float(values @ weights / share[-1])
        variance = float((values - mean) ** 2 @ weights / share[-1])
        return {
            "unit": unit,
            "avg": mean * scale,
            **{f"p{q}": float(value) for q, value in zip(QUANTILES, spread, strict=True)},
            "min": float(values.min()) * scale,
            "max": float(values.max()) * scale,
            "std": variance**0.5 * scale,
        }


class Requests(NamedTuple):
    """Columns of good requests: nanoseconds, tokens (NaN: not told), and how many gaps each has in `gaps_ms`."""

    start: Floats
    first: Floats
    end: Floats
    prompt: Floats
    output: Floats
    gaps: Ints
    gaps_ms: array[float]


def curves(requests: Requests, window: Window) -> dict[str, dict[str, Any]]:
    """Every curve's statistics over a window of nanoseconds."""
    start, first, end, prompt, output = requests[:5]
    ones = np.ones(len(start))
    with np.errstate(divide="ignore", invalid="ignore"):
        into = np.where(first > start, prompt / (first - start), np.nan)
        out_of = np.where((end > first) & (output >= 1), (output - 1) / (end - first), np.nan)
    concurrency = Steps.between(start, end, ones)
    prefilling, decoding = Steps.between(start, first, ones), Steps.between(first, end, ones)
    prefill, evenly = Steps.between(start, first, into), Steps.between(first, end, out_of)
    total = Steps.of((prefill.at, evenly.at), (_changes(prefill), _changes(evenly)))
    held = (np.where(first > start, prompt, np.nan), start, end)
    if 0 < len(requests.gaps_ms) <= MOST_GAPS:
        decode, tokens = _by_chunk(requests, held)
    else:
        decode = evenly
        tokens = _sum(
            Steps.between(*held[1:], held[0]), Steps.between(first, end, np.where(end > first, output, np.nan))
        )
    alone = {"prefill": prefill.per(prefilling), "decode": decode.per(decoding)}
    rates = (
        ("decode_throughput", decode, decoding, "tokens/sec"),
        ("prefill_throughput", prefill, prefilling, "tokens/sec"),
        ("total_throughput", total, concurrency, "tokens/sec"),
        ("decode_throughput_per_user", alone["decode"], decoding, "tokens/sec/user"),
        ("prefill_throughput_per_user", alone["prefill"], prefilling, "tokens/sec/user"),
    )
    counts = (("", concurrency), ("decode_", decoding), ("prefill_", prefilling))
    found = {f"effective_{name}concurrency": curve.statistics(window, "requests") for name, curve in counts}
    found |= {f"effective_{name}": curve.statistics(window, unit, 1e9) for name, curve, _, unit in rates}
    found |= {f"active_{name}": curve.statistics(window, unit, 1e9, phase) for name, curve, phase, unit in rates}
    return found | {"tokens_in_flight": tokens.statistics(window, "tokens")}


def _by_chunk(requests: Requests, held: tuple[Floats, Floats, Floats]) -> tuple[Steps, Steps]:
    """The rate of decode and the tokens in flight, where chunks tell when tokens came."""
    owner = np.repeat(np.arange(len(requests.gaps)), requests.gaps)
    gaps = np.array(requests.gaps_ms, dtype=np.float64) * 1e6
    before = np.cumsum(requests.gaps) - requests.gaps  # gaps of earlier requests
    passed = np.cumsum(gaps)
    base = np.where(before > 0, passed[np.maximum(before, 1) - 1], 0.0)
    ends = requests.first[owner] + (passed - base[owner])
    # Chunks read at one moment share it: tokens come in the gaps that have a length.
    long = np.bincount(owner[gaps > 0], minlength=len(requests.gaps))[owner]
    rest = requests.output[owner] - 1
    told = rest >= 0
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(told & (gaps > 0), rest / long / gaps, 0.0)
    some = np.flatnonzero(requests.gaps)
    after = np.append(rate[1:], 0.0)
    after[before[some] + requests.gaps[some] - 1] = 0.0  # a request's last gap is followed by nothing
    decode = Steps.of((requests.first[some], ends), (rate[before[some]], after - rate))
    del after, rate
    prompt, start, end = held
    grows = np.where(told, rest / requests.gaps[owner], 0.0)
    chunked = (requests.gaps > 0) & (requests.output >= 1)
    some = np.flatnonzero(chunked)
    output = requests.output[some]
    tokens = Steps.of(
        (np.minimum(ends, requests.end[owner])[told], requests.first[some], requests.end[some]),
        (grows[told], np.ones(len(some)), -output),
    )
    return decode, _sum(tokens, Steps.between(start, end, prompt))


def _merged(one: Floats, other: Floats) -> Floats:
    """Two rising sequences as one: a stable sort takes a single pass over them."""
    return np.sort(np.concatenate((one, other)), kind="stable")


def _changes(steps: Steps) -> Floats:
    return np.diff(steps.values, prepend=0.0)


def _sum(one: Steps, other: Steps) -> Steps:
    return Steps.of((one.at, other.at), (_changes(one), _changes(other)))
