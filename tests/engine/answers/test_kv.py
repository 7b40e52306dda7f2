import json

import pytest
from tests.golden import golden

from ridgeline.core.errors import InputError
from ridgeline.engine.answers.kv import answer

DSV4 = {"model": "deepseek-v4-pro", "topology": "DP4+EP4", "kv_cache_dtype": "fp8", "mtp": True}
FULL = {"kind": "FullAttentionSpec", "count": 4, "block_size": 16, "num_kv_heads": 2, "head_size": 64, "dtype": "bf16"}
INPUTS = (
    "layers", "settings", "avail_gib", "max_model_len", "max_num_batched_tokens", "max_concurrent_batches",
)  # fmt: skip


@pytest.mark.parametrize(
    ("budget", "batches", "length", "gib"),
    [
        (8192, 2, 1_048_576, 14.8765), (4096, 2, 1_048_576, 10.283), (8192, 1, 1_048_576, 10.283),
        (2048, 2, 1_048_576, 7.9862), (16384, 2, 1_048_576, 24.0635), (8192, 2, 524_288, 12.0497),
    ],
)  # fmt: skip
def test_deepseek_v4_pro_at_a_million_tokens(budget: int, batches: int, length: int, gib: float) -> None:
    knobs = {"max_num_batched_tokens": budget, "max_concurrent_batches": batches, "max_model_len": length}
    assert answer({**DSV4, **knobs})["needed_gib"] == gib


def test_how_latents_are_stored_decides_their_bytes() -> None:
    assert answer(DSV4)["needed_bytes"] == 15_973_513_344
    assert round(answer({**DSV4, "rows": "plain"})["needed_gib"], 2) == 13.22
    assert round(answer({**DSV4, "rows": "bf16"})["needed_gib"], 2) == 23.74
    assert round(answer({**DSV4, "disable_hybrid_kv_cache_manager": True})["needed_gib"]) == 465


def test_layers_in_the_engines_words() -> None:
    one = {"layers": [FULL], "max_model_len": 160, "avail_gib": 1}
    page = 16 * 2 * 128 * 2
    assert answer(one)["bytes_per_block"] == 4 * page
    assert answer({**one, "settings": {"dcp": 2}})["needed_bytes"] == 5 * 4 * page
    narrow = {**FULL, "dtype": "uint8", "kv_quant_mode": "fp8_per_token_head"}
    assert answer({**one, "layers": [narrow]})["bytes_per_block"] == 4 * 16 * 2 * (128 + 2 * 4)
    packed = {**FULL, "dtype": "uint8", "kv_quant_mode": "nvfp4"}
    assert answer({**one, "layers": [packed]})["bytes_per_block"] == 4 * 16 * 2 * 2 * (32 + 4)


def test_states_by_cache_mode() -> None:
    state = {"kind": "MambaSpec", "count": 4, "block_size": 16, "page_size_bytes": 8192, "num_speculative_blocks": 3}
    pages = {
        mode: answer({"layers": [state], "settings": {"mamba_cache_mode": mode}, "max_model_len": 160})[
            "pages_per_request"
        ]
        for mode in ("none", "align", "all")
    }
    assert pages == {"none": 4, "align": 5, "all": 13}


def test_pages_that_cannot_be_made_equal_are_refused_as_the_engine_does() -> None:
    state = {"kind": "MambaSpec", "count": 4, "block_size": 16, "page_size_bytes": 10_000}
    found = answer({"layers": [FULL, state], "max_model_len": 160})
    assert "page size is not divisible by the maximum page size" in found["error"]


def test_problems_say_which_layer() -> None:
    with pytest.raises(InputError) as raised:
        answer({"layers": [FULL, {"kind": "Nonsense"}], "max_model_len": 1})
    assert "layers[1].kind" in {problem.key for problem in raised.value.problems}


def test_known_answers() -> None:
    rows = json.loads(golden("golden/kv_sizing.json").read_text())["rows"]
    judged = 0
    for row in rows:
        if "layers" not in row:
            continue
        judged += 1
        found = answer({key: row[key] for key in INPUTS})
        for key in found.keys() & row.keys() - {"error"}:
            assert found[key] == row[key], (row["name"], key)
        known = row["error"] and row["error"].partition(" when initializing")[0]
        assert (found["error"] and found["error"].partition(" when initializing")[0]) == known
    assert judged >= 24
