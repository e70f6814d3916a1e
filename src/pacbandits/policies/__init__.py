"""Policy classes: sets of policies with argmax oracles, and the policies' descriptions and JSON forms."""

from pacbandits.policies.base import Frontier, PolicyClass
from pacbandits.policies.constraints import Restrictions
from pacbandits.policies.features import Crossed, FeatureMap, Given
from pacbandits.policies.finite import Finite, TablePolicy, Trivial
from pacbandits.policies.learners import Learned, LearnedPolicy
from pacbandits.policies.linear import Linear, LinearPolicy
from pacbandits.policies.linear.policy import GreedyPolicy
from pacbandits.policies.registry import chosen_from_json, class_from_json, class_to_json, policy_from_json
from pacbandits.policies.trees import Bins, DeepTrees, TreePolicy, Trees
from pacbandits.policies.trees.constraints import within_budget

__all__ = [
    "Bins",
    "Crossed",
    "DeepTrees",
    "FeatureMap",
    "Finite",
    "Frontier",
    "Given",
    "GreedyPolicy",
    "Learned",
    "LearnedPolicy",
    "Linear",
    "LinearPolicy",
    "PolicyClass",
    "Restrictions",
    "TablePolicy",
    "TreePolicy",
    "Trees",
    "Trivial",
    "chosen_from_json",
    "class_from_json",
    "class_to_json",
    "policy_from_json",
    "within_budget",
]
