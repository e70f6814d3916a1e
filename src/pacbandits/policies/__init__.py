"""Policy classes: what they hold, their argmax oracles, how their policies print and serialise."""

from pacbandits.policies.base import Frontier, PolicyClass
from pacbandits.policies.budget import within_budget
from pacbandits.policies.features import Crossed, FeatureMap, Given
from pacbandits.policies.finite import Finite, TablePolicy
from pacbandits.policies.greedy import GreedyPolicy
from pacbandits.policies.learners import Learned, LearnedPolicy
from pacbandits.policies.linear import Linear, LinearPolicy
from pacbandits.policies.registry import chosen_from_json, class_from_json, class_to_json, policy_from_json
from pacbandits.policies.restrictions import Restrictions
from pacbandits.policies.trees import Bins, DeepTrees, TreePolicy, Trees
from pacbandits.policies.trivial import Trivial

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
