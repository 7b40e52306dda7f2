"""The form of one revision: bytes, YAML, one marker line per entry, schema; each fault at its line."""

from __future__ import annotations

import pytest
from tests.publish.changelog.texts import HISTORY, entry, file

from ridgeline.publish.changelog.document import read_document, set_link
from ridgeline.publish.changelog.refusal import SHOWN, ChangelogRefused


def faults(data: bytes) -> list[tuple[int, str]]:
    with pytest.raises(ChangelogRefused) as caught:
        read_document(data, "log.yaml")
    return [(one.where.line, one.message) for one in caught.value.problems if one.where]


def test_blocks_split_the_file_without_loss() -> None:
    document = read_document(HISTORY, "log.yaml")
    assert b"".join(document.block(index) for index in range(len(document.entries))) == HISTORY
    assert [one.line for one in document.entries] == [1, 7]


@pytest.mark.parametrize(
    ("extra", "line", "said"),
    [
        (("owner: me",), 6, "entry 1: unknown field `owner`"),
        (("evals-only: maybe",), 6, "entry 1: `evals-only`: "),
        (("eval-min-prefill-ep: 0",), 6, "entry 1: `eval-min-prefill-ep`: "),
        (("scenario-type: []",), 6, "entry 1: `scenario-type` needs at least one item"),
        (("scenario-type:\n    - chat",), 7, "entry 1: `scenario-type[0]`: "),
        (("append-only: true", "all-evals: true"), 1, "entry 1: append-only excludes"),
        (("append-only: true", "eval-min-prefill-ep: 4"), 1, "entry 1: append-only excludes"),
        (("evals-only: true", "evals-only: true"), 7, "duplicate key, first written in line 6"),
        (("? [a]\n  : b",), 6, "a mapping key must be a plain scalar"),
    ],
)
def test_schema_faults_name_the_line_of_the_value(extra: tuple[str, ...], line: int, said: str) -> None:
    [(where, message)] = faults(entry("one", "XXX", *extra).encode())
    assert where == line
    assert message.startswith(said)


@pytest.mark.parametrize("name", ["config-keys", "description", "pr-link"])
def test_required_fields(name: str) -> None:
    fields = {"config-keys": "[a]", "description": "[b]", "pr-link": "XXX"}
    text = "- " + "\n  ".join(f"{key}: {value}" for key, value in fields.items() if key != name) + "\n"
    assert (1, f"entry 1: `{name}` is required") in faults(text.encode())


def test_lenient_booleans_read_as_elsewhere() -> None:
    [one] = read_document(entry("one", "XXX", 'evals-only: "yes"', "all-evals: 1").encode(), "log.yaml").entries
    assert (one.evals_only, one.all_evals) == (True, True)


@pytest.mark.parametrize("data", [b"", b"\n", b"a: 1\n", b"text\n", b"# only a comment\n"])
def test_the_root_is_a_list(data: bytes) -> None:
    assert any("list of entries" in message for _, message in faults(data))


@pytest.mark.parametrize(
    "data",
    [
        b"- *\n",
        b"- &a [*a]\n",
        b"--- []\n--- []\n",
        b"- !!python/object:os.system {}\n",
        b"- 2024-13-45\n",
        b"- [" * 3000 + b"\n",
        b"- \x01\n",
        b"- \xff\n",
    ],
)
def test_hostile_yaml_is_refused_not_raised(data: bytes) -> None:
    assert faults(data)


@pytest.mark.parametrize(("byte", "name"), [(b"\r", "CR byte"), (b"\t", "tab"), (b"\0", "NUL byte")])
def test_forbidden_bytes_are_named_once_with_a_count(byte: bytes, name: str) -> None:
    data = HISTORY.replace(b"- note", b"- 'no" + byte + b"te'")
    assert faults(data)[0] == (4, f"{name}, and in 1 more lines")


def test_markers_and_entries_agree() -> None:
    assert faults(b"- {config-keys: [a], description: [b], pr-link: XXX}\n")[0][0] == 1
    assert faults(entry("one").replace("- config-keys:", "-\n  config-keys:").encode())[0][0] == 2
    hidden = "- {config-keys: [a], description: [b], pr-link: 'X\n- config-keys:\n  '}\n"  # counts agree, lines do not
    assert [line for line, _ in faults(hidden.encode())] == [1, 2]


def test_line_breaks_that_only_yaml_sees_do_not_shift_lines() -> None:
    data = file(entry("one").replace("note", '"no\u2028te\u0085"'), entry("two", "XXX", "owner: me"))
    assert faults(data)[0][0] == 12


def test_a_long_list_of_problems_is_cut() -> None:
    with pytest.raises(ChangelogRefused) as caught:
        read_document(file(*[entry("one", "XXX", "owner: me")] * (SHOWN + 3)), "log.yaml")
    lines = str(caught.value).splitlines()
    assert (lines[0], lines[-1]) == (f"{SHOWN + 3} problems", "and 3 more")


def test_set_link_touches_one_line() -> None:
    block = entry("one", '"XXX"  # later', "evals-only: true").encode()
    assert set_link(block, "URL", "f", 1) == entry("one", "URL", "evals-only: true").encode()
    for bad in (block.replace(b"  pr-link", b'  "pr-link"'), block + b"  pr-link: again\n"):
        with pytest.raises(ChangelogRefused, match="lines starting"):
            set_link(bad, "URL", "f", 1)
