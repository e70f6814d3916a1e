"""Designs: in ratio form (listed, column generation), for all pairs, and by the paper's FW-GD; with their brackets."""

from pacbandits.design.frank_wolfe import Saddle, solve_frank_wolfe
from pacbandits.design.frank_wolfe_printed import solve_frank_wolfe_as_printed
from pacbandits.design.linear import LinearSolution, solve_pool
from pacbandits.design.objective import Objective
from pacbandits.design.pairs import PairSolution, pair_design, pair_variances, solve_pairs
from pacbandits.design.pricing import price_by_argmax, price_by_frontier
from pacbandits.design.saddle import SaddleProblem
from pacbandits.design.scale import Clipped, Product, Scale, Shifted
from pacbandits.design.solution import Solution
from pacbandits.design.solve import (
    best_pricing,
    price_propensities,
    solve_by_pricing,
    solve_design,
    solve_enumerated,
    solve_listed,
)
from pacbandits.design.task import DesignTask

__all__ = [
    "Clipped",
    "DesignTask",
    "LinearSolution",
    "Objective",
    "PairSolution",
    "Product",
    "Saddle",
    "SaddleProblem",
    "Scale",
    "Shifted",
    "Solution",
    "best_pricing",
    "pair_design",
    "pair_variances",
    "price_by_argmax",
    "price_by_frontier",
    "price_propensities",
    "solve_by_pricing",
    "solve_design",
    "solve_enumerated",
    "solve_frank_wolfe",
    "solve_frank_wolfe_as_printed",
    "solve_listed",
    "solve_pairs",
    "solve_pool",
]
