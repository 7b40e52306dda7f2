"""Values of many series, many times over: names are kept once, values as doubles.

A page of an engine has hundreds of series with names of a hundred letters, and a replay reads it every second; as
dictionaries of their own the readings of two hours would take a gigabyte.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping


class Readings(Mapping[str, float]):
    """One reading: an immutable mapping, equal to a dictionary of the same values."""

    __slots__ = ("_places", "_values")

    def __init__(self, places: Mapping[str, int], values: array[float]) -> None:
        self._places = places  # shared by all readings of the same series
        self._values = values

    def __getitem__(self, name: str) -> float:
        return self._values[self._places[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"Readings({dict(self)!r})"


class Reader:
    """Makes `Readings` that share the names of the last one while a page shows the same series."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._names: dict[str, str] = {}

    def read(self, values: Mapping[str, float]) -> Readings:
        """The values as a reading."""
        if values.keys() != self._places.keys():
            names = self._names
            self._places = {names.setdefault(name, name): place for place, name in enumerate(values)}
        return Readings(self._places, array("d", map(values.__getitem__, self._places)))
