"""The guide names only commands, flags and fields that exist, and all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from ridgeline.cli.changelog import app
from ridgeline.publish.changelog.entry import Entry

GUIDE = (Path(__file__).parents[2] / "docs/guides/changelog.md").read_text()
# set by git when it runs the driver, or the same for every command
INTERNAL = {"--driver", "--marker-size", "--help"}


def flags() -> dict[str, set[str]]:
    group = typer.main.get_command(app)
    commands = group.commands  # type: ignore[attr-defined]
    return {
        name: {flag for part in command.params for flag in part.opts if flag[0] == "-"}
        for name, command in commands.items()
    }


def test_every_command_is_explained() -> None:
    assert all(f"`{name}`" in GUIDE or f"ridgeline changelog {name}" in GUIDE for name in flags())


@pytest.mark.parametrize("line", re.findall(r"^ridgeline changelog (.+)$", GUIDE, re.MULTILINE))
def test_example_lines_use_flags_of_their_command(line: str) -> None:
    name, *rest = line.split()
    assert {word for word in rest if word.startswith("--")} <= flags()[name]


def test_flags_in_the_text_exist() -> None:
    known = set().union(*flags().values())
    assert set(re.findall(r"`(--[a-z-]+)", GUIDE)) <= known
    explained = set(re.findall(r"--[a-z-]+", GUIDE))
    assert known - explained - INTERNAL - {"--file", "--repo"} == set()


def test_every_field_of_an_entry_is_in_the_table() -> None:
    fields = [name.replace("_", "-") for name, field in Entry.__dataclass_fields__.items() if field.compare]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", GUIDE, re.MULTILINE)) == set(fields)
