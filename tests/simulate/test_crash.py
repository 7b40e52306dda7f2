"""An engine that breaks takes its server down: clients must not wait for a step that never comes."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import uvloop

from ridgeline.core.topology import Topology
from ridgeline.engine.options import options_from
from ridgeline.simulate.batch import Batch
from ridgeline.simulate.engine import engine_of
from ridgeline.simulate.server.app import serve


class Broken:
    """A price that nobody can pay."""

    def seconds(self, batches: Sequence[Batch | None], *, from_idle: bool = False) -> float:
        raise ZeroDivisionError("the step broke")

    def frontend_s(self, prompt_tokens: int) -> float:
        return 0.0


def ask(port_file: Path) -> None:
    end = time.monotonic() + 10
    while not port_file.exists() and time.monotonic() < end:
        time.sleep(0.01)
    connection = http.client.HTTPConnection("127.0.0.1", int(port_file.read_text()), timeout=10)
    body = json.dumps({"model": "m", "prompt": "hello", "max_tokens": 2})
    try:
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        pass
    finally:
        connection.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broken_step_ends_the_server(tmp_path: Path) -> None:
    engine = engine_of(options_from("Qwen/Qwen3-8B", "h200", Topology(1)))
    engine.price = Broken()
    client = threading.Thread(target=ask, args=(tmp_path / "port",))
    client.start()
    with pytest.raises(ZeroDivisionError, match="the step broke"):
        uvloop.run(serve(engine, model="m", root="m", port_file=tmp_path / "port"))
    client.join(10)
    assert not client.is_alive()
