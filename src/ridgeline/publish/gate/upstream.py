"""Whether a change starts its servers as a published upstream recipe does, in what matters for the measured result.

In: the server commands that the change's scripts start (as a dry run saw them) and the text of the linked recipe. Out:
a `Comparison`: equal, different in named arguments, or not to be told by a machine. Knobs of the harness (ports, memory
shares, limits of a step) may differ.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from ridgeline.core.deployment import Item
from ridgeline.engine.argv import flags_of, last
from ridgeline.plan.shell.recover import part_of

LONGEST, LINE, MOST = 400_000, 8_000, 50  # characters of a recipe and of a command, and commands, that are looked at
_START = re.compile(r"(?:vllm serve|sglang serve|trtllm-serve|atom serve|python3? -m (?:vllm|sglang|atom)\.[\w.]+)\b")
_MODEL = ("model", "model-path", "served-model-name")
# Argument -> the flags that say it, and what holds when none does.
MAJOR: Mapping[str, tuple[tuple[str, ...], str]] = {
    "model": (_MODEL, ""),
    "tensor parallelism": (("tensor-parallel-size", "tp-size", "tp"), "1"),
    "data parallelism": (("data-parallel-size", "dp-size", "dp"), "1"),
    "pipeline parallelism": (("pipeline-parallel-size", "pp-size"), "1"),
    "decode context parallelism": (("decode-context-parallel-size",), "1"),
    "expert parallelism": (("enable-expert-parallel", "ep-size", "ep"), "off"),
    "data-parallel attention": (("enable-dp-attention",), "off"),
    "quantisation": (("quantization",), "as the checkpoint says"),
    "KV cache type": (("kv-cache-dtype",), "auto"),
    "attention kernels": (("attention-backend",), "chosen by the engine"),
    "expert kernels": (("moe-backend", "moe-runner-backend", "all2all-backend", "moe-a2a-backend"), "chosen"),
}


class Server(NamedTuple):
    """One engine command that a script of the change starts for a cell, on GPUs of this name."""

    cell: str
    gpu: str
    argv: tuple[str, ...]


class Comparison(NamedTuple):
    """`equal` None: a human has to look, at what `said` names."""

    equal: bool | None
    said: str


def compare(servers: Sequence[Server], recipe: str) -> Comparison:
    """The change's servers against a recipe's text. Each kind of server must have a command of the recipe that is equal
    in all major arguments, on hardware that the recipe names."""
    theirs = [arguments(words) for words in commands(recipe)]
    if not theirs:
        return Comparison(None, "it holds no server command that could be read")
    gpus = sorted({server.gpu for server in servers if server.gpu.lower() not in recipe.lower()})
    if gpus:
        return Comparison(None, f"it does not name {', '.join(gpus)}")
    if any("$" in value or "<" in value for command in theirs for value in command.values()):
        return Comparison(None, "its commands hold placeholders")
    for server in servers:
        mine = arguments(server.argv)
        odd = min((_differences(mine, command) for command in theirs), key=len)
        if odd:
            return Comparison(False, f"`{server.cell}` differs from every command of it: {'; '.join(odd)}")
    return Comparison(True, f"{len(servers)} servers are equal to it in {', '.join(MAJOR)} and hardware")


def commands(text: str) -> list[list[str]]:
    """The server commands of a page or a script, words as a shell would give them."""
    joined = re.sub(r"\\\r?\n\s*", " ", text[:LONGEST])
    found = []
    for match in islice(_START.finditer(joined), MOST):
        stop = joined.find("\n", match.start())
        line = joined[match.start() : stop if stop >= 0 else None][:LINE].rstrip("`")
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # an open quote: prose, or a command over several lines that cannot be read
            continue
        end = next(
            (index for index, word in enumerate(words) if word in ("&&", "||", ";", "|", ">", "&", "2>&1")), None
        )
        if len(words) > 2 and part_of(words[:end]):
            found.append(words[:end])
    return found


def arguments(argv: Iterable[str]) -> dict[str, str]:
    """The major arguments of a command, each with its value or its default."""
    before, flags = flags_of([Item(word) for word in argv])
    said = last(flags)
    found = {}
    for name, (options, default) in MAJOR.items():
        flag = next((said[option] for option in options if option in said), None)
        found[name] = default if flag is None else (flag.value or "on").lower()
    positional = [word for word in before if word not in ("vllm", "sglang", "atom", "serve", "trtllm-serve")]
    if not found["model"] and positional and "/" in positional[-1]:
        found["model"] = positional[-1].lower()
    return found


def _differences(mine: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    return [f"{name} {mine[name]}, there {theirs[name]}" for name in MAJOR if mine[name] != theirs[name]]
