"""Engine builds: which rules hold in which version.

A build is an engine's kind and version as an image tag or a package names it. An unknown version counts as the newest
one read here, and says so (`assumed`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ridgeline.engine.formats import Formats

NEWEST = {"vllm": (0, 32, 0), "sglang": (0, 5, 16)}
_VERSION = re.compile(r"(?<![\w.])v?(\d+)\.(\d+)(?:\.(\d+))?")
_KINDS = (("sglang", "sglang"), ("trtllm", "trt"), ("tensorrt", "trt"), ("atom", "atom"), ("vllm", "vllm"))


class Build(NamedTuple):
    """An engine build. `version` is what rules are chosen by; `assumed`: nothing said which it is."""

    kind: str
    version: tuple[int, int, int]
    assumed: bool
    text: str

    @property
    def name(self) -> str:
        """`vllm-0.26.0`: the name dumps and observations are stored under."""
        return f"{self.kind}-{'.'.join(map(str, self.version))}"


def build_of(text: str, kind: str | None = None) -> Build:
    """The build an image reference, a package or plain words name: `vllm/vllm-openai-rocm:v0.26.0`, `vllm 0.24.0`."""
    low = text.lower()
    found = kind or next((name for word, name in _KINDS if word in low), "vllm")
    named = low.partition("@sha256")[0]
    tag = named.rsplit(":", 1)[-1] if ":" in named else named
    version = _VERSION.search(tag)
    nightly = "nightly" in tag
    if version is None or nightly:
        return Build(found, NEWEST.get(found, (0, 0, 0)), True, text)
    major, minor, patch = version.groups()
    return Build(found, (int(major), int(minor), int(patch or 0)), False, text)


# The last vLLM whose ROCm kernels were read to pad shards of 384 columns. That later builds take them as they are is an
# assumption: public recipes say so of "later builds" and name no version.
LAST_PADDED = (0, 26, 99)


def expert_pad(build: Build, formats: Formats, vendor: str) -> int:
    """The multiple that vLLM's mxfp4 kernels round a rank's expert width up to: 256 on ROCm, 128 in builds with native
    384-wide shards and on NVIDIA (DeepGEMM, Marlin, CUTLASS); 1 for other formats, and for engines not read here."""
    if formats.experts != "mxfp4" or build.kind != "vllm":
        return 1
    native = not build.assumed and build.version > LAST_PADDED
    return 256 if vendor == "amd" and not native else 128


# Asynchronous scheduling is on by default from this vLLM on (read in 0.19 to 0.26; older ones are not known).
ASYNC_DEFAULT = (0, 19, 0)


def async_by_default(build: Build) -> bool:
    """Whether the build overlaps two batches unless told not to."""
    return build.kind == "vllm" and build.version >= ASYNC_DEFAULT
