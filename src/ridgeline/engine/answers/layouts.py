"""Topologies as people write them: `TP8`, `TP8+EP8`, `DP8EP8`, `DP4+EP4 PP2`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ridgeline.core.topology import Topology
from ridgeline.engine.answers.inputs import Inputs

INPUTS = {
    "topology": "TP8, TP8+EP8, DP8+EP8, ... (or the sizes one by one)",
    "tp": "tensor parallelism (1)",
    "dp": "data-parallel attention ranks, one GPU each (1)",
    "ep": "expert parallelism, inside the same GPUs (1)",
    "pp": "pipeline stages (1)",
    "dcp": "decode-context parallelism (1)",
    "pcp": "prefill-context parallelism (1)",
}
_PART = re.compile(r"(TP|DP|EP|PP|DCP|PCP)\s*(\d+)", re.IGNORECASE)


def topology_of(inputs: Inputs) -> Topology:
    """The topology of a question; problems are left with `inputs`."""
    data: Mapping[str, Any] = inputs.data
    sizes = {key: inputs.integer(key, 1, least=1) for key in ("tp", "dp", "ep", "pp", "dcp", "pcp")}
    label = data.get("topology")
    if label is not None:
        text = str(label).partition("(")[0]
        parts = _PART.findall(text)
        if not parts or re.sub(r"[\s+,x/-]", "", _PART.sub("", text)):
            inputs.text("topology", "", among=("TP8", "TP8+EP8", "DP8+EP8"))  # a problem that shows the form
        sizes |= {name.lower(): max(1, int(size)) for name, size in parts}
    if sizes["tp"] > 1 and sizes["dp"] > 1:
        inputs.refuse("must be 1 with dp > 1: each data-parallel rank is modelled on one GPU", "tp")
    gpus = sizes["dp"] if sizes["dp"] > 1 else sizes["tp"]
    return Topology(gpus, sizes["pp"], sizes["dcp"], sizes["pcp"], sizes["ep"], dp_attn=sizes["dp"] > 1)
