"""Best-policy identification for contextual bandits: which policy is best, within ε, with probability 1 − δ."""

from pacbandits.certificate import Certificate, certify, verify
from pacbandits.complexity import Complexity, measure
from pacbandits.design import Clipped, DesignTask, Shifted, Solution, solve_design
from pacbandits.errors import InputError
from pacbandits.policies import Finite, Trees, Trivial, policy_from_json
from pacbandits.problems import Bernoulli, Gaussian, Problem, load_problem, save_problem
from pacbandits.records import Contexts, Design, Log, Policy
from pacbandits.simulation import Run, run
from pacbandits.version import __version__

__all__ = [
    "Bernoulli",
    "Certificate",
    "Clipped",
    "Complexity",
    "Contexts",
    "Design",
    "DesignTask",
    "Finite",
    "Gaussian",
    "InputError",
    "Log",
    "Policy",
    "Problem",
    "Run",
    "Shifted",
    "Solution",
    "Trees",
    "Trivial",
    "__version__",
    "certify",
    "load_problem",
    "measure",
    "policy_from_json",
    "run",
    "save_problem",
    "solve_design",
    "verify",
]
