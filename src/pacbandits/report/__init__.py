"""Tables and pictures for people, made only from measured results."""

from pacbandits.report.applied import applied_table
from pacbandits.report.asymptotic import asymptotic_table
from pacbandits.report.certified import certified_steps, draw_certified
from pacbandits.report.comparison import Comparison, comparison_table
from pacbandits.report.figures import check_figure_path, draw_complexity
from pacbandits.report.realizable import draw_realizable, realizable_table
from pacbandits.report.runs import algorithms_table, certificate_table, run_table, runs_table
from pacbandits.report.tables import classes_table, complexity_table, problems_table

__all__ = [
    "Comparison",
    "algorithms_table",
    "applied_table",
    "asymptotic_table",
    "certificate_table",
    "certified_steps",
    "check_figure_path",
    "classes_table",
    "comparison_table",
    "complexity_table",
    "draw_certified",
    "draw_complexity",
    "draw_realizable",
    "problems_table",
    "realizable_table",
    "run_table",
    "runs_table",
]
