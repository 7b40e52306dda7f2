"""Ridgeline: continuous benchmarks of LLM serving, from a search space to a frontier people can trust."""

__version__ = "0.1.0"
