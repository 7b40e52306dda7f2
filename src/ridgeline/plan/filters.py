"""What part of a search space is meant, and how densely ranges are walked.

In: flags of `plan`. Out: frozen `Filters`. All given filters must hold; the values inside one are alternatives.
"""

from __future__ import annotations

from typing import NamedTuple

SEQUENCE_LENGTHS = {"1k1k": (1024, 1024), "8k1k": (8192, 1024)}
SCENARIO_TYPES = ("fixed-seq-len", "agentic-coding")


class Filters(NamedTuple):
    """Every field is "all" when left out.

    `model_prefix` compares with the start of the config key, not with the field of that name: that is what the peer's
    flag does. `seq_lens` concerns fixed-seq-len only; agentic arms pass. `max_tp`, `max_ep` concern single-node
    fixed-seq-len only. Neither or both of `single_node` and `multi_node` mean both kinds.
    """

    keys: tuple[str, ...] = ()
    model_prefix: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()
    framework: tuple[str, ...] = ()
    runner_type: tuple[str, ...] = ()
    seq_lens: tuple[str, ...] = ()
    scenario_type: tuple[str, ...] = SCENARIO_TYPES
    node: str | None = None
    conc: tuple[int, ...] = ()
    step: int = 2
    min_conc: int | None = None
    max_conc: int | None = None
    max_tp: int | None = None
    max_ep: int | None = None
    single_node: bool = False
    multi_node: bool = False


ALL = Filters()
