"""Whose fault a failure is, from what was said: the recipe's, or that of the machine it ran on.

What the machine did is tried again as a new attempt; what the recipe asks for would fail again, so it is not. Signs
are looked for in the message and in the last lines of every log; the first one in the order below decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Blame(StrEnum):
    """Who must change for it to work."""

    INFRASTRUCTURE = "infrastructure"
    RECIPE = "recipe"
    UNKNOWN = "unknown"


class Sign(NamedTuple):
    """A text that gives a failure away. `layer` names where it belongs; `advice` what to do."""

    blame: Blame
    layer: str
    pattern: re.Pattern[str]
    advice: str


def _sign(blame: Blame, layer: str, pattern: str, advice: str) -> Sign:
    return Sign(blame, layer, re.compile(pattern, re.IGNORECASE), advice)


_I, _R = Blame.INFRASTRUCTURE, Blame.RECIPE

SIGNS: tuple[Sign, ...] = (
    _sign(_I, "node", r"uncorrectable ECC|\bXid\b|fallen off the bus|nvidia-smi has failed|No supported gpu backend",
          "the node's GPU is broken: drain the node and run elsewhere"),
    _sign(_I, "node", r"CUDA-capable device\(s\) is/are busy|all CUDA-capable devices are busy",
          "somebody else uses the GPUs: look for processes left behind"),
    _sign(_I, "node", r"the agent on node \S+ (?:ended|does not answer)",
          "the node was lost: look at it, drain it, run elsewhere"),
    _sign(_I, "node", r"No space left on device|Disk quota exceeded", "free space on the node and run again"),
    _sign(_I, "node", r"Address already in use|address in use", "a server was left behind on that port: `ss -ltnp`"),
    _sign(_I, "node", r"Free memory on device .* is less than desired GPU memory utilization",
          "another process holds GPU memory, or the utilisation is above what this fleet has free"),
    _sign(_I, "node", r"Cannot allocate memory|oom-kill|Out of memory: Killed process",
          "the host ran out of memory: look at KV offload sizes and other jobs of the node"),
    _sign(_I, "node", r"NCCL WARN|unhandled system error|ibv_\w+ failed|NVLink.*(?:error|inactive)",
          "the links between the GPUs do not work: look at the fabric"),
    _sign(_I, "weights", r"Stale file handle|Input/output error|Transport endpoint is not connected",
          "the shared file system failed: run again, or stage the weights on the node"),
    _sign(_I, "image", r"manifest unknown|error pulling image|failed to resolve reference|toomanyrequests",
          "the image could not be fetched"),
    _sign(_I, "weights", r"Temporary failure in name resolution|Connection timed out|Max retries exceeded",
          "a download failed: run again, or stage the weights"),
    _sign(_R, "engine start", r"unrecognized arguments|invalid choice:|error: argument ",
          "this build does not know that flag: `ridgeline check --probe` dumps what it knows"),
    _sign(_R, "engine start", r"larger than the available KV cache memory|No available memory for the cache blocks",
          "the longest request does not fit: `ridgeline check` shows which flag makes it fit"),
    _sign(_R, "engine start", r"CUDA out of memory|torch\.OutOfMemoryError|HIP out of memory|Not enough memory",
          "less memory for the engine, or fewer tokens a step"),
    _sign(_R, "engine start", r"does not support the deployment configuration|is not supported|NotImplementedError",
          "the engine has no kernel for this combination"),
    _sign(_R, "weights", r"(?:does not appear to have a file named|is not a local folder and is not a valid model)",
          "the model's path or name is wrong"),
    _sign(_R, "engine start", r"ModuleNotFoundError|ImportError|cannot start \S+: No such file",
          "the image lacks a program that the recipe starts"),
    _sign(_R, "engine start", r"ValueError|AssertionError|pydantic\S*ValidationError",
          "the engine refuses its options"),
)  # fmt: skip


def blame(texts: Iterable[str]) -> Sign | None:
    """The first sign found in `texts`, most telling kind first; None when nothing gives it away."""
    known = "\n".join(texts)
    return next((sign for sign in SIGNS if sign.pattern.search(known)), None)
