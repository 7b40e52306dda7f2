"""The whole way in a real repository: the merge driver in real conflicts, and preparing a merge twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.publish.changelog.repo import FILE, Repo
from tests.publish.changelog.texts import HISTORY, REPOSITORY, URL, entry

from ridgeline.core.errors import AnswerIsNo, InputError
from ridgeline.publish.changelog.contract import Change, strict
from ridgeline.publish.changelog.driver import ATTRIBUTES, NAME, install
from ridgeline.publish.changelog.links import Links
from ridgeline.publish.changelog.prepare import Prepared, prepare
from ridgeline.publish.changelog.refusal import ChangelogRefused
from ridgeline.publish.changelog.repository import Repository

pytestmark = pytest.mark.integration  # starts processes or repositories for most of its tests

OURS, THEIRS = entry("new"), entry("other", URL + "41")
PULL = Links.of(42, REPOSITORY)
BOTH = HISTORY + b"\n" + THEIRS.encode() + b"\n" + entry("new", URL + "42").encode()


def prepared(repo: Repo, *, commit: bool = False, check: Callable[[Change], None] = lambda change: None) -> Prepared:
    return prepare(Repository.at(repo.root), "main", PULL, FILE, check, commit=commit)


def installed(repo: Repo) -> None:
    install(Repository.at(repo.root), FILE, sys.executable, REPOSITORY)


def test_without_the_driver_git_conflicts(diverged: Repo) -> None:
    diverged.git("merge", "main", code=1)
    assert b"<<<<<<<" in diverged.log.read_bytes()


def test_the_driver_resolves_a_real_merge(diverged: Repo) -> None:
    installed(diverged)
    diverged.git("merge", "-q", "--no-edit", "main")
    merged = diverged.log.read_bytes()
    assert merged == HISTORY + b"\n" + THEIRS.encode() + b"\n" + OURS.encode()
    main = diverged.git("show", f"main:{FILE}").encode()
    assert len(strict(main, merged, Links.unnumbered(REPOSITORY)).additions) == 1


@pytest.mark.integration  # one more start of the driver: kept out of the quick suite
def test_the_driver_knows_the_number_from_the_environment(diverged: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(diverged)
    monkeypatch.setenv("RIDGELINE_PR", "42")
    diverged.git("merge", "-q", "--no-edit", "main")
    assert diverged.log.read_bytes() == BOTH


def test_the_driver_keeps_main_first_in_a_rebase_even_with_canonical_links(repo: Repo) -> None:
    repo.branch("pull")
    repo.add(entry("new", URL + "42"))
    repo.switch("main")
    repo.add(THEIRS)
    repo.switch("pull")
    installed(repo)
    repo.git("rebase", "-q", "main")
    assert repo.log.read_bytes() == BOTH


def test_the_driver_leaves_a_conflict_that_it_may_not_decide(diverged: Repo) -> None:
    text = diverged.log.read_bytes()
    diverged.log.write_bytes(text.replace(b"- note", b"- edited", 1))
    diverged.commit("edit history")
    installed(diverged)
    done = subprocess.run(["git", "merge", "main"], cwd=diverged.root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"ridgeline: {FILE} needs a person" in done.stderr
    assert f"{FILE}:4: history changed" in done.stderr
    left = diverged.log.read_bytes()
    assert left.count(b"<<<<<<< ours") == left.count(b">>>>>>> theirs") == 1
    assert diverged.git("diff", "--name-only", "--diff-filter=U").split() == [FILE]


def test_installing_twice_changes_nothing_the_second_time(repo: Repo) -> None:
    (repo.root / ATTRIBUTES).write_bytes(b"*.png binary")
    first = install(Repository.at(repo.root), FILE, sys.executable)
    state = (repo.root / ATTRIBUTES).read_bytes(), (repo.root / ".git/config").read_bytes()
    assert state[0] == f"*.png binary\n/{FILE} merge={NAME}\n".encode()
    assert (first.attributes, len(first.config)) == (f"/{FILE} merge={NAME}", 2)
    assert install(Repository.at(repo.root), FILE, sys.executable) == (None, ())
    assert state == ((repo.root / ATTRIBUTES).read_bytes(), (repo.root / ".git/config").read_bytes())


def test_another_merge_driver_is_not_overwritten(repo: Repo) -> None:
    (repo.root / ATTRIBUTES).write_text("*.yaml merge=union\n")
    before = (repo.root / ".git/config").read_bytes()
    with pytest.raises(InputError, match="already has `merge=union`"):
        installed(repo)
    assert (repo.root / ATTRIBUTES).read_text() == "*.yaml merge=union\n"
    assert (repo.root / ".git/config").read_bytes() == before


@pytest.mark.parametrize("name", ["../x.yaml", "a b.yaml", "*.yaml", "/etc/passwd", "."])
def test_names_that_cannot_be_an_attribute_are_refused(repo: Repo, name: str) -> None:
    with pytest.raises(InputError):
        install(Repository.at(repo.root), name, sys.executable)
    assert not (repo.root / ATTRIBUTES).exists()


def test_preparing_merges_resolves_and_links_and_twice_is_once(diverged: Repo) -> None:
    first = prepared(diverged, commit=True)
    assert [step.split(" (")[0] for step in first.steps] == [
        "merged main",
        f"resolved the conflict in {FILE}",
        f"wrote {FILE}",
        "committed the merge",
    ]
    assert diverged.log.read_bytes() == BOTH
    assert diverged.git("status", "--porcelain") == ""
    assert len(diverged.git("rev-list", "--parents", "-1", "HEAD").split()) == 3
    head = diverged.git("rev-parse", "HEAD")
    assert prepared(diverged, commit=True).steps == ()
    assert diverged.git("rev-parse", "HEAD") == head


def test_preparing_without_committing_can_be_repeated_too(diverged: Repo) -> None:
    assert len(prepared(diverged).steps) == 3
    assert prepared(diverged).steps == ()
    assert diverged.log.read_bytes() == BOTH
    assert prepared(diverged, commit=True).steps == ("committed the merge",)


def test_preparing_continues_a_merge_that_a_person_began(diverged: Repo) -> None:
    diverged.git("merge", "main", code=1)
    assert prepared(diverged).steps == (f"resolved the conflict in {FILE}", f"wrote {FILE}")
    assert diverged.log.read_bytes() == BOTH


@pytest.mark.integration  # one more start of the driver: kept out of the quick suite
def test_preparing_with_the_driver_installed_gives_the_same_bytes(diverged: Repo) -> None:
    installed(diverged)
    prepared(diverged)
    assert diverged.log.read_bytes() == BOTH


def test_an_up_to_date_branch_only_gets_its_links(repo: Repo) -> None:
    repo.branch("pull")
    repo.add(OURS)
    assert prepared(repo, commit=True).steps == (f"wrote {FILE}", "committed the links")
    assert "[skip-sweep]" in repo.git("log", "-1", "--format=%s")
    assert prepared(repo, commit=True).steps == ()


def test_a_conflict_elsewhere_takes_the_merge_back(diverged: Repo) -> None:
    other = diverged.root / "configs/runners.yaml"
    other.write_text("labels:\n  h1: [h1-b]\n")
    head = diverged.commit("mine")
    diverged.switch("main")
    other.write_text("labels:\n  h1: [h1-c]\n")
    diverged.commit("yours")
    diverged.switch("pull")
    with pytest.raises(AnswerIsNo, match=r"outside the changelog: `configs/runners.yaml`"):
        prepared(diverged)
    assert diverged.git("status", "--porcelain") == ""
    assert diverged.git("rev-parse", "HEAD").strip() == head


def test_a_refusal_leaves_the_work_tree_as_it_was(diverged: Repo) -> None:
    diverged.log.write_bytes(diverged.log.read_bytes().replace(b"XXX", f"{URL}7".encode()))
    diverged.commit("wrong link")
    before = diverged.log.read_bytes()
    with pytest.raises(ChangelogRefused, match="may not stand here"):
        prepared(diverged)
    assert diverged.log.read_bytes() == before
    assert diverged.git("status", "--porcelain") == ""


def test_a_branch_that_contributes_nothing_is_refused(repo: Repo) -> None:
    repo.branch("pull")
    (repo.root / "note").write_text("x")
    repo.commit("no entry")
    with pytest.raises(ChangelogRefused, match="adds and corrects nothing"):
        prepared(repo)


def test_a_contribution_that_main_has_already_is_refused(diverged: Repo) -> None:
    diverged.switch("main")
    diverged.add(entry("new", URL + "40"))
    diverged.switch("pull")
    with pytest.raises(ChangelogRefused, match="already stands on main"):
        prepared(diverged)
    assert diverged.git("status", "--porcelain") == ""


def test_uncommitted_work_is_not_touched(diverged: Repo) -> None:
    (diverged.root / "configs/runners.yaml").write_text("labels: {}\n")
    with pytest.raises(InputError, match="uncommitted changes in `configs/runners"):
        prepared(diverged)


def test_a_failing_check_stops_before_the_commit_and_can_be_resumed(diverged: Repo) -> None:
    def refuse(change: Change) -> None:
        raise ChangelogRefused([])

    with pytest.raises(ChangelogRefused):
        prepared(diverged, commit=True, check=refuse)
    assert diverged.git("rev-parse", "--verify", "MERGE_HEAD")
    assert prepared(diverged, commit=True).steps == ("committed the merge",)


def test_a_merged_file_broken_by_hand_is_refused_with_a_way_back(diverged: Repo) -> None:
    prepared(diverged)
    diverged.log.write_bytes(BOTH.replace(b"- note", b"- edited", 1))
    with pytest.raises(ChangelogRefused, match="git checkout --merge"):
        prepared(diverged)
    diverged.git("checkout", "--merge", "--", FILE)
    prepared(diverged)
    assert diverged.log.read_bytes() == BOTH


@pytest.mark.parametrize("ref", ["--help", "-h", "--output=owned", "", "nowhere", "main:perf-changelog.yaml", "a\0b"])
def test_hostile_refs_are_refused_as_refs(repo: Repo, ref: str) -> None:
    with pytest.raises(InputError):
        Repository.at(repo.root).commit(ref)
    assert not (repo.root / "owned").exists()


def test_a_link_in_place_of_the_file_is_not_followed(repo: Repo) -> None:
    repo.log.unlink()
    repo.log.symlink_to("/etc/hostname")
    commit = repo.commit("link")
    assert Repository.at(repo.root).find(commit, FILE) is None
