"""KV cache of one engine: pages per layer, groups, blocks, tokens, as vLLM's hybrid KV manager sizes them.

A *page* is one block of one layer; a *group* is a set of layers that share a block table; every group draws blocks from
one pool. Rules read in vLLM 0.26's kv_cache_utils and checked against its own answers (golden/kv_sizing.json).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ridgeline.core.units import GIB

FULL, WINDOW, CHUNK, STATE = "full", "window", "chunk", "state"
_WHEN = " when initializing the engine."
# A raised attention block is a multiple of these: of a kernel's block, or of what MLA kernels want of a block table.
_STEP, _LATENT_STEP = 16, 128


@dataclass(frozen=True, slots=True)
class KvLayer:
    """`count` layers with equal caches. `row_bytes`: bytes of one stored row on one rank; one row holds `ratio` tokens.
    A `state` layer has no rows: `row_bytes` is its whole state."""

    count: int
    kind: str  # "full" | "window" | "chunk" | "state"
    row_bytes: int
    block: int  # tokens per block
    ratio: int = 1
    align: int = 1  # pages are rounded up to a multiple of this
    window: int = 0
    latent: bool = False  # MLA-like: layers of different widths may share a group
    shards: int = 1  # ranks that share the tokens of full history (decode-context parallelism)
    extra: int = 0  # further states a request holds: one per draft token, one more in "align" mode
    per_block: bool = False  # a state is kept for every block (Mamba cache mode "all")

    @property
    def page(self) -> int:
        """Bytes of one page."""
        raw = self.row_bytes if self.kind == STATE else self.block // self.ratio * self.row_bytes
        return -(-raw // self.align) * self.align

    def pages(self, length: int, in_flight: int) -> int:
        """Pages one request of `length` tokens can hold, with `in_flight` tokens of unfinished batches on top."""
        if self.kind == STATE:
            return self.extra + (-(-length // self.block) if self.per_block else 1)
        if self.kind == FULL:
            return -(-length // (self.block * self.shards))
        if self.kind == CHUNK:
            return -(-min(self.window + in_flight, length) // self.block)
        return -(-min(self.window - 1 + in_flight, length) // self.block) + 1


class Group(NamedTuple):
    """Layers sharing a block table: as many of each page size as `sizes` tells."""

    layer: KvLayer  # decides how many pages a request needs
    sizes: tuple[tuple[int, int], ...]  # (page bytes, layers, padding layers included)
    layers: int  # without padding layers
    drafts: bool = False  # holds the draft layers' cache, when there are draft layers

    @property
    def bytes(self) -> int:
        """Bytes of one block of this group alone."""
        return sum(size * count for size, count in self.sizes)


@dataclass(frozen=True, slots=True)
class KvPlan:
    """What the cache looks like. `stride`: bytes that one page of every group-tuple costs when sizing a request."""

    groups: tuple[Group, ...]
    bytes_per_block: int
    stride: int

    def pages(self, length: int, in_flight: int) -> int:
        """Pages of all groups together that one request of `length` tokens takes."""
        return sum(group.layer.pages(length, in_flight) for group in self.groups)

    def needed(self, length: int, in_flight: int) -> int:
        """Bytes that must be there for one request of `length` tokens."""
        return self.stride * self.pages(length, in_flight)

    def blocks_per_request(self, length: int, in_flight: int) -> int:
        """Blocks a request of `length` tokens counts for when vLLM states its concurrency: its bytes over all groups in
        blocks of the first group."""
        total = sum(group.layer.pages(length, in_flight) * group.bytes for group in self.groups)
        return -(-total // self.groups[0].bytes)

    def blocks(self, available: int) -> int:
        return available // self.bytes_per_block

    @property
    def scheduler_block(self) -> int:
        """Tokens per scheduling step of the cache: the least common multiple of the groups' blocks."""
        return math.lcm(*(group.layer.block * group.layer.shards for group in self.groups))

    @property
    def hash_block(self) -> int:
        """Tokens a block hash stands for, with prefix caching or a connector."""
        return math.gcd(*(group.layer.block * group.layer.shards for group in self.groups)) or 1


class KvCapacity(NamedTuple):
    """Blocks, tokens (as vLLM's log line counts them) and how many longest requests fit."""

    blocks: int
    tokens: int
    concurrency: float


def capacity(plan: KvPlan, available: int, max_len: int, in_flight: int) -> KvCapacity:
    """Size the pool. Raises ValueError in vLLM's words when one longest request does not fit."""
    needed = plan.needed(max_len, in_flight)
    if available <= 0:
        raise ValueError(f"No available memory for the cache blocks. Try increasing `gpu_memory_utilization`{_WHEN}")
    if needed > available:
        longest = longest_that_fits(plan, available, max_len, in_flight)
        based = f"Based on the available memory, the estimated maximum model length is {longest}. " if longest else ""
        raise ValueError(
            f"To serve at least one request with the model's max seq len ({max_len}), ({round(needed / GIB, 2)} GiB KV "
            f"cache is needed, which is larger than the available KV cache memory ({round(available / GIB, 2)} GiB). "
            f"{based}Try increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or "
            f"decreasing `max_model_len`{_WHEN}"
        )
    blocks = plan.blocks(available)
    concurrency = blocks / plan.blocks_per_request(max_len, in_flight)
    return KvCapacity(blocks, int(concurrency * max_len), concurrency)


def longest_that_fits(plan: KvPlan, available: int, max_len: int, in_flight: int) -> int:
    """The longest request that fits `available` bytes, everything else fixed; 0 when not even one token does."""
    low, high = 0, max_len
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if plan.needed(middle, in_flight) <= available else (low, middle - 1)
    return low


def plan_groups(layers: Sequence[KvLayer], *, hybrid: bool = True, aligned: bool = False) -> KvPlan:
    """Group layers. `hybrid` False: windows are kept like full history in one group of blocks. `aligned`: block sizes
    are final; else the attention block is first raised until a page holds the largest state, as the engine's platform
    hook does before this code runs.

    Raises ValueError for page sizes that no rule unifies.
    """
    if not layers:
        return KvPlan((), 1, 1)
    if not hybrid:
        full = [layer.block for layer in layers if layer.kind == FULL]
        block = max(full or [layer.block for layer in layers])
        layers = [
            replace(layer, kind=FULL, block=block, window=0) if layer.kind in (WINDOW, CHUNK) else layer
            for layer in layers
        ]
    kinds = {(layer.kind, layer.block, layer.window) for layer in layers}
    if len(kinds) == 1 and (len({layer.page for layer in layers}) == 1 or layers[0].kind == FULL):
        return _uniform(layers)
    if any(layer.kind == WINDOW and layer.latent for layer in layers) and len({layer.page for layer in layers}) > 1:
        return _packed(layers)
    return _equal_pages(layers, aligned)


def _sizes(layers: Iterable[KvLayer]) -> tuple[tuple[int, int], ...]:
    counts: dict[int, int] = {}
    for layer in layers:
        counts[layer.page] = counts.get(layer.page, 0) + layer.count
    return tuple(sorted(counts.items()))


def _uniform(layers: Sequence[KvLayer]) -> KvPlan:
    """One group: a block costs a page of every layer."""
    total = sum(layer.page * layer.count for layer in layers)
    return KvPlan((Group(layers[0], _sizes(layers), sum(layer.count for layer in layers)),), total, total)


def _packed(layers: Sequence[KvLayer]) -> KvPlan:
    """DeepSeek-V4: all full latent layers form the first group; windowed ones are grouped by (block, window), padded to
    page sizes of the first group and cut into tuples so that the padding is least."""
    full = [layer for layer in layers if layer.kind == FULL]
    sizes = [size for size, _ in _sizes(full)]
    windows: dict[tuple[int, int], list[KvLayer]] = {}
    for layer in layers:
        if layer.kind != FULL:
            size = next((size for size in sizes if size >= layer.page), None)
            if size is None:
                raise ValueError(f"a page of {layer.page} bytes is larger than any of {sizes}")
            windows.setdefault((layer.block, layer.window), []).append(replace(layer, align=size))

    def tuples(group: Iterable[KvLayer]) -> int:
        return max(count for _, count in _sizes(group))

    first, lengths = tuples(full), [tuples(group) for group in windows.values()]

    def padding(width: int) -> int:
        return width - first + sum(-(-length // width) * width - length for length in lengths)

    best = min(range(first, max(first, *lengths) + 1), key=lambda width: (padding(width), -width))
    groups = [Group(full[0], _sizes(full), sum(layer.count for layer in full))]
    for group, length in zip(windows.values(), lengths, strict=True):
        parts = -(-length // best)
        share = tuple((size, -(-count // parts)) for size, count in _sizes(group))
        # A draft layer has only the window that every layer has; it comes last, so the last part holds it.
        own = length == max(lengths)
        for part in range(parts):
            held = sum(len(range(part, count, parts)) for _, count in _sizes(group))
            groups.append(Group(group[0], share, held, own and part == parts - 1))
    most: dict[int, int] = {}
    for item in groups:
        for size, count in item.sizes:
            most[size] = max(most.get(size, 0), count)
    return KvPlan(tuple(groups), sum(size * count for size, count in most.items()), best * sum(sizes))


def _equal_pages(layers: Sequence[KvLayer], aligned: bool) -> KvPlan:
    """Full layers beside windows or states: pages are made equal (larger blocks for smaller pages, padded states), the
    kinds are cut into groups of equal layer counts."""
    attention = [layer for layer in layers if layer.kind != STATE]
    widest = max(layer.page for layer in attention)
    largest = max(layer.page for layer in layers)
    if largest > widest and not aligned:  # raise the attention block until a page holds a state
        raised = []
        for layer in attention:
            rows, step = -(-largest // layer.row_bytes), _LATENT_STEP if layer.latent else _STEP
            raised.append(replace(layer, block=-(-rows * layer.ratio // step) * step))
        attention = raised
        final = attention[0].block
        layers = [layer if layer.kind != STATE or layer.per_block else replace(layer, block=final) for layer in layers]
    page = max(layer.page for layer in (layers if aligned else attention))
    same = []
    for layer in attention:
        if page % layer.page:
            raise ValueError(
                f"Page sizes {layer.page} and {page} cannot be made equal: page size is not divisible by the maximum "
                "page size and cannot be padded."
            )
        same.append(replace(layer, block=layer.block * (page // layer.page)))
    same += [replace(layer, align=page) for layer in layers if layer.kind == STATE]
    kinds: dict[tuple[str, int, int], list[KvLayer]] = {}
    for layer in same:
        kinds.setdefault((layer.kind, layer.block, layer.window), []).append(layer)
    counts = [sum(layer.count for layer in group) for group in kinds.values()]
    size = max(counts) if max(counts) < 1.5 * min(counts) else min(counts)
    groups: list[Group] = []
    for group, count in zip(kinds.values(), counts, strict=True):
        parts = -(-count // size)
        groups += [Group(group[0], ((page, size),), len(range(part, count, parts))) for part in range(parts)]
    return KvPlan(tuple(groups), page * size, page * size)
