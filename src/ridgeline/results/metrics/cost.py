"""Cost and energy: what a point's throughput is worth. Records know neither prices nor watts, so here is only what the
numbers are; `results.cost` works them out where a price sheet or a power log is given."""

from __future__ import annotations

from ridgeline.results.metrics.registry import Amount, metric
from ridgeline.results.metrics.scope import Scope

PARTS = ("total", "input", "output")
NO_PRICES = "no price sheet was given"
NO_POWER = "no power was measured"


@metric(
    "tokens_per_joule",
    title="Tokens per joule",
    unit="tok/J",
    better="higher",
    kind="parts",
    parts=PARTS,
    formula="tokens (total, input or output) of the window / energy of all GPUs over the window",
    source="the inverse of InferenceX joules_per_*_token",
    pitfalls="GPUs only, without hosts, network and cooling; each part has the whole energy below it, so parts do not "
    "compare with each other",
)
def tokens_per_joule(scope: Scope) -> dict[str, Amount]:
    return dict.fromkeys(PARTS, Amount(None, None, NO_POWER))


@metric(
    "tokens_per_dollar",
    title="Tokens per dollar",
    unit="tok/USD",
    better="higher",
    kind="parts",
    parts=PARTS,
    formula="3600 x throughput_per_gpu / price of a GPU-hour",
    source="ours; the inverse of the usual dollars per million tokens",
    pitfalls="throughput is per GPU already: the price is not multiplied by GPUs again; the sheet is named",
)
def tokens_per_dollar(scope: Scope) -> dict[str, Amount]:
    return dict.fromkeys(PARTS, Amount(None, None, NO_PRICES))


@metric(
    "dollars_per_million",
    title="Dollars per million tokens",
    unit="USD/Mtok",
    better="lower",
    kind="parts",
    parts=PARTS,
    formula="price of a GPU-hour x 1,000,000 / (3600 x throughput_per_gpu)",
    source="InferenceX cost per million tokens",
    pitfalls="never read it off a curve between two points: read the throughput and take the price of that",
)
def dollars_per_million(scope: Scope) -> dict[str, Amount]:
    return dict.fromkeys(PARTS, Amount(None, None, NO_PRICES))


@metric(
    "revenue_per_gpu_hour",
    title="Revenue per GPU-hour",
    unit="USD/GPU-hour",
    better="higher",
    kind="scalar",
    formula="3600 / 1,000,000 x (input x ((1 - hit) x input price + hit x cached-input price) + output x output "
    "price), input and output as throughput_per_gpu, hit as the server's prefix cache hit rate",
    source="ours; token prices are what a price sheet says a model sells for",
    pitfalls="every token sold: an upper bound; without a hit rate nothing is known to be cached, and it is missing",
)
def revenue_per_gpu_hour(scope: Scope) -> Amount:
    return Amount(None, None, NO_PRICES)
