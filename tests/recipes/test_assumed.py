"""The engines of a cell are read out of its recipe: every option that counts, the host tier, the router; and where no
recipe writes a cell, that is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.recipes.cells import FIXED, POOLS, ROUTER, cell

from ridgeline.core.cell import Arm, Cell, Component
from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.core.topology import Topology
from ridgeline.engine.argv import with_value
from ridgeline.engine.memory import memory_of
from ridgeline.engine.options import EngineOptions
from ridgeline.recipes.assumed import assumed
from ridgeline.recipes.emulated import Assumed, deployed, emulated
from ridgeline.recipes.registry import RECIPES, Recipe, deployment_of
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.spec.facts.library import find_gpu, find_model
from ridgeline.spec.settings import load_settings

DEP8 = Topology(8, ep=8, dp_attn=True)
QWEN = {"model": "Qwen/Qwen3-32B", "model_prefix": "qwen3", "precision": "fp8", "runner": "cluster:h200-nv"}
MOE = {**QWEN, "model": "Qwen/Qwen3-235B-A22B", "model_prefix": "qwen3-235b"}
SGLANG = {"framework": "sglang", "image": "lmsysorg/sglang:v0.5.16"}


def facts(of: Cell) -> Facts:
    fleet = load_settings().fleet(of.benchmark.runner)
    return Facts(find_model(of.benchmark.model), find_gpu(of.benchmark.runner), fleet)


def read(of: Cell, settings: RecipeSettings | None = None, recipes: tuple[Recipe, ...] = RECIPES) -> Assumed:
    return assumed(of, facts(of), settings or RecipeSettings(), recipes)


def options(of: Cell) -> EngineOptions:
    return read(of).decoding


def edited(of: Cell, change: Callable[[Service], Service], name: str = "engine") -> Assumed:
    """What is read when the shipped recipe's service is changed: a recipe of the user's own."""

    def mine(one: Cell, known: Facts, settings: RecipeSettings) -> Deployment:
        made = deployment_of(one, known, settings)
        return replace(made, services=tuple(change(s) if s.name == name else s for s in made.services))

    return read(of, recipes=(Recipe("mine", mine, None, cells="*"), *RECIPES))


def flag(name: str, value: str | None) -> Callable[[Service], Service]:
    return lambda service: replace(service, argv=with_value(service.argv, name, value))


def test_all_that_the_recipe_says_is_taken() -> None:
    of = cell(arm=Arm(DEP8, spec_decoding="mtp", router=ROUTER))
    found = read(of)
    assert found.recipe == "dsv4-mi355x-vllm (framework vllm, model prefix dsv4, precision fp4, GPU mi355x)"
    got = found.decoding
    assert (got.gpu_memory_utilization, got.kv_cache_dtype, got.block_size) == (0.86, "fp8", 256)
    assert (got.max_num_seqs, got.max_num_batched_tokens, got.max_model_len) == (32, 8192, 1_048_576)
    assert (got.num_speculative_tokens, got.acceptance_length) == (3, pytest.approx(2.49))
    assert (got.topology, got.router, got.cudagraph_mode) == (DEP8, "session", "FULL_AND_PIECEWISE")
    assert got.graphs.covered_sequences == 32
    b200 = options(
        replace(of, benchmark=replace(of.benchmark, runner="cluster:b200-nv", image="vllm/vllm-openai:v0.26.0"))
    )
    assert (b200.prefill_schedule_interval, b200.gpu_memory_utilization) == (8, 0.9)
    assert not options(replace(of, scenario=FIXED)).enable_prefix_caching, "prompts of fixed lengths share nothing"


def test_an_accuracy_run_pins_no_acceptance() -> None:
    of = cell()
    assert read(of, RecipeSettings(accuracy=True)).decoding.acceptance_length is None
    assert read(of).decoding.acceptance_length is not None


def test_limits_of_sglang_are_those_of_a_rank() -> None:
    got = options(cell(arm=Arm(DEP8, spec_decoding="mtp"), concurrency=64, runner="cluster:b200-nv", **SGLANG))
    assert (got.engine, got.prefill_first, got.scheduler_reserve_full_isl) == ("sglang", True, True)
    assert (got.max_num_seqs, got.max_num_batched_tokens) == (16, 8192)
    assert (got.max_cudagraph_capture_size, got.cudagraph_mode) == (16 * 4, "FULL_DECODE_ONLY")
    assert got.router == "round-robin", "without a router SGLang's ranks take turns"
    of = cell(arm=Arm(Topology(1)), **SGLANG, **QWEN)
    mixed = edited(of, flag("enable-mixed-chunk", None)).decoding
    assert not mixed.prefill_first
    less = edited(of, flag("mem-fraction-static", "0.5")).decoding
    share = 0.35 * facts(of).gpu.memory_bytes
    assert (options(of).kv_cache_memory_bytes or 0) - (less.kv_cache_memory_bytes or 0) == pytest.approx(
        share, rel=0.01
    )


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("max-num-seqs", "7", "max_num_seqs", 7),
        ("max-num-batched-tokens", "4k", "max_num_batched_tokens", 4000),
        ("block-size", "64", "block_size", 64),
        ("kv-cache-dtype", "fp8_e4m3", "kv_cache_dtype", "fp8"),
        ("long-prefill-token-threshold", "2048", "long_prefill_token_threshold", 2048),
        ("prefill-schedule-interval", "4", "prefill_schedule_interval", 4),
        ("max-model-len", "40000", "max_model_len", 40_000),
        ("async-scheduling", "false", "async_scheduling", False),
        ("enable-prefix-caching", "false", "enable_prefix_caching", False),
        ("scheduler-reserve-full-isl", "false", "scheduler_reserve_full_isl", False),
        ("enforce-eager", None, "cudagraph_mode", "NONE"),
        ("max-cudagraph-capture-size", "64", "max_cudagraph_capture_size", 64),
        ("performance-mode", "interactivity", "dense_capture", True),
        ("kv-cache-memory-bytes", "20000000000", "kv_cache_memory_bytes", 20_000_000_000),
        ("disable-hybrid-kv-cache-manager", None, "hybrid_kv_cache_manager", False),
    ],
)
def test_a_users_flag_is_what_the_prediction_runs_on(
    name: str, value: str | None, field: str, expected: object
) -> None:
    of = cell(arm=Arm(Topology(2)), **QWEN)
    assert getattr(edited(of, flag(name, value)).decoding, field) == expected


def test_a_users_utilisation_is_a_smaller_pool() -> None:
    of = cell(arm=Arm(Topology(1)), **QWEN)
    whole, less = read(of), edited(of, flag("gpu-memory-utilization", "0.4"))
    assert less.recipe.startswith("mine (override")
    gone = (whole.decoding.kv_cache_memory_bytes or 0) - (less.decoding.kv_cache_memory_bytes or 0)
    assert gone == pytest.approx(0.5 * facts(of).gpu.memory_bytes, rel=1e-6)


def test_retention_leaves_checkpoints_at_prompt_ends_and_on_a_grid() -> None:
    kept = ("VLLM_PREFIX_CACHE_RETENTION_INTERVAL", Item("32768"))
    got = edited(cell(), lambda service: replace(service, env=(*service.env, kept))).decoding
    assert (got.checkpoints, got.checkpoint_interval) == ("prompt", 32_768)


def offloading(backend: str, topology: Topology = DEP8, **changes: object) -> Cell:
    arm = Arm(topology, kv_offloading="dram", kv_offload_backend=Component(backend), cpu_dram_gb=1000, router=ROUTER)
    return cell(arm=arm, **changes)


@pytest.mark.parametrize("backend", ["native", "vllm-simple", "lmcache"])
@pytest.mark.parametrize("topology", [Topology(8), Topology(8, ep=8), DEP8], ids=lambda t: t.label)
def test_a_budget_is_as_many_tokens_as_its_gpus_keep_parts_of(backend: str, topology: Topology) -> None:
    """Latents are whole on every GPU: engines keep them as often in host memory, a store beside the engine once."""
    got = options(offloading(backend, topology))
    per_token = memory_of(got).plan.needed(1 << 16, 0) / (1 << 16)
    shared = topology.attention_tp if backend == "lmcache" else 1
    assert got.host_kv_tokens == pytest.approx(shared * 1000e9 / 8 / per_token, rel=0.01)
    assert options(cell(arm=Arm(topology))).host_kv_tokens == 0


def test_mooncakes_segments_leave_room_for_its_buffers() -> None:
    got, native = (options(offloading(name)).host_kv_tokens for name in ("mooncake", "native"))
    assert got / native == pytest.approx((125e9 - 4 * 2**30) / 125e9, rel=0.01)


def test_hicache_is_a_multiple_of_the_device_pool() -> None:
    arm = Arm(Topology(8), kv_offloading="dram", kv_offload_backend=Component("hicache"), cpu_dram_gb=1000)
    of = cell(arm=arm, runner="cluster:b200-nv", **SGLANG)
    got = options(of)
    pool = memory_of(got).pool
    argv = [item.text for item in deployment_of(of, facts(of), RecipeSettings()).service("engine").argv]
    ratio = float(argv[argv.index("--hicache-ratio") + 1])
    assert got.host_kv_tokens == int(ratio * pool.blocks * pool.block_size)


def test_a_host_tier_of_unknown_size_is_refused_by_name() -> None:
    with pytest.raises(EnvironmentFailed, match="without a host-memory budget"):
        read(replace(offloading("native"), arm=replace(offloading("native").arm, cpu_dram_gb=0)))


def test_the_router_decides_who_gets_a_session() -> None:
    ranks = cell(arm=Arm(DEP8, router=ROUTER), runner="cluster:b200-nv", image="vllm/vllm-openai:v0.26.0")
    assert options(ranks).router == "session"
    assert options(replace(ranks, arm=Arm(DEP8))).router == "least-loaded", "the engine balances its ranks itself"
    for policy, expected in (
        ("round_robin", "round-robin"), ("cache_aware", "cache-aware"), ("power_of_two", "least-loaded"),
    ):  # fmt: skip
        assert edited(ranks, flag("policy", policy), "router").decoding.router == expected
    blind = edited(ranks, flag("intra-node-data-parallel-size", "1"), "router").decoding
    assert blind.router == "least-loaded", "a router that does not know the ranks leaves them to the engine"
    guessed = edited(ranks, flag("policy", "random"), "router")
    assert "`random` is taken as round-robin" in guessed.notes


def test_workers_of_pools_are_engines_of_their_own() -> None:
    found = read(cell(arm=POOLS, **MOE))
    assert [(e.name, e.role, e.options.topology.label) for e in found.engines] == [
        ("prefill0", "prefill", "TP4"), ("prefill1", "prefill", "TP4"), ("decode0", "decode", "DP8EP8"),
    ]  # fmt: skip
    assert (found.split, found.policy, found.decoding.topology) == (True, "session", DEP8)
    assert found.engines[0].options == found.engines[1].options


def test_what_no_recipe_writes_has_the_engines_defaults_and_says_so() -> None:
    found = read(cell(arm=Arm(Topology(1)), **{**QWEN, "framework": "dynamo-trt"}))
    assert "no recipe writes framework `dynamo-trt`" in found.recipe
    assert found.recipe.endswith("the engine's defaults")
    assert (found.decoding.max_num_seqs, found.decoding.gpu_memory_utilization) == (1024, 0.9)


def test_what_a_recipe_has_no_flags_for_is_put_back_in_the_cells_words() -> None:
    plain = options(cell(arm=Arm(Topology(1)), **QWEN))
    drafting = read(cell(arm=Arm(Topology(1), spec_decoding="eagle3"), **QWEN))
    assert drafting.recipe.startswith("vllm (framework vllm); `eagle3` speculation of Qwen/Qwen3-32B")
    got = drafting.decoding
    assert (got.num_speculative_tokens, got.draft_layer) == (3, False)
    assert got.graphs.covered_sequences == got.max_num_seqs
    assert (got.max_num_seqs, got.kv_cache_memory_bytes) == (plain.max_num_seqs, plain.kv_cache_memory_bytes)
    tiered = replace(POOLS, kv_offloading="dram", kv_offload_backend=Component("hicache"), cpu_dram_gb=800, router=None)
    found = read(cell(arm=tiered, **{**MOE, **SGLANG, "framework": "dynamo-sglang"}))
    assert "KV offloading under Dynamo, for which it has no flags" in found.recipe
    prefill, decode = found.engines[0].options, found.decoding
    per_token = memory_of(prefill).plan.needed(1 << 16, 0) / (1 << 16)
    assert prefill.host_kv_tokens == pytest.approx(800e9 / 4 / per_token, rel=1e-6), "four GPUs of a prefill worker"
    assert decode.host_kv_tokens == 0


def test_what_the_model_passes_over_is_noted() -> None:
    of = cell(arm=Arm(Topology(1)), **QWEN)
    assert "`--enable-dbo` is not modelled" in edited(of, flag("enable-dbo", None)).notes
    assert any(note.startswith("cache: overhead of ") for note in read(of).notes)


def test_a_recipe_whose_engine_is_not_read_has_the_engines_defaults() -> None:
    of = cell(arm=Arm(Topology(1)), **QWEN)
    odd = edited(of, lambda service: replace(service, role="thing"))
    assert odd.recipe.startswith("mine (override") and odd.recipe.endswith("the engine's defaults")
    assert odd.decoding.max_num_seqs == 1024


def test_a_command_line_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InputError, match="must be an integer, is `many`"):
        edited(cell(), flag("max-num-seqs", "many"))
    with pytest.raises(InputError, match="cudagraph_capture_sizes"):
        edited(cell(arm=Arm(Topology(1)), **QWEN), flag("max-cudagraph-capture-size", "0"))


@pytest.mark.parametrize(
    ("arm", "name"),
    [
        (Arm(Topology(2, ep=8, dp_attn=True)), "4 data-parallel ranks of 2 GPUs each"),
    ],
)
def test_what_is_not_modelled_is_refused_by_name(arm: Arm, name: str) -> None:
    with pytest.raises(EnvironmentFailed, match=name):
        read(cell(arm=arm, **QWEN))


@pytest.mark.parametrize(
    "of",
    [
        cell(),
        cell(arm=Arm(DEP8, spec_decoding="mtp", router=ROUTER)),
        offloading("native"),
        cell(arm=Arm(Topology(1)), **SGLANG, **QWEN),
        cell(arm=POOLS, **MOE),
    ],
    ids=lambda of: of.arm.label,
)
def test_an_emulated_engine_is_told_what_the_prediction_runs_on(of: Cell) -> None:
    """What an emulated deployment says is read back as the same engines: the two cannot differ."""
    found = read(of)
    made = deployed(of, found, facts(of), RecipeSettings())
    again = read(of, recipes=(Recipe("told", lambda *_: made, None, cells="*"),))
    assert [(e.name, e.role, e.options) for e in again.engines] == [(e.name, e.role, e.options) for e in found.engines]
    assert again.policy == found.policy


def test_the_embedded_engine_has_its_own_words() -> None:
    of = cell(arm=Arm(Topology(1)), **{**QWEN, "framework": "emulated"})
    found = read(of)
    assert (found.recipe, found.notes) == ("emulated (framework emulated)", ())
    words = [item.text for item in emulated(of, facts(of), RecipeSettings()).service("engine").argv]
    assert "--kv-cache-memory-bytes" not in words
