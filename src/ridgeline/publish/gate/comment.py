"""The verdict as the Markdown of one comment. Every text of others goes through `text`, so nothing in it acts.

Short by intent: what runs in a line or two, one table of what is to be mended with links to the lines, the rest folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from urllib.parse import quote, urlsplit

from ridgeline.core.where import Where
from ridgeline.publish.gate.fork import Dispatch
from ridgeline.publish.gate.performance import Performance
from ridgeline.publish.gate.rule import RULES, Remark, Severity
from ridgeline.publish.gate.signoff import SignOff, State
from ridgeline.publish.gate.signoff import marker as sign_off_marker
from ridgeline.publish.gate.text import code, markup, plain
from ridgeline.publish.gate.verdict import Gate

MARKER = "<!-- ridgeline-gate -->"
MOST_REMARKS = 40
MOST_CELLS = 30
LONGEST = 60_000  # GitHub takes 65,536 characters
_MARKS = {State.YES: "yes", State.NOT_APPLICABLE: "n/a", State.HUMAN: "**human**", State.NO: "**no**"}


def gate_comment(gate: Gate, server: str = "https://github.com") -> str:
    """The gate's comment. `server`: where the repository is shown, for links to lines. Kept under GitHub's limit: what
    does not fit is counted, and is in the JSON."""
    faults = [one for one in gate.remarks if one.severity is Severity.BLOCKING]
    others = [one for one in gate.remarks if one.severity is not Severity.BLOCKING]
    title = f"shut, {len(faults)} to mend" if faults else "open"
    files = f"{server}/{gate.repository}/blob/{gate.head}/"
    parts = [f"{MARKER}\n## Benchmark gate: {title}", _runs(gate)]
    parts.append(_table(faults, files) if faults else "Nothing to mend.")
    if others:
        parts.append(_folded(f"{_count(len(others), 'remark')} that do not block", _table(others, files)))
    if gate.fork is not None:
        parts.append(_fork(gate.fork))
    parts += [_cells(gate), _not_proven(gate, files)]
    if gate.sign_off:
        parts.append(_folded_sign_off(gate.sign_off))
    parts.append(_footer(gate))
    if gate.performance:
        parts.append(_performance(gate.performance))
    return _cut([part for part in parts if part])


def sign_off_comment(sign_off: SignOff) -> str:
    """The one comment of a head commit by which its status is decided."""
    by = f" by {code(_unbold(sign_off.signer))}" if sign_off.signer else ""
    title = f"### Sign-off of {code(sign_off.head[:12])}{by}: **{sign_off.verdict}**"
    return f"{sign_off_marker(sign_off.head)}\n{title}\n\n{_answers(sign_off)}\n"


def _runs(gate: Gate) -> str:
    decision = gate.decision
    if not decision.runs:
        lines = [f"No sweep starts: {plain(decision.why)}."]
    else:
        kind = "the lowest concurrency of each recipe" if decision.trimmed else "all selected points"
        notes = [kind, *(["fail-fast"] if decision.fail_fast else []), *(["short profile"] if decision.fast else [])]
        lines = [f"A sweep starts ({plain(decision.why)}): {', '.join(notes)}."]
    if gate.jobs is not None and gate.hours is not None:
        measured = sum(one.measured for one in gate.cells)
        evaluated = sum(one.evaluated for one in gate.cells)
        what = f"{_count(measured, 'cell')} measured, {evaluated} evaluated, {_count(gate.jobs.total, 'job')}"
        priority = f", priority {gate.priority}" if gate.priority is not None else ""
        lines.append(f"Selected: {what}, about {gate.hours.total:.1f} GPU-hours{priority}.")
        if gate.jobs.canary is not None:
            row = gate.jobs.canary.row
            lines.append(f"Canary: {code(str(row.get('exp-name')))} at concurrency {row.get('conc')}.")
        if gate.jobs.never:
            lines.append(f"**{_count(len(gate.jobs.never), 'row')} never run:** no job family takes their lengths.")
    return " ".join(lines)


def _cells(gate: Gate) -> str:
    if not gate.cells:
        return ""
    names = [f"- {code(one.cell.name)} ({_does(one.measured, one.evaluated)})" for one in gate.cells[:MOST_CELLS]]
    rest = len(gate.cells) - MOST_CELLS
    return _folded(_count(len(gate.cells), "cell"), "\n".join([*names, *([f"- and {rest} more"] if rest > 0 else [])]))


def _does(measured: bool, evaluated: bool) -> str:
    return "measured, evaluated" if measured and evaluated else "measured" if measured else "evaluated"


def _not_proven(gate: Gate, files: str) -> str:
    """What nothing known decides, and what nobody looked at. Neither is a fault, and neither is a pass."""
    lines = [f"- {plain(part)}: {plain(why)}" for part, why in gate.unlooked.items()]
    if not gate.not_proven:
        return "Not looked at:\n\n" + "\n".join(lines) if lines else ""
    table = _table(gate.not_proven, files)
    more = "\n\nNot looked at:\n\n" + "\n".join(lines) if lines else ""
    return _folded(f"{len(gate.not_proven)} not proven here (no fault, no pass)", table + more)


def _table(remarks: Sequence[Remark], files: str) -> str:
    rows = ["| | rule | where | what, and what to do |", "|---|---|---|---|"]
    for one in sorted(remarks, key=_order)[:MOST_REMARKS]:
        what = [plain(one.message, table=True)]
        what += [plain(one.arithmetic, table=True)] if one.arithmetic else []
        what += [f"**To do:** {plain(one.hint, table=True)}"] if one.hint else []
        if one.subjects:
            more = f" and {len(one.subjects) - 1} more" if len(one.subjects) > 1 else ""
            what.append(f"{code(one.subjects[0], table=True)}{more}")
        name = f" {RULES[one.rule].name}" if one.rule in RULES else ""
        place = _place(one.where, files) if one.where else ""
        rows.append(f"| {one.severity.value} | {plain(one.rule, table=True)}{name} | {place} | {'<br>'.join(what)} |")
    if len(remarks) > MOST_REMARKS:
        rows.append(f"\n{len(remarks) - MOST_REMARKS} more are in the JSON verdict.")
    return "\n".join(rows)


def _place(where: Where, files: str) -> str:
    """A file's last part, linked to its line at the head; other places as they are."""
    if not where.line:
        return code(where.file, table=True)
    shown = code(f"{where.file.rsplit('/', 1)[-1]}:{where.line}", table=True)
    return f"[{shown}](<{files}{quote(where.file)}#L{where.line}>)"


def _order(one: Remark) -> tuple[int, bool, str, int]:
    place = one.where
    return one.severity.rank, place is None, place.file if place else "", place.line if place else 0


def _fork(fork: Dispatch) -> str:
    if fork.inputs is not None:
        return f"### Fork\n\nA trusted sweep of {code(str(fork.inputs['merge-sha']))} may start; it is not reusable."
    return "### Fork\n\nNo trusted sweep starts:\n\n" + "\n".join(f"- {plain(one)}" for one in fork.why)


def _folded_sign_off(sign_off: SignOff) -> str:
    states = [answer.state for answer in sign_off.answers]
    count = f"{states.count(State.NO)} no, {states.count(State.HUMAN)} for a human"
    who = f"by {markup(sign_off.signer)}: <b>{sign_off.verdict}</b>" if sign_off.signer else "nobody has signed yet"
    return _folded(f"Sign-off of this commit, {who} ({count})", _answers(sign_off))


def _answers(sign_off: SignOff) -> str:
    rows = ["| | question | answer | evidence |", "|---|---|---|---|"]
    rows += [
        f"| {one.number} | {one.question} | {_MARKS[one.state]} | {plain(_unbold(one.evidence), table=True)} |"
        for one in sign_off.answers
    ]
    return "\n".join(rows)


def _unbold(text: str) -> str:
    """Text of others without the stars that a bold verdict has: other readers may look for one anywhere."""
    return text.replace("**", "* *")


def _footer(gate: Gate) -> str:
    entries = f"{_count(gate.additions, 'changelog entry', 'changelog entries')} added"
    if gate.corrections:
        entries = f"{_count(gate.corrections, 'link')} corrected"
    explain = " `ridgeline pr rules ID` explains a rule." if gate.remarks else ""
    return f"Commit {code(gate.head[:12])} against {code(gate.base[:12])}, {entries}.{explain}"


def _folded(summary: str, body: str) -> str:
    """`summary` is HTML: text of others in it has gone through `markup`."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _performance(performance: Performance) -> str:
    lines = [f"### Against the published line: **{plain(performance.verdict)}**", "", plain(performance.sentence)]
    if performance.picture and _is_address(performance.picture):
        lines += ["", f"![The frontier before and after](<{performance.picture}>)"]
    elif performance.picture:
        lines += ["", f"Picture: {code(PurePath(performance.picture).name)}, beside the verdict"]
    if performance.matched:
        lines += ["", "| cell | before | after | change | verdict |", "|---|---|---|---|---|"]
        for one in performance.matched[:MOST_CELLS]:
            change = "" if one.change is None else f"{one.change:+.1%}"
            values = [_value(value, one.unit) for value in (one.before, one.after)]
            cells = [code(one.name, table=True), *values, change, plain(one.verdict, table=True)]
            lines.append(f"| {' | '.join(cells)} |")
    if performance.unmatched:
        lines += ["", f"{_count(len(performance.unmatched), 'cell')} without a counterpart."]
    if performance.command:
        lines += ["", f"Reproduce: {code(performance.command, 400)}"]
    if performance.overlay and _is_address(performance.overlay):
        by = f", on a dashboard started by {code(performance.serve, 400)}" if performance.serve else ""
        lines += ["", f"[Open as an unofficial overlay](<{performance.overlay}>){by}"]
    elif performance.serve:
        lines += ["", f"As an unofficial overlay on a dashboard: {code(performance.serve, 400)}"]
    return "\n".join(lines)


def _value(value: float | None, unit: str) -> str:
    return "not measured" if value is None else f"{value:.4g} {plain(unit)}"


def _is_address(text: str) -> bool:
    parts = urlsplit(text)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not set(text) & set("<>\"'`\\ \n\r\t")


def _cut(parts: list[str]) -> str:
    """Whole parts while they fit; the first always does."""
    kept, size = [], 0
    for part in parts:
        if size + len(part) > LONGEST:
            kept.append("Some parts were left out for length; the JSON verdict has them.")
            break
        kept.append(part)
        size += len(part) + 2
    return "\n\n".join(kept) + "\n"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
