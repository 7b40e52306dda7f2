"""What one GPU can do, from datasheets and driver reports. Rates are dense (no sparsity); links are one direction."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.units import GIB
from ridgeline.core.where import Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One kind of GPU. `reported` tells whether `memory_bytes` is what a driver reports; else it is the datasheet's
    figure read as GiB, which is nearer to drivers than reading it as 10^9 (H200: 141 against a reported 139.8 GiB)."""

    name: str
    vendor: str  # "nvidia" | "amd"
    memory_bytes: int
    reported: bool
    bandwidth: float  # bytes/s
    bf16_flops: float  # FLOP/s
    fp8_flops: float | None
    fp4_flops: float | None
    link_bandwidth: float  # scale-up link, bytes/s, one direction, all peers together
    link_world: int  # GPUs inside one scale-up domain
    mesh: bool  # pairwise links: one peer sees only 1/(world-1) of link_bandwidth
    host_bandwidth: float  # bytes/s, one direction
    scale_out_bandwidth: float  # bytes/s per GPU
    power_w: float
    labels: tuple[str, ...]  # prefixes of runner labels and hardware names that mean this GPU
    sources: tuple[str, ...]
    note: str = ""

    def flops(self, width: str) -> float:
        """Dense FLOP/s for operands of `width` ("bf16", "fp8", "fp4"), falling back to the next wider type that the
        GPU computes in: narrower weights are then unpacked first."""
        rates = {"fp4": self.fp4_flops, "fp8": self.fp8_flops, "bf16": self.bf16_flops}
        order = ("fp4", "fp8", "bf16")
        return next(rate for name in order[order.index(width) :] if (rate := rates[name]))

    def peer_bandwidth(self) -> float:
        """bytes/s between two GPUs of one domain."""
        return self.link_bandwidth / (self.link_world - 1) if self.mesh and self.link_world > 1 else self.link_bandwidth


def gpu_from(data: dict[str, object], file: str) -> Gpu:
    """A `Gpu` from one of our GPU files (format ridgeline-gpu/1). Raises InputError with every missing or odd key."""
    problems: list[Problem] = []

    def number(key: str, *, optional: bool = False) -> float:
        value = data.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
            return float(value)
        if not (optional and value is None):
            problems.append(Problem(f"must be a positive number, is {value!r}", Where(file), key))
        return 0.0

    def names(key: str) -> tuple[str, ...]:
        value = data.get(key)
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return tuple(value)
        problems.append(Problem(f"must be a list of texts, is {value!r}", Where(file), key))
        return ()

    reported = number("reported_gib", optional=True)
    tflops = {width: number(f"{width}_tflops", optional=width != "bf16") for width in ("bf16", "fp8", "fp4")}
    result = Gpu(
        name=str(data.get("name", "")),
        vendor=str(data.get("vendor", "")),
        memory_bytes=round((reported or number("memory_gb")) * GIB),
        reported=bool(reported),
        bandwidth=number("bandwidth_tb_s") * 1e12,
        bf16_flops=tflops["bf16"] * 1e12,
        fp8_flops=tflops["fp8"] * 1e12 or None,
        fp4_flops=tflops["fp4"] * 1e12 or None,
        link_bandwidth=number("link_gb_s") * 1e9,
        link_world=int(number("link_world")),
        mesh=bool(data.get("mesh", False)),
        host_bandwidth=number("host_link_gb_s") * 1e9,
        scale_out_bandwidth=number("scale_out_gbit_s") / 8 * 1e9,
        power_w=number("power_w"),
        labels=names("labels"),
        sources=names("sources"),
        note=str(data.get("note", "")),
    )
    problems += [Problem("is missing", Where(file), key) for key in ("name", "vendor") if not data.get(key)]
    if problems:
        raise InputError(problems)
    return result
