"""Which batch sizes vLLM captures as CUDA graphs, and what a step runs as. Algorithm of vLLM 0.19 to 0.26, checked
against its own answers (golden/capture_sizes.json)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

FULL, PIECEWISE, NONE = "FULL", "PIECEWISE", "NONE"

# mode -> (what uniform decode batches run as, what mixed batches run as)
MODES = {
    "FULL_AND_PIECEWISE": (FULL, PIECEWISE),
    "FULL_DECODE_ONLY": (FULL, NONE),
    "FULL": (FULL, FULL),
    "PIECEWISE": (PIECEWISE, PIECEWISE),
    "NONE": (NONE, NONE),
}


@dataclass(frozen=True, slots=True)
class Ladder:
    """Captured sizes in tokens. `query`: tokens per decoding request (1 + speculative tokens)."""

    mode: str
    sizes: tuple[int, ...]  # what is captured
    configured: tuple[int, ...]  # before rounding to multiples of `query`
    query: int
    max_num_seqs: int
    full: tuple[int, ...]  # sizes with a graph for uniform decode batches
    piecewise: tuple[int, ...]
    v2_runner: bool = False

    def padded(self, tokens: int) -> int | None:
        """The captured size a batch of `tokens` is padded to; None above the ladder."""
        index = bisect_left(self.sizes, tokens)
        return self.sizes[index] if index < len(self.sizes) else None

    def runs_as(self, tokens: int, *, uniform: bool) -> str:
        """FULL, PIECEWISE or NONE for a batch. `uniform`: every request has exactly `query` tokens."""
        if self.v2_runner:
            return self._v2(tokens, uniform)
        size = self.padded(tokens)
        if size is None:
            return NONE
        decode, mixed = MODES[self.mode]
        if decode == FULL and uniform and size in self.full:
            return FULL
        if mixed == FULL:
            return FULL
        return PIECEWISE if size in self.piecewise else NONE

    def _v2(self, tokens: int, uniform: bool) -> str:
        """The newer runner keeps one list per kind and takes the smallest graph that fits, a full one on a tie."""
        full = self.full if uniform or MODES[self.mode][1] == FULL else ()
        wide = next((size for size in full if size >= tokens), None)
        narrow = next((size for size in self.piecewise if size >= tokens), None)
        if wide is not None and (narrow is None or wide <= narrow):
            return FULL
        return PIECEWISE if narrow is not None else NONE

    @property
    def within(self) -> int:
        """The most decoding requests whose tokens are not above the ladder; more run in no graph."""
        return min(self.max_num_seqs, self.sizes[-1] // self.query) if self.sizes else 0

    @property
    def covered_sequences(self) -> int:
        """The most decoding requests that run in a full graph."""
        return max(
            (n for n in range(1, self.within + 1) if self.runs_as(n * self.query, uniform=True) == FULL),
            default=0,
        )


def default_sizes(top: int, max_num_batched_tokens: int, *, dense: bool = False) -> list[int]:
    """The ladder up to `top`: 1, 2, 4, then eights below 256, then sixteens. `dense` ("interactivity" performance
    mode): every size to 32 first. The token budget itself is added when it is not above `top`."""
    small = list(range(1, min(top, 32) + 1)) if dense else [size for size in (1, 2, 4) if size <= top]
    sizes = small + list(range(8, min(top + 1, 256), 8)) + list(range(256, top + 1, 16))
    extra = [max_num_batched_tokens] if max_num_batched_tokens <= top else []
    return sorted({*sizes, *extra})


def ladder(
    *,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    spec_tokens: int = 0,
    mode: str = "FULL_AND_PIECEWISE",
    sizes: Sequence[int] | None = None,
    top: int | None = None,
    dense: bool = False,
    sequence_parallel: int = 1,
    v2_runner: bool = False,
) -> Ladder:
    """The captured sizes. `sizes`: an explicit list; `top`: `--max-cudagraph-capture-size`; `sequence_parallel`: tp
    when the sequence-parallel pass is on. Raises ValueError where vLLM refuses to start."""
    query = 1 + spec_tokens
    if mode == "NONE":
        return Ladder(mode, (), (), query, max_num_seqs, (), ())
    limit = min(top if top is not None else min(max_num_seqs * query * 2, 512), max_num_batched_tokens)
    if limit < 1:
        raise ValueError("max_cudagraph_capture_size must be at least 1")
    if sizes is not None:
        chosen = sorted({size for size in sizes if size <= max_num_batched_tokens})
        if not chosen:
            raise ValueError("cudagraph_capture_sizes holds no size within max_num_batched_tokens")
    else:
        chosen = default_sizes(limit, max_num_batched_tokens, dense=dense)
    if sequence_parallel > 1:
        chosen = [size for size in chosen if size % sequence_parallel == 0]
    largest = chosen[-1] if chosen else 0  # sequence parallelism may leave none
    if top is not None and sizes is not None and largest != min(top, max_num_batched_tokens):
        raise ValueError(
            f"customized max_cudagraph_capture_size(={top}) should be consistent with the max value of "
            f"cudagraph_capture_sizes(={largest})"
        )
    configured = tuple(chosen)
    decode, mixed = MODES[mode]
    if decode == FULL and query > 1 and not v2_runner:
        chosen = _rounded(chosen, query, sequence_parallel)
    highest = chosen[-1] if chosen else 0
    if v2_runner and decode == FULL:
        rounded = {-(-size // query) * query for size in chosen}
        full = sorted(size for size in rounded if size <= min(query * max_num_seqs, highest))
    else:
        full = [size for size in chosen if query <= size <= query * max_num_seqs] if decode == FULL else []
    piecewise = tuple(chosen) if mixed == PIECEWISE else ()
    return Ladder(mode, tuple(chosen), configured, query, max_num_seqs, tuple(full), piecewise, v2_runner)


def _rounded(sizes: Sequence[int], query: int, sequence_parallel: int) -> list[int]:
    """Round up to multiples of the decode query; what would pass the largest size is dropped, not clamped."""
    multiple = max(query, sequence_parallel)
    if multiple % query or multiple % sequence_parallel:
        raise ValueError(f"sizes cannot be multiples of {query} and of {sequence_parallel}")
    highest = sizes[-1] if sizes else 0
    rounded = sorted({up for size in sizes if (up := -(-size // multiple) * multiple) <= highest})
    if rounded:
        return rounded
    if multiple <= highest:
        return [multiple]
    raise ValueError(
        f"No valid cudagraph sizes after rounding to multiple of {multiple} (num_speculative_tokens + 1 or tp if "
        f"sequence parallelism is enabled) please adjust num_speculative_tokens ({query - 1}) or "
        f"max_cudagraph_capture_size ({highest}) or cudagraph_capture_sizes ({list(sizes)})"
    )
