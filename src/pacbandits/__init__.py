"""Best-policy identification for contextual bandits: which policy is best, within ε, with probability 1 − δ.

Public names are imported on first use, so that `import pacbandits` is fast.
"""

from __future__ import annotations

from pacbandits.version import __version__

# The constant of `typing`, without the cost of importing that module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pacbandits.algorithms import make_algorithm as make_algorithm
    from pacbandits.analysis import Result as Result
    from pacbandits.analysis import certify as certify
    from pacbandits.analysis import evaluate as evaluate
    from pacbandits.certificate import AsymptoticCertificate as AsymptoticCertificate
    from pacbandits.certificate import Certificate as Certificate
    from pacbandits.certificate import Claim as Claim
    from pacbandits.certificate import Interval as Interval
    from pacbandits.certificate import Learning as Learning
    from pacbandits.certificate import LearntClass as LearntClass
    from pacbandits.certificate import Worth as Worth
    from pacbandits.certificate import certify_asymptotically as certify_asymptotically
    from pacbandits.certificate import learn_class as learn_class
    from pacbandits.certificate import measure_worth as measure_worth
    from pacbandits.complexity import Complexity as Complexity
    from pacbandits.complexity import measure as measure
    from pacbandits.design import Clipped as Clipped
    from pacbandits.design import DesignTask as DesignTask
    from pacbandits.design import Shifted as Shifted
    from pacbandits.design import Solution as Solution
    from pacbandits.design import solve_design as solve_design
    from pacbandits.design.large import LargeSolution as LargeSolution
    from pacbandits.design.large import LargeTask as LargeTask
    from pacbandits.design.large import solve_large_design as solve_large_design
    from pacbandits.errors import InputError as InputError
    from pacbandits.experiment.assignment_records import Assignment as Assignment
    from pacbandits.experiment.assignment_records import Recorded as Recorded
    from pacbandits.experiment.audit import Audit as Audit
    from pacbandits.experiment.audit import Record as Record
    from pacbandits.experiment.audit import audit as audit
    from pacbandits.experiment.audit import read_record as read_record
    from pacbandits.experiment.experiment import Experiment as Experiment
    from pacbandits.experiment.experiment import list_experiments as list_experiments
    from pacbandits.experiment.exports import ExperimentResult as ExperimentResult
    from pacbandits.experiment.exports import Seal as Seal
    from pacbandits.experiment.exports import Status as Status
    from pacbandits.experiment.protocol import ExperimentProtocol as ExperimentProtocol
    from pacbandits.experiment.protocol import GuardrailRule as GuardrailRule
    from pacbandits.experiment.protocol import LateRule as LateRule
    from pacbandits.experiment.protocol_files import read_protocol as read_protocol
    from pacbandits.exports import DeployedPolicy as DeployedPolicy
    from pacbandits.exports import to_flags as to_flags
    from pacbandits.exports import to_javascript as to_javascript
    from pacbandits.exports import to_json_logic as to_json_logic
    from pacbandits.exports import to_python as to_python
    from pacbandits.exports import to_rules as to_rules
    from pacbandits.exports import to_sql as to_sql
    from pacbandits.learner import PolicyLearner as PolicyLearner
    from pacbandits.logs import from_open_bandit as from_open_bandit
    from pacbandits.logs import open_contexts as open_contexts
    from pacbandits.logs import read_log as read_log
    from pacbandits.options import About as About
    from pacbandits.planning import Affordable as Affordable
    from pacbandits.planning import Assumptions as Assumptions
    from pacbandits.planning import GainPlan as GainPlan
    from pacbandits.planning import Limits as Limits
    from pacbandits.planning import Quantiles as Quantiles
    from pacbandits.planning import StudyPlan as StudyPlan
    from pacbandits.planning import Traffic as Traffic
    from pacbandits.planning import load_gain_plan as load_gain_plan
    from pacbandits.planning import load_plan as load_plan
    from pacbandits.planning import plan as plan
    from pacbandits.planning import save_plan as save_plan
    from pacbandits.policies import Crossed as Crossed
    from pacbandits.policies import DeepTrees as DeepTrees
    from pacbandits.policies import Finite as Finite
    from pacbandits.policies import Given as Given
    from pacbandits.policies import Learned as Learned
    from pacbandits.policies import Linear as Linear
    from pacbandits.policies import Restrictions as Restrictions
    from pacbandits.policies import Trees as Trees
    from pacbandits.policies import Trivial as Trivial
    from pacbandits.policies import policy_from_json as policy_from_json
    from pacbandits.policies import within_budget as within_budget
    from pacbandits.policies.base import PolicyClass as PolicyClass
    from pacbandits.policies.base import policy_class as policy_class
    from pacbandits.policies.registry import load_policies as load_policies
    from pacbandits.problems import Bernoulli as Bernoulli
    from pacbandits.problems import Gaussian as Gaussian
    from pacbandits.problems import Problem as Problem
    from pacbandits.problems import load_problem as load_problem
    from pacbandits.problems import save_problem as save_problem
    from pacbandits.problems.built_in import built_in as built_in
    from pacbandits.problems.scenarios import Scenario as Scenario
    from pacbandits.progress import show_progress as show_progress
    from pacbandits.proofs import Proof as Proof
    from pacbandits.proofs import load_certificate as load_certificate
    from pacbandits.proofs import save_certificate as save_certificate
    from pacbandits.proofs import verify as verify
    from pacbandits.realizable.algorithm import LinearRage as LinearRage
    from pacbandits.realizable.certificate import RealizableCertificate as RealizableCertificate
    from pacbandits.realizable.complexity import RealizableComplexity as RealizableComplexity
    from pacbandits.realizable.complexity import measure_realizable as measure_realizable
    from pacbandits.realizable.verify import verify_realizable as verify_realizable
    from pacbandits.records import Contexts as Contexts
    from pacbandits.records import Design as Design
    from pacbandits.records import Log as Log
    from pacbandits.records import Mixture as Mixture
    from pacbandits.records import Policy as Policy
    from pacbandits.records import RewardBounds as RewardBounds
    from pacbandits.rewards import PerAction as PerAction
    from pacbandits.simulation import Run as Run
    from pacbandits.simulation import run as run
    from pacbandits.trials.coda import Coda as Coda
    from pacbandits.trials.coda import Uniform as Uniform
    from pacbandits.trials.forecast import Outlook as Outlook
    from pacbandits.trials.forecast import outlook as outlook
    from pacbandits.trials.protocol import Algorithm as Algorithm
    from pacbandits.trials.protocol import Answer as Answer
    from pacbandits.trials.protocol import Plan as Plan
    from pacbandits.trials.protocol import Setting as Setting
    from pacbandits.trials.protocol import State as State
    from pacbandits.trials.saved_state import load_state as load_state
    from pacbandits.trials.saved_state import save_state as save_state
    from pacbandits.trials.trial import Exploration as Exploration
    from pacbandits.trials.trial import Trial as Trial
    from pacbandits.verifier import Verdict as Verdict

# The module that defines each public name.
_HOMES: dict[str, tuple[str, ...]] = {
    "algorithms": ("make_algorithm",),
    "analysis": (
        "Result",
        "certify",
        "evaluate",
    ),
    "certificate": (
        "AsymptoticCertificate",
        "Certificate",
        "Claim",
        "Interval",
        "Learning",
        "LearntClass",
        "Worth",
        "certify_asymptotically",
        "learn_class",
        "measure_worth",
    ),
    "complexity": (
        "Complexity",
        "measure",
    ),
    "design": (
        "Clipped",
        "DesignTask",
        "Shifted",
        "Solution",
        "solve_design",
    ),
    "design.large": (
        "LargeSolution",
        "LargeTask",
        "solve_large_design",
    ),
    "errors": ("InputError",),
    "experiment.assignment_records": (
        "Assignment",
        "Recorded",
    ),
    "experiment.audit": (
        "Audit",
        "Record",
        "audit",
        "read_record",
    ),
    "experiment.experiment": (
        "Experiment",
        "list_experiments",
    ),
    "experiment.exports": (
        "ExperimentResult",
        "Seal",
        "Status",
    ),
    "experiment.protocol": (
        "ExperimentProtocol",
        "GuardrailRule",
        "LateRule",
    ),
    "experiment.protocol_files": ("read_protocol",),
    "exports": (
        "DeployedPolicy",
        "to_flags",
        "to_javascript",
        "to_json_logic",
        "to_python",
        "to_rules",
        "to_sql",
    ),
    "learner": ("PolicyLearner",),
    "logs": (
        "from_open_bandit",
        "open_contexts",
        "read_log",
    ),
    "options": ("About",),
    "planning": (
        "Affordable",
        "Assumptions",
        "GainPlan",
        "Limits",
        "Quantiles",
        "StudyPlan",
        "Traffic",
        "load_gain_plan",
        "load_plan",
        "plan",
        "save_plan",
    ),
    "policies": (
        "Crossed",
        "DeepTrees",
        "Finite",
        "Given",
        "Learned",
        "Linear",
        "Restrictions",
        "Trees",
        "Trivial",
        "policy_from_json",
        "within_budget",
    ),
    "policies.base": (
        "PolicyClass",
        "policy_class",
    ),
    "policies.registry": ("load_policies",),
    "problems": (
        "Bernoulli",
        "Gaussian",
        "Problem",
        "load_problem",
        "save_problem",
    ),
    "problems.built_in": ("built_in",),
    "problems.scenarios": ("Scenario",),
    "progress": ("show_progress",),
    "proofs": (
        "Proof",
        "load_certificate",
        "save_certificate",
        "verify",
    ),
    "realizable.algorithm": ("LinearRage",),
    "realizable.certificate": ("RealizableCertificate",),
    "realizable.complexity": (
        "RealizableComplexity",
        "measure_realizable",
    ),
    "realizable.verify": ("verify_realizable",),
    "records": (
        "Contexts",
        "Design",
        "Log",
        "Mixture",
        "Policy",
        "RewardBounds",
    ),
    "rewards": ("PerAction",),
    "simulation": (
        "Run",
        "run",
    ),
    "trials.coda": (
        "Coda",
        "Uniform",
    ),
    "trials.forecast": (
        "Outlook",
        "outlook",
    ),
    "trials.protocol": (
        "Algorithm",
        "Answer",
        "Plan",
        "Setting",
        "State",
    ),
    "trials.saved_state": (
        "load_state",
        "save_state",
    ),
    "trials.trial": (
        "Exploration",
        "Trial",
    ),
    "verifier": ("Verdict",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

# Deprecated public names.
_RENAMED = {
    "LinearCertificate": "RealizableCertificate",
    "LinearComplexity": "RealizableComplexity",
    "Lottery": "Mixture",
    "measure_linear": "measure_realizable",
    "verify_linear": "verify_realizable",
}

__all__ = [
    "About",
    "Affordable",
    "Algorithm",
    "Answer",
    "Assignment",
    "Assumptions",
    "AsymptoticCertificate",
    "Audit",
    "Bernoulli",
    "Certificate",
    "Claim",
    "Clipped",
    "Coda",
    "Complexity",
    "Contexts",
    "Crossed",
    "DeepTrees",
    "DeployedPolicy",
    "Design",
    "DesignTask",
    "Experiment",
    "ExperimentProtocol",
    "ExperimentResult",
    "Exploration",
    "Finite",
    "GainPlan",
    "Gaussian",
    "Given",
    "GuardrailRule",
    "InputError",
    "Interval",
    "LargeSolution",
    "LargeTask",
    "LateRule",
    "Learned",
    "Learning",
    "LearntClass",
    "Limits",
    "Linear",
    "LinearRage",
    "Log",
    "Mixture",
    "Outlook",
    "PerAction",
    "Plan",
    "Policy",
    "PolicyClass",
    "PolicyLearner",
    "Problem",
    "Proof",
    "Quantiles",
    "RealizableCertificate",
    "RealizableComplexity",
    "Record",
    "Recorded",
    "Restrictions",
    "Result",
    "RewardBounds",
    "Run",
    "Scenario",
    "Seal",
    "Setting",
    "Shifted",
    "Solution",
    "State",
    "Status",
    "StudyPlan",
    "Traffic",
    "Trees",
    "Trial",
    "Trivial",
    "Uniform",
    "Verdict",
    "Worth",
    "__version__",
    "audit",
    "built_in",
    "certify",
    "certify_asymptotically",
    "evaluate",
    "from_open_bandit",
    "learn_class",
    "list_experiments",
    "load_certificate",
    "load_gain_plan",
    "load_plan",
    "load_policies",
    "load_problem",
    "load_state",
    "make_algorithm",
    "measure",
    "measure_realizable",
    "measure_worth",
    "open_contexts",
    "outlook",
    "plan",
    "policy_class",
    "policy_from_json",
    "read_log",
    "read_protocol",
    "read_record",
    "run",
    "save_certificate",
    "save_plan",
    "save_problem",
    "save_state",
    "show_progress",
    "solve_design",
    "solve_large_design",
    "to_flags",
    "to_javascript",
    "to_json_logic",
    "to_python",
    "to_rules",
    "to_sql",
    "verify",
    "verify_realizable",
    "within_budget",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module
    from warnings import warn

    if name in _RENAMED:
        new = _RENAMED[name]
        warn(f"pacbandits.{name} is now pacbandits.{new}", DeprecationWarning, stacklevel=2)
        name = new
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pacbandits' has no attribute '{name}'")
    value = getattr(import_module(f"pacbandits.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
