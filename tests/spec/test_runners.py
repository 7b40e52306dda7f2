from __future__ import annotations

import pytest
from tests.golden import golden
from tests.spec.yaml_bytes import RUNNERS

from ridgeline.core.errors import InputError
from ridgeline.spec.runners import Hardware, load_runners, load_runners_text

HEAD = "labels: {a: [x]}\nhardware:\n  a: "


def test_labels_and_hardware() -> None:
    runners = load_runners_text(RUNNERS)
    assert runners.labels["h200"] == ("h200-a_0", "h200-a_1")
    assert runners.hardware == {"cluster:h200-a": Hardware(2_000_000, 8)}


def test_hardware_is_optional_and_its_keys_need_not_be_labels() -> None:
    assert load_runners_text("labels: {a: [x]}").hardware == {}
    assert (
        "b"
        in load_runners_text("labels: {a: [x]}\nhardware: {b: {available-cpu-dram-mib: 1, gpus-per-node: 4}}").hardware
    )


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("labels: [a]", "labels", "must be a mapping of labels"),
        ("labels: {a: b}", "labels.a", "must be a list of machine names"),
        ("labels: {a: [3]}", "labels.a[0]", "must be text, not 3"),
        ("labels: {a: []}", "labels.a", "names no machine"),
        ("hardware: {}", "labels", "is required and missing"),
        ("labels: {a: [x]}\nextra: 1", "extra", "is not a known field"),
        (HEAD + "{gpus-per-node: 8}", "hardware.a.available-cpu-dram-mib", "is required"),
        (HEAD + "{available-cpu-dram-mib: 1, gpus-per-node: 0}", "hardware.a.gpus-per-node", "above 0"),
        (HEAD + "{available-cpu-dram-mib: 1, gpus-per-node: 1, x: 1}", "hardware.a.x", "not a known"),
        ("labels: {a: [x], a: [y]}", "labels.a", "given twice"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, key: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        load_runners_text(text, "r.yaml")
    hits = [problem for problem in caught.value.problems if problem.key == key]
    assert any(says in str(problem) for problem in hits), str(caught.value)


def test_the_real_file() -> None:
    runners = load_runners(golden("data/inferencex/configs/runners.yaml"))
    assert len(runners.labels) == 37
    assert len(runners.hardware) == 16
    assert {label for label, facts in runners.hardware.items() if facts.gpus_per_node == 4} == {
        "cluster:gb200-nv",
        "cluster:gb300-nv",
    }
