from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spec.yaml_bytes import MULTI, RUNNERS, SINGLE

from ridgeline.cli.main import main

PAGES = Path(__file__).parents[2] / "docs"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "single.yaml").write_text(SINGLE)
    (tmp_path / "multi.yaml").write_text(MULTI)
    (tmp_path / "runners.yaml").write_text(RUNNERS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SWEEP = ["plan", "full-sweep", "--config-files", "single.yaml", "multi.yaml", "--runner-config", "runners.yaml"]


@pytest.mark.usefixtures("folder")
def test_rows_are_one_line_of_json_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(SWEEP) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    rows = json.loads(out)
    assert [row["conc"] for row in rows] == [4, 8, 16, 32, 64, 8, 16, 1, 2, 4, [256, 512]]
    assert out == json.dumps(rows) + "\n"


@pytest.mark.usefixtures("folder")
def test_test_config(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "test-config", *SWEEP[2:], "--config-keys", "dsv*", "--conc", "512", "--no-evals"]) == 0
    assert [row["conc"] for row in json.loads(capsys.readouterr().out)] == [[512]]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", [[*SWEEP, "--format", "table"], ["plan", "single.yaml", "multi.yaml", *SWEEP[-2:]]])
def test_a_table_for_people(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "qwen-bf16-h200-vllm\n  Qwen/Qwen3-8B, bf16, vllm, cluster:h200-a\n" in out
    assert "12 cells in 4 arms" in out


@pytest.mark.usefixtures("folder")
def test_the_runners_file_is_found_where_the_peer_has_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "single.yaml"]) == 2
    assert "give --runner-config FILE" in capsys.readouterr().err
    (folder / "configs").mkdir()
    (folder / "runners.yaml").rename(folder / "configs" / "runners.yaml")
    assert main(["plan", "single.yaml"]) == 0


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("flag", [["--json"], ["--format", "json"]])
def test_json(flag: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "multi.yaml", "--config-keys", "dsv*", *flag]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [cell["where"] for cell in data["cells"]] == ["multi.yaml:15:9"] * 2
    assert data["totals"]["cells"] == 2


@pytest.mark.usefixtures("folder")
def test_order_priority(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SWEEP, "--order", "priority"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["conc"] for row in rows] == [[256, 512], 1, 2, 4, 8, 16, 4, 8, 16, 32, 64]
    assert "priority" not in rows[0], "rows stay rows"
    assert main([*SWEEP, "--order", "priority", "--queue-namespace", "7:1"]) == 0
    assert [row["priority"] for row in json.loads(capsys.readouterr().out)][:2] == ["3.500", "2.500"]
    assert main([*SWEEP, "--order", "priority", "--event", "push", "--criteria", "agentic"]) == 0
    assert [row["conc"] for row in json.loads(capsys.readouterr().out)][:4] == [1, 2, 4, 4]
    assert main([*SWEEP, "--order", "priority", "--criteria", "nonsense"]) == 2
    assert "`nonsense`: is not a criterion" in capsys.readouterr().err
    assert main(["plan", "single.yaml", "multi.yaml", "--order", "priority", *SWEEP[-2:]]) == 0
    assert capsys.readouterr().out.startswith("dsv-fp4-gb200-dynamo-vllm\n")


@pytest.mark.usefixtures("folder")
def test_prices_come_from_the_settings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "ridgeline.yaml").write_text("prices: {h200: 2}\n")
    assert main(["plan", "single.yaml", *SWEEP[-2:], "--settings", "ridgeline.yaml"]) == 0
    assert re.search(r"about \d+ US dollars\n", capsys.readouterr().out)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--step-size", "1"], "--step-size"),
        (["--step-size", "x"], "--step-size"),
        (["--min-conc", "8", "--max-conc", "4"], "--min-conc"),
        (["--no-evals", "--evals-only"], "not allowed with"),
        (["--no-evals", "--all-evals"], "not allowed with"),
        (["--scenario-type", "chat"], "invalid choice: 'chat'"),
        (["--seq-lens", "1k8k"], "invalid choice: '1k8k'"),
        (["--queue-namespace", "1:1"], "needs --order priority"),
        (["--nonsense"], "unrecognized arguments"),
    ],
)
def test_usage_errors(more: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SWEEP, *more]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err


@pytest.mark.parametrize("command", [["plan"], ["plan", "full-sweep"], ["plan", "test-config", "--config-files", "a"]])
def test_what_must_be_given(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 2
    assert "required" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_problems_of_configs_and_runners_come_together(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "runners.yaml").write_text("labels: {a: []}\n")
    (folder / "multi.yaml").write_text(MULTI.replace("tp: 4", "tp: four"))
    assert main(SWEEP) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "multi.yaml:16:38: `dsv-fp4-gb200-dynamo-vllm.scenarios.fixed-seq-len[0].search-space[0].prefill.tp`" in err
    assert "runners.yaml:1:13: `labels.a`: names no machine" in err


@pytest.mark.parametrize(
    "command", [["plan", "--help"], ["plan", "full-sweep", "--help"], ["plan", "test-config", "-h"]]
)
def test_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "--runner-config" in out
    assert "--order" in out


def test_the_peers_flags_import_nothing_heavy(folder: Path) -> None:
    program = (
        "import sys; from ridgeline.cli.main import main; main(sys.argv[1:]);"
        "heavy = ('pydantic', 'rich', 'typer', 'click', 'numpy', 'hashlib', 'ridgeline.core.cell');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *SWEEP], capture_output=True, text=True, cwd=folder, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


# --- the worked example of the guide ---------------------------------------------------------------------------------


def blocks(page: str) -> list[str]:
    return re.findall(r"```\w*\n(.*?)```", page, flags=re.DOTALL)


def test_the_worked_example_is_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (PAGES / "guides" / "moving-from-inferencex.md").read_text()
    (_, config, shown, change, problems) = blocks(page)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.yaml").write_text(config)
    assert main(["plan", "space.yaml"]) == 0
    assert capsys.readouterr().out.startswith(shown), "docs/guides/moving-from-inferencex.md"
    (tmp_path / "space.yaml").write_text(config[: config.index("      search-space")] + change)
    assert main(["plan", "space.yaml"]) == 2
    assert capsys.readouterr().err == problems
