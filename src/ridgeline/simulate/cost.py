"""A step's make-up to seconds: a roofline with a few efficiencies.

    step = (max over ranks(attention and dense work) + experts(all ranks' tokens) + communication + drafts) x factors
           or launching from the host, whichever is longer; + kernel gaps + host work per block attached

Data-parallel ranks step together, so the slowest decides; experts and collectives see the tokens of all ranks. Terms
add up because layers run one after the other; inside a term reading and computing overlap. Every term is a function in
`terms/` with its formula.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from operator import attrgetter

from ridgeline.engine.graphs import FULL, NONE, Ladder
from ridgeline.engine.options import EngineOptions
from ridgeline.simulate.batch import Batch
from ridgeline.simulate.costparams import CostParameters
from ridgeline.simulate.terms.attention import AttentionCost
from ridgeline.simulate.terms.collectives import collectives_s
from ridgeline.simulate.terms.dense import dense_s, dense_work
from ridgeline.simulate.terms.experts import expert_work, experts_s, grouped_flops
from ridgeline.simulate.terms.kernels import gaps_s, kernels_of_step, launch_s, recurrent_layers

_context = attrgetter("decode_context")
_REMEMBERED = 1 << 16  # step sizes whose price is kept


class StepCost:
    """Prices steps of one engine. Everything that does not depend on the batch is computed once, here."""

    def __init__(self, options: EngineOptions, parameters: CostParameters) -> None:
        self.options, self.p, self.gpu = options, parameters, options.gpu
        self.dense = dense_work(options)
        self.attention = AttentionCost(options, parameters)
        self.experts = [work for block in options.arch.blocks if (work := expert_work(block, options))]
        self.expert_flops = grouped_flops(options)
        self.products, self.kernels = kernels_of_step(options)
        self.recurrent = recurrent_layers(options)
        self.time_factor, self.kernel_factor = _factors(options, parameters)
        self.drafts = options.num_speculative_tokens
        self._layers_s: dict[tuple[int, int], float] = {}
        self._modes: dict[tuple[int, bool], str] = {}
        self._tokens_s: dict[tuple[int, int], float] = {}
        self._joint_s: dict[tuple[int, int], float] = {}
        self.ladder: Ladder = options.graphs

    def priced_by(self, parameters: CostParameters) -> StepCost:
        """The same engine with other parameters; what does not depend on them is shared."""
        other = copy.copy(self)
        other.p = parameters
        other.time_factor, other.kernel_factor = _factors(self.options, parameters)
        other.attention = self.attention.priced_by(parameters)
        other._tokens_s, other._joint_s, other._layers_s = {}, {}, {}
        return other

    def seconds(self, batches: Sequence[Batch | None], *, from_idle: bool = False) -> float:
        """Time of one step of all data-parallel ranks (None: that rank has nothing to do and runs along empty)."""
        tokens = [0 if batch is None else batch.tokens for batch in batches]
        mode, most = self.mode(batches, tokens), max(tokens)
        if mode == NONE:
            total, size = sum(tokens), most
        else:
            size = self._padded(most, mode)
            total = size * len(tokens)
        device = self._slowest_s(batches, None if mode == NONE else size) + self.joint_s(max(size, 1), total)
        if self.drafts:
            device += self.drafts_s(batches)
        device *= self.time_factor * self.p.device
        host = max([0.0 if batch is None else batch.attached for batch in batches]) * self.p.attach_s
        prompts = bool(self.recurrent) and any(batch is not None and batch.chunks for batch in batches)
        return (
            max(device, self.launch_s(mode, prompts=prompts))
            + gaps_s(self.products, self.kernels, self.kernel_factor, self.p)
            + host
            + (self.p.wake_s if from_idle else 0.0)
        )

    def mode(self, batches: Iterable[Batch | None], tokens: Sequence[int]) -> str:
        """FULL, PIECEWISE or NONE: the worst rank decides for all."""
        worst = FULL
        for batch, count in zip(batches, tokens, strict=True):
            if batch and worst != NONE:
                found = self._modes.get((count, not batch.chunks))
                if found is None:
                    found = self.ladder.runs_as(count, uniform=not batch.chunks)
                    self._modes[count, not batch.chunks] = found
                if found != FULL:
                    worst = found
        return worst

    def _padded(self, tokens: int, mode: str) -> int:
        return (self.ladder.padded(tokens) or tokens) if mode != NONE else tokens

    def _slowest_s(self, batches: Sequence[Batch | None], size: int | None) -> float:
        """Attention and dense work of the slowest rank. `size`: tokens that all are padded to (None: each its own). Of
        ranks that only decode, one takes no longer than another with as many requests and as much context, at as many
        drafts; so few have to be priced."""
        slowest, decoding = 0.0, []
        for batch in batches:
            if batch is not None and not batch.chunks:
                decoding.append(batch)
            elif batch is not None:
                slowest = max(slowest, self.rank_s(batch, batch.tokens if size is None else size))
            elif size is not None:
                slowest = max(slowest, self.tokens_s(size, 0) if size else 0.0)
        if len(decoding) > 1:
            decoding.sort(key=_context, reverse=True)
        most = query_tokens = 0
        for batch in decoding:
            if batch.decodes > most or batch.decode_tokens * most > query_tokens * batch.decodes:
                most, query_tokens = batch.decodes, batch.decode_tokens
                slowest = max(slowest, self.rank_s(batch, batch.tokens if size is None else size))
        return slowest

    def rank_s(self, batch: Batch | None, tokens: int) -> float:
        """Attention and dense work of one rank, seconds."""
        if tokens == 0:
            return 0.0
        if batch is None:
            return self.tokens_s(tokens, 0)
        attention = self.attention.decode_s(batch) + (self.attention.prefill_s(batch) if batch.chunks else 0.0)
        sampled = batch.emitting - batch.decodes + batch.decode_tokens
        return self.tokens_s(tokens, sampled) + attention

    def tokens_s(self, tokens: int, sampled: int) -> float:
        """What depends on the number of tokens alone. Remembered, since decoding steps have the same size over and
        over."""
        found = self._tokens_s.get((tokens, sampled))
        if found is None:
            if len(self._tokens_s) > _REMEMBERED:
                self._tokens_s.clear()
            found = self._tokens_s[(tokens, sampled)] = dense_s(self.dense, tokens, sampled, self.gpu, self.p)
        return found

    def joint_s(self, tokens: int, total: int) -> float:
        """What all ranks do together, remembered likewise: experts and collectives."""
        found = self._joint_s.get((tokens, total))
        if found is None:
            if len(self._joint_s) > _REMEMBERED:
                self._joint_s.clear()
            found = self._joint_s[(tokens, total)] = self.experts_s(total) + self.collectives_s(tokens, total)
        return found

    def experts_s(self, tokens: float) -> float:
        """Routed experts on the busiest GPU, for the tokens of all ranks."""
        return experts_s(tokens, self.experts, self.options.topology.ep, self.expert_flops, self.gpu, self.p)

    def collectives_s(self, tokens: int, total: int) -> float:
        """Communication of a step of `tokens` on each rank, `total` on all."""
        arch, topology = self.options.arch, self.options.topology
        return collectives_s(tokens, total, topology, arch.layers, arch.hidden, self.experts, self.gpu, self.p)

    def launch_s(self, mode: str, *, prompts: bool = False) -> float:
        """Launching a step from the host; with `prompts`, what recurrent layers make of them, too."""
        compiled = self.options.cudagraph_mode != NONE
        return launch_s(self.kernels, mode, self.recurrent if prompts else 0.0, compiled=compiled, p=self.p)

    def drafts_s(self, batches: Sequence[Batch | None]) -> float:
        """Making the next drafts: one pass of the draft layer and the head per draft token, one after the other. The
        first pass sees all tokens of the step, the others one a sequence."""
        most = tokens = 0
        for batch in batches:
            if batch is not None:
                requests = batch.decodes + len(batch.chunks)
                if requests > most:
                    most = requests
                if batch.tokens > tokens:
                    tokens = batch.tokens
        ranks = len(batches)
        layer = self._layer_s(tokens, ranks) + (self.drafts - 1) * self._layer_s(most, ranks)
        head = self.dense.head and 2 * self.dense.head / (self.gpu.bandwidth * self.p.weight_read)
        return layer + self.drafts * (head + 30 * self.p.graph_kernel_s)

    def _layer_s(self, tokens: int, ranks: int) -> float:
        """One layer with experts, as drafting heads have it: the model's mean layer. Remembered like `tokens_s`."""
        found = self._layers_s.get((tokens, ranks))
        if found is None:
            if len(self._layers_s) > _REMEMBERED:
                self._layers_s.clear()
            layers = max(1, self.options.arch.layers // self.options.topology.pp)
            whole = self.tokens_s(tokens, 0) + self.experts_s(tokens * ranks)
            whole += self.collectives_s(tokens, tokens * ranks)
            found = self._layers_s[tokens, ranks] = whole / layers
        return found

    def frontend_s(self, prompt_tokens: int) -> float:
        """The server's own work between receiving a request and handing it to the engine."""
        return self.p.frontend_s + prompt_tokens * self.p.frontend_token_s


def _factors(options: EngineOptions, parameters: CostParameters) -> tuple[float, float]:
    return parameters.factors(options.arch.name, options.precision)
