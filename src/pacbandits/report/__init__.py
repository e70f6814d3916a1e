"""Documents, tables and figures for readers, built only from measured results."""

from pacbandits.report.certified import certified_steps, draw_certified
from pacbandits.report.figures import check_figure_path, draw_complexity
from pacbandits.report.realizable import draw_realizable, realizable_document
from pacbandits.report.result_report import applied_document, asymptotic_document, certificate_document, worth_document
from pacbandits.report.run_report import (
    Comparison,
    algorithms_document,
    classes_document,
    comparison_document,
    complexity_document,
    problems_document,
    run_document,
    runs_document,
)

__all__ = [
    "Comparison",
    "algorithms_document",
    "applied_document",
    "asymptotic_document",
    "certificate_document",
    "certified_steps",
    "check_figure_path",
    "classes_document",
    "comparison_document",
    "complexity_document",
    "draw_certified",
    "draw_complexity",
    "draw_realizable",
    "problems_document",
    "realizable_document",
    "run_document",
    "runs_document",
    "worth_document",
]
