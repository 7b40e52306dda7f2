"""The report: one run as one file that people can open, question and pass on.

In: points, failures and the run's header. Out: a self-contained HTML page, or a still SVG picture of its frontier. It
refuses to compute: frontiers and formulas are `results`', and the page's script selects and draws only.
"""

from ridgeline.publish.report.page import deployments_of, render_report, write_report, write_run_report, write_text
from ridgeline.publish.report.still import render_picture

__all__ = ["deployments_of", "render_picture", "render_report", "write_report", "write_run_report", "write_text"]
