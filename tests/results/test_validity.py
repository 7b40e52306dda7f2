"""Each gate at its limit and just beyond it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.results.builders import MS, S, cell, failed, record, replay, sample

from ridgeline.core.cell import Cell
from ridgeline.core.point import Point, Source, Validity
from ridgeline.core.record import Outcome, Phases, Record
from ridgeline.results import validity
from ridgeline.results.aggregate import aggregate
from ridgeline.results.frontier import frontier
from ridgeline.results.metrics import axis


def point(
    rows: list[Record], source: Source = Source.MEASURED, of: Cell | None = None, concurrency: int = 1, **changes: Any
) -> Point:
    return aggregate(replay(rows, **changes), cell=of or cell(concurrency), source=source, run_key="k")


def good(n: int = 90, **changes: Any) -> list[Record]:
    return [record(i, i * 200 * MS, **changes) for i in range(n)]


def codes(found: Point) -> set[str]:
    assert all(reason.partition(":")[0] in validity.CODES for reason in found.reasons)
    assert all(caution.code in validity.CODES for caution in found.cautions)
    return {caution.code for caution in found.cautions}


SCRAPED = {"samples": (sample(0, up=1.0), sample(61, up=1.0))}


def test_a_clean_run_is_valid_without_cautions() -> None:
    clean = point(good(), **SCRAPED)
    assert (clean.validity, clean.reasons, clean.cautions) == (Validity.VALID, (), ())
    assert codes(point(good())) == {"not-scraped"}
    assert codes(point(good(), Source.PREDICTED)) == set(), "a prediction has nothing to scrape"


def test_error_rate_at_and_above_ten_percent() -> None:
    at = point([*good(90), *(failed(100 + i) for i in range(10))])
    assert at.validity is Validity.VALID and "errors" in codes(at)
    above = point([*good(89), *(failed(100 + i) for i in range(10))])
    assert above.validity is Validity.INVALID and above.reasons[0].startswith(
        "error-rate: 10.1 % of 99 requests failed"
    )
    excluded = frontier([above], axis("interactivity.p50"), axis("throughput_per_gpu.output")).excluded
    assert excluded[0].code == "invalid" and "10.1 %" in excluded[0].reason


def test_overflow_at_and_above_one_percent() -> None:
    over = [failed(200 + i, outcome=Outcome.OVERFLOW) for i in range(2)]
    assert point([*good(99), over[0]]).validity is Validity.VALID
    assert "context-overflow" in codes(point([*good(98), *over]))
    assert point([*good(98), *over]).validity is Validity.INVALID


def test_nothing_good_aborted_and_no_window_are_invalid() -> None:
    assert point([failed(0)]).validity is Validity.INVALID
    assert "no-requests" in codes(point([]))
    assert "aborted: the replay stopped early: server died" in point(good(), aborted="server died").reasons
    assert "no-window" in codes(point(good(), phases=Phases()))


def test_a_real_engine_is_measured_at_its_own_speed() -> None:
    assert point(good(), speed=60.0).reasons[0].startswith("scaled-time")
    assert point(good(), Source.EMULATED, speed=60.0).validity is Validity.VALID


def test_duration_asked_and_measured() -> None:
    assert point(good(), end_s=57.0).validity is Validity.VALID
    short = point(good(), end_s=56.9)
    assert short.reasons == ("duration: measured 56.9 s of the 60 s asked for",)


def test_coverage_only_on_long_windows() -> None:
    def run(window_s: float, last_s: float) -> Point:
        rows = [record(i, int(last_s / 9 * i * S)) for i in range(10)]
        return point(rows, end_s=window_s)

    assert "coverage" not in codes(run(1000, 960))
    assert "coverage" in codes(run(1000, 940)) and run(1000, 940).validity is Validity.INVALID
    assert "coverage" not in codes(run(800, 100)), "shorter than AgentX judges"
    fixed = [record(i) for i in range(10)]
    assert "coverage" not in codes(point(fixed, of=cell(1, "fixed-seq-len"), end_s=1000))


def test_a_late_client_invalidates_a_measurement_and_warns_on_an_emulation() -> None:
    def rows(tail_ms: float, typical_ms: float = 0) -> list[Record]:
        return [
            record(i, i * S, scheduled_ns=round(i * S - (tail_ms if i % 10 == 0 else typical_ms) * MS))
            for i in range(40)
        ]  # fmt: skip

    assert "client-limited" not in codes(point(rows(2.4)))
    late = point(rows(2.6))
    assert late.validity is Validity.INVALID and "5 % of the median TTFT of 50 ms" in late.reasons[0]
    emulated = point(rows(2.6), Source.EMULATED)
    assert emulated.validity is Validity.VALID and "client-limited" in codes(emulated)
    assert point(rows(60, 49), Source.EMULATED).validity is Validity.VALID
    assert point(rows(60, 51), Source.EMULATED).validity is Validity.INVALID, "later than the whole wait for a token"


def test_a_client_whose_loop_is_late_stamps_late() -> None:
    def run(lag_s: float, source: Source = Source.MEASURED) -> Point:
        return point(good(), source, health={"loop_lag_p99_s": lag_s})

    assert "client-limited" not in codes(run(0.0024))
    late = run(0.0026)
    assert late.validity is Validity.INVALID and "event loop was 2.6 ms late" in late.reasons[0]
    assert run(0.0026, Source.EMULATED).validity is Validity.VALID


def test_a_late_emulator() -> None:
    def run(*lags: float) -> Point:
        scrapes = tuple(sample(1 + i, ridgeline__emulator_lag_seconds=lag) for i, lag in enumerate(lags))
        return point(good(), Source.EMULATED, samples=scrapes)

    assert "emulator-late" not in codes(run(0.0025, 0.0))
    assert "emulator-late" in codes(run(0.0026, 0.0)) and run(0.0026, 0.0).validity is Validity.VALID
    assert run(0.013, 0.013).validity is Validity.INVALID


@pytest.mark.parametrize(("asked", "warns"), [(100, False), (98, True), (103, True)])
def test_prompt_drift(asked: int, warns: bool) -> None:
    assert ("prompt-drift" in codes(point(good(asked_prompt_tokens=asked)))) is warns


def test_hits_nobody_intended() -> None:
    def hits(share: float) -> dict[str, Any]:
        names = ("vllm__prefix_cache_hits_total", "vllm__prefix_cache_queries_total")
        first, last = dict.fromkeys(names, 0.0), dict(zip(names, (share * 9000, 9000.0), strict=True))
        return {"samples": (sample(0, **first), sample(61, **last))}

    fixed = cell(1, "fixed-seq-len")
    assert "warm-cache" not in codes(point(good(), of=fixed, **hits(0.05)))
    warm = point(good(), of=fixed, **hits(0.41))
    (caution,) = (caution for caution in warm.cautions if caution.code == "warm-cache")
    assert "41 %" in caution.message and caution.hint
    # The recorded sessions allow 75 %.
    assert "warm-cache" not in codes(point(good(), **hits(0.79)))
    assert "warm-cache" in codes(point(good(), **hits(0.81)))
    unknown = good(theoretical_hit_blocks=None, theoretical_total_blocks=None)
    assert "warm-cache" not in codes(point(unknown, **hits(0.9))), "nothing is known of what is allowed"


def test_counts_preemptions_samples_and_gaps() -> None:
    tokens = {"vllm__generation_tokens_total": 0.0, "vllm__num_preemptions_total": 0.0}
    later = {"vllm__generation_tokens_total": 990 * 1.02, "vllm__num_preemptions_total": 1.0}
    found = point(good(), samples=(sample(0, **tokens), sample(61, **later)))
    assert {"count-mismatch", "preempted"} <= codes(found) and found.validity is Validity.VALID
    assert "few-samples" in codes(point(good(9), concurrency=2))
    assert "few-samples" not in codes(point(good(10), concurrency=2))
    from ridgeline.core.record import ServerSample

    assert "scrape-gaps" in codes(point(good(), samples=(ServerSample(at_ns=0, endpoint="e", values=None),)))
    assert "disordered-times" in codes(point([*good(), record(99, first_token_ns=10**12)]))


def test_the_worst_of_several() -> None:
    assert validity.worst() is Validity.VALID
    assert validity.worst(Validity.UNPROVEN, Validity.VALID) is Validity.UNPROVEN
    assert validity.worst(Validity.UNPROVEN, Validity.INVALID, Validity.DEGRADED) is Validity.INVALID
