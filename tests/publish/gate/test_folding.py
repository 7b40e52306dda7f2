"""One cause is one remark: what only follows from it is named in it, and stands alone where the cause is not there."""

from __future__ import annotations

import pytest

from ridgeline.cli.gate_preflight import folded
from ridgeline.core.where import Where
from ridgeline.publish.gate.rule import Remark, Severity

B, W = Severity.BLOCKING, Severity.WARNING
GRAPHS, ELSEWHERE = Where("x.sh", 39, 3), Where("x.sh", 50, 3)
TRAP, KILLS, STARTS = Where("x.sh", 15, 1), Where("x.sh", 14, 1), Where("x.sh", 13, 1)
LOST = "PID is only stopped by the EXIT handler of line 15 that never runs"


def said(*remarks: Remark) -> list[tuple[str, str]]:
    return [(one.rule, one.arithmetic) for one in folded(remarks)]


def test_a_list_that_ends_early_follows_from_sequences_without_a_graph() -> None:
    g1, g5 = Remark("G1", B, "no graph", GRAPHS, arithmetic="8 of 32"), Remark("G5", B, "ends", GRAPHS)
    assert said(g1, g5) == [("G1", "8 of 32. From it follow G5.")]
    assert [rule for rule, _ in said(g5)] == ["G5"]
    assert [rule for rule, _ in said(g1, Remark("G5", B, "ends", ELSEWHERE))] == ["G1", "G5"]
    assert [rule for rule, _ in said(Remark("G1", W, "no graph", GRAPHS), g5)] == ["G1", "G5"]


@pytest.mark.parametrize("handler", [True, False])
def test_what_a_replaced_handler_leaves_behind_follows_from_it(handler: bool) -> None:
    cause = [Remark("L01", B, "replaces another", TRAP, arithmetic="One handler.")] if handler else []
    rest = [Remark("L05", W, LOST, KILLS), Remark("D1", B, "still runs", STARTS)]
    expected = (
        [("L01", "One handler. From it follow L05 at line 14, D1 at line 13.")]
        if handler
        else [("L05", ""), ("D1", "")]
    )
    assert said(*cause, *rest) == expected
