"""The `/metrics` page: the engine's series as Prometheus text, and how late the emulation runs."""

from __future__ import annotations

from ridgeline.simulate.engine import Engine
from ridgeline.simulate.metrics import FAMILIES, rows, series
from ridgeline.simulate.server.pump import Pump

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
OWN = {
    "ridgeline:emulator_lag_seconds": "Simulated seconds by which the last step was handled too late.",
    "ridgeline:emulator_lag_seconds_max": "The largest such lag since the start.",
    "ridgeline:emulator_speed": "Simulated seconds per real second.",
}


def metrics_page(engine: Engine, pump: Pump, model: str) -> bytes:
    """Prometheus text of this moment."""
    lines: list[str] = []
    shown = ""
    for family, name, labels, value in rows(engine.ranks, engine.metrics, model):
        if family != shown:
            shown = family
            kind, text = FAMILIES[family]
            full = f"vllm:{family}_total" if kind == "counter" else f"vllm:{family}"
            lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
        lines.append(f"{series(name, labels)} {_number(value)}")
    own = (pump.lag_s, pump.worst_lag_s, pump.clock.speed)
    for (name, text), value in zip(OWN.items(), own, strict=True):
        lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name} {_number(value)}"]
    return ("\n".join(lines) + "\n").encode()


def _number(value: float) -> str:
    return repr(float(value))
