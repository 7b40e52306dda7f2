"""The commands of a search space of eight cells, as a reviewer reads them: word by word, and by what they must say."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from tests.golden import golden
from tests.spaces import SPACES, config

from ridgeline.cli.main import main

EXPECTED = Path(__file__).with_name("expected") / "eight-cells.dry-run.txt"


def commands(capsys: pytest.CaptureFixture[str], file: Path, *more: str) -> dict[str, list[list[str]]]:
    """Words of every service, by cell."""
    assert main(["sweep", str(file), "--dry-run", *more]) == 0
    found: dict[str, list[list[str]]] = {}
    for line in capsys.readouterr().out.splitlines():
        if line.startswith("# "):
            found[line.split()[1]] = []
        elif not line.startswith("#"):
            found[list(found)[-1]].append(shlex.split(line))
    return found


@pytest.fixture
def eight(tmp_path: Path) -> Path:
    path = tmp_path / "eight.yaml"
    space = SPACES["2503"]
    path.write_text(config(space.tag, space.text))
    return path


def value(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_the_commands_are_those_that_were_reviewed(eight: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(eight), "--dry-run"]) == 0
    assert capsys.readouterr().out == EXPECTED.read_text()


def test_they_say_what_a_reviewer_looks_for(eight: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = commands(capsys, eight)
    assert len(found) == 8
    for name, services in found.items():
        concurrency = int(name.rsplit("/c", 1)[1])
        engine = services[0]
        experts = "DP8EP8" in name
        caps, covered = int(value(engine, "--max-num-seqs")), int(value(engine, "--max-cudagraph-capture-size"))
        ranks = 8 if experts else 1
        assert caps * ranks >= 2 * concurrency, "a lane and its subagents"
        drafts = json.loads(value(engine, "--speculative-config"))
        assert covered >= min(512, caps * (drafts["num_speculative_tokens"] + 1)), "a sequence verifies drafts and one"
        assert covered >= 2 * concurrency // ranks * 4
        assert drafts["synthetic_acceptance_length"] == 2.49
        assert float(value(engine, "--gpu-memory-utilization")) * 288 <= 256, "what one fleet was seen to have free"
        assert ("--enable-expert-parallel" in engine) == experts
        assert value(engine, "--moe-backend") == ("aiter_mega_moe" if experts else "aiter")
        assert len(services) == (2 if experts else 1)
    (router,) = (services[1] for services in found.values() if len(services) == 2)
    assert value(router, "--intra-node-data-parallel-size") == "8"
    assert value(router, "--policy") == "consistent_hash"
    assert {"--disable-retries", "--disable-circuit-breaker"} <= set(router)


def test_what_is_scored_shows_its_difference(eight: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(eight), "--dry-run", "--cells", "*/c32", "--eval", "gsm8k", "--eval-cells", "*DP8*"]) == 0
    said = capsys.readouterr().out
    (difference,) = [line for line in said.splitlines() if line.startswith("#   ")]
    assert difference.startswith("#   engine: --speculative-config")
    assert "synthetic" in difference.split(" -> ")[0]
    assert "synthetic" not in difference.split(" -> ")[1]
    assert said.count("vllm serve") == 3


def test_the_given_search_space_is_the_same(eight: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = commands(capsys, golden("examples/seed-2503.yaml"))
    assert given == commands(capsys, eight)
