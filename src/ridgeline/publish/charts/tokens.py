"""The tokens of the look: DESIGN.md's front matter to a style sheet, and colours as any picture viewer knows them.

In: the text of DESIGN.md, or the style sheet made from it. Out: CSS custom properties; (light, dark) sRGB pairs.
The package carries the style sheet, since DESIGN.md stays in the source tree; a test holds the two equal.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

STYLE_SHEET = "tokens.css"
_GROUPS = ("font", "radius", "motion", "size")


class Pair(NamedTuple):
    """One colour in both themes, `#rrggbb`."""

    light: str
    dark: str


def front_matter(text: str) -> Mapping[str, Any]:
    """The YAML block between the first two `---` lines. Raises ValueError when there is none."""
    import yaml

    parts = text.split("---\n", 2)
    if len(parts) < 3 or parts[0]:
        raise ValueError("DESIGN.md must begin with a front matter between two `---` lines")
    loaded: Mapping[str, Any] = yaml.safe_load(parts[1])
    return loaded


def style_sheet(text: str) -> str:
    """The CSS custom properties for the tokens in `text` (a whole DESIGN.md)."""
    tokens = front_matter(text)
    lines = ["/* Written from DESIGN.md by ridgeline.publish.charts.tokens; change the values there. */", ":root {"]
    lines += [f"  --{name}: light-dark({light}, {dark});" for name, (light, dark) in tokens["colour"].items()]
    lines += [f"  --{name}: {value};" for group in _GROUPS for name, value in tokens[group].items()]
    return "\n".join([*lines, "}", ""])


@cache
def colours() -> Mapping[str, Pair]:
    """Every colour token as sRGB, from the packaged style sheet."""
    text = resources.files(__package__).joinpath("assets", STYLE_SHEET).read_text(encoding="utf-8")
    found = re.findall(r"--([\w-]+): light-dark\(oklch\(([^)]*)\), oklch\(([^)]*)\)\);", text)
    return {name: Pair(_hex(light), _hex(dark)) for name, light, dark in found}


def mix(first: str, second: str, share: float) -> str:
    """`share` of `first` and the rest of `second`, in OKLab, as CSS' `color-mix(in oklab, ...)` does it."""
    pairs = zip(_lab(_channels(first)), _lab(_channels(second)), strict=True)
    return _join(_linear(*(share * a + (1 - share) * b for a, b in pairs)))


def _hex(oklch: str) -> str:
    """oklch to sRGB; chroma is lowered until the colour fits into the gamut."""
    lightness, chroma, hue = (float(part) for part in oklch.split())
    angle = math.radians(hue)
    while True:
        linear = _linear(lightness, chroma * math.cos(angle), chroma * math.sin(angle))
        if chroma <= 0 or all(-0.0005 <= value <= 1.0005 for value in linear):
            return _join(linear)
        chroma -= 0.002


# Matrices: B. Ottosson, "A perceptual color space for image processing" (2020).


def _linear(lightness: float, a: float, b: float) -> tuple[float, ...]:
    """OKLab to linear sRGB, which may lie outside 0 to 1."""
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def _lab(linear: tuple[float, ...]) -> tuple[float, ...]:
    """Linear sRGB to OKLab."""
    red, green, blue = linear
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    medium = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def _channels(colour: str) -> tuple[float, ...]:
    values = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return tuple(v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values)


def _join(linear: tuple[float, ...]) -> str:
    clipped = (min(1.0, max(0.0, value)) for value in linear)
    gamma = (12.92 * v if v <= 0.0031308 else 1.055 * v ** (1 / 2.4) - 0.055 for v in clipped)
    return "#" + "".join(f"{round(255 * value):02x}" for value in gamma)


if __name__ == "__main__":
    source = Path(sys.argv[1] if len(sys.argv) > 1 else "DESIGN.md").read_text(encoding="utf-8")
    Path(__file__).with_name("assets").joinpath(STYLE_SHEET).write_text(style_sheet(source), encoding="utf-8")
