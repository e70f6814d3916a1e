"""Problems with their true rewards: the only home of the truth."""

from pacbandits.problems.base import LinearTruth, Problem
from pacbandits.problems.built_in import BuiltIn
from pacbandits.problems.classes import load_policies
from pacbandits.problems.files import save_problem
from pacbandits.problems.noise import Bernoulli, Gaussian
from pacbandits.problems.options import Option
from pacbandits.problems.registry import list_problems, load_problem

__all__ = [
    "Bernoulli",
    "BuiltIn",
    "Gaussian",
    "LinearTruth",
    "Option",
    "Problem",
    "list_problems",
    "load_policies",
    "load_problem",
    "save_problem",
]
