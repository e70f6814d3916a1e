"""Problems with known true rewards; no other package holds them."""

from pacbandits.options import Option
from pacbandits.problems.base import Problem, RealizableTruth
from pacbandits.problems.built_in import BuiltIn
from pacbandits.problems.files import save_problem
from pacbandits.problems.noise import Bernoulli, Gaussian
from pacbandits.problems.registry import list_problems, load_policies_for, load_problem

__all__ = [
    "Bernoulli",
    "BuiltIn",
    "Gaussian",
    "Option",
    "Problem",
    "RealizableTruth",
    "list_problems",
    "load_policies_for",
    "load_problem",
    "save_problem",
]
