"""Designs in ratio form, over listed classes and by column generation through oracles, with their brackets."""

from pacbandits.design.columns import price_by_argmax, price_by_frontier
from pacbandits.design.solve import (
    best_pricing,
    price_propensities,
    solve_by_pricing,
    solve_design,
    solve_enumerated,
    solve_listed,
)
from pacbandits.design.task import Clipped, DesignTask, GapScale, Product, Shifted
from pacbandits.design.weights import Objective, Solution

__all__ = [
    "Clipped",
    "DesignTask",
    "GapScale",
    "Objective",
    "Product",
    "Shifted",
    "Solution",
    "best_pricing",
    "price_by_argmax",
    "price_by_frontier",
    "price_propensities",
    "solve_by_pricing",
    "solve_design",
    "solve_enumerated",
    "solve_listed",
]
