"""What recipes derive: from the fleet's memory, from experts that do not divide, from GPUs that are nearly full."""

from __future__ import annotations

import datetime

import pytest
from tests.recipes.cells import cell

from ridgeline.core.cell import Arm, Cell, Scenario
from ridgeline.core.deployment import Deployment
from ridgeline.core.finding import Verdict
from ridgeline.core.topology import Pool, Topology
from ridgeline.plan.checks.report import check
from ridgeline.plan.checks.subject import Knowledge, Subject, bind, formats_for
from ridgeline.plan.checks.workload import workload_of
from ridgeline.recipes.limits import memory_share, redundant_experts
from ridgeline.recipes.origin import here
from ridgeline.recipes.registry import deployment_of
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.spec.facts.golden import shipped_curves
from ridgeline.spec.facts.library import find_gpu, find_model
from ridgeline.spec.settings import Fleet

DEP8 = Topology(8, ep=8, dp_attn=True)
FIXED = Scenario("fixed-seq-len", isl=8192, osl=1024)
SEEN = datetime.date(2026, 8, 20)


def facts_of(one: Cell, free: float | None = None) -> Facts:
    runner = one.benchmark.runner
    gpu = find_gpu(runner)
    return Facts(find_model(one.benchmark.model), gpu, Fleet(runner, gpu.name, 8, free, SEEN if free else None))


def written(one: Cell, free: float | None = None) -> Deployment:
    return deployment_of(one, facts_of(one, free), RecipeSettings())


def said(deployment: Deployment, flag: str) -> str | None:
    words = [item.text for service in deployment.services for item in service.argv]
    return words[words.index(flag) + 1] if flag in words else None


def fails(one: Cell, free: float | None = None) -> set[str]:
    facts = facts_of(one, free)
    subject = Subject(
        cell=one, arch=facts.arch, gpu=facts.gpu, formats=formats_for(one, facts.arch, facts.gpu), fleet=facts.fleet,
        workload=workload_of(one), known=Knowledge(curves=shipped_curves()),
    )  # fmt: skip
    report = check(bind(subject, written(one, free)))
    return {j.finding.rule for j in report.judged if j.finding.verdict is Verdict.FAIL}


@pytest.mark.parametrize(("free", "share"), [(None, 0.9), (280.0, 0.9), (256.0, 0.87), (200.0, 0.68)])
def test_no_more_memory_is_asked_for_than_the_fleet_has_free(free: float | None, share: float) -> None:
    one = cell(
        arm=Arm(Topology(8)), runner="mi355x", model="Qwen/Qwen3-235B-A22B", model_prefix="qwen3", precision="bf16"
    )
    assert said(written(one, free), "--gpu-memory-utilization") == f"{share:g}"
    assert memory_share(facts_of(one, free), here(0.5)).of == 0.5
    assert "M1" not in fails(one, free)


@pytest.mark.parametrize(("ranks", "spare"), [(8, 0), (24, 8), (48, 32), (40, 24)])
def test_experts_are_made_to_divide(ranks: int, spare: int) -> None:
    assert redundant_experts(find_model("deepseek-r1"), ranks) == spare
    assert redundant_experts(find_model("llama-3.1-8b"), ranks) == 0
    pools = (
        Pool("prefill", 1, Topology(8, ep=8, dp_attn=True)),
        Pool("decode", 1, Topology(ranks, ep=ranks, dp_attn=True)),
    )
    for framework in ("dynamo-sglang", "dynamo-vllm"):
        if framework == "dynamo-vllm" and ranks % 8:
            continue
        one = cell(
            arm=Arm(None, pools=pools, kv_p2p_transfer="nixl"), framework=framework, runner="gb200", scenario=FIXED,
            model="deepseek-ai/DeepSeek-R1", model_prefix="dsr1", precision="fp8", concurrency=256,
        )  # fmt: skip
        deployment = written(one)
        found = said(deployment, "--ep-num-redundant-experts") or said(deployment, "--eplb-config")
        assert (
            found == {"dynamo-sglang": str(spare), "dynamo-vllm": f'{{"num_redundant_experts":{spare}}}'}[framework]
            if spare
            else found is None
        )
        assert "P4" not in fails(one)


@pytest.mark.parametrize("spec", ["none", "mtp"])
def test_a_gpu_that_the_weights_nearly_fill(spec: str) -> None:
    """124 of 139.8 GiB are weights: eight ranks start only with few tokens in flight."""
    one = cell(arm=Arm(DEP8, spec_decoding=spec), runner="h200", precision="fp8", scenario=FIXED)
    deployment = written(one)
    assert deployment.recipe.startswith("dsv4-h200-vllm")
    assert said(deployment, "--max-num-batched-tokens") == "2048"
    assert not fails(one)


def test_engines_that_answer_can_forget_their_cache() -> None:
    env = {name: item.text for name, item in written(cell(arm=Arm(Topology(8)))).services[0].env}
    assert env["VLLM_SERVER_DEV_MODE"] == "1"


@pytest.mark.integration
def test_no_recipe_of_ours_fails_on_the_public_search_spaces() -> None:
    from tests.golden import golden

    from ridgeline.cli.preflight import Subjects, knowledge
    from ridgeline.cli.search import chosen_cells
    from ridgeline.spec.settings import load_settings

    for name in ("amd-master.yaml", "nvidia-master.yaml"):
        config = golden(f"data/inferencex/configs/{name}")
        maker = Subjects(load_settings(None), knowledge([config]))
        for one in chosen_cells([config], config.with_name("runners.yaml"), "*"):
            worst = [j.finding for j in check(maker.of(one)).judged if j.finding.verdict is Verdict.FAIL]
            assert not worst, (one.name, worst)
