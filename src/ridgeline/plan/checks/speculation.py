"""S1 to S5: draft tokens, and acceptance lengths that come from measurement and not from a keyboard."""

from __future__ import annotations

from ridgeline.core.finding import Expectation
from ridgeline.engine.acceptance import golden_lengths, schedule
from ridgeline.engine.launch import Launch, Speculation
from ridgeline.plan.checks.rule import Rule, Said, fails, passes, unknown, warns
from ridgeline.plan.checks.subject import Subject

PREFILL_ROOM = 8192  # vLLM warns when fewer tokens a step are left for scheduling
_EVAL = ("EVAL_ONLY", "RUN_EVAL_ONLY")


def golden(subject: Subject, launch: Launch) -> Said:
    """S1: the acceptance length is a committed one."""
    asked, spec, curves = subject.cell.arm.spec_decoding, launch.speculation, subject.known.curves
    if asked != "none" and spec is None:
        yield fails(f"the cell asks for `{asked}`, the command line drafts nothing")
    if asked == "none" and spec is not None:
        yield fails("the command line drafts tokens, the cell says none")
    if spec is None:
        return
    if spec.length is None:
        yield passes("acceptance is real, not prescribed")
        return
    name = subject.cell.benchmark.model
    method = "" if spec.method in ("NEXTN", "EAGLE", "draft_model") else spec.method.lower()
    found = golden_lengths(curves, name, spec.drafts, method=method)
    same = next((item for item in found if round(item.length, 2) == round(spec.length, 2)), None)
    drafts = f"{spec.drafts} drafts"
    if same is not None:
        yield passes(f"acceptance length {spec.length:g} is {same.curve.variant}'s for {drafts}")
    elif found:
        known = ", ".join(f"{item.length:g} ({item.curve.variant})" for item in found)
        hint = f"synthetic_acceptance_length {found[0].length:g}"
        yield fails(f"acceptance length {spec.length:g} is not the golden one", f"golden for {drafts}: {known}", hint)
    elif curves:
        yield fails(f"no committed golden length for {name} with {drafts}")
    else:
        yield unknown(f"no golden lengths were given for {name} with {drafts}", hint="--golden FOLDER")


def evaluation(subject: Subject, launch: Launch) -> Said:
    """S2: accuracy runs verify drafts for real."""
    spec = launch.speculation
    if spec is None:
        return
    on = [name for name in _EVAL if name in launch.env and launch.env[name].text.lower() in ("1", "true")]
    if spec.length is not None and on:
        text = f"an accuracy run ({on[0]}) with prescribed acceptance judges made-up text"
        yield fails(text, hint="drop every synthetic setting when evaluating")
    else:
        yield passes("no prescribed acceptance in an accuracy run")


def coupling(subject: Subject, launch: Launch) -> Said:
    """S3: draft count and length belong together."""
    spec = launch.speculation
    if spec is None or spec.length is None:
        return
    rejected = spec.drafts - int(spec.length) - 1
    if spec.rejection == "standard" and launch.build.kind == "vllm":
        text = "an acceptance length is given, but drafts are verified the standard way"
        yield fails(text, hint='"rejection_sample_method": "synthetic"')
    elif not 1 <= spec.length <= spec.drafts + 1:
        yield fails(f"acceptance length {spec.length:g} is outside [1, {spec.drafts + 1}]")
    elif other := _measured_with(subject, spec):
        text = f"acceptance length {spec.length:g} was measured with {other} drafts, not {spec.drafts}"
        yield fails(text, hint="take both from one row of the golden file")
    elif rejected > 0:
        rates = ", ".join(f"{rate:g}" for rate in schedule(spec.length, spec.drafts).rates)
        some = f"the last {rejected} draft position{'s' if rejected > 1 else ''}"
        text = f"{some} can never be accepted, yet each step verifies them"
        yield warns(text, f"length {spec.length:g}: positions {rates}")
    else:
        yield passes("draft count and acceptance length belong together")


def _measured_with(subject: Subject, spec: Speculation) -> int | None:
    """Another draft count whose golden length this is, when it is not its own's."""
    name, curves = subject.cell.benchmark.model, subject.known.curves
    length = round(spec.length or 0, 2)

    def is_golden(drafts: int) -> bool:
        return any(round(item.length, 2) == length for item in golden_lengths(curves, name, drafts))

    others = sorted({drafts for curve in curves for drafts in curve.lengths} - {spec.drafts})
    return None if is_golden(spec.drafts) else next((drafts for drafts in others if is_golden(drafts)), None)


def budget(subject: Subject, launch: Launch) -> Said:
    """S4: all sequences' drafts fit one step's tokens."""
    spec, tokens, seqs = launch.speculation, launch.budget, launch.max_num_seqs
    if spec is None or tokens is None or seqs is None:
        return
    slots = {"draft_model": 1, "dspark": spec.drafts - 1, "parallel": spec.drafts - 1}.get(spec.method, 0)
    left, decode = tokens - slots * seqs, seqs * launch.query
    sums = f"{seqs} sequences x {launch.query} tokens = {decode:,} of {tokens:,}; {left:,} to schedule"
    if left <= 0:
        yield fails("no token is left to schedule", sums, f"--max-num-batched-tokens {slots * seqs + PREFILL_ROOM}")
    elif decode > tokens:
        yield fails("a full decode batch does not fit one step", sums, f"--max-num-seqs {tokens // launch.query}")
    elif decode == tokens:
        yield warns("a full decode batch leaves no room for prefill", sums)
    else:
        yield passes("a full decode batch leaves room for prefill", sums)


def positions(subject: Subject, launch: Launch) -> Said:
    """S5: what each draft position must show afterwards."""
    spec = launch.speculation
    if spec is None or spec.length is None or not 1 <= spec.length <= spec.drafts + 1:
        return
    rates = schedule(spec.length, spec.drafts).rates
    yield Expectation("acceptance_length", "==", spec.length, "tokens")
    for index, rate in enumerate(rates):
        yield Expectation(f"acceptance_rate_position_{index}", "==", round(rate, 3))
    yield passes("per-position acceptance is prescribed exactly", ", ".join(f"{rate:.3f}" for rate in rates))


_READ = "vLLM 0.26, read"
_AT = ("speculative-config", "speculative-algorithm", "spec-decode-acceptance-length")
RULES = (
    Rule("S1", "Acceptance length is golden", golden,
         "A typed length makes throughput up. It must be the committed measurement for model, mode and draft count.",
         "InferenceX's golden_al_distribution", "DeepSeek-V4-Pro, three MTP drafts, thinking on: 2.49.", at=_AT),
    Rule("S2", "Accuracy runs verify for real", evaluation,
         "Prescribed acceptance emits drafts that the model would have rejected.", "InferenceX's recipes, read",
         "EVAL_ONLY=true with synthetic_acceptance_length fails.", at=_AT),
    Rule("S3", "Drafts and length belong together", coupling,
         "A draft count that can be changed apart from the length measures neither.", _READ,
         "A length of 2.27 is the golden one of two drafts: with three it fails.", at=_AT),
    Rule("S4", "Drafts fit a step", budget,
         "Every decoding sequence takes 1 + N tokens of the step's budget before any prefill.", _READ,
         "448 sequences x 4 = 1,792 of 8,192 tokens.", at=("max-num-batched-tokens", "max-num-seqs"),
         engines=("vllm", "atom")),
    Rule("S5", "Per-position acceptance", positions,
         "The synthetic sampler follows the schedule of least variance, so each position's rate is exact evidence.",
         _READ, "2.49 with three drafts: 1.000, 0.490, 0.000.", at=_AT),
)  # fmt: skip
