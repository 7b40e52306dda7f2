"""Options become arguments: spelled once, checked, with their origin."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from tests.recipes.cells import cell

from ridgeline.core.errors import InputError
from ridgeline.core.where import Where
from ridgeline.recipes.argv import compact, environment, flags
from ridgeline.recipes.origin import Option, Value, here, plain
from ridgeline.recipes.router import VllmRouter
from ridgeline.recipes.vllm import Parallel, Vllm

PLACE = Where("recipes/x.py", 7)
DEFAULT = Where("recipes/default.py")


@dataclass(frozen=True, kw_only=True)
class Inner:
    depth: Option[int] = None


@dataclass(frozen=True, kw_only=True)
class Options:
    model: Option[str] = field(default="m", metadata={"positional": True})
    yes: Option[bool] = None
    caching: Option[bool] = None
    ratio: Option[float] = None
    sizes: Option[tuple[int, ...]] = None
    config: Option[dict[str, int]] = None
    inner: Inner = field(default_factory=Inner)
    extra: tuple[tuple[str, str | None], ...] = ()


def texts(options: Options, **how: object) -> list[str]:
    return [item.text for item in flags(options, DEFAULT, **how)]  # type: ignore[arg-type]


def test_values_are_spelled_by_their_type() -> None:
    options = Options(yes=True, ratio=0.9, sizes=(1, 2), config={"b": 1, "a": 2}, inner=Inner(depth=3))
    expected = ["--yes", "--ratio", "0.9", "--sizes", "1", "2", "--config", '{"b":1,"a":2}', "--depth", "3"]
    assert texts(options) == expected


def test_none_is_left_out_and_false_needs_a_flag_that_says_no() -> None:
    assert texts(Options(yes=False, caching=False), negatable=("caching",)) == ["--no-caching"]
    assert texts(Options(ratio=Value(0.5, PLACE)), spell=lambda name: f"-{name}") == ["-ratio", "0.5"]


def test_origins_stay_with_the_words() -> None:
    found = flags(Options(ratio=Value(0.5, PLACE), yes=True), DEFAULT)
    assert {item.text: item.origin for item in found} == {"--ratio": PLACE, "0.5": PLACE, "--yes": DEFAULT}


def test_a_flag_that_stands_twice_is_refused_with_both_values() -> None:
    with pytest.raises(InputError, match=r"`--ratio` is given twice: `0.5` and `0.6`"):
        texts(Options(ratio=0.5, extra=(("--ratio", "0.6"),)))


def test_extra_flags_come_last_and_may_have_no_value() -> None:
    assert texts(Options(yes=True, extra=(("--other", "1"), ("--bare", None)))) == ["--yes", "--other", "1", "--bare"]


def test_later_parts_of_an_environment_win_and_none_is_left_out() -> None:
    found = environment(DEFAULT, {"B": 1, "A": "x", "C": None}, {"A": Value("y", PLACE)})
    assert [(name, item.text, item.origin) for name, item in found] == [("A", "y", PLACE), ("B", "1", DEFAULT)]


def test_here_names_the_line_that_calls_it() -> None:
    import inspect

    frame = inspect.currentframe()
    assert frame is not None
    value, line = here(5), frame.f_lineno
    assert value.origin is not None
    assert (plain(value), value.origin.line) == (5, line)
    assert value.origin.file.endswith("test_building.py")


def test_json_words_refuse_what_json_does_not_have() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        compact({"x": float("nan")})


def test_every_wrong_option_is_named_at_once() -> None:
    with pytest.raises(InputError) as refused:
        Vllm(
            model="m",
            served_model_name="m",
            parallel=Parallel(),
            gpu_memory_utilization=Value(1.2, PLACE),
            max_num_seqs=0,
            max_num_batched_tokens=-1,
        )
    assert [problem.key for problem in refused.value.problems] == [
        "max_num_seqs",
        "max_num_batched_tokens",
        "gpu_memory_utilization",
    ]
    assert refused.value.problems[2].where == PLACE


def test_a_policy_nobody_knows_is_refused() -> None:
    with pytest.raises(InputError, match="one of random, round_robin"):
        VllmRouter(policy="sticky")


def test_the_shared_cell_is_the_one_the_tests_describe() -> None:
    assert cell().name == "dsv4-fp4-mi355x-vllm-agentic-mtp/agentic/TP8-mtp/c32"
