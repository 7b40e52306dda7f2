import json

import pytest

from ridgeline.core.errors import InputError
from ridgeline.core.units import GIB
from ridgeline.spec.facts.gpu import gpu_from
from ridgeline.spec.facts.library import find_gpu

GOOD = {
    "format": "ridgeline-gpu/1", "name": "X", "vendor": "amd", "labels": ["x1"], "memory_gb": 64, "bandwidth_tb_s": 2,
    "bf16_tflops": 100, "link_gb_s": 70, "link_world": 8, "mesh": True, "host_link_gb_s": 32, "scale_out_gbit_s": 400,
    "power_w": 300, "sources": ["a datasheet"],
}  # fmt: skip


def test_units_become_bytes_and_flops() -> None:
    gpu = gpu_from(GOOD, "x.json")
    assert (gpu.memory_bytes, gpu.bandwidth, gpu.bf16_flops) == (64 * GIB, 2e12, 1e14)
    assert gpu.scale_out_bandwidth == 50e9
    assert not gpu.reported
    assert gpu_from({**GOOD, "reported_gib": 63.5}, "x.json").memory_bytes == round(63.5 * GIB)


def test_a_missing_unit_falls_back_to_the_next_wider_type() -> None:
    gpu = gpu_from({**GOOD, "fp8_tflops": 200}, "x.json")
    assert gpu.fp4_flops is None
    assert (gpu.flops("fp4"), gpu.flops("fp8"), gpu.flops("bf16")) == (2e14, 2e14, 1e14)


def test_a_mesh_gives_one_peer_its_share_of_the_links() -> None:
    assert gpu_from(GOOD, "x.json").peer_bandwidth() == 10e9
    assert gpu_from({**GOOD, "mesh": False}, "x.json").peer_bandwidth() == 70e9


def test_all_problems_are_reported_at_once() -> None:
    bad = {**GOOD, "bf16_tflops": -1, "labels": "x1", "vendor": ""}
    del bad["link_gb_s"]
    with pytest.raises(InputError) as raised:
        gpu_from(bad, "bad.json")
    assert {problem.key for problem in raised.value.problems} == {"bf16_tflops", "labels", "vendor", "link_gb_s"}
    assert all(problem.where and problem.where.file == "bad.json" for problem in raised.value.problems)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("h200", "H200"), ("H200", "H200"), ("cluster:h200-nv", "H200"), ("h200-dgxc", "H200"), ("b200", "B200"),
        ("gb200-nv", "GB200"), ("cluster:gb300-nv", "GB300"), ("mi355x-amds", "MI355X"), ("mi325x-tw", "MI325X"),
        ("rtx6000pro-lat", "RTX-PRO-6000-SE"), ("h100-multinode", "H100"), ("b300", "B300"), ("mi300x", "MI300X"),
    ],
)  # fmt: skip
def test_runner_labels_find_their_gpu(label: str, name: str) -> None:
    assert find_gpu(label).name == name


@pytest.mark.parametrize("label", ["", "h2000", "a100", "xh200"])
def test_a_label_that_is_no_known_gpu_is_refused_with_what_is_known(label: str) -> None:
    with pytest.raises(InputError, match="mi355x"):
        find_gpu(label)


def test_a_dropped_file_joins_and_wins(tmp_path, monkeypatch) -> None:
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "x.json").write_text(json.dumps({**GOOD, "labels": ["x1", "h200"]}))
    monkeypatch.setenv("RIDGELINE_FACTS", str(tmp_path))
    assert find_gpu("x1-lab").name == "X"
    assert find_gpu("h200").name == "X"


def test_every_shipped_figure_has_a_source() -> None:
    for label in ("h100", "h200", "b200", "b300", "gb200", "gb300", "mi300x", "mi325x", "mi355x", "rtx6000pro"):
        gpu = find_gpu(label)
        assert gpu.sources
        assert gpu.flops("fp4") >= gpu.flops("fp8") >= gpu.flops("bf16") > 0
