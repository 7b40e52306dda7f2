"""Rules about launch scripts, read from their syntax tree. A script is never run here.

Only lines that the change adds are judged, so that an old fault does not block a new change; P20 is judged for a script
as a whole, at the line where its client starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tree_sitter import Node

from ridgeline.core.where import Where
from ridgeline.publish.gate.change import Change, ChangedFile
from ridgeline.publish.gate.policy import GatePolicy
from ridgeline.publish.gate.rule import Remark, remark
from ridgeline.publish.gate.rules import shell

_SPECULATES = re.compile(
    r"--speculative[-_](?:config|algorithm|algo|draft)|speculative_config|num_speculative_tokens|"
    r"\b(?:eagle3?|mtp|draft_model)\b",
    re.IGNORECASE,
)
_CLIENT = re.compile(r"\b(?:run_benchmark_serving|benchmark_serving(?:\.py)?|bench_serving|vllm bench serve)\b")
_TEMPLATED = re.compile(
    r"--use-chat-template|--apply-chat-template|/v1/chat/completions|openai-chat|--endpoint-type[= ]chat"
)
_SERVER = re.compile(
    r"\bvllm serve\b|api_server\b|sglang\.launch_server|trtllm-serve|\batom\b.{0,200}\bserver\b|-m sglang|-m atom"
)
_EP_SWITCH = ("--enable-expert-parallel", "--enable-ep", "--enable_expert_parallel")
_EP_KNOB = re.compile(r"\b\w*(?:EP|EXPERT)\w*\b")
_ENGINES = r"(?:vllm|sglang|sgl[-_]kernel|atom|tensorrt[-_]llm|trtllm|aiter|flashinfer)"
_INSTALLED = re.compile(rf"(?:site|dist)-packages/|/(?:opt|app|sgl-workspace|workspace)/{_ENGINES}\b", re.IGNORECASE)
_WRITES = re.compile(r"\b(?:sed\b[^|;&\n]{0,200}\s-i|cp|mv|ln|install|tee|rsync|python3?\s+-c)\b|>>?\s*\S")
_PATCHES = re.compile(r"\bgit\s+(?:-C\s+\S+\s+)?(?:apply|am|cherry-pick)\b|\bpatch\s+(?:-|<)")
_SOURCE_BUILD = re.compile(rf"\bpip3?\s+install\b.{0, 400}(?:-e\s|--editable|git\+\S*{_ENGINES}|\.git@)", re.IGNORECASE)
_FOLDER = re.compile(r"\bmkdir\b[^|;&]*\s[\"']?/workspace/")
_WORKSPACE = re.compile(r"/workspace\b|GITHUB_WORKSPACE|RUNNER_WORKSPACE")
_CONTAINER = re.compile(r"(?:sudo\s+)?(?:docker|podman)\s+run\b")
_MOUNTED = re.compile(
    r"(?:-v|--volume|--mount)[= ]\S*(?:/workspace\b|GITHUB_WORKSPACE|RUNNER_WORKSPACE|PWD\b|\$\(pwd\))"
)
_USER = re.compile(r"(?:^|\s)(?:--user|-u)[= ]")
_SUDO = re.compile(r"sudo\s+(?:-\S+\s+)*(?:tee|cp|mv|mkdir|touch|rsync|install|ln|tar|sh|bash)\b")
_MOST_OPTIONS = 4
_LONGEST = 8000  # characters


class Script(NamedTuple):
    """A changed script: the file, its tree, its text without comments (same line numbers)."""

    file: ChangedFile
    root: Node
    code: str

    def at(self, line: int) -> Where:
        return Where(self.file.path, line)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Numbered lines without comments; of very long ones the beginning, since patterns are tried on each."""
        for number, text in enumerate(self.code.split("\n"), 1):
            yield number, text[:_LONGEST]

    def new(self, line: int) -> bool:
        return line in self.file.added_lines


def scripts(change: Change, policy: GatePolicy) -> list[Script]:
    """The launch scripts of a change."""
    return [
        Script(file, *shell.parse(file.after or b"")) for file in change.matching(policy.paths.scripts) if file.after
    ]


def all_rules(script: Script) -> Iterator[Remark]:
    """P20 and P22 to P26 of one script. P21 needs the whole change: see `patches`."""
    yield from chat_template(script)
    yield from expert_parallel(script)
    yield from one_line(script)
    yield from container(script)
    yield from workspace(script)
    yield from root_owned(script)


def chat_template(script: Script) -> Iterator[Remark]:
    speculation = _SPECULATES.search(script.code)
    client = _CLIENT.search(script.code)
    if not speculation or not client or _TEMPLATED.search(script.code):
        return
    line = script.code.count("\n", 0, client.start()) + 1
    how = script.code.count("\n", 0, speculation.start()) + 1
    what = f"the client sends raw prompts while the server speculates (line {how})"
    yield remark("P20", what, script.at(line))


def expert_parallel(script: Script) -> Iterator[Remark]:
    """An SGLang script states an explicit size, so the switch concerns vLLM and ATOM only."""
    for node in shell.words(script.root):
        text = shell.text(node)
        line = node.start_point.row + 1
        if script.new(line) and any(switch in text for switch in _EP_SWITCH) and not _conditional(node):
            yield remark("P22", "expert parallelism is always on, whatever the config's `ep` says", script.at(line))


def _conditional(node: Node) -> bool:
    """Whether some condition around a node, or a default expansion that holds it, mentions expert parallelism."""
    inner, outer = node, node.parent
    while outer is not None:
        if outer.type in ("if_statement", "elif_clause", "list", "case_item", "case_statement", "expansion"):
            before = shell.text(outer)[: inner.start_byte - outer.start_byte]
            if _EP_KNOB.search(before):
                return True
        inner, outer = outer, outer.parent
    return False


def one_line(script: Script) -> Iterator[Remark]:
    for number, text in script.lines():
        options = re.findall(r"(?:\s)(--?[A-Za-z][\w-]*)", text)
        if script.new(number) and _SERVER.search(text) and len(options) > _MOST_OPTIONS:
            yield remark("P23", f"a server starts with {len(options)} options on one line", script.at(number))


def container(script: Script) -> Iterator[Remark]:
    if re.search(r"docker://", script.code):
        return
    for number, text in script.lines():
        if script.new(number) and re.search(r"--container-image[= ]\S*(?:\.sqsh|SQSH|SQUASH)", text):
            yield remark("P24", "a container file is used that nothing here imports", script.at(number))


def workspace(script: Script) -> Iterator[Remark]:
    for number, text in script.lines():
        if script.new(number) and _FOLDER.search(text):
            yield remark("P25", "makes a folder below /workspace", script.at(number))


def root_owned(script: Script) -> Iterator[Remark]:
    """P26, a command at a time: its options may stand on several lines."""
    for node in shell.nodes(script.root):
        if node.type != "command" or not any(
            script.new(line + 1) for line in range(node.start_point.row, node.end_point.row + 1)
        ):
            continue
        text = shell.text(node)[:_LONGEST]
        if _CONTAINER.match(text) and _MOUNTED.search(text) and not _USER.search(text):
            yield remark("P26", "a container writes into the workspace as root", script.at(node.start_point.row + 1))
        elif _SUDO.match(text) and _WORKSPACE.search(text):
            yield remark("P26", "sudo writes into the workspace", script.at(node.start_point.row + 1))


class Patch(NamedTuple):
    """A place where an engine is patched, and how."""

    where: Where
    how: str


def patched(change: Change, policy: GatePolicy, found: list[Script]) -> list[Patch]:
    """Every place in the change that patches an engine."""
    places = [
        Patch(Where(file.path, 1), "adds a patch file")
        for file in change.matching(policy.paths.patches)
        if file.added_lines
    ]
    for script in found:
        for number, text in script.lines():
            how = _how_patched(text) if script.new(number) else None
            if how:
                places.append(Patch(script.at(number), how))
    return places


def _how_patched(line: str) -> str | None:
    if _PATCHES.search(line):
        return "applies a patch"
    if _INSTALLED.search(line) and _WRITES.search(line):
        return "edits an installed engine"
    if _SOURCE_BUILD.search(line):
        return "replaces the image's engine by a build from source"
    return None


def has_waiver(change: Change, policy: GatePolicy, number: int) -> bool:
    """Whether the pull request adds its own waiver; changing an old one is none."""
    file = change.files.get(policy.paths.waiver_of(number))
    return file is not None and file.added and bool((file.after or b"").strip())


def patches(change: Change, policy: GatePolicy, found: list[Script], number: int, body: str) -> Iterator[Remark]:
    """P21 unless the pull request adds its own waiver and links it."""
    waiver = policy.paths.waiver_of(number)
    added = has_waiver(change, policy, number)
    if added and waiver in body:
        return
    missing = f"`{waiver}` is added but the description does not link it" if added else f"`{waiver}` is not added"
    for place in patched(change, policy, found):
        yield remark("P21", f"{place.how}, and {missing}", place.where)
