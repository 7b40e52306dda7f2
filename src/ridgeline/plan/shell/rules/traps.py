"""Rules about EXIT handlers: who stops what was started, however the script ends."""

from __future__ import annotations

from collections.abc import Iterator

from ridgeline.core.finding import Verdict
from ridgeline.plan.shell.facts import ENGINES, Facts, names_in
from ridgeline.plan.shell.rule import Hit, Rule
from ridgeline.plan.shell.script import function_of, in_branch, unquoted

# Words in a handler that stop everything the shell started, whatever it is called.
ALL = ("jobs -p", "kill 0", "kill -- -$$", "kill -TERM 0", "kill -9 0", "pkill -P", "-$$")
STOPS = ("kill", "pkill", "killall")


def overwritten(facts: Facts) -> Iterator[Hit]:
    for first, second in facts.overwritten():
        yield Hit(
            second.node,
            f"it replaces the one of line {first.node.line} (`{_short(first.handler)}`), which never runs",
        )


def no_handler(facts: Facts) -> Iterator[Hit]:
    if facts.exit_traps or any("EXIT" in trap.signals for trap in facts.traps):
        return
    for name, node in facts.pid_names.items():
        yield Hit(node, f"`{name}` is started in the background, and no EXIT handler stops it when the script ends")
        return


def not_stopped(facts: Facts) -> Iterator[Hit]:
    """A PID counts as stopped when the last handler, or what it calls, names it, or names a list it was put into."""
    if not facts.exit_traps:
        return
    last = facts.exit_traps[-1]
    text, foreign = facts.reached(last.handler)
    if foreign or any(word in text for word in ALL):
        return
    named, queue = set(), list(names_in(text))
    held: dict[str, set[str]] = {}
    for item in facts.assignments:
        held.setdefault(item.name, set()).update(names_in(item.value))
    while queue:  # a list of PIDs, a list of such lists, ...
        name = queue.pop()
        if name not in named:
            named.add(name)
            queue += held.get(name, ())
    for name, node in facts.pid_names.items():
        if name not in named:
            where = f"the EXIT handler of line {last.node.line} (`{_short(last.handler)}`)"
            yield Hit(node, f"`{name}` is started here, and {where} does not stop it")


def installed_late(facts: Facts) -> Iterator[Hit]:
    own = [job for job in facts.jobs if function_of(job.node) is None]
    if not facts.exit_traps or not own:
        return
    first = min(facts.exit_traps, key=lambda trap: trap.node.start)
    job = min(own, key=lambda job: job.node.start)
    if job.node.start < first.node.start:
        yield Hit(first.node, f"the first EXIT handler comes after the background job of line {job.node.line}")


def only_in_branch(facts: Facts) -> Iterator[Hit]:
    traps = facts.exit_traps
    if traps and all(in_branch(trap.node) is not None for trap in traps):
        branch = in_branch(traps[0].node)
        line = branch.line if branch else 0
        yield Hit(traps[0].node, f"EXIT handlers are set only inside the branch of line {line}: other paths have none")


def no_signals(facts: Facts) -> Iterator[Hit]:
    if not facts.exit_traps:
        return
    caught = {signal for trap in facts.traps for signal in trap.signals}
    missing = [signal for signal in ("INT", "TERM") if signal not in caught]
    if missing:
        first = facts.exit_traps[0]
        yield Hit(first.node, f"the EXIT handler has no company for {' and '.join(missing)}")


def never_stopped(facts: Facts) -> Iterator[Hit]:
    if facts.traps:
        return
    for command in facts.commands:
        if command.name in STOPS and "-0" not in command.args:
            return
        if "stop" in command.name or "cleanup" in command.name:
            return
    for job in facts.jobs:
        if ENGINES.search(job.text):
            yield Hit(job.node, "the server started here is never stopped: no handler, and no kill on the normal path")
            return


def _short(handler: str) -> str:
    line = " ".join(unquoted(handler).split())
    return line if len(line) <= 40 else line[:37] + "..."


RULES = (
    Rule(
        "L01",
        "An EXIT handler replaces another",
        Verdict.FAIL,
        "A shell has one EXIT handler: setting another drops the first without a word. What the first was to stop "
        "outlives the run, with its memory and its ports.",
        "Write one handler that stops everything in reverse order, and set it once.",
        'lmcache server --port "$CACHE_PORT" &\nCACHE_PID=$!\ntrap \'kill "$CACHE_PID"\' EXIT INT TERM\n'
        'vllm serve "$MODEL" &\nSERVER_PID=$!\ntrap \'kill "$SERVER_PID"\' EXIT INT TERM\n',
        "cleanup() { kill $SERVER_PID $CACHE_PID; }\ntrap cleanup EXIT INT TERM\n"
        'lmcache server --port "$CACHE_PORT" &\nCACHE_PID=$!\nvllm serve "$MODEL" &\nSERVER_PID=$!\n',
        overwritten,
    ),
    Rule(
        "L02",
        "A background service and no EXIT handler",
        Verdict.WARN,
        "When the script fails or is stopped, nothing ends the service: it keeps GPU memory and ports, and the next "
        "run on the machine fails.",
        "Set `trap cleanup EXIT INT TERM` before the first background job, with a handler that stops it.",
        'vllm serve "$MODEL" &\nSERVER_PID=$!\nwait_for_ready "$SERVER_PID"\nkill "$SERVER_PID"\n',
        "trap 'kill $SERVER_PID' EXIT INT TERM\n"
        'vllm serve "$MODEL" &\nSERVER_PID=$!\nwait_for_ready "$SERVER_PID"\nkill "$SERVER_PID"\n',
        no_handler,
    ),
    Rule(
        "L05",
        "A service that the EXIT handler does not stop",
        Verdict.FAIL,
        "The handler that runs at the end does not name this process, so it outlives the run.",
        "Name the PID in the handler, or in a function that it calls.",
        "cleanup() { kill $SERVER_PID; }\ntrap cleanup EXIT INT TERM\n"
        'mooncake_master &\nSTORE_PID=$!\ncurl -fs localhost:$P/health\nvllm serve "$MODEL" &\nSERVER_PID=$!\n',
        "cleanup() { kill $SERVER_PID $STORE_PID; }\ntrap cleanup EXIT INT TERM\n"
        'mooncake_master &\nSTORE_PID=$!\ncurl -fs localhost:$P/health\nvllm serve "$MODEL" &\nSERVER_PID=$!\n',
        not_stopped,
    ),
    Rule(
        "L06",
        "The EXIT handler is set after the first background job",
        Verdict.WARN,
        "A failure between the job and the handler leaves the job running.",
        "Set the handler first; let it skip PIDs that are still empty.",
        "vllm serve \"$MODEL\" &\nSERVER_PID=$!\ntrap 'kill $SERVER_PID' EXIT INT TERM\n",
        "trap 'kill $SERVER_PID' EXIT INT TERM\nvllm serve \"$MODEL\" &\nSERVER_PID=$!\n",
        installed_late,
    ),
    Rule(
        "L07",
        "The EXIT handler is set in one branch only",
        Verdict.WARN,
        "Runs that take another branch have no handler at all.",
        "Set the handler outside of the branch, once, for every path.",
        "if [ \"$CACHE\" = yes ]; then\n  trap 'kill $SERVER_PID' EXIT INT TERM\nfi\n"
        'vllm serve "$MODEL" &\nSERVER_PID=$!\n',
        "trap 'kill $SERVER_PID' EXIT INT TERM\nvllm serve \"$MODEL\" &\nSERVER_PID=$!\n",
        only_in_branch,
    ),
    Rule(
        "L08",
        "An EXIT handler without INT and TERM",
        Verdict.WARN,
        "After a fatal signal bash runs the EXIT handler only once the foreground command has returned, which a "
        "waiting client may not do for an hour.",
        "Trap INT and TERM as well, and exit from that handler.",
        "trap 'kill $SERVER_PID' EXIT\nvllm serve \"$MODEL\" &\nSERVER_PID=$!\n",
        "trap 'kill $SERVER_PID' EXIT INT TERM\nvllm serve \"$MODEL\" &\nSERVER_PID=$!\n",
        no_signals,
    ),
    Rule(
        "L28",
        "A server that is never stopped",
        Verdict.WARN,
        "The script ends and the server does not. Whoever runs it must know and clean up.",
        "Stop the server at the end, and in an EXIT handler.",
        'vllm serve "$MODEL" &\nSERVER_PID=$!\nkill -0 "$SERVER_PID"\nrun_client\n',
        "trap 'kill $SERVER_PID' EXIT INT TERM\nvllm serve \"$MODEL\" &\nSERVER_PID=$!\nrun_client\n",
        never_stopped,
    ),
)
