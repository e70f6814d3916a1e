"""Tables and pictures for people, made only from measured results."""

from pacbandits.report.figures import check_figure_path, draw_complexity
from pacbandits.report.runs import algorithms_table, certificate_table, run_table, runs_table
from pacbandits.report.tables import complexity_table, problems_table

__all__ = [
    "algorithms_table",
    "certificate_table",
    "check_figure_path",
    "complexity_table",
    "draw_complexity",
    "problems_table",
    "run_table",
    "runs_table",
]
