"""Decision trees: argmax and frontier exact over the whole class to depth 2; a search for deeper trees."""

from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.classes import DeepTrees, Trees
from pacbandits.policies.trees.tree_policy import TreePolicy

__all__ = ["Bins", "DeepTrees", "TreePolicy", "Trees"]
