"""Failures of machines are told from failures of recipes by what was said."""

from __future__ import annotations

import pytest

from ridgeline.launch.blame import Blame, blame


@pytest.mark.parametrize(
    ("text", "blamed", "layer"),
    [
        ("OSError: [Errno 98] Address already in use", Blame.INFRASTRUCTURE, "node"),
        ("OSError: [Errno 28] No space left on device", Blame.INFRASTRUCTURE, "node"),
        ("NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus", Blame.INFRASTRUCTURE, "node"),
        (
            "ValueError: Free memory on device cuda:0 (3.1/139.8 GiB) on startup is less than desired GPU memory "
            "utilization (0.9, 125.8 GiB). Decrease GPU memory utilization",
            Blame.INFRASTRUCTURE,
            "node",
        ),
        ("OSError: [Errno 116] Stale file handle: '/weights/x'", Blame.INFRASTRUCTURE, "weights"),
        ("Error response from daemon: manifest unknown", Blame.INFRASTRUCTURE, "image"),
        ("api_server.py: error: unrecognized arguments: --moe-bakend", Blame.RECIPE, "engine start"),
        (
            "ValueError: To serve at least one request with the model's max seq len (1048576), (14.88 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (12.09 GiB).",
            Blame.RECIPE,
            "engine start",
        ),
        ("cannot start vllm: No such file or directory", Blame.RECIPE, "engine start"),
    ],
)
def test_signs(text: str, blamed: Blame, layer: str) -> None:
    sign = blame(["Traceback (most recent call last):", text])
    assert sign is not None
    assert (sign.blame, sign.layer) == (blamed, layer)
    assert sign.advice


def test_what_says_nothing_is_nobodys_fault_yet() -> None:
    assert blame(["the service ended with exit code 1", "good bye"]) is None
    assert blame([]) is None


def test_the_machine_is_looked_at_first() -> None:
    sign = blame(["ValueError: something", "[Errno 28] No space left on device"])
    assert sign is not None
    assert sign.blame is Blame.INFRASTRUCTURE
