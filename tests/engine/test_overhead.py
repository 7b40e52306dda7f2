import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.deployment import Item, Service
from ridgeline.engine.builds import build_of
from ridgeline.engine.formats import Formats
from ridgeline.engine.overhead import Key, extra_weights, overhead, same_build
from ridgeline.engine.sizing import size
from ridgeline.engine.vllm_flags import vllm_launch
from ridgeline.spec.facts.library import find_gpu, find_model
from ridgeline.spec.facts.observations import Observation, load_observations

KEY = Key("vllm/vllm-openai:v0.24.0", "org/M", "H200", "TP1", 8192)


def start(gib: float, budget: int = 8192, **more: object) -> Observation:
    """A start that took `gib` beside 20 GiB of weights out of 100 x 0.9."""
    facts: dict[str, object] = {
        "image": "vllm-0.24.0", "model": "org/M", "gpu": "H200", "topology": "TP1", "batched_tokens": budget,
        "utilization": 0.9, "total_gib": 100.0, "weights_gib": 20.0, "kv_gib": 70.0 - gib, **more,
    }  # fmt: skip
    return Observation(**facts)  # type: ignore[arg-type]


def interval(*starts: Observation, key: Key = KEY) -> tuple[float, float | None]:
    found = overhead(starts, key)
    return round(found.low, 6), None if found.high is None else round(found.high, 6)


def test_the_same_budget_gives_what_was_seen() -> None:
    assert interval(start(3.0)) == (3.0, 3.0)
    assert interval(start(3.0), start(3.5)) == (3.0, 3.5)
    assert overhead([start(3.0), start(3.5)], KEY).text == "3.00 to 3.50 GiB"


def test_other_budgets_bound_one_side() -> None:
    assert interval(start(5.0, 16384)) == (0.0, 5.0)
    assert interval(start(2.0, 4096)) == (2.0, None)
    assert interval(start(2.0, 4096), start(5.0, 16384)) == (2.0, 5.0)


def test_only_alike_starts_count() -> None:
    for change in (
        {"gpu": "H100"}, {"topology": "TP2"}, {"model": "org/N"}, {"image": "vllm-0.25.0"}, {"drafts": 3},
        {"kv_gib": None},
    ):  # fmt: skip
        assert interval(start(3.0, **change)) == (0.0, None), change
    assert overhead([], KEY).text == "not observed"
    named = KEY._replace(backends="triton")
    assert interval(start(3.0, backends="marlin"), key=named) == (0.0, None)
    assert interval(start(3.0, backends="triton"), key=named) == (3.0, 3.0)


def test_builds_that_nobody_named_are_only_themselves() -> None:
    assert same_build("vllm/vllm-openai:v0.24.0", "vllm-0.24.0")
    assert same_build("x:nightly-abc", "x:nightly-abc")
    assert not same_build("x:nightly-abc", "x:nightly-abd")


def test_weights_beyond_the_formula() -> None:
    assert extra_weights([start(3.0)], KEY, 19.5) == 0.5
    assert extra_weights([start(3.0)], KEY, 21.0) == 0.0
    assert extra_weights([], KEY, 1.0) == 0.0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 20), st.sampled_from([2048, 4096, 8192, 16384])), max_size=6))
def test_low_is_never_above_high(seen: list[tuple[float, int]]) -> None:
    found = overhead([start(gib, budget) for gib, budget in seen], KEY)
    assert found.high is None or found.low <= found.high


def test_weights_of_another_precision_are_not_taken_for_padding() -> None:
    """A start with bf16 weights says what overhead is, and nothing about the weights of an fp8 one."""
    arch, gpu = find_model("qwen3-32b"), find_gpu("h200")
    words = ("vllm", "serve", "Qwen/Qwen3-32B", "--max-num-batched-tokens", "8192")
    launch = vllm_launch(Service("engine", tuple(map(Item, words))), build_of("vllm-0.24.0"))
    seen = load_observations()
    wide, narrow = (size(launch, arch, gpu, Formats(f, f), seen, "vllm-0.24.0") for f in ("bf16", "fp8"))
    assert narrow.extra == 0
    assert narrow.overhead == wide.overhead
    assert narrow.low - wide.low == pytest.approx(wide.weights.total - narrow.weights.total, rel=0.02)
