"""The verb as a process: one line when listening, log lines, a port file, a clean end; and what stops it at once."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from ridgeline.cli.emulate import run
from ridgeline.cli.main import main

ARGUMENTS = ["--model", "Qwen/Qwen3-0.6B", "--gpu", "cluster:h200-nv", "--max-model-len", "4096"]


def test_it_serves_until_it_is_told_to_stop(tmp_path) -> None:
    port_file = tmp_path / "port"
    command = [sys.executable, "-m", "ridgeline.cli.main", "emulate", *ARGUMENTS, "--served-model-name", "tiny"]
    command += ["--port", "0", "--port-file", str(port_file), "--speed", "50"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 30
        while not port_file.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        port = int(port_file.read_text())
        body = json.dumps({"model": "tiny", "prompt": "hello", "max_tokens": 3}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/completions", data=body, timeout=10) as reply:
            assert json.load(reply)["usage"]["completion_tokens"] == 3
        process.send_signal(signal.SIGTERM)
        out, talk = process.communicate(timeout=10)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert out == f"listening on http://127.0.0.1:{port} model tiny\n"
    assert "GPU KV cache size: " in talk
    assert "Maximum concurrency for 4,096 tokens per request: " in talk


def test_a_taken_port_is_the_environments_fault(capsys) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["emulate", *ARGUMENTS, "--port", str(port)]) == 3
    talk = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1:{port}" in talk
    assert "hint: choose another port" in talk


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--model", "nobody/knows"], "no facts about model `nobody/knows`"),
        (["--gpu", "abacus"], "no facts about GPU `abacus`"),
        (["--speed", "0"], "`--speed`: must be above 0"),
        (["--port", "70000"], "must be 0 to 65535"),
        (["--precision", "fp3"], "precision `fp3` is not known"),
        (["--model", "deepseek-ai/DeepSeek-R1"], "No available memory for the cache blocks"),
        (["--ep", "2"], "has no experts"),
    ],
)
def test_input_that_is_wrong_is_named(more: list[str], message: str, capsys) -> None:
    assert main(["emulate", *ARGUMENTS, *more]) == 2
    assert message in capsys.readouterr().err


def test_usage_errors_and_help(capsys) -> None:
    assert run(["--gpu", "h200"]) == 2
    assert "--model" in capsys.readouterr().err
    assert run(["--help"]) == 0
    assert "--max-num-batched-tokens" in capsys.readouterr().out


def test_it_starts_without_heavy_imports() -> None:
    code = (
        "import sys\nfrom ridgeline.cli.emulate import _parser\nimport ridgeline.simulate.server.app\n"
        "print(sorted({'pyarrow', 'pydantic', 'typer', 'rich', 'numba', 'duckdb', 'pandas'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    assert found.stdout == "[]\n"
