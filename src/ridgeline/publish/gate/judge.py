"""The whole gate: one event, one checkout, one policy → one `Gate`. Git is read; nothing else is touched.

What lies outside (preflight of cells and scripts, GitHub, results) comes in as functions and values, or is left out and
then named in the verdict as not looked at.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

from ridgeline.core.cell import Cell
from ridgeline.core.errors import InputError, Problem, RidgelineError
from ridgeline.core.where import Where
from ridgeline.plan.outline import Planned
from ridgeline.plan.priority import Context, score
from ridgeline.publish.changelog.contract import Change as ChangelogChange
from ridgeline.publish.changelog.entry import Entry as ChangelogEntry
from ridgeline.publish.changelog.gate import added_entries
from ridgeline.publish.changelog.links import Links
from ridgeline.publish.changelog.output import as_object
from ridgeline.publish.changelog.refusal import ChangelogRefused
from ridgeline.publish.changelog.repository import Repository, diff
from ridgeline.publish.changelog.selection import Modifiers, Selection, matching, select
from ridgeline.publish.forge.event import Comment, Event, PullRequest
from ridgeline.publish.forge.github import JobRun
from ridgeline.publish.gate import cells as cells_
from ridgeline.publish.gate import reminder, signoff
from ridgeline.publish.gate.change import Change, head_message, matching_files, read_change
from ridgeline.publish.gate.decision import PUSH, Decision, Situation, decide, group, sweep_labels
from ridgeline.publish.gate.jobs import Jobs, jobs_of
from ridgeline.publish.gate.performance import Performance
from ridgeline.publish.gate.policy import GatePolicy
from ridgeline.publish.gate.revision import Revision, commit_of, head_of, revision
from ridgeline.publish.gate.rule import Remark, Severity, of_problem, remark
from ridgeline.publish.gate.rules import changelog, configs, containers, language, scripts
from ridgeline.publish.gate.upstream import Server
from ridgeline.publish.gate.verdict import Gate
from ridgeline.spec.config import ConfigSet, Entry
from ridgeline.spec.policy import Policy as PriorityPolicy


class Preflighted(NamedTuple):
    """Remarks with places in the checkout, and the engines that launch scripts start."""

    remarks: Sequence[Remark]
    servers: Sequence[Server] = ()


Preflight = Callable[[Sequence[Cell], Mapping[str, bytes], Mapping[str, bytes]], Preflighted]
"""Cells that the change concerns, changed launch scripts and all those of the head (path -> bytes)."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What comes from outside the checkout. None: not there; the verdict says so."""

    today: datetime.date
    priority: PriorityPolicy
    preflight: Preflight | None = None
    comments: Sequence[Comment] | None = None  # of the conversation
    signatures: Sequence[Comment] | None = None  # those, and reviews and their comments: where a sign-off may stand
    commits: Sequence[str] | None = None
    jobs: Mapping[str, Sequence[JobRun]] | None = None
    evals: Sequence[Mapping[str, Any]] | None = None
    reuse_authorised: bool = False
    performance: Callable[[Sequence[Cell]], Performance | None] | None = None
    golden: Callable[[Entry], Mapping[int, float]] = field(default=lambda entry: {})
    document: Callable[[str], str | None] = field(default=lambda link: None)
    member: Callable[[str, str], bool | None] = field(default=lambda team, login: None)
    missing: Mapping[str, str] = field(default_factory=dict)  # part -> why it is not there


def judge_pull(event: Event, repository: Repository, policy: GatePolicy, around: Surroundings) -> Gate:
    """Judge the pull request of an event. Raises InputError when its commits are not in the checkout, or the base's
    own configs do not load."""
    pull = event.pull
    if pull is None:
        raise InputError([Problem("the event holds no pull request")])
    base, head = (
        commit_of(repository, sha, which) for sha, which in ((pull.base_sha, "base"), (pull.head_sha, "head"))
    )
    change = read_change(repository, base, head)
    remarks: list[Remark] = [
        *_labels(pull, policy),
        *language.two_languages(pull.title, pull.body, pull.author, policy),
    ]
    remarks += language.twins(change, policy)
    unlooked = dict(around.missing)
    if change.incomplete:
        unlooked["files"] = change.incomplete
    remarks += [
        remark("P50", f"not looked at: {file.unread}", Where(file.path))
        for file in change.files.values()
        if file.unread
    ]
    before = revision(repository, base, policy, " (base)")
    after, broken = head_of(repository, head, policy)
    remarks += broken
    keys = configs.changed_keys(before.configs.entries, after.configs.entries) if after else ()
    log = _judge_log(repository, change, before, after, pull, policy, remarks) if after else None
    additions = log.additions if log else ()
    if after:
        remarks += _config_rules(keys, before, after, policy, around)
        if additions:
            patterns = [pattern for entry in additions for pattern in entry.config_keys]
            named = {key for pattern in patterns for key in matching(pattern, after.configs.entries)}
            remarks += configs.unselected(keys, named, after.configs)
        elif not any(one.rule in ("P02", "P03", "P04", "P05") for one in remarks):
            remarks += configs.without_changelog(keys, after.configs, before.configs, policy)
        remarks += _containers(repository, head, before.configs.entries, after.configs.entries, change, policy)
    found = scripts.scripts(change, policy)
    for script in found:
        remarks += scripts.all_rules(script)
    remarks += scripts.patches(change, policy, found, pull.number, pull.body)
    remarks += configs.generator(change, policy)
    situation = _situation(event, pull, repository, head, change, policy, remarks, around)
    decision = decide(situation, policy)
    selected = _select(additions, before, after, decision, policy, remarks) if after and additions else None
    chosen = _Selected.of(selected, after, base, head, decision, policy) if after else _Selected()
    servers: Sequence[Server] = ()
    if around.preflight is not None and after:
        library = matching_files(repository, head, policy.paths.scripts)
        said, servers = _preflight(around.preflight, keys, chosen.planned_cells, found, library, after, change)
        remarks += said
    facts = signoff.Facts(
        pull=pull,
        change=change,
        changed={key: after.configs.entries[key] for key in keys if key in after.configs.entries} if after else {},
        entries=after.configs.entries if after else {},
        additions=additions,
        remarks=remarks,
        scripts=found,
        before=before.configs.entries,
        sign=signoff.asked(around.signatures or (), policy, event.comment),
        owners=before.owners,  # at the base: a change must not choose its own reviewers
        comments=around.comments,
        commits=around.commits,
        jobs=around.jobs,
        evals=around.evals,
        golden=around.golden,
        servers=servers,
        document=around.document,
        member=around.member,
    )
    priority = _priority(chosen, pull, event, around)
    return Gate(
        repository=event.repository,
        number=pull.number,
        base=base,
        head=head,
        decision=decision,
        **_split(remarks),
        additions=len(additions),
        corrections=len(log.corrections) if log else 0,
        cells=chosen.cells,
        hours=cells_.gpu_hours(chosen.cells) if chosen.jobs else None,
        jobs=chosen.jobs,
        priority=priority,
        group=group(situation, pull.number, head, policy),
        sign_off=signoff.judge(facts, policy) if pull.state == "open" and not pull.draft else None,
        performance=around.performance(chosen.planned_cells) if around.performance else None,
        reminder=reminder.due(event.action, change.files, around.comments, policy),
        unlooked=unlooked,
    )


def judge_push(event: Event, repository: Repository, policy: GatePolicy, around: Surroundings) -> Gate:
    """Judge a push to the main branch: what was merged is measured as it is, whatever the labels. Of the changelog only
    what selects jobs counts. Raises InputError."""
    if event.before is None or event.after is None:
        raise InputError([Problem("the event holds no commits")])
    base, head = (commit_of(repository, sha, which) for sha, which in ((event.before, "base"), (event.after, "head")))
    change = read_change(repository, base, head)
    touches = policy.paths.changelog in change.files and event.ref in ("refs/heads/main", "refs/heads/master")
    situation = Situation(action=PUSH, touches_changelog=touches)
    decision = decide(situation, policy)
    after, remarks = head_of(repository, head, policy)
    selected = _Selected()
    additions: tuple[ChangelogEntry, ...] = ()
    if after and decision.runs:
        before = revision(repository, base, policy, " (base)")
        file = policy.paths.changelog
        try:
            additions = added_entries(after.log, diff(before.log, after.log), file)
            selection = select(additions, after.master, lambda: before.master, Modifiers(), file)
            selected = _Selected.of(selection, after, base, head, decision, policy)
        except (ChangelogRefused, InputError) as refused:
            remarks += [of_problem("P05", problem) for problem in refused.problems]
    context = Context(PUSH)
    scores = [score(row, around.priority, context) for row in selected.rows]
    return Gate(
        repository=event.repository,
        number=None,
        base=base,
        head=head,
        decision=decision,
        **_split(remarks),
        additions=len(additions),
        cells=selected.cells,
        hours=cells_.gpu_hours(selected.cells) if selected.jobs else None,
        jobs=selected.jobs,
        priority=str(max(scores)) if scores else None,
        group=group(situation, None, head, policy),
        unlooked=dict(around.missing),
    )


class _Said(TypedDict):
    remarks: tuple[Remark, ...]
    not_proven: tuple[Remark, ...]


def _split(remarks: Sequence[Remark]) -> _Said:
    """What is wrong or to be known, the worst first, and what nothing known decides."""
    unknown = tuple(one for one in remarks if one.severity is Severity.UNKNOWN)
    known = (one for one in remarks if one.severity is not Severity.UNKNOWN)
    return {"remarks": tuple(sorted(known, key=lambda one: one.severity.rank)), "not_proven": unknown}


def _labels(pull: PullRequest, policy: GatePolicy) -> Iterable[Remark]:
    several = sweep_labels(pull.labels, policy)
    if len(several) > 1:
        yield remark("P06", f"sweep labels {', '.join(f'`{name}`' for name in several)} are on at once")


def _judge_log(
    repository: Repository,
    change: Change,
    before: Revision,
    after: Revision,
    pull: PullRequest,
    policy: GatePolicy,
    remarks: list[Remark],
) -> ChangelogChange | None:
    """The changelog's change against the base's tip, when it is valid."""
    if before.log == after.log:
        return None
    file = policy.paths.changelog
    validated, found = changelog.judge(
        before.log,
        after.log,
        diff(before.log, after.log),
        Links.of(pull.number, policy.repository),
        after.master,
        lambda: before.master,
        file,
        behind=not repository.contains(change.head, change.base),
    )
    remarks += found
    return validated.change if validated else None


def _config_rules(
    keys: Sequence[str], before: Revision, after: Revision, policy: GatePolicy, around: Surroundings
) -> Iterable[Remark]:
    old = before.configs.entries
    yield from configs.images(keys, old, after.configs, policy)
    yield from configs.keys(keys, old, after.configs)
    yield from configs.deprecated(keys, after.configs, policy, around.today)


def _containers(
    repository: Repository, head: str, old: ConfigSet, new: ConfigSet, change: Change, policy: GatePolicy
) -> Iterable[Remark]:
    bumped = any(key not in old or old[key].image != entry.image for key, entry in new.items())
    if not bumped and not change.matching(policy.paths.recipes):
        return
    recipes = matching_files(repository, head, policy.paths.recipes, most=3000)
    yield from containers.containers(old, new, change.files.keys(), recipes)
    yield from containers.left_behind(old, new, matching_files(repository, head, policy.paths.scripts))


def _situation(
    event: Event,
    pull: PullRequest,
    repository: Repository,
    head: str,
    change: Change,
    policy: GatePolicy,
    remarks: Sequence[Remark],
    around: Surroundings,
) -> Situation:
    invalid = ("P02", "P03", "P04", "P05", "P07")
    return Situation(
        action=event.action,
        changed_label=event.changed_label,
        labels=pull.labels,
        draft=pull.draft,
        fork=pull.fork,
        reuse_authorised=around.reuse_authorised,
        head_message=head_message(repository, head),
        changelog_valid=not any(one.rule in invalid for one in remarks),
        touches_changelog=policy.paths.changelog in change.files,
    )


def _select(
    additions: Sequence[ChangelogEntry],
    before: Revision,
    after: Revision,
    decision: Decision,
    policy: GatePolicy,
    remarks: list[Remark],
) -> Selection | None:
    modifiers = Modifiers(decision.all_evals, decision.evals_only, decision.trimmed)
    try:
        return select(additions, after.master, lambda: before.master, modifiers, policy.paths.changelog)
    except (ChangelogRefused, InputError) as refused:
        rule = "P03" if isinstance(refused, ChangelogRefused) else "P07"
        remarks += [of_problem(rule, problem) for problem in refused.problems]
        return None


@dataclass(frozen=True, slots=True)
class _Selected:
    cells: tuple[Planned, ...] = ()
    jobs: Jobs | None = None
    rows: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(
        cls,
        selection: Selection | None,
        after: Revision,
        base: str,
        head: str,
        decision: Decision,
        policy: GatePolicy,
    ) -> _Selected:
        if selection is None:
            return cls()
        names = dict.fromkeys(
            key
            for entry in selection.entries
            for pattern in entry.config_keys
            for key in matching(pattern, after.configs.entries)
        )
        planned = cells_.planned(
            selection.throughput, selection.evals, list(names), after.configs.entries, after.master.runners
        )
        output = as_object(selection, base, head)
        return cls(planned, jobs_of(output, decision, policy), (*selection.throughput, *selection.evals))

    @property
    def planned_cells(self) -> list[Cell]:
        return [one.cell for one in self.cells]


def _preflight(
    preflight: Preflight,
    keys: Sequence[str],
    selected: Sequence[Cell],
    found: Sequence[scripts.Script],
    library: Mapping[str, bytes],
    after: Revision,
    change: Change,
) -> Preflighted:
    """Remarks about the selected cells and those of changed configs, each at a changed line where there is one."""
    from ridgeline.plan.expand import cells as expand
    from ridgeline.plan.filters import Filters

    alive = tuple(key for key in keys if key in after.configs.entries)
    try:
        concerned = list(expand(after.configs.entries, after.master.runners, Filters(keys=alive))) if alive else []
        concerned = list(dict.fromkeys([*selected, *concerned]))
        changed = {script.file.path: script.file.after or b"" for script in found}
        said = preflight(concerned, changed, library)
        placed = [_placed(one, after, change) for one in said.remarks]
        # an old fault of a script does not block a new change
        return Preflighted([one for one in placed if not _old(one, change)], said.servers)
    except RidgelineError as error:
        problems = error.problems if isinstance(error, InputError) else (Problem(error.message),)
        return Preflighted(
            [remark("P50", f"preflight: {problem.message}", problem.where, hint=problem.hint) for problem in problems]
        )


def _old(one: Remark, change: Change) -> bool:
    """Whether a shell rule (L01 to L28) speaks of a line that the change does not touch."""
    shell = one.rule.startswith("L") and one.rule[1:].isdigit()
    return shell and one.where is not None and not change.touched(one.where.file, one.where.line)


def _placed(one: Remark, after: Revision, change: Change) -> Remark:
    """The same remark at the nearest changed line of its entry, when its own line is not part of the change."""
    place = one.where
    if place is None or not place.line or place.file not in change.files or change.touched(place.file, place.line):
        return one
    entries = sorted(entry.where.line for entry in after.configs.entries.values() if entry.where.file == place.file)
    start = max((line for line in entries if line <= place.line), default=0)
    end = min((line for line in entries if line > place.line), default=1 << 30)
    near = [line for line in change.files[place.file].added_lines if start <= line < end]
    if not entries or not near:
        return one
    line = min(near, key=lambda number: (abs(number - place.line), number))
    return Remark(one.rule, one.severity, one.message, Where(place.file, line), one.hint, one.arithmetic, one.subjects)


def _priority(gate: _Selected, pull: PullRequest, event: Event, around: Surroundings) -> str | None:
    if not gate.rows:
        return None
    context = Context("pull_request", pull.labels, None, pull.number)
    return str(max(score(row, around.priority, context) for row in gate.rows))
