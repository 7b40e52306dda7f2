import json

import pytest
from tests.golden import golden

from ridgeline.core.errors import InputError
from ridgeline.engine.answers.weights import answer

DSV4 = {"model": "deepseek-v4-pro", "gpu": "mi355x", "precision": "fp4", "mtp": True}


def test_what_padding_costs_and_expert_parallelism_saves() -> None:
    split, whole = (answer({**DSV4, "topology": layout})["routed"] for layout in ("TP8", "TP8+EP8"))
    assert round(split - whole, 1) == 32.4
    later = answer({**DSV4, "topology": "TP8", "build": "vllm 0.32.0"})
    assert (later["expert_padding"], later["routed"]) == (128, whole)


def test_the_whole_checkpoint() -> None:
    assert round(answer({**DSV4, "topology": "TP1"})["total"]) == 805


def test_layouts_are_read_or_refused() -> None:
    assert answer({**DSV4, "dp": 8, "ep": 8})["topology"] == answer({**DSV4, "topology": "DP8EP8"})["topology"]
    with pytest.raises(InputError, match="topology"):
        answer({**DSV4, "topology": "8 GPUs"})
    with pytest.raises(InputError, match="dp > 1"):
        answer({**DSV4, "topology": "TP2 DP4"})


def test_seven_layouts_and_their_buffers() -> None:
    known = json.loads(golden("golden/weights_dsv4pro.json").read_text())
    for layout, parts in known["weights_gib"].items():
        found = answer({**DSV4, "topology": layout})
        assert found["total"] == pytest.approx(parts["total"], rel=5e-5), layout
        assert {key: found[key] for key in parts} == pytest.approx(parts, abs=4e-3), layout
        assert found["buffers_gib"] == known["buffers_gib"]
    assert len(known["weights_gib"]) == 7
