"""Weight formats: bytes per parameter, the type they compute in, and what a precision name of a config stands for."""

from __future__ import annotations

from typing import NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.spec.facts.gpu import Gpu
from ridgeline.spec.facts.model import ModelArch

# Bytes per parameter with scales: fp8 in 128 x 128 blocks with an fp32 scale, mxfp4 in 32s with one byte, nvfp4 in 16s
# with one byte, int4 in 32s with a bf16 scale.
BYTES = {"bf16": 2.0, "fp8": 1 + 4 / 16384, "mxfp4": 0.5 + 1 / 32, "nvfp4": 0.5 + 1 / 16, "int4": 0.5 + 2 / 32}
FOUR_BIT = ("mxfp4", "nvfp4")
PRECISIONS = ("bf16", "fp8", "fp4", "int4")


class Formats(NamedTuple):
    """Formats of routed experts and of the other linear layers. Embeddings, head, routers and norms stay bf16."""

    experts: str
    linear: str

    @property
    def expert_bytes(self) -> float:
        return BYTES[self.experts]

    @property
    def linear_bytes(self) -> float:
        return BYTES[self.linear]


def formats_of(arch: ModelArch, precision: str, gpu: Gpu) -> Formats:
    """What `precision` (as InferenceX configs name it) means for a model on a GPU.

    fp4 narrows routed experts and leaves the rest as the model ships it; a dense model's linear layers are narrowed
    themselves. The 4-bit flavour is the checkpoint's own, else nvfp4 on NVIDIA and mxfp4 on AMD. Raises InputError.
    """
    if precision == "bf16":
        return Formats("bf16", "bf16")
    if precision == "fp8":
        return Formats("fp8", "fp8")
    if precision == "int4":
        return Formats("int4", arch.linear_format if arch.moe else "int4")
    if precision == "fp4":
        own = arch.experts_format if arch.experts_format in FOUR_BIT else None
        narrow = own or ("mxfp4" if gpu.vendor == "amd" else "nvfp4")
        return Formats(narrow, arch.linear_format if arch.moe else narrow)
    hint = f"one of {', '.join(PRECISIONS)}"
    raise InputError([Problem(f"precision `{precision}` is not known", key="precision", hint=hint)])


def formats_run(arch: ModelArch, precision: str, gpu: Gpu) -> Formats:
    """The weight formats that an engine runs with; as shipped where the precision is no known one. `fp8` of a
    checkpoint whose experts are narrower keeps them: engines without fp4 units multiply from 4-bit weights, and one
    that widens them when loading is only known after a start."""
    if precision not in PRECISIONS or (
        precision == "fp8" and arch.experts_format in FOUR_BIT and "fp8" not in arch.name.lower()
    ):
        return Formats(arch.experts_format, arch.linear_format)
    return formats_of(arch, precision, gpu)


def compute_width(storage: str, gpu: Gpu) -> str:
    """The operand type a GPU multiplies in: 4-bit weights are unpacked to bf16 where there is no fp4 unit, int4 always;
    fp8 likewise."""
    if storage in FOUR_BIT:
        return "fp4" if gpu.fp4_flops else "bf16"
    return "fp8" if storage == "fp8" and gpu.fp8_flops else "bf16"
