"""One day's search space with what reviewers found in it, as a small repository, and the same repaired.

Our own words and files; the facts are those of two public pull requests to InferenceX (Apache-2.0) of August 2026.
"""

from __future__ import annotations

import json

from tests.publish.changelog.repo import Repo
from tests.publish.changelog.texts import URL, entry, file
from tests.publish.gate.kit import script
from tests.spaces import KEY, SPACES, config

COMMENT = "# AMD\n"
PATH = "benchmarks/single_node/agentic/dsv4_fp4_mi355x_vllm_mtp.sh"
FIRST = "      - { tp: 8, ep: 1, kv-offloading: none, spec-decoding: mtp, conc-list: [1] }\n"
RUNNERS = """\
labels:
  cluster:mi355x-amds: [mi355x-amds_00]
hardware:
  cluster:mi355x-amds: { available-cpu-dram-mib: 3095781, gpus-per-node: 8 }
"""
SETTINGS = """\
fleets:
  cluster:mi355x-amds: { gpu: mi355x, gpus-per-node: 8, free-memory-gib: 256, observed: 2026-08-12 }
"""
LAUNCH = """\
#!/usr/bin/env bash
set -euo pipefail

ROUTER_PID=""
SERVER_PID=""
LMCACHE_PID=""
{handlers}
trap 'exit 130' INT
trap 'exit 143' TERM

lmcache server --port "$((PORT + 1))" > lmcache.log 2>&1 &
LMCACHE_PID=$!
{second}
SPECULATION='{{"method": "mtp", "num_speculative_tokens": 3}}'
if [[ "${{EVAL_ONLY:-false}}" != "true" ]]; then
  SPECULATION='{synthetic}'
fi

PARALLEL=(--tensor-parallel-size "$TP")
if [[ "$DP_ATTENTION" == "true" ]]; then
  PARALLEL=(--tensor-parallel-size 1 --data-parallel-size "$TP")
fi
if [[ "$EP_SIZE" -gt 1 ]]; then
  PARALLEL+=(--enable-expert-parallel)
fi

SERVER=(
  vllm serve "$MODEL"
  --host 127.0.0.1
  --port "$PORT"
  "${{PARALLEL[@]}}"
  --gpu-memory-utilization {share}
  --max-model-len 524288
  --max-num-seqs 32
  --max-num-batched-tokens 8192
  --compilation-config '{compilation}'
  --speculative-config "$SPECULATION"
)
printf '%q ' "${{SERVER[@]}}" > server_command.txt
"${{SERVER[@]}}" > server.log 2>&1 &
SERVER_PID=$!

# the page must answer twenty times in a row
ANSWERS=0
while (( ANSWERS < 20 )); do
  kill -0 "$SERVER_PID"
  if curl -sf "http://127.0.0.1:$PORT/health" > /dev/null; then ANSWERS=$((ANSWERS + 1)); else ANSWERS=0; fi
  sleep 1
done

ENTRY_PORT="$PORT"
if [[ "$DP_ATTENTION" == "true" ]]; then
  ENTRY_PORT=$((PORT + 2))
  vllm-router --host 127.0.0.1 --port "$ENTRY_PORT" \\
    --worker-urls "http://127.0.0.1:$PORT" \\
    --policy consistent_hash \\
    --intra-node-data-parallel-size "$TP" \\
    --disable-retries \\
    --disable-circuit-breaker \\
    > router.log 2>&1 &
  ROUTER_PID=$!
fi

export AIPERF_REQUIRED_METRIC_PREFIX=vllm:
aiperf profile --endpoint-type chat --url "http://127.0.0.1:$ENTRY_PORT" --concurrency "$CONC"
"""
BAD_HANDLERS = """\
stop_server() { kill "$ROUTER_PID" "$SERVER_PID" 2>/dev/null || true; }
stop_cache() { kill "$LMCACHE_PID" 2>/dev/null || true; }
trap stop_cache EXIT"""
BAD_SECOND = "trap stop_server EXIT\n"
GOOD_HANDLERS = """\
stop_all() { kill "$ROUTER_PID" "$SERVER_PID" "$LMCACHE_PID" 2>/dev/null || true; }
trap stop_all EXIT"""
TITLE = "Measure DeepSeek V4 Pro with MTP on MI355X / 在 MI355X 上测量带 MTP 的 DeepSeek V4 Pro"
ENGLISH = "Adds the agentic search space of DeepSeek V4 Pro with three draft tokens on eight GPUs."
CHINESE = "## 中文\n\n为八张卡上带三个草稿词元的 DeepSeek V4 Pro 增加智能体搜索空间。"
BODY = f"{ENGLISH}\n\n{CHINESE}\n"


def launch(*, good: bool) -> str:
    """The launch script."""
    sizes = list(range(4, 129, 4)) if good else list(range(1, 33))
    compilation = {"cudagraph_mode": "FULL_AND_PIECEWISE", "cudagraph_capture_sizes": sizes}
    synthetic = {
        "method": "mtp",
        "num_speculative_tokens": 3,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": 2.49,
    }
    return LAUNCH.format(
        handlers=GOOD_HANDLERS if good else BAD_HANDLERS,
        second="" if good else BAD_SECOND,
        share="0.86" if good else "0.90",
        compilation=json.dumps(compilation),
        synthetic=json.dumps(synthetic),
    )


def line_of(text: str, part: str) -> int:
    """The last line that holds `part`."""
    return max(number for number, line in enumerate(text.split("\n"), 1) if part in line)


def start(repo: Repo) -> None:
    """Main: an older search space of the same config, measured before with an older engine."""
    root = repo.root
    (root / "configs").mkdir()
    (root / "configs/amd-master.yaml").write_text(COMMENT + config("v0.25.1", FIRST))
    (root / "configs/runners.yaml").write_text(RUNNERS)
    (root / "ridgeline.yaml").write_text(SETTINGS)
    repo.log.write_bytes(file(entry(KEY, URL + "1")))
    repo.git("init", "-q", "-b", "main", "--template=")
    repo.commit("start")


def propose(repo: Repo, space: str, *, good: bool) -> None:
    """The pull request's branch: a new image, more concurrencies, the script, and its entry."""
    repo.branch("pull")
    text = COMMENT + config(SPACES[space].tag, SPACES[space].text)
    (repo.root / "configs/amd-master.yaml").write_text(text)
    script(repo, launch(good=good), PATH)
    repo.add(entry(KEY, "XXX" if good else "PENDING"))


def repair(repo: Repo) -> None:
    """Mend all five on the same branch."""
    script(repo, launch(good=True), PATH)
    repo.log.write_bytes(repo.log.read_bytes().replace(b"PENDING", b"XXX"))
    repo.commit("repair")
