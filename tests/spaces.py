"""Search spaces of DeepSeek V4 Pro with draft tokens on MI355X, as config files.

Our own words; the arms are those of two public pull requests to InferenceX (Apache-2.0) of August 2026.
"""

from __future__ import annotations

from typing import NamedTuple

_ENTRY = """\
      - {{ tp: {tp}, ep: {ep}, dp-attn: {dp}, kv-offloading: none, spec-decoding: mtp, conc-list: {conc}{router} }}
"""
_ROUTER = ', router: { name: vllm-router, version: "0.1.14" }'


class Proposal(NamedTuple):
    """A search space as it was proposed, every concurrency of it: (tp, ep, dp-attn, concurrencies) and the image."""

    tag: str
    arms: tuple[tuple[int, int, bool, tuple[int, ...]], ...]

    @property
    def text(self) -> str:
        return "".join(
            _ENTRY.format(tp=tp, ep=ep, dp=str(dp).lower(), conc=list(conc), router=_ROUTER if dp else "")
            for tp, ep, dp, conc in self.arms
        )


SPACES = {
    "2503": Proposal(
        "nightly-b88916617d3d2249bff0dae5cecb6b727c980a20",
        ((8, 1, False, (1, 4, 8, 16, 32, 40, 48)), (8, 8, True, (32,))),
    ),
    "2540": Proposal(
        "v0.26.0",
        (
            (8, 1, False, (1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 36, 40)),
            (4, 1, False, (1, 2, 4, 6, 8, 12, 16, 20)),
            (8, 8, False, (8, 16, 24, 32, 40, 48, 56)),
            (8, 8, True, (32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224)),
        ),
    ),
}
KEY = "dsv4-fp4-mi355x-vllm-agentic-mtp"
CONFIG = """\
{key}:
  image: vllm/vllm-openai-rocm:{tag}
  model: deepseek-ai/DeepSeek-V4-Pro
  model-prefix: dsv4
  runner: cluster:mi355x-amds
  precision: fp4
  framework: vllm
  multinode: false
  scenarios:
    agentic-coding:
    - search-space:
{space}"""


def config(tag: str, space: str) -> str:
    """A config file of one entry. `space`: its arms, as lines of YAML."""
    return CONFIG.format(key=KEY, tag=tag, space=space)
