"""Changes that would make a rule pass, found by search: each candidate is applied and the rule is asked again.

Candidates are tried from the nearest outwards: one option by one step, then larger steps, then layouts. What is offered
has passed; nothing is offered because it usually helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from ridgeline.core.finding import Change
from ridgeline.core.units import GIB
from ridgeline.engine.argv import with_value, without
from ridgeline.engine.launch import Launch
from ridgeline.engine.memory import roomy
from ridgeline.plan.checks.subject import Subject

MOST = 3  # hints shown


def after_change(subject: Subject, change: Change) -> Subject:
    """The subject after a change, its launches read anew."""
    assert subject.deployment is not None
    service = subject.deployment.service(change.service)
    argv = without(service.argv, change.flag) if change.remove else with_value(service.argv, change.flag, change.value)
    after = subject.with_service(replace(service, argv=argv))
    if change.arm and subject.cell.arm.topology:
        key, value = change.arm
        own = subject.cell.arm.topology
        topology = replace(own, ep=value) if key == "ep" else replace(own, tp=value)
        after = replace(after, cell=replace(subject.cell, arm=replace(subject.cell.arm, topology=topology)))
    return after


def passing(
    subject: Subject, candidates: Iterable[Change], good: Callable[[Subject], bool], most: int = MOST
) -> list[Change]:
    """The first `most` candidates after which `good` holds; of one flag only the first."""
    found: list[Change] = []
    for change in candidates:
        if len(found) == most:
            break
        if change.flag not in {other.flag for other in found} and good(after_change(subject, change)):
            found.append(change)
    return found


def hint_of(changes: Iterable[Change], note: Callable[[Change], str] = lambda change: "") -> str | None:
    """Changes in words, nearest first, each with a note."""
    return "; or ".join(change.text + note(change) for change in changes) or None


def memory_moves(subject: Subject, launch: Launch) -> Iterator[Change]:
    """What frees cache or lowers the need, nearest first: utilisation, batched tokens, async scheduling, expert
    parallelism, tensor parallelism, length where the policy allows."""
    name = launch.service.name

    def flag(option: str, value: str | None = None) -> Change:
        return Change(name, option, value, f"--{option}" + (f" {value}" if value is not None else ""))

    total, free = subject.gpu.memory_bytes / GIB, subject.free_gib
    if free is not None and launch.kv_bytes is None:
        best = round(100 * roomy(free, total))
        first = round(100 * launch.utilization) + 1
        yield from (flag("gpu-memory-utilization", f"{share / 100:.2f}") for share in range(first, best + 1))
    budget, least = (launch.budget or 0) // 2, max(512, (launch.max_num_seqs or 0) * launch.query)
    while budget >= least:
        yield flag("max-num-batched-tokens", str(budget))
        budget //= 2
    if launch.async_scheduling:
        yield flag("no-async-scheduling")
    yield from layout_moves(subject, launch)
    length = -(-subject.workload.longest // 1024) * 1024
    exact = not subject.workload.assumed and subject.cell.scenario.kind == "fixed-seq-len"
    if length < (launch.max_model_len or subject.arch.max_len) and (subject.known.shorter or exact):
        yield flag("max-model-len", str(length))


def layout_moves(subject: Subject, launch: Launch) -> Iterator[Change]:
    """Layouts that put fewer weights on a GPU."""
    topology, name = launch.topology, launch.service.name
    if subject.arch.moe and topology.ep == 1 and topology.gpus > 1:
        text = f"--enable-expert-parallel, with ep: {topology.gpus} in the search space"
        yield Change(name, "enable-expert-parallel", None, text, arm=("ep", topology.gpus))
    if not topology.dp_attn and topology.ep == 1 and topology.tp < subject.gpu.link_world:
        tp = topology.tp * 2
        text = f"--tensor-parallel-size {tp}, with tp: {tp} in the search space"
        yield Change(name, "tensor-parallel-size", str(tp), text, arm=("tp", tp))
