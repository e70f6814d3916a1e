"""Designs in ratio form, over listed classes and by column generation through oracles, with their brackets."""

from pacbandits.design.objective import Objective
from pacbandits.design.pricing import price_by_argmax, price_by_frontier
from pacbandits.design.scale import Clipped, GapScale, Product, Shifted
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
