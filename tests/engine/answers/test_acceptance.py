from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden import golden

from ridgeline.core.errors import InputError
from ridgeline.engine.acceptance import golden_lengths, schedule
from ridgeline.engine.answers.acceptance import answer
from ridgeline.spec.facts.acceptance import find_folder, load_curves


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "golden_al_distribution").mkdir()
    own = tmp_path / "golden_al_distribution"
    (own / "a_mtp.yaml").write_text("deep-model-nvfp4:\n  thinking_on:\n    1: 1.5\n    3: 2.49\n")
    (own / "a_dspark.yaml").write_text("deep-model-0813:\n  thinking_on:\n    3: 3.01\n")
    return own


def test_a_length_becomes_rates_by_position() -> None:
    assert schedule(2.49, 3).rates == (1.0, 0.49, 0.0)
    assert schedule(1, 2).rates == (0.0, 0.0)
    assert schedule(4, 3).rates == (1.0, 1.0, 1.0)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.floats(0, 1))
def test_rates_fall_and_add_up_to_the_length(drafts: int, share: float) -> None:
    length = 1 + share * drafts
    rates = schedule(length, drafts).rates
    assert list(rates) == sorted(rates, reverse=True)
    assert 1 + sum(rates) == pytest.approx(length)


def test_lengths_outside_are_refused() -> None:
    assert "outside [1, 4]" in answer({"acceptance_length": 4.5, "num_spec_tokens": 3}, ())["error"]
    with pytest.raises(InputError, match="no golden length"):
        answer({"model": "other", "num_spec_tokens": 3}, ())


def test_the_longest_matching_name_wins(folder: Path) -> None:
    curves = load_curves([folder])
    assert [item.length for item in golden_lengths(curves, "org/Deep-Model", 3)] == [2.49]
    assert [item.length for item in golden_lengths(curves, "org/Deep_Model-0813-FP8", 3)] == [3.01]
    assert golden_lengths(curves, "org/Deep-Model", 2) == ()


def test_the_folder_is_found_beside_configs(folder: Path) -> None:
    assert find_folder(folder.parent / "configs" / "space.yaml") == folder.resolve()


def test_what_is_not_a_curve_is_named(folder: Path) -> None:
    (folder / "bad.yaml").write_text("model:\n  thinking_on:\n    one: x\n")
    with pytest.raises(InputError, match=r"bad\.yaml.*must map draft lengths to numbers"):
        load_curves([folder])


def test_committed_lengths() -> None:
    curves = load_curves([golden("data/inferencex/golden_al_distribution")])
    for model, drafts, length in (
        ("deepseek-ai/DeepSeek-V4-Pro", 3, 2.49), ("zai-org/GLM-5.2-FP8", 3, 2.99), ("zai-org/GLM-5.2", 5, 3.61),
        ("Qwen/Qwen3.5-397B-A17B", 3, 3.39),
    ):  # fmt: skip
        assert [item.length for item in golden_lengths(curves, model, drafts)] == [length]
    assert [g.length for g in golden_lengths(curves, "MiniMaxAI/MiniMax-M3", 3, method="gqa")] == [2.78]
