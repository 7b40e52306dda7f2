"""What a script does, read off its tree: commands, background jobs, captured PIDs, traps, functions, variables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ridgeline.plan.shell.script import Node, Script, exclusive, function_of, in_subshell, parse, unquoted

SIGNALS = {"0": "EXIT", "1": "HUP", "2": "INT", "3": "QUIT", "15": "TERM"}
WRAPPERS = {
    "exec",
    "nohup",
    "setsid",
    "env",
    "time",
    "nice",
    "numactl",
    "taskset",
    "stdbuf",
    "command",
    "sudo",
    "timeout",
}
MOST_LIVE = 24  # handlers of different branches that are compared with the next one
HANDLER_DEPTH = 4  # handlers that call functions that set handlers: enough for any script, and an end for hostile ones

ENGINES = re.compile(
    r"\bvllm serve\b|vllm\.entrypoints|sglang\.launch_server|\btrtllm-serve\b|atom\.entrypoints|\bdynamo\.(vllm|sglang)"
)
SERVICES = re.compile(
    ENGINES.pattern + r"|\bmooncake_(master|client)\b|\blmcache\b|\bvllm-router\b|sglang_router|\betcd\b|nats-server|"
    r"\bdynamo\.frontend\b|http\.server"
)


class Command(NamedTuple):
    """A simple command: its words as written, quotes included."""

    node: Node
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        return unquoted(self.words[0]) if self.words else ""

    @property
    def args(self) -> tuple[str, ...]:
        return self.words[1:]


class Trap(NamedTuple):
    """`trap HANDLER SIGNAL...`, signals by their names without SIG."""

    node: Node
    handler: str
    signals: tuple[str, ...]


class Capture(NamedTuple):
    """A variable that takes `$!`."""

    node: Node
    name: str


class Job(NamedTuple):
    """A command sent to the background. `text`: what it runs, arrays and functions of the script resolved."""

    node: Node
    end: Node  # the `&`
    text: str


class Assignment(NamedTuple):
    node: Node
    name: str
    value: str
    exported: bool


@dataclass
class Facts:
    """Everything the rules ask. Computed when asked, once."""

    script: Script

    @cached_property
    def commands(self) -> list[Command]:
        return [_command(node) for node in self.script.of("command")]

    @cached_property
    def functions(self) -> dict[str, Node]:
        """Bodies by name; the last definition wins, as in the shell."""
        found = {}
        for node in self.script.of("function_definition"):
            name = next((child.text for child in node.children if child.kind == "word"), "")
            found[name] = node
        return found

    @cached_property
    def assignments(self) -> list[Assignment]:
        """Variables of the shell itself: not those before a command, which are only the command's."""
        found = []
        for node in self.script.of("variable_assignment"):
            if node.parent is not None and node.parent.kind == "command":
                continue
            name, value = _assigned(node)
            exported = node.parent is not None and _exports(node.parent)
            found.append(Assignment(node, name, value, exported))
        return found

    def arrays(self, name: str) -> str:
        """Everything assigned to a variable, for the words of a command in an array."""
        return " ".join(item.value for item in self.assignments if item.name == name)

    @cached_property
    def traps(self) -> list[Trap]:
        found = []
        for command in self.commands:
            if command.name != "trap" or len(command.args) < 2 or command.args[0] in ("-l", "-p"):
                continue
            words = command.args[1:] if command.args[0] == "--" else command.args
            signals = tuple(_signal(word) for word in words[1:])
            found.append(Trap(command.node, unquoted(words[0]), signals))
        return found

    @cached_property
    def exit_traps(self) -> list[Trap]:
        """Live EXIT handlers of the script's own shell."""
        return [t for t in self.traps if "EXIT" in t.signals and t.handler not in ("-", "") and not in_subshell(t.node)]

    @cached_property
    def jobs(self) -> list[Job]:
        found = []
        for node in self.script.nodes:
            for before, after in zip(node.children, node.children[1:], strict=False):
                if after.kind == "&" and before.kind not in ("heredoc_body", "comment"):
                    found.append(Job(before, after, self._resolved(before)))
        return found

    @cached_property
    def job_nodes(self) -> set[int]:
        """Identities of the jobs' nodes."""
        return {id(job.node) for job in self.jobs}

    def _resolved(self, node: Node) -> str:
        """The text of a job with one round of its arrays and functions filled in."""
        text = node.text
        for name in dict.fromkeys(re.findall(r"\$\{(\w+)\[[@*]\]\}", text)):
            text += " " + self.arrays(name)
        for part in node.below:
            if part.kind == "command":
                body = self.functions.get(_command(part).name)
                text += " " + body.text if body is not None else ""
        return text

    @cached_property
    def captures(self) -> list[Capture]:
        """`X=$!` and `X+=($!)`, wherever they stand."""
        found = []
        for node in self.script.of("variable_assignment"):
            if any(part.kind == "special_variable_name" and part.text == "!" for part in node.below):
                found.append(Capture(node, _assigned(node)[0]))
        return found

    @cached_property
    def pid_names(self) -> dict[str, Node]:
        """Variables that hold PIDs, with where they take them first."""
        found: dict[str, Node] = {}
        for capture in self.captures:
            found.setdefault(capture.name, capture.node)
        return found

    @cached_property
    def sources(self) -> bool:
        """Whether the script takes in other files, whose functions are not known here."""
        return any(command.name in (".", "source") for command in self.commands)

    @cached_property
    def options(self) -> set[str]:
        """Shell options it turns on anywhere: `errexit`, `nounset`, `pipefail`, ..."""
        letters = {"e": "errexit", "u": "nounset", "a": "allexport", "x": "xtrace"}
        found: set[str] = set()
        first = self.script.text.split("\n", 1)[0]
        words = [["set", *first.split()[1:]]] if first.startswith("#!") else []
        words += [list(command.words) for command in self.commands if command.name == "set"]
        for line in words:
            for index, word in enumerate(line[1:], 1):
                if word.startswith("-") and not word.startswith("--"):
                    found |= {letters[letter] for letter in word[1:] if letter in letters}
                    if word.endswith("o") and index + 1 < len(line):
                        found.add(line[index + 1])
        return found

    def reached(self, handler: str) -> tuple[str, bool]:
        """Text of a handler and of everything it calls, and whether it calls what is not defined here."""
        seen: set[str] = set()
        queue, text, foreign = [(handler, 0)], [], False
        while queue:
            body, depth = queue.pop()
            text.append(body)
            for node in parse(body.encode()).of("command"):
                name = _command(node).name
                if name in seen:
                    continue
                seen.add(name)
                if name in self.functions and depth < HANDLER_DEPTH:
                    queue.append((_body(self.functions[name]), depth + 1))
                elif self.sources and re.fullmatch(r"\w*_\w+", name):
                    foreign = True  # a name in a library's style
        return "\n".join(text), foreign

    def overwritten(self) -> list[tuple[Trap, Trap]]:
        """Pairs of EXIT handlers of which the second silently drops the first."""
        pairs = []
        live: list[Trap] = []
        for trap in self.traps:
            if "EXIT" not in trap.signals or in_subshell(trap.node) or function_of(trap.node) is not None:
                continue
            if trap.handler in ("-", ""):
                live = []
                continue
            for before in live:
                if not exclusive(before.node, trap.node) and before.handler not in trap.handler:
                    pairs.append((before, trap))
            live = [*(before for before in live if exclusive(before.node, trap.node)), trap][-MOST_LIVE:]
        return pairs


def names_in(text: str) -> set[str]:
    """Variables that a text expands."""
    return set(re.findall(r"\$\{?[!#]?(\w+)", text))


def _command(node: Node) -> Command:
    parts = [child for child in node.children if child.kind != "variable_assignment" and "redirect" not in child.kind]
    return Command(node, tuple(part.text for part in parts))


def _assigned(node: Node) -> tuple[str, str]:
    """Name and value text of an assignment; `a[i]=x` assigns to a."""
    target = node.children[0] if node.children else node
    name = re.match(r"\w*", target.text)
    value = " ".join(child.text for child in node.children[2:])
    return (name[0] if name else ""), value


def _exports(node: Node) -> bool:
    words = [child.text for child in node.children if child.kind != "variable_assignment"]
    return (
        node.kind == "declaration_command"
        and bool(words)
        and (words[0] == "export" or any(re.fullmatch(r"-\w*x\w*", word) for word in words[1:]))
    )


def _signal(word: str) -> str:
    plain = unquoted(word).upper().removeprefix("SIG")
    return SIGNALS.get(plain, plain)


def _body(node: Node) -> str:
    return next((child.text for child in reversed(node.children) if child.kind != "comment"), "")
