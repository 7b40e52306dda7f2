"""Runner files: which machines carry a label, and what hardware a fleet has.

In: a path. Out: `Runners`, or an `InputError` with every problem. It does not know configs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ridgeline.core.errors import Problem
from ridgeline.spec import schema
from ridgeline.spec.schema import POSITIVE, TEXT, Fault, Field, Rule, Table
from ridgeline.spec.tree import Document, fail_if, parse, parse_file


class Hardware(NamedTuple):
    """Host memory that KV may overflow to (MiB per node) and GPUs of one node."""

    available_cpu_dram_mib: int
    gpus_per_node: int


class Runners(NamedTuple):
    """`labels`: label -> names of its machines. `hardware`: label -> facts; its keys need not be labels."""

    labels: Mapping[str, tuple[str, ...]]
    hardware: Mapping[str, Hardware]
    file: str


def _no_empty_label(labels: dict[str, Any]) -> Iterator[Fault]:
    for label, machines in labels["labels"].items():
        if not machines:
            yield Fault(("labels", label), "names no machine: list at least one or remove the label")


HARDWARE = Table(
    "a hardware entry",
    (
        Field("available-cpu-dram-mib", POSITIVE, "host memory of a node that KV may use, in MiB", required=True),
        Field("gpus-per-node", POSITIVE, "GPUs of one node", required=True),
    ),
)
RUNNERS = Table(
    "a runners file",
    (
        Field(
            "labels",
            schema.map_of(schema.list_of(TEXT, "a list of machine names"), "a mapping of labels to machine names"),
            "label -> machines",
            required=True,
        ),
        Field(
            "hardware",
            schema.map_of(schema.mapping(HARDWARE), "a mapping of runners to their hardware"),
            "runner -> facts; needed where KV is offloaded to host memory",
        ),
    ),
    (Rule(("labels",), "Every label names at least one machine.", _no_empty_label),),
)


def load_runners(path: str | Path) -> Runners:
    """Load a runners file. Raises `InputError` with all its problems."""
    return from_document(parse_file(path))


def load_runners_text(text: str | bytes, name: str = "<text>") -> Runners:
    """The same from text, e.g. a file as it was at some revision."""
    return from_document(parse(text.encode() if isinstance(text, str) else text, name))


def from_document(document: Document) -> Runners:
    """Runners of a parsed file. Raises `InputError` with all its problems."""
    problems: list[Problem] = list(document.problems)
    if document.root is not None:
        faults: list[Fault] = []
        schema.check(RUNNERS, document.value, (), faults)
        problems += schema.problems(faults, document)
    fail_if(problems)
    labels = {label: tuple(machines) for label, machines in document.value["labels"].items()}
    hardware = {
        runner: Hardware(facts["available-cpu-dram-mib"], facts["gpus-per-node"])
        for runner, facts in document.value.get("hardware", {}).items()
    }
    return Runners(MappingProxyType(labels), MappingProxyType(hardware), document.file)
