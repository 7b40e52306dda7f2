"""A step's make-up to seconds: a roofline with a few efficiencies, every term a function with its formula.

    step = (max over ranks(attention and dense work) + experts(all ranks' tokens) + communication + drafts) x factors
           or launching from the host, whichever is longer; + kernel gaps + host work per block attached

Data-parallel ranks step together, so the slowest decides; experts and collectives see the tokens of all ranks. Terms
add up because layers run one after the other; inside a term reading and computing overlap (`overlapped`).
Formulas: roofline as usual; expert coverage of skewed routing (`experts_touched`); ring and one-shot collectives.
Kernels are counted from the parts a model has, not fitted: `kernels_of`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from ridgeline.engine.formats import Formats, compute_width
from ridgeline.engine.graphs import FULL, NONE, Ladder, ladder
from ridgeline.engine.kv import WINDOW
from ridgeline.engine.kvlayers import kv_layers
from ridgeline.engine.options import EngineOptions
from ridgeline.engine.parameters import attention_parameters, dense_parameters, latent_parameters, shared_parameters
from ridgeline.engine.weights import routed_bytes
from ridgeline.simulate.batch import Batch
from ridgeline.simulate.costparams import CostParameters
from ridgeline.spec.facts.gpu import Gpu
from ridgeline.spec.facts.model import Attention, Block, Compressed, Experts, Gqa, Mla, ModelArch, Recurrent

_context = attrgetter("decode_context")
_SHARPNESS = 2.5  # of the blend where reading and computing take equally long: products of 64 to 512 rows on one H200
_REMEMBERED = 1 << 16  # step sizes whose price is kept
_NARROW_GAIN = 0.75  # of log(peak) from bf16 to 8 or 4 bits that grouped products reach; assumption
_BLOCK_SCALED = 1.5  # small kernels that a product over fp8 in 128 x 128 blocks takes longer; assumption
_SLICE = 40  # columns of an expert's slice under tensor parallelism that its products lose; assumption
_EXTREME = (0.0, 0.56, 0.85, 1.03, 1.16, 1.27, 1.35, 1.42)  # deviations by which the largest of 1, 2... normals exceeds
_UNFUSED = 5  # kernels launched one by one for each fused one where nothing is compiled: an 8B model takes 14 ms a step


def overlapped(read_s: float, compute_s: float) -> float:
    """Time of work whose memory traffic and arithmetic overlap: a smooth maximum, 32 % above where both are equal."""
    high, low = max(read_s, compute_s), min(read_s, compute_s)
    if high == 0:
        return 0.0
    return float(high * (1 + (low / high) ** _SHARPNESS) ** (1 / _SHARPNESS))


def saturating(top: float, half: float, size: float) -> float:
    """Share of peak that a product over `size` rows reaches: top * size / (size + half)."""
    return top * size / (size + half)


def experts_touched(count: int, top_k: int, tokens: float, evenness: float) -> float:
    """Expected distinct experts of one layer for `tokens` tokens: E (1 - (1 + T k / (E a))^-a), which Poisson hits
    leave when the popularity of experts follows a gamma distribution of shape a = `evenness`. It approaches
    E (1 - exp(-T k / E)), uniform routing, as a grows. A token touches its own k in any case."""
    hit = 1 - (1 + tokens * top_k / (count * evenness)) ** -evenness
    return float(min(count, max(count * hit, top_k * min(tokens, 1.0))))


def all_reduce_s(size: float, ranks: int, gpu: Gpu, p: CostParameters) -> float:
    """One all-reduce of `size` bytes per rank: everything to everybody in one exchange, or sums and their spreading in
    two, whichever is sooner. Engines switch at some hundred kilobytes, which is where the two meet."""
    if ranks == 1:
        return 0.0
    bandwidth = gpu.link_bandwidth * p.link
    once = p.collective_s + (ranks - 1) * size / bandwidth
    return min(once, 2 * (p.collective_s + size * (ranks - 1) / ranks / bandwidth))


def largest_of(groups: int) -> float:
    """Standard deviations by which the largest of as many normal values is expected above their mean."""
    if groups <= len(_EXTREME):
        return _EXTREME[groups - 1]
    return math.sqrt(2 * math.log(groups)) - 0.57  # within 3 % from 9 to 100


def busiest_reading(count: int, touched: float, groups: int) -> float:
    """How many experts the GPU with most of them reads, over the mean of `groups` GPUs with equal numbers of them: the
    touched ones are drawn without putting back (hypergeometric), and everybody waits for the unluckiest."""
    mean = touched / groups
    if groups == 1 or mean <= 0:
        return 1.0
    spread = math.sqrt(mean * (1 - 1 / groups) * (count - touched) / max(1, count - 1))
    most = min(count / groups, max(min(touched, 1.0), mean + largest_of(groups) * spread))
    return max(1.0, most / mean)


def busiest_computing(count: int, groups: int, evenness: float) -> float:
    """The same for tokens: a GPU's experts are popular by gamma distributions of that shape, whose sum varies by
    1 / sqrt(shape x experts)."""
    return 1 + largest_of(groups) / math.sqrt(evenness * count / groups)


def dispatch_s(tokens: float, hidden: int, top_k: int, ranks: int, gpu: Gpu, p: CostParameters) -> float:
    """Tokens to their experts' ranks (one byte per value) and back (two); a token goes to a rank once, however many of
    its experts are there."""
    if ranks == 1:
        return 0.0
    copies = min(top_k, ranks) * (ranks - 1) / ranks
    return 2 * p.collective_s + tokens * copies * hidden * 3 / (gpu.link_bandwidth * p.link)


def gather_s(size: float, ranks: int, gpu: Gpu, p: CostParameters) -> float:
    """All ranks' tokens to every rank (`size` bytes together) and sums back: an all-gather and a reduce-scatter."""
    return 2 * (p.collective_s + size * (ranks - 1) / ranks / (gpu.link_bandwidth * p.link))


@dataclass(frozen=True, slots=True)
class Cache:
    """Reads of one kind of attention in all its layers: bytes per token read, how much is read, work per token."""

    row_bytes: float  # bytes per cached token and rank, all layers
    limit: int | None  # tokens read at most (window, top-k); None: all
    scan_bytes: float  # bytes per context token that are read whatever the limit (index keys)
    flops: float  # attention FLOPs per (query, visible token), all layers, one rank
    scan_flops: float  # the same for the scan
    decode_flops: float  # attention FLOPs per visible token of a decoding query, which works on the cached form

    def visible(self, context: float) -> float:
        return context if self.limit is None else min(context, self.limit)


@dataclass(frozen=True, slots=True)
class ExpertWork:
    """Routed experts of equal layers, all of them together."""

    layers: int
    count: int
    top_k: int
    bytes_each: float  # bytes of one expert of one layer on one rank's share of it
    flops_each: float  # FLOPs of one token in one expert, on one rank's share
    hidden: int
    slice: float  # columns of one expert on one GPU


class StepCost:
    """Prices steps of one engine. Everything that does not depend on the batch is computed once, here."""

    def __init__(self, options: EngineOptions, parameters: CostParameters) -> None:
        arch, topology, gpu, formats = options.arch, options.topology, options.gpu, options.formats
        self.options, self.p, self.gpu = options, parameters, gpu
        tp, hidden = topology.attention_tp, arch.hidden
        self.group = topology.tp * topology.pcp  # GPUs that share the experts
        self.linear_flops = gpu.flops(compute_width(formats.linear, gpu))
        # Grouped products gain from narrow types only a part of what the peak promises.
        peak = gpu.flops(compute_width(formats.experts, gpu))
        self.expert_flops = gpu.bf16_flops * (peak / gpu.bf16_flops) ** _NARROW_GAIN
        linear = traffic = 0.0
        products, small = 1.0, 3.0  # head; embedding, last norm, sampling
        for block in arch.blocks:
            share = block.count / topology.pp
            own = attention_parameters(block.attention, hidden)
            ffn = (shared_parameters(block.ffn, hidden) + dense_parameters(block.ffn, hidden)) / tp
            linear += share * (own.on_rank(tp) + own.wide + ffn + latent_parameters(block.ffn, hidden))
            traffic += share * element_bytes(block, hidden, tp, arch.hyper)
            more, others = kernels_of(block, formats, hyper=arch.hyper > 1)
            products, small = products + share * more, small + share * others
        self.linear = linear  # parameters on one rank that every token passes
        self.linear_bytes = linear * formats.linear_bytes
        self.unpacked = formats.linear_bytes < 1  # 4-bit weights
        self.head = arch.vocab * hidden / tp  # computed for sampled tokens only
        self.traffic = traffic
        self.products, self.kernels = products, products + small  # kernels of a captured step, one after the other
        self.collectives = arch.layers  # layers with an all-reduce after attention and one after the feed-forward part
        self.caches = caches(options)
        self._reads = [(c.row_bytes, c.limit, c.scan_bytes, c.decode_flops) for c in self.caches]
        self.cache_bandwidth = self._cache_bandwidth()
        self.sparse = any(
            isinstance(block.attention, Compressed) or getattr(block.attention, "topk", None) for block in arch.blocks
        )
        self.state_bytes = sum(
            2 * layer.count * layer.row_bytes for layer in kv_layers(arch, topology) if layer.kind == "state"
        )
        self.experts = [work for block in arch.blocks if (work := expert_work(block, options))]
        self.time_factor, self.kernel_factor = _factors(options, parameters)
        self.drafts = options.num_speculative_tokens
        self._layers_s: dict[tuple[int, int], float] = {}
        self._modes: dict[tuple[int, bool], str] = {}
        self._tokens_s: dict[tuple[int, int], float] = {}
        self._joint_s: dict[tuple[int, int], float] = {}
        self.ladder: Ladder = ladder(
            max_num_seqs=options.max_num_seqs,
            max_num_batched_tokens=options.max_num_batched_tokens,
            spec_tokens=options.num_speculative_tokens,
            mode=options.cudagraph_mode,
            sizes=options.cudagraph_capture_sizes,
            top=options.max_cudagraph_capture_size or _captured(options),
        )

    def priced_by(self, parameters: CostParameters) -> StepCost:
        """The same engine with other parameters; what does not depend on them is shared."""
        other = copy.copy(self)
        other.p = parameters
        other.time_factor, other.kernel_factor = _factors(self.options, parameters)
        other.cache_bandwidth = other._cache_bandwidth()
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
        return max(device, self.launch_s(mode)) + self.gaps_s() + host + (self.p.wake_s if from_idle else 0.0)

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
        attention = self.decode_s(batch) + (self.prefill_s(batch) if batch.chunks else 0.0)
        sampled = batch.emitting - batch.decodes + batch.decode_tokens
        return self.tokens_s(tokens, sampled) + attention

    def tokens_s(self, tokens: int, sampled: int) -> float:
        """What depends on the number of tokens alone: linear layers, element-wise kernels, sampling. Remembered, since
        decoding steps have the same size over and over."""
        found = self._tokens_s.get((tokens, sampled))
        if found is None:
            if len(self._tokens_s) > _REMEMBERED:
                self._tokens_s.clear()
            element = self.traffic * tokens / (self.gpu.bandwidth * self.p.traffic)
            found = self.linear_s(tokens, sampled) + element + sampled * self.p.sample_s
            self._tokens_s[(tokens, sampled)] = found
        return found

    def joint_s(self, tokens: int, total: int) -> float:
        """What all ranks do together, remembered likewise: experts and collectives."""
        found = self._joint_s.get((tokens, total))
        if found is None:
            if len(self._joint_s) > _REMEMBERED:
                self._joint_s.clear()
            found = self._joint_s[(tokens, total)] = self.experts_s(total) + self.collectives_s(tokens, total)
        return found

    def linear_s(self, tokens: int, sampled: int) -> float:
        """Projections, dense and shared feed-forward parts and the head: weights are read once per step."""
        p, gpu = self.p, self.gpu
        head_bytes = 2 * self.head if sampled else 0.0
        narrow = p.narrow_read if self.unpacked else 1.0
        read = (self.linear_bytes / narrow + head_bytes) / (gpu.bandwidth * p.weight_read)
        compute = 2 * self.linear * tokens / (self.linear_flops * saturating(p.gemm_top, p.gemm_half, tokens))
        if sampled:
            compute += 2 * self.head * sampled / (gpu.bf16_flops * saturating(p.gemm_top, p.gemm_half, sampled))
        return overlapped(read, compute)

    def decode_s(self, batch: Batch) -> float:
        """Cache reads of decoding requests, or their arithmetic where that takes longer (a latent is shared by all
        heads: few bytes, much work); recurrent states read and written. Requests count with their mean context."""
        if not batch.decodes:
            return 0.0
        mean = batch.decode_context / batch.decodes
        query = batch.decode_tokens / batch.decodes  # drafts of a sequence are verified in one reading
        read, peak = self.cache_bandwidth, self.gpu.bf16_flops * self.p.prefill_attention
        total = self.state_bytes / read
        for row_bytes, limit, scan_bytes, decode_flops in self._reads:
            visible = mean if limit is None or mean < limit else limit
            reading = (row_bytes * visible + scan_bytes * mean) / read
            computing = query * decode_flops * visible / peak
            total += reading if reading >= computing else computing
        return total * batch.decodes

    def _cache_bandwidth(self) -> float:
        """Bytes per second of reading the cache; 8-bit rows are unpacked on the way."""
        narrow = self.p.narrow_cache if self.options.kv_cache_dtype.startswith("fp8") else 1.0
        return self.gpu.bandwidth * self.p.kv_read * narrow

    def prefill_s(self, batch: Batch) -> float:
        """Attention of prefill chunks: 4 FLOPs per head value and visible token, and one pass over the cache. Sparse
        attention gathers what it reads and reaches less of the peak; its index keys hold 8 bits and are scored so."""
        share = self.p.sparse_attention if self.sparse else self.p.prefill_attention
        peak, read = self.gpu.bf16_flops * share, self.cache_bandwidth
        scan = self.gpu.flops("fp8") * share
        total = 0.0
        for count, context in batch.chunks:
            middle = context + count / 2  # the mean token sees the context and half of its own chunk
            for c in self.caches:
                computing = count * (c.flops * c.visible(middle) / peak + c.scan_flops * middle / scan)
                total += max(computing, (c.row_bytes * c.visible(context) + c.scan_bytes * context) / read)
            total += self.state_bytes / read
        return total

    def experts_s(self, tokens: float) -> float:
        """Routed experts on the busiest GPU, for the tokens of all ranks."""
        total, groups = 0.0, self.options.topology.ep
        for work in self.experts:
            touched = experts_touched(work.count, work.top_k, tokens, self.p.expert_evenness)
            most = busiest_reading(work.count, touched, groups)
            read = touched * work.bytes_each * most / (self.gpu.bandwidth * self.p.expert_read)
            each = tokens * work.top_k / max(touched, 1.0)
            rate = self.expert_flops * saturating(self.p.expert_top, self.p.expert_half, each)
            most = busiest_computing(work.count, groups, self.p.expert_evenness)
            compute = tokens * work.top_k * work.flops_each * most / rate if tokens else 0.0
            if groups == 1:  # cut across: thin slices keep a GPU's multiprocessors less busy
                read, compute = (time * (1 + _SLICE / work.slice) for time in (read, compute))
            total += work.layers * overlapped(read, compute)
        return total

    def collectives_s(self, tokens: int, total: int) -> float:
        """All-reduces of tensor-parallel attention and feed-forward parts; expert dispatch and combine, or the
        gathering that data-parallel attention needs in front of experts without it."""
        topology, hidden = self.options.topology, self.options.arch.hidden
        layers = self.collectives / topology.pp
        if topology.attention_tp > 1:
            time = 2 * layers * all_reduce_s(2.0 * tokens * hidden, topology.attention_tp, self.gpu, self.p)
        else:
            time = 0.0
        if topology.dp_attn and self.group > 1:
            for work in self.experts:
                if topology.ep > 1:
                    each = dispatch_s(total / self.group, hidden, work.top_k, self.group, self.gpu, self.p)
                else:
                    each = gather_s(2.0 * total * hidden, self.group, self.gpu, self.p)
                time += work.layers / topology.pp * each
        if topology.pp > 1:  # activations handed on from stage to stage
            time += (topology.pp - 1) * (self.p.collective_s + 2.0 * tokens * hidden / self.gpu.link_bandwidth)
        return time

    def gaps_s(self) -> float:
        """Starting and draining kernels one after the other, which even a captured graph does not hide. A product takes
        as long as `product_kernels` others before its first and after its last byte."""
        weighted = self.kernels + (self.p.product_kernels - 1) * self.products
        return weighted * self.kernel_factor * self.p.graph_kernel_s

    def launch_s(self, mode: str) -> float:
        """Host time to launch a step: nothing for a full graph, attention only for a piecewise one, else everything:
        compiled code where a step is merely too large for its graphs, single operations where nothing is captured. The
        host runs ahead, so it counts only where the GPU is faster."""
        share = {FULL: 0.0, NONE: 1.0}.get(mode, 1 / 3)
        unfused = _UNFUSED if self.options.cudagraph_mode == NONE else 1
        return share * unfused * self.kernels * self.p.eager_kernel_s

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
        head = self.head and 2 * self.head / (self.gpu.bandwidth * self.p.weight_read)
        return layer + self.drafts * (head + 30 * self.p.graph_kernel_s)

    def _layer_s(self, tokens: int, ranks: int) -> float:
        """One layer with experts, as drafting heads have it: the model's mean layer. Remembered like `tokens_s`."""
        found = self._layers_s.get((tokens, ranks))
        if found is None:
            if len(self._layers_s) > _REMEMBERED:
                self._layers_s.clear()
            layers = max(1, self.options.arch.layers // self.options.topology.pp)
            whole = self.tokens_s(tokens, 0) + self.experts_s(tokens * ranks) + self.collectives_s(tokens, tokens)
            found = self._layers_s[tokens, ranks] = whole / layers
        return found

    def frontend_s(self, prompt_tokens: int) -> float:
        """The server's own work between receiving a request and handing it to the engine."""
        return self.p.frontend_s + prompt_tokens * self.p.frontend_token_s


def _factors(options: EngineOptions, parameters: CostParameters) -> tuple[float, float]:
    return parameters.factors(options.arch.name, options.precision)


def _captured(options: EngineOptions) -> int | None:
    """The largest captured step: vLLM's own default (None), every batch it may run for engines that are started so."""
    return None if options.engine == "vllm" else options.max_num_seqs * (1 + options.num_speculative_tokens)


def kernels_of(block: Block, formats: Formats, *, hyper: bool = False) -> tuple[int, float]:
    """(products, other kernels) of one layer in a captured step, in the order engines run them; attention counts as two
    products (split over the context, then combined). Layers whose weights are quantised also quantise what they read,
    but where one scale serves a whole tensor, as in fp8 exports of dense models, the kernel before does it. Models of
    experts come in fp8 with a scale for every block; such products take longer to start and end (`_BLOCK_SCALED`).

    - grouped-query: projection in and out; norm, rotary, cache write, norm of queries and keys
    - latent: five projections (down, queries up, keys and values absorbed, out); three norms, rotary, cache write, two
      layouts, joining queries
    - compressed: down, up, two groups out, two compressors; three norms, rotary and back, cache and state writes,
      compression, two layouts
    - recurrent: in, out and two scans; convolution, gates, norms, state
    - indexer: queries, weights, scores; rotary, norm, two quantisations, top-k, index
    - dense: up, down; norm, activation
    - experts: router, up, down; norm, top-k, two sorts, activation, sum; shared ones: up, down; activation, sum
    - hyper-connections, around both parts: one mixing product; norm, balancing, mixing in and out
    """
    attention, ffn = block.attention, block.ffn
    eights, experts = formats.linear == "fp8", isinstance(ffn, Experts)
    narrow = formats.linear != "bf16" and (experts or not eights)
    products = small = 0
    if attention is not None:
        more, others, inputs = {"gqa": (4, 4, 2), "mla": (7, 8, 3), "compressed": (8, 10, 3), "recurrent": (4, 6, 2)}[
            attention.kind
        ]
        products, small = more, others + inputs * narrow
        if getattr(attention, "indexer", None):
            products, small = products + 3, small + 6
    if isinstance(ffn, Experts):
        products, small = products + 3, small + 6 + 2 * (formats.experts != "bf16")
        if ffn.shared or ffn.dense_inter:
            products, small = products + 2, small + 2 + 2 * narrow
    elif ffn is not None:
        products, small = products + 2, small + 2 + 2 * narrow
    if hyper:
        products, small = products + 2, small + 8
    return products, small + _BLOCK_SCALED * products * (eights and experts)


def element_bytes(block: Block, hidden: int, tp: int, streams: int = 0) -> float:
    """Memory traffic of norms, residuals, rotary and activation kernels per token of one layer: 8 residual-sized
    passes, queries twice in and out, gate and up in and their product out (bf16). With hyper-connections every one of
    the residual `streams` is read and written around both parts of a layer."""
    values = 8.0 * hidden + (4.0 * streams * hidden if streams > 1 else 0.0)
    attention, ffn = block.attention, block.ffn
    if isinstance(attention, (Gqa, Mla, Compressed)):
        width = attention.qk_dim if isinstance(attention, Gqa) else _latent_dims(attention)[0]
        values += 4 * attention.heads * width / tp
    if isinstance(ffn, Experts):
        values += 3 * (ffn.top_k * ffn.inter + ffn.shared + ffn.dense_inter) / tp + 2 * ffn.top_k * hidden / tp
    elif ffn is not None:
        values += 3 * ffn.inter / tp
    return 2 * values


def _latent_dims(attention: Mla | Compressed) -> tuple[int, int]:
    """(score width, value width) of one head when prefill attends in expanded form."""
    if isinstance(attention, Mla):
        return attention.nope + attention.rope, attention.v_dim
    return attention.head_dim, attention.head_dim


def caches(options: EngineOptions) -> list[Cache]:
    """What attention reads, by kind, on one rank and stage."""
    found = []
    for block in options.arch.blocks:
        attention = block.attention
        if attention is None or isinstance(attention, Recurrent):
            continue
        found += _caches(attention, block, options)
    return found


def _caches(attention: Attention, block: Block, options: EngineOptions) -> list[Cache]:
    layers = [
        layer
        for layer in kv_layers(_single(options, block), options.topology, fp8=options.kv_cache_dtype.startswith("fp8"))
        if layer.kind != "state"
    ]
    heads = getattr(attention, "heads", 0) / options.topology.attention_tp
    count = -(-block.count // options.topology.pp)
    width = sum(_latent_dims(attention)) if isinstance(attention, (Mla, Compressed)) else 0
    if isinstance(attention, Gqa):
        width = attention.qk_dim + attention.v_dim
    flops = decode_flops = 2.0 * heads * width * count
    if isinstance(attention, Mla):  # scores over latent and rope, values over the latent, without expanding either
        decode_flops = 2.0 * heads * (2 * attention.kv_lora + attention.rope) * count
    indexer = getattr(attention, "indexer", None)
    scan_bytes = scan_flops = 0.0
    if indexer:
        scan_bytes = count * indexer.key_bytes / indexer.ratio
        scan_flops = 2.0 * count * indexer.heads * indexer.dim / indexer.ratio
    if isinstance(attention, Compressed):
        window = next(layer for layer in layers if layer.kind == WINDOW)
        own = [Cache(float(count * window.row_bytes), attention.window, 0.0, flops, 0.0, flops)]
        if attention.ratio:
            row, limit = count * window.row_bytes / attention.ratio, attention.topk
            tokens = limit * attention.ratio if limit else None
            own.append(Cache(row, tokens, scan_bytes, flops / attention.ratio, scan_flops, flops / attention.ratio))
        return own
    row = sum(layer.count * layer.row_bytes / layer.ratio for layer in layers[:1])
    limit = getattr(attention, "topk", None) or getattr(attention, "window", None)
    return [Cache(float(row), limit, scan_bytes, flops, scan_flops, decode_flops)]


def _single(options: EngineOptions, block: Block) -> ModelArch:
    return replace(options.arch, blocks=(block,), mtp=())


def expert_work(block: Block, options: EngineOptions) -> ExpertWork | None:
    """The routed experts of a block as one GPU sees them."""
    ffn = block.ffn
    if not isinstance(ffn, Experts):
        return None
    topology, hidden = options.topology, options.arch.hidden
    group = topology.tp * topology.pcp
    on_gpu = routed_bytes(block, hidden, topology, options.formats)  # all experts' bytes on one GPU
    flops = 2.0 * ffn.matrices * (ffn.latent or hidden) * ffn.inter / group
    layers = -(-block.count // topology.pp)
    columns = ffn.inter * topology.ep / group
    return ExpertWork(layers, ffn.count, ffn.top_k, on_gpu / ffn.count, flops, hidden, columns)
