"""Whole commands of `ridgeline changelog`: exit code, stdout and stderr as a user sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.publish.changelog.conftest import diverged, repo, templates  # noqa: F401  # fixtures
from tests.publish.changelog.repo import FILE, OURS, THEIRS, Repo
from tests.publish.changelog.texts import HISTORY, REPOSITORY, URL, entry

from ridgeline.cli.main import main
from ridgeline.publish.gate.policy import example

pytestmark = pytest.mark.integration  # starts processes or repositories for most of its tests

LINKS = ("--repository", REPOSITORY)
BOTH = HISTORY + b"\n" + THEIRS.encode() + b"\n" + entry("new", URL + "42").encode()


@pytest.fixture
def here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """The diverged repository, as the current directory."""
    found: Repo = request.getfixturevalue("diverged")
    monkeypatch.chdir(found.root)
    return found


class Shell:
    """Runs the command in this process; each answer is (exit code, stdout, stderr)."""

    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        self.capture = capture

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = main(["changelog", *arguments])
        out, err = self.capture.readouterr()
        return code, out.decode(), err.decode()


@pytest.fixture
def shell(capsysbinary: pytest.CaptureFixture[bytes]) -> Shell:
    return Shell(capsysbinary)


def test_validate_accepts(here: Repo, shell: Shell) -> None:
    answer = shell("validate", "--base", "main~1", "--head", "pull", "--pr", "42", *LINKS)
    assert answer == (0, f"{FILE}: 1 entry added, selecting 3 throughput jobs, 1 evaluation\n", "")


def test_validate_of_the_work_tree_names_every_problem(here: Repo, shell: Shell) -> None:
    text = here.log.read_bytes().replace(b"- new", b"- newe").replace(b"XXX", b"YYY")
    here.log.write_bytes(text + b"\n")
    assert shell("validate", "--base", "main~1", "--pr", "42", *LINKS) == (
        1,
        "",
        f"""\
error: 3 problems
{FILE}:14: `config-keys`: no config `newe`
  hint: did you mean `new`?
{FILE}:17: `pr-link`: `YYY` may not stand here
  hint: use `XXX`, `{URL}XXX` or `{URL}42`
{FILE}:18: the file ends with an empty line
  hint: end it with one newline
""",
    )


def test_validate_says_when_the_branch_is_behind(here: Repo, shell: Shell) -> None:
    code, out, err = shell("validate", "--base", "main", "--head", "pull", "--pr", "42", *LINKS)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: 3 problems\n{FILE}:14: history changed: was `    - other`, now `    - new`\n")
    assert err.endswith(
        f"{FILE}: the branch does not contain `main`, whose newer entries count as removed\n"
        "  hint: merge it first, e.g. `ridgeline changelog prepare-merge --main main`\n"
    )


def test_validate_without_a_number_judges_as_on_main(here: Repo, shell: Shell) -> None:
    code, _, err = shell("validate", "--base", "main~1", "--head", "pull", *LINKS)
    assert (code, err) == (1, f"error: {FILE}:17: `pr-link`: `XXX` may not stand here\n  hint: use `{URL}<number>`\n")
    assert shell("validate", "--base", "main~1", "--head", "main", *LINKS)[0] == 0


def test_validate_as_json_is_data_either_way(here: Repo, shell: Shell) -> None:
    code, out, err = shell("validate", "--base", "main~1", "--head", "pull", "--pr", "42", *LINKS, "--json")
    found: dict[str, Any] = json.loads(out)
    assert (code, err, found["ok"], found["throughput"], found["evals"]) == (0, "", True, 3, 1)
    assert [one["config-keys"] for one in found["additions"]] == [["new"]]
    code, out, err = shell("validate", "--base", "main~1", "--head", "pull", *LINKS, "--json")
    assert (code, err) == (1, "")
    assert json.loads(out) == {
        "ok": False,
        "problems": [
            {
                "file": FILE,
                "line": 17,
                "key": "pr-link",
                "message": "`XXX` may not stand here",
                "hint": f"use `{URL}<number>`",
            }
        ],
    }


def test_validate_refuses_a_link_correction_unless_asked_for(here: Repo, shell: Shell) -> None:
    here.switch("main")
    here.log.write_bytes(here.log.read_bytes().replace(b"pull/1\n", b"pull/9\n"))
    code, out, err = shell("validate", "--base", "main", *LINKS)
    assert (code, out) == (1, "")
    assert f"{FILE}:5: removed from the base (its line 5): `pr-link: {URL}1`" in err
    answer = shell("validate", "--base", "main", *LINKS, "--corrections")
    assert answer == (0, f"{FILE}: 1 link corrected, nothing selected\n", "")


def test_validate_of_nothing_is_a_no(here: Repo, shell: Shell) -> None:
    hint = "hint: add an entry at the end of the file"
    assert shell("validate", "--base", "HEAD", *LINKS) == (1, "", f"error: {FILE}: no entry was added\n  {hint}\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--base", "nowhere"], "`nowhere` is no commit of this repository\n  hint: fetch it, or check the name\n"),
        (["--base", "--upload-pack=x"], "`--upload-pack=x` is no commit of this repository\n"),
        (["--base", "main", "--file", "../x"], "`../x` is not a file below "),
        (
            ["--base", "main", "--head", "main", "--file", "no.yaml"],
            "has no file `no.yaml`\n",
        ),
        (["--base", "main", "--repo", "no/where"], "`no/where` is not a directory\n"),
        (["--base", "main~1", "--config-files", "no.yaml"], "cannot read `no.yaml`: No such file or directory\n"),
        (["--base", "main", "--pr", "0"], "`0` for --pr should be"),
        ([], "Missing option '--base'"),
    ],
)
def test_unusable_input_is_exit_code_2(here: Repo, shell: Shell, arguments: list[str], error: str) -> None:
    code, out, err = shell("validate", *arguments, *LINKS)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert error in err


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("git@github.com:acme/other.git", "acme/other"),
        ("https://github.com/acme/other", "acme/other"),
        ("ssh://git@example.org/acme/other.git/", "acme/other"),
        ("/some/where/else", "SemiAnalysisAI/InferenceX"),
    ],
)
def test_links_point_to_the_repository_one_is_in(
    here: Repo, shell: Shell, monkeypatch: pytest.MonkeyPatch, address: str, name: str
) -> None:
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    here.git("remote", "add", "origin", address)
    code, out, _ = shell("canonicalize", "--pr", "42", "--base", "main", "--stdout")
    assert code == 0 and f"https://github.com/{name}/pull/42\n" in out
    policy = example().decode().replace("SemiAnalysisAI/InferenceX\n", "acme/policy\n")
    (here.root / "ridgeline-gate.yaml").write_text(policy)  # what the repository says of itself comes first
    assert (
        "https://github.com/acme/policy/pull/42\n"
        in shell("canonicalize", "--pr", "42", "--base", "main", "--stdout")[1]
    )
    assert (
        "github.com/given/one/"
        in shell("canonicalize", "--pr", "42", "--base", "main", "--stdout", "--repository", "given/one")[1]
    )


def test_places_are_those_of_the_repositorys_policy(here: Repo, shell: Shell) -> None:
    (here.root / "bench").mkdir()
    here.git("mv", "configs", "bench/configs")
    here.git("mv", FILE, "bench/log.yaml")
    policy = example().decode().replace("configs/", "bench/configs/").replace(FILE, "bench/log.yaml")
    (here.root / "ridgeline-gate.yaml").write_text(policy.replace("SemiAnalysisAI/InferenceX\n", f"{REPOSITORY}\n"))
    here.commit("moved")
    log = here.root / "bench/log.yaml"
    log.write_bytes(log.read_bytes() + b"\n" + entry("other").encode())
    assert shell("validate", "--base", "HEAD", "--pr", "42")[:2] == (
        0,
        "bench/log.yaml: 1 entry added, selecting 3 throughput jobs, 1 evaluation\n",
    )


def test_a_broken_base_is_exit_code_2_and_says_so(here: Repo, shell: Shell) -> None:
    here.switch("main")
    here.log.write_bytes(HISTORY + b"\n" + entry("new", "XXX", "owner: me").encode())
    here.commit("broken")
    code, out, err = shell("validate", "--base", "main", *LINKS)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {FILE} (base):18: `owner`: entry 3: unknown field `owner`")
    assert err.endswith("hint: the base revision breaks the contract itself; repair it first\n")


def test_canonicalize_writes_links_once(here: Repo, shell: Shell) -> None:
    arguments = ("canonicalize", "--pr", "42", "--base", "main", *LINKS)
    before = here.log.read_bytes()
    wanted = before.replace(b"XXX", f"{URL}42".encode())
    assert shell(*arguments, "--stdout") == (0, wanted.decode(), "")
    assert here.log.read_bytes() == before
    assert shell(*arguments) == (0, f"{FILE}: 1 link written\n", "")
    assert shell(*arguments) == (0, f"{FILE}: 0 links written\n", "")
    assert here.log.read_bytes() == wanted


def test_resolve_writes_into_ours_like_a_merge_driver(here: Repo, shell: Shell) -> None:
    base, ours, theirs = (here.root / name for name in ("O", "A", "B"))
    sides = {base: HISTORY, ours: HISTORY + b"\n" + OURS.encode(), theirs: HISTORY + b"\n" + THEIRS.encode()}
    for main_side in ("auto", "theirs"):
        for path, data in sides.items():
            path.write_bytes(data)
        assert shell("resolve", "O", "A", "B", "--pr", "42", "--main", main_side, *LINKS) == (0, "", "")
        assert ours.read_bytes() == BOTH
    ours.write_bytes(sides[theirs])
    theirs.write_bytes(sides[ours])
    assert shell("resolve", "O", "A", "B", "--pr", "42", "--stdout", *LINKS) == (0, BOTH.decode(), "")
    ours.write_bytes(HISTORY)
    code, out, err = shell("resolve", "O", "A", "B", "--pr", "42", "--main", "theirs", *LINKS)
    assert (code, out, err) == (
        1,
        "",
        f"error: {FILE}: this side adds and corrects nothing: there is nothing to carry over\n",
    )
    assert ours.read_bytes() == HISTORY


def test_select_for_people(here: Repo, shell: Shell) -> None:
    assert shell("select", "--base", "main~1", "--head", "pull", *LINKS) == (
        0,
        """\
1 entry added, selecting 3 throughput jobs, 1 evaluation

Throughput
BUCKET  BENCHMARK     RUNNER  TOPOLOGY  CONCURRENCY  JOBS
8k1k    new fp8 vllm  h1      TP4       8 16 32      3

Evaluations
BUCKET  BENCHMARK     RUNNER  TOPOLOGY  CONCURRENCY  JOBS
8k1k    new fp8 vllm  h1      TP4       32           1
""",
        "",
    )


def test_select_for_machines(here: Repo, shell: Shell) -> None:
    flags = ("--trim-conc", "--all-evals", "--format", "inferencex")
    code, out, err = shell("select", "--base", "main~1", "--head", "pull", *flags, *LINKS)
    found = json.loads(out)
    assert (code, err, out.count("\n"), ": " in out) == (0, "", 1, False)
    assert [row["conc"] for row in found["single_node"]["8k1k"]] == [8]
    assert [row["conc"] for row in found["evals"]] == [8, 16, 32]
    assert list(found)[-1] == "changelog_metadata"
    assert (found["changelog_metadata"]["base_ref"], found["changelog_metadata"]["head_ref"]) == ("main~1", "pull")
    assert shell("select", "--base", "main~1", "--head", "pull", *flags[:2], "--json", *LINKS) == (0, out, "")


def test_select_warns_when_a_merge_would_be_refused(here: Repo, shell: Shell) -> None:
    here.log.write_bytes(HISTORY + OURS.encode())  # no separator
    code, out, err = shell("select", "--base", "main~1", *LINKS)
    assert (code, out.splitlines()[0]) == (0, "1 entry added, selecting 3 throughput jobs, 1 evaluation")
    assert err.startswith(f"warning: `ridgeline changelog validate` refuses this change: {FILE}:12: ")


def test_select_of_added_points_reads_the_configs_of_both_revisions(here: Repo, shell: Shell) -> None:
    here.switch("main")
    master = here.root / "configs/nvidia-master.yaml"
    master.write_text(master.read_text().replace("[8, 16, 32]", "[8, 16, 32, 64]", 1))
    here.log.write_bytes(here.log.read_bytes() + b"\n" + entry("new", "XXX", "append-only: true").encode())
    code, out, _ = shell("select", "--base", "main", "--json", *LINKS)
    assert (code, [row["conc"] for row in json.loads(out)["single_node"]["8k1k"]]) == (0, [64])
    master.write_text(master.read_text().replace("engine:1", "engine:2"))
    code, out, err = shell("select", "--base", "main", *LINKS)
    assert (code, out) == (1, "")
    assert "config `other` is not selected but changed" in err


def test_installing_the_driver_says_what_it_wrote(here: Repo, shell: Shell) -> None:
    assert shell("install-merge-driver", *LINKS) == (
        0,
        "git config: merge.ridgeline-changelog.name set\n"
        "git config: merge.ridgeline-changelog.driver set\n"
        f".gitattributes: added `/{FILE} merge=ridgeline-changelog`\n"
        "next: commit .gitattributes; every clone runs this once\n",
        "",
    )
    assert shell("install-merge-driver", *LINKS) == (0, "already installed\n", "")


def test_prepare_merge_twice(here: Repo, shell: Shell) -> None:
    arguments = ("prepare-merge", "--pr", "42", "--main", "main", *LINKS)
    main_commit = here.git("rev-parse", "--short=12", "main").strip()
    assert shell(*arguments) == (
        0,
        f"merged main ({main_commit})\nresolved the conflict in {FILE}\nwrote {FILE}\n"
        f"{FILE}: 1 entry added\nnext: `git commit`, then push\n",
        "",
    )
    assert shell(*arguments, "--commit")[1].splitlines()[0] == "committed the merge"
    done = f"nothing to do: already prepared\n{FILE}: 1 entry added\nnext: push\n"
    assert shell(*arguments, "--commit") == shell(*arguments) == (0, done, "")
    assert here.log.read_bytes() == BOTH
    assert shell("validate", "--base", "main", "--head", "HEAD", "--pr", "42", *LINKS)[0] == 0


def test_prepare_merge_checks_the_keys_in_what_was_merged(here: Repo, shell: Shell) -> None:
    here.switch("main")
    master = here.root / "configs/nvidia-master.yaml"
    master.write_text(master.read_text().replace("new:", "newer:", 1))
    here.commit("rename")
    here.switch("pull")
    code, out, err = shell("prepare-merge", "--pr", "42", "--main", "main", *LINKS)
    assert (code, out) == (1, "")
    assert err == f"error: {FILE}:20: `config-keys`: no config `new`\n  hint: did you mean `newer`?\n"


def test_no_master_config_at_all_is_named(here: Repo, shell: Shell) -> None:
    for name in ("amd-master.yaml", "nvidia-master.yaml"):
        (here.root / "configs" / name).unlink()
    code, _, err = shell("validate", "--base", "main~1", "--pr", "42", *LINKS)
    assert code == 2
    assert "none of configs/amd-master.yaml and configs/nvidia-master.yaml is there" in err


def test_help_without_arguments(shell: Shell) -> None:
    code, out, err = shell()
    assert (code, out) == (2, "")
    assert err.startswith("Usage: ridgeline changelog")
    assert all(verb in err for verb in ("validate", "canonicalize", "resolve", "select", "prepare-merge"))
