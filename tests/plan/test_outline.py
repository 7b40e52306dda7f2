from __future__ import annotations

import json

import pytest
from tests.plan.spaces import RUNNERS, agentic, fixed, load, pair

from ridgeline.plan import select, table
from ridgeline.plan.estimate import DEFAULTS, PHASES, ArmPlan, Hours, arm_plans, total
from ridgeline.plan.evals import EvalMode
from ridgeline.plan.filters import ALL, Filters
from ridgeline.plan.outline import Planned, outline
from ridgeline.spec.config import ConfigSet

CONFIGS = load(
    one=fixed({"tp": 8, "conc-list": [4, 16, 64]}, {"tp": 4, "conc-list": [16]}, isl=8192),
    two=agentic(pair(conc_list=[8, 32]), multinode=True, model="acme/large"),
)


def plan(
    configs: ConfigSet = CONFIGS, mode: EvalMode = EvalMode.DEFAULT, filters: Filters = ALL
) -> tuple[Planned, ...]:
    return outline(select.full_sweep(configs, RUNNERS, filters), RUNNERS, mode)


def evaluated(mode: EvalMode) -> list[str]:
    return [item.cell.name for item in plan(mode=mode) if item.evaluated]


def test_evals_are_counted_on_cells() -> None:
    assert [item.measured for item in plan()] == [True] * 6
    assert evaluated(EvalMode.DEFAULT) == ["one/8k1k/TP8/c64"]
    assert evaluated(EvalMode.NONE) == []
    assert evaluated(EvalMode.ONLY) == ["one/8k1k/TP8/c64", "two/agentic/1xDP8EP8+1xDP8EP8/c32"]
    assert len(evaluated(EvalMode.ALL)) == 5, "merged rows stand for the concurrencies of their topology"
    assert all(not item.measured for item in plan(mode=EvalMode.ONLY))


def test_a_node_filter_repeats_no_cell() -> None:
    assert len(plan(filters=Filters(node="h200-a"))) == len(plan())


def test_hours_of_an_arm() -> None:
    arms = arm_plans(plan())
    assert [(arm.gpus, len(arm.cells), arm.evals) for arm in arms] == [(8, 3, 1), (4, 1, 0), (16, 2, 0)]
    request = 8192 / DEFAULTS.prefill_tokens_per_second + 1024 / DEFAULTS.decode_tokens_per_second
    first = arms[0].hours
    assert first.allocation == 180 * 8 / 3600, "an engine starts once for its arm"
    assert first.load == 600 * 8 / 3600
    assert first.window == pytest.approx(3 * 10 * request * 8 / 3600)
    assert first.warmup == pytest.approx(3 * 2 * request * 8 / 3600)
    assert first.evals == 1200 * 8 / 3600
    assert arms[0].wall_hours == pytest.approx(first.total / 8)
    assert arms[2].hours.window == 2 * 16, "an agentic window is an hour"
    assert arms[2].hours.load == 900 * 16 / 3600
    assert total(arms).total == pytest.approx(sum(arm.hours.total for arm in arms))


def test_evals_alone_measure_nothing() -> None:
    arms = arm_plans(plan(mode=EvalMode.ONLY))
    assert [(arm.hours.window, arm.hours.warmup) for arm in arms] == [(0, 0), (0, 0)]
    assert arms[1].hours.evals == 5400 * 16 / 3600


def test_the_phases_are_all_of_the_total() -> None:
    assert Hours(1, 2, 3, 4, 5, 6).total == 21
    assert len(PHASES) == 6


def arms() -> tuple[ArmPlan, ...]:
    return arm_plans(plan())


def test_the_table() -> None:
    text = table.text(arms())
    assert text.startswith("one\n  acme/tiny, fp8, vllm, cluster:h200-a\n")
    assert "    8k1k     TP8                   8 GPUs" in text
    assert "3 cells  evals 1  c 4 16 64\n" in text
    assert "  16 GPUs" in text
    assert "6 cells in 3 arms, 1 eval; largest arm 16 GPUs, longest 2.5 h\n" in text
    assert f"estimated {total(arms()).total:.1f} GPU-hours: allocation 1.4, image 1.9" in text
    assert "assumed, not learned" in text
    assert "dollars" not in text


def test_prices() -> None:
    text = table.text(arms(), price=lambda runner: 2.0)
    assert f"about {2 * total(arms()).total:.0f} US dollars\n" in text
    assert "GPU-hours that have no price" in table.text(arms(), price=lambda runner: None)


def test_no_cells() -> None:
    assert table.text(()) == "no cells: the filters let nothing through\n"
    assert table.data(())["totals"]["cells"] == 0


def test_the_data() -> None:
    data = json.loads(json.dumps(table.data(arms())))
    assert data["format"] == "ridgeline-plan/1"
    cell = data["cells"][0]
    assert (cell["name"], cell["gpus"], cell["where"], cell["evaluated"]) == (
        "one/8k1k/TP8/c4",
        8,
        "f.yaml:14:9",
        False,
    )
    assert cell["arm"]["topology"]["tp"] == 8
    assert data["arms"][2]["concurrencies"] == [8, 32]
    assert data["arms"][2]["usd_per_gpu_hour"] is None
    assert data["totals"]["gpu_hours"]["total"] == pytest.approx(total(arms()).total, abs=1e-3)
    assert data["assumptions"]["eval_s"] == 1200
