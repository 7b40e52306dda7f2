"""The reviewer's sign-off: thirteen questions about one head commit, each decided, not applicable, or for a human.

In: `Facts`. Out: a `SignOff` with evidence for each answer. What needs judgement (is this upstream recipe the same?) is
not guessed: it is for a human, with what was found. Pinned to the head commit: a new commit needs a new one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from ridgeline.publish.changelog.entry import Entry as ChangelogEntry
from ridgeline.publish.forge.event import Comment, PullRequest
from ridgeline.publish.forge.github import JobRun, newest_first
from ridgeline.publish.gate.acceptance import ROUNDING, pins, simulates
from ridgeline.publish.gate.change import Change
from ridgeline.publish.gate.images import read_image
from ridgeline.publish.gate.owners import Owners
from ridgeline.publish.gate.policy import GatePolicy, matches
from ridgeline.publish.gate.rule import Remark
from ridgeline.publish.gate.rules.scripts import Script
from ridgeline.publish.gate.upstream import Server, compare
from ridgeline.publish.reuse.words import authorisation
from ridgeline.spec.config import Entry

MARKER = "ridgeline-sign-off"
_VERDICT = re.compile(r"\*\*(PASS|FAIL|NEEDS A HUMAN)\*\*")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")


class State(StrEnum):
    """The answer to one question. Not applicable counts as yes."""

    YES = "yes"
    NOT_APPLICABLE = "n/a"
    HUMAN = "needs a human"
    NO = "no"


class Answer(NamedTuple):
    """`evidence`: what the answer rests on, or what a human has to look at."""

    number: int
    question: str
    state: State
    evidence: str


@dataclass(frozen=True, slots=True)
class SignOff:
    """The answers for one head commit. `signer`: who wrote the phrase, None when nobody did yet."""

    head: str
    signer: str | None
    answers: tuple[Answer, ...]

    @property
    def verdict(self) -> str:
        """`PASS`, `NEEDS A HUMAN` or `FAIL`."""
        states = {answer.state for answer in self.answers}
        if State.NO in states:
            return "FAIL"
        return "NEEDS A HUMAN" if State.HUMAN in states else "PASS"

    def as_json(self) -> dict[str, Any]:
        return {
            "head": self.head,
            "signer": self.signer,
            "verdict": self.verdict,
            "checks": [
                {"number": one.number, "question": one.question, "state": one.state.value, "evidence": one.evidence}
                for one in self.answers
            ],
        }


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known. None: nobody could look, which is for a human. `jobs`: commit -> jobs of its sweeps; `evals`: rows
    with `task`, `score` and `image`; `commits`: of the pull request."""

    pull: PullRequest
    change: Change
    changed: Mapping[str, Entry]  # entries new or different at the head
    entries: Mapping[str, Entry]  # all entries of the head
    before: Mapping[str, Entry]  # all entries of the base
    additions: tuple[ChangelogEntry, ...]
    remarks: Sequence[Remark]
    scripts: Sequence[Script]
    sign: Comment | None
    owners: Owners | None
    comments: Sequence[Comment] | None = None
    commits: Sequence[str] | None = None
    jobs: Mapping[str, Sequence[JobRun]] | None = None
    evals: Sequence[Mapping[str, Any]] | None = None
    golden: Callable[[Entry], Mapping[int, float]] = field(default=lambda entry: {})
    servers: Sequence[Server] = ()  # what the change's scripts start, as a dry run saw it
    document: Callable[[str], str | None] = field(default=lambda link: None)  # the text behind an upstream link
    member: Callable[[str, str], bool | None] = field(default=lambda team, login: None)  # None: not known


def judge(facts: Facts, policy: GatePolicy) -> SignOff:
    """All thirteen answers."""
    answers = [Answer(number, question, *decide(facts, policy)) for number, (question, decide) in enumerate(_QUESTIONS)]
    return SignOff(facts.pull.head_sha, facts.sign.author if facts.sign else None, tuple(answers))


def marker(head: str) -> str:
    """The hidden text by which a sign-off comment is found again."""
    return f"<!-- {MARKER} sha={head} -->"


def asked(comments: Iterable[Comment], policy: GatePolicy, told: Comment | None = None) -> Comment | None:
    """The comment of a person that holds the phrase of the policy: `told`, by which the question came, else the newest.
    One by somebody who belongs to the repository goes first, so that a stranger cannot undo a sign-off. Bots quote the
    phrase, the gate's comment does."""
    found = [
        one
        for one in ([told] if told else []) + newest_first(comments)
        if policy.sign_off.phrase in one.body and not one.author.endswith("[bot]") and "<!-- ridgeline-" not in one.body
    ]
    return next((one for one in found if one.association in policy.commands.associations), next(iter(found), None))


def of_head(comments: Iterable[Comment], head: str, bot: str) -> Comment | None:
    """The newest comment of `bot` that begins with the marker of this head. Further down it may be quoted text."""
    mark = marker(head)
    return next((one for one in newest_first(comments) if one.author == bot and one.body.startswith(mark)), None)


def status(comments: Iterable[Comment], head: str, bot: str) -> str:
    """The commit status: `success` only if the newest comment of `bot` with the marker of this head says **PASS**. The
    first verdict in bold is meant, and nothing in a code span: both may quote what others wrote."""
    mine = of_head(comments, head, bot)
    said = _VERDICT.search(_CODE.sub("", mine.body)) if mine else None
    return "success" if said and said[1] == "PASS" else "failure"


_Answer = tuple[State, str]


def _owns(facts: Facts, policy: GatePolicy) -> _Answer:
    if facts.owners is None:
        return State.HUMAN, "there is no CODEOWNERS file at the base"
    if facts.sign is None:
        return State.HUMAN, f"nobody has written `{policy.sign_off.phrase}` yet"
    signer, owners = facts.sign.author, facts.owners
    missing: list[str] = []
    unknown: list[str] = []
    for path in facts.change.files:
        line = owners.of(path)
        anyone = line is None or not line.owners or line.catches_all  # any code owner will do
        holds = _holds(facts, owners.people if anyone or line is None else line.owners, policy)
        if not holds:
            (missing if holds is False else unknown).append(path)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return State.NO, f"{signer} does not own `{missing[0]}`{more}"
    if unknown:
        return State.HUMAN, f"`{unknown[0]}` is owned by a team; whether {signer} belongs to it is not known"
    return State.YES, f"{signer} owns all {len(facts.change.files)} changed files"


def _holds(facts: Facts, owners: Iterable[str], policy: GatePolicy) -> bool | None:
    """Whether the signer is one of the owners or in one of their teams; None where a team's members are not known. The
    policy's list of a team counts before GitHub's."""
    assert facts.sign is not None
    login = facts.sign.author.lower()
    listed = {team.lower(): {one.lower() for one in members} for team, members in policy.sign_off.teams.items()}
    said: list[bool | None] = [False]
    for owner in owners:
        name = owner.removeprefix("@")
        if "/" not in name:
            said.append(name == login)
        elif name in listed:
            said.append(login in listed[name])
        else:
            said.append(facts.member(name, login))
        if said[-1]:
            return True
    return None if None in said else False


def _executed(facts: Facts, policy: GatePolicy) -> _Answer:
    if facts.jobs is None or facts.commits is None:
        return State.HUMAN, "jobs were not looked at (no access to the runs)"
    rules = policy.sign_off
    for commit in reversed(facts.commits):
        done = [
            job.name.lower()
            for job in facts.jobs.get(commit, ())
            if job.conclusion == "success" and job.steps and not matches(job.name.lower(), rules.jobs.aggregators)
        ]
        evals = [name for name in done if matches(name, rules.jobs.evals)]
        measured = [name for name in done if matches(name, rules.jobs.throughput) and name not in evals]
        if evals and measured:
            return State.YES, f"{commit[:12]}: {len(measured)} measuring and {len(evals)} evaluating jobs succeeded"
    return State.NO, "no commit of the pull request has both a measuring and an evaluating job that really ran"


def _evaluated(facts: Facts, policy: GatePolicy) -> _Answer:
    if facts.evals is None:
        return State.HUMAN, "no evaluation results were given"
    if not facts.evals:
        return State.NO, "the results hold no evaluation"
    images = {entry.image for entry in facts.changed.values()}
    for row in facts.evals:
        task, score, image = str(row.get("task")), row.get("score"), row.get("image")
        bar = policy.sign_off.eval_bar.of(row.get("infmax_model_prefix") or row.get("model_prefix"), task)
        if not isinstance(score, (int, float)):
            return State.NO, f"{task} has no score"
        if score < bar:
            return State.NO, f"{task} is {score:g}, below {bar:g}"
        if images and image not in images:
            return State.NO, f"{task} was evaluated with `{image}`, which is no image of the changed configs"
    return State.YES, f"{len(facts.evals)} evaluations at or above the bar, with the changed images"


_TOLD = {True: State.YES, False: State.NO, None: State.HUMAN}


def _upstream_recipe(facts: Facts, policy: GatePolicy) -> _Answer:
    if facts.changed and all(entry.multinode for entry in facts.changed.values()):
        return State.NOT_APPLICABLE, "multi-node only"
    if not facts.changed:
        return State.NOT_APPLICABLE, "no config changed"
    texts = [facts.pull.body, facts.sign.body if facts.sign else ""]
    links = [link for text in texts for link in re.findall(r"https://[^\s<>()\[\]\"'`]+", text)]
    links = [link.rstrip(".,;:!?") for link in links]
    found = next((link for link in links if matches(link, policy.sign_off.recipe_links)), None)
    if found is None:
        return State.NO, "no link to a published upstream recipe"
    recipe = facts.document(found) if facts.servers else None
    if recipe is None:
        why = "it was not fetched" if facts.servers else "no launch script was dry-run"
        return State.HUMAN, f"compare the server's arguments with {found} ({why})"
    told = compare(facts.servers, recipe)
    return _TOLD[told.equal], f"{found}: {told.said}"


def _authorised(facts: Facts, policy: GatePolicy) -> _Answer:
    if facts.comments is None:
        return State.HUMAN, "comments were not looked at"
    found = authorisation(facts.comments, policy)
    if found is None:
        return State.NO, f"no `{policy.commands.reuse}` by somebody who may"
    return State.YES, f"comment {found.comment.id} by {found.comment.author}"


_ITEM = re.compile(r"^\s*[-*+]\s+\[([ xX])\]\s+(.*)$")


def _ticked(facts: Facts, policy: GatePolicy) -> _Answer:
    if facts.sign is None:
        return State.HUMAN, "no sign-off was written yet"
    lines = facts.sign.body.replace("\r\n", "\n").split("\n")
    items = [(index, match) for index, line in enumerate(lines) if (match := _ITEM.match(line))]
    if len(items) < len(policy.sign_off.template):
        return State.NO, f"{len(items)} items, the template has {len(policy.sign_off.template)}"
    texts = [match[2].lower() for _, match in items]
    absent = [word for word in policy.sign_off.template if not any(word in text for text in texts)]
    if absent:
        return State.NO, f"the template's item about {absent[0]} is missing"
    bare = [match[2] for index, match in items if match[1] == " " and not _explained(lines, index, match[2])]
    if bare:
        return State.NO, f"not ticked and not explained: {bare[0][:120]}"
    return State.YES, f"all {len(items)} items are ticked or explained"


def _explained(lines: list[str], index: int, text: str) -> bool:
    """Words behind `N/A` or a dash on the line itself, or an indented line below it."""
    if re.search(r"(?:\bn/?a\b|不适用|—|–| - |\()\W*\w{3,}", text, re.IGNORECASE):
        return True
    below = lines[index + 1] if index + 1 < len(lines) else ""
    return below[:1] in (" ", "\t") and len(below.strip()) > 3 and not _ITEM.match(below)


def _engines(facts: Facts, policy: GatePolicy) -> _Answer:
    rules = policy.sign_off
    for key, entry in facts.changed.items():
        upstream = rules.upstream_images.get(entry.framework)
        if upstream is not None:
            if read_image(entry.image).name not in upstream:
                what = f"`{key}`: `{entry.image}` is not of {' or '.join(upstream)}"
                if any(other.runner == entry.runner for other in facts.before.values()):
                    return State.NO, what
                return State.HUMAN, f"{what}; {entry.runner} is new, so others may be all there is"
        elif not set(entry.framework.split("-")) & set(rules.first_engines):
            before = [
                other.framework
                for other in facts.entries.values()
                if (other.model_prefix, other.runner) == (entry.model_prefix, entry.runner)
            ]
            if not set(before) & set(rules.first_engines):
                engines = " or ".join(rules.first_engines)
                return State.NO, f"`{key}`: no {engines} entry for {entry.model_prefix} on {entry.runner} yet"
    return (
        (State.YES, "images and engines are in order") if facts.changed else (State.NOT_APPLICABLE, "no config changed")
    )


def _by_rule(rule: str, nothing: str) -> Callable[[Facts, GatePolicy], _Answer]:
    def decide(facts: Facts, policy: GatePolicy) -> _Answer:
        found = [one for one in facts.remarks if one.rule == rule]
        return (State.NO, f"{found[0].where}: {found[0].message}") if found else (State.YES, nothing)

    return decide


_CUTS = re.compile(
    r"--hf[-_]overrides|--json-model-override-args|--model-override|num_hidden_layers|num[-_]hidden[-_]layers|"
    r"num_experts_per_tok|moe_topk|--load-format[= ]dummy|--num-layers"
)


def _uncut(facts: Facts, policy: GatePolicy) -> _Answer:
    for script in facts.scripts:
        for number, line in script.lines():
            if script.new(number) and _CUTS.search(line):
                return State.NO, f"{script.file.path}:{number} overrides the model's architecture"
    for path in policy.paths.configs:
        file = facts.change.files.get(path)
        for added in file.lines.added if file else ():
            if _CUTS.search(added.text.decode("utf-8", "replace")[:8000]):
                return State.NO, f"{path}:{added.number} overrides the model's architecture"
    return State.YES, "no added line overrides layers, experts or weights"


def _acceptance(facts: Facts, policy: GatePolicy) -> _Answer:
    for script in facts.scripts:
        line = simulates(script.code)
        if line is not None and "agentic" not in script.file.path:
            return State.NO, f"{script.file.path}:{line} simulates acceptance, and is not agentic"
    agentic = [key for key, entry in facts.changed.items() if any(_speculates(item.spaces) for item in entry.agentic)]
    if not agentic:
        return State.NOT_APPLICABLE, "no changed agentic config speculates"
    committed = {drafts: length for key in agentic for drafts, length in facts.golden(facts.changed[key]).items()}
    pinned = [(script.file.path, *one) for script in facts.scripts for one in pins(script.code, committed)]
    for path, length, allowed in pinned:
        if allowed and not any(abs(length - one) < ROUNDING for one in allowed):
            known = ", ".join(f"{value:g}" for value in sorted(allowed))
            return State.NO, f"{path} pins {length:g}; the committed lengths are {known}"
    if pinned and committed:
        return State.YES, f"pinned to {', '.join(sorted({f'{length:g}' for _, length, _ in pinned}))}, as committed"
    return State.HUMAN, f"`{agentic[0]}` speculates; where its acceptance is pinned is not part of the change"


def _speculates(spaces: Iterable[Any]) -> bool:
    return any(space.spec_decoding != "none" for space in spaces)


def _pure(facts: Facts, policy: GatePolicy) -> _Answer:
    found = [one for one in facts.remarks if one.rule == "P03"]
    if found:
        return State.NO, found[0].message
    if not any(entry.append_only for entry in facts.additions):
        return State.NOT_APPLICABLE, "no append-only entry"
    return State.YES, "only points were added"


_QUESTIONS: tuple[tuple[str, Callable[[Facts, GatePolicy], _Answer]], ...] = (
    ("The signer owns every changed file", _owns),
    ("Measuring and evaluating jobs of a commit in this pull request really ran and passed", _executed),
    ("Evaluations are there, above the bar, with the same image", _evaluated),
    ("A single-node recipe follows a published upstream one", _upstream_recipe),
    ("Reuse at merge is authorised", _authorised),
    ("Every item of the template is ticked or explained", _ticked),
    ("Images come from the engine's own project, and its own engines came first", _engines),
    ("No deprecated model or scenario", _by_rule("P31", "no changed config is on the policy's list")),
    ("Nothing cuts the model down", _uncut),
    ("Speculation goes through chat templates", _by_rule("P20", "no changed script sends raw prompts")),
    ("No engine is patched without a waiver", _by_rule("P21", "nothing in the change patches an engine")),
    ("Agentic speculation pins the committed acceptance length, other work simulates none", _acceptance),
    ("An append-only change only adds", _pure),
)
