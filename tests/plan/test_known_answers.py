"""InferenceX's own answers: expanded matrices, refusals, verdicts on broken files, two examples."""

from __future__ import annotations

import gzip
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.golden import ROOT, golden

from ridgeline.cli.main import main
from ridgeline.spec import config
from ridgeline.spec.tree import parse_file

FOLDER = ROOT / os.environ.get("RIDGELINE_GOLDEN", "../shared")
# What we refuse and the peer accepts, each a row of docs/reference/differences.md: the words the refusal must have.
STRICTER = {
    "19-conc-start-and-list.yaml": "half a range",
    "23-tp-string.yaml": "remove the quotes",
    "61-question-in-key.yaml": "kept for patterns",
    "66-empty-search-space.yaml": "no cells",
}
# Words of every refusal that the page allows, for cases that a larger set of answers may have.
DOCUMENTED = (
    *STRICTER.values(),
    *(
        "is given twice",
        "overrides the value",
        "YAML 1.1",
        "looks octal",
        "must be a whole number",
        "must be true or false",
    ),
    *("did you mean", "multinode: "),
)


def matrix() -> list[dict[str, Any]]:
    path = FOLDER / "golden/matrix/manifest.json"
    return json.loads(path.read_text())["cases"] if path.exists() else [{"name": "absent", "args": []}]


def verdicts() -> list[dict[str, Any]]:
    path = FOLDER / "golden/invalid_configs/verdicts.json"
    return json.loads(path.read_text())["cases"] if path.exists() else [{"file": "absent.yaml", "load": "reject"}]


@pytest.fixture(scope="session")
def rows() -> dict[str, Any]:
    with gzip.open(golden("golden/matrix/rows.jsonl.gz")) as lines:
        return {case["name"]: case["rows"] for case in map(json.loads, lines)}


@pytest.fixture
def in_peers_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that the arguments are relative to; each set of files is parsed once, for its values are frozen."""
    monkeypatch.chdir(golden("data/inferencex"))
    monkeypatch.setattr(config, "load_configs", lambda paths: parsed_once(tuple(paths)))


@cache
def parsed_once(paths: tuple[str, ...]) -> config.ConfigSet:
    return config.from_documents([parse_file(path) for path in paths])


def test_there_are_as_many_cases_as_there_are_rows(rows: dict[str, Any]) -> None:
    assert sorted(rows) == sorted(case["name"] for case in matrix() if case["outcome"] == "rows")


@pytest.mark.parametrize("case", matrix(), ids=lambda case: case["name"])
@pytest.mark.usefixtures("in_peers_folder")
def test_matrix(case: dict[str, Any], request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["plan", *case["args"]])
    out, err = capsys.readouterr()
    if case["outcome"] == "rows":
        assert code == 0, err
        # compared as text: order of rows, order of keys and types all count
        assert out == json.dumps(request.getfixturevalue("rows")[case["name"]]) + "\n"
    else:
        assert (code, out) == (2, "")
        assert REASONS.get(case["name"], "error") in err


REASONS = {
    "err-step-1": "--step-size",
    "err-min-gt-max": "--min-conc",
    "err-runner-type": "`mi999`: is not a label",
    "err-scenario": "invalid choice: 'chat'",
    "err-missing-runner": "configs/none.yaml: cannot read the file",
    "err-pattern-nomatch": "`nope*`: pattern matches no config key",
}


@pytest.mark.parametrize("case", verdicts(), ids=lambda case: str(case.get("file") or "+".join(case["files"])))
def test_verdicts(case: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    folder = golden("golden/invalid_configs")
    names = case.get("files") or [case["file"]]
    runners = golden("data/inferencex/configs/runners.yaml")
    args = ["--config-files", *(str(folder / name) for name in names), "--runner-config", str(runners)]
    if case.get("kind") == "runners" or names[0].startswith("r"):
        args = ["--config-files", str(folder / "00-valid-single.yaml"), "--runner-config", str(folder / names[0])]
    for command in (["full-sweep"], ["test-config", "--config-keys", "t"]):
        code = main(["plan", *command, *args])
        out, err = capsys.readouterr()
        if case["load"] == "reject" or case.get(command[0]) == "reject":
            assert (code, out) == (2, ""), err
            assert all(field_path(fault["loc"]) in err for fault in case.get("pydantic", [])), err
            assert str(folder / names[-1]) in err
        elif names[0] in STRICTER or code == 2:
            assert (code, out) == (2, "")
            allowed = [STRICTER[names[0]]] if names[0] in STRICTER else DOCUMENTED
            assert any(words in err for words in allowed), err
        else:
            assert code == 0, err
            assert len(json.loads(out)) == case.get(f"{command[0]}-rows", 5)


def field_path(location: list[str | int]) -> str:
    """The peer's location in our spelling."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location).removeprefix(".hardware")


def test_the_stricter_verdicts_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/differences.md").read_text()
    assert all(word in page for word in ("Half a range", "Quoted numbers", "`?` in a key", "Empty search space"))


@pytest.mark.parametrize(("name", "count"), [("seed-2503", 8), ("seed-2540", 40)])
def test_examples(name: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    config = golden(f"examples/{name}.yaml")
    code = main(["plan", "full-sweep", "--config-files", str(config), "--no-evals"])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    expected = json.loads(golden(f"examples/{name}.rows.json").read_text())
    assert len(expected) == count
    assert out == json.dumps(expected) + "\n"
