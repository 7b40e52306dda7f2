"""Hostile payloads and changes: they are judged or refused, they change nothing, and they run nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.publish.changelog.repo import Repo
from tests.publish.changelog.texts import REPOSITORY
from tests.publish.gate.kit import BODY, ENTRY, SCRIPT, TITLE, pull_event, script, write_policy

from ridgeline.cli.main import main
from ridgeline.publish.gate.text import code, markup, plain

pytestmark = pytest.mark.integration  # starts processes or repositories for most of its tests

EVIL = [
    "$(touch PWNED)",
    "`touch PWNED`",
    "; touch PWNED #",
    "' || touch PWNED || '",
    "--upload-pack=touch PWNED",
    "| touch PWNED\n&& touch PWNED",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "](https://evil.example) ![x](https://evil.example/x.png) @everyone #1 \u202e\u0000",
    "::set-output name=x::y\n::add-mask::\n%0A::error::x",
    "../../../../etc/passwd",
    "{{7*7}} ${{ secrets.TOKEN }} {%raw%}",
    "𝕏" * 2000,
]


@pytest.fixture
def pull(repo: Repo) -> Repo:
    repo.branch("pull")
    repo.add(ENTRY)
    return repo


def run(
    repo: Repo, folder: Path, payload: Any, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, str, str, bool]:
    """(exit code, stdout, stderr, whether anything changed)."""
    event = folder / "event.json"
    event.write_text(json.dumps(payload))
    policy = write_policy(folder)
    before = state(repo)
    code = main(["pr", "gate", "--event", str(event), "--repo", str(repo.root), "--policy", str(policy), *more])
    out, err = capsys.readouterr()
    return code, out, err, state(repo) != before


def state(repo: Repo) -> tuple[Any, ...]:
    # git status itself refreshes the index: not a change
    found = [path for path in repo.root.rglob("*") if path.name not in ("index", ".git")]
    files = sorted((str(path.relative_to(repo.root)), path.lstat().st_mtime_ns) for path in found)
    return repo.git("status", "--porcelain"), repo.git("rev-parse", "HEAD"), repo.git("for-each-ref"), files


@pytest.mark.parametrize("evil", ["\n".join(EVIL[index::4]) for index in range(4)], ids=len)
def test_hostile_strings_everywhere(
    pull: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, evil: str
) -> None:
    monkeypatch.chdir(tmp_path)
    payload = pull_event(pull)
    request = payload["pull_request"]
    labels = [{"name": one[:90]} for one in evil.split("\n")]
    request |= {"title": f"{TITLE} {evil}", "body": f"{BODY}{evil}", "labels": labels}
    request["head"] |= {"ref": evil}
    request["base"] |= {"ref": evil}
    request["user"] = payload["sender"] = {"login": evil}
    payload |= {"label": {"name": evil}, "action": evil, "extra": {evil: [evil] * 50}}
    status, out, err, changed = run(pull, tmp_path, payload, capsys, "--no-preflight", "--github")
    assert status in (0, 1) and not changed
    assert not list(tmp_path.rglob("PWNED")) and not list(pull.root.rglob("PWNED"))
    inert(out)
    assert not re.search(r"^::(?!error |warning |notice )", err, re.MULTILINE)


def test_hostile_ids_are_refused(pull: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place, value in (("head", "--output=PWNED"), ("base", "HEAD;touch PWNED"), ("head", "main")):
        payload = pull_event(pull)
        payload["pull_request"][place]["sha"] = value
        status, out, err, changed = run(pull, tmp_path, payload, capsys)
        assert (status, out, changed) == (2, "", False) and "commit id" in err


def test_a_hostile_change(pull: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """File names, scripts, configs and entries of the change itself."""
    script(pull, f"#!/bin/sh\ntouch {pull.root}/PWNED\n$(touch PWNED)\nmkdir -p /workspace/`id`\n")
    script(pull, "x\n", "benchmarks/$(touch PWNED) `id` @team <b>.sh")
    script(pull, "touch PWNED\n", ".git-hooks/post-checkout")
    script(pull, "*.sh filter=evil diff=evil\n", ".gitattributes")
    pull.git("config", "filter.evil.smudge", f"touch {pull.root}/PWNED")
    pull.git("config", "diff.evil.textconv", f"touch {pull.root}/PWNED")
    pull.git("config", "diff.external", f"touch {pull.root}/PWNED")
    path = pull.root / "configs/nvidia-master.yaml"
    path.write_text(path.read_text().replace("acme/engine:1", "'<img src=x>@team `id` $(id):latest'", 1))
    pull.commit("hostile $(touch PWNED)")
    status, out, _, changed = run(pull, tmp_path, pull_event(pull), capsys)
    assert status == 1 and not changed and not list(pull.root.rglob("PWNED"))
    inert(out)
    assert "P10" in out and "P25" in out


def test_links_in_the_change_are_not_followed(pull: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mkdir -p /workspace/topsecret\n")
    file = pull.root / SCRIPT
    file.parent.mkdir(parents=True)
    file.symlink_to(secret)
    (pull.root / "configs/amd-master.yaml").unlink()
    (pull.root / "configs/amd-master.yaml").symlink_to(secret)
    pull.commit("links")
    _, out, _, changed = run(pull, tmp_path, pull_event(pull), capsys, "--json")
    assert "topsecret" not in out and not changed
    assert "P50" in {one["rule"] for one in json.loads(out)["not_proven"]}


def test_large_and_binary_files_are_named_not_read(
    pull: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (pull.root / "blob.bin").write_bytes(b"\0" * (3 * 1024 * 1024))
    script(pull, "\0\xff" * 1000)
    pull.commit("blobs")
    _, out, _, _ = run(pull, tmp_path, pull_event(pull), capsys, "--json")
    found = [(one["rule"], one["where"]["file"]) for one in json.loads(out)["not_proven"]]
    assert ("P50", "blob.bin") in found


def inert(markdown: str) -> None:
    """Nothing in a comment acts: outside of code spans no mention, reference, link, picture or HTML of others."""
    assert len(markdown) < 65_536 and "\u202e" not in markdown and "\0" not in markdown
    rest = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", markdown)
    rest = re.sub(r"<!-- ridgeline-gate -->|</?(?:details|summary|b|code)>|<br>", "", rest)
    rest = re.sub(rf"\]\(<https://github\.com/{REPOSITORY}/blob/[0-9a-f]{{40}}/[\w./%~-]*#L\d+>\)", "]", rest)  # ours
    assert "<" not in rest.replace("&lt;", "")
    assert not re.search(r"@[A-Za-z]", rest) and not re.search(r"(?<!\\)(?<!&)#\d", rest)
    assert not re.search(r"(?<!\\)\]\(", rest) and not re.search(r"https?://[A-Za-z]", rest)


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab `*_[]()<>&#@|!$~\\\n/:.h\u202e\ud800") | st.characters(), max_size=80))
def test_any_text_is_inert(text: str) -> None:
    inert(f"- {plain(text)}\n- {code(text)}\n")
    cells = f"| {plain(text, table=True)} | {code(text, table=True)} |"
    inert(cells)
    assert len(re.findall(r"(?:\\.|[^|\\])+", cells)) == 2  # a row is cut at every `|` that no backslash precedes
    assert not set('<>"\n') & set(markup(text)) and not re.search(r"@[A-Za-z]|https?://[A-Za-z]", markup(text))
    assert "\n" not in plain(text) + code(text)


def test_text_is_still_readable() -> None:
    assert plain("image `a_b` of `k` <x>") == "image `a_b` of `k` &lt;x&gt;"
    assert plain("an odd ` one") == "an odd ' one"
    assert code("a`b") == "``a`b``" and code("`") == "`` ` ``"
    assert plain("x" * 1000).endswith("…")
