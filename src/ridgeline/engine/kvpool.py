"""What the scheduler of one rank sees of its cache: blocks of history, and room for recurrent states.

vLLM keeps everything in one pool: a state that is kept takes a block of every group of states, a running request has
its own. SGLang keeps states in a pool of their own, sized by a ratio beside the pool of history, which stays as fine as
its pages.
"""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.engine.kv import FULL, STATE, KvLayer, KvPlan
from ridgeline.engine.kvlayers import kv_layers
from ridgeline.engine.options import EngineOptions
from ridgeline.engine.plans import recurrent

# SGLang, kv_cache_configurator.py: bytes of states per byte of history; slots that a request is counted with when
# requests are limited (three, and two in which states are tracked while the next batch is prepared), and those it has
# while it runs (its own and the two). Pages and the grid on which prompts leave states have 64 tokens, that of answers
# (`--mamba-track-interval`) 256. In host memory states get a fifteenth more than history does.
STATE_SHARE = 0.9
COUNTED_SLOTS, OWN_SLOTS = 5, 3
PAGE, TRACK = 64, 256
HOST_STATES = 16 / 15


@dataclass(frozen=True, slots=True)
class Pool:
    """`blocks` of `block_size` tokens for history, of which each running request holds `held` more for windows and
    states, and a state that is kept for later `room`. `slots`: states in a pool of their own; None: they are not."""

    blocks: int
    block_size: int
    held: int
    room: int = 0
    slots: int | None = None


def own_state_pool(options: EngineOptions) -> bool:
    """Whether the engine keeps states in a pool of their own."""
    return "sglang" in options.engine and recurrent(options.arch)


def keeps(options: EngineOptions) -> bool:
    """Whether states are kept for later, so that prompts can be resumed from them."""
    return options.enable_prefix_caching and recurrent(options.arch)


def further_states(options: EngineOptions) -> int:
    """States a request holds beyond one: of its drafts, and of the boundary before where states are kept (vLLM's
    `align` mode)."""
    return options.num_speculative_tokens + keeps(options)


def shared_pool(plan: KvPlan, blocks: int, *, keeps: bool) -> Pool:
    """Groups share one pool: history groups take a block each per `block_size` tokens, windows and states a few blocks
    per running request. `keeps`: states are kept for later; that of the boundary before is then no request's own."""
    history = [group for group in plan.groups if group.layer.kind == FULL]
    states = sum(group.layer.kind == STATE for group in plan.groups) if keeps else 0
    others = sum(group.layer.pages(1 << 40, 0) for group in plan.groups if group.layer.kind != FULL)
    if not history:  # windows and states only: history costs nothing, requests hold a fixed number of blocks
        windows = any(group.layer.kind != STATE for group in plan.groups)
        return Pool(blocks, plan.scheduler_block if windows else 1 << 20, others)
    return Pool(
        blocks // len(history),
        max(group.layer.block * group.layer.shards for group in history),
        -(-(others - states) // len(history)),
        -(-states // len(history)),
    )


def split_pool(options: EngineOptions, available: int) -> Pool:
    """SGLang's two pools. States get STATE_SHARE / (1 + STATE_SHARE) of the memory, which also holds one state a draft
    token and request; what that leaves over goes to history. Blocks are at least 0."""
    page, state = _page(options), state_bytes(options)
    verified = 1 + options.num_speculative_tokens if options.spec_decode else 0
    budget = available * STATE_SHARE / (1 + STATE_SHARE) - state * (1 + verified)
    slots = max(0, int(budget // (state * (1 + verified / COUNTED_SLOTS))))
    if not options.enable_prefix_caching:
        slots = min(slots, options.max_num_seqs)
    requests = min(options.max_num_seqs, slots // COUNTED_SLOTS)
    left = available - state * (slots + 1 + (requests + 1) * verified)
    return Pool(max(0, int(left // page)), PAGE, 0, 0, slots)


def _layers(options: EngineOptions) -> list[KvLayer]:
    fp8 = options.kv_cache_dtype.startswith("fp8")
    return kv_layers(options.arch, options.topology, block=PAGE, fp8=fp8, mtp=options.spec_decode)


def _page(options: EngineOptions) -> int:
    return sum(layer.page * layer.count for layer in _layers(options) if layer.kind == FULL)


def state_bytes(options: EngineOptions) -> int:
    """Bytes of all recurrent states of a sequence on one GPU."""
    return sum(layer.row_bytes * layer.count for layer in _layers(options) if layer.kind == STATE)


def token_bytes(options: EngineOptions, plan: KvPlan) -> float:
    """Bytes that a token of history takes on one GPU; windows count as they do in a request of 65,536 tokens."""
    if own_state_pool(options):
        return _page(options) / PAGE
    if recurrent(options.arch):
        history = [group for group in plan.groups if group.layer.kind == FULL]
        return sum(group.bytes / (group.layer.block * group.layer.shards) for group in history)
    return plan.needed(1 << 16, 0) / (1 << 16)


def copies(options: EngineOptions, plan: KvPlan) -> int:
    """GPUs of a rank that share one copy in host memory: vLLM's stores keep a latent once for all that hold it."""
    latent = any(group.layer.latent for group in plan.groups)
    return options.topology.attention_tp if latent and "sglang" not in options.engine else 1
