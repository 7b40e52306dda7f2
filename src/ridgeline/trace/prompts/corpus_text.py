"""Our own text for prompts: lines that look like code, logs, diffs and talk about them, made from word lists.

No text is copied from anywhere. The same text comes out everywhere and always; only its tokens depend on a tokenizer.
"""

from __future__ import annotations

import random
from functools import cache

# fmt: off
NOUNS = (
    "account", "address", "batch", "block", "body", "bucket", "buffer", "cache", "cell", "channel", "chunk",
    "client", "clock", "column", "config", "context", "counter", "cursor", "delta", "digest", "driver", "edge",
    "entry", "error", "event", "field", "file", "filter", "frame", "graph", "handle", "header", "index",
    "input", "item", "job", "key", "lane", "layer", "ledger", "lease", "limit", "line", "list", "lock", "log",
    "map", "marker", "message", "metric", "model", "node", "offset", "option", "order", "output", "packet",
    "page", "panel", "parent", "path", "plan", "point", "policy", "pool", "prefix", "probe", "query", "queue",
    "range", "record", "region", "report", "request", "result", "route", "row", "rule", "scope", "segment",
    "series", "server", "session", "shard", "signal", "slot", "source", "span", "stage", "state", "stream",
    "table", "tail", "task", "ticket", "timer", "token", "tree", "turn", "user", "value", "vector", "version",
    "view", "window", "worker",
)
VERBS = (
    "add", "apply", "build", "check", "clear", "close", "collect", "compare", "copy", "count", "create",
    "decode", "drop", "emit", "encode", "fetch", "fill", "find", "flush", "gather", "get", "join", "keep",
    "load", "lookup", "make", "map", "merge", "move", "open", "pack", "parse", "pick", "pop", "publish", "push",
    "read", "reduce", "refresh", "release", "render", "replay", "reset", "resolve", "restore", "scan", "send",
    "shift", "sort", "split", "start", "stop", "store", "sum", "sync", "take", "trim", "update", "visit",
    "wait", "walk", "wrap", "write",
)
KINDS = (
    "int", "str", "bytes", "float", "bool", "Path", "Record", "Session", "dict[str, int]", "list[str]",
    "tuple[int, ...]", "Iterator[bytes]",
)
MOODS = (
    "now", "still", "only", "again", "never", "first", "also", "perhaps", "already", "simply",
)
# fmt: on
TEMPLATES = (
    "def {v}_{n}({m}: {k}, {o}: {k2}) -> {k3}:",
    "    {n} = {v}_{m}({o}, {i})",
    "    if {n}.{m} > {i}: return {v}_{o}({n}, {m}={j})",
    "    for {n} in self.{m}_{o}[{i}:{j}]: {v}({n})",
    "    return [{v}_{n}({m}) for {m} in {o} if {m}.{n} != {i}]",
    "class {N}{M}: '''A {n} that can {v} its {m} without a {o}.'''",
    "    assert len({n}) == {i}, f'{m} {{{o}}} has {j}'",
    "async fn {v}_{n}(&mut self, {m}: &{N}) -> Result<{M}, {O}Error> {{",
    "const {v}{N} = ({m}, {o}) => {m}.{n}({i}) ?? {o}[{j}];",
    "+    {n}.{v}({m}, timeout={i})",
    "-    {n}.{v}({o})",
    "@@ -{i},{j} +{j},{i} @@ {v}_{n}",
    "2031-0{d}-1{d} 0{d}:{a}:{b} INFO {n}.{m} {v} done in {i} ms, {j} {o}s left",
    "2031-0{d}-1{d} 0{d}:{a}:{b} WARN {n}.{m} cannot {v} {o} {i}: retry {d}",
    "src/{n}/{m}_{o}.py:{i}:{d}: {v}_{n} is {w} used",
    "tests/{n}/test_{m}.py::test_{v}_{o} PASSED [{a}%]",
    "SELECT {n}.{m}, count(*) FROM {o} WHERE {m} < {i} GROUP BY {j};",
    "The {n} should {w} {v} the {m}, since every {o} after {i} needs it.",
    "I will {v} the {n} {w}, then look at the {m} and the {o} of {N}.",
    "{{ {n}: {i}, {m}: [{j}, {a}, {b}], {o}: null }}",
    "$ {v} --{n} {i} --{m}={j} {o}.txt | {v} -{d}",
    "# {N}: {v} the {m} before the {o} is {w} gone ({i} of {j})",
)


@cache
def corpus_text(seed: int = 42, characters: int = 1_000_000) -> str:
    """Lines of ASCII without double quotes or backslashes, at least `characters` long."""
    draw = random.Random(f"ridgeline corpus {seed}")
    choice, below = draw.choice, draw.random
    lines: list[str] = []
    size = 0
    while size < characters:
        n, m, o = choice(NOUNS), choice(NOUNS), choice(NOUNS)
        line = choice(TEMPLATES).format(
            n=n,
            m=m,
            o=o,
            N=n.capitalize(),
            M=m.capitalize(),
            O=o.capitalize(),
            v=choice(VERBS),
            w=choice(MOODS),
            k=choice(KINDS),
            k2=choice(KINDS),
            k3=choice(KINDS),
            i=int(below() * 4000),
            j=int(below() * 90),
            a=10 + int(below() * 50),
            b=10 + int(below() * 50),
            d=1 + int(below() * 9),
        )
        lines.append(line)
        size += len(line) + 1
    return "\n".join(lines)
