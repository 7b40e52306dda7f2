"""Scripts on disk to findings and deployments: the shell side of `ridgeline check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.golden import golden
from tests.recipes.cells import SEED_2503

from ridgeline.cli.check_shell import run_shell
from ridgeline.cli.main import main
from ridgeline.core.errors import EnvironmentFailed, InputError

pytestmark = pytest.mark.integration  # takes seconds of processor time

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


def ask(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["check", *words])
    return code, capsys.readouterr().out


def test_the_verb_lints_in_every_output(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text("set -u\nsudo true\necho ${X:-} $X\n")
    lint = ("--shell", str(script), "--lint-only")
    code, text = ask(capsys, *lint)
    assert code == 1, "L25 fails"
    assert f"FAIL    L25  {script}:3:13" in text
    code, text = ask(capsys, *lint, "--json")
    (row,) = map(json.loads, text.splitlines())
    assert (code, row["script"], row["verdict"]) == (1, str(script), "fail")
    assert [finding["rule"] for finding in row["findings"]] == ["L18", "L27", "L25"]
    code, text = ask(capsys, *lint, "--github")
    assert f"::error file={script},line=3,title=L25 fail::" in text
    code, text = ask(capsys, *lint, "--sarif")
    (run,) = json.loads(text)["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["L18", "L27", "L25"]
    assert {"L25", "D1", "M1"} <= {rule["id"] for rule in run["tool"]["driver"]["rules"]}


def test_a_waiver_accepts_a_scripts_finding(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text("set -u\necho ${X:-} $X\n")
    settings = tmp_path / "ridgeline.yaml"
    settings.write_text("waivers:\n- {rule: L25, cells: '*run.sh', reason: known, until: 2999-01-01}\n")
    code, text = ask(capsys, "--shell", str(script), "--lint-only", "--settings", str(settings))
    assert (code, "waived until 2999-01-01: known" in text) == (0, True)


def test_the_verb_explains_shell_rules(capsys: pytest.CaptureFixture[str]) -> None:
    for name, part in (("l05", "Repaired"), ("D2", "Give what it needs")):
        code, text = ask(capsys, "--explain", name)
        assert code == 0
        assert part in text


def test_a_script_is_checked_like_the_recipe_it_replaces(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It runs TP8 where the cell asks for data-parallel ranks and a router: P4 at its line, R1 at the cell."""
    config = str(golden("examples/seed-2503.yaml"))
    code, text = ask(capsys, config, "--cells", "*DP8*", "--shell", str(script), "--json")
    if code == 3:
        pytest.skip("no sandbox here")
    of_script, of_cell = map(json.loads, text.splitlines())
    assert of_script["script"] == str(script)
    failed = {finding["rule"]: finding for finding in of_cell["findings"] if finding["verdict"] == "fail"}
    assert {"P4", "R1"} <= failed.keys()
    assert failed["P4"]["where"].endswith("lib.sh:1")
    assert of_cell["recipe"] == f"{script}, dry-run"


def test_words_that_are_no_environment_are_named(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--shell", str(script), "--env", "A", "--env", "=b", "--lint-only"]) == 2
    assert capsys.readouterr().err.count("is not NAME=VALUE") == 2


def test_every_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        run_shell([tmp_path / "a.sh", tmp_path], run=False)
    assert [problem.key for problem in refused.value.problems] == [str(tmp_path / "a.sh"), str(tmp_path)]
