"""The commands of a search space of eight cells, as a reviewer reads them: word by word, and by what they must say."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from tests.golden import golden

from ridgeline.cli.main import main

EXPECTED = Path(__file__).with_name("expected") / "eight-cells.dry-run.txt"
# Our own spelling of the space: pure tensor parallelism over concurrencies, one arm of experts behind a router.
CONFIG = """\
dsv4-fp4-mi355x-vllm-agentic-mtp:
  image: vllm/vllm-openai-rocm:nightly-b88916617d3d2249bff0dae5cecb6b727c980a20
  model: deepseek-ai/DeepSeek-V4-Pro
  model-prefix: dsv4
  runner: cluster:mi355x-amds
  precision: fp4
  framework: vllm
  multinode: false
  scenarios:
    agentic-coding:
      - search-space:
          - {tp: 8, ep: 1, dp-attn: false, kv-offloading: none, spec-decoding: mtp,
             conc-list: [1, 4, 8, 16, 32, 40, 48]}
          - {tp: 8, ep: 8, dp-attn: true, kv-offloading: none, spec-decoding: mtp, conc-list: [32],
             router: {name: vllm-router, version: "0.1.14"}}
"""


def commands(capsys: pytest.CaptureFixture[str], config: Path, *more: str) -> dict[str, list[list[str]]]:
    """Words of every service, by cell."""
    assert main(["sweep", str(config), "--dry-run", *more]) == 0
    found: dict[str, list[list[str]]] = {}
    for line in capsys.readouterr().out.splitlines():
        if line.startswith("# "):
            found[line.split()[1]] = []
        elif not line.startswith("#"):
            found[list(found)[-1]].append(shlex.split(line))
    return found


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "eight.yaml"
    path.write_text(CONFIG)
    return path


def value(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_the_commands_are_those_that_were_reviewed(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(config), "--dry-run"]) == 0
    assert capsys.readouterr().out == EXPECTED.read_text()


def test_they_say_what_a_reviewer_looks_for(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = commands(capsys, config)
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


def test_what_is_scored_shows_its_difference(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["sweep", str(config), "--dry-run", "--cells", "*/c32", "--eval", "gsm8k", "--eval-cells", "*DP8*"]) == 0
    )
    said = capsys.readouterr().out
    (difference,) = [line for line in said.splitlines() if line.startswith("#   ")]
    assert difference.startswith("#   engine: --speculative-config")
    assert "synthetic" in difference.split(" -> ")[0]
    assert "synthetic" not in difference.split(" -> ")[1]
    assert said.count("vllm serve") == 3


def test_the_given_search_space_is_the_same(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = commands(capsys, golden("examples/seed-2503.yaml"))
    assert given == commands(capsys, config)
