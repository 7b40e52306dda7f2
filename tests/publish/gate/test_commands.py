"""Commands, the doctor and sign-off over recorded answers and a server on loopback."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.publish.changelog.repo import Repo
from tests.publish.changelog.texts import REPOSITORY
from tests.publish.forge.server import Hub
from tests.publish.gate.kit import ENTRY, Answers, comment_event, comment_json, policy, pull_event, pull_json, run_json
from tests.publish.gate.kit import write_policy as policy_file

from ridgeline.cli.main import main
from ridgeline.core.errors import AnswerIsNo
from ridgeline.publish.changelog.repository import Repository
from ridgeline.publish.forge.event import Comment, event_of
from ridgeline.publish.forge.github import GitHub
from ridgeline.publish.forge.transport import Recorded
from ridgeline.publish.gate import doctor, fork, signoff
from ridgeline.publish.gate.commands import Reply, handle, reply_text
from ridgeline.publish.gate.comment import sign_off_comment
from ridgeline.publish.reuse import merge

pytestmark = pytest.mark.integration  # takes seconds of processor time

HEAD, OLD = "b" * 40, "d" * 40
TODAY = datetime.date(2026, 8, 21)
NOW = datetime.datetime(2026, 8, 21, tzinfo=datetime.UTC)
REUSE, STAGE = "/reuse-sweep-run", "/stage-results"


class _Fake:
    """Stands for a repository where only two commit ids are asked."""

    def git(self, *arguments: str) -> str:
        return {"HEAD": HEAD, "main": "a" * 40}[arguments[1]]


def pull(**changes: Any) -> dict[str, Any]:
    return pull_json(_Fake(), **changes)  # type: ignore[arg-type]


def answers(**changes: Any) -> Answers:
    return Answers(pull(**changes), commits=[OLD, HEAD])


def github(found: Answers, folder: Path) -> GitHub:
    return GitHub(Recorded(found.record(folder)), REPOSITORY)


def asked(found: Answers, folder: Path, body: str, **changes: Any) -> Reply:
    return handle(event_of(comment_event(body, **changes)), github(found, folder), policy(), TODAY)


def with_run(id: int = 500, sha: str = OLD, found: Answers | None = None, **changes: Any) -> Answers:
    found = found or answers()
    found.add_run(run_json(id, sha, **changes))
    return found


# Reuse


@pytest.mark.parametrize(
    "body", [REUSE, f"looks good\n\n  {REUSE}  \r\nthanks", f"{REUSE} 500", f"{REUSE} 1\n{REUSE} 500"]
)
def test_reuse_is_accepted_and_starts_nothing(tmp_path: Path, body: str) -> None:
    reply = asked(with_run(), tmp_path, body)
    assert (reply.command, reply.accepted, reply.run, reply.attempt, reply.dispatch) == ("reuse", True, 500, 1, None)
    assert "run 500" in reply_text(reply, policy())


@pytest.mark.parametrize(
    "body", ["please /reuse-sweep-run", "/reuse-sweep-runs", f"{REUSE} abc", f"{REUSE} 0", f"> {REUSE}", ""]
)
def test_other_comments_ask_nothing(tmp_path: Path, body: str) -> None:
    assert asked(with_run(), tmp_path, body).command is None


def test_an_edited_comment_commands_nothing(tmp_path: Path) -> None:
    payload = comment_event(REUSE) | {"action": "edited"}
    assert handle(event_of(payload), github(with_run(), tmp_path), policy(), TODAY).command is None


@pytest.mark.parametrize("association", ["CONTRIBUTOR", "NONE", "FIRST_TIMER", ""])
def test_strangers_may_not(tmp_path: Path, association: str) -> None:
    reply = asked(with_run(), tmp_path, REUSE, association=association)
    assert not reply.accepted and "OWNER" in reply.why[0]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([], "no full-sweep label"),
        (["sweep-enabled"], "no full-sweep label"),
        (["full-sweep-enabled", "evals-only"], "evals-only"),
        (["full-sweep-enabled", "agentx-fast"], "agentx-fast"),
    ],
)
def test_labels_that_forbid_reuse(tmp_path: Path, labels: list[str], words: str) -> None:
    found = with_run(found=answers(labels=[{"name": name} for name in labels]))
    reply = asked(found, tmp_path, REUSE)
    assert not reply.accepted and any(words in why for why in reply.why)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"conclusion": "failure"}, "ended as `failure`"),
        ({"status": "in_progress", "conclusion": None}, "wait"),
        ({"event": "push"}, "`push`"),
        ({"path": ".github/workflows/other.yml"}, "other.yml"),
        ({"sha": "e" * 40}, "no longer part"),
    ],
)
def test_runs_that_are_not_fit(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    reply = asked(with_run(**changes), tmp_path, REUSE)
    assert not reply.accepted and words in reply.why[0] and "run 500" in reply.why[0]


def test_a_pinned_run_may_have_failed_in_parts(tmp_path: Path) -> None:
    assert asked(with_run(conclusion="failure"), tmp_path, f"{REUSE} 500").accepted
    assert asked(with_run(conclusion="cancelled"), tmp_path, f"{REUSE} 500").accepted
    assert not asked(with_run(conclusion="timed_out"), tmp_path, f"{REUSE} 500").accepted
    assert "does not exist" in asked(with_run(), tmp_path, f"{REUSE} 77").why[0]


def test_the_newest_fit_run_wins(tmp_path: Path) -> None:
    found = with_run(501, HEAD, with_run(500))
    with_run(502, HEAD, found, conclusion="failure")
    assert asked(found, tmp_path, REUSE).run == 501


def test_expired_artifacts(tmp_path: Path) -> None:
    found = answers()
    found.add_run(run_json(500, OLD), expired=True, expires_at="2026-08-01T00:00:00Z")
    reply = asked(found, tmp_path, REUSE)
    assert not reply.accepted and "expired (2026-08-01" in reply.why[0]


# Staging


def test_staging_dispatches_exact_values(tmp_path: Path) -> None:
    reply = asked(with_run(), tmp_path, f" {STAGE} 500 \n")
    assert reply.accepted and reply.dispatch == {
        "repository": REPOSITORY,
        "pr-number": 77,
        "run-id": 500,
        "run-attempt": 1,
        "date": "2026-08-21",
        "requester": "boss",
        "comment-id": 900,
    }


def test_staging_wants_the_whole_comment(tmp_path: Path) -> None:
    reply = asked(with_run(), tmp_path, f"{STAGE} 500 please")
    assert reply.command == "stage" and not reply.accepted and "whole comment" in reply.why[0]
    assert asked(with_run(), tmp_path, f"please {STAGE}").command is None


def test_staging_needs_a_writer(tmp_path: Path) -> None:
    reply = asked(with_run(), tmp_path, STAGE, author="guest", association="OWNER")
    assert not reply.accepted and "`none`" in reply.why[0]


def test_staging_needs_the_label_then_and_now(tmp_path: Path) -> None:
    found = with_run()
    found.by_path["issues/77/events"] += [
        {"event": "unlabeled", "label": {"name": "full-sweep-fail-fast"}, "created_at": "2026-08-20T07:30:00Z"},
        {"event": "labeled", "label": {"name": "full-sweep-fail-fast"}, "created_at": "2026-08-20T09:00:00Z"},
    ]
    reply = asked(found, tmp_path, STAGE)
    assert not reply.accepted and "no full-sweep label was on" in reply.why[0]
    gone = with_run(found=answers(labels=[]))
    assert "no full-sweep label" in asked(gone, tmp_path / "b", STAGE).why[0]


def test_staging_takes_fast_runs_and_failed_ones(tmp_path: Path) -> None:
    labels = [{"name": "full-sweep-enabled"}, {"name": "agentx-fast"}]
    assert asked(with_run(found=answers(labels=labels), conclusion="failure"), tmp_path, STAGE).accepted


def test_staging_needs_the_selection(tmp_path: Path) -> None:
    found = answers()
    found.add_run(run_json(500, OLD), "results_bmk")
    assert "changelog-metadata" in asked(found, tmp_path, STAGE).why[0]


def test_a_pinned_run_of_a_forgotten_commit_may_be_staged(tmp_path: Path) -> None:
    lost = with_run(sha="e" * 40, pull_requests=[{"number": 77}])
    assert asked(lost, tmp_path, f"{STAGE} 500").accepted
    assert not asked(lost, tmp_path, STAGE).accepted


# At merge


def test_a_push_uses_the_authorised_run(tmp_path: Path) -> None:
    found = with_run(found=answers(merged=True, state="closed"))
    found.comment(comment_json(REUSE))
    found.by_path[f"commits/{HEAD}/pulls"] = [found.by_path["pulls/77"]]
    done = merge.on_push(HEAD, github(found, tmp_path), policy())
    assert done.as_json() == {
        "enabled": True,
        "skip-pr-sweep": False,
        "source-run-id": 500,
        "source-run-attempt": 1,
        "source-run-url": f"https://github.com/{REPOSITORY}/actions/runs/500",
        "pr-number": 77,
        "head-sha": OLD,
        "reason": "authorised by comment 900",
    }


def test_a_push_without_authorisation_sweeps(tmp_path: Path) -> None:
    found = with_run(found=answers(merged=True))
    found.by_path[f"commits/{HEAD}/pulls"] = [found.by_path["pulls/77"]]
    assert not merge.on_push(HEAD, github(found, tmp_path), policy()).enabled
    assert not merge.on_push("f" * 40, github(found, tmp_path), policy()).enabled


def test_an_authorisation_that_cannot_be_honoured_fails(tmp_path: Path) -> None:
    found = with_run(found=answers(merged=False, labels=[{"name": "full-sweep-enabled"}, {"name": "evals-only"}]))
    found.comment(comment_json(REUSE))
    found.by_path[f"commits/{HEAD}/pulls"] = [found.by_path["pulls/77"]]
    with pytest.raises(AnswerIsNo, match=r"evals-only.*not merged"):
        merge.on_push(HEAD, github(found, tmp_path), policy())


def test_a_commit_of_two_pull_requests_fails_when_one_is_authorised(tmp_path: Path) -> None:
    found = with_run(found=answers(merged=True))
    other = pull(number=78)
    found.by_path |= {"pulls/78": other, "issues/78/comments": []}
    found.by_path[f"commits/{HEAD}/pulls"] = [found.by_path["pulls/77"], other]
    assert not merge.on_push(HEAD, github(found, tmp_path), policy()).enabled
    found.comment(comment_json(REUSE))
    with pytest.raises(AnswerIsNo, match="several pull requests"):
        merge.on_push(HEAD, github(found, tmp_path), policy())


def test_the_newest_authorised_comment_counts(tmp_path: Path) -> None:
    found = with_run(501, HEAD, with_run(500))
    found.comment(
        comment_json(f"{REUSE} 501", id=901),
        comment_json(f"{REUSE} 500", id=902),
        comment_json(f"{REUSE} 501", id=903, association="NONE"),
    )
    found.by_path["pulls/77"] |= {"merged": True}
    found.by_path[f"commits/{HEAD}/pulls"] = [found.by_path["pulls/77"]]
    assert merge.on_push(HEAD, github(found, tmp_path), policy()).run == 500


@pytest.mark.parametrize(("action", "skip"), [("synchronize", True), ("labeled", False), ("ready_for_review", False)])
def test_only_new_commits_may_leave_their_sweep_out(tmp_path: Path, action: str, skip: bool) -> None:
    found = answers()
    found.comment(comment_json(REUSE))
    request = event_of({"action": action, "pull_request": pull(), "repository": {"full_name": REPOSITORY}}).pull
    assert request is not None
    assert merge.on_pull_request(request, action, github(found, tmp_path), policy()).skip_sweep is skip


# Forks


def forked(**changes: Any) -> dict[str, Any]:
    head = {"ref": "b", "sha": HEAD, "repo": {"full_name": "guest/bench"}}
    labels = [{"name": "full-sweep-fail-fast"}, {"name": "agentx-fast"}]
    return pull(**({"head": head, "labels": labels} | changes))


def fork_event(**changes: Any) -> dict[str, Any]:
    event = {"action": "labeled", "label": {"name": "full-sweep-fail-fast"}, "pull_request": forked()}
    return event | {"repository": {"full_name": REPOSITORY}, "sender": {"login": "boss"}} | changes


def test_a_fork_is_swept_as_it_was_when_labelled() -> None:
    event = event_of(fork_event())
    assert event.pull is not None
    done = fork.dispatch(event, event.pull, "maintain", policy())
    assert done.inputs == {
        "pr-number": 77,
        "merge-sha": "c" * 40,
        "base-sha": "a" * 40,
        "head-sha": HEAD,
        "trim-conc": False,
        "all-evals": False,
        "evals-only": False,
        "fail-fast": True,
        "agentx-fast": True,
        "canary": False,
        "reusable": False,
    }


@pytest.mark.parametrize(
    ("now", "permission", "words"),
    [
        ({"head": {"ref": "b", "sha": "e" * 40, "repo": {"full_name": "guest/bench"}}}, "write", "head moved"),
        ({}, "read", "`read`"),
        ({"draft": True}, "write", "draft"),
        ({"state": "closed"}, "write", "not open"),
        ({"merge_commit_sha": None}, "write", "trial merge"),
        ({"labels": [{"name": "full-sweep-fail-fast"}, {"name": "sweep-enabled"}]}, "write", "exactly the one"),
        ({"head": {"ref": "b", "sha": HEAD, "repo": {"full_name": REPOSITORY}}}, "write", "not lie in a fork"),
    ],
)
def test_a_fork_that_must_not_be_swept(now: dict[str, Any], permission: str, words: str) -> None:
    event = event_of(fork_event())
    current = event_of(fork_event(pull_request=forked(**now))).pull
    assert current is not None
    done = fork.dispatch(event, current, permission, policy())
    assert done.inputs is None and any(words in why for why in done.why)


# The doctor


@pytest.mark.parametrize(("change", "said"), [({"merged": True}, "merged already"), ({"state": "closed"}, "is closed")])
def test_the_doctor_has_no_advice_for_what_is_over(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    (only,) = doctor.examine(77, github(answers(**change), tmp_path), policy(), NOW)
    assert said in only.said and doctor.verdict([only]) == (False, None)


def test_the_doctor_names_everything_and_the_next_step(tmp_path: Path) -> None:
    found = doctor.examine(77, github(answers(labels=[{"name": "sweep-enabled"}]), tmp_path), policy(), NOW)
    wrong = {one.about for one in found if one.well is False}
    assert wrong == {"labels", "source run", "authorisation", "sign-off"}
    assert doctor.verdict(found) == (False, "keep exactly one label, `full-sweep-fail-fast` for one")


def test_a_pull_request_that_is_ready(tmp_path: Path) -> None:
    found = with_run(sha=HEAD)
    found.comment(comment_json(REUSE), sign_off("**PASS**"))
    said = doctor.examine(77, github(found, tmp_path), policy(), NOW)
    assert doctor.verdict(said) == (True, None), said
    assert any(one.about == "changelog" and one.well is None for one in said)  # no checkout was given


def sign_off(verdict: str, head: str = HEAD, author: str = "github-actions[bot]") -> dict[str, Any]:
    return comment_json(f"<!-- ridgeline-sign-off sha={head} -->\n{verdict}", id=950, author=author, association="NONE")


@pytest.mark.parametrize(
    ("comment", "well"),
    [
        (sign_off("**PASS**"), True),
        (sign_off("PASS"), False),
        (sign_off("**FAIL**"), False),
        (sign_off("**PASS**", OLD), False),
        (sign_off("**PASS**", author="mallory"), False),
    ],
)
def test_a_sign_off_counts_for_one_commit_from_one_account(tmp_path: Path, comment: dict[str, Any], well: bool) -> None:
    found = with_run(sha=HEAD)
    found.comment(comment)
    said = doctor.examine(77, github(found, tmp_path), policy(), NOW)
    assert [one.well for one in said if one.about == "sign-off"] == [well]


def test_artifacts_that_expire_soon_and_missing_evaluations(tmp_path: Path) -> None:
    found = answers()
    found.add_run(run_json(500, HEAD), "results_bmk", expires_at="2026-08-22T00:00:00Z")
    said = {one.about: one for one in doctor.examine(77, github(found, tmp_path), policy(), NOW)}
    assert said["artifacts"].well is None and "2026-08-22" in said["artifacts"].said
    assert said["evaluations"].well is False and "all-evals" in (said["evaluations"].next or "")


def test_failed_checks(tmp_path: Path) -> None:
    found = with_run()
    found.by_path[f"commits/{HEAD}/check-runs"] = {
        "check_runs": [{"name": "lint", "status": "completed", "conclusion": "failure"}]
    }
    said = {one.about: one for one in doctor.examine(77, github(found, tmp_path), policy(), NOW)}
    assert said["checks"].well is False and "lint" in said["checks"].said
    assert "head has moved" in said["source run"].said


def test_the_changelog_is_looked_at_from_commits(diverged: Repo, tmp_path: Path) -> None:
    request = pull_json(diverged)
    found = Answers(request)
    hub, place = github(found, tmp_path), Repository.at(diverged.root)
    said = {one.about: one for one in doctor.examine(77, hub, policy(), NOW, place)}
    assert said["changelog"].well is False and "prepare-merge --pr 77" in (said["changelog"].next or "")


def test_gaps_of_a_sign_off_are_named(tmp_path: Path) -> None:
    from ridgeline.publish.gate.comment import sign_off_comment
    from ridgeline.publish.gate.signoff import Answer, SignOff, State

    rows = (
        Answer(2, "Evaluations", State.NO, "a | b"),
        Answer(3, "Recipe", State.HUMAN, "x"),
        Answer(4, "Reuse", State.YES, ""),
    )
    found = with_run()
    found.comment(comment_json(sign_off_comment(SignOff(HEAD, "boss", rows)), author="github-actions[bot]"))
    said = {one.about: one for one in doctor.examine(77, github(found, tmp_path), policy(), NOW)}["sign-off"]
    assert said.well is False and "2. Evaluations (no); 3. Recipe (human)" in said.said and "Reuse" not in said.said


# As commands


@pytest.fixture
def hub() -> Iterator[Hub]:
    one = Hub(page=100)
    stop = one.start()
    yield one
    stop()


def serve(hub: Hub, found: Answers) -> None:
    hub.answers = {f"repos/{REPOSITORY}/{path}": answer for path, answer in found.by_path.items()}


def verb(*arguments: object) -> int:
    return main(["pr", *map(str, arguments)])


def test_command_over_http_posts_and_dispatches(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    serve(hub, with_run())
    event = tmp_path / "event.json"
    event.write_text(json.dumps(comment_event(STAGE)))
    rules = policy_file(tmp_path)
    options = ["--policy", rules, "--api", hub.address, "--post", "--workflow", "stage.yml", "--json"]
    assert verb("command", "--event", event, *options) == 0
    assert json.loads(capsys.readouterr().out)["run"] == 500
    written = [(method, path, body) for method, path, _, body in hub.seen if method != "GET"]
    assert [path.rsplit("/", 1)[-1] for _, path, _ in written] == ["comments", "dispatches"]
    assert written[1][2]["inputs"]["run-id"] == "500"


def test_a_head_that_moves_while_a_command_is_judged(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = with_run()
    serve(hub, found)
    first = found.by_path["pulls/77"]
    moved = json.loads(json.dumps(first))
    moved["head"]["sha"] = "e" * 40
    hub.answers[f"repos/{REPOSITORY}/pulls/77"] = lambda call: first if call == 1 else moved
    event = tmp_path / "event.json"
    event.write_text(json.dumps(comment_event(REUSE)))
    assert verb("command", "--event", event, "--policy", policy_file(tmp_path), "--api", hub.address) == 1
    assert "head moved" in capsys.readouterr().out


def test_gate_over_http_keeps_one_comment(
    repo: Repo, hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.branch("pull")
    repo.add(ENTRY)
    payload = pull_event(repo)
    found = Answers(payload["pull_request"])
    found.add_run(run_json(500, payload["pull_request"]["head"]["sha"]))
    found.comment(comment_json(REUSE))
    serve(hub, found)
    event = tmp_path / "event.json"
    event.write_text(json.dumps(payload))
    options = ["--event", event, "--repo", repo.root, "--policy", policy_file(tmp_path), "--api", hub.address]
    assert verb("gate", *options, "--online", "--post", "--out", tmp_path / "out", "--json") == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["decision"]["sweep"] is False and "reuse is authorised" in verdict["decision"]["why"]
    assert {4: "yes", 1: "yes"}.items() <= {c["number"]: c["state"] for c in verdict["sign_off"]["checks"]}.items()
    posted = [body["body"] for method, _, _, body in hub.seen if method == "POST"]
    assert len(posted) == 1 and posted[0] == (tmp_path / "out/comment.md").read_text()
    assert json.loads((tmp_path / "out/verdict.json").read_text()) == verdict

    moved = json.loads(json.dumps(payload["pull_request"]))
    moved["head"]["sha"] = "e" * 40
    hub.answers[f"repos/{REPOSITORY}/pulls/77"] = moved
    assert verb("gate", *options, "--online") == 3
    assert "the head moved" in capsys.readouterr().err


def test_a_sign_off_stands_in_a_comment_a_review_or_an_address(
    repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.branch("pull")
    repo.add(ENTRY)
    found = Answers(pull_json(repo))
    phrase = policy().sign_off.phrase
    found.comment(comment_json(f"<!-- ridgeline-gate -->\n`{phrase}`", author="github-actions[bot]"))
    line = comment_json(f"{phrase}: fine", author="liner")
    found.by_path |= {"pulls/comments/3": line, "pulls/77/comments": [line]}
    event = tmp_path / "event.json"
    rules, facts = policy_file(tmp_path), found.record(tmp_path / "facts")
    options = ["--repo", repo.root, "--policy", rules, "--facts", facts, "--no-preflight", "--json"]

    def signer(*place: object) -> Any:
        assert verb("gate", *options, *place) == 0
        sign_off = json.loads(capsys.readouterr().out)["sign_off"]
        return sign_off and sign_off["signer"]

    event.write_text(json.dumps(pull_event(repo)))
    assert signer("--event", event) == "liner"
    newest = comment_json(phrase, author="reviewer") | {"submitted_at": "2099-01-01T00:00:00Z", "created_at": None}
    event.write_text(json.dumps(pull_event(repo, "submitted") | {"review": newest}))
    assert signer("--event", event) == "reviewer"
    assert signer("--comment", f"https://github.com/{REPOSITORY}/pull/77#discussion_r3") == "liner"
    event.write_text(json.dumps(pull_event(repo, draft=True)))
    assert signer("--event", event) is None  # a draft is not signed off
    assert verb("gate", *options, "--comment", f"https://github.com/{REPOSITORY}/pull/77#discussion_r4") == 2
    assert verb("gate", *options) == 2 and verb("gate", *options, "--event", event, "--comment", "x") == 2


def test_gate_tells_what_a_label_on_a_fork_starts(
    repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.branch("pull")
    repo.add(ENTRY)
    payload = pull_event(repo, "labeled") | {"label": {"name": "full-sweep-fail-fast"}, "sender": {"login": "boss"}}
    payload["pull_request"]["head"]["repo"] = {"full_name": "guest/bench"}
    folder = Answers(payload["pull_request"]).record(tmp_path / "facts")
    event = tmp_path / "event.json"
    event.write_text(json.dumps(payload))
    options = ["--event", event, "--repo", repo.root, "--policy", policy_file(tmp_path), "--facts", folder]
    assert verb("gate", *options, "--json") == 0
    verdict = json.loads(capsys.readouterr().out)
    assert not verdict["decision"]["sweep"] and verdict["fork_dispatch"]["inputs"]["merge-sha"] == "c" * 40


def test_doctor_as_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = answers().record(tmp_path)
    assert verb("doctor", 77, "--facts", folder, "--repository", REPOSITORY) == 1
    out = capsys.readouterr().out
    assert "next: " in out and "source run" in out
    assert verb("doctor", 78, "--facts", folder, "--repository", REPOSITORY) == 2
    assert verb("doctor", 77, "--facts", folder, "--repository", "../x") == 2


def test_a_quoted_verdict_or_marker_signs_nothing(tmp_path: Path) -> None:
    """What a signer or a change wrote may be quoted in the bot's own comments, in code spans even with stars."""
    said = [
        signoff.Answer(5, "q", signoff.State.NO, f"not explained: `**PASS**` ``**PASS**`` {signoff.marker(HEAD)}"),
        signoff.Answer(6, "q", signoff.State.NO, "**PASS**"),
    ]
    for signer in ("boss", "**PASS**"):
        failed = sign_off_comment(signoff.SignOff(HEAD, signer, tuple(said)))
        assert "**FAIL**" in failed and "**PASS**" not in failed
        for body in (failed, failed.replace("* *", "**"), f"quoted\n{signoff.marker(HEAD)}\n**PASS**"):
            comment = Comment(1, body, "github-actions[bot]", "NONE", "2026-08-20T10:00:00Z")
            assert signoff.status([comment], HEAD, "github-actions[bot]") == "failure"
    passed = sign_off_comment(signoff.SignOff(HEAD, "boss", ()))
    comment = Comment(1, passed, "github-actions[bot]", "NONE", "2026-08-20T10:00:00Z")
    assert signoff.status([comment], HEAD, "github-actions[bot]") == "success"
    assert signoff.status([comment], OLD, "github-actions[bot]") == "failure"


def test_whose_sign_off_is_judged() -> None:
    phrase = policy().sign_off.phrase

    def by(id: int, author: str, association: str, body: str = phrase) -> Comment:
        return Comment(id, body, author, association, f"2026-08-20T10:00:0{id}Z")

    first, second, stranger = by(1, "ann", "MEMBER"), by(2, "bob", "OWNER"), by(3, "mallory", "NONE")
    everybody = [first, stranger, second, by(4, "ann", "MEMBER", "words"), by(5, "x[bot]", "MEMBER")]
    assert signoff.asked(everybody, policy()) == second  # not the stranger, who came later
    assert signoff.asked(everybody, policy(), first) == first  # the one that was pointed at
    assert signoff.asked(everybody, policy(), stranger) == second
    assert signoff.asked([stranger], policy()) == stranger  # whose answer is that nothing is owned
    assert signoff.asked([], policy(), by(4, "ann", "MEMBER", "words")) is None
