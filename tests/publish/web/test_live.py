"""A sweep that goes on, watched in a browser: pages change by themselves. Needs Debian's Chromium."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import QUICK
from tests.golden import ROOT
from tests.publish.web.test_browser import browser, serve

from ridgeline.publish.web.app import create_app
from ridgeline.publish.web.context import Context
from ridgeline.publish.web.data import Library
from ridgeline.publish.web.folders import FolderShelf

pytestmark = pytest.mark.integration

__all__ = ["browser"]  # a fixture
PATIENCE_S = 120
SWEEP = ("sweep", str(ROOT / "benchmarks/quickstart.yaml"), "--engine", "emulated", "--cells", "*fp8*TP2/c[16]*")


def seen(pages: list[Any], script: str, of: subprocess.Popen[bytes]) -> bool:
    """Wait until an expression is true on every page, while the sweep may still make it true."""
    end = time.monotonic() + PATIENCE_S
    while not all(page.evaluate(script) for page in pages):
        if time.monotonic() > end or (of.poll() or 0) > 1:
            return False
        time.sleep(0.1)
    return True


def test_runs_and_a_run_s_page_follow_a_sweep_by_themselves(browser: Any, tmp_path: Path) -> None:
    server = serve(create_app(Context(Library([FolderShelf([tmp_path])]))))
    listed, single = browser.new_page(), browser.new_page()
    listed.goto(f"{server.base}/runs")
    assert "No run yet" in listed.inner_text("#lead")
    listed.evaluate("globalThis.same = true")  # gone when the page is loaded again
    command = [sys.executable, "-m", "ridgeline.cli.main", *SWEEP, *QUICK, "--out", str(tmp_path / "now")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as sweep:
        try:
            going = "document.querySelector('#lead').textContent.includes('is going on now')"
            assert seen([listed], going, sweep)
            single.goto(f"{server.base}/runs/now")
            single.evaluate("globalThis.same = true")
            assert "going on" in single.inner_text(".headline") and sweep.poll() is None
            rows = "document.querySelectorAll('#live-part tbody tr.unmeasured').length"
            assert seen([single], f"{rows} === 2", sweep)
            assert seen([listed], "document.querySelector('#lead').textContent.includes('Nothing runs now')", sweep)
            assert seen([single], "!document.querySelector('.headline').textContent.includes('going on')", sweep)
            assert listed.inner_text("#live-part td.num >> nth=0") == "2"
            assert all(page.evaluate("globalThis.same") for page in (listed, single))
            assert "emulated" in single.inner_text("#live-part tbody tr >> nth=0")
        finally:
            sweep.terminate()
    server.stop()
