"""Designs over more contexts than fit in memory: solved on a sample, proven on all, by sums over blocks of rows."""

from pacbandits.design.large.questions import LargeTask
from pacbandits.design.large.solve import LargeSolution, solve_large_design

__all__ = ["LargeSolution", "LargeTask", "solve_large_design"]
