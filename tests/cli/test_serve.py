from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.golden import ROOT
from tests.publish.web import sample

from ridgeline.cli.main import main


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["serve", *arguments]) == 2
    return capsys.readouterr().err


def test_other_addresses_need_a_token(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RIDGELINE_TOKEN", raising=False)
    assert "no token is set" in refused(capsys, "--host", "0.0.0.0")


def test_what_is_not_there_is_said_all_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = refused(capsys, str(tmp_path / "a"), str(tmp_path / "b"))
    assert f"{tmp_path}/a: no such file" in said and f"{tmp_path}/b: no such file" in said
    assert "--config" in refused(capsys, str(tmp_path), "--config", str(tmp_path / "c.yaml"))
    assert "--token-file" in refused(capsys, str(tmp_path), "--token-file", str(tmp_path / "t"))


def test_a_file_that_nothing_recognises_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{}")
    assert "not recognised" in refused(capsys, str(file))


@pytest.mark.integration
def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    sample.folder(tmp_path / ".", "mine")
    command = [sys.executable, "-m", "ridgeline.cli.main", "serve", str(tmp_path / "mine"), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ
    ) as server:
        try:
            assert server.stdout is not None and server.stderr is not None
            address = server.stdout.readline().strip()
            server.stderr.readline()
            assert httpx.get(f"{address}api/v1/runs", timeout=60).json()["runs"][0]["points"] == 3
            assert "Example/Model-A" in httpx.get(address, timeout=60).text
            server.send_signal(signal.SIGINT)
            assert server.wait(30) in (0, 130)
            assert "Traceback" not in server.stderr.read()
        finally:
            server.kill()  # a failed assertion must not wait for a server that nobody stops


@pytest.mark.integration
def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [
            sys.executable,
            "-m",
            "ridgeline.cli.main",
            "serve",
            str(tmp_path),
            "--port",
            str(taken.getsockname()[1]),
        ]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.returncode == 3 and "cannot listen on 127.0.0.1" in ended.stderr
