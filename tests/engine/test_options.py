import json

import pytest
from tests.golden import golden

from ridgeline.core.errors import InputError
from ridgeline.core.topology import Topology
from ridgeline.core.units import GIB
from ridgeline.engine.memory import memory_of, startup_lines
from ridgeline.engine.options import options_from

ONE = Topology(1)


def test_defaults_are_vllms_for_the_gpu() -> None:
    options = options_from("llama-3.1-8b", "h200", ONE)
    assert (options.max_num_seqs, options.max_num_batched_tokens, options.max_model_len) == (1024, 8192, 131072)
    assert (options.block_size, options.gpu_memory_utilization, options.enable_prefix_caching) == (16, 0.9, True)
    assert options.formats == ("bf16", "bf16")


def test_overrides_that_are_none_are_not_given() -> None:
    options = options_from("qwen3-0.6b", "h100", ONE, "fp8", max_num_seqs=None, max_model_len=4096, kv_tokens=1000)
    assert (options.max_num_seqs, options.max_model_len, options.kv_tokens) == (1024, 4096, 1000)
    assert options.formats == ("fp8", "fp8")


def test_all_problems_at_once() -> None:
    with pytest.raises(InputError) as raised:
        options_from(
            "qwen3-8b", "h200", Topology(3, ep=2), colour=1, max_num_seqs=0, gpu_memory_utilization=1.5, router="x"
        )
    keys = {problem.key for problem in raised.value.problems}
    assert keys == {"colour", "max_num_seqs", "gpu_memory_utilization", "router", "ep"}


def test_expert_parallelism_must_divide_the_gpus() -> None:
    with pytest.raises(InputError, match="does not divide"):
        options_from("gpt-oss-120b", "h200", Topology(4, ep=3))


def test_speculation_has_the_golden_acceptance_length_unless_told() -> None:
    model = "deepseek-v4-pro"
    topology = Topology(8)
    assert options_from(model, "b300", topology, num_speculative_tokens=3).accepted_per_step == 2.49
    told = options_from(model, "b300", topology, num_speculative_tokens=3, acceptance_length=3.2)
    assert (told.accepted_per_step, told.spec_decode) == (3.2, True)
    assert options_from(model, "b300", topology).accepted_per_step == 1
    with pytest.raises(InputError, match="must be 1 to 4 with 3 draft tokens"):
        options_from(model, "b300", topology, num_speculative_tokens=3, acceptance_length=4.5)


def test_memory_adds_up() -> None:
    memory = memory_of(options_from("llama-3.1-8b", "h200", ONE))
    assert memory.available == memory.requested - round(memory.weights.total) - memory.activation - memory.other
    assert memory.pool.blocks == memory.capacity.blocks == memory.available // memory.plan.bytes_per_block


def test_a_model_that_does_not_fit_is_refused_with_the_arithmetic() -> None:
    with pytest.raises(InputError, match=r"No available memory[\s\S]*GiB requested[\s\S]*hint") as raised:
        memory_of(options_from("deepseek-r1", "h200", ONE, "fp8"))
    assert raised.value.exit_code == 2
    with pytest.raises(InputError, match="estimated maximum model length"):
        memory_of(options_from("llama-3.1-70b", "h200", ONE, "fp8", gpu_memory_utilization=0.6))


def test_an_overridden_pool_leaves_memory_aside() -> None:
    memory = memory_of(options_from("deepseek-r1", "h200", ONE, "fp8", kv_tokens=3200))
    assert (memory.pool.blocks, memory.pool.block_size) == (200, 16)


def test_windows_and_states_are_held_per_request() -> None:
    assert memory_of(options_from("gpt-oss-120b", "h200", ONE)).pool.held == 9
    hybrid = memory_of(options_from("Qwen3.5-397B-A17B", "b200", Topology(8), "fp8")).pool
    assert hybrid.held == 3
    assert hybrid.block_size > 16


def test_log_lines_are_vllms() -> None:
    options = options_from("llama-3.1-8b", "h200", ONE)
    lines = startup_lines(options, memory_of(options))
    assert lines[0] == "Model loading took 14.96 GiB memory"
    assert lines[2].startswith("GPU KV cache size: 89")
    assert lines[2].endswith(" tokens")
    assert lines[3].startswith("Maximum concurrency for 131,072 tokens per request: 6.8")


def test_pools_of_a_real_engine_within_three_percent() -> None:
    facts = json.loads(golden("h200/results.json").read_text())["facts"]
    for name, utilization in (("l8_f50", 0.5), ("l8_f80", 0.8), ("l8_f90", 0.9), ("l8_prefill", 0.9)):
        memory = memory_of(options_from("llama-3.1-8b", "h200", ONE, gpu_memory_utilization=utilization))
        assert memory.weights.total / GIB == pytest.approx(facts[name]["model_gib"], rel=0.01)
        assert memory.capacity.tokens == pytest.approx(facts[name]["kv_tokens"], rel=0.03), name


def test_weights_that_do_not_fit_are_the_reason_given() -> None:
    """The engine's own advice, more memory, leads nowhere when the weights alone are more than there is."""
    with pytest.raises(InputError, match=r"the weights do not fit.*for weights[\s\S]*more GPUs") as raised:
        memory_of(options_from("Qwen/Qwen3-235B-A22B", "h200", Topology(1), "bf16"))
    assert "increasing" not in str(raised.value)
