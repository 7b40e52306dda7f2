from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from tests.golden import golden
from tests.plan.spaces import agentic, fixed, load, pair

from ridgeline.core.errors import InputError
from ridgeline.plan.expand import cells
from ridgeline.plan.priority import Context, annotate, cell_score, order_rows, score
from ridgeline.spec.policy import default_policy

POLICY = default_policy()
ROW = {"runner": "r", "framework": "trt", "precision": "fp8", "spec-decoding": "none", "model-prefix": "tiny"}


@pytest.mark.parametrize(
    ("change", "context", "expected"),
    [
        ({}, Context(), "1.000"),
        ({}, Context(event_name="push"), "3.000"),
        ({}, Context(event_name="pull_request"), "1.000"),
        ({"prefill": {}}, Context(), "2.250"),
        ({"scenario-type": "agentic-coding"}, Context(), "2.000"),
        ({"precision": "fp4", "spec-decoding": "eagle3"}, Context(), "2.500"),
        ({"framework": "vllm"}, Context(), "1.500"),
        ({"framework": "sglang-disagg"}, Context(), "1.500"),
        ({"framework": "vllmx"}, Context(), "1.000"),
        ({"framework": "dynamo-sglang"}, Context(), "1.500"),
        ({"framework": "dynamo"}, Context(), "1.000"),
        ({"model-prefix": "kimik3"}, Context(), "2.500"),
        ({"model-prefix": "glm5.2"}, Context(), "1.000"),
        ({}, Context(labels=("ci-checklist-complete",)), "1.250"),
        ({"precision": "fp4"}, Context(labels=("engine-patch",), event_name="push"), "0.000"),
        ({"precision": "fp4"}, Context(labels=("ci-patchwork", "ci-patchwork-waived")), "1.750"),
        ({"precision": "fp4", "prefill": {}}, Context(criteria=("fp4",)), "1.750"),
        ({"precision": "fp4"}, Context(criteria=()), "1.000"),
        ({"precision": "fp4"}, Context(criteria=(), event_name="push"), "3.000"),
        ({}, Context(criteria=("patchwork",)), "0.000"),
        ({}, Context(criteria=("checklist-complete",)), "1.250"),
        ({"framework": "sglang-x"}, Context(criteria=("sglang",)), "1.500"),
        ({"framework": "dynamo-sglang"}, Context(criteria=("sglang",)), "1.000"),
    ],
)
def test_score(change: dict[str, Any], context: Context, expected: str) -> None:
    assert str(score(ROW | change, POLICY, context)) == expected


def test_only_the_first_framework_that_matches_counts() -> None:
    policy = POLICY._replace(framework={"a": Decimal(1), "a-b": Decimal(5)})
    assert score(ROW | {"framework": "a-b"}, policy) == 2
    assert score(ROW | {"framework": "a-b"}, policy, Context(criteria=("a-b",))) == 1


def test_rounding_is_half_up_on_decimals() -> None:
    assert str(score(ROW, POLICY._replace(base=Decimal("1.0005")))) == "1.001"


def test_an_unknown_criterion_is_refused() -> None:
    with pytest.raises(InputError, match="`fp5`: is not a criterion"):
        score(ROW, POLICY, Context(criteria=("fp5", "agentic")))


def test_annotation_reaches_every_job_and_changes_nothing_else() -> None:
    data = {"single_node": {"1k1k": [dict(ROW), {"x": 1}]}, "note": "text"}
    before = json.dumps(data)
    found = annotate(data, POLICY, Context(labels=("skip_queue",), pr_number=7), namespace="9:2")
    job = found["single_node"]["1k1k"][0]
    assert (job["priority"], job["skip-queue-pr"], len(job["queue-token"])) == ("1.000", 7, 32)
    assert found["single_node"]["1k1k"][1] == {"x": 1}
    assert json.dumps(data) == before
    other = annotate(data, POLICY, namespace="9:3")["single_node"]["1k1k"][0]
    assert other["queue-token"] != job["queue-token"]
    assert "skip-queue-pr" not in other


def test_equal_jobs_in_other_places_have_other_tokens() -> None:
    one, two = annotate([dict(ROW), dict(ROW)], POLICY)
    assert one["queue-token"] != two["queue-token"]


def test_order_is_highest_first_and_stable() -> None:
    rows = [ROW | {"n": 1}, ROW | {"n": 2, "precision": "fp4"}, ROW | {"n": 3}, ROW | {"n": 4, "precision": "fp4"}]
    assert [row["n"] for row in order_rows(rows, POLICY)] == [2, 4, 1, 3]


def test_cells_score_like_their_rows() -> None:
    configs = load(
        single=fixed({"tp": 8, "conc-list": [4]}, framework="trt"),
        multi=agentic(pair(conc_list=[4]), multinode=True, precision="fp4", model_prefix="kimik3"),
    )
    found = cells(configs)
    assert [str(cell_score(cell, POLICY)) for cell in found] == ["1.000", "6.000"]


def cases() -> list[dict[str, Any]]:
    return list(json.loads(golden("golden/priority/cases.json").read_text())["cases"])


def test_known_answers() -> None:
    for case in cases():
        given = {key: tuple(value) if isinstance(value, list) else value for key, value in case["context_in"].items()}
        found = annotate([case["row_in"]], POLICY, Context(**given), namespace="1:1")[0]
        assert json.dumps(found) == json.dumps(case["out"]), (case["context"], case["row"])
