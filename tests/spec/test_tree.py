from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ridgeline.core.where import Where
from ridgeline.spec.tree import Document, parse, parse_file


def read(text: str) -> Document:
    return parse(text.encode(), "f.yaml")


def messages(document: Document) -> list[str]:
    return [str(problem) for problem in document.problems]


def test_values_and_places() -> None:
    document = read("a:\n  b: [1, x]\n  'c': {d: true}\n")
    assert document.value == {"a": {"b": [1, "x"], "c": {"d": True}}}
    assert document.where(("a", "b", 1)) == Where("f.yaml", 2, 10)
    assert document.where(("a", "b"), at_key=True) == Where("f.yaml", 2, 3)
    assert document.where(("a", "c", "d")) == Where("f.yaml", 3, 12)
    assert document.places(("a", "b")) == [Where("f.yaml", 2, 7), Where("f.yaml", 2, 10)]
    assert document.where(("a", "b", 7)) == Where("f.yaml", 2, 6), "the deepest place that exists"


def test_a_key_given_twice_names_both_lines_and_keeps_the_first() -> None:
    document = read("a: 1\nb: 2\na: 3\n")
    assert document.value == {"a": 1, "b": 2}
    assert len(document.problems) == 1
    assert "`a`: is given twice: in line 1 (column 1) and in line 3 (column 1)" in messages(document)[0]
    assert document.problems[0].where == Where("f.yaml", 3, 1)


def test_merge_keys_merge_as_pyyaml_does() -> None:
    text = "base: &b {x: 1, y: 2}\nother: &o {w: 5}\nuse:\n  z: 3\n  <<: [*b, *o]\n"
    document = read(text)
    expected = yaml.safe_load(text)["use"]
    assert document.value["use"] == expected
    assert set(list(document.value["use"])[:3]) == {"x", "y", "w"}, "merged keys come first"
    assert list(document.value["use"])[-1] == "z"
    assert document.problems == ()
    assert document.where(("use", "y")) == Where("f.yaml", 1, 20)


def test_a_merge_key_that_is_overridden_names_both_lines() -> None:
    document = read("base: &b {tp: 8}\nuse:\n  <<: *b\n  tp: 4\n")
    assert (
        "`use.tp`: in line 4 (column 3) overrides the value that the merge key `<<` brings in line 1 (column 11)"
        in messages(document)[0]
    )


def test_two_merged_mappings_with_the_same_key_are_refused() -> None:
    document = read("a: &a {x: 1}\nb: &b {x: 2}\nc: {<<: [*a, *b]}\n")
    assert "merged mappings both give `x`" in messages(document)[0]


def test_a_merge_key_needs_mappings() -> None:
    assert "needs a mapping" in messages(read("a: {<<: 3}"))[0]


def test_a_quoted_merge_key_is_text() -> None:
    assert read("'<<': 1").value == {"<<": 1}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("on: 1", "the unquoted key `on` is a boolean"),
        ("8: 1", "the unquoted key `8` is a number"),
        ("~: 1", "is empty in YAML"),
        ("2026-01-01: 1", "is a date"),
        ("[a]: 1", "not a list or mapping"),
        ("? {a: 1}\n: 2", "not a list or mapping"),
    ],
)
def test_keys_must_be_text(text: str, says: str) -> None:
    assert says in messages(read(text))[0]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 0, "the file is empty"),
        ("# only a comment\n", 0, "the file is empty"),
        ("a: 1\n---\nb: 2\n", 2, "one document a file"),
        ("a:\n\t- 1\n", 2, "indent with spaces"),
        ("a: [1\n", 2, "not valid YAML"),
        ("a: *nope\n", 1, "undefined alias"),
        ("a: !!python/object:os.system x\n", 1, "the tag `!!python/object:os.system` is not allowed"),
        ("a: !mine [1]\n", 1, "the tag `!mine` is not allowed"),
        ("a: !!set {b}\n", 1, "the tag `!!set` is not allowed"),
        ("a: !!int x\n", 1, "does not fit its tag `!!int`"),
        ("a: \x01\n", 0, "control characters are not allowed"),
    ],
)
def test_what_is_wrong_with_the_file_itself(text: str, line: int, says: str) -> None:
    document = read(text)
    assert says in messages(document)[0]
    assert document.problems[0].where is not None
    assert document.problems[0].where.line == line


def test_bytes_that_are_not_text() -> None:
    document = parse(b"a: \xff\xfe\n", "f.yaml")
    assert "not valid YAML" in messages(document)[0]


def test_core_tags_are_applied() -> None:
    assert read('a: !!str 8\nb: !!int "8"\nc: !!bool "yes"\nd: !!float 1\n').value == {
        "a": "8",
        "b": 8,
        "c": True,
        "d": 1,
    }


def test_an_alias_inside_itself_is_no_endless_loop() -> None:
    assert "levels deep" in messages(read("a: &a [*a]\n"))[0]


def test_aliases_that_multiply_are_stopped() -> None:
    lines = ["a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "aliases repeat theirs" in messages(read("\n".join(lines)))[0]


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 5_000 + "x", "? " * 5_000, "{a: " * 900])
def test_deep_nesting_is_refused(text: str) -> None:
    assert read(text).problems


def test_a_problem_in_a_shared_mapping_is_told_once() -> None:
    assert len(read("a: &a {on: 1}\nb: *a\nc: *a\n").problems) == 1


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    absent = parse_file(tmp_path / "absent.yaml")
    assert "No such file" in messages(absent)[0]
    assert str(tmp_path / "absent.yaml") in messages(absent)[0]
    assert "cannot read the file" in messages(parse_file(tmp_path))[0]
