"""GPU telemetry of a node: power, clocks, temperature, throttle reasons, by the driver's own tool, off the hot path.

The tool samples in a process of its own, held like a service, and writes CSV, which nobody reads while anything is
measured. In: that text. Out: one table in our columns whichever tool wrote it, a summary, and what energy is integrated
from. A value that a device does not report is None; without a tool there is no telemetry, and the point says so. The
columns of nvidia-smi are those of a recording (driver 580 on an H200); those of amd-smi were never seen.
"""

from __future__ import annotations

import csv
import io
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

SAMPLE_MS = 500
ASK_S = 10.0
BUSY_PERCENT = 5.0
BEFORE_BYTES = 8192  # of a recording that are kept from before a mark: energy needs a sample before its window

_THROTTLES = {
    "sw_power_cap": "power cap",
    "hw_slowdown": "hardware slowdown",
    "hw_thermal_slowdown": "hardware thermal",
    "hw_power_brake_slowdown": "power brake",
    "sw_thermal_slowdown": "software thermal",
}
_BASE = (
    "timestamp", "index", "power.draw", "clocks.sm", "clocks.mem", "temperature.gpu", "utilization.gpu", "memory.used",
)  # fmt: skip
# Newer drivers call the reasons `clocks_event_reasons`; a driver that does not know a name refuses the whole query.
NVIDIA = tuple(
    (*_BASE, *(f"{family}.{name}" for name in _THROTTLES)) if family else _BASE
    for family in ("clocks_throttle_reasons", "clocks_event_reasons", "")
)
AMD = ("metric", "--power", "--clock", "--temperature", "--usage", "--throttle", "--watch", "1", "--csv")
TOOLS = ("nvidia-smi", "amd-smi")

# Column of ours -> names that tools give it, most telling first. Names are compared without units and case.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "at": ("timestamp", "time"),
    "gpu": ("index", "gpu"),
    "power_w": ("power.draw", "socket_power", "power_usage", "average_socket_power", "current_socket_power"),
    "sm_mhz": ("clocks.sm", "clocks.current.sm", "gfx_0_clk", "gfx_clk", "gfx_clock", "gfx_0"),
    "memory_mhz": ("clocks.mem", "clocks.current.memory", "mem_0_clk", "mem_clk", "mem_clock", "mem_0"),
    "celsius": ("temperature.gpu", "hotspot", "hotspot_temperature", "edge", "edge_temperature"),
    "busy_percent": ("utilization.gpu", "gfx_activity", "gfx"),
    "memory_mib": ("memory.used", "vram_used"),
}
_AMD_THROTTLES = ("throttle_status", "throttling_status")
_AMD_REASONS = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One device at one time. `at` is the tool's own text of the time: its clock is the machine's wall clock."""

    at: str
    gpu: str
    power_w: float | None = None
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    celsius: float | None = None
    busy_percent: float | None = None
    memory_mib: float | None = None
    throttled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSummary:
    """One device over a stretch of time. `throttled`: share of the samples, by reason."""

    gpu: str
    samples: int
    power_w_mean: float | None
    power_w_max: float | None
    sm_mhz_mean: float | None
    sm_mhz_min: float | None
    celsius_max: float | None
    busy_percent_mean: float | None
    throttled: Mapping[str, float]


def recorder_words() -> list[str]:
    """The command that records a node's GPUs on its standard output until it is stopped; it ends at once where no tool
    is installed."""
    queries = [
        shlex.join(["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv", f"-lms={SAMPLE_MS}"])
        for names in NVIDIA
    ]
    script = (
        f"if command -v nvidia-smi >/dev/null; then {' || '.join(queries)}; "
        f"elif command -v amd-smi >/dev/null; then exec {shlex.join(['amd-smi', *AMD])}; fi"
    )
    return ["sh", "-c", script]


def installed_tool() -> str | None:
    """The tool that this machine has."""
    return next((name for name in TOOLS if shutil.which(name)), None)


def mark(log: Path) -> int:
    """Where a recording is now, for `since`."""
    return log.stat().st_size if log.exists() else 0


def since(log: Path, begin: int) -> str:
    """What was recorded from a mark on, and a few samples of before, with the header."""
    if not log.exists():
        return ""
    data = log.read_bytes()
    heads = [line for line in data[:begin].split(b"\n")[:20] if line[:1].isalpha()] if begin else []
    first = max(0, begin - BEFORE_BYTES)
    cut = data.find(b"\n", first) + 1 if first else 0  # a whole line
    return b"\n".join([*heads, data[cut:]]).decode("utf-8", "replace")


def read_samples(text: str) -> tuple[Sample, ...]:
    """Samples of either tool's CSV. Lines that are not understood are left out; so is a last line without an end, which
    was being written; a header that comes again begins a table of its own columns."""
    lines = text.splitlines()
    if lines and not text.endswith("\n"):
        lines.pop()
    found: list[Sample] = []
    columns: dict[str, int] = {}
    names: list[str] = []
    for row in csv.reader(lines, skipinitialspace=True):
        heads = [_plain(cell) for cell in row]
        if any(name in heads for name in _NAMES["gpu"]) and not any(cell.isdigit() for cell in heads):
            names = heads
            known = [(ours, name) for ours, theirs in _NAMES.items() for name in reversed(theirs) if name in heads]
            columns = {ours: heads.index(name) for ours, name in known}
        elif "at" in columns and len(row) == len(names) and (sample := _sample(row, names, columns)):
            found.append(sample)
    return tuple(found)


def summary(samples: Iterable[Sample]) -> tuple[DeviceSummary, ...]:
    """Each device's own, in the order of their numbers."""
    by_gpu: dict[str, list[Sample]] = {}
    for sample in samples:
        by_gpu.setdefault(sample.gpu, []).append(sample)
    return tuple(_device(gpu, by_gpu[gpu]) for gpu in sorted(by_gpu, key=lambda gpu: (len(gpu), gpu)))


def table(samples: Sequence[Sample]) -> str:
    """Samples as one CSV in our columns, of whichever tool: what is stored, and what energy is integrated from."""
    out = io.StringIO()
    names = ("power_w", "sm_mhz", "memory_mhz", "celsius", "busy_percent", "memory_mib")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("timestamp", "index", *names, "throttled"))
    for sample in samples:
        values = asdict(sample)
        numbers = ["" if values[name] is None else f"{values[name]:g}" for name in names]
        writer.writerow([sample.at, sample.gpu, *numbers, "+".join(sample.throttled)])
    return out.getvalue()


def busy_gpus() -> bool:
    """Whether a GPU of this machine computes now. False where no tool tells."""
    if shutil.which("nvidia-smi") is None:
        return False
    words = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(words, capture_output=True, text=True, timeout=ASK_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False
    return any((value := _number(line)) is not None and value >= BUSY_PERCENT for line in said.splitlines())


def _sample(row: Sequence[str], names: Sequence[str], columns: Mapping[str, int]) -> Sample | None:
    gpu = row[columns["gpu"]].strip()
    if not gpu.isdigit():
        return None
    at = row[columns["at"]].strip()
    numbers = {name: _number(row[at_]) for name, at_ in columns.items() if name not in ("at", "gpu")}
    return Sample(at=at, gpu=gpu, **numbers, throttled=tuple(_throttled(row, names)))


def _throttled(row: Sequence[str], names: Sequence[str]) -> Iterable[str]:
    for name, value in zip(names, row, strict=True):
        said = value.strip().lower()
        for key, text in _THROTTLES.items():
            if name in (f"clocks_throttle_reasons.{key}", f"clocks_event_reasons.{key}") and said == "active":
                yield text
        if name in _AMD_THROTTLES and said in ("throttled", "active", "true"):
            yield "throttled"
        for key in _AMD_REASONS:
            if name in (f"{key}_violation_status", f"{key}_violation_active") and said in ("active", "true"):
                yield key.replace("_", " ")


def _device(gpu: str, samples: Sequence[Sample]) -> DeviceSummary:
    def values(name: str) -> list[float]:
        return [value for sample in samples if (value := getattr(sample, name)) is not None]

    def mean(numbers: Sequence[float]) -> float | None:
        return round(sum(numbers) / len(numbers), 3) if numbers else None

    reasons = sorted({reason for sample in samples for reason in sample.throttled})
    power, clock, heat = values("power_w"), values("sm_mhz"), values("celsius")
    return DeviceSummary(
        gpu=gpu,
        samples=len(samples),
        power_w_mean=mean(power),
        power_w_max=max(power, default=None),
        sm_mhz_mean=mean(clock),
        sm_mhz_min=min(clock, default=None),
        celsius_max=max(heat, default=None),
        busy_percent_mean=mean(values("busy_percent")),
        throttled={r: round(sum(r in s.throttled for s in samples) / len(samples), 4) for r in reasons},
    )


def _plain(head: str) -> str:
    """A column's name without its unit."""
    return head.partition("[")[0].strip().lower()


def _number(text: str) -> float | None:
    """The number at the beginning of `71.3 W`; None for `[N/A]` and the like."""
    words = text.split()
    try:
        return float(words[0].rstrip("%")) if words else None
    except ValueError:
        return None
