"""Documents, tables and figures for readers, built only from measured results."""

from dataclasses import replace
from importlib import import_module

from pacbandits.certificate import Claim
from pacbandits.complexity import Complexity
from pacbandits.planning import StudyPlan
from pacbandits.proofs import Proof
from pacbandits.report.epsilon_curve import certified_steps, draw_certified
from pacbandits.report.figures import check_figure_path, draw_complexity
from pacbandits.report.html import render_notebook
from pacbandits.report.realizable import draw_realizable, realizable_document
from pacbandits.report.result_report import (
    applied_document,
    asymptotic_document,
    certificate_document,
    claim_document,
    worth_document,
)
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
from pacbandits.simulation import Run

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
    "to_html",
    "worth_document",
]


def to_html(result: object) -> str:
    """Return a result as HTML for the output of a notebook."""
    match result:
        case Claim():
            document = replace(claim_document(result), title="Certificate")
        case Proof():
            return to_html(result.certificate)
        case Run():
            document = run_document(result)
        case Complexity():
            document = complexity_document(None, result)
        case StudyPlan():
            document = import_module("pacbandits.report.plan_report").plan_document(result, drawn=False)
        case _:  # the status of an experiment, whose module needs an extra
            document = import_module("pacbandits.report.experiment_report").status_document(vars(result)["figures"])
    return render_notebook(document)
