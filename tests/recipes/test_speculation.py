"""Acceptance lengths come from the golden table, never from a recipe."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from tests.golden import golden
from tests.recipes.cells import FIXED, cell, deploy, option, words

import ridgeline.recipes as room
from ridgeline.core.cell import Arm
from ridgeline.core.topology import Topology
from ridgeline.recipes.origin import Value
from ridgeline.recipes.refusal import CannotRender
from ridgeline.recipes.settings import RecipeSettings
from ridgeline.recipes.speculation import speculation
from ridgeline.spec.facts.acceptance import Curve, load_curves
from ridgeline.spec.facts.golden import shipped_curves

THREE = Value(3)
MTP = Arm(Topology(8), spec_decoding="mtp")


def test_the_length_is_looked_up_by_model_mode_and_drafts() -> None:
    for mode, drafts, length in (("thinking_on", 3, 2.49), ("thinking_off", 3, 2.97), ("thinking_on", 2, 2.27)):
        found = speculation(cell(arm=MTP), RecipeSettings(mode=mode), "mtp", Value(drafts))
        assert found is not None
        assert found.golden is not None
        assert found.golden.length == length
        assert found.query == drafts + 1


def test_every_engine_is_told_in_its_own_words() -> None:
    found = speculation(cell(arm=MTP), RecipeSettings(), "mtp", THREE)
    assert found is not None
    assert found.vllm().of["synthetic_acceptance_length"] == 2.49
    assert found.sglang_env("lmsysorg/sglang:v0.5.14")["SGLANG_SIMULATE_ACC_LEN"].of == "2.49"
    mode = "SGLANG_SIMULATE_ACC_TOKEN_MODE"
    for image, known in (("v0.5.12", False), ("v0.5.14-rocm", False), ("v0.5.16", True), ("nightly-dev-1a2b", True)):
        assert (mode in found.sglang_env(f"lmsysorg/sglang:{image}")) is known
    assert found.trt_env()["TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS"].of == "1.49"


@pytest.mark.parametrize("framework", ["vllm", "sglang", "trt", "atom"])
def test_an_accuracy_run_verifies_its_drafts(framework: str) -> None:
    of = cell(arm=MTP, framework=framework, runner="b200" if framework != "atom" else "mi355x")
    for settings, synthetic in ((RecipeSettings(), True), (RecipeSettings(accuracy=True), False)):
        deployment = deploy(of, settings)
        engine = deployment.service("engine")
        text = " ".join([*words(deployment), *(name for name, _ in engine.env)])
        marks = ("synthetic", "SIMULATE_ACC", "FORCE_NUM_ACCEPTED", "acceptance-length")
        assert any(mark in text for mark in marks) is synthetic
        files = "".join(item.text for _, item in engine.files or ())
        assert "3" in text + files, "drafts stay"


def test_no_speculation_no_option() -> None:
    assert speculation(cell(arm=Arm(Topology(8))), RecipeSettings(), "mtp", THREE) is None
    assert "--speculative-config" not in words(deploy(cell(arm=Arm(Topology(8)))))


def test_a_model_without_a_curve_is_refused_by_name_where_points_compare() -> None:
    of = cell(arm=MTP, model="deepseek-ai/DeepSeek-R1-0528", model_prefix="dsr1", framework="sglang")
    with pytest.raises(CannotRender, match=r"golden acceptance length for \(deepseek-ai/DeepSeek-R1-0528, thinking_on"):
        deploy(of)
    fixed = cell(arm=MTP, model="deepseek-ai/DeepSeek-R1-0528", model_prefix="dsr1", framework="sglang", scenario=FIXED)
    assert option(words(deploy(fixed)), "--speculative-num-steps") == "3"
    assert not deploy(fixed).service("engine").env


def test_several_curves_that_differ_need_a_name() -> None:
    of = cell(arm=MTP, model="MiniMaxAI/MiniMax-M3", model_prefix="minimaxm3")
    with pytest.raises(CannotRender, match=r"minimaxm3_eagle3 2\.83, minimaxm3_eagle3_gqa 2\.78"):
        speculation(of, RecipeSettings(), "eagle3", THREE)
    for curve, length in (("minimaxm3_eagle3", 2.83), ("minimaxm3_eagle3_gqa", 2.78)):
        found = speculation(of, RecipeSettings(), "eagle3", THREE, curve=curve)
        assert found is not None
        assert found.golden is not None
        assert found.golden.length == length


def test_a_users_curve_comes_before_the_shipped_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acceptance").mkdir()
    (tmp_path / "acceptance" / "dsv4_mtp.yaml").write_text("deepseek-v4-pro:\n  thinking_on:\n    3: 2.11\n")
    monkeypatch.setenv("RIDGELINE_FACTS", str(tmp_path))
    config = json.loads(option(words(deploy(cell(arm=MTP))), "--speculative-config"))
    assert config["synthetic_acceptance_length"] == 2.11


def test_given_curves_replace_the_table() -> None:
    curves = (Curve("deepseek-v4-pro", "own_mtp", "thinking_on", {3: 1.5}, "test"),)
    config = json.loads(option(words(deploy(cell(arm=MTP), RecipeSettings(curves=curves))), "--speculative-config"))
    assert config["synthetic_acceptance_length"] == 1.5


def test_shipped_curves_are_the_published_ones() -> None:
    published = load_curves([golden("data/inferencex/golden_al_distribution")])
    mine = {(c.variant, c.model, c.mode): dict(c.lengths) for c in shipped_curves()}
    assert mine == {(c.variant, c.model, c.mode): dict(c.lengths) for c in published}


def test_no_recipe_has_an_acceptance_length_of_its_own() -> None:
    """The lengths of the table appear nowhere in the room: a recipe could only have typed them."""
    lengths = {length for curve in shipped_curves() for length in curve.lengths.values() if length % 1}
    for path in Path(str(room.__file__)).parent.glob("*.py"):
        numbers = {
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, float)
        }
        assert not numbers & lengths, path.name
