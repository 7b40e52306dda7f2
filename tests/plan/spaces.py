"""Small configs for the tests of this room."""

from __future__ import annotations

from typing import Any

import yaml

from ridgeline.spec.config import ConfigSet, load_config_text
from ridgeline.spec.runners import Hardware, Runners

RUNNERS = Runners(
    labels={
        "h200": ("h200-a_0", "h200-a_1", "h200-b_0"),
        "cluster:h200-a": ("h200-a_0", "h200-a_1"),
        "gb200": ("gb200-a_0",),
    },
    hardware={"cluster:h200-a": Hardware(2_000_000, 8), "cluster:gb200-a": Hardware(860_160, 4)},
    file="runners.yaml",
)
WORKER: dict[str, Any] = {"num-worker": 1, "tp": 8, "ep": 8, "dp-attn": True}


def entry(multinode: bool = False, **more: Any) -> dict[str, Any]:
    """An entry without scenarios; keyword names use `_` for `-`."""
    base: dict[str, Any] = {
        "image": "acme/serve:1",
        "model": "acme/tiny",
        "model-prefix": "tiny",
        "precision": "fp8",
        "framework": "vllm",
        "runner": "cluster:h200-a",
        "multinode": multinode,
    }
    return base | {name.replace("_", "-"): value for name, value in more.items()}


def fixed(*spaces: dict[str, Any], isl: int = 1024, osl: int = 1024, **more: Any) -> dict[str, Any]:
    items = [{"isl": isl, "osl": osl, "search-space": list(spaces)}]
    return entry(**more) | {"scenarios": {"fixed-seq-len": items}}


def agentic(*spaces: dict[str, Any], utilization: float | None = None, **more: Any) -> dict[str, Any]:
    item: dict[str, Any] = {"search-space": list(spaces)}
    if utilization is not None:
        item["dram-utilization"] = utilization
    return entry(**more) | {"scenarios": {"agentic-coding": [item]}}


def pair(prefill: dict[str, Any] | None = None, decode: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    sides = {"prefill": WORKER | (prefill or {}), "decode": WORKER | (decode or {})}
    return sides | {name.replace("_", "-"): value for name, value in more.items()}


def load(**entries: dict[str, Any]) -> ConfigSet:
    return load_config_text(yaml.safe_dump(entries, sort_keys=False), "f.yaml")
