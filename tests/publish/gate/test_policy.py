"""The policy file: what it holds, and that every mistake in one is named at its line."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from ridgeline.core.errors import InputError
from ridgeline.publish.gate.policy import inferencex_policy, load_gate_policy

TEXT = (files("ridgeline.publish.gate") / "data" / "inferencex.yaml").read_text()


def load(folder: Path, text: str) -> None:
    file = folder / "policy.yaml"
    file.write_text(text)
    load_gate_policy(file)


def test_the_shipped_policy_is_inferencexs(tmp_path: Path) -> None:
    policy = inferencex_policy()
    assert len(policy.labels.sweeps) == 5 and len(policy.known_labels) == 13
    assert policy.labels.sweeps["sweep-enabled"].trimmed and not policy.labels.sweeps["sweep-enabled"].reusable
    assert "Apache-2.0" in TEXT.split("\n")[1]
    load(tmp_path, TEXT)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("matrix: trimmed", "matrix: tiny", "full or trimmed"),
        ("canary: false", "canary: maybe", "true or false"),
        ("recommended: full-sweep-fail-fast", "recommended: other", "one of the sweep labels"),
        ("priority: [ci-patchwork,", "priority: [all-evals,", "also stands under"),
        ("docs/waiver/{pr}.md", "docs/waiver.md", "{pr}"),
        ("version: 1", "version: 2", "1, nothing else"),
        ("effect: fast", "effect: quick", "all-evals"),
        ("duration-s: 1200", "duration-s: 0", "above 0"),
        ("skip-marker:", "skip-mark:", "did you mean `skip-marker`"),
    ],
)
def test_mistakes_are_named_at_their_line(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in TEXT
    with pytest.raises(InputError) as caught:
        load(tmp_path, TEXT.replace(old, new, 1))
    assert any(words in str(problem) for problem in caught.value.problems), str(caught.value)
    line = TEXT[: TEXT.index(old)].count("\n") + 1
    assert any(problem.where and abs(problem.where.line - line) <= 1 for problem in caught.value.problems) or words in (
        "also stands under",
        "did you mean `skip-marker`",
    )


def test_deprecations_have_days(tmp_path: Path) -> None:
    text = TEXT.replace("deprecated: []", "deprecated:\n- { model-prefix: old, since: 2026-01-31, reason: gone }\n")
    load(tmp_path, text)
    with pytest.raises(InputError, match="a date"):
        load(tmp_path, text.replace("2026-01-31", "2026-02-31"))
