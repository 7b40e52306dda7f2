"""Bytes that look more or less like the YAML files we read: valid pieces, cut and joined with what breaks parsers."""

from __future__ import annotations

from hypothesis import strategies as st

SINGLE = """\
qwen-bf16-h200-vllm:
  image: vllm/vllm-openai:v0.20.0
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  precision: bf16
  framework: vllm
  runner: cluster:h200-a
  multinode: false
  router: {name: vllm-router, version: "0.1.14"}
  scenarios:
    fixed-seq-len:
    - isl: 1024
      osl: 1024
      search-space:
      - {tp: 1, conc-start: 4, conc-end: 64}
      - {tp: 8, ep: 8, dp-attn: true, spec-decoding: mtp, conc-list: [8, 16]}
    agentic-coding:
    - dram-utilization: 0.8
      search-space:
      - tp: 8
        kv-offloading: dram
        kv-offload-backend: {name: lmcache}
        conc-list: [1, 2, 4]
"""
MULTI = """\
dsv-fp4-gb200-dynamo-vllm:
  image: acme/dynamo:1
  model: acme/large
  model-prefix: large
  precision: fp4
  framework: dynamo-vllm
  runner: cluster:gb200-a
  multinode: true
  disagg: true
  scenarios:
    fixed-seq-len:
    - isl: 8192
      osl: 1024
      search-space:
      - kv-p2p-transfer: nixl
        prefill: {num-worker: 1, tp: 4, ep: 4, dp-attn: true, additional-settings: ["A=1"], hardware: gb200}
        decode: {num-worker: 2, tp: 8, ep: 8, dp-attn: true, hardware: gb200}
        conc-list: [256, 512]
"""
RUNNERS = """\
labels:
  h200: [h200-a_0, h200-a_1]
  cluster:h200-a: [h200-a_0, h200-a_1]
hardware:
  cluster:h200-a: {available-cpu-dram-mib: 2_000_000, gpus-per-node: 8}
"""
SETTINGS = """\
fleets:
  cluster:h200-a: {gpu: h200, gpus-per-node: 8, free-memory-gib: 138.5, observed: 2026-09-01, scheduler: {partition: a}}
models: {qwen3: models/qwen3/config.json}
recipes: [{cells: "qwen3*", recipe: "mine.py:build"}]
waivers: [{rule: M1, cells: "*", reason: known, until: 2026-12-31}]
prices: {h200: 2.5}
"""
_PIECES = [
    *(
        "&a ",
        "*a",
        "<<: *a\n",
        "? ",
        ": ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "'",
        '"',
        "|",
        ">-\n",
        "%YAML 1.1\n",
        "---\n",
        "...\n",
    ),
    *(
        "!!int ",
        "!!python/object:os.system ",
        "!x ",
        "!!timestamp ",
        "#",
        "\t",
        "\r",
        "\x00",
        "\x85",
        "\u2028",
        "\ufeff",
        "\ud7ff",
    ),
    *(
        "~",
        "null",
        "yes",
        "off",
        "1e3",
        "010",
        "0o7",
        "0x",
        "0b",
        "0_",
        "1:30",
        "2026-01-01",
        "2026-13-45",
        ".inf",
        "-.INF",
    ),
    *(".nan", "1_0", "9" * 5000, "-", ".", "=", "<<", "a*b", "a?b", "multinode: true\n", "multinode: 'true'\n"),
    *("scenarios:\n", "conc-list: [0]\n", "tp: -8\n", "model_prefix: x\n"),
]


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """A valid file of ours with pieces cut out, doubled and put in."""
    data = draw(st.sampled_from([SINGLE, MULTI, RUNNERS, SETTINGS]))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from([0, 0, 1, 3, 30])))
        piece = draw(st.one_of(st.sampled_from(_PIECES), st.just(data[start : start + 40]), st.text(max_size=4)))
        data = data[:start] + piece + data[end:]
    return data.encode("utf-8", "surrogatepass")


def soup() -> st.SearchStrategy[bytes]:
    """Nothing but pieces."""
    return st.lists(st.sampled_from(_PIECES), max_size=30).map(
        lambda parts: "".join(parts).encode("utf-8", "surrogatepass")
    )


any_bytes = st.one_of(mangled(), soup(), st.binary(max_size=200))
