"""Rules about background jobs: their PIDs, their readiness, their ports, and what is waited for."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from ridgeline.core.finding import Verdict
from ridgeline.plan.shell.facts import SERVICES, Command, Facts, Job
from ridgeline.plan.shell.rule import Hit, Rule
from ridgeline.plan.shell.script import Node, unquoted

LONG_SLEEP_S = 30
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
PROBES = ("curl", "wget", "nc", "ncat", "grpcurl")
PROBE_NAMES = re.compile(r"ready|health|probe|wait_for|wait-for|until_up")
PORT_OPTION = re.compile(r"^--?[\w-]*port(?:=(\d+))?$")
PORT_NAME = re.compile(r"PORT", re.IGNORECASE)
LEAST_PORT = 1024


def no_pid(facts: Facts) -> Iterator[Hit]:
    for job in facts.jobs:
        if _capture(facts, job) is None:
            yield Hit(job.node, f"`{_short(job)}` goes to the background, and its PID is not kept")


def late_pid(facts: Facts) -> Iterator[Hit]:
    for job in facts.jobs:
        found = _capture(facts, job)
        if found and found[1]:
            between = found[1][0]
            yield Hit(
                found[0],
                f"the PID of line {job.node.line} is kept only after `{_line(between.text)}` of line {between.line}",
            )


def _capture(facts: Facts, job: Job) -> tuple[Node, list[Node]] | None:
    """The statement that takes the job's PID, and the statements between; None when the next job comes first."""
    parent = job.node.parent
    if parent is None:
        return None
    between: list[Node] = []
    for index in range(job.end.order + 1, len(parent.children)):
        node = parent.children[index]
        if any(part.kind == "special_variable_name" and part.text == "!" for part in node.below):
            return node, between
        if id(node) in facts.job_nodes:
            return None
        if node.kind not in ("comment", ";", "&", ";;", "\n") and node.text.strip():
            between.append(node)
    return None


def alive_is_not_ready(facts: Facts) -> Iterator[Hit]:
    """Between a service and the next job: something that sleeps or asks whether the process lives, and no probe."""
    jobs = sorted(facts.jobs, key=lambda job: job.node.start)
    starts = [command.node.start for command in facts.commands]
    for index, job in enumerate(jobs):
        if not SERVICES.search(job.text):
            continue
        end = jobs[index + 1].node.start if index + 1 < len(jobs) else len(facts.script.source)
        span = facts.commands[bisect_left(starts, job.end.end) : bisect_left(starts, end)]
        waits = [c for c in span if c.name == "sleep" or (c.name == "kill" and "-0" in c.args)]
        if waits and not any(_probes(facts, command) for command in span):
            yield Hit(waits[0].node, f"whether `{_short(job)}` of line {job.node.line} answers is never asked")


def _probes(facts: Facts, command: Command) -> bool:
    text = command.node.parent.text if command.node.parent else command.node.text
    body = facts.functions.get(command.name)
    if body is not None and any(f"{probe} " in body.text for probe in PROBES):
        return True
    return (
        unquoted(command.name) in PROBES
        or PROBE_NAMES.search(command.name) is not None
        or "/dev/tcp/" in text
        or (command.name.startswith("python") and re.search(r"socket|urllib|requests|httpx", text) is not None)
    )


def long_sleep(facts: Facts) -> Iterator[Hit]:
    for command in facts.commands:
        if command.name != "sleep":
            continue
        total = 0.0
        for word in command.args:
            match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", unquoted(word))
            total += float(match[1]) * UNITS[match[2]] if match else 0.0
        if total >= LONG_SLEEP_S:
            yield Hit(command.node, f"waits {total:g} s whatever happens")


def fixed_port(facts: Facts) -> Iterator[Hit]:
    for command in facts.commands:
        yield from _port_options(command.node, command.words)
    for item in facts.assignments:
        if item.value.startswith("("):
            array = [child.text for child in item.node.children[-1].children if child.kind not in ("(", ")")]
            yield from _port_options(item.node, tuple(array))
        elif PORT_NAME.search(item.name) and (number := _port(item.value)) is not None:
            yield Hit(item.node, f"`{item.name}` is always {number}")


def _port_options(node: Node, words: tuple[str, ...]) -> Iterator[Hit]:
    for word, following in zip(words, (*words[1:], ""), strict=False):
        option = PORT_OPTION.match(unquoted(word))
        if option is None:
            continue
        number = _port(option[1] or following)
        if number is not None:
            yield Hit(node, f"`{option[0].partition('=')[0]}` is always {number}")


def _port(text: str) -> str | None:
    """A port that is written down: a number, or arithmetic that starts from one. Defaults may be overridden."""
    plain = unquoted(text)
    if re.fullmatch(r"\d+", plain):
        return plain if int(plain) >= LEAST_PORT else None
    if plain.startswith("$((") and (match := re.search(r"\b(\d{4,5})\b", plain)):
        return f"{match[1]} and on"
    return None


def _short(job: Job) -> str:
    return _line(job.node.text)


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 48 else line[:45] + "..."


STOP = "trap 'kill $SERVER_PID $STORE_PID' EXIT INT TERM\n"

RULES = (
    Rule(
        "L03",
        "A background job whose PID is not kept",
        Verdict.WARN,
        "What has no PID cannot be watched while it runs nor stopped at the end.",
        "Follow the `&` with `X_PID=$!`, and stop it in the EXIT handler.",
        "trap 'kill $SERVER_PID' EXIT INT TERM\nnvidia-smi dmon > gpu.log &\nrun_client\n",
        "trap 'kill $WATCH_PID' EXIT INT TERM\nnvidia-smi dmon > gpu.log &\nWATCH_PID=$!\nrun_client\n",
        no_pid,
    ),
    Rule(
        "L04",
        "A PID that is kept late",
        Verdict.WARN,
        "Until the PID is kept, a death of the job goes unseen and a handler has nothing to stop.",
        "Keep the PID on the line after the `&`.",
        STOP + 'vllm serve "$MODEL" &\nsleep 10\nSERVER_PID=$!\nwait_for_ready\n',
        STOP + 'vllm serve "$MODEL" &\nSERVER_PID=$!\nsleep 10\nwait_for_ready\n',
        late_pid,
    ),
    Rule(
        "L10",
        "Alive is taken for ready",
        Verdict.WARN,
        "A process may live and not listen yet: the engine then starts without its store, or fails on first use.",
        "Ask the service itself: its health page, or a connection to its port, with a time limit.",
        STOP + 'mooncake_master &\nSTORE_PID=$!\nsleep 5\nkill -0 "$STORE_PID"\n'
        'vllm serve "$MODEL" &\nSERVER_PID=$!\nwait_for_ready\n',
        STOP + 'mooncake_master &\nSTORE_PID=$!\nuntil curl -fs "localhost:$METRICS/health"; do sleep 1; done\n'
        'vllm serve "$MODEL" &\nSERVER_PID=$!\nwait_for_ready\n',
        alive_is_not_ready,
    ),
    Rule(
        "L11",
        "A long fixed sleep",
        Verdict.WARN,
        "It is too long on most runs, each a rented minute, and too short on the one that matters.",
        "Wait for a condition, with a time limit.",
        "sleep 180\nrun_client\n",
        "timeout 180 bash -c 'until curl -fs \"$URL/health\"; do sleep 2; done'\nrun_client\n",
        long_sleep,
    ),
    Rule(
        "L26",
        "A fixed port",
        Verdict.WARN,
        "Two jobs on one machine, or a service that outlived the last run, take the same port: the second fails, or "
        "worse, talks to the first.",
        "Take ports from the job's own range, or let them be given: `PORT=${PORT:-8888}`.",
        "lmcache server --port 5555 --http-port 8080\n",
        'lmcache server --port "$CACHE_PORT" --http-port "$CACHE_HTTP_PORT"\n',
        fixed_port,
    ),
)
