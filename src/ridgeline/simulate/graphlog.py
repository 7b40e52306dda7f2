"""What the emulated engine logs about itself beyond memory, in vLLM's words: its configuration, the graphs it
captures, and, when it stops, what its steps ran as (vLLM's `--cudagraph-metrics` table)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ridgeline.engine.graphs import FULL, NONE, PIECEWISE, Ladder
from ridgeline.engine.options import EngineOptions
from ridgeline.simulate.batch import Batch
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import CostParameters

_HEAD = ("Unpadded Tokens", "Padded Tokens", "Num Paddings", "Runtime Mode", "Count")


class CountedSteps(StepCost):
    """Prices steps and counts what they ran as: (tokens of the busiest rank, tokens after padding, mode), and those in
    which every rank only decoded by mode alone."""

    def __init__(self, options: EngineOptions, parameters: CostParameters) -> None:
        super().__init__(options, parameters)
        self.ran: Counter[tuple[int, int, str]] = Counter()
        self.decodes: dict[str, int] = {FULL: 0, PIECEWISE: 0, NONE: 0}

    def mode(self, batches: Iterable[Batch | None], tokens: Sequence[int]) -> str:
        batches = tuple(batches)
        found = super().mode(batches, tokens)
        most = max(tokens)
        self.ran[most, self._padded(most, found), found] += 1
        if not any(batch.chunks for batch in batches if batch):
            self.decodes[found] += 1
        return found


def configuration_line(options: EngineOptions, ladder: Ladder, version: str) -> str:
    """The line vLLM begins with, cut to what evidence is read from."""
    return (
        f"Initializing a V1 LLM engine (v{version}) with config: model='{options.arch.name}', "
        f"max_seq_len={options.max_model_len}, kv_cache_dtype={options.kv_cache_dtype}, seed={options.seed}, "
        f"enable_prefix_caching={options.enable_prefix_caching}, enable_chunked_prefill=True, "
        f"compilation_config={{'cudagraph_mode': <CUDAGraphMode.{ladder.mode}>, "
        f"'cudagraph_capture_sizes': {list(ladder.sizes)}}}"
    )


def capture_lines(ladder: Ladder) -> list[str]:
    """The last state of vLLM's progress bars."""
    kinds = (("mixed prefill-decode, PIECEWISE", ladder.piecewise), ("decode, FULL", ladder.full))
    return [f"Capturing CUDA graphs ({kind}): 100%|##########| {len(s)}/{len(s)}" for kind, s in kinds if s]


def step_table(ran: Counter[tuple[int, int, str]]) -> list[str]:
    """vLLM's table of what steps ran as, most frequent first."""
    rows = [(n, padded, padded - n, mode, count) for (n, padded, mode), count in ran.most_common()]
    words = [tuple(map(str, row)) for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(_HEAD, *words, strict=True)]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in (_HEAD, *words)]
    return ["**CUDAGraph Stats:**", lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]]


def step_counters(steps: CountedSteps) -> list[str]:
    """Lines of the metrics page: decoding steps by what they ran as."""
    name = "ridgeline:emulator_decode_steps_total"
    head = [f"# HELP {name} Steps in which every rank only decoded, by graph mode.", f"# TYPE {name} counter"]
    return head + [f'{name}{{mode="{mode}"}} {float(count)}' for mode, count in steps.decodes.items()]
