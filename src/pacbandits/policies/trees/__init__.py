"""Decision trees: to depth 2 with an exact argmax and an exact frontier over the whole class, deeper by search."""

from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.deep import DeepTrees
from pacbandits.policies.trees.oracle import Trees
from pacbandits.policies.trees.tree import TreePolicy

__all__ = ["Bins", "DeepTrees", "TreePolicy", "Trees"]
