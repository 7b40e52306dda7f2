"""Check 3 end to end: a launch script is dry-run, the linked recipe is fetched, and both are compared."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from tests.publish.changelog.repo import Repo
from tests.publish.changelog.texts import REPOSITORY, entry
from tests.publish.gate.kit import BODY, Answers, pull_event, script, write_policy

from ridgeline.cli.main import main
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.dryrun import dry_run

pytestmark = pytest.mark.integration

CONFIG = """\
new:
  image: vllm/vllm-openai:v0.25.1
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  runner: h200
  precision: bf16
  framework: vllm
  multinode: false
  scenarios:
    fixed-seq-len:
    - isl: 1024
      osl: 1024
      search-space:
      - { tp: 2, conc-list: [4] }
"""
LAUNCH = """\
#!/usr/bin/env bash
vllm serve "$MODEL" --host 127.0.0.1 --port "$PORT" \\
  --tensor-parallel-size "$TP" --kv-cache-dtype fp8 --max-num-seqs "$CONC" > server.log 2>&1 &
SERVER=$!
curl -sf "http://127.0.0.1:$PORT/health"
kill "$SERVER"
"""
RECIPE = "# Qwen3 on H200\n\n```\nvllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --kv-cache-dtype {cache}\n```\n"
LINK = "https://github.com/vllm-project/recipes/blob/main/Qwen/Qwen3.md"


@pytest.fixture(scope="module", autouse=True)
def sandbox() -> None:
    try:
        dry_run(b"true", {})
    except EnvironmentFailed as error:
        pytest.skip(f"no sandbox here: {error}")


@pytest.mark.parametrize(
    ("cache", "state", "words"),
    [
        ("fp8", "yes", "1 servers are equal"),
        ("auto", "no", "KV cache type fp8, there auto"),
        (None, "needs a human", "not fetched"),
    ],
)
def test_a_published_recipe_is_compared(
    repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str], cache: str | None, state: str, words: str
) -> None:
    repo.branch("pull")
    (repo.root / "configs/nvidia-master.yaml").write_text(CONFIG)
    (repo.root / "configs/runners.yaml").write_text("labels:\n  h200: [a]\n  h1: [b]\n")
    script(repo, LAUNCH, "benchmarks/single_node/fixed/qwen3_bf16_h200_vllm.sh")
    repo.add(entry("new"))
    payload = pull_event(repo, body=f"{BODY}\n{LINK}.\n")
    facts = Answers(payload["pull_request"]).record(tmp_path / "facts")
    if cache is not None:
        file = facts / "repos/vllm-project/recipes/contents/Qwen/Qwen3.md.json"
        file.parent.mkdir(parents=True)
        text = base64.b64encode(RECIPE.format(cache=cache).encode()).decode()
        file.write_text(json.dumps({"encoding": "base64", "content": text}))
    event = tmp_path / "event.json"
    event.write_text(json.dumps(payload))
    main(["pr", "gate", "--event", str(event), "--repo", str(repo.root), "--policy", str(write_policy(tmp_path)),
          "--facts", str(facts), "--json"])  # fmt: skip
    check = json.loads(capsys.readouterr().out)["sign_off"]["checks"][3]
    assert check["state"] == state and words in check["evidence"] and LINK in check["evidence"], check
    assert REPOSITORY not in check["evidence"]
