"""The `/metrics` page: the engine's series as Prometheus text, and how late the emulation runs."""

from __future__ import annotations

from ridgeline.simulate import sglang_metrics
from ridgeline.simulate.engine import Engine
from ridgeline.simulate.graphlog import CountedSteps, step_counters
from ridgeline.simulate.metrics import FAMILIES, rows, series
from ridgeline.simulate.server.pump import Pump

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
OWN = {
    "ridgeline:emulator_lag_seconds": ("gauge", "Simulated seconds by which the last step was handled too late."),
    "ridgeline:emulator_lag_seconds_max": ("gauge", "The largest such lag since the start."),
    "ridgeline:emulator_step_lag_seconds_total": ("counter", "Such lags added up over all steps."),
    "ridgeline:emulator_steps_total": ("counter", "Engine steps."),
    "ridgeline:emulator_speed": ("gauge", "Simulated seconds per real second."),
}


def metrics_page(engine: Engine, pump: Pump, model: str, speed: float, names: str = "vllm") -> bytes:
    """Prometheus text of this moment, under the metric names of vLLM or SGLang."""
    lines: list[str] = []
    shown, passes = "", engine.price.decodes if isinstance(engine.price, CountedSteps) else None
    if names == "sglang":
        families, found = sglang_metrics.FAMILIES, sglang_metrics.rows(engine.ranks, engine.metrics, model, passes)
    else:
        families, found = FAMILIES, rows(engine.ranks, engine.metrics, model)
    for family, name, labels, value in found:
        if family != shown:
            shown = family
            kind, text = families[family]
            full = f"{names}:{family}_total" if kind == "counter" else f"{names}:{family}"
            lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
        lines.append(f"{series(name, labels)} {_number(value)}")
    own = (pump.lag_s, pump.worst_lag_s, pump.total_lag_s, engine.steps, speed)
    for (name, (kind, text)), value in zip(OWN.items(), own, strict=True):
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", f"{name} {_number(value)}"]
    lines += engine.handover.lines()
    if isinstance(engine.price, CountedSteps):
        lines += step_counters(engine.price)
    return ("\n".join(lines) + "\n").encode()


def _number(value: float) -> str:
    return repr(float(value))
