"""Engines by kind: what each one's log lines prove, and where its numbers are found.

In: log files of services. Out: evidence with file, line, byte offset and parser. It refuses to judge: what was
expected is not known here, and a line that no parser knows proves nothing.
"""

from ridgeline.launch.engines import router, stores
from ridgeline.launch.engines.kinds import ENGINES, EngineKind, engine_kind, spoken
from ridgeline.launch.engines.reading import read_log

__all__ = ["ENGINES", "EngineKind", "engine_kind", "read_log", "router", "spoken", "stores"]
