"""The catalogue of gate rules, and a remark: what a rule says about a place in the change.

A rule has a public id, a severity, and what its page says. Which module decides it does not matter to a reader, so the
catalogue is one table; a test holds that every remark names a rule of it, and that every rule has a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ridgeline.core.errors import Problem
from ridgeline.core.finding import Finding, Verdict
from ridgeline.core.where import Where


class Severity(StrEnum):
    """BLOCKING keeps the gate shut. UNKNOWN: nothing known decides it; it does not block, and is never a pass."""

    BLOCKING = "blocking"
    WARNING = "warning"
    UNKNOWN = "unknown"
    INFO = "info"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `why`: what goes wrong without it; `mend`: what to do; `decides`: how a machine can tell."""

    id: str
    name: str
    severity: Severity
    title: str
    why: str
    decides: str
    mend: str
    example: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """What a rule says. `rule` is an id of the catalogue, or of a preflight check or shell rule."""

    rule: str
    severity: Severity
    message: str
    where: Where | None = None
    hint: str | None = None
    arithmetic: str = ""
    subjects: tuple[str, ...] = ()  # cells it is about


def remark(
    rule: str, message: str, where: Where | None = None, *, hint: str | None = None, severity: Severity | None = None
) -> Remark:
    """A remark of a catalogue rule, with the rule's severity and remedy unless others are given."""
    known = RULES[rule]
    return Remark(rule, severity or known.severity, message, where, hint or known.mend)


def of_problem(rule: str, problem: Problem) -> Remark:
    """A problem that another part found, under a rule of ours."""
    return remark(rule, problem.message, problem.where, hint=problem.hint)


_SEVERITIES = {Verdict.FAIL: Severity.BLOCKING, Verdict.WARN: Severity.WARNING, Verdict.UNKNOWN: Severity.UNKNOWN}


def of_finding(finding: Finding, subjects: tuple[str, ...] = ()) -> Remark | None:
    """A preflight finding as a remark; None for one that passes."""
    severity = _SEVERITIES.get(finding.verdict)
    if severity is None:
        return None
    return Remark(
        finding.rule, severity, finding.message, finding.where, finding.hint, finding.arithmetic, subjects=subjects
    )


def _catalogue(*rules: Rule) -> Mapping[str, Rule]:
    return {rule.id: rule for rule in rules}


B, W, I = Severity.BLOCKING, Severity.WARNING, Severity.INFO  # noqa: E741

RULES = _catalogue(
    Rule(
        "P01",
        "config-without-changelog",
        B,
        "A master config changed and the changelog did not",
        "The changelog selects what runs. A config that changes without an entry is merged unmeasured, and its next "
        "entry measures two changes at once.",
        "An entry of a master config differs between the base and the head, and no changelog entry was added. A "
        "changed entry that none of the added changelog entries selects is a warning.",
        "add an entry for the changed configs at the end of the changelog",
    ),
    Rule(
        "P02",
        "changelog-history",
        B,
        "New entries stand only at the end; history stays as it is",
        "History is what was published. An inserted or edited entry changes what earlier results claim to be, and the "
        "merge tool refuses the file.",
        "The head's bytes do not begin with the base's bytes.",
        "restore history, and move the new entry to the end of the file",
    ),
    Rule(
        "P03",
        "append-only-purity",
        B,
        "An append-only entry adds points and changes nothing",
        "append-only leaves published points alone. If a recipe or an image changed, old and new points of one curve "
        "would not be comparable.",
        "Entries are mixed, modifiers ask for evaluations, a base point is missing or changed at the head, a new point "
        "starts a series, or nothing was added. Judged on the expanded rows of both revisions.",
        "drop `append-only` to measure everything again, or undo what is not an addition",
    ),
    Rule(
        "P04",
        "changelog-link",
        B,
        "The link of a new entry is this pull request's or a placeholder",
        "The merge tool replaces `XXX` by the number. Any other text, `PENDING` for one, passes looser checks and "
        "breaks the merge.",
        "`pr-link` of an added entry is neither `XXX`, the address with `XXX`, nor this pull request's address.",
        "write `XXX`",
        "`pr-link: PENDING` is refused, `pr-link: XXX` passes.",
    ),
    Rule(
        "P05",
        "changelog-form",
        B,
        "The changelog keeps its form",
        "Entries are moved as bytes at merge. A tab, a missing last newline, a duplicate key or an unknown config key "
        "stops that, or selects something else than was meant.",
        "The strict contract of the file, and the keys of the configs.",
        "see the message; `ridgeline changelog validate` says the same locally",
    ),
    Rule(
        "P06",
        "one-sweep-label",
        B,
        "At most one sweep label",
        "Two sweep labels ask for two different sweeps of one commit.",
        "The labels of the pull request.",
        "remove all sweep labels but one",
    ),
    Rule(
        "P07",
        "config-form",
        B,
        "The master configs load and expand",
        "A config that does not load stops every sweep, not only its own.",
        "Loading and expanding the head's configs.",
        "see the message; `ridgeline plan` says the same locally",
    ),
    Rule(
        "P10",
        "image-public",
        B,
        "Anyone can pull the image",
        "A result that nobody else can reproduce is not a public result.",
        "The image is a path, a .sqsh file, or names a host that only an inside network reaches.",
        "publish the image and name it as REGISTRY/NAME:TAG",
        "`/images/vllm.sqsh` and `registry.internal:5000/vllm:1` are refused.",
    ),
    Rule(
        "P11",
        "image-immutable",
        B,
        "The image does not move",
        "Under a tag that moves, the same config measures other software tomorrow.",
        "The image has no tag, or a tag known to move (`latest`, `nightly`, `main`, ...), and no digest.",
        "pin a digest (`@sha256:...`), a release tag, or a nightly named by its commit",
    ),
    Rule(
        "P12",
        "image-tag-unproven",
        W,
        "The image's tag does not say that it stays",
        "A tag that holds neither a release, a commit nor a date may be pushed again by its owner.",
        "The tag is none of: a version, a commit id, a date; and there is no digest.",
        "add the digest: `IMAGE:TAG@sha256:...`",
    ),
    Rule(
        "P13",
        "container-agrees",
        B,
        "What starts is the image that the config names",
        "A recipe that still starts another container puts results of one engine under the name of another.",
        "The `container` of a recipe file that an entry's settings name by CONFIG_FILE differs from the entry's image. "
        "A line of a launch script that still names the image which an entry left is a warning.",
        "write the same image in the config and in the recipe",
    ),
    Rule(
        "P20",
        "chat-template",
        B,
        "Speculative decoding goes through chat templates",
        "Draft models are trained on templated text. Raw prompts give acceptance that no user sees.",
        "A changed launch script speculates (MTP, EAGLE, draft model) and starts a client of raw prompts without "
        "`--use-chat-template` or a chat endpoint.",
        "pass the chat template to the client, e.g. `--use-chat-template`",
    ),
    Rule(
        "P21",
        "engine-patch",
        B,
        "No engine is patched without a waiver",
        "A patched engine measures something nobody else runs.",
        "The change adds a patch file, or lines that apply one to, or edit, an installed engine, and the waiver of "
        "this pull request is not part of it.",
        "use an image that holds the change, or add the waiver and link it in the description",
    ),
    Rule(
        "P22",
        "expert-parallel-fixed",
        W,
        "Expert parallelism follows the config",
        "A switch that is always on makes the config's `ep` a lie for every other cell of the script.",
        "A changed vLLM or ATOM script passes `--enable-expert-parallel` outside a condition on EP_SIZE.",
        "pass it only when EP_SIZE is above 1",
    ),
    Rule(
        "P23",
        "launch-on-one-line",
        W,
        "A launch command has one argument a line",
        "Reviews and blame work on lines; a command of forty arguments on one line hides its changes.",
        "An added line starts a server and holds more than four options.",
        "break the command with `\\`, one argument a line",
    ),
    Rule(
        "P24",
        "container-import",
        W,
        "Containers come from a public image",
        "A launch script that uses a container file which nothing imports depends on a machine's disk.",
        "A changed script passes --container-image with a .sqsh file, and no line imports one from docker://.",
        "import the config's image first: `enroot import docker://IMAGE`",
    ),
    Rule(
        "P25",
        "workspace-folder",
        W,
        "Scripts make no new folders under /workspace",
        "Workspaces are shared and cleaned by another account; folders left there break later jobs.",
        "An added line of a script makes a folder below /workspace.",
        "use a temporary folder, or one that the job already owns",
    ),
    Rule(
        "P26",
        "root-owned-files",
        W,
        "Nothing in a shared workspace belongs to root",
        "The account that cleans a workspace cannot remove what root left there; the next job fails on it.",
        "An added command of a script runs a container with the workspace mounted and without `--user`, or writes "
        "there with sudo.",
        "run as the job's account: `--user $(id -u):$(id -g)`",
    ),
    Rule(
        "P30",
        "key-agrees",
        W,
        "A config's key agrees with its fields",
        "Filters and changelog patterns match keys. A key that names another model, precision or engine is selected "
        "for the wrong work.",
        "The key of a new config does not begin with its model prefix, or lacks its precision or framework.",
        "name it MODEL-PRECISION-RUNNER-FRAMEWORK",
    ),
    Rule(
        "P31",
        "deprecated",
        B,
        "No new work on what is deprecated",
        "Machine time goes to models and scenarios that are still shown.",
        "A changed config uses a model prefix (and scenario) that the policy lists, from the listed day on.",
        "use a current model, or take the change back",
    ),
    Rule(
        "P40",
        "two-languages",
        B,
        "Title and description are written in English and Chinese",
        "Half of the readers read one, half the other.",
        "Presence and structure only: the title has a part in each; the description has a section in each, with the "
        "same links, numbers of headings and code blocks. Taste is not judged.",
        "add the missing half: `English | 中文` in the title, a Chinese section under its own heading in the body",
    ),
    Rule(
        "P41",
        "page-twins",
        W,
        "An English page and its twin change together",
        "A page whose twin stays behind tells two stories.",
        "A page of the policy's list changed without its twin, or the twins differ in headings, links, code blocks or "
        "table rows.",
        "make the same change in the other language",
    ),
    Rule(
        "P50",
        "not-judged",
        Severity.UNKNOWN,
        "A part of the change could not be judged",
        "What nobody could look at has not passed.",
        "A file is too large or not text, or a part of the preflight is not installed.",
        "see the message",
    ),
    Rule(
        "P90",
        "generator-length",
        I,
        "The generator changed its length",
        "It is read by everyone; its length is watched.",
        "A file of the policy's list changed.",
        "nothing to do",
    ),
)
