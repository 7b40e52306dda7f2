"""Where a launch script pins the acceptance of drafted tokens, by each engine's way of saying it.

In: a script's text without comments, committed lengths by number of drafts. Out: the pinned lengths, in tokens a step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

_NUMBER = r"\W{0,5}(\d+(?:\.\d+)?)"
# How an engine is told an acceptance length, and that length from the number written and the number of drafts.
_PINS: tuple[tuple[re.Pattern[str], Callable[[float, int], float]], ...] = (
    (re.compile(rf"SGLANG_SIMULATE_ACC_LEN{_NUMBER}"), lambda value, drafts: value),
    (re.compile(rf"synthetic_acceptance_length{_NUMBER}"), lambda value, drafts: value),
    (re.compile(rf"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS{_NUMBER}"), lambda value, drafts: value + 1),
    (re.compile(rf"--spec-decode-acceptance-length{_NUMBER}"), lambda value, drafts: value),  # ATOM
    (re.compile(rf"--spec-decode-acceptance-rate{_NUMBER}"), lambda value, drafts: value * drafts + 1),
)
_DRAFTS = re.compile(
    r"(?:num[_-]speculative[_-]tokens|speculative-num-steps|num_nextn_predict_layers)\W{0,5}(\d{1,3})\b"
)
_SIMULATES = re.compile(
    r"SGLANG_SIMULATE_ACC|synthetic_acceptance|rejection_sample_method\W{0,5}synthetic|FORCE_NUM_ACCEPTED_TOKENS|"
    r"--spec-decode-acceptance-(?:length|rate)"
)
ROUNDING = 0.005  # lengths are committed with two decimals


def simulates(code: str) -> int | None:
    """The line of the first place that simulates acceptance; None when it is real."""
    found = _SIMULATES.search(code)
    return None if found is None else code.count("\n", 0, found.start()) + 1


def pins(code: str, committed: Mapping[int, float]) -> Iterator[tuple[float, set[float]]]:
    """(pinned length, lengths committed for the script's number of drafts: all of them where it names no number)."""
    drafts = {int(text) for text in _DRAFTS.findall(code)} & committed.keys() or set(committed) or {1}
    allowed = {committed[one] for one in drafts if one in committed}
    for pattern, length in _PINS:
        for match in pattern.finditer(code):
            made = {length(float(match[1]), one) for one in drafts}  # several only for a rate, which depends on them
            yield (
                min(made, key=lambda one: min((abs(one - a) for a in allowed), default=0.0)),
                allowed,
            )
