"""Each layer that a start or a replay can fail in is named by `status` and `diagnose`, with the line that shows it.

Real processes stand for engines. What fails before any process (check, scheduler), after the replay (metrics) and
beside it (evaluation) is tried in test_preflight, test_slurm, tests/cli/test_diagnose and test_evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.cli.main import main
from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.deployment import Deployment, Item, Readiness, Service
from ridgeline.core.point import Source
from ridgeline.core.topology import Topology
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.sweep.diagnosis import lost_in
from ridgeline.sweep.run import Summary, Sweep
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload

CELL = Cell(
    Benchmark("k", "img", "M", "m", "fp8", "vllm", "cluster:h200"), Scenario("fixed-seq-len", isl=16, osl=4),
    Arm(Topology(1)), 1,
)  # fmt: skip
SERVER = """
import http.server, json, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    def answer(self, body):
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer(json.dumps({"data": [{"id": "m"}]}).encode())
    def do_POST(self):
        Handler.asked += 1
        if Handler.asked > 1:
            print("the engine fell over", flush=True)
            os._exit(7)
        self.rfile.read(int(self.headers["content-length"]))
        self.answer(b'{"choices": [{"text": "x", "message": {"content": "x"}}], "usage": {"completion_tokens": 1}}')
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def engine(code: str, **more: object) -> Deployment:
    words = tuple(map(Item, ("{python}", "-c", code, "{port:http}")))
    readiness = Readiness(served_model="m", timeout_s=20.0)
    service = replace(Service("engine", words, readiness=readiness), **more)  # type: ignore[arg-type]
    return Deployment((service,), "engine", "m", "command", endpoint="/v1/completions")


def says(text: str, then: str) -> Deployment:
    return engine(f"import sys, time\nprint({text!r}, flush=True)\n{then}")


# What happens, and the line that `diagnose` must show.
STORIES: dict[str, tuple[Callable[[], Deployment], str]] = {
    "node": (lambda: engine("pass", node=1), "engine belong on other nodes"),
    "image": (lambda: says("docker: manifest unknown: no such tag", "sys.exit(125)"), "| engine.log: docker: manifest"),
    "weights": (
        lambda: says("Starting to load model /m", "time.sleep(1.5); print('gone', flush=True); sys.exit(1)"),
        "| engine.log: gone",
    ),
    "engine start": (lambda: says("error: unrecognized arguments: --x", "sys.exit(2)"), "| engine.log: error: unrec"),
    "ready": (
        lambda: engine("import time; time.sleep(60)", readiness=Readiness(served_model="m", timeout_s=1.0)),
        "was not ready",
    ),
    "load": (lambda: engine(SERVER), "tokenizer"),
    "replay": (lambda: engine(SERVER), "| engine.log: the engine fell over"),
}


@pytest.mark.parametrize("layer", STORIES)
def test_the_layer_that_failed_is_named_with_its_evidence(
    layer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment, shown = STORIES[layer][0](), STORIES[layer][1]
    prompts = "tokenizer" if layer == "load" else "bytes"
    settings = SweepSettings(requests_per_lane=2, fixed_warmup_per_lane=0, prompts=prompts, grace_s=2)
    sweep = Sweep([CELL], settings, Workload(settings), lambda cell: (deployment, Source.MEASURED), retries=0)
    with RunFolder.create_or_open(tmp_path / "run", RunHeader(name="r", created_at="2026-01-01T00:00:00Z")) as folder:
        assert sweep.run(folder) == Summary(0, 0, 1, 0)
    assert main(["status", str(tmp_path / "run")]) == 1
    assert f"{CELL.name}  {layer}: " in capsys.readouterr().out
    assert main(["diagnose", str(tmp_path / "run"), CELL.name]) == 1
    out = capsys.readouterr().out
    assert f"layer   {layer}\n" in out
    assert shown in out, out


@pytest.mark.parametrize(
    ("step", "phase", "layer"),
    [
        ("begin", None, "node"),
        ("start", "image", "image"),
        ("start", "weights", "weights"),
        ("start", "capture", "engine start"),
        ("ready", "serving", "ready"),
        ("replay", "serving", "replay"),
        ("progress", "serving", "replay"),
    ],
)
def test_what_a_killed_sweep_was_at(step: str, phase: str | None, layer: str) -> None:
    assert lost_in(step, {"engine": [{"name": phase, "ended": None}]} if phase else {}) == layer
