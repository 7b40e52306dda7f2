"""KV pools that vLLM's pages tell of, rank by rank.

In: scrapes. Out: tokens of every rank, from the labels of its `vllm:cache_config_info` line. Two traps, both from the
engine's source (0.32: `EngineCoreReadyResponse`, `StatLogger.log_metrics_info`):

- A front end adds up `num_gpu_blocks` over all the engines it drives and repeats that sum in the line of each, so that
  a rank's share is the sum over the number of lines.
- Blocks times their size is too much where a request takes blocks of several groups (hybrid models). Newer builds say
  `kv_cache_size_tokens`: one engine's, never summed.
"""

from __future__ import annotations

import re

from ridgeline.results.metrics.scrapes import Line, Scrapes

_FACT = re.compile(r'(\w+)="([^"]*)"')


def vllm_pools(scrapes: Scrapes) -> list[tuple[Line, float]]:
    """The lines that tell a size, and the tokens of the rank that each stands for. Of an engine that was started again
    the last line counts."""
    pages: dict[str, dict[str, tuple[Line, dict[str, str]]]] = {}
    for line in sorted(scrapes.own("vllm:cache_config_info"), key=lambda line: line.at_ns[-1]):
        facts = dict(_FACT.findall(line.labels))
        pages.setdefault(line.endpoint, {})[facts.get("engine", "")] = (line, facts)
    found = []
    for page in pages.values():
        for line, facts in page.values():
            # Lines that differ are each about a rank of their own: no front end that we know of, but the plain reading.
            alike = sum(other.get("num_gpu_blocks") == facts.get("num_gpu_blocks") for _, other in page.values())
            own, blocks = _count(facts, "kv_cache_size_tokens"), _count(facts, "num_gpu_blocks")
            size = _count(facts, "block_size")
            if own is not None:
                found.append((line, float(own)))
            elif blocks is not None and size is not None:
                found.append((line, blocks * size / alike))
    return found


def _count(facts: dict[str, str], name: str) -> int | None:
    """A positive number; None where the page says something else, as it does before the pool is sized."""
    text = facts.get(name, "")
    return int(text) if text.isdigit() and int(text) > 0 else None
