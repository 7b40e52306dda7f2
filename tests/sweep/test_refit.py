"""Two starts compared: what changed, and which flag gives it back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.e2e.command import CONFIG

from ridgeline.cli.main import main
from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.core.finding import Evidence
from ridgeline.core.units import GIB
from ridgeline.sweep.refit import facts, refit

WORDS = ("vllm", "serve", "m", "--gpu-memory-utilization", "0.9")
DEPLOYMENT = Deployment((Service(name="engine", argv=tuple(map(Item, WORDS))),), "engine", "m", "vllm")


def pieces(**values: float | str) -> list[Evidence]:
    return [Evidence(name, value) for name, value in values.items()]


def test_the_poorest_rank_decides() -> None:
    found = facts([*pieces(kv_tokens=9.0), *pieces(kv_tokens=7.0), *pieces(kv_tokens=8.0), *pieces(other=1.0)])
    assert found == {"kv_tokens": 7.0}


def test_a_smaller_pool_has_a_flag_that_gives_it_back() -> None:
    found = refit(DEPLOYMENT, pieces(kv_gib=50.0), {}, pieces(kv_gib=57.2), gpu_memory=144 * GIB)
    (proposal,) = found.proposals
    assert proposal.startswith("the KV pool lost 7.20 GiB a GPU")
    assert "--gpu-memory-utilization 0.950 instead of 0.9" in proposal
    assert [(change.name, change.old, change.new) for change in found.changes] == [("kv_gib", 57.2, 50.0)]


def test_what_did_not_get_worse_needs_nothing() -> None:
    old = pieces(kv_gib=50.0, full_graphs=35.0, moe_backend="X")
    assert refit(DEPLOYMENT, pieces(kv_gib=49.0, full_graphs=40.0, moe_backend="X"), {}, old).proposals == ()
    assert refit(DEPLOYMENT, pieces(kv_gib=49.0), {}).proposals == ()


def test_lost_graphs_and_other_backends_are_named() -> None:
    old = pieces(full_graphs=35.0, attention_backend="FLASHMLA")
    found = refit(DEPLOYMENT, pieces(full_graphs=4.0, attention_backend="TRITON_MLA"), {}, old)
    assert "4 full graphs instead of 35" in found.proposals[0]
    assert "--attention-backend pins it" in found.proposals[1]


@pytest.mark.integration
def test_a_start_is_compared_with_an_earlier_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.e2e.command import sweep

    assert sweep(tmp_path / "run", "--cells", "*256_16*").returncode == 0
    words = ["refit", str(CONFIG), "*256_16*", "--against", str(tmp_path / "run"), "--json"]
    assert main(words) == 0
    data = json.loads(capsys.readouterr().out)
    kv = next(fact for fact in data["facts"] if fact["name"] == "kv_tokens")
    assert kv["old"] == kv["new"] > 100_000
    assert data["ready_s"]["engine"] > 0


def test_one_cell_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refit", str(CONFIG), "*"]) == 2
    assert "3 cells match" in capsys.readouterr().err


DOCKER = """#!/bin/sh
printf '%s ' "$@" >> "$CALLS"; echo >> "$CALLS"
[ "$1" = run ] || exit 0
for word; do shift; [ "$word" = new:2 ] && exec "$@"; done
"""


@pytest.mark.integration
def test_another_image_is_entered_by_its_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Docker is played by a script that starts what comes after the image."""
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    words = ["refit", str(CONFIG), "*256_16*", "--image", "new:2", "--runtime", "docker", "--mount", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["image"] == "new:2"
    assert next(fact for fact in data["facts"] if fact["name"] == "kv_tokens")["new"] > 100_000
    (started,) = [line for line in (tmp_path / "calls").read_text().splitlines() if line.startswith("run ")]
    assert f"--volume={tmp_path}:{tmp_path}" in started
    assert " --entrypoint= new:2 " in started
    assert "--label=ridgeline.sweep=refit-" in started
