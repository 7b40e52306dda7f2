import json
import sys
from pathlib import Path

import pytest
from tests.spaces import config

from ridgeline.cli.main import main
from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.core.where import Where
from ridgeline.recipes import registry

SPACE = config(
    "v0.26.0",
    "      - { tp: 4, ep: 4, dp-attn: true, kv-offloading: none, spec-decoding: mtp, conc-list: [8, 16] }\n",
)
SCRIPT = """\
#!/bin/sh
vllm serve deepseek-ai/DeepSeek-V4-Pro \\
  --data-parallel-size 4 --enable-expert-parallel \\
  --gpu-memory-utilization 0.86 \\
  --max-num-batched-tokens 16384 \\
  --kv-cache-dtype fp8 --max-num-seqs 64 \\
  --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
"""
SEEN = {
    "image": "vllm-0.26.0", "model": "deepseek-ai/DeepSeek-V4-Pro", "gpu": "MI355X", "topology": "DP4EP4",
    "batched_tokens": 16384, "drafts": 3, "utilization": 0.86, "total_gib": 288, "weights_gib": 224.83, "kv_gib": 12.0,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A search space whose recipe is a script that lies beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.yaml").write_text(SPACE)
    (tmp_path / "run.sh").write_text(SCRIPT)
    (tmp_path / "seen.jsonl").write_text(json.dumps(SEEN) + "\n")

    def write(*_: object) -> Deployment:
        words = []
        for line, text in enumerate((tmp_path / "run.sh").read_text().splitlines(), 1):
            parts = text.rstrip("\\").replace("'", "").split()
            words += [Item(word, Where("run.sh", line)) for word in parts if not word.startswith("#!")]
        return Deployment((Service("engine", tuple(words)),), "engine", "m", "vllm", recipe="run.sh")

    recipe = registry.Recipe("run.sh", write, framework="vllm")
    monkeypatch.setattr("ridgeline.cli.preflight.deployment_of", lambda cell, facts, given, recipes=(): recipe.write())
    return tmp_path


def check(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(["check", *argv])
    done = capsys.readouterr()
    return code, done.out, done.err


def test_people_see_verdicts_arithmetic_and_hints(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = check(capsys, "space.yaml", "--observations", "seen.jsonl")
    assert code == 1
    assert "agentic/DP4EP4-mtp  fail     c8, c16" in out
    assert "FAIL    M3  one request of 1,048,576 tokens does not fit: 24.06 GiB needed" in out
    assert "hint: --gpu-memory-utilization" in out or "hint: --max-num-batched-tokens" in out
    assert out.endswith("2 cells: 2 fail\n")
    assert "PASS" not in out
    assert "PASS" in check(capsys, "space.yaml", "-v")[1]


def test_machines_get_one_object_a_cell(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = check(capsys, "space.yaml", "--json", "--cells", "*/c8", "--observations", "seen.jsonl")
    (cell,) = [json.loads(line) for line in out.splitlines()]
    assert (code, cell["verdict"]) == (1, "fail")
    memory = next(item for item in cell["findings"] if item["rule"] == "M3")
    assert memory["changes"][0]["service"] == "engine"
    assert any(item["name"] == "weights_gib" for item in cell["expectations"])


def test_sarif_and_annotations(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = check(capsys, "space.yaml", "--sarif", "--observations", "seen.jsonl")
    run = json.loads(out)["runs"][0]
    found = next(item for item in run["results"] if item["ruleId"] == "M3")
    assert found["level"] == "error"
    assert found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "run.sh"
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} >= {"M1", "G1", "C3"}
    _, out, _ = check(capsys, "space.yaml", "--github", "--observations", "seen.jsonl")
    line = next(line for line in out.splitlines() if "title=M3 fail" in line)
    assert line.startswith("::error file=run.sh,line=5,") and "16384" in (folder / "run.sh").read_text().splitlines()[4]


def test_a_fix_is_shown_and_only_applied_when_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "run.sh").read_bytes()
    code, out, err = check(capsys, "space.yaml", "--fix", "--observations", "seen.jsonl")
    assert "+++ b/run.sh" in out
    assert (folder / "run.sh").read_bytes() == before
    assert code == 0, err
    code, _, err = check(capsys, "space.yaml", "--fix", "--apply", "--observations", "seen.jsonl")
    after = (folder / "run.sh").read_bytes()
    changed = [line for line in zip(before.splitlines(), after.splitlines(), strict=True) if line[0] != line[1]]
    assert len(changed) == 1 and "wrote run.sh" in err
    code, out, _ = check(capsys, "space.yaml", "--json", "--observations", "seen.jsonl")
    rules = {item["rule"]: item["verdict"] for item in json.loads(out.splitlines()[0])["findings"]}
    assert rules["M3"] == "pass"


def test_waivers_that_waive_nothing_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "old.yaml").write_text(
        "waivers:\n- {rule: M3, cells: '*', reason: long ago, until: 2026-01-01}\n"
        "- {rule: M33, cells: '*', reason: a slip, until: 2199-01-01}\n"
        "- {rule: L25, cells: '*', reason: fine, until: 2199-01-01}\n"
    )
    told = check(capsys, "space.yaml", "--settings", "old.yaml")[2].splitlines()
    assert [line.partition(": ")[2] for line in told] == [
        "the waiver of M3 for `*` waives nothing: expired on 2026-01-01",
        "the waiver of M33 for `*` waives nothing: no rule is called `M33`",
    ]
    assert "old.yaml:2" in told[0] and "old.yaml:3" in told[1]


def test_waivers_and_fleets_of_the_settings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "ridgeline.yaml").write_text(
        "waivers:\n- {rule: M3, cells: '*', reason: being mended, until: 2199-01-01}\n"
        "fleets:\n  cluster:mi355x-amds: {gpu: mi355x, gpus-per-node: 8}\n"
    )
    code, out, _ = check(
        capsys,
        "space.yaml",
        "--settings",
        "ridgeline.yaml",
        "--json",
        "--cells",
        "*/c8",
        "--observations",
        "seen.jsonl",
    )
    found = {item["rule"]: item for item in json.loads(out)["findings"]}
    assert code == 0
    assert found["M3"]["waived"] == {"reason": "being mended", "until": "2199-01-01"}
    assert found["M1"]["verdict"] == "unknown"


def test_explanations(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = check(capsys, "--explain", "g1")
    assert code == 0 and out.startswith("G1  Decode batches have graphs") and "Example" in out
    code, _, err = check(capsys, "--explain", "X9")
    assert code == 2 and "M1, M2" in err


def test_wrong_usage_and_unknown_models(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys)[0] == 2
    assert check(capsys, "space.yaml", "--apply")[0] == 2
    (folder / "space.yaml").write_text(SPACE.replace("deepseek-ai/DeepSeek-V4-Pro", "org/nobody-knows"))
    code, _, err = check(capsys, "space.yaml")
    assert code == 2 and "no facts about model `org/nobody-knows`" in err and "space.yaml:" in err


def test_a_python_without_an_engine_cannot_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = check(capsys, "--probe", sys.executable)
    assert code == 3 and "neither vllm nor sglang" in err
    code, _, err = check(capsys, "--probe", "/nowhere/python")
    assert code == 3 and "could not be asked" in err


def test_a_dump_is_stored_by_build_and_found_again(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A stand-in for an engine's Python that prints what one would."""
    dump = {
        "format": "ridgeline-build/1", "kind": "vllm", "package": "vllm", "version": "0.26.0+rocm", "env": [],
        "options": {"--data-parallel-size": {"choices": None}}, "metrics": [], "missing": {"logs": "not there"},
    }  # fmt: skip
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho noise on stdout first\ncat <<'E'\n{json.dumps(dump)}\nE\n")
    python.chmod(0o755)
    code, _, err = check(capsys, "--probe", str(python), "--out", str(tmp_path), "--image", "registry/vllm:own")
    assert code == 0 and "not told: logs: not there" in err
    stored = json.loads((tmp_path / "vllm-0.26.0.json").read_text())
    assert stored["image"] == "registry/vllm:own"
    _, out, _ = check(capsys, "space.yaml", "--json", "--cells", "*/c8", "--dumps", str(tmp_path / "vllm-0.26.0.json"))
    wrong = [item["message"] for item in json.loads(out)["findings"] if item["rule"] == "P1"]
    assert "vllm 0.26.0+rocm has no option --max-num-seqs" in wrong
    assert not any("--data-parallel-size" in text for text in wrong)


BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def shipped(capsys: pytest.CaptureFixture[str], name: str) -> list[dict]:
    _, out, _ = check(capsys, str(BENCHMARKS / name), "--json")
    return [json.loads(line) for line in out.splitlines()]


def test_a_shipped_search_space_is_proved_by_what_is_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    """Free memory, earlier starts and a dump of the build are all on record: nothing is unknown."""
    cells = shipped(capsys, "llama8b-h200.yaml")
    assert [cell["verdict"] for cell in cells] == ["pass", "pass", "warn", "warn", "warn"]
    fits = {cell["cell"].rpartition("/c")[2]: _finding(cell, "M6")["verdict"] for cell in cells}
    assert fits == {"1": "pass", "2": "pass", "4": "pass", "8": "warn", "16": "warn"}
    assert "896,928 tokens a rank" in _finding(cells[0], "M3")["message"]  # 896,912 and 898,784 were seen
    assert all(_finding(cell, rule)["verdict"] == "pass" for cell in cells for rule in ("M1", "M3", "P1", "P2", "P6"))


def test_what_is_not_on_record_stays_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 70B nobody recorded a start: memory is unknown, the build's words are not."""
    for cell in shipped(capsys, "llama70b-h200-tp.yaml"):
        assert (cell["verdict"], _finding(cell, "M3")["verdict"]) == ("unknown", "unknown")
        assert _finding(cell, "P1")["verdict"] == _finding(cell, "P6")["verdict"] == "pass"


def _finding(cell: dict, rule: str) -> dict:
    return next(item for item in cell["findings"] if item["rule"] == rule)


def test_each_line_of_the_search_space_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """What several arms share is said once, with the line of each."""
    _, out, _ = check(capsys, str(BENCHMARKS / "llama70b-h200-tp.yaml"))
    block = out[out.index("WARN    M6") :].split("\n\n")[0]
    places = [line.split(";")[0].rpartition("yaml:")[2] for line in block.splitlines() if "yaml:" in line]
    assert places == ["14:13", "15:13", "16:13", "17:13"]
    assert "other sums]" in block
    assert "; all 15 cells" in out
    _, out, _ = check(capsys, str(BENCHMARKS / "llama70b-h200-tp.yaml"), "--github")
    lines = {line.partition("line=")[2].partition(",")[0] for line in out.splitlines() if "title=M6 warn" in line}
    assert lines == {"14", "15", "16", "17"}
    _, out, _ = check(capsys, str(BENCHMARKS / "llama70b-h200-tp.yaml"), "--sarif")
    found = next(r for r in json.loads(out)["runs"][0]["results"] if r["ruleId"] == "M6" and r["level"] == "warning")
    assert len(found["locations"]) == 1 and found["relatedLocations"]


def test_a_fix_of_the_search_space_keeps_its_comments(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two GPUs do not hold the weights: the entry gets four, and everything beside it stays."""
    monkeypatch.chdir(tmp_path)
    entry = "- { tp: 4, ep: 4, dp-attn: true, kv-offloading: none, spec-decoding: mtp, conc-list: [8, 16] }"
    text = "# mine\n" + SPACE.replace(
        entry, "- tp: 2  # as the rack allows\n        kv-offloading: none\n        conc-list: [2]"
    )
    (tmp_path / "space.yaml").write_text(text)
    code, out, _ = check(capsys, "space.yaml", "--fix")
    assert "+      - tp: 4  # as the rack allows" in out
    assert (tmp_path / "space.yaml").read_text() == text
    code, _, err = check(capsys, "space.yaml", "--fix", "--apply")
    assert (code, "wrote space.yaml" in err) == (0, True), err
    assert (tmp_path / "space.yaml").read_text() == text.replace("tp: 2 ", "tp: 4 ")
    _, out, _ = check(capsys, "space.yaml", "--json")
    assert _finding(json.loads(out), "M2")["verdict"] == "pass"
