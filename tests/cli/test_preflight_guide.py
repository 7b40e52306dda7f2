"""The guide's calculator commands run as they are printed, and its figures are what they give."""

import json
import shlex
from pathlib import Path

import pytest

from ridgeline.cli.main import main

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "preflight.md").read_text()
COMMANDS = [line for line in GUIDE.splitlines() if line.startswith("ridgeline calc") and "--table" not in line]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_guide(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*shlex.split(command)[1:], "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == (1 if found["error"] else 0)


def test_figures_of_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    command = next(line for line in COMMANDS if line.startswith("ridgeline calc kv"))
    main([*shlex.split(command)[1:], "--json"])
    found = json.loads(capsys.readouterr().out)
    assert f"{found['needed_gib']:.2f} GiB needed against 12.09 GiB" in GUIDE
    main([*shlex.split(command)[1:], "--max-num-batched-tokens", "4096", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert f"({found['needed_gib']:.2f} GiB needed, 12.09 GiB there)" in GUIDE
    assert found["error"] is None
