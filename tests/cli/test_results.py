"""`ridgeline results` and `ridgeline compare`: whole commands on small runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.results.builders import S, cell, deployment, record, replay

from ridgeline.cli.main import main
from ridgeline.core.point import Source
from ridgeline.results.aggregate import aggregate
from ridgeline.results.runfolder import RunFolder, RunHeader

pytestmark = pytest.mark.integration  # starts processes or repositories for most of its tests


def make_run(
    path: Path, *, decode_ms: int = 10, node: str = "n1", source: Source = Source.MEASURED, tp: int = 2
) -> Path:
    """A run of three concurrencies whose requests take `decode_ms` a token."""
    header = RunHeader(name=path.name, created_at="2026-06-01T00:00:00+00:00", command=("sweep", path.name))
    with RunFolder.create_or_open(path, header) as folder:
        for concurrency in (1, 2, 4):
            c = cell(concurrency, "fixed-seq-len", tp)
            ms = 1_000_000
            made = replay(
                [
                    record(
                        i,
                        i * S,
                        last_token_ns=i * S + 50 * ms + 10 * decode_ms * ms,
                        end_ns=i * S + 51 * ms + 10 * decode_ms * ms,
                    )
                    for i in range(30)
                ]
            )
            key = f"{concurrency:02x}{int(source is Source.MEASURED):02x}" * 16
            found = aggregate(made, cell=c, source=source, run_key=key, provenance={"node": node})
            folder.write_cell(c, found, made, deployment())
        folder.write_failure(cell(8, "fixed-seq-len", tp), "ff" * 32, "start", "no memory")
    return path


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def read(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_import_list_show_export_rebuild_query(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIDGELINE_STORE", str(tmp_path / "s"))
    assert run("results", "list") == 2
    assert "no store at" in capsys.readouterr().err
    source = make_run(tmp_path / "night")
    assert run("results", "import", source) == 0
    assert "night (ridgeline): 1 runs, 3 points, 1 failures" in capsys.readouterr().out
    assert run("results", "import", source) == 0
    assert "known already" in capsys.readouterr().out

    assert run("results", "list", "--json") == 0
    (header,) = read(capsys)
    assert header["points"] == 3 and header["failures"] == 1 and header["sources"] == ["measured"]
    assert run("results", "list") == 0 and "3/3" in capsys.readouterr().out
    assert run("results", "show", "night", "--json") == 0
    shown = read(capsys)
    assert [point["repeat"] for point in shown["points"]] == [1, 1, 1]
    assert run("results", "show", "night") == 0
    assert "failed: tiny-fp8-h200-vllm/1k1k/TP2/c8: start: no memory" in capsys.readouterr().out
    assert run("results", "show", shown["points"][0]["id"]) == 0
    text = capsys.readouterr().out
    assert "withheld: p99 needs 500 samples" in text and "found  node = n1" in text and "file  records:" in text

    assert run("results", "export", "night", "--measure", "ttft.p50") == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("ttft.p50 (s)")
    assert run("results", "export", "--as", "parquet", "-o", tmp_path / "p.parquet") == 0
    assert run("results", "export", "night", "--as", "inferencex", "-o", tmp_path / "rows") == 0
    assert len(list((tmp_path / "rows").glob("agg_*.json"))) == 3
    capsys.readouterr()
    assert run("results", "import", tmp_path / "rows", "--set", "run=again", "--json") == 0
    assert read(capsys)[0]["points"] == 3
    assert run("results", "query", "SELECT count(*) AS n FROM records", "--json") == 0
    assert read(capsys) == [{"n": 90}]
    assert run("results", "query", "DROP VIEW records") == 2
    capsys.readouterr()
    assert run("results", "rebuild", "--json") == 0
    assert read(capsys)["revised"] == 0


def test_compare_and_its_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, same = make_run(tmp_path / "before"), make_run(tmp_path / "same")
    slow = make_run(tmp_path / "slow", decode_ms=30, node="n2")
    assert run("compare", before, same, "--gate") == 0
    text = capsys.readouterr().out
    assert text.startswith("same: 3 same") and "one run each; stored noise model" in text
    rows = [line.split() for line in text.splitlines() if " itl.p50 " in line and "[1]" in line]
    assert len(rows) == 3 and all({"1+1", "30+30", "[1]"} <= set(row) for row in rows), "n and origin of every figure"
    assert run("compare", before, slow) == 0, "without --gate the answer is only told"
    capsys.readouterr()
    assert run("compare", before, slow, "--gate") == 1
    text = capsys.readouterr().out
    assert text.startswith("worse: ") and ["node", "node", "n1", "n2", "3", "of", "3"] in [
        line.split() for line in text.splitlines()
    ]
    assert "nodes differ (n1 and n2)" in text and "cheapest cells to run again" in text
    assert run("compare", slow, before, "--gate", "--json") == 0
    answer = read(capsys)
    assert answer["verdict"] == "better" and {p["verdict"] for p in answer["points"]} == {"better"}
    assert answer["points"][0]["differences"][1]["interval_from"].startswith("one run each")


def test_compare_reads_the_store_lists_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = make_run(tmp_path / "before")
    emulated = make_run(tmp_path / "emulated", source=Source.EMULATED)
    other = make_run(tmp_path / "other", tp=4)
    assert run("results", "import", before, "--store", tmp_path / "s") == 0
    capsys.readouterr()
    assert run("compare", "before", before, "--store", tmp_path / "s", "--json") == 0
    assert read(capsys)["verdict"] == "same"
    assert run("compare", before, emulated) == 2
    assert "does not mix sources unasked" in capsys.readouterr().err
    assert run("compare", before, emulated, "--across-sources") == 0
    assert "[measured]" in capsys.readouterr().out
    assert run("compare", before, other, "--json") == 0
    answer = read(capsys)
    assert answer["verdict"] == "unclear" and len(answer["unmatched"]) == 6
    assert run("compare", before, before, "--cells", "nothing*") == 2
    assert "match `nothing*`" in capsys.readouterr().err
    assert run("compare", before, tmp_path / "gone", "--store", tmp_path / "s") == 2
    assert "no run is called" in capsys.readouterr().err


def test_what_cannot_be_imported_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("{}")
    store = ("--store", tmp_path / "s")
    assert run("results", "import", tmp_path / "x.json", *store) == 2
    assert "not recognised by any importer" in capsys.readouterr().err
    assert run("results", "import", tmp_path / "x.json", "--set", "gpus", *store) == 2
    assert "not name=value: gpus" in capsys.readouterr().err
    assert run("results", "import", tmp_path / "x.json", "--channel", "prod", *store) == 2
    assert "no channel is called `prod`" in capsys.readouterr().err
    assert run("results", "import", tmp_path / "x.json", "--channel", "published", *store) == 2
    assert "stage the run, then promote it" in capsys.readouterr().err


PRICES = """\
format: ridgeline.prices
version: 1
name: example
valid_from: 2026-01-31
source: made up for a test
gpu_hours: {h200: 2.0}
tokens:
  tiny: {input: 1.0, cached_input: 0.1, output: 4.0}
"""


def test_prices_reach_comparison_export_and_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import csv
    import io

    before, slow = make_run(tmp_path / "before"), make_run(tmp_path / "slow", decode_ms=30)
    sheet, settings = tmp_path / "prices.yaml", tmp_path / "ridgeline.yaml"
    sheet.write_text(PRICES)
    settings.write_text("price-sheet: prices.yaml\n")
    measure = ("--measure", "tokens_per_dollar.output")
    assert run("compare", before, slow, *measure, "--prices", sheet) == 0
    text = capsys.readouterr().out
    assert "tokens_per_dollar.output = 3600 x throughput_per_gpu / price of a GPU-hour" in text
    assert "h200: price of a GPU-hour 2 USD (example, valid from 2026-01-31" in text
    assert run("compare", before, slow, *measure, "--settings", settings) == 0
    assert capsys.readouterr().out == text, "the settings may name the sheet"
    settings.write_text("prices: {h200: 4}\n")
    assert run("compare", before, slow, *measure, "--settings", settings) == 0
    assert "price of a GPU-hour 4 USD (ridgeline.yaml" in capsys.readouterr().out
    assert run("compare", before, slow, *measure) == 0
    assert "withheld or not measured" in capsys.readouterr().out, "without prices there is nothing to compare"
    store = tmp_path / "s"
    assert run("results", "import", before, "--store", store) == 0
    capsys.readouterr()
    assert run("results", "export", "--store", store, "--prices", sheet) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    for row in rows:
        rate = float(row["throughput_per_gpu.output (tok/s/GPU)"])
        assert float(row["tokens_per_dollar.output (tok/USD)"]) == pytest.approx(3600 * rate / 2.0)
        assert row["price of a GPU-hour (USD)"] == "2.0" and row["price sheet"].startswith("example ")
    assert run("compare", before, slow, *measure, "--prices", tmp_path / "none.yaml") == 2
