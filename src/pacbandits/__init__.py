"""Best-policy identification for contextual bandits: which policy is best, within ε, with probability 1 − δ."""

from pacbandits.algorithms import Coda, LinearRage, Outlook, Uniform, load_state, outlook, save_state
from pacbandits.certificate import (
    AsymptoticCertificate,
    Certificate,
    LinearCertificate,
    certify,
    certify_asymptotically,
    verify,
    verify_linear,
)
from pacbandits.complexity import Complexity, LinearComplexity, measure, measure_linear
from pacbandits.design import Clipped, DesignTask, Shifted, Solution, solve_design
from pacbandits.errors import InputError
from pacbandits.estimators.models import PerAction
from pacbandits.policies import Crossed, DeepTrees, Finite, Given, Learned, Linear, Trees, Trivial, policy_from_json
from pacbandits.problems import Bernoulli, Gaussian, Problem, load_problem, save_problem
from pacbandits.records import Contexts, Design, Log, Policy, from_open_bandit, read_log
from pacbandits.simulation import Run, run
from pacbandits.version import __version__

__all__ = [
    "AsymptoticCertificate",
    "Bernoulli",
    "Certificate",
    "Clipped",
    "Coda",
    "Complexity",
    "Contexts",
    "Crossed",
    "DeepTrees",
    "Design",
    "DesignTask",
    "Finite",
    "Gaussian",
    "Given",
    "InputError",
    "Learned",
    "Linear",
    "LinearCertificate",
    "LinearComplexity",
    "LinearRage",
    "Log",
    "Outlook",
    "PerAction",
    "Policy",
    "Problem",
    "Run",
    "Shifted",
    "Solution",
    "Trees",
    "Trivial",
    "Uniform",
    "__version__",
    "certify",
    "certify_asymptotically",
    "from_open_bandit",
    "load_problem",
    "load_state",
    "measure",
    "measure_linear",
    "outlook",
    "policy_from_json",
    "read_log",
    "run",
    "save_problem",
    "save_state",
    "solve_design",
    "verify",
    "verify_linear",
]
