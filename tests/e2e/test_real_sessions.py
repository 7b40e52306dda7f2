"""The main job on recorded sessions: no request fails, every count agrees with the server, every cell is predicted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.e2e.command import CONFIG, ridgeline
from tests.golden import golden

from ridgeline.core.record import Outcome
from ridgeline.results.runfolder import RunFolder

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.integration


def test_a_sweep_over_recorded_sessions_loses_no_request(tmp_path: Path) -> None:
    trace = golden("traces/weka/files")
    done = ridgeline(
        *("sweep", BENCHMARKS / "quickstart.yaml", "--trace", trace, "--max-context", "120000"),
        *("--cells", "*fp8*TP2/c6", "--duration", "120", "--speed", "10", "--out", tmp_path / "run"),
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    run = RunFolder.open(tmp_path / "run")
    assert len(run.points()) == 1
    for point in run.points():
        found = [record for record in run.replay_of(point.run_key).records if record.outcome is not Outcome.CANCELLED]
        assert len(found) >= point.concurrency
        for record in found:
            assert record.outcome is Outcome.OK, record
            assert record.sent_ns is not None
            assert record.first_token_ns is not None
            assert record.last_token_ns is not None
            assert record.sent_ns <= record.first_token_ns <= record.last_token_ns
            assert record.completion_tokens == record.max_tokens
            assert record.prompt_tokens is not None
            assert record.asked_prompt_tokens is not None
            assert record.prompt_tokens >= record.asked_prompt_tokens
        assert point.value("count_difference.output") == pytest.approx(0, abs=0.02)
        assert (point.value("theoretical_cache_hit") or 0) > 0.5


@pytest.mark.parametrize("config", ["quickstart.yaml", "llama70b-h200-tp.yaml"])
def test_every_cell_is_predicted_over_recorded_sessions(config: str) -> None:
    trace = golden("traces/weka/files")
    asked = ("simulate", BENCHMARKS / config, "--trace", trace, "--max-context", "120000", "--json")
    done = ridgeline(*asked, "--duration", "300", "--warmup", "1", timeout=300)
    assert done.returncode == 0, done.stderr
    points = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(points) == {"quickstart.yaml": 10, "llama70b-h200-tp.yaml": 15}[config]
    for point in points:
        assert point["source"] == "predicted"
        assert point["measures"]["throughput_per_gpu.total"]["value"] > 0


def test_the_same_seed_predicts_the_same_bit_for_bit() -> None:
    asked = ("simulate", CONFIG, "--duration", "60", "--warmup", "1", "--json", "--cells", "*agentic*")
    first, again = ridgeline(*asked), ridgeline(*asked)
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    assert ridgeline(*asked, "--seed", "43").stdout != first.stdout
