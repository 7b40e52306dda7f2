"""The whole gate over real repositories: what each change makes it say, and at which line."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest
from tests.publish.changelog.repo import CONFIG, Repo
from tests.publish.changelog.texts import URL, entry
from tests.publish.gate.kit import BODY, ENTRY, SCRIPT, TITLE, policy, pull_event, script

from ridgeline.core.errors import InputError
from ridgeline.publish.changelog.repository import Repository
from ridgeline.publish.forge.event import event_of
from ridgeline.publish.gate.decision import Outcome
from ridgeline.publish.gate.judge import Surroundings, judge_pull, judge_push
from ridgeline.publish.gate.policy import Deprecated
from ridgeline.publish.gate.rule import RULES, Severity
from ridgeline.publish.gate.verdict import Gate, as_json
from ridgeline.spec.policy import default_policy

pytestmark = pytest.mark.integration  # starts processes or repositories for most of its tests

AROUND = Surroundings(today=datetime.date(2026, 8, 21), priority=default_policy())


def judged(repo: Repo, action: str = "synchronize", around: Surroundings = AROUND, **changes: Any) -> Gate:
    event = event_of(pull_event(repo, action, **changes))
    return judge_pull(event, Repository.at(repo.root), policy(), around)


def said(gate: Gate) -> list[tuple[str, str, int]]:
    """(rule, file, line) of every remark."""
    return [(one.rule, one.where.file if one.where else "", one.where.line if one.where else 0) for one in gate.remarks]


@pytest.fixture
def pull(repo: Repo) -> Repo:
    """Branch `pull` with one good entry."""
    repo.branch("pull")
    repo.add(ENTRY)
    return repo


def test_a_good_change_opens_the_gate_and_says_what_runs(pull: Repo) -> None:
    gate = judged(pull)
    assert gate.open and gate.remarks == () and gate.additions == 1
    assert gate.decision.runs and gate.decision.fail_fast and gate.decision.canary
    assert [one.cell.concurrency for one in gate.cells] == [8, 16, 32]
    assert gate.jobs is not None and gate.jobs.canary is not None
    assert gate.jobs.canary.row["conc"] == 8  # the lowest one; evaluated rows are no canaries
    assert gate.hours is not None and gate.hours.total > 0
    assert gate.priority == "1.500"  # base 1.0 and the framework's 0.5
    data = as_json(gate)
    assert data["ok"] is True and data["will_run"]["jobs"] == gate.jobs.total
    assert set(data["sign_off"]["checks"][0]) == {"number", "question", "state", "evidence"}
    assert len(data["sign_off"]["checks"]) == 13 and data["sign_off"]["head"] == gate.head


def test_a_config_without_an_entry(repo: Repo) -> None:
    repo.branch("pull")
    path = repo.root / "configs/amd-master.yaml"
    path.write_text(path.read_text().replace("fp8", "fp4", 1))
    repo.commit("precision")
    gate = judged(repo)
    assert said(gate) == [("P01", "configs/amd-master.yaml", 1)]
    assert not gate.open and gate.decision.check is Outcome.SKIPPED  # the changelog is not among the changed files


def test_an_inserted_entry_is_named_at_its_line(repo: Repo) -> None:
    repo.branch("pull")
    repo.log.write_bytes(ENTRY.encode() + b"\n" + repo.log.read_bytes())
    repo.commit("first")
    gate = judged(repo)
    # git may count the new lines from the first one that differs; the entries begin alike
    assert said(gate) == [("P02", "perf-changelog.yaml", 2)] and not gate.decision.runs
    assert gate.decision.check is Outcome.FAILURE


def test_a_branch_that_lacks_new_entries_is_told_to_merge(diverged: Repo) -> None:
    gate = judged(diverged)
    found = [one for one in gate.remarks if one.rule == "P02"]
    assert found and "merge the base" in (found[0].hint or "")


def test_a_link_that_the_merge_tool_does_not_know(repo: Repo) -> None:
    repo.branch("pull")
    repo.add(entry("new", "PENDING"))
    assert said(judged(repo)) == [("P04", "perf-changelog.yaml", 17)]


def test_an_entry_of_another_pull_request(repo: Repo) -> None:
    repo.branch("pull")
    repo.add(entry("new", URL + "78"))
    assert [rule for rule, *_ in said(judged(repo))] == ["P04"]


def test_an_unknown_key_and_a_tab(repo: Repo) -> None:
    repo.branch("pull")
    repo.add(entry("nwe"))
    assert [rule for rule, *_ in said(judged(repo))] == ["P05"]


def test_append_only_must_only_add(repo: Repo) -> None:
    repo.branch("pull")
    path = repo.root / "configs/nvidia-master.yaml"
    path.write_text(path.read_text().replace("acme/engine:1", "acme/engine:2.0", 1))
    repo.add(entry("new", "XXX", "append-only: true"))
    found = said(judged(repo))
    assert found and {rule for rule, *_ in found} == {"P03"}


def test_two_sweep_labels(pull: Repo) -> None:
    labels = [{"name": "sweep-enabled"}, {"name": "full-sweep-enabled"}]
    gate = judged(pull, labels=labels)
    assert [rule for rule, *_ in said(gate)] == ["P06"] and gate.decision.check is Outcome.FAILURE


def test_configs_that_do_not_load(pull: Repo) -> None:
    path = pull.root / "configs/amd-master.yaml"
    path.write_text(path.read_text().replace("precision: fp8", "precision: [", 1))
    pull.commit("broken")
    gate = judged(pull)
    assert {rule for rule, *_ in said(gate)} == {"P07"} and not gate.decision.runs


def test_a_changed_image_is_judged_at_its_line(pull: Repo) -> None:
    path = pull.root / "configs/nvidia-master.yaml"
    path.write_text(path.read_text().replace("acme/engine:1", "acme/engine:latest", 1))
    pull.commit("image")
    assert said(judged(pull)) == [("P11", "configs/nvidia-master.yaml", 2)]


def test_an_image_that_did_not_change_is_not_judged_again(pull: Repo) -> None:
    path = pull.root / "configs/nvidia-master.yaml"
    path.write_text(path.read_text().replace("conc-list: [8, 16, 32]", "conc-list: [8, 16]", 1))
    pull.commit("fewer")
    assert said(judged(pull)) == []


def test_a_new_key_that_says_something_else(repo: Repo) -> None:
    repo.branch("pull")
    path = repo.root / "configs/amd-master.yaml"
    text = CONFIG.format(key="alpha-fp4-h1-sglang").replace("acme/engine:1", "acme/engine:1.0")
    path.write_text(path.read_text() + text.replace("model-prefix: alpha-fp4-h1-sglang", "model-prefix: alpha"))
    repo.add(entry("alpha-fp4-h1-sglang"))
    gate = judged(repo)
    assert [one.rule for one in gate.remarks] == ["P30"] and gate.open
    assert "fp8" in gate.remarks[0].message and "vllm" in gate.remarks[0].message


def test_deprecation_blocks_from_its_day_on(pull: Repo) -> None:
    path = pull.root / "configs/nvidia-master.yaml"
    path.write_text(path.read_text().replace("[8, 16, 32]", "[8, 16]", 1))
    pull.commit("fewer")
    event = event_of(pull_event(pull))
    for since, open_ in ((datetime.date(2026, 8, 21), False), (datetime.date(2026, 8, 22), True)):
        rules = policy(deprecated=(Deprecated(model_prefix="new", scenario=None, since=since, reason="superseded"),))
        gate = judge_pull(event, Repository.at(pull.root), rules, AROUND)
        assert [one.rule for one in gate.remarks] == ["P31"] and gate.open is open_
    other = policy(
        deprecated=(
            Deprecated(model_prefix="new", scenario="agentic-coding", since=datetime.date(2026, 1, 1), reason="x"),
        )
    )
    assert judge_pull(event, Repository.at(pull.root), other, AROUND).remarks == ()


def test_a_changed_script_is_judged_at_its_lines(pull: Repo) -> None:
    script(pull, "#!/usr/bin/env bash\nmkdir -p /workspace/mine\n")
    pull.commit("script")
    assert said(judged(pull)) == [("P25", SCRIPT, 2)]


def test_old_faults_of_a_script_do_not_block(repo: Repo) -> None:
    script(repo, "mkdir -p /workspace/mine\npatch -p1 < x\n")
    repo.commit("old")
    repo.branch("pull")
    script(repo, "mkdir -p /workspace/mine\npatch -p1 < x\necho new\n")
    repo.add(ENTRY)
    assert said(judged(repo)) == []


def test_a_waiver_must_be_added_and_linked(pull: Repo) -> None:
    script(pull, "patch -p1 < fix.diff\n")
    pull.commit("patched")
    assert [rule for rule, *_ in said(judged(pull))] == ["P21"]
    script(pull, "The upstream fix is not released yet.\n", "docs/waiver/77.md")
    pull.commit("waiver")
    assert "does not link it" in judged(pull).remarks[0].message
    assert said(judged(pull, body=BODY + "\nSee docs/waiver/77.md\n\n见 docs/waiver/77.md\n")) == []


@pytest.mark.parametrize(
    ("title", "body", "lacks"),
    [
        (TITLE, "Only English words are written in here, alas.", ["the description lacks its Chinese section"]),
        ("Measure the new engine", BODY, ["the title lacks its Chinese half"]),
        ("测量新的引擎", BODY, ["the title lacks its English half"]),
        (TITLE, "", ["the description lacks its English section", "the description lacks its Chinese section"]),
        (TITLE, "<!-- 这里是中文说明，读者看不到它 -->\nEnglish words are written here only.", ["Chinese section"]),
        (TITLE, "```\n这里是中文说明，但在代码里\n```\nEnglish words are written here only.", ["Chinese section"]),
    ],
)
def test_both_languages(pull: Repo, title: str, body: str, lacks: list[str]) -> None:
    found = judged(pull, title=title, body=body).remarks
    assert [one.rule for one in found] == ["P40"] and found[0].severity is Severity.BLOCKING
    assert all(one in found[0].message for one in lacks)


def test_links_belong_into_both_languages(pull: Repo) -> None:
    body = BODY.replace("settings.", "settings: https://example.org/run")
    found = judged(pull, body=body).remarks
    assert [(one.rule, one.severity) for one in found] == [("P40", Severity.WARNING)]
    both = body.replace("设置不变。", "设置不变。https://example.org/run")
    assert judged(pull, body=both).remarks == ()


@pytest.mark.parametrize(
    ("english", "words"),
    [("```\nrun\n```\n", "1 code blocks, the Chinese one 0"), ("# A\n\n# B\n\n# C\n", "3 headings, the Chinese one 1")],
)
def test_both_halves_have_one_structure(pull: Repo, english: str, words: str) -> None:
    gate = judged(pull, body=f"{english}\n{BODY}")
    assert gate.open and [one.rule for one in gate.remarks] == ["P40"] and words in gate.remarks[0].message


def test_bots_write_in_their_own_language(pull: Repo) -> None:
    assert judged(pull, title="Bump", body="x", user={"login": "dependabot[bot]"}).remarks == ()


def test_pages_and_their_twins(pull: Repo) -> None:
    script(pull, "# Title\n\nhttps://example.org/a\n", "docs/page.md")
    pull.commit("page")
    assert said(judged(pull)) == [("P41", "docs/page.md", 0)]
    script(pull, "# 标题\n\n## 多余\n\nhttps://example.org/a\n", "docs/page_zh.md")
    pull.commit("twin")
    assert "headings" in judged(pull).remarks[0].message
    script(pull, "# 标题\n\nhttps://example.org/a\n", "docs/page_zh.md")
    pull.commit("twin again")
    assert said(judged(pull)) == []


def test_the_generator_reports_its_length(pull: Repo) -> None:
    script(pull, "a\nb\n", "utils/matrix_logic/generate_sweep_configs.py")
    pull.commit("generator")
    gate = judged(pull)
    assert [(one.rule, one.severity) for one in gate.remarks] == [("P90", Severity.INFO)] and gate.open
    assert gate.remarks[0].message == "2 lines, 0 at the base (+2)"


def test_fast_mode_reaches_agentic_jobs_only(pull: Repo) -> None:
    gate = judged(pull, labels=[{"name": "full-sweep-enabled"}, {"name": "agentx-fast"}])
    assert gate.decision.fast and not gate.decision.reusable
    assert gate.jobs is not None and all("duration" not in job.inputs for f in gate.jobs.families for job in f.jobs)


def test_trimmed_and_evals_only(pull: Repo) -> None:
    trimmed = judged(pull, labels=[{"name": "sweep-enabled"}])
    assert [one.cell.concurrency for one in trimmed.cells if one.measured] == [8]
    only = judged(pull, labels=[{"name": "full-sweep-enabled"}, {"name": "evals-only"}])
    assert not any(one.measured for one in only.cells) and any(one.evaluated for one in only.cells)


def test_skip_marker_is_read_from_the_head_commit(pull: Repo) -> None:
    script(pull, "x\n", "notes.txt")
    pull.commit("notes\n\n[skip-sweep] please")
    gate = judged(pull)
    assert not gate.decision.runs and "[skip-sweep]" in gate.decision.why and gate.open


def test_authorised_reuse_leaves_the_sweep_out(pull: Repo) -> None:
    gate = judged(pull, around=replace(AROUND, reuse_authorised=True))
    assert gate.decision.reuse_gate is Outcome.SUCCESS and not gate.decision.runs


def test_commits_that_are_not_in_the_checkout(pull: Repo) -> None:
    event = pull_event(pull)
    event["pull_request"]["head"]["sha"] = "d" * 40
    with pytest.raises(InputError, match="fetch-depth: 0"):
        judge_pull(event_of(event), Repository.at(pull.root), policy(), AROUND)


def test_a_push_measures_what_was_merged(pull: Repo) -> None:
    before, after = pull.git("rev-parse", "main").strip(), pull.git("rev-parse", "HEAD").strip()
    payload = {
        "ref": "refs/heads/main",
        "before": before,
        "after": after,
        "repository": {"full_name": "acme/bench"},
        "sender": {"login": "someone"},
    }
    gate = judge_push(event_of(payload), Repository.at(pull.root), policy(), AROUND)
    assert gate.open and gate.decision.runs and gate.jobs is not None and gate.jobs.canary is None
    assert gate.priority == "3.500"  # a push adds 2
    elsewhere = judge_push(event_of(payload | {"ref": "refs/heads/x"}), Repository.at(pull.root), policy(), AROUND)
    assert not elsewhere.decision.runs and elsewhere.cells == ()


def test_every_rule_named_by_a_test_exists_and_every_blocking_rule_says_what_to_do() -> None:
    assert all(rule.mend and rule.why and rule.decides for rule in RULES.values())
    assert len({rule.name for rule in RULES.values()}) == len(RULES)


def test_a_changed_entry_that_nothing_selects_is_named(pull: Repo) -> None:
    path = pull.root / "configs/amd-master.yaml"
    path.write_text(path.read_text().replace("tp: 4", "tp: 8", 1))
    pull.commit("another entry")
    gate = judged(pull)
    assert said(gate) == [("P01", "configs/amd-master.yaml", 1)] and gate.open
    assert "not measured" in gate.remarks[0].message


def test_a_new_image_reaches_the_scripts_of_the_repository(pull: Repo) -> None:
    script(pull, "docker run acme/old:1\n", "benchmarks/single_node/x.sh")
    path = pull.root / "configs/nvidia-master.yaml"
    path.write_text(path.read_text().replace("acme/engine:1", "acme/old:1", 1))
    pull.commit("old")
    pull.git("branch", "-f", "main")
    path.write_text(path.read_text().replace("acme/old:1", "acme/engine:v2.0", 1))
    pull.add(ENTRY)
    assert ("P13", "benchmarks/single_node/x.sh", 1) in said(judged(pull))
