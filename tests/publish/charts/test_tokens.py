from __future__ import annotations

import re

import pytest
from tests.golden import ROOT

from ridgeline.publish.charts import bundle, tokens

DESIGN = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
OWN = ("base.css", "frontier.css")


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2."""
    red, green, blue = tokens._channels(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_the_packaged_style_sheet_is_what_the_design_says() -> None:
    assert tokens.style_sheet(DESIGN) == bundle.asset("tokens.css"), "run: python -m ridgeline.publish.charts.tokens"


def test_no_colour_is_written_outside_the_tokens() -> None:
    for name in OWN:
        text = re.sub(r"oklch\(0 0 0 / [.\d]+\)", "", bundle.asset(name))  # shadows
        assert not re.findall(r"#[0-9a-f]{3,8}\b(?! *\{)(?=[;} ])|rgb\(|hsl\(|oklch\(", text), name


def test_every_custom_property_used_is_defined() -> None:
    texts = "".join(bundle.asset(name) for name in (*bundle.STYLES, "report.html")) + bundle.script()
    defined = set(re.findall(r"--([\w-]+):", "".join(bundle.asset(name) for name in bundle.STYLES)))
    used = set(re.findall(r"var\(--([\w-]+)\)", texts))
    assert used - defined == set()


def test_breakpoints_are_the_design_s() -> None:
    wanted = set(tokens.front_matter(DESIGN)["breakpoints"].values())
    found = set(re.findall(r"max-width: (\d+px)\)", "".join(bundle.asset(name) for name in OWN)))
    assert found == wanted


@pytest.mark.parametrize(
    ("oklch", "srgb"), [("1 0 0", "#ffffff"), ("0 0 0", "#000000"), ("0.6279553639 0.2576833077 29.2338", "#ff0000")]
)
def test_oklch_becomes_srgb(oklch: str, srgb: str) -> None:
    assert tokens._hex(oklch) == srgb


def test_a_colour_outside_the_gamut_keeps_its_lightness() -> None:
    inside = tokens._hex("0.6 0.4 145")
    red, green, blue = (int(inside[at : at + 2], 16) for at in (1, 3, 5))
    assert green > red and green > blue


@pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ink", ["ink", "ink-2", "ink-3", "accent", "bad", "warn"])
def test_text_reads_on_every_surface(side: int, ink: str) -> None:
    colours = tokens.colours()
    for surface in ("bg", "surface", "raised", "sunken"):
        assert contrast(colours[ink][side], colours[surface][side]) >= 4.5, surface


@pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("slot", range(1, 11))
def test_marks_and_names_of_a_series_can_be_seen(side: int, slot: int) -> None:
    colours = tokens.colours()
    colour, surface, ink = (colours[name][side] for name in (f"s{slot}", "surface", "ink"))
    assert contrast(colour, surface) >= 3
    assert contrast(tokens.mix(colour, ink, 0.66), surface) >= 4.5


def test_a_text_without_front_matter_is_refused() -> None:
    with pytest.raises(ValueError, match="front matter"):
        tokens.style_sheet("# nothing\n")
