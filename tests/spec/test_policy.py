from __future__ import annotations

from decimal import Decimal

import pytest
from tests.golden import golden

from ridgeline.core.errors import InputError
from ridgeline.spec.policy import default_policy, from_document, load_policy
from ridgeline.spec.tree import parse


def test_the_built_in_policy() -> None:
    policy = default_policy()
    assert policy.base == Decimal("1.0")
    assert policy.model["kimik3"] == Decimal("1.5")
    assert list(policy.framework) == ["sglang", "vllm", "dynamo-sglang", "dynamo-vllm"]


def test_the_built_in_policy_has_the_figures_of_the_snapshot() -> None:
    assert load_policy(golden("data/inferencex/configs/ci-priority.yaml")) == default_policy()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("version: 2", "must be 1, nothing else"),
        ("version: 1", "`base-score`: is required"),
        ("version: 1\nbase-score: x", "a number"),
    ],
)
def test_what_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        from_document(parse(text.encode(), "p.yaml"))
