import json
from pathlib import Path

import pytest
from tests.golden import golden

from ridgeline.core.errors import InputError
from ridgeline.engine.answers.tuning import answer
from ridgeline.spec.facts.tuning import load_tables

ROW = {
    "dtype": "fp4",
    "hidden_dim": 64,
    "topk": 2,
    "local_expert_num": 4,
    "num_tokens": 8,
    "block_num": 10,
    "warp_num_per_block": 2,
}
SHAPE = {
    "dispatch_dtype": "fp4", "hidden_dim": 64, "topk": 2, "ep_size": 8, "n_routed_experts": 32, "num_tokens": 5,
    "gpu_arch": "gfx950", "gpu_model": "mi355x",
}  # fmt: skip


def write(folder: Path, name: str, dispatch: list[dict], combine: list[dict]) -> None:
    (folder / name).write_text(json.dumps({"dispatch": dispatch, "combine": combine}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [ROW, {**ROW, "num_tokens": 32, "block_num": 20}]
    write(tmp_path, "flydsl_gfx950_mi355x_IntraNode_ep8.json", rows, [{**ROW, "dtype": "bf16", "zero_copy": True}])
    return tmp_path


def test_the_smallest_bucket_that_holds_the_tokens(folder: Path) -> None:
    tables = load_tables([folder])
    found = answer(SHAPE, tables)
    assert (found["matched_bucket"], found["block_num"], found["warp_num_per_block"]) == (8, 10, 2)
    assert answer({**SHAPE, "num_tokens": 9}, tables)["matched_bucket"] == 32
    past = answer({**SHAPE, "num_tokens": 100}, tables)
    assert (past["matched_bucket"], past["overflow"]) == (32, True)


def test_a_phase_without_rows_falls_back_silently_and_both_with_a_warning(folder: Path) -> None:
    tables = load_tables([folder])
    narrow = answer({**SHAPE, "dispatch_dtype": "fp8"}, tables)
    assert (narrow["table_built"], narrow["source"], narrow["block_num"]) == (True, "default", 128)
    assert narrow["log"][0].startswith("INFO") and "dispatch=0" in narrow["log"][0]
    other = answer({**SHAPE, "topk": 3}, tables)
    assert not other["table_built"] and other["log"][0].startswith("WARNING")
    none = answer({**SHAPE, "ep_size": 4}, tables)
    assert none["tuning_file"] is None and none["log"] == []


def test_a_file_of_another_gpu_is_taken_only_for_want_of_a_better(folder: Path) -> None:
    foreign = {**SHAPE, "gpu_arch": "gfx942", "gpu_model": "mi300x"}
    assert answer(foreign, load_tables([folder]))["tuning_file"] == "flydsl_gfx950_mi355x_IntraNode_ep8.json"
    write(folder, "flydsl_gfx942_mi300x_IntraNode_ep8.json", [ROW], [])
    found = answer(foreign, load_tables([folder]))
    assert (found["tuning_file"], found["arch_match"]) == ("flydsl_gfx942_mi300x_IntraNode_ep8.json", True)


def test_files_that_are_no_tables_are_refused(folder: Path) -> None:
    (folder / "flydsl_a_b_IntraNode_ep2.json").write_text(json.dumps({"dispatch": [{"dtype": "fp4"}]}))
    with pytest.raises(InputError, match=r"dispatch\[0\].*lacks hidden_dim"):
        load_tables([folder])
    (folder / "other.json").write_text("{}")
    with pytest.raises(InputError, match="not the name of a tuning table"):
        load_tables([folder / "other.json"])


def test_the_selector_refuses_what_the_kernel_refuses() -> None:
    big = {"tokens": 8, "mtpr": 128, "experts_per_rank": 96}
    assert answer(big, ())["error"] == "fixed-slot supports at most 64 experts per rank"
    assert "power of two" in answer({**big, "mtpr": 100}, ())["error"]
    assert answer({**big, "mtpr": 8192}, ())["p2p_quant"] == "fp8_blockwise_1x32"


def test_known_answers() -> None:
    known = json.loads(golden("golden/moe_tuning.json").read_text())
    tables = load_tables([golden("data/flydsl_gfx950_mi355x_IntraNode_ep8.json")])
    for row in known["dispatch_combine_lookups"]:
        found = answer(row["inputs"], tables)
        assert {key: found[key] for key in row.keys() & found.keys()} == {
            key: row[key] for key in row.keys() & found.keys()
        }, row["note"]
    for row in known["mega_moe_v2_static_selector"]:
        found = answer(row["inputs"], ())
        assert found["error"] == row["error"]
        if not row["error"]:
            assert {key: found[key] for key in ("bucket", "mtpr_class", "regime")} == {
                key: row[key] for key in ("bucket", "mtpr_class", "regime")
            }
            assert found["p2p_quant"] == row["result"]["p2p_quant"]
    assert len(known["dispatch_combine_lookups"]) >= 23
