"""Decision trees: to depth 2 with an exact argmax and an exact frontier over the whole class, deeper by search."""

from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.classes import DeepTrees, Trees
from pacbandits.policies.trees.tree_policy import TreePolicy

__all__ = ["Bins", "DeepTrees", "TreePolicy", "Trees"]
