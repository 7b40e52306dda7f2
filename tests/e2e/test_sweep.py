"""The main job as a user runs it: cells become points, the arithmetic of every record holds, a second run skips."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.command import events, sweep

from ridgeline.core.point import Source
from ridgeline.core.record import Outcome, Record
from ridgeline.results.runfolder import RunFolder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    path = tmp_path_factory.mktemp("sweep") / "run"
    done = sweep(path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "", "data goes to stdout, talk to stderr"
    assert f"results  {path}" in done.stderr
    assert "ridgeline frontier" in done.stderr
    return RunFolder.open(path)


def test_every_cell_has_an_emulated_point(run: RunFolder) -> None:
    points = run.points()
    assert [point.name for point in points] == [
        "qwen3-quick/256_16/TP1/c2",
        "qwen3-quick/agentic/TP1/c1",
        "qwen3-quick/agentic/TP1/c2",
    ]
    assert {point.source for point in points} == {Source.EMULATED}
    for point in points:
        assert (point.value("throughput_per_gpu.total") or 0) > 0
        assert (point.value("ttft.mean") or 0) > 0
        assert point.provenance["recipe"].startswith("emulated")
    assert run.failures() == ()


def records(run: RunFolder) -> list[Record]:
    return [record for point in run.points() for record in run.replay_of(point.run_key).records]


def test_the_arithmetic_of_every_record_holds(run: RunFolder) -> None:
    found = records(run)
    assert len(found) > 10
    for record in found:
        assert record.outcome in (Outcome.OK, Outcome.CANCELLED), record
        if record.outcome is Outcome.CANCELLED:
            continue
        assert record.sent_ns is not None
        assert record.first_byte_ns is not None
        assert record.first_token_ns is not None
        assert record.last_token_ns is not None
        assert record.end_ns is not None
        times = [record.sent_ns, record.first_byte_ns, record.first_token_ns, record.last_token_ns, record.end_ns]
        assert times == sorted(times)
        assert record.completion_tokens == record.max_tokens == record.chunks
        assert record.prompt_tokens is not None
        assert record.asked_prompt_tokens is not None
        assert record.prompt_tokens >= record.asked_prompt_tokens


def test_served_tokens_agree_with_the_servers_own_counters(run: RunFolder) -> None:
    """Cells of one deployment share an engine, so its counters go on from cell to cell: what counts is the increase."""
    for point in run.points():
        replay = run.replay_of(point.run_key)
        totals = [
            sum(value for name, value in sample.values.items() if name.startswith("vllm:generation_tokens_total"))
            for sample in replay.samples
            if sample.values is not None
        ]
        counted = sum(record.completion_tokens or 0 for record in replay.records)
        assert 0 < totals[-1] - totals[0] <= counted + 1  # the readiness request may be the one more


@pytest.mark.integration
def test_a_second_run_repeats_nothing(run: RunFolder) -> None:
    before = {point.id: point.measured_at for point in run.points()}
    done = sweep(run.path)
    assert done.returncode == 0
    assert "0 cells run, 3 finished before" in done.stderr
    assert {point.id: point.measured_at for point in run.points()} == before


@pytest.mark.integration
def test_events_for_machines_are_json_lines(tmp_path: Path) -> None:
    done = sweep(tmp_path / "run", "--cells", "*256_16*", "--json")
    kinds = [event["event"] for event in events(done.stdout)]
    assert kinds[0] == "begin"
    assert kinds[-1] == "done"
    assert {"start", "ready", "replay"} <= set(kinds)


@pytest.mark.integration
def test_dry_run_prints_commands_and_starts_nothing(tmp_path: Path) -> None:
    done = sweep(tmp_path / "run", "--dry-run")
    assert done.returncode == 0
    assert done.stdout.count("ridgeline.cli.main emulate") == 3
    assert "--port '{port:http}'" in done.stdout
    assert not (tmp_path / "run").exists()
