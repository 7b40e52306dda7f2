"""Rules about what a run depends on and what it leaves to be read: pinned installs, strict mode, recorded commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ridgeline.core.finding import Verdict
from ridgeline.plan.shell.facts import ENGINES, Command, Facts
from ridgeline.plan.shell.rule import Hit, Rule
from ridgeline.plan.shell.script import Node, function_of, in_subshell, unquoted

COMMIT = re.compile(r"\b[0-9a-f]{7,40}\b")
COMMIT_NAME = re.compile(r"COMMIT|SHA|REV|REF", re.IGNORECASE)
# Options of pip that take a value, which is no package.
PIP_VALUES = {
    "-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-t",
    "--target", "--prefix", "--root", "--python", "-p", "-e", "--editable", "--only-binary", "--no-binary", "--timeout",
    "--retries", "--platform", "--abi", "--cache-dir", "--override", "--trusted-host", "--upgrade-strategy",
}  # fmt: skip
RECORDERS = ("printf", "echo", "declare", "typeset", "tee", "cat")


def moving_clone(facts: Facts) -> Iterator[Hit]:
    pinned = any(
        command.name == "git"
        and {"checkout", "reset", "switch", "fetch"} & set(command.args)
        and any(_is_commit(facts, word) for word in command.args)
        for command in facts.commands
    )
    for command in facts.commands:
        clones = command.name == "git" and "clone" in command.args
        if clones and not pinned and not any(word.startswith("--revision") for word in command.args):
            yield Hit(command.node, "clones whatever the branch holds today")


def _is_commit(facts: Facts, word: str) -> bool:
    plain = unquoted(word)
    if COMMIT.fullmatch(plain):
        return True
    name = re.fullmatch(r"\$\{?(\w+)[^}]*\}?", plain)
    if name is None:
        return False
    value = facts.arrays(name[1])
    return COMMIT.search(value) is not None or (not value and COMMIT_NAME.search(name[1]) is not None)


def unpinned_packages(facts: Facts) -> Iterator[Hit]:
    for command in facts.commands:
        loose = [word for word in _packages(command) if not _pinned(facts, word)]
        if loose:
            yield Hit(
                command.node, f"installs {', '.join(f'`{word}`' for word in loose[:4])} in whatever version is new"
            )


def _packages(command: Command) -> Iterator[str]:
    words = [unquoted(word) for word in command.words]
    if "install" not in words:
        return
    before = words[: words.index("install")]
    if not any(re.fullmatch(r"(?:.*/)?pip[\d.]*", word) for word in before):
        return
    skip = False
    for word in words[words.index("install") + 1 :]:
        if skip or word in PIP_VALUES:
            skip = not skip and word in PIP_VALUES
        elif not word.startswith("-") and not word.startswith((">", "<", "|")):
            yield word


def _pinned(facts: Facts, word: str) -> bool:
    """A version, an address, a path, or a variable: what it holds where the script says so, else nothing to judge."""
    if "==" in word or "://" in word or " @ " in word or word.startswith((".", "/")) or word.endswith(".whl"):
        return True
    name = re.match(r"\$\{?(\w+)", word)
    value = facts.arrays(name[1]) if name else ""
    return name is not None and (not value or "==" in value or "://" in value or "/" in value or "$" in value)


def moves_itself(facts: Facts) -> Iterator[Hit]:
    for command in facts.commands:
        if command.name in ("cd", "pushd") and function_of(command.node) is None and not in_subshell(command.node):
            yield Hit(
                command.node, f"every relative path after `{command.node.text.strip()[:40]}` means something else"
            )


def tee_hides(facts: Facts) -> Iterator[Hit]:
    if "pipefail" in facts.options:
        return
    for node in facts.script.of("pipeline"):
        last = [child for child in node.children if child.kind != "|"][1:]
        if any(re.match(r"(?:sudo\s+)?tee\b", child.text) for child in last):
            yield Hit(node, "the exit status is tee's: a failure of the command before it is lost")


def not_strict(facts: Facts) -> Iterator[Hit]:
    missing = [name for name in ("errexit", "nounset") if name not in facts.options]
    if missing:
        words = " and ".join({"errexit": "`-e`", "nounset": "`-u`"}[name] for name in missing)
        yield Hit(facts.script.root, f"the script does not `set` {words}")


def no_metric_prefix(facts: Facts) -> Iterator[Hit]:
    text = facts.script.text
    agentic = re.search(r"aiperf|replay|agentic", text, re.IGNORECASE)
    if agentic and ENGINES.search(text) and not re.search(r"METRICS?_PREFIX|metrics?-prefix", text):
        yield Hit(facts.script.root, "no required metric prefix is set: a run without server metrics counts as good")


def argv_unrecorded(facts: Facts) -> Iterator[Hit]:
    """An engine is started from words or from an array; recorded means that an array is printed somewhere."""
    printed = set()
    for command in facts.commands:
        if command.name in RECORDERS:
            printed |= set(re.findall(r"\$\{(\w+)\[[@*]\]", " ".join(command.args)))
            printed |= set(re.findall(r"\b(\w+)\b", " ".join(command.args))) if "-p" in command.args else set()
    for command in facts.commands:
        array = re.match(r'"?\$\{(\w+)\[[@*]\]\}"?$', command.words[0]) if command.words else None
        text = facts.arrays(array[1]) if array else command.node.text
        if ENGINES.search(text) and not (array and array[1] in printed) and not _quoted_in(command):
            yield Hit(command.node, "the server's arguments are not written down with the results")
            return


def _quoted_in(command: Command) -> bool:
    """The name of an engine in the words of another command: `echo "vllm serve"`, `pgrep -f "vllm serve"`."""
    return command.name in (*RECORDERS, "pgrep", "grep", "pkill", "hf", "huggingface-cli", "pip", "sed")


def header_promises(facts: Facts) -> Iterator[Hit]:
    """Backends that the leading comment offers and no case label takes."""
    header = []
    for child in facts.script.root.children:
        if child.kind != "comment":
            break
        header.append(child)
    for case in facts.script.of("case_statement"):
        subject = re.search(
            r"\$\{?(\w*(?:BACKEND|OFFLOAD)\w*)", case.children[1].text if len(case.children) > 1 else ""
        )
        if subject is None:
            continue
        labels = set()
        for item in case.children:
            if item.kind == "case_item":
                for part in item.children:
                    if part.kind == ")":
                        break
                    labels.add(unquoted(part.text))
        for comment in header:
            if not re.search(rf"{subject[1]}|backend", comment.text, re.IGNORECASE):
                continue
            for name in _offered(comment.text):
                if name not in labels:
                    yield Hit(comment, f"`{name}` is offered here, and the case of line {case.line} does not know it")


def _offered(comment: str) -> list[str]:
    """Names in a list: `a|b|c`, `a, b or c`, after the colon, dash, equals sign or bracket that introduces it."""
    after = re.split(r"[:=({]", comment, maxsplit=1)
    parts = re.split(r"\s*(?:\||,|/|\bor\b|\band\b)\s*", after[-1].strip(" )}.")) if len(after) > 1 else []
    names = [part.strip("`'\" )}.") for part in parts]
    return [name for name in names if re.fullmatch(r"[a-z][a-z0-9_-]*", name)] if len(names) > 1 else []


SYNTHETIC = re.compile(
    r"synthetic_acceptance|rejection_sample_method\W+synthetic|SIMULATE_ACC_LEN|FORCE_NUM_ACCEPTED|"
    r"spec-decode-acceptance"
)
EVALUATES = re.compile(r"EVAL_ONLY|RUN_EVAL")


def synthetic_in_eval(facts: Facts) -> Iterator[Hit]:
    """Gated: under a condition that asks for the evaluation, or in a variable that such a condition changes."""
    changed = {item.name for item in facts.assignments if _asks_eval(item.node)}
    for node in facts.script.of("unset_command"):
        if _asks_eval(node):
            changed |= {child.text for child in node.children if child.kind in ("variable_name", "word")}
    for node in facts.script.of("string_content", "raw_string", "word", "variable_name", "heredoc_body"):
        if not SYNTHETIC.search(node.text) or _asks_eval(node):
            continue
        holder = node.inside("variable_assignment")
        name = re.match(r"\w+", holder.text) if holder is not None else None
        if (name and name[0] in changed) or node.text in changed:
            continue
        yield Hit(node, "an accuracy run would take drafts on trust: nothing here asks for EVAL_ONLY")
        return


def _asks_eval(node: Node) -> bool:
    for ancestor in node.above:
        if ancestor.kind in ("if_statement", "elif_clause", "case_statement", "list"):
            condition = next(
                (c for c in ancestor.children if c.kind not in ("if", "elif", "case", "comment")), ancestor
            )
            if EVALUATES.search(condition.text):
                return True
    return False


CAPTURE = re.compile(
    r"cudagraph[_-]capture[_-]sizes|max[_-]cudagraph[_-]capture[_-]size|enforce[_-]eager|cuda[_-]graph[_-]sizes"
)


def default_ladder(facts: Facts) -> Iterator[Hit]:
    if CAPTURE.search(facts.script.text):
        return
    for command in facts.commands:
        array = re.match(r'"?\$\{(\w+)\[[@*]\]\}"?$', command.words[0]) if command.words else None
        text = facts.arrays(array[1]) if array else command.node.text
        if re.search(r"\bvllm serve\b|vllm\.entrypoints", text) and not _quoted_in(command):
            yield Hit(command.node, "which batches get a graph is left to the engine's default ladder")
            return


def sudo(facts: Facts) -> Iterator[Hit]:
    for command in facts.commands:
        if command.name == "sudo":
            yield Hit(command.node, "a container may have no sudo, and files it writes belong to root")


STRICT = "set -euo pipefail\n"

RULES = (
    Rule(
        "L14",
        "A clone that moves",
        Verdict.WARN,
        "The same script builds something else tomorrow, and nobody can say which of two points ran what.",
        "Check out a commit by its hash after cloning.",
        "git clone https://example.com/cache.git /opt/cache\n",
        "git clone https://example.com/cache.git /opt/cache\n"
        "git -C /opt/cache checkout 4f6d1f0c2a7b9e8d3c5a6b7c8d9e0f1a2b3c4d5e\n",
        moving_clone,
    ),
    Rule(
        "L15",
        "Packages without a version",
        Verdict.WARN,
        "The day's newest release is installed into a measured stack.",
        "Pin each package: `name==version`.",
        "pip install datasets pandas\n",
        "pip install datasets==3.2.0 pandas==2.2.3\n",
        unpinned_packages,
    ),
    Rule(
        "L16",
        "The script changes its folder",
        Verdict.WARN,
        "Relative paths after it, results among them, land somewhere else; a failing `cd` leaves them where they were.",
        "Use a subshell: `( cd DIR && command )`, or absolute paths.",
        "cd /workspace/build\nmake install\n",
        "( cd /workspace/build && make install )\n",
        moves_itself,
    ),
    Rule(
        "L17",
        "A pipe to tee without pipefail",
        Verdict.WARN,
        "The status of a pipe is that of its last command: the server or the client fails and the script goes on.",
        "`set -o pipefail`.",
        "run_client | tee client.log\n",
        "set -o pipefail\nrun_client | tee client.log\n",
        tee_hides,
    ),
    Rule(
        "L18",
        "No strict mode",
        Verdict.WARN,
        "A failed step or a misspelt variable goes on as if nothing were wrong, into a number that is published.",
        "`set -euo pipefail` at the top.",
        "#!/bin/bash\nrun_client\n",
        "#!/bin/bash\nset -euo pipefail\nrun_client\n",
        not_strict,
    ),
    Rule(
        "L19",
        "No required metric prefix",
        Verdict.WARN,
        "A replay whose server metrics are missing passes, and its cache hit rate is unknown.",
        "Set the metric prefix that the replay must find, such as `vllm:`.",
        'vllm serve "$MODEL" --port "$PORT" --enforce-eager\naiperf profile --url "localhost:$PORT"\n',
        "export AIPERF_REQUIRED_METRIC_PREFIX=vllm:\n"
        'vllm serve "$MODEL" --port "$PORT" --enforce-eager\naiperf profile --url "localhost:$PORT"\n',
        no_metric_prefix,
    ),
    Rule(
        "L20",
        "The server's arguments are not recorded",
        Verdict.WARN,
        "Afterwards nobody can say what was measured.",
        "Put the command into an array, print it with `printf '%q '` into the results, and run the array.",
        'vllm serve "$MODEL" --port "$PORT"\n',
        'COMMAND=(vllm serve "$MODEL" --port "$PORT")\n'
        'printf \'%q \' "${COMMAND[@]}" > server_command.txt\n"${COMMAND[@]}"\n',
        argv_unrecorded,
    ),
    Rule(
        "L21",
        "The header offers what the script does not do",
        Verdict.WARN,
        "A cell asks for the documented backend and gets another, or none.",
        "Write the missing branch, or take the name out of the comment.",
        '# KV_OFFLOAD_BACKEND: lmcache | hicache\ncase "$KV_OFFLOAD_BACKEND" in\n  lmcache) start_lmcache ;;\nesac\n',
        '# KV_OFFLOAD_BACKEND: lmcache | hicache\ncase "$KV_OFFLOAD_BACKEND" in\n  lmcache) start_lmcache ;;\n'
        "  hicache) start_hicache ;;\nesac\n",
        header_promises,
    ),
    Rule(
        "L22",
        "Synthetic acceptance in accuracy runs",
        Verdict.FAIL,
        "Drafts are accepted by a coin instead of being verified: the answers that are scored are not the model's.",
        "Add the synthetic options only when EVAL_ONLY is not set.",
        'SPEC=\'{"method":"mtp","num_speculative_tokens":3,"synthetic_acceptance_length":2.49}\'\n'
        'vllm serve "$MODEL" --speculative-config "$SPEC"\n',
        'SPEC=\'{"method":"mtp","num_speculative_tokens":3}\'\nif [ "${EVAL_ONLY:-false}" != true ]; then\n'
        '  SPEC=\'{"method":"mtp","num_speculative_tokens":3,"synthetic_acceptance_length":2.49}\'\nfi\n'
        'vllm serve "$MODEL" --speculative-config "$SPEC"\n',
        synthetic_in_eval,
    ),
    Rule(
        "L24",
        "The default capture ladder",
        Verdict.WARN,
        "The default stops at 512 tokens: with speculation, batches above a part of the admitted sequences run without "
        "a graph.",
        "Give `--max-cudagraph-capture-size` (sequences x tokens each verifies), or the sizes.",
        'vllm serve "$MODEL" --max-num-seqs "$SEQS"\n',
        'vllm serve "$MODEL" --max-num-seqs "$SEQS" --max-cudagraph-capture-size "$((SEQS * 4))"\n',
        default_ladder,
    ),
    Rule(
        "L27",
        "sudo",
        Verdict.WARN,
        "A container may have no sudo, and what it writes belongs to root, in a workspace that others clean up.",
        "Run as the user the container has.",
        "sudo rm -rf /dev/shm/cache\n",
        "rm -rf /dev/shm/cache\n",
        sudo,
    ),
)
