"""Which prices a command goes by: a sheet named on the command line, else what the settings hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ridgeline.results.cost import PriceSheet

PricesOption = Annotated[
    Path | None,
    typer.Option("--prices", metavar="FILE", help="Price sheet: what GPU-hours cost and tokens sell for."),
]
SettingsOption = Annotated[
    Path | None, typer.Option("--settings", metavar="FILE", help="ridgeline.yaml, for its prices where none are given.")
]


def chosen_prices(prices: Path | None, settings: Path | None) -> PriceSheet | None:
    """The price sheet that is meant; None when nobody gave prices. Raises InputError for a sheet that does not hold."""
    from ridgeline.results.cost import load_prices
    from ridgeline.results.cost.prices import of_gpu_hours

    if prices is not None:
        return load_prices(prices)
    if settings is None:
        return None
    from ridgeline.spec.settings import load_settings

    found = load_settings(settings)
    if found.price_sheet is not None:
        return load_prices(found.price_sheet)
    return of_gpu_hours(settings.name, found.prices) if found.prices else None
