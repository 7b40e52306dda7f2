"""Data-parallel ranks of a service: how many its command line asks for, and which of them its metrics show.

In: a service's argv, the text of a metrics page. Out: a number, and for each rank how much it has done. None where the
command line does not tell, or the page has no label for ranks: what cannot be seen is not demanded.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ridgeline.core.deployment import Service
from ridgeline.engine.argv import Flag, flags_of, last


class RankSeries(NamedTuple):
    """Where an engine shows its ranks: `label` of a series, `shown` a metric that every rank has from its start,
    `done` a counter that grows with every request of a rank ("": none is known)."""

    label: str
    shown: str
    done: str = ""


VLLM = RankSeries("engine", "vllm:num_requests_running", "vllm:prompt_tokens_total")
SGLANG = RankSeries("dp_rank", "sglang:num_running_reqs")  # its counters are the front's and have no rank


def vllm_ranks(service: Service) -> int | None:
    """Engines behind this API server: `--data-parallel-size`, or this node's share where each node balances its own."""
    flags = last(flags_of(service.argv)[1])
    if "data-parallel-rank" in flags or "headless" in flags:  # one rank of an outer balancer; a node without a front
        return None
    if "data-parallel-hybrid-lb" in flags:
        return _whole(flags.get("data-parallel-size-local"))
    return _whole(flags.get("data-parallel-size")) or 1


def sglang_ranks(service: Service) -> int | None:
    """`--dp-size`, under any of its names; None where several nodes make one engine."""
    flags = last(flags_of(service.argv)[1])
    if (_whole(flags.get("nnodes")) or 1) > 1:
        return None
    return next((n for name in ("dp-size", "dp", "data-parallel-size") if (n := _whole(flags.get(name)))), 1)


def emulated_ranks(service: Service) -> int | None:
    """Ranks of `ridgeline emulate`: with `--dp-attn` one a GPU."""
    flags = last(flags_of(service.argv)[1])
    return (_whole(flags.get("tp") or flags.get("tensor-parallel-size")) or 1) if "dp-attn" in flags else 1


def shown_ranks(page: str, series: RankSeries) -> dict[str, float] | None:
    """By rank, what its counter says (0 where there is none). None: no series on the page carries the label."""
    found = dict.fromkeys(_labels(page, series.shown, series.label), 0.0)
    if series.done:
        for name, value in _samples(page, series.done):
            if rank := _label(name, series.label):
                found[rank] = found.get(rank, 0.0) + value
    return found or None


def _labels(page: str, metric: str, label: str) -> list[str]:
    return [rank for name, _ in _samples(page, metric) if (rank := _label(name, label))]


def _samples(page: str, metric: str) -> list[tuple[str, float]]:
    """Label text and value of each line of a metric."""
    pattern = re.compile(rf"^{re.escape(metric)}(?:{{([^\n]*)}})? ([-+.\deE]+)", re.MULTILINE)
    return [(match[1] or "", float(match[2])) for match in pattern.finditer(page)]


def _label(text: str, label: str) -> str | None:
    match = re.search(rf'(?:^|,){re.escape(label)}="([^"]*)"', text)
    return match[1] if match else None


def _whole(flag: Flag | None) -> int | None:
    return int(flag.value) if flag and flag.value and flag.value.isdecimal() and int(flag.value) > 0 else None
