"""S1 to S5: draft tokens, and acceptance lengths that come from measurement and not from a keyboard."""

from __future__ import annotations

from ridgeline.core.finding import Expectation
from ridgeline.engine.acceptance import golden_lengths, schedule
from ridgeline.engine.launch import Launch, Speculation
from ridgeline.plan.checks.rule import Rule, Said, fails, passes, unknown, warns
from ridgeline.plan.checks.subject import Subject

PREFILL_ROOM = 8192  # vLLM warns when fewer tokens a step are left for scheduling
_WHERE = ("speculative-config", "speculative-algorithm", "spec-decode-acceptance-length")
_EVAL = ("EVAL_ONLY", "RUN_EVAL_ONLY")


def _speculating(subject: Subject) -> list[tuple[Launch, Speculation]]:
    return [(launch, launch.speculation) for launch in subject.launches if launch.speculation]


def golden(subject: Subject) -> Said:
    """S1: the acceptance length is a committed one."""
    asked = subject.cell.arm.spec_decoding
    for launch in subject.launches:
        if asked != "none" and launch.speculation is None:
            yield fails(f"the cell asks for `{asked}`, the command line drafts nothing", where=launch.where(*_WHERE))
        if asked == "none" and launch.speculation is not None:
            yield fails("the command line drafts tokens, the cell says none", where=launch.where(*_WHERE))
    for launch, spec in _speculating(subject):
        where = launch.where(*_WHERE)
        if spec.length is None:
            yield passes("acceptance is real, not prescribed", where=where)
            continue
        name = subject.cell.benchmark.model
        found = golden_lengths(subject.known.curves, name, spec.drafts, method=_plain(spec.method))
        if not found:
            text = "no committed golden length" if subject.known.curves else "no golden lengths were given"
            verdict = fails if subject.known.curves else unknown
            yield verdict(
                f"{text} for {name} with {spec.drafts} drafts",
                where=where,
                hint=None if subject.known.curves else "--golden FOLDER",
            )
        elif any(round(item.length, 2) == round(spec.length, 2) for item in found):
            item = next(item for item in found if round(item.length, 2) == round(spec.length, 2))
            yield passes(
                f"acceptance length {spec.length:g} is {item.curve.variant}'s for {spec.drafts} drafts", where=where
            )
        else:
            known = ", ".join(f"{item.length:g} ({item.curve.variant})" for item in found)
            yield fails(
                f"acceptance length {spec.length:g} is not the golden one",
                f"golden for {spec.drafts} drafts: {known}",
                where=where,
                hint=f"synthetic_acceptance_length {found[0].length:g}",
            )


def _plain(method: str) -> str:
    return "" if method in ("NEXTN", "EAGLE", "draft_model") else method.lower()


def evaluation(subject: Subject) -> Said:
    """S2: accuracy runs verify drafts for real."""
    for launch, spec in _speculating(subject):
        on = [name for name in _EVAL if name in launch.env and launch.env[name].text.lower() in ("1", "true")]
        if spec.length is not None and on:
            yield fails(
                f"an accuracy run ({on[0]}) with prescribed acceptance judges made-up text",
                where=launch.where(*_WHERE),
                hint="drop every synthetic setting when evaluating",
            )
        else:
            yield passes("no prescribed acceptance in an accuracy run", where=launch.where(*_WHERE))


def coupling(subject: Subject) -> Said:
    """S3: draft count and length belong together."""
    for launch, spec in _speculating(subject):
        where = launch.where(*_WHERE)
        if spec.length is None:
            continue
        if spec.rejection == "standard" and launch.build.kind == "vllm":
            yield fails(
                "an acceptance length is given, but drafts are verified the standard way",
                where=where,
                hint='"rejection_sample_method": "synthetic"',
            )
            continue
        if not 1 <= spec.length <= spec.drafts + 1:
            yield fails(f"acceptance length {spec.length:g} is outside [1, {spec.drafts + 1}]", where=where)
            continue
        others = [
            drafts
            for curve in subject.known.curves
            for drafts, length in curve.lengths.items()
            if drafts != spec.drafts and round(length, 2) == round(spec.length, 2)
            and golden_lengths([curve], subject.cell.benchmark.model, drafts)
        ]  # fmt: skip
        right = golden_lengths(subject.known.curves, subject.cell.benchmark.model, spec.drafts)
        if others and all(round(item.length, 2) != round(spec.length, 2) for item in right):
            yield fails(
                f"acceptance length {spec.length:g} was measured with {others[0]} drafts, not {spec.drafts}",
                where=where,
                hint="take both from one row of the golden file",
            )
        elif spec.drafts > int(spec.length) + 1:
            extra = spec.drafts - int(spec.length) - 1
            yield warns(
                f"the last {extra} draft position{'s' if extra > 1 else ''} can never be accepted, yet each step "
                "verifies them",
                f"length {spec.length:g}: positions "
                f"{', '.join(f'{r:g}' for r in schedule(spec.length, spec.drafts).rates)}",
                where=where,
            )
        else:
            yield passes("draft count and acceptance length belong together", where=where)


def budget(subject: Subject) -> Said:
    """S4: all sequences' drafts fit one step's tokens."""
    for launch, spec in _speculating(subject):
        where = launch.where("max-num-batched-tokens", "max-num-seqs", "chunked-prefill-size")
        if launch.build.kind in ("sglang", "trt") or launch.budget is None or launch.max_num_seqs is None:
            continue
        slots = {"draft_model": 1, "dspark": spec.drafts - 1, "parallel": spec.drafts - 1}.get(spec.method, 0)
        left = launch.budget - slots * launch.max_num_seqs
        decode = launch.max_num_seqs * launch.query
        sums = f"{launch.max_num_seqs} sequences x {launch.query} tokens = {decode:,} of {launch.budget:,}; {left:,} "
        "to schedule"
        if left <= 0:
            yield fails(
                "no token is left to schedule",
                sums,
                where=where,
                hint=f"--max-num-batched-tokens {slots * launch.max_num_seqs + PREFILL_ROOM}",
            )
        elif decode > launch.budget:
            yield fails(
                "a full decode batch does not fit one step",
                sums,
                where=where,
                hint=f"--max-num-seqs {launch.budget // launch.query}",
            )
        elif decode == launch.budget:
            yield warns("a full decode batch leaves no room for prefill", sums, where=where)
        else:
            yield passes("a full decode batch leaves room for prefill", sums, where)


def positions(subject: Subject) -> Said:
    """S5: what each draft position must show afterwards."""
    for launch, spec in _speculating(subject):
        if spec.length is None or not 1 <= spec.length <= spec.drafts + 1:
            continue
        rates = schedule(spec.length, spec.drafts).rates
        yield Expectation("acceptance_length", "==", spec.length, "tokens")
        for index, rate in enumerate(rates):
            yield Expectation(f"acceptance_rate_position_{index}", "==", round(rate, 3))
        yield passes(
            "per-position acceptance is prescribed exactly",
            ", ".join(f"{rate:.3f}" for rate in rates),
            launch.where(*_WHERE),
        )


RULES = (
    Rule("S1", "Acceptance length is golden", golden,
         "A typed length makes throughput up. It must be the committed measurement for model, mode and draft count.",
         "InferenceX's golden_al_distribution", "DeepSeek-V4-Pro, three MTP drafts, thinking on: 2.49."),
    Rule("S2", "Accuracy runs verify for real", evaluation,
         "Prescribed acceptance emits drafts that the model would have rejected.", "InferenceX's recipes, read",
         "EVAL_ONLY=true with synthetic_acceptance_length fails."),
    Rule("S3", "Drafts and length belong together", coupling,
         "A draft count that can be changed apart from the length measures neither.", "vLLM 0.26, read",
         "A length of 2.27 is the golden one of two drafts: with three it fails."),
    Rule("S4", "Drafts fit a step", budget,
         "Every decoding sequence takes 1 + N tokens of the step's budget before any prefill.", "vLLM 0.26, read",
         "448 sequences x 4 = 1,792 of 8,192 tokens."),
    Rule("S5", "Per-position acceptance", positions,
         "The synthetic sampler follows the schedule of least variance, so each position's rate is exact evidence.",
         "vLLM 0.26, read", "2.49 with three drafts: 1.000, 0.490, 0.000."),
)  # fmt: skip
