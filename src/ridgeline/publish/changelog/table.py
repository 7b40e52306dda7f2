"""A selection for people: what runs, on how many GPUs, grouped by curve. Plain text, no colour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ridgeline.core.topology import Topology
from ridgeline.publish.changelog.rows import Row, bucket, concurrencies
from ridgeline.publish.changelog.selection import Selection

_HEADINGS = ("BUCKET", "BENCHMARK", "RUNNER", "TOPOLOGY", "CONCURRENCY", "JOBS")


def as_table(selection: Selection) -> str:
    """Two sections (throughput, evaluations), one line per benchmark, runner and topology, and the totals."""
    jobs, evals = count(len(selection.throughput), "throughput job"), count(len(selection.evals), "evaluation")
    parts = [f"{count(len(selection.entries), 'entry', 'entries')} added, selecting {jobs}, {evals}"]
    for title, rows in (("Throughput", selection.throughput), ("Evaluations", selection.evals)):
        if rows:
            parts.append(f"\n{title}\n" + _columns([_HEADINGS, *_lines(rows)]))
    return "\n".join(parts) + "\n"


def _lines(rows: Iterable[Row]) -> list[Sequence[str]]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        names = " ".join(str(row[name]) for name in ("model-prefix", "precision", "framework"))
        groups.setdefault((bucket(row), names, str(row["runner"]), topology(row)), []).append(row)
    return [
        (*group, " ".join(_concurrency(row) for row in members), str(len(members))) for group, members in groups.items()
    ]


def topology(row: Mapping[str, Any]) -> str:
    """`TP8EP8`, or `1xTP8+2xTP8` for prefill and decode; speculative decoding and KV offload behind a dash."""
    if isinstance(row.get("prefill"), Mapping):
        text = "+".join(f"{row[pool]['num-worker']}x{_layout(row[pool])}" for pool in ("prefill", "decode"))
    else:
        text = _layout(row)
    options = (row.get("spec-decoding"), row.get("kv-offloading"))
    return "-".join([text, *(str(option) for option in options if option not in (None, "none"))])


def _layout(pool: Mapping[str, Any]) -> str:
    sizes = (pool["tp"], pool.get("pp", 1), pool.get("dcp-size", 1), pool.get("pcp-size", 1), pool.get("ep") or 1)
    return Topology(*sizes, dp_attn=bool(pool.get("dp-attn"))).label


def _concurrency(row: Row) -> str:
    return ",".join(map(str, concurrencies(row)))


def _columns(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 entry`, `2 entries`."""
    return f"{number} {one if number == 1 else many or one + 's'}"
