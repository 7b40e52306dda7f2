"""What stands after a run: confirmed, contradicted, unproven, and what that makes of a point."""

from __future__ import annotations

import pytest

from ridgeline.core.finding import Evidence, Expectation
from ridgeline.core.point import Measure, Point, Source, Validity
from ridgeline.core.where import Where
from ridgeline.sweep.proof import CODES, Stands, prove, with_proof

KV = Expectation("kv_tokens", ">=", 1_900_000, "tokens", "M3")
LINE = Where("engine.log", 80)


def one(expectation: Expectation, *values: float | str, readable: bool = True) -> Stands:
    proof = prove([expectation], [Evidence(expectation.name, value, LINE) for value in values], readable=readable)
    (outcome,) = proof.outcomes
    return outcome.stands


def test_a_promise_is_confirmed_contradicted_or_unproven() -> None:
    assert one(KV, 1_984_512.0) is Stands.CONFIRMED
    assert one(KV, 1_200_000.0) is Stands.CONTRADICTED
    assert one(KV) is Stands.UNPROVEN


def test_every_rank_must_agree() -> None:
    assert one(KV, 1_984_512.0, 1_200_000.0) is Stands.CONTRADICTED


@pytest.mark.parametrize(
    ("op", "value", "found", "stands"),
    [
        ("==", 8, 8.0, Stands.CONFIRMED),
        ("==", 8, 7.0, Stands.CONTRADICTED),
        ("<=", 0.1, 0.1, Stands.CONFIRMED),
        (">", 0.0, 0.0, Stands.CONTRADICTED),
        ("==", "DeepGEMM", "DEEPGEMM", Stands.CONFIRMED),
        ("==", "True", "False", Stands.CONTRADICTED),
    ],
)
def test_operators(op: str, value: float | str, found: float | str, stands: Stands) -> None:
    assert one(Expectation("x", op, value), found) is stands


def test_a_measured_acceptance_length_is_on_target_within_three_percent() -> None:
    wanted = Expectation("acceptance_length", "==", 2.81)
    assert one(wanted, 2.75) is Stands.CONFIRMED
    assert one(wanted, 2.70) is Stands.CONTRADICTED
    position = Expectation("acceptance_rate_position_0", "==", 0.85)
    assert one(position, 0.81) is Stands.CONFIRMED
    assert one(position, 0.75) is Stands.CONTRADICTED


def test_an_absent_line_proves_something_only_in_a_log_that_is_understood() -> None:
    wanted = Expectation("auto_fit_reduced", "==", "absent")
    assert one(wanted) is Stands.CONFIRMED
    assert one(wanted, readable=False) is Stands.UNPROVEN
    assert one(wanted, 409_600.0) is Stands.CONTRADICTED


def test_an_unknown_operator_is_a_bug_and_says_so() -> None:
    with pytest.raises(ValueError, match="unknown operator"):
        one(Expectation("x", "~", 1.0), 1.0)


def point(validity: Validity = Validity.VALID) -> Point:
    return Point(
        id="k.1",
        run_key="k",
        cell_fingerprint="f",
        name="n",
        line="l",
        series="s",
        source=Source.MEASURED,
        concurrency=4,
        gpus=8,
        facts={},
        measures={"x": Measure(1.0, "s")},
        validity=validity,
        reasons=("error-rate: 20 %",) if validity is Validity.INVALID else (),
    )


def test_a_contradiction_degrades_and_says_both_numbers_and_the_line() -> None:
    proof = prove([KV], [Evidence("kv_tokens", 1_200_000.0, LINE)])
    after = with_proof(point(), proof)
    assert after.validity is Validity.DEGRADED
    (reason,) = after.reasons
    assert reason.startswith("kv-tokens: the KV pool is smaller than predicted")
    assert "1,200,000" in reason
    assert ">= 1,900,000 tokens" in reason
    assert "engine.log:80" in reason
    assert [caution.code for caution in after.cautions] == ["kv-tokens"]
    assert after.provenance["proof"] == {"confirmed": 0, "contradicted": 1, "unproven": 0}


def test_missing_evidence_makes_a_point_unproven_never_valid() -> None:
    assert with_proof(point(), prove([KV], [])).validity is Validity.UNPROVEN


def test_a_contradiction_hides_no_invalidity_and_outweighs_what_is_unproven() -> None:
    bad = prove([KV, Expectation("moe_backend", "==", "X")], [Evidence("kv_tokens", 1.0, LINE)])
    assert with_proof(point(Validity.INVALID), bad).validity is Validity.INVALID
    after = with_proof(point(), bad)
    assert after.validity is Validity.DEGRADED
    assert [reason.partition(":")[0] for reason in after.reasons] == ["kv-tokens"]


def test_a_sound_run_is_left_as_it_is() -> None:
    after = with_proof(point(), prove([KV], [Evidence("kv_tokens", 2e6, LINE)]))
    assert (after.validity, after.reasons, after.cautions) == (Validity.VALID, (), ())


def test_codes_are_words_and_told_in_the_docs() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs/reference/evidence.md").read_text()
    for name, (code, meaning) in CODES.items():
        assert f"`{name}`" in page, name
        assert f"`{code}`" in page, code
        assert meaning
