"""Policy classes: what they hold, their argmax oracles, how their policies print and serialise."""

from pacbandits.policies.base import EnumeratedClass, Frontier, FrontierClass, PolicyClass
from pacbandits.policies.finite import Finite, TablePolicy
from pacbandits.policies.json import class_from_json, class_to_json, policy_from_json
from pacbandits.policies.trees import Bins, TreePolicy, Trees
from pacbandits.policies.trivial import Trivial

__all__ = [
    "Bins",
    "EnumeratedClass",
    "Finite",
    "Frontier",
    "FrontierClass",
    "PolicyClass",
    "TablePolicy",
    "TreePolicy",
    "Trees",
    "Trivial",
    "class_from_json",
    "class_to_json",
    "policy_from_json",
]
