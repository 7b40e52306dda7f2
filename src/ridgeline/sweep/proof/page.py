"""The reference page of evidence: what is promised, what proves it, and which parsers have seen a real log."""

from __future__ import annotations

from ridgeline.launch.engines import ENGINES, router, stores
from ridgeline.launch.engines.shapes import Shape
from ridgeline.sweep.proof.observed import FULL_OF_HISTORIES
from ridgeline.sweep.proof.promises import (
    AFFINITY,
    CONTAMINATION,
    GRAPH_MISSES,
    IMBALANCE,
    KV_SLACK,
    LANES_A_RANK,
    PREEMPTED,
    PREFIX_GAP,
)
from ridgeline.sweep.proof.verdict import CODES, TOLERANCE

_HEAD = """# Evidence

<!-- Written by `make docs`; a test holds it equal to the registers. -->

Before a run, each check that passes leaves an *expectation*: `kv_tokens >= 1900000`. After it, *evidence* is read from
logs, server metrics and the answers' usage. Every expectation is then

- **confirmed**: all evidence of its name agrees (each rank writes its own line);
- **contradicted**: some of it does not: the point is *degraded*, is on no frontier, and says why;
- **unproven**: there is none: the point is *unproven*, never silently valid.

That a line does **not** appear (`== absent`) proves something only in a log in which something else was recognised. A
line whose shape has changed in a newer engine matches nothing, so what it used to prove becomes unproven.

A finished cell keeps `evidence.json` (name, value, file, line, byte offset, parser with version) and `proof.json`
(each expectation, how it stands, and by which evidence).

## What every run promises

| | promise | where it applies |
|---|---|---|
"""


def render() -> str:
    """The page, Markdown."""
    rows = (
        ("E0", "`engine_told`: the words of the engine's log and metrics are known", "`command` and `shell`"),
        ("E1", "`engines` equals the data-parallel ranks of the cell", "engines with metrics"),
        ("E2", f"`prefix_hit` above 0; `prefix_gap` at most {PREFIX_GAP:g}: hits below what this run could find "
               "again, judged only while the pool never filled up and live sessions hold under "
               f"{FULL_OF_HISTORIES:.0%} of it", "agentic cells"),
        ("E3", f"`affinity` at least {AFFINITY:g}: share of returning turns that find most of their session",
         "agentic cells with several ranks"),
        ("E4", f"`preempted_share` at most {PREEMPTED:g} of the requests", "engines with metrics"),
        ("E5", "`router_retries` and `router_breaker` are 0", "cells with a router"),
        ("E6", "`external_hit` above 0: an arm with an outer KV cache in which nothing is found is one without",
         "agentic cells with KV offloading"),
        ("E6", "no `store_trouble`: evictions that failed, leases or locks that expired", "cells with a KV store"),
        ("E7", f"`rank_imbalance` at most {IMBALANCE:g}: the busiest rank against the mean, in prompt tokens",
         f"several ranks, from {LANES_A_RANK} lanes a rank on"),
        ("E8", f"`graph_misses` at most {GRAPH_MISSES:g} of the small steps", "engines that print the table"),
        ("E10", f"`contamination` at most {CONTAMINATION:g}: prompt tokens cached before the first answer",
         "agentic cells that share an engine start with an earlier one"),
        ("E11", "`kv_handed_over` above 0 bytes", "cells whose prefill workers hand KV to decode workers"),
        ("E9", f"`kv_tokens` within {KV_SLACK:.0%} of the prediction, `full_graphs`, `prefix_caching`",
         "the emulated engine, whose memory is known exactly"),
    )  # fmt: skip
    parts = [_HEAD, *(f"| {code} | {text} | {place} |\n" for code, text, place in rows), _codes()]
    for kind in ENGINES.values():
        if kind.shapes and kind.kind != "emulated":
            parts.append(_table(f"`{kind.kind}`: {kind.about}", kind.parser, kind.shapes))
    parts.append(_table("`vllm-router`", router.PARSER, router.SHAPES))
    parts.append(_table("LMCache's server and Mooncake's master", stores.PARSER, stores.SHAPES))
    parts.append(
        "\nThe emulated engine logs in vLLM's words and is read by vLLM's parser. What a `shell` script or a\n"
    )
    parts.append(
        "`command` started is read in the words of its cell's framework; without one of these, E0 stays unproven.\n"
    )
    return "".join(parts)


def _codes() -> str:
    lines = ["\n## Reasons\n\n| code | expectation | what it means when it does not hold |\n|---|---|---|\n"]
    lines += [f"| `{code}` | `{name}` | {meaning} |\n" for name, (code, meaning) in CODES.items()]
    tolerated = ", ".join(f"`{name}` {share:.0%}" for name, share in TOLERANCE.items())
    lines.append(f"\nAn expectation without an entry is its own code. Measured values equal within: {tolerated}.\n")
    return "".join(lines)


def _table(title: str, parser: str, shapes: tuple[Shape, ...]) -> str:
    seen: dict[str, bool] = {}
    for shape in shapes:
        seen[shape.claim] = seen.get(shape.claim, False) or shape.seen
    rows = [f"| `{claim}` | {'yes' if real else 'no'} |\n" for claim, real in seen.items()]
    return f"\n## {title}\n\nParser `{parser}`.\n\n| claim | seen in a real log |\n|---|---|\n" + "".join(rows)
