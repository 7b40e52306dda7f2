"""A price sheet: a dated, versioned file of what GPU-hours cost and tokens sell for.

In: a YAML (or JSON) file. Out: a frozen `PriceSheet`, or an `InputError` with every problem and its place. Prices are
US dollars: per GPU-hour by GPU, per million tokens by model prefix, with cached input apart from input.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ridgeline.core.cell import digest
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where

FORMAT, VERSION = "ridgeline.prices", 1
_TOP = ("format", "version", "name", "valid_from", "source", "gpu_hours", "tokens")
_TOKENS = ("input", "cached_input", "output")


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """US dollars per million tokens. `cached_input`: None when the seller has no such price."""

    input: float
    output: float
    cached_input: float | None = None


@dataclass(frozen=True, slots=True)
class PriceSheet:
    """`gpu_hours`: GPU name -> dollars; `tokens`: model prefix -> prices. `digest` changes with any price."""

    name: str
    valid_from: str
    source: str
    gpu_hours: Mapping[str, float]
    tokens: Mapping[str, TokenPrices]
    digest: str = ""

    @property
    def named(self) -> dict[str, str]:
        """What points say of it."""
        return {"name": self.name, "valid_from": self.valid_from, "source": self.source, "digest": self.digest}

    def gpu_hour(self, hardware: str) -> float | None:
        """Price of a GPU-hour: by the full name (`h200-dgxc`), else by the longest name it begins with."""
        low = hardware.lower()
        fitting = [name for name in self.gpu_hours if low == name or low.startswith(f"{name}-")]
        return self.gpu_hours[max(fitting, key=len)] if fitting else None


def of_gpu_hours(name: str, prices: Mapping[str, float]) -> PriceSheet:
    """A sheet of nothing but GPU-hours, as settings may hold them: undated, and no tokens have a price."""
    hours = {gpu.lower(): price for gpu, price in prices.items()}
    return PriceSheet(name, "", "settings", hours, {}, digest({"gpu_hours": hours}))


def load_prices(path: Path) -> PriceSheet:
    """Read a price sheet. Raises InputError with all problems."""
    try:
        text = path.read_text("utf-8")
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
        data = yaml.load(text, Loader=yaml.CSafeLoader)
    except FileNotFoundError as error:
        raise InputError([Problem("no such file", Where(str(path)))]) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError([Problem(f"not YAML: {error}", Where(str(path)))]) from error
    if not isinstance(data, dict):
        raise InputError([Problem("must be a mapping", Where(str(path)))])
    problems: list[Problem] = []
    places = _places(root, str(path))

    def wrong(key: str, message: str, hint: str | None = None) -> None:
        problems.append(Problem(message, places.get(key, Where(str(path))), key, hint))

    for name in sorted(set(map(str, data)) - set(_TOP)):
        wrong(name, "is unknown", f"known: {', '.join(_TOP)}")
    if data.get("format") != FORMAT:
        wrong("format", f"must be {FORMAT}")
    if data.get("version") != VERSION:
        wrong("version", f"must be {VERSION}, the only version there is")
    for name in ("name", "source"):
        if not isinstance(data.get(name), str) or not data[name]:
            wrong(name, "must be a text: say whose prices these are")
    valid_from = data.get("valid_from")
    if not isinstance(valid_from, datetime.date):
        wrong("valid_from", "must be a date like 2026-01-31")
    for name, price in _mapping(data, "gpu_hours", wrong).items():
        if not _positive(price):
            wrong(f"gpu_hours.{name}", f"must be a positive number of dollars, not {price!r}")
    for model, prices in _mapping(data, "tokens", wrong).items():
        if not isinstance(prices, dict) or not {"input", "output"} <= set(prices) <= set(_TOKENS):
            wrong(f"tokens.{model}", "must hold input and output, and may hold cached_input")
            continue
        for name, price in prices.items():
            if not _positive(price):
                wrong(f"tokens.{model}.{name}", f"must be a positive number of dollars, not {price!r}")
    if problems:
        raise InputError(problems)
    return PriceSheet(
        name=data["name"],
        valid_from=str(valid_from),
        source=data["source"],
        gpu_hours={str(name).lower(): float(price) for name, price in (data.get("gpu_hours") or {}).items()},
        tokens={
            str(model): TokenPrices(
                float(prices["input"]),
                float(prices["output"]),
                float(prices["cached_input"]) if "cached_input" in prices else None,
            )
            for model, prices in (data.get("tokens") or {}).items()
        },
        digest=digest({**data, "valid_from": str(valid_from)}),
    )


def _mapping(data: Mapping[str, Any], key: str, wrong: Any) -> Mapping[str, Any]:
    found = data.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        wrong(key, "must be a mapping of names to prices")
        return {}
    return found


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _places(node: yaml.Node | None, file: str, prefix: str = "") -> dict[str, Where]:
    """Key path -> place of the key."""
    found: dict[str, Where] = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = f"{prefix}{key.value}"
            found[name] = Where(file, key.start_mark.line + 1, key.start_mark.column + 1)
            found |= _places(value, file, f"{name}.")
    return found
