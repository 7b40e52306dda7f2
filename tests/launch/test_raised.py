"""What a log says was raised first."""

from __future__ import annotations

from ridgeline.launch.raised import first_raised

CORE = "(EngineCore pid=116) ERROR 11-30 21:31:42 [core.py:1233] "
SERVER = "(APIServer pid=2) ERROR 11-30 21:31:42 [async_llm.py:704] "
WARNING = "(EngineCore pid=116) WARNING 11-30 21:31:13 [attention.py:1165] "


def traceback(prefix: str, raised: str) -> list[str]:
    return [
        f"{prefix}Traceback (most recent call last):",
        f'{prefix}  File "engine/core.py", line 1224, in run',
        f"{prefix}    core.run_busy_loop()",
        f"{prefix}    ^^^^^^^^^^^^^^^^^^^^",
        f"{prefix}{raised}",
    ]


SGLANG = [
    "[2026-11-30 21:31:42 TP0] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "scheduler.py", line 1, in run',
    "    step()",
    "torch.OutOfMemoryError: CUDA out of memory.",
]


class TestFirstRaised:
    def test_the_process_that_failed_and_not_the_one_that_noticed(self) -> None:
        lines = [
            "(APIServer pid=2) INFO 11-30 21:30:22 [api.py:1] ready",
            f"{CORE}EngineCore encountered a fatal error.",
            *traceback(CORE, "ModuleNotFoundError: No module named 'kernels'"),
            *traceback(SERVER, "vllm.v1.engine.exceptions.EngineDeadError: see above for the root cause."),
            "(APIServer pid=2) INFO:     Application shutdown complete.",
        ]
        assert first_raised(lines) == "ModuleNotFoundError: No module named 'kernels'"

    def test_warnings_are_no_errors(self) -> None:
        lines = traceback(WARNING, "RuntimeError: a warm-up that may fail")
        assert first_raised(lines) is None
        assert first_raised([*lines, *traceback(CORE, "ValueError: this one")]) == "ValueError: this one"

    def test_of_chained_exceptions_the_first(self) -> None:
        chained = [
            *traceback("", "KeyError: 'rope_theta'"),
            "",
            "The above exception was the direct cause of the following exception:",
            "",
            *traceback("", "ValueError: no such model"),
        ]
        assert first_raised(chained) == "KeyError: 'rope_theta'"

    def test_processes_that_write_between_each_other(self) -> None:
        ranks = [traceback(f"(Worker_TP{rank} pid={rank + 7}) ERROR 11-30 21:31:42 [worker.py:9] ", f"E{rank}: x")
                 for rank in (0, 1)]  # fmt: skip
        assert first_raised(line for pair in zip(*ranks, strict=True) for line in pair) == "E0: x"

    def test_sglangs_prefix(self) -> None:
        lines = [SGLANG[0], *(f"[2026-11-30 21:31:42 TP0] {line}" for line in SGLANG[1:])]
        assert first_raised(lines) == "torch.OutOfMemoryError: CUDA out of memory."

    def test_sglangs_lines_without_prefix_after_the_first(self) -> None:
        assert first_raised(SGLANG) == "torch.OutOfMemoryError: CUDA out of memory."

    def test_none(self) -> None:
        assert first_raised([]) is None
        assert first_raised(["ready", "killed"]) is None
        assert first_raised(traceback("", "ValueError: x")[:3]) is None
