"""Any bytes give findings, never an exception, and in a time that grows with their number."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ridgeline.core.finding import Verdict
from ridgeline.plan.shell import RULES, lint
from ridgeline.plan.shell.lint import MOST_BYTES

pytestmark = pytest.mark.integration  # takes seconds of processor time

FIXTURES = Path(__file__).parent / "fixtures"
PIECES = [rule.bad for rule in RULES] + [
    "$((", "))", "${", "}", "<<E\n", "E\n", "trap", " EXIT", "&", "$!", "((", "`", "'", '"', "case x in", "esac", "if",
    "fi", "X=", "(", ")", "|", "tee", "\\\n", "\0", "\xff", "function f {", "[[", "]]", ";;", "#", "=$!", "/(8/TP)",
]  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=400))
@example(b"")
@example(b"\0")
@example(b"trap ' EXIT\n")
@example(b"trap -- x EXIT\ntrap\ntrap x\n")
@example(b"=\n=$!\n+=($!)\n[0]=$! &\n")
@example(b"\xff\xfe=1\n$((1/\xff))\n")
def test_bytes(source: bytes) -> None:
    for finding in lint(source, "x"):
        assert finding.where is not None
        assert finding.message


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from(["", " ", "\n", ";"]))
def test_pieces_of_scripts_in_any_order(pieces: list[str], between: str) -> None:
    lint(between.join(pieces).encode("latin-1"), "x")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2000), st.integers(0, 400), st.binary(max_size=6))
def test_a_script_with_a_wound(start: int, length: int, put: bytes) -> None:
    text = (FIXTURES / "defects.sh").read_bytes()
    lint(text[:start] + put + text[start + length :], "x")


def steps(text: bytes) -> int:
    """Function calls that linting a text makes."""
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(profile)
    try:
        lint(text, "x")
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    ("before", "unit", "after"),
    [
        ("", "(", ""),
        ("", "$(", ""),
        ("", "{ ", ""),
        ("", "if ", ""),
        ("", "f() { f; }\n", ""),
        ("", "$((1/(", ""),
        ("", "a&", ""),
        ("", "trap x EXIT\n", ""),
        ("case x in\n", "a) trap x EXIT ;;\n", "esac\n"),
        ("", "V{n}=$V{m}\n", "trap 'kill $V0' EXIT\nx &\nP=$!\n"),
        ("set -u\n", "echo ${{X:-}} $X\n", ""),
        ("", "pip install x\n", ""),
    ],
)
def test_twice_the_text_is_about_twice_the_work(before: str, unit: str, after: str) -> None:
    """A rule that compares everything with everything would take four times as long, and a hostile script for ever.
    Work is counted in calls, which no other load on the machine changes."""

    def text(count: int) -> bytes:
        units = (unit.format(n=n, m=n + 1) if "{n}" in unit or "{{" in unit else unit for n in range(count))
        return (before + "".join(units) + after).encode()

    assert steps(text(600)) < 3 * steps(text(300)) + 5_000


def test_what_is_not_shell_is_said_to_be_unread() -> None:
    (finding, *_) = [f for f in lint(b"if then (((\n", "x") if f.rule == "L00"]
    assert finding.verdict is Verdict.UNKNOWN


def test_what_is_larger_than_a_script_is_not_read() -> None:
    (finding,) = lint(b"x" * (MOST_BYTES + 1), "big.sh")
    assert (finding.rule, finding.verdict) == ("L00", Verdict.UNKNOWN)
