"""Golden acceptance lengths that are shipped, and those users add.

Shipped figures are in our own format (`golden_lengths.json`, with source and licence). Users add files in
InferenceX's form: `acceptance/*.yaml` in a folder named by the RIDGELINE_FACTS environment variable.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path

from ridgeline.spec.facts.acceptance import Curve, load_curves

SHIPPED = Path(__file__).with_name("golden_lengths.json")


def shipped_curves() -> tuple[Curve, ...]:
    """Every known curve, the users' first. Raises InputError for a file that cannot be read."""
    return _curves(os.environ.get("RIDGELINE_FACTS", ""))


@lru_cache(maxsize=8)
def _curves(extra: str) -> tuple[Curve, ...]:
    folders = [Path(part) / "acceptance" for part in extra.split(os.pathsep) if part]
    added = load_curves(folder for folder in folders if folder.is_dir())
    names = {(curve.variant, curve.mode) for curve in added}
    data = json.loads(SHIPPED.read_text(encoding="utf-8"))
    shipped = (
        Curve(
            item["model"],
            item["variant"],
            item["mode"],
            {int(drafts): float(length) for drafts, length in item["lengths"].items()},
            data["source"],
        )
        for item in data["curves"]
    )
    return (*added, *(curve for curve in shipped if (curve.variant, curve.mode) not in names))
