"""The sign-off: each of its thirteen questions decided both ways, or left to a human with what was found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.publish.changelog.repo import CONFIG
from tests.publish.gate.kit import SCRIPT, comment_json, policy

from ridgeline.core.where import Where
from ridgeline.publish.changelog.entry import Entry as ChangelogEntry
from ridgeline.publish.forge.event import Comment, PullRequest, Reader, comment_of
from ridgeline.publish.forge.github import JobRun
from ridgeline.publish.gate.change import Change, ChangedFile
from ridgeline.publish.gate.owners import Owners
from ridgeline.publish.gate.rule import remark
from ridgeline.publish.gate.rules.configs import read_configs
from ridgeline.publish.gate.rules.scripts import scripts
from ridgeline.publish.gate.signoff import Facts, State, asked, judge, status
from ridgeline.publish.gate.upstream import Server, compare

pytestmark = pytest.mark.integration  # takes seconds of processor time

HEAD = "b" * 40
PULL = PullRequest(7, "t", "", "x", "open", False, False, (), "main", "a" * 40, "o/r", "b", HEAD, "o/r")
PHRASE = "As a PR reviewer and CODEOWNER"
TICKED = f"""{PHRASE}, I have looked:
- [x] recipe is published
- [x] image is upstream
- [X] accuracy is above the bar
- [ ] reuse is authorised: n/a, multi-node only
- [ ] upstream engines exist
  they came in an earlier pull request
"""


def comment(body: str, **more: Any) -> Comment:
    return comment_of(Reader(comment_json(body, **more), "c"))


def facts(files: dict[str, bytes] | None = None, config: str = CONFIG.format(key="new"), **more: Any) -> Facts:
    changed = {path: ChangedFile(path, None, data) for path, data in (files or {}).items()}
    change = Change("a", "a", HEAD, changed)
    entries = read_configs([("configs/nvidia-master.yaml", config.encode())]).entries
    given: dict[str, Any] = {
        "pull": PULL,
        "change": change,
        "changed": dict(entries),
        "entries": dict(entries),
        "before": dict(entries),
        "additions": (),
        "remarks": (),
        "scripts": scripts(change, policy()),
        "sign": None,
        "owners": None,
    }
    return Facts(**(given | more))


def answer(number: int, given: Facts) -> tuple[State, str]:
    found = judge(given, policy()).answers[number]
    return found.state, found.evidence


OWNERS = Owners.read("* @all\nconfigs/ @boss @org/team\nbenchmarks/ @other\ndocs/\n")


@pytest.mark.parametrize(
    ("path", "who", "state"),
    [
        ("configs/x.yaml", "boss", State.YES),
        ("configs/x.yaml", "Boss", State.YES),
        ("configs/x.yaml", "stranger", State.HUMAN),  # the team may hold them
        ("benchmarks/a/b.sh", "boss", State.NO),
        ("README.md", "other", State.YES),  # a catch-all line is satisfied by any code owner
        ("README.md", "stranger", State.HUMAN),
        ("docs/x.md", "boss", State.YES),  # nobody owns it
        ("docs/x.md", "stranger", State.HUMAN),  # still, only a code owner signs
    ],
)
def test_0_owners(path: str, who: str, state: State) -> None:
    given = facts({path: b"x\n"}, owners=OWNERS, sign=comment(PHRASE, author=who))
    assert answer(0, given)[0] is state


@pytest.mark.parametrize(
    ("who", "asked_of_github", "state"),
    [
        ("listed", None, State.YES),  # the policy's own list of the team
        ("Member", True, State.YES),
        ("stranger", False, State.NO),
        ("stranger", None, State.HUMAN),
    ],
)
def test_0_teams(who: str, asked_of_github: bool | None, state: State) -> None:
    owners = Owners.read("configs/ @org/team @org/other\n")
    given = facts({"configs/x.yaml": b"x"}, owners=owners, sign=comment(PHRASE, author=who))
    given = replace(given, member=lambda team, login: asked_of_github if team == "org/other" else None)
    rules = policy()
    listed = replace(rules.sign_off, teams={"Org/Team": ("Listed",)})
    assert judge(given, replace(rules, sign_off=listed)).answers[0].state is state


def test_0_without_file_or_signer() -> None:
    assert answer(0, facts({"a": b""}))[0] is State.HUMAN
    assert answer(0, facts({"a": b""}, owners=OWNERS))[0] is State.HUMAN


JOB = JobRun("single-node 1k1k / tp4", "success", True)
EVAL = JobRun("eval / tp4", "success", True)


@pytest.mark.parametrize(
    ("jobs", "state"),
    [
        ([JOB, EVAL], State.YES),
        ([JOB], State.NO),
        ([JOB, replace(EVAL, conclusion="skipped")], State.NO),
        ([JOB, replace(EVAL, steps=False)], State.NO),
        ([JOB, replace(EVAL, name="Collect evals")], State.NO),
        ([EVAL, replace(JOB, name="setup")], State.NO),
    ],
)
def test_1_really_executed(jobs: list[JobRun], state: State) -> None:
    assert answer(1, facts(jobs={HEAD: jobs}, commits=[HEAD]))[0] is state
    assert answer(1, facts(jobs={"c" * 40: jobs}, commits=[HEAD]))[0] is State.NO
    assert answer(1, facts())[0] is State.HUMAN


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        (None, State.HUMAN),
        ([], State.NO),
        ([{"task": "gsm8k", "score": 0.93, "image": "acme/engine:1"}], State.YES),
        ([{"task": "gsm8k", "score": 0.9, "image": "acme/engine:1"}], State.YES),
        ([{"task": "gsm8k", "score": 0.89, "image": "acme/engine:1"}], State.NO),
        ([{"task": "gsm8k", "score": None, "image": "acme/engine:1"}], State.NO),
        ([{"task": "gsm8k", "score": 0.95, "image": "acme/engine:2"}], State.NO),
    ],
)
def test_2_evaluations(rows: Any, state: State) -> None:
    assert answer(2, facts(evals=rows))[0] is state


def test_3_upstream_recipe() -> None:
    assert answer(3, facts())[0] is State.NO
    linked = replace(PULL, body="see https://github.com/vllm-project/recipes/blob/main/x.md.")
    state, evidence = answer(3, facts(pull=linked))
    assert state is State.HUMAN and "vllm-project/recipes" in evidence
    assert answer(3, facts(changed={}))[0] is State.NOT_APPLICABLE


RECIPE = """\
# Serving on H200
```bash
vllm serve acme/new \\
  --tensor-parallel-size 8 \\
  --kv-cache-dtype fp8 --port 9000 --gpu-memory-utilization 0.95
```
"""
LINK = "https://github.com/vllm-project/recipes/blob/main/x.md"
ARGV = ("vllm", "serve", "acme/new", "--port", "8888", "-tp", "8", "--kv_cache_dtype=fp8", "--max-num-seqs", "64")


@pytest.mark.parametrize(
    ("argv", "recipe", "state", "words"),
    [
        (ARGV, RECIPE, State.YES, "equal to it"),
        (ARGV, RECIPE.replace("vllm serve acme/new", "python3 -m vllm.entrypoints.openai.api_server --model acme/new"),
         State.YES, "equal"),
        ((*ARGV, "--quantization", "modelopt"), RECIPE, State.NO, "quantisation modelopt, there as the checkpoint"),
        ((*ARGV, "--enable-expert-parallel"), RECIPE, State.NO, "expert parallelism on, there off"),
        ((*ARGV[:6], "4", *ARGV[7:]), RECIPE, State.NO, "tensor parallelism 4, there 8"),
        ((*ARGV[:2], "acme/old", *ARGV[3:]), RECIPE, State.NO, "model acme/old"),
        ((*ARGV, "--attention-backend", "FLASHINFER"), RECIPE, State.NO, "attention kernels flashinfer"),
        (ARGV, RECIPE.replace("H200", "B200"), State.HUMAN, "does not name H200"),
        (ARGV, RECIPE.replace("size 8", "size $TP"), State.HUMAN, "placeholders"),
        (ARGV, "H200: see the wiki", State.HUMAN, "no server command"),
        (ARGV, "H200: vllm serve 'open", State.HUMAN, "no server command"),
        (ARGV, None, State.HUMAN, "not fetched"),
    ],
)  # fmt: skip
def test_3_compares_what_matters(argv: tuple[str, ...], recipe: str | None, state: State, words: str) -> None:
    given = facts(
        pull=replace(PULL, body=f"follows {LINK}."),
        servers=[Server("new/1k1k/TP8/c4", "H200", argv)],
        document=lambda link: recipe if link == LINK else None,
    )
    found, evidence = answer(3, given)
    assert found is state and words in evidence, evidence


def test_3_every_command_of_a_recipe_counts() -> None:
    both = RECIPE + RECIPE.replace("--tensor-parallel-size 8", "-tp=4 -dp 2 --enable-expert-parallel")
    mine = ("vllm", "serve", "acme/new", "-tp", "4", "-dp", "2", "-ep", "--kv-cache-dtype", "fp8")
    told = compare([Server("a", "H200", ARGV), Server("b", "H200", mine)], both)
    assert told.equal and "2 servers" in told.said


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200).map(lambda text: f"vllm serve {text}"))
def test_3_any_recipe_is_read(text: str) -> None:
    assert compare([Server("a", "H200", ARGV)], text).equal is not True


def test_3_a_hostile_recipe_ends_soon() -> None:
    for text in ("vllm serve x " * 30_000, "vllm serve '" * 30_000, "vllm serve m \\\n" * 30_000, "\\\n" * 200_000):
        assert compare([Server("a", "H200", ARGV)], text).equal is None


def test_4_authorised_reuse() -> None:
    assert answer(4, facts())[0] is State.HUMAN
    assert answer(4, facts(comments=[]))[0] is State.NO
    assert answer(4, facts(comments=[comment("/reuse-sweep-run")]))[0] is State.YES
    assert answer(4, facts(comments=[comment("/reuse-sweep-run", association="NONE")]))[0] is State.NO


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (TICKED, State.YES),
        (TICKED.replace(": n/a, multi-node only", ""), State.NO),
        (TICKED.replace("  they came in an earlier pull request\n", ""), State.NO),
        (TICKED.replace("- [x] image is upstream\n", ""), State.NO),
        (PHRASE, State.NO),
    ],
)
def test_5_template(body: str, state: State) -> None:
    assert answer(5, facts(sign=comment(body)))[0] is state


@pytest.mark.parametrize(
    ("image", "framework", "state"),
    [
        ("vllm/vllm-openai:v0.25.1", "vllm", State.YES),
        ("acme/engine:1", "vllm", State.NO),
        ("lmsysorg/sglang:v0.5.17", "sglang", State.YES),
        ("acme/engine:1", "trt", State.NO),
        ("acme/engine:1", "dynamo-vllm", State.YES),
    ],
)
def test_6_engines(image: str, framework: str, state: State) -> None:
    text = (
        CONFIG.format(key="new").replace("acme/engine:1", image).replace("framework: vllm", f"framework: {framework}")
    )
    assert answer(6, facts(config=text))[0] is state


def test_6_a_new_fleet_may_have_nothing_else() -> None:
    text = CONFIG.format(key="new").replace("acme/engine:1", "acme/special:1")
    assert answer(6, facts(config=text, before={}))[0] is State.HUMAN


def test_6_other_engines_follow_first_ones() -> None:
    text = CONFIG.format(key="new") + CONFIG.format(key="new2").replace("model-prefix: new2", "model-prefix: new")
    text = text.replace("framework: vllm", "framework: trt", 1)
    given = facts(config=text)
    only = {"new": given.entries["new"]}
    assert answer(6, replace(given, changed=only))[0] is State.YES


def test_7_9_10_12_follow_the_rules() -> None:
    for number, rule in ((7, "P31"), (9, "P20"), (10, "P21"), (12, "P03")):
        found = remark(rule, "because", Where("x", 3))
        assert answer(number, facts(remarks=[found]))[0] is State.NO
        assert answer(number, facts())[0] in (State.YES, State.NOT_APPLICABLE)
    entry = ChangelogEntry(("new",), ("x",), "XXX", append_only=True)
    assert answer(12, facts(additions=(entry,)))[0] is State.YES


@pytest.mark.parametrize(
    ("line", "state"),
    [
        (b"vllm serve m --hf-overrides '{}'\n", State.NO),
        (b"# --hf-overrides\n", State.YES),
        (b"vllm serve m --load-format dummy\n", State.NO),
        (b"vllm serve m\n", State.YES),
    ],
)
def test_8_nothing_is_cut(line: bytes, state: State) -> None:
    assert answer(8, facts({SCRIPT: line}))[0] is state


AGENTIC = """\
new:
  image: vllm/vllm-openai:v0.25.1
  model: acme/new
  model-prefix: dsv4
  runner: cluster:h1
  precision: fp8
  framework: vllm
  multinode: false
  scenarios:
    agentic-coding:
    - search-space:
      - { tp: 8, kv-offloading: none, spec-decoding: mtp, conc-list: [1] }
"""
AGENTIC_SCRIPT = "benchmarks/single_node/agentic/x.sh"


@pytest.mark.parametrize(
    ("path", "text", "state"),
    [
        (AGENTIC_SCRIPT, b"export SGLANG_SIMULATE_ACC_LEN=2.49\n", State.YES),
        (AGENTIC_SCRIPT, b"X='{\"synthetic_acceptance_length\": 2.49}'\n", State.YES),
        (AGENTIC_SCRIPT, b"export TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS=1.49\n", State.YES),
        (AGENTIC_SCRIPT, b"export SGLANG_SIMULATE_ACC_LEN=3.5\n", State.NO),
        (AGENTIC_SCRIPT, b"atom serve --spec-decode-acceptance-length 2.49\n", State.YES),
        (AGENTIC_SCRIPT, b"atom serve --spec-decode-acceptance-length=2.7\n", State.NO),
        (AGENTIC_SCRIPT, b"atom serve --spec-decode-acceptance-rate 0.4967\n", State.YES),  # (2.49 - 1) / 3
        (AGENTIC_SCRIPT, b"atom serve --spec-decode-acceptance-rate 0.6\n", State.NO),
        (AGENTIC_SCRIPT, b"export SGLANG_SIMULATE_ACC_LEN=1.8 # --speculative-num-steps 3\n", State.YES),
        (AGENTIC_SCRIPT, b"launch --speculative-num-steps 3\nexport SGLANG_SIMULATE_ACC_LEN=1.8\n", State.NO),
        (AGENTIC_SCRIPT, b"launch --speculative-num-steps 1\nexport SGLANG_SIMULATE_ACC_LEN=1.8\n", State.YES),
        (SCRIPT, b"atom serve --spec-decode-acceptance-length 2.49\n", State.NO),
        (AGENTIC_SCRIPT, b"vllm serve m\n", State.HUMAN),
        (SCRIPT, b"export SGLANG_SIMULATE_ACC_LEN=2.49\n", State.NO),
    ],
)
def test_11_acceptance(path: str, text: bytes, state: State) -> None:
    given = facts({path: text}, config=AGENTIC, golden=lambda entry: {1: 1.8, 3: 2.49})
    assert answer(11, given)[0] is state
    assert answer(11, facts())[0] is State.NOT_APPLICABLE


def test_the_verdict_is_the_worst_answer() -> None:
    found = judge(facts(), policy())
    assert found.verdict == "FAIL" and found.head == HEAD and len(found.answers) == 13
    human = replace(found, answers=tuple(a for a in found.answers if a.state is not State.NO))
    assert human.verdict == "NEEDS A HUMAN"
    good = replace(found, answers=tuple(a for a in human.answers if a.state is not State.HUMAN))
    assert good.verdict == "PASS"


def test_the_newest_comment_of_the_bot_decides() -> None:
    text = f"<!-- ridgeline-sign-off sha={HEAD} -->"
    old, new = comment(f"{text} **PASS**", id=1, author="ci"), comment(f"{text} **FAIL**", id=2, author="ci")
    assert status([old], HEAD, "ci") == "success"
    assert status([old, new], HEAD, "ci") == "failure"
    assert status([], HEAD, "ci") == "failure"
    assert asked([comment("x"), comment(TICKED, id=3)], policy()) == comment(TICKED, id=3)
    ours = comment(f"<!-- ridgeline-gate -->\nnobody has written `{PHRASE}` yet", id=9)
    assert asked([ours, comment(PHRASE, id=8, author="ci[bot]")], policy()) is None  # bots quote the phrase


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*", "a/b", True),
        ("*.md", "docs/x.md", True),
        ("*.md", "docs/x.mdx", False),
        ("docs/", "docs/a/b.md", True),
        ("docs/", "x/docs/b.md", True),
        ("/docs/", "x/docs/b.md", False),
        ("docs/*", "docs/a.md", True),
        ("docs/*", "docs/a/b.md", False),
        ("docs/**", "docs/a/b.md", True),
        ("**/x.sh", "a/b/x.sh", True),
        ("/a/b.sh", "a/b.sh", True),
        ("a/b.sh", "c/a/b.sh", False),
        ("a?c", "abc", True),
        ("a.c", "abc", False),
    ],
)
def test_codeowners_patterns(pattern: str, path: str, matches: bool) -> None:
    assert (Owners.read(f"{pattern} @me").of(path) is not None) is matches


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=60), st.text(alphabet="ab/*.", max_size=20))
def test_any_owners_file_is_read(text: str, path: str) -> None:
    Owners.read(text).of(path)
