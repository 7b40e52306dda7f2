"""What a server does with a request before an engine sees it: render it and turn its text into tokens.

Text is tokenised one prompt after the other: SGLang does it in the loop of its one tokenizer manager
(tokenizer_manager.py), vLLM in one thread of every API server, of which it starts as many as there are data-parallel
ranks (renderer_num_workers, api_server_count). Everything else of the server's own work waits for nobody.
"""

from __future__ import annotations

import heapq
from typing import Protocol

from ridgeline.core.units import nanoseconds


class Price(Protocol):
    """Seconds of the server's own work on a prompt of so many tokens."""

    def frontend_s(self, prompt_tokens: int) -> float: ...


class FrontEnd:
    """`servers` equal ones; a prompt goes to the one that is free first."""

    def __init__(self, price: Price, servers: int = 1) -> None:
        self._price = price
        self._free_ns = [0] * max(1, servers)

    def ready(self, now_ns: int, prompt_tokens: int) -> int:
        """When a prompt that arrives at `now_ns` reaches the engine's queue."""
        whole = nanoseconds(self._price.frontend_s(prompt_tokens))
        begins = max(now_ns, self._free_ns[0])
        heapq.heapreplace(self._free_ns, begins + whole - nanoseconds(self._price.frontend_s(0)))
        return begins + whole
