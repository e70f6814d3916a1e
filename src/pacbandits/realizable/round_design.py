"""How linear-rage designs a round: for which policies, how accurately, and how many samples the certificate lacks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.progress import Progress
from pacbandits.realizable.population import Population
from pacbandits.realizable.quadratic_forms import information_of, pseudo_inverse, squared_lengths
from pacbandits.realizable.sketch import DESIGN_TOLERANCE, Sketch, SketchedDesign
from pacbandits.realizable.state import RealizableState

# By how many standard errors gaps are taken to be smaller than they look.
GAP_MARGIN_IN_STANDARD_ERRORS = 1.0
# Policies are searched for in the ellipsoids that these multiples of the samples seen would leave.
SEARCHED_SAMPLE_MULTIPLES = (1.0, 4.0)
# Searches for policies that a design serves too little.
MAX_DESIGN_SEARCHES = 3
_MAX_LACKING_SAMPLES = 2.0**50
_LACKING_SAMPLES_HALVINGS = 8


def first_design(population: Population) -> SketchedDesign:
    """A design that serves all policies alike, as nothing is known of their gaps."""
    sketch = Sketch.of(population)
    if population.points is not None:
        pool = population.points - population.points.mean(axis=0)
    else:
        rank = population.span.rank
        pool = sketch.search(np.zeros(rank), np.eye(rank))
    return sketch.solve(pool, np.ones(len(pool)))


def next_design(state: RealizableState, *, epsilon: float, noise: float, tell: Progress) -> SketchedDesign:
    """A design for the gaps seen so far; noise: R²."""
    population, sketch = state.population, Sketch.of(state.population)
    assert state.propensities is not None
    parameter = state.seen.estimate()
    covariance = noise * pseudo_inverse(state.seen.information.sum(axis=0))

    def accuracies(pool: FloatArray) -> FloatArray:
        margins = GAP_MARGIN_IN_STANDARD_ERRORS * np.sqrt(squared_lengths(pool, covariance))
        return epsilon + np.maximum(-pool @ parameter - margins, 0.0)

    if population.points is not None:
        tell("the next design")
        pool = population.points - population.mean(state.policy(population.contexts))
        return sketch.solve(pool, accuracies(pool), start=state.propensities)
    inverse = pseudo_inverse(information_of(population.phi, population.contexts.weights, state.propensities))
    width = 2.0 * noise * state.price / state.samples
    design, pool = None, np.empty((0, population.span.rank))
    for turn in range(MAX_DESIGN_SEARCHES):
        tell(f"the next design, search {turn + 1}")
        found = [sketch.search(parameter, width / multiple * inverse) for multiple in SEARCHED_SAMPLE_MULTIPLES]
        pool = np.unique(np.round(np.concatenate([pool, *found]), 12), axis=0)
        if design is not None:
            costs = squared_lengths(pool, inverse) / accuracies(pool) ** 2
            if costs.max(initial=0.0) <= (1.0 + 2 * DESIGN_TOLERANCE) * design.worst_cost:
                break
        start = state.propensities if design is None else design.table
        design = sketch.solve(pool, accuracies(pool), start=start)
        inverse = pseudo_inverse(design.information)
    assert design is not None
    return design


def lacking_samples(
    state: RealizableState,
    design: SketchedDesign,
    *,
    epsilon: float,
    noise: float,
    price: Callable[[FloatArray], float],
) -> float:
    """How many samples of the design would make the certificate hold, if gaps are as they seem.

    price: what is paid in the place of log(|Π|/δ) with this much information (r, r).
    """
    seen = state.counted.information.sum(axis=0)
    gaps = np.maximum(-design.pool @ state.seen.estimate(), 0.0)
    wanted = (epsilon + gaps) ** 2 / 2.0

    def enough(n: float) -> bool:
        information = seen + n * design.information
        lengths = squared_lengths(design.pool, pseudo_inverse(information))
        return bool((noise * price(information) * lengths <= wanted).all())

    high = 1.0
    while not enough(high) and high < _MAX_LACKING_SAMPLES:
        high *= 2.0
    low = high / 2.0
    for _ in range(_LACKING_SAMPLES_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
