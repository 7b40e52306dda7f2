"""Dumps of builds: what is shipped, how one is stored, and what the probe reads where it cannot ask."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import ridgeline
from ridgeline.core.errors import InputError
from ridgeline.spec.facts.builds import dump_from, load_dumps, text_of

PROBE = Path(ridgeline.__file__).parent / "plan/checks/inside_engine.py"


@pytest.fixture(scope="module")
def probe() -> ModuleType:
    """The program that runs inside an engine's Python, as a module of ours."""
    found = spec_from_file_location("inside_engine", PROBE)
    assert found is not None and found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_shipped_builds() -> None:
    dumps = {(d.package, d.version): d for d in load_dumps()}
    release = dumps["vllm", "0.26.0"]
    assert release.options is not None and len(release.options) == 372
    assert "flydsl" in (release.options["--moe-backend"] or ()) and "flydsl" not in (
        release.moe_backends["mxfp4"] or ()
    )
    assert release.env is not None and not {"VLLM_RPC_TIMEOUT", "VLLM_DSV4_MEGA_FP8_COMBINE"} & release.env
    assert release.attention_backends is not None and "ROCM_AITER_MLA" in release.attention_backends
    for version in ("0.5.12", "0.5.14", "0.5.16"):
        found = dumps["sglang", version]
        assert found.options is not None and {"--tp-size", "--ep-num-redundant-experts"} <= found.options.keys()
        assert found.metrics is not None and "sglang:num_running_reqs" in found.metrics
    assert all(dump.importable is None for dump in dumps.values())  # they are of packages, not of images


def test_what_is_stored_reads_back() -> None:
    for dump in load_dumps():
        data = json.loads(Path(dump.source).read_text(encoding="utf-8"))
        assert text_of(data) == Path(dump.source).read_text(encoding="utf-8")
        assert dump_from(json.loads(text_of(data)), dump.source) == dump
    odd = {
        "format": "ridgeline-build/1",
        "kind": "vllm",
        "package": "p",
        "version": "1",
        "options": {"--a": ["x y", '"'], "-b": None},
    }
    assert json.loads(text_of(odd)) == odd
    assert dump_from(odd, "f").options == {"--a": ("x y", '"'), "-b": None}
    older = {**odd, "options": {"--a": {"choices": ["x"], "type": "str"}, "-b": {"choices": None}}}
    assert dump_from(older, "f").options == {"--a": ("x",), "-b": None}
    with pytest.raises(InputError):
        dump_from({"format": "another"}, "f")


SOURCE = """
KINDS = ["one", "two"]
if True:
    KINDS.append("three")
    KINDS.extend(["four"])
MODES = {"fast", "slow"}
MODES.add("safe")


class ServerArgs:
    model_path: A[str, Arg(help="x", aliases=["--model"])]
    tp_size: A[int, Arg(help="x")] = 1
    kind: A[str, Arg(help="x", choices=KINDS)] = "one"
    mode: A[str, Arg(help="x", choices=MODES, cli_name="--run-mode")] = "fast"
    plain: A[bool, "Told in words."] = False
    inner: A[str, Arg(help="x", no_cli=True)] = ""
    unmarked: int = 3

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--listed", "-l", choices=["a", "b"])
        parser.add_argument("--made", choices=sorted(KINDS))
        parser.add_argument("--" + "computed")
"""


def test_options_are_read_where_the_parser_cannot_be_asked(probe: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "server_args.py"
    path.write_text(SOURCE)
    assert probe.written_options(path) == {
        "--model-path": None, "--model": None, "--tp-size": None, "--kind": ["four", "one", "three", "two"],
        "--run-mode": ["fast", "safe", "slow"], "--plain": None, "--listed": ["a", "b"], "-l": ["a", "b"],
        "--made": None,
    }  # fmt: skip


def test_modules_are_imported_in_a_process_of_their_own(
    probe: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that ends the process that imports it is a no, and the reason is kept."""
    (tmp_path / "good_library.py").write_text("")
    (tmp_path / "bad_library.py").write_text("raise OSError('libcuda.so.1: cannot open')")
    (tmp_path / "deadly_library.py").write_text("import os; os._exit(3)")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    names = ("good_library", "bad_library", "deadly_library", "absent_library")
    assert [probe.imports(name) for name in names] == [True, False, False, False]
    assert "libcuda" in probe.MISSING["importable.bad_library"]
    assert probe.MISSING["importable.deadly_library"] == "status 3"
    assert "importable.absent_library" not in probe.MISSING
