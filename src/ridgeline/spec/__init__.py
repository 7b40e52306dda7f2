"""What a user writes becomes validated values.

In: config, runner and settings files, facts about GPUs and models. Out: `Benchmark` entries and settings with
file:line:column of everything, or all problems at once. It refuses to know engines, expansion and running.
"""
