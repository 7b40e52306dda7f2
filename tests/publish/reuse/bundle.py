"""A run's artifacts as a sweep uploads them: a folder for each, in the shapes of rows, points and evaluations."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

ABOUT = {
    "hw": "cluster:h1-acme",
    "image": "acme/engine:1",
    "model": "acme/a",
    "infmax_model_prefix": "a",
    "framework": "vllm",
    "precision": "fp8",
    "spec_decoding": "none",
    "disagg": False,
    "recipe_fingerprint": "f" * 64,
}
SINGLE = {"is_multinode": False, "tp": 8, "pp": 1, "dcp_size": 1, "pcp_size": 1, "ep": 1, "dp_attention": "false"}
SIDE = {"tp": 8, "pp": 1, "dcp_size": 1, "pcp_size": 1, "ep": 8, "dp_attention": "true", "num_workers": 1}
MULTI = {"is_multinode": True} | {
    f"{side}_{name}": value for side in ("prefill", "decode") for name, value in SIDE.items()
}
FIXED = {**ABOUT, "isl": 1024, "osl": 1024, **SINGLE, "conc": 4, "tput_per_gpu": 900.0, "power_valid": 0}
FIXED_MULTI = {**ABOUT, "isl": 1024, "osl": 1024, **MULTI, "conc": 64, "disagg": True, "num_prefill_gpu": 8}
AGENTIC = {
    **ABOUT,
    **SINGLE,
    "conc": 4,
    "scenario_type": "agentic-coding",
    "kv_offloading": "none",
    "kv_offload_backend": None,
    "request_metrics": {"ttft": {"p50": 0.4}},
    "server_metrics": {},
}
META = {**ABOUT, **SINGLE, "hw": "CLUSTER:H1-ACME", "framework": "VLLM", "conc": "16"}
ROW = {**META, "task": "gsm8k", "score": 0.95, "em_strict": 0.95}


def result(score: float = 0.95, task: str = "gsm8k") -> dict[str, Any]:
    """A result file of the evaluation harness."""
    return {"lm_eval_version": "0.4.9", "results": {task: {"alias": task, "exact_match,strict-match": score}}}


def stamp(hour: int, conc: int | None = None) -> str:
    return f"results_2026-08-20T{hour:02d}-00-00.123456{'' if conc is None else f'_conc{conc}'}.json"


class Bundle:
    """The folder, sound from the start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.put("results_bmk/agg_bmk.json", [FIXED, {**FIXED, "conc": 8}, FIXED_MULTI])
        self.put("run-stats/run_stats.json", {"h1": {"n_success": 3, "total": 3}})
        for name, conc in (("x_conc4", 4), ("x_conc8", 8)):
            self.put(f"bmk_agentic_{name}/agg_{name}.json", {**AGENTIC, "conc": conc})
            self.put(f"agentic_{name}/profile_export.json", {})
        self.put("eval_a/meta_env.json", META)
        self.put(f"eval_a/{stamp(10)}", result())
        self.put("eval_a/samples_gsm8k.json", [{"doc": 1}])
        self.put("eval_results_all/agg_eval.json", [ROW])
        self.put("eval_server_logs_a/x.json", "not JSON")
        self.put("eval_gpu_metrics_a/x.json", {})
        self.put("server_logs_x/log.txt", "")
        self.put("changelog-metadata/metadata.json", {})

    def put(self, path: str, data: Any) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(data if isinstance(data, str) else json.dumps(data))

    def read(self, path: str) -> Any:
        return json.loads((self.folder / path).read_text())

    def drop(self, path: str) -> None:
        place = self.folder / path
        shutil.rmtree(place) if place.is_dir() else place.unlink()

    @property
    def files(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}
