from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.spec.scalars import Trap, read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("NULL", None),
        ("yes", True),
        ("Off", False),
        ("true", True),
        ("8", 8),
        ("+8", 8),
        ("-8", -8),
        ("0", 0),
        ("2_063_837", 2063837),
        ("0x1F", 31),
        ("-0b101", -5),
        ("0.8", 0.8),
        (".5", 0.5),
        ("1.", 1.0),
        ("8.0e-1", 0.8),
        ("-.INF", -math.inf),
        ("fp8", "fp8"),
        ("v0.26.0", "v0.26.0"),
        ("1.2.3", "1.2.3"),
        ("yEs", "yEs"),
        ("y", "y"),
        ("-", "-"),
        ("0x_", "0x_"),
        ("-.5", "-.5"),
    ],
)
def test_plain_scalars_read_the_yaml_1_1_way(text: str, value: Any) -> None:
    assert read(text) == value
    assert type(read(text)) is type(value)


def test_not_a_number_is_a_float() -> None:
    assert math.isnan(read(".nan"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1:30", "base-60 number in YAML 1.1 (90)"),
        ("-1:30:00.5", "(-5400.5)"),
        ("010", "looks octal (8 for one reader, 10 for another)"),
        ("08", "looks octal (text for one reader, a number for another)"),
        ("0o17", "looks octal (15 for one reader"),
        ("2026-11-30", "is a date"),
        ("2026-1-2 3:04:05", "is a date"),
        ("1e3", "text in YAML 1.1 and a number in YAML 1.2"),
        ("1.5E3", "text in YAML 1.1"),
        ("9" * 5000, "too many digits"),
        ("0x" + "f" * 50, "too many digits"),
    ],
)
def test_traps_say_what_they_are(text: str, says: str) -> None:
    trap = read(text)
    assert isinstance(trap, Trap)
    assert says in str(trap)


@given(st.one_of(st.text("0123456789-+._:eExbonyYNfTt~i", max_size=12), st.text(max_size=6)))
@settings(max_examples=300, deadline=None)
def test_agrees_with_pyyaml_wherever_it_is_not_a_trap(text: str) -> None:
    resolver = yaml.SafeLoader("")
    tag = resolver.resolve(yaml.ScalarNode, text, (True, False))
    value = read(text)
    if isinstance(value, Trap) or tag.endswith((":value", ":merge", ":yaml")):
        return
    node = yaml.ScalarNode(tag, text)
    try:
        expected = resolver.construct_object(node)
    except ValueError:  # e.g. `0x_`: PyYAML crashes on what its own pattern lets through
        expected = text
    assert value == expected or (value != value and expected != expected)
    assert type(value) is type(expected)
