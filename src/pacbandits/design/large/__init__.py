"""Designs over more contexts than fit in memory: solved on some, proven on all, by sums over blocks of rows."""

from pacbandits.design.large.solve import LargeSolution, solve_large_design
from pacbandits.design.large.task import LargeTask

__all__ = ["LargeSolution", "LargeTask", "solve_large_design"]
