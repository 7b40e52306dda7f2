"""The verdict as the Markdown of one comment. Every text of others goes through `text`, so nothing in it acts."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from ridgeline.publish.gate.fork import Dispatch
from ridgeline.publish.gate.performance import Performance
from ridgeline.publish.gate.rule import RULES, Remark, Severity
from ridgeline.publish.gate.signoff import SignOff, State
from ridgeline.publish.gate.signoff import marker as sign_off_marker
from ridgeline.publish.gate.text import code, plain
from ridgeline.publish.gate.verdict import Gate

MARKER = "<!-- ridgeline-gate -->"
MOST_REMARKS = 40
MOST_CELLS = 30
LONGEST = 60_000  # GitHub takes 65,536 characters
_MARKS = {State.YES: "yes", State.NOT_APPLICABLE: "n/a", State.HUMAN: "**human**", State.NO: "**no**"}


def gate_comment(gate: Gate) -> str:
    """The gate's comment. Kept under GitHub's limit: what does not fit is counted, and is in the JSON."""
    blocking = sum(one.severity is Severity.BLOCKING for one in gate.remarks)
    title = "open" if gate.open else f"shut: {_count(blocking, 'blocking remark')}"
    parts = [f"{MARKER}\n## Benchmark gate: {title}", _commit(gate), _runs(gate), _remarks(gate.remarks)]
    if gate.fork is not None:
        parts.append(_fork(gate.fork))
    if gate.unlooked:
        lines = [f"- {plain(part)}: {plain(why)}" for part, why in gate.unlooked.items()]
        parts.append("### Not looked at\n\n" + "\n".join(lines))
    if gate.sign_off:
        parts.append(_sign_off(gate.sign_off))
    if gate.performance:
        parts.append(_performance(gate.performance))
    return _cut([part for part in parts if part])


def sign_off_comment(sign_off: SignOff) -> str:
    """The one comment of a head commit by which its status is decided."""
    return f"{sign_off_marker(sign_off.head)}\n{_sign_off(sign_off)}\n"


def _commit(gate: Gate) -> str:
    entries = f"{_count(gate.additions, 'changelog entry', 'changelog entries')} added"
    if gate.corrections:
        entries = f"{_count(gate.corrections, 'link')} corrected"
    return f"Commit {code(gate.head[:12])} against {code(gate.base[:12])}; {entries}."


def _runs(gate: Gate) -> str:
    decision = gate.decision
    if not decision.runs:
        lines = [f"No sweep starts: {plain(decision.why)}."]
    else:
        kind = "lowest concurrency of each recipe" if decision.trimmed else "all selected points"
        notes = [kind, *(["fail-fast"] if decision.fail_fast else []), *(["short profile"] if decision.fast else [])]
        lines = [f"A sweep starts ({plain(decision.why)}): {', '.join(notes)}."]
    if gate.jobs is not None and gate.hours is not None:
        measured = sum(one.measured for one in gate.cells)
        evaluated = sum(one.evaluated for one in gate.cells)
        what = f"{_count(measured, 'cell')} measured, {evaluated} evaluated, {_count(gate.jobs.total, 'job')}"
        lines.append(f"Selected: {what}, about {gate.hours.total:.1f} GPU-hours.")
        if gate.priority is not None:
            lines.append(f"Highest priority: {gate.priority}.")
        if gate.jobs.canary is not None:
            row = gate.jobs.canary.row
            lines.append(f"Canary: {code(str(row.get('exp-name')))} at concurrency {row.get('conc')}.")
        if gate.jobs.never:
            lines.append(f"**{_count(len(gate.jobs.never), 'row')} never run:** no job family takes their lengths.")
    text = "### What runs\n\n" + "  \n".join(lines)
    if gate.cells:
        names = [f"- {code(one.cell.name)} ({_does(one.measured, one.evaluated)})" for one in gate.cells[:MOST_CELLS]]
        rest = len(gate.cells) - MOST_CELLS
        names += [f"- and {rest} more"] if rest > 0 else []
        text += f"\n\n<details><summary>{_count(len(gate.cells), 'cell')}</summary>\n\n" + "\n".join(names)
        text += "\n\n</details>"
    return text


def _does(measured: bool, evaluated: bool) -> str:
    return "measured, evaluated" if measured and evaluated else "measured" if measured else "evaluated"


def _remarks(remarks: Iterable[Remark]) -> str:
    ordered = sorted(remarks, key=_order)
    if not ordered:
        return "### Remarks\n\nNone."
    told = [one for one in ordered if one.severity is not Severity.UNKNOWN]
    unknown = [one for one in ordered if one.severity is Severity.UNKNOWN]
    text = "### Remarks\n\n" + (_listed(told) if told else "None.")
    if unknown:
        heading = _count(len(unknown), "thing is", "things are")
        text += f"\n\n<details><summary>{heading} not known</summary>\n\n{_listed(unknown)}\n\n</details>"
    return text


def _listed(remarks: list[Remark]) -> str:
    lines = [_remark(one) for one in remarks[:MOST_REMARKS]]
    if len(remarks) > MOST_REMARKS:
        lines.append(f"- and {len(remarks) - MOST_REMARKS} more; the JSON verdict has all of them")
    return "\n".join(lines)


def _order(one: Remark) -> tuple[int, bool, str, int]:
    place = one.where
    return one.severity.rank, place is None, place.file if place else "", place.line if place else 0


def _remark(one: Remark) -> str:
    name = f" {RULES[one.rule].name}" if one.rule in RULES else ""
    place = f" {code(str(one.where))}" if one.where else ""
    lines = [f"- **{one.severity.value}** {plain(one.rule)}{name}{place}: {plain(one.message)}"]
    lines += [f"  - {plain(one.arithmetic)}"] if one.arithmetic else []
    lines += [f"  - to do: {plain(one.hint)}"] if one.hint else []
    if one.subjects:
        more = f" and {len(one.subjects) - 1} more" if len(one.subjects) > 1 else ""
        lines.append(f"  - {code(one.subjects[0])}{more}")
    return "\n".join(lines)


def _fork(fork: Dispatch) -> str:
    if fork.inputs is not None:
        return f"### Fork\n\nA trusted sweep of {code(str(fork.inputs['merge-sha']))} may start; it is not reusable."
    return "### Fork\n\nNo trusted sweep starts:\n\n" + "\n".join(f"- {plain(one)}" for one in fork.why)


def _sign_off(sign_off: SignOff) -> str:
    by = f" by {code(sign_off.signer)}" if sign_off.signer else ""
    lines = [f"### Sign-off of {code(sign_off.head[:12])}{by}: **{sign_off.verdict}**", ""]
    lines += [
        f"- {answer.number}. {answer.question}: {_MARKS[answer.state]}. {plain(answer.evidence)}"
        for answer in sign_off.answers
    ]
    return "\n".join(lines)


def _performance(performance: Performance) -> str:
    lines = [f"### Against the published line: **{plain(performance.verdict)}**", "", plain(performance.sentence)]
    if performance.picture and _is_address(performance.picture):
        lines += ["", f"![The frontier before and after](<{performance.picture}>)"]
    elif performance.picture:
        lines += ["", f"Picture: {code(performance.picture)}"]
    if performance.matched:
        lines += ["", "| cell | before | after | change | verdict |", "|---|---|---|---|---|"]
        for one in performance.matched[:MOST_CELLS]:
            change = "" if one.change is None else f"{one.change:+.1%}"
            values = [_value(value, one.unit) for value in (one.before, one.after)]
            cells = [code(one.name).replace("|", "\\|"), *values, change, plain(one.verdict)]
            lines.append(f"| {' | '.join(cells)} |")
    if performance.unmatched:
        lines += ["", f"{_count(len(performance.unmatched), 'cell')} without a counterpart."]
    if performance.command:
        lines += ["", f"Reproduce: {code(performance.command, 400)}"]
    if performance.overlay and _is_address(performance.overlay):
        lines += ["", f"[Open as an unofficial overlay](<{performance.overlay}>)"]
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
