"""What predictions rest on, for people: which recipe each of them assumed and how the memory of its engine is known."""

from __future__ import annotations

from collections import Counter

from ridgeline.sweep.predict import Prediction


class Rests:
    """Counts cells by what they rest on; what every cell says is said once."""

    def __init__(self) -> None:
        self._recipes: Counter[str] = Counter()
        self._notes: dict[str, Counter[str]] = {}

    def add(self, prediction: Prediction) -> None:
        """A refused cell rests on nothing."""
        if prediction.point is None:
            return
        recipe = str(prediction.point.provenance.get("recipe", ""))
        self._recipes[recipe] += 1
        self._notes.setdefault(recipe, Counter()).update(prediction.point.provenance.get("assumes", ()))

    @property
    def text(self) -> str:
        """One line a recipe, and one for each thing that some of its cells assume."""
        lines = []
        for recipe, count in self._recipes.items():
            lines.append(f"assumed  {recipe}: {_cells(count)}")
            for note, some in self._notes[recipe].items():
                lines.append(f"         {note}" + ("" if some == count else f" ({_cells(some)})"))
        return "".join(f"{line}\n" for line in lines)


def _cells(count: int) -> str:
    return f"{count} cell{'' if count == 1 else 's'}"
