"""Scripts on disk to findings and deployments: the shell side of `ridgeline check`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.recipes.cells import SEED_2503

from ridgeline.cli.check_shell import run_shell
from ridgeline.core.errors import EnvironmentFailed, InputError

LIBRARY = (
    'serve() { vllm serve "$MODEL" --max-num-seqs "$((2 * CONC))" --tensor-parallel-size "$TP" & SERVER_PID=$!; }\n'
)
SCRIPT = """#!/usr/bin/env bash
set -euo pipefail
source "$(dirname "$0")/../lib.sh"
trap 'kill $SERVER_PID' EXIT INT TERM
serve --enforce-eager
wait_for_ready
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "lib.sh").write_text(LIBRARY)
    (tmp_path / "agentic").mkdir()
    path = tmp_path / "agentic" / "run.sh"
    path.write_text(SCRIPT)
    return path


def test_a_script_is_run_for_each_cell_with_what_lies_beside_it(script: Path) -> None:
    try:
        found = run_shell([script], SEED_2503[:2])
    except EnvironmentFailed as error:
        pytest.skip(error.message)
    seqs = []
    for item in found.deployments:
        assert item.file == str(script)
        argv = item.deployment.service("engine").argv
        word = argv[[part.text for part in argv].index("--max-num-seqs") + 1]
        assert word.origin is not None
        assert word.origin.file.endswith("lib.sh"), "a library's line"
        seqs.append((item.cell.concurrency if item.cell else None, word.text))
    assert seqs == [(1, "2"), (4, "8")]
    rules = [finding.rule for finding in found.findings]
    assert "D3" in rules, "wait_for_ready is nobody's"
    assert len(found.findings) == len(set(found.findings))


def test_an_environment_is_enough(script: Path) -> None:
    try:
        found = run_shell([script], environment={"MODEL": "m", "TP": "1", "CONC": "3"})
    except EnvironmentFailed as error:
        pytest.skip(error.message)
    (item,) = found.deployments
    assert item.cell is None
    assert item.deployment.served_model == "m"


def test_linting_alone_runs_nothing(script: Path) -> None:
    script.write_text("sudo true\n")
    found = run_shell([script], run=False)
    assert found.deployments == []
    assert [finding.rule for finding in found.findings] == ["L18", "L27"]


def test_every_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        run_shell([tmp_path / "a.sh", tmp_path], run=False)
    assert [problem.key for problem in refused.value.problems] == [str(tmp_path / "a.sh"), str(tmp_path)]
