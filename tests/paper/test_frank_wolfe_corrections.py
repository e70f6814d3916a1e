"""FW-GD cannot be run as printed: a witness for each of its rows in docs/corrections.md."""

from __future__ import annotations

import numpy as np
import pytest
from tests.paper.frank_wolfe_printed import (
    lipschitz_constant,
    printed_gamma,
    printed_iterations,
    solve_frank_wolfe_as_printed,
)

from instances import make_instance
from pacbandits.errors import InputError
from pacbandits.paper.frank_wolfe import SaddleProblem, descend, solve_frank_wolfe

EPSILON = 0.25
PRINTED = {"gap_weight": 1.0, "width_weight": 1.0}


def sixty(**changes):
    """60 policies, 20 contexts, 4 actions, smoothing ε²/|A|⁴, δ_l = 0.05/|Π|²; and the best policy's row."""
    instance = make_instance(3, n_policies=60, n_contexts=20, n_actions=4, awkward=False)
    values, table = instance.values, instance.policies.table
    best = int(values.argmax())
    arguments = {
        "n_actions": 4,
        "reference": table[best],
        "weights": instance.population.weights,
        "gaps": values[best] - values,
        "confidence": float(np.log(60**2 / 0.05)),
        "smoothing": EPSILON**2 / 4**4,
    } | changes
    return SaddleProblem(table, **arguments), best


def at(size, index):
    weights = np.zeros(size)
    weights[index] = 1.0
    return weights


@pytest.mark.thorough
def test_row_7_without_constants_the_widths_are_too_wide():
    """Lemma control_of_UCB needs γV + L/(γn) ≤ ε/6 + Δ̂/64; the printed h_l stops at a 64th of the samples."""

    def excess(problem, saddle):
        width = saddle.gamma * problem.variances(saddle.propensities)
        width = width + problem.confidence / (saddle.gamma * saddle.samples)
        return (width / (EPSILON / 6 + problem.gaps / 64)).max()

    ours, _ = sixty()
    saddle = solve_frank_wolfe(ours, epsilon=EPSILON)
    assert excess(ours, saddle) <= 1.0
    printed, _ = sixty(**PRINTED)
    without = solve_frank_wolfe(printed, epsilon=EPSILON)
    assert without.converged
    assert without.samples == saddle.samples / 64  # 4,096 against 262,144
    assert excess(printed, without) > 5.0


def test_row_8_the_unweighted_gap_is_no_gap():
    """At a λ spread over the support the printed sum subtracts every gradient in full: the gap is negative, while the
    duality gap is what it is. In the printed run that happens at the second step."""
    problem, best = sixty()
    n = solve_frank_wolfe(problem, epsilon=EPSILON).samples
    weights = np.full(60, 1 / 60)
    found = descend(problem, weights, samples=n, precision=1e-9)
    gradient = problem.gradient(weights, found.gamma, samples=n)
    primal = problem.primal(found.propensities, samples=n)
    weighted = gradient.max() - weights @ gradient
    assert weighted == pytest.approx(primal - found.value, rel=1e-3)
    assert 0 < weighted < EPSILON
    assert gradient.max() - gradient.sum() < -10  # as printed
    run = solve_frank_wolfe_as_printed(problem, samples=n, epsilon=EPSILON, iterations=100, start=best)
    assert len(run.gaps) == 2
    assert run.gaps[1] < 0
    assert "leave the simplex" in run.note
    assert run.value <= EPSILON  # so that n, and every n above it, would be taken with λ as good as never moved
    assert problem.primal(problem.propensities(run.weights, run.gamma), samples=n) > EPSILON


def test_rows_8_and_10_the_printed_test_ends_the_doubling_far_too_early():
    """h(λ, γ, n) ≤ ε is the printed test, and λ stays where it starts. At the reference, whose own width is next to
    nothing, the doubling ends at a thousandth of the samples; no design would do there, as the dual shows."""
    problem, best = sixty()
    ours = solve_frank_wolfe(problem, epsilon=EPSILON)
    n = 1
    while solve_frank_wolfe_as_printed(problem, samples=n, epsilon=EPSILON, iterations=20, start=best).value > EPSILON:
        n *= 2
    assert ours.samples >= 1000 * n  # 262,144 and 256
    dual = descend(problem, ours.weights, samples=n, precision=1e-6)
    assert dual.value - dual.excess > 10 * EPSILON


def test_row_9_gamma_max_outside_the_support_hides_convergence():
    """Correct weights in the gap and steps that move, but γ_max outside the support: the gap stays above ten times ε
    until all but a few of the 60 policies are in the support. The design was good after ten steps."""
    problem, best = sixty(**PRINTED)
    n = solve_frank_wolfe(problem, epsilon=EPSILON).samples
    weights = at(60, best)
    printed_gaps, primals, sizes = [], [], []
    for t in range(64):
        gamma = printed_gamma(problem, weights, samples=n, precision=1e-4)
        gradient = problem.gradient(weights, gamma, samples=n)
        printed_gaps.append(gradient.max() - weights @ gradient)
        primals.append(problem.primal(problem.propensities(weights, gamma), samples=n))
        sizes.append(int((weights > 0).sum()))
        step = 2 / (t + 3)
        weights = (1 - step) * weights + step * at(60, int(gradient.argmax()))
    printed_gaps, primals, sizes = np.array(printed_gaps), np.array(primals), np.array(sizes)
    assert (primals[10:] <= EPSILON).all()
    assert (printed_gaps[sizes <= 55] > 3.5).all()
    assert (printed_gaps[sizes <= 59] > 10 * EPSILON).all()
    assert printed_gaps[-1] < EPSILON  # every policy is in the support, and has a γ of its own
    assert sizes[-1] == 60
    saddle = solve_frank_wolfe(problem, epsilon=EPSILON)
    assert saddle.converged
    assert len(saddle.support) <= 12


def test_row_9_the_printed_gamma_is_no_minimiser():
    """γ_max only minimises for a policy with the least possible V^η; for others γV + L/(γn) is far above 2√(VL/n)."""
    problem, best = sixty()
    n = 4096.0
    gamma = printed_gamma(problem, at(60, best), samples=n, precision=1e-6)
    design = problem.propensities(at(60, best), gamma)
    printed = problem.gradient(at(60, best), gamma, samples=n)
    minimised = problem.slopes(design, samples=n)
    others = np.arange(60) != best
    assert (printed[others] > minimised[others]).all()
    assert np.median((printed - minimised)[others]) > 10.0


def test_row_10_the_step_of_the_lipschitz_lemma_does_not_move():
    """L of 10¹³ and more, L²/ε² of 10²⁷ steps; a hundred of them, even with the weighted gap, move 10⁻⁹ of λ. Exact
    steps need a dozen."""
    problem, best = sixty(**PRINTED)
    saddle = solve_frank_wolfe(problem, epsilon=EPSILON)
    n = saddle.samples
    constant = lipschitz_constant(problem, samples=n)
    assert 1e13 < constant < 1e14  # 3.6e13
    assert 1e28 < printed_iterations(problem, samples=n, epsilon=EPSILON) < 1e29  # 2.1e28
    assert saddle.converged
    assert saddle.iterations <= 30
    weights = at(60, best)
    for _ in range(100):
        gamma = printed_gamma(problem, weights, samples=n, precision=1e-4)
        gradient = problem.gradient(weights, gamma, samples=n)
        toward = at(60, int(gradient.argmax())) - weights
        weights = weights + min(gradient @ toward / (constant * np.abs(toward).sum() ** 2), 1.0) * toward
    assert 1 - weights[best] < 1e-9


def test_row_10_the_lipschitz_constant_is_not_needed():
    """Curvature along random steps is smaller by many orders: h(λ + d) ≥ h + ⟨∇h, d⟩ − ½L‖d‖² with an L of a few."""
    problem, _ = sixty(**PRINTED)
    n = 4096.0
    rng = np.random.default_rng(10)
    worst = 0.0
    for _ in range(20):
        weights, other = rng.dirichlet(np.ones(60), size=2)
        gamma = descend(problem, weights, samples=n, precision=1e-6).gamma
        start, slope = problem.value(weights, gamma, samples=n), problem.gradient(weights, gamma, samples=n)
        for xi in (0.01, 0.1, 1.0):
            change = xi * (other - weights)
            missing = start + slope @ change - problem.value(weights + change, gamma, samples=n)
            worst = max(worst, 2 * missing / np.abs(change).sum() ** 2)
    assert 0 < worst < 10
    assert lipschitz_constant(problem, samples=n) > 1e12 * worst


def test_row_11_the_distance_to_a_vertex_is_up_to_two():
    """‖e_π − λ‖₁ = 2(1 − λ_π). With the least L for which the quadratic bound of Lemma `recursive` holds along a step
    (its norm kept), the bound with ‖·‖² ≤ 1 put in its place is false."""
    problem, best = sixty(**PRINTED)
    n = 4096.0
    weights = np.full(60, 1 / 59)
    weights[best] = 0.0
    direction = at(60, best) - weights
    norm = np.abs(direction).sum() ** 2
    assert norm == pytest.approx(4.0)
    gamma = descend(problem, weights, samples=n, precision=1e-6).gamma
    gamma = np.minimum(gamma, problem.gamma_range(samples=n)[1])
    start = problem.value(weights, gamma, samples=n)
    slope = problem.gradient(weights, gamma, samples=n) @ direction
    steps = np.linspace(0.01, 1.0, 100)
    ahead = np.array([problem.value(weights + s * direction, gamma, samples=n) for s in steps])
    missing = start + steps * slope - ahead
    least = (2 * missing / (steps**2 * norm)).max()
    assert least > 0
    assert (missing <= steps**2 * least * norm / 2 * (1 + 1e-12)).all()
    assert (missing > steps**2 * least / 2 * 1.5).any()  # as printed


def test_row_18_no_gamma_stands_before_the_expectation():
    """The expectation is min_p Σ λγV and of degree one in γ; the glossary's, γ_π in front, is of degree two and equals
    it for no choice of π unless γ_π = 1."""
    problem, _ = sixty(gaps=np.zeros(60))
    rng = np.random.default_rng(18)
    weights, gamma, n = rng.dirichlet(np.ones(60)), rng.uniform(0.1, 0.9, size=60), 100.0

    def expectation(gamma):
        linear = problem.width_weight * problem.confidence / n * (weights / gamma).sum()
        return (problem.value(weights, gamma, samples=n) - linear) / problem.width_weight

    sums = (weights * gamma) @ problem.variances(problem.propensities(weights, gamma))
    assert expectation(gamma) == pytest.approx(sums)
    assert expectation(3 * gamma) == pytest.approx(3 * expectation(gamma))
    glossary = gamma * expectation(gamma)
    assert (glossary < 0.95 * sums).all()
    assert 3 * gamma * expectation(3 * gamma) == pytest.approx(9 * glossary)


def test_row_40_a_gap_of_epsilon_is_not_enough_for_the_widths():
    """Theorem `FW_gap` promises |P − h| ≤ ε; Lemma `control_of_UCB` takes ε/3 from it. With h ≤ ε and a gap between the
    two, widths exceed the lemma's ε/6 + Δ̂/64; at ε/3, where ours stops, they do not."""
    problem, _ = sixty()
    ours = solve_frank_wolfe(problem, epsilon=EPSILON)
    n = ours.samples

    def excess(propensities):
        widths = 2 * np.sqrt(problem.variances(propensities) * problem.confidence / n)
        return (widths / (EPSILON / 6 + problem.gaps / 64)).max()

    assert ours.gap <= EPSILON / 3
    assert excess(ours.propensities) <= 1.0
    heavy = at(60, int(ours.weights.argmax()))  # towards one policy the saddle value falls and the gap grows
    for share in np.linspace(0.0, 1.0, 41)[:-1]:
        weights = (1 - share) * ours.weights + share * heavy
        found = descend(problem, weights, samples=n, precision=1e-6)
        primal = problem.primal(found.propensities, samples=n)
        if primal > 4 / 3 * EPSILON:
            break
    assert found.value <= EPSILON
    assert EPSILON / 3 < primal - found.value <= EPSILON  # so that Theorem `FW_gap` holds as printed
    assert excess(found.propensities) > 1.0


def test_row_42_gamma_belongs_to_the_weights_before():
    """Printed: γ^{t+1} = GD(λ^t). Lemma `recursive` needs h(λ^t, γ^t) ≤ min_γ h(λ^t, γ) + κ_t, and γ^t = GD(λ^{t−1}) is
    no minimiser at λ^t once λ moves: 2.01 above it against κ_1 = 0.0625, and the largest slope is 62 against 29. With
    GD at the new weights the excess is within κ_t."""
    problem, best = sixty(**PRINTED)
    n = solve_frank_wolfe(problem, epsilon=EPSILON).samples
    weights = at(60, best)
    gamma = printed_gamma(problem, weights, samples=n, precision=1e-9)
    for t in range(6):
        precision = EPSILON / (t + 1) ** 2
        least = descend(problem, weights, samples=n, precision=1e-9).value
        mended = printed_gamma(problem, weights, samples=n, precision=precision)
        slopes = problem.gradient(weights, gamma, samples=n)
        assert problem.value(weights, mended, samples=n) - least <= precision
        if t > 0:
            assert problem.value(weights, gamma, samples=n) - least > 30 * precision  # as printed
            assert slopes.max() > 1.3 * problem.gradient(weights, mended, samples=n).max()
        step = 2 / (t + 3)
        weights = (1 - step) * weights + step * at(60, int(slopes.argmax()))
        gamma = mended  # which is GD(λ^t), used at λ^{t+1}


def test_row_45_weights_that_are_better_at_a_held_design_need_not_be_better():
    """Lemma `strong_duality` takes the mass from a policy below the maximum, at w* held, and calls that a larger dual.
    The dual minimises over w anew: it falls. That both sides are equal is Sion's theorem, and is seen."""
    problem, _ = sixty(**PRINTED)
    saddle = solve_frank_wolfe(problem, epsilon=EPSILON)
    n, weights = saddle.samples, saddle.weights
    found = descend(problem, weights, samples=n, precision=1e-9)
    slopes = problem.slopes(found.propensities, samples=n)
    below = np.where(slopes < weights @ slopes, weights, 0.0)
    dropped = int(below.argmax())
    assert slopes[dropped] < slopes.max()
    moved = np.where(np.arange(60) == dropped, 0.0, weights) / (1 - weights[dropped])
    assert moved @ slopes > weights @ slopes + 5e-4  # with w held
    assert descend(problem, moved, samples=n, precision=1e-9).value < found.value - 0.01  # the dual itself
    assert solve_frank_wolfe(problem, epsilon=EPSILON, tolerance=0.01).gap <= 0.01 * EPSILON


def test_the_printed_algorithm_needs_smoothing():
    problem, best = sixty(smoothing=0.0)
    with pytest.raises(InputError, match="needs a smoothing above 0"):
        solve_frank_wolfe_as_printed(problem, samples=100, epsilon=EPSILON, iterations=1, start=best)
