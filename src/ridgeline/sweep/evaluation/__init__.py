"""Accuracy beside speed: a cell's deployment without prescribed acceptance answers a task, and its points say how well.

In: a task, a running deployment, bars by model and task. Out: scores with their error, a status, and the files that
people know: `meta_env.json`, `results_TIME.json`, `samples_TASK_TIME.jsonl`. Scoring is lm-eval's, never ours.
"""

from ridgeline.sweep.evaluation.changes import changes
from ridgeline.sweep.evaluation.lmeval import Score, Task, run_task
from ridgeline.sweep.evaluation.verdict import Evaluated, Status, evaluated, meta_env

__all__ = ["Evaluated", "Score", "Status", "Task", "changes", "evaluated", "meta_env", "run_task"]
