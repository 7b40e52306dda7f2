"""Promise and proof: what was expected of a run, what was found, and what that makes of its point.

In: expectations, evidence from logs, a replay's records and samples. Out: one outcome for each expectation, and the
validity with reasons that follows. It refuses to guess: an expectation without evidence is unproven.
"""

from ridgeline.sweep.proof.observed import from_logs, graph_misses, observed, reachable_hit
from ridgeline.sweep.proof.promises import of_emulated, promises
from ridgeline.sweep.proof.verdict import CODES, Outcome, Proof, Stands, prove, with_proof

__all__ = [
    "CODES",
    "Outcome",
    "Proof",
    "Stands",
    "from_logs",
    "graph_misses",
    "observed",
    "of_emulated",
    "promises",
    "prove",
    "reachable_hit",
    "with_proof",
]
