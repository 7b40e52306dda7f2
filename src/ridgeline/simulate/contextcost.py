"""Context parallelism: GPUs that share the tokens of one request's history instead of repeating or splitting heads.

Decode-context parallelism (dcp) divides the cache of full history over ranks of the tensor-parallel group, token by
token; every rank then attends with the queries of the whole group to its own tokens, and the parts are joined:

    per layer: queries to everybody, partial results and their weights back: three collectives

Prefill-context parallelism (pcp) adds GPUs, which share the tokens of a chunk and, likewise, the cache. A chunk's
projections and its arithmetic of attention are divided by pcp; keys of the context and of the chunk are gathered.
Requests that decode are computed by all of them alike, each on its own tokens.

As vLLM does it: history is divided over dcp x pcp, dcp divides the tensor-parallel size, no more than as often as keys
are repeated, and windows are not divided at all.
"""

from __future__ import annotations

from dataclasses import replace

from ridgeline.core.errors import InputError, Problem
from ridgeline.engine.options import EngineOptions
from ridgeline.simulate.batch import Batch
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import CostParameters
from ridgeline.simulate.terms.attention import AttentionCost
from ridgeline.spec.facts.model import Compressed, Gqa, Mla

_JOINING = 3  # collectives of a layer: queries, weights of partial results, these themselves
_BF16 = 2


def price_of(options: EngineOptions, parameters: CostParameters) -> StepCost:
    """The price of an engine's steps, however its layout shares contexts. Raises InputError for a layout that engines
    do not start with."""
    topology = options.topology
    if topology.dcp * topology.pcp == 1:
        return StepCost(options, parameters)
    if problems := list(_problems(options)):
        raise InputError(problems)
    return ContextCost(options, parameters)


def _problems(options: EngineOptions) -> list[Problem]:
    topology = options.topology
    found: list[Problem] = []
    if topology.dcp == 1:
        return found
    if topology.dp_attn or topology.tp % topology.dcp:
        own = topology.attention_tp
        message = f"{topology.dcp} does not divide the {own} GPU{'s' * (own > 1)} over which attention is split"
        found.append(Problem(message, key="dcp", hint="dcp divides tp; data-parallel ranks of one GPU have none"))
    for block in options.arch.blocks:
        attention = block.attention
        if isinstance(attention, Compressed) or getattr(attention, "window", None):
            found.append(Problem(f"windows of {options.arch.name} are not divided over contexts", key="dcp"))
            break
        if isinstance(attention, Gqa) and topology.dcp > max(1, topology.tp // attention.kv_heads):
            repeats = max(1, topology.tp // attention.kv_heads)
            message = f"{attention.kv_heads} key heads over {topology.tp} GPUs are repeated {repeats} times"
            found.append(Problem(f"{message}, less than {topology.dcp}", key="dcp", hint="at most tp / key heads"))
            break
    return found


class ContextAttention(AttentionCost):
    """Attention of one rank that holds a share of every request's history."""

    def __init__(self, options: EngineOptions, p: CostParameters) -> None:
        super().__init__(options, p)
        topology = options.topology
        shards, parts = topology.dcp * topology.pcp, topology.pcp
        # Decoding: as many queries as heads are gathered, on a share of the tokens; so arithmetic falls with pcp alone.
        self._reads = [
            (c.row_bytes / shards, c.limit, c.scan_bytes / shards, c.decode_flops / parts)
            if divided
            else (c.row_bytes, c.limit, c.scan_bytes, c.decode_flops)
            for c, divided in zip(self.caches, _divided(options), strict=True)
        ]
        # Chunks: every rank reads what was gathered, for its part of the queries.
        self.caches = [replace(c, flops=c.flops / parts, scan_flops=c.scan_flops / parts) for c in self.caches]


def _divided(options: EngineOptions) -> list[bool]:
    """Whether each of the caches, in the order of `terms.attention.caches`, holds a history that is divided."""
    found = []
    for block in options.arch.blocks:
        attention = block.attention
        if isinstance(attention, Compressed):
            found += [False] * (2 if attention.ratio else 1)
        elif isinstance(attention, (Gqa, Mla)):
            found.append(not getattr(attention, "window", None))
    return found


class ContextCost(StepCost):
    """Steps of an engine whose GPUs share contexts."""

    def __init__(self, options: EngineOptions, parameters: CostParameters) -> None:
        super().__init__(options, parameters)
        self.attention = ContextAttention(options, parameters)
        topology = options.topology
        self._shards, self._parts = topology.dcp * topology.pcp, topology.pcp
        self._layers = 0
        query = output = 0.0  # bytes of a token in all layers of a stage: heads of one rank; keys and values
        for block in options.arch.blocks:
            attention = block.attention
            if not isinstance(attention, (Gqa, Mla)) or getattr(attention, "window", None):
                continue
            count = -(-block.count // topology.pp)
            heads = attention.heads / topology.attention_tp
            widths = (
                (attention.kv_lora + attention.rope, attention.kv_lora)
                if isinstance(attention, Mla)
                else (attention.qk_dim, attention.v_dim)
            )
            self._layers += count
            query += _BF16 * count * heads * widths[0]
            output += _BF16 * count * heads * widths[1]
        row = sum(cache.row_bytes + cache.scan_bytes for cache in self.attention.caches)
        self._query_bytes, self._output_bytes, self._row_bytes = query, output, row

    def rank_s(self, batch: Batch | None, tokens: int) -> float:
        """Attention and dense work of one rank, and what joins its share with the others'."""
        if batch is None or tokens == 0:
            return super().rank_s(batch, tokens)
        if batch.chunks and self._parts > 1:  # chunks are divided, decoding tokens are everybody's
            chunks = batch.tokens - batch.decode_tokens
            tokens = min(tokens, batch.decode_tokens + -(-chunks // self._parts))
        return super().rank_s(batch, tokens) + self.context_s(batch)

    def context_s(self, batch: Batch) -> float:
        """Communication of attention over shared contexts, seconds.

        Decoding: the group's queries to every rank and partial results back, for dcp ranks that each have heads of
        their own (ranks of pcp have the same ones, and only results travel). Chunks: keys of the context from all
        ranks, those of the chunk from the ones that computed them.
        """
        p, link = self.p, self.gpu.link_bandwidth * self.p.link
        total = 0.0
        if batch.decodes:
            dcp, tokens = self._shards // self._parts, batch.decode_tokens
            bytes_ = tokens * (
                self._query_bytes * (dcp - 1) + self._output_bytes * dcp * (self._shards - 1) / self._shards
            )
            total += self._layers * _JOINING * p.collective_s + bytes_ / link
        for count, context in batch.chunks:
            gathered = context * (self._shards - 1) / self._shards + count * (self._parts - 1) / self._parts
            total += self._layers * p.collective_s + gathered * self._row_bytes / link
        return total
