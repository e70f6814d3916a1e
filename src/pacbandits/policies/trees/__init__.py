"""Shallow decision trees with an exact argmax and an exact frontier over the whole class."""

from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.oracle import Trees
from pacbandits.policies.trees.tree import TreePolicy

__all__ = ["Bins", "TreePolicy", "Trees"]
