"""Plain YAML scalars become values, the YAML 1.1 way that InferenceX's tools read them, and traps are told apart.

In: the text of an unquoted scalar. Out: None, bool, int, float, str, or a `Trap`: a text that two YAML readers, or a
reader and its writer, understand differently. It does not know which field the scalar stands in.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple


class Trap(NamedTuple):
    """An unquoted scalar that should not be obeyed: its text, what kind of trap, and how YAML 1.1 reads it."""

    text: str
    kind: str
    reads_as: str

    def __str__(self) -> str:
        return f"unquoted `{self.text}` {self.kind} ({self.reads_as})"


WORDS: dict[str, Any] = {"": None, "~": None} | {
    spelling: value
    for word, value in (
        ("null", None), ("true", True), ("false", False), ("yes", True), ("no", False), ("on", True), ("off", False),
    )
    for spelling in (word, word.capitalize(), word.upper())
}  # fmt: skip

# The patterns follow the YAML 1.1 type repository (https://yaml.org/type/), as libyaml-based readers apply it.
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_OTHER_BASE = re.compile(r"[-+]?0(?:x[0-9a-fA-F_]*[0-9a-fA-F][0-9a-fA-F_]*|b[01_]*[01][01_]*)")
_OCTAL = re.compile(r"[-+]?0[0-9_]+|0o[0-7]+")
_FLOAT = re.compile(r"(?:[-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_EXPONENT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)[eE][-+]?[0-9]+")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}"
    r"(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?"
)
_MAX_DIGITS = 18  # a count with more digits is a mistake, and int() of thousands of digits is refused by Python


def read(text: str) -> Any:
    """The value of a plain scalar, or a `Trap`."""
    if text in WORDS:
        return WORDS[text]
    if text[0] not in "0123456789-+.":
        return text
    if len(text) > _MAX_DIGITS and _DECIMAL.fullmatch(text):
        return Trap(text, "has too many digits for a number", f"{len(text)} digits")
    if _DECIMAL.fullmatch(text):
        return int(text.replace("_", ""))
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", "", 1))
    return _unusual(text)


def _unusual(text: str) -> Any:
    if _OTHER_BASE.fullmatch(text):
        if len(text) > _MAX_DIGITS:
            return Trap(text, "has too many digits for a number", f"{len(text)} digits")
        return int(text.replace("_", ""), 0)
    if _OCTAL.fullmatch(text):
        return Trap(text, "looks octal", _octal(text))
    if _BASE_60.fullmatch(text):
        return Trap(text, "is a base-60 number in YAML 1.1", _base_60(text))
    if _DATE.fullmatch(text):
        return Trap(text, "is a date in YAML 1.1", "not text")
    if _EXPONENT.fullmatch(text):
        return Trap(text, "is text in YAML 1.1 and a number in YAML 1.2", "no dot or no sign in the exponent")
    return text


def _octal(text: str) -> str:
    digits = text.lstrip("-+").replace("_", "").removeprefix("0o")
    if not digits.strip("01234567") and len(digits) <= _MAX_DIGITS and digits:
        return f"{int(digits, 8)} for one reader, {int(digits)} for another"
    return "text for one reader, a number for another"


def _base_60(text: str) -> str:
    if len(text) > _MAX_DIGITS:
        return "a large number"
    value = 0.0
    for part in text.lstrip("-+").replace("_", "").split(":"):
        value = value * 60 + float(part)
    return f"{'-' if text[0] == '-' else ''}{value:g}"
