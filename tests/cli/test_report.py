from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from tests.publish.report import sample

from ridgeline.cli.main import main
from ridgeline.core.point import Source
from ridgeline.results.runfolder import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    with RunFolder.create_or_open(path, sample.HEADER) as run:
        for concurrency in (1, 4, 16):
            cell = sample.cell("h200", "emulated", 2, concurrency)
            run.write_cell(cell, sample.point(cell, Source.EMULATED), None, None)
    return path


def test_the_page_lies_in_the_run_and_its_path_is_the_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{folder / 'report.html'}\n"
    assert "no network" in said.err
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_page_and_picture_go_where_they_are_asked_to(folder: Path, tmp_path: Path) -> None:
    page, picture = tmp_path / "deep" / "p.html", tmp_path / "f.svg"
    wanted = ["-o", str(page), "--svg", str(picture), "--x", "ttft.p50", "--title", "A title"]
    assert main(["report", str(folder), *wanted]) == 0
    assert "<title>A title · Ridgeline</title>" in page.read_text(encoding="utf-8")
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    assert "median time to first token" in (root.get("aria-label") or "")
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--x", "ttft.p50"], 2, "--svg FILE"),
        (["--svg", "f.svg", "--y", "nonsense"], 2, "throughput_per_gpu.total"),
        (["-o", "taken/report.html"], 3, "cannot write"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("a file", encoding="utf-8")
    assert main(["report", str(folder), *more]) == code
    assert message in capsys.readouterr().err
    assert not (folder / "report.html").exists()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "no run here" in capsys.readouterr().err
