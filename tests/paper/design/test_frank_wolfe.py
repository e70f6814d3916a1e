"""FW-GD, corrected: its objective from the definition, its brackets against independent solvers."""

from __future__ import annotations

import math
import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from tests.examples import examples

from instances import make_instance, seeds
from pacbandits.design import Objective
from pacbandits.design.weights import solve_weights
from pacbandits.errors import InputError
from pacbandits.paper.frank_wolfe import SaddleProblem, descend, solve_frank_wolfe

EPSILONS = [0.5, 0.1, 0.03, 0.005]


def problem_of(instance, *, smoothing=0.0, confidence=6.0, reference=None, **changes):
    """The saddle problem of an instance with its true gaps; the reference is the best policy, or a row."""
    values = instance.values
    row = int(values.argmax()) if reference is None else reference
    return SaddleProblem(
        instance.policies.table,
        n_actions=instance.policies.n_actions,
        reference=instance.policies.table[row],
        weights=instance.population.weights,
        gaps=values[row] - values,
        confidence=confidence,
        smoothing=smoothing,
        **changes,
    )


def drawn(seed):
    """A problem with random λ, γ, n and smoothing."""
    rng = np.random.default_rng(seed)
    instance = make_instance(seed)
    smoothing = 0.0 if seed % 3 == 0 else float(10 ** rng.uniform(-8, -1))
    problem = problem_of(instance, smoothing=smoothing, reference=0)
    size = len(problem)
    return (
        problem,
        rng.dirichlet(np.ones(size)),
        10 ** rng.uniform(-2, 2, size=size),
        float(10 ** rng.uniform(0, 6)),
        rng,
    )


def h_by_definition(problem, weights, gamma, n):
    total = 0.0
    for k in range(len(problem)):
        width = problem.confidence / (gamma[k] * n)
        total += weights[k] * (-problem.gap_weight * problem.gaps[k] + problem.width_weight * width)
    for c, nu in enumerate(problem.weights):
        q = problem.reference[c]
        roots = 0.0
        for a in range(problem.n_actions):
            t = np.array([float((row[c] == a) != (q == a)) for row in problem.actions])
            roots += math.sqrt((weights * gamma) @ (t + problem.smoothing))
        total += problem.width_weight * nu * roots**2
    return total


@pytest.mark.thorough
@given(seed=seeds)
@examples(40)
def test_h_is_the_paper_s_and_equals_its_gradient_on_the_weights(seed):
    problem, weights, gamma, n, _ = drawn(seed)
    if problem.smoothing == 0.0:
        problem_gamma = np.where(problem.speaking, gamma, np.inf)  # a copy of q costs nothing in the limit
        value = problem.value(weights, problem_gamma, samples=n)
        silent = problem.width_weight * problem.confidence / n * (weights / gamma)[~problem.speaking].sum()
        assert value + silent == pytest.approx(h_by_definition(problem, weights, gamma, n), rel=1e-9)
    value = problem.value(weights, gamma, samples=n)
    assert value == pytest.approx(h_by_definition(problem, weights, gamma, n), rel=1e-9)
    assert value == pytest.approx(weights @ problem.gradient(weights, gamma, samples=n), rel=1e-9)


@given(seed=seeds)
@examples(40)
def test_gradient_agrees_with_differences(seed):
    problem, weights, gamma, n, rng = drawn(seed)
    direction = rng.standard_normal(len(problem)) * weights
    step = 1e-6
    ahead = problem.value(weights + step * direction, gamma, samples=n)
    behind = problem.value(weights - step * direction, gamma, samples=n)
    slope = problem.gradient(weights, gamma, samples=n) @ direction
    scale = np.abs(problem.gradient(weights, gamma, samples=n) * direction).sum()
    assert (ahead - behind) / (2 * step) == pytest.approx(slope, rel=1e-5, abs=1e-6 * scale)


@given(seed=seeds)
@examples(40)
def test_no_design_beats_the_closed_form(seed):
    problem, weights, gamma, _, rng = drawn(seed)
    kappa = weights * gamma
    best = kappa @ problem.variances(problem.propensities(weights, gamma))
    for _ in range(5):
        other = rng.dirichlet(np.ones(problem.n_actions), size=problem.actions.shape[1])
        assert kappa @ problem.variances(other) >= best * (1 - 1e-9)


@given(seed=seeds)
@examples(40)
def test_h_is_convex_in_log_gamma(seed):
    problem, weights, gamma, n, rng = drawn(seed)
    other = 10 ** rng.uniform(-2, 2, size=len(problem))
    middle = problem.value(weights, np.sqrt(gamma * other), samples=n)
    ends = problem.value(weights, gamma, samples=n) + problem.value(weights, other, samples=n)
    assert middle <= ends / 2 + 1e-9 * abs(ends)


@pytest.mark.thorough
@given(seed=seeds)
@examples(40)
def test_descent_never_rises_halves_its_error_and_bounds_it(seed):
    problem, weights, gamma, n, _ = drawn(seed)
    far = descend(problem, weights, samples=n, precision=0.0, residual=1e-13, start=gamma)
    speaking = problem.speaking
    target = np.log(far.gamma[speaking])
    least = far.value
    before, error = math.inf, float(np.abs(np.log(gamma[speaking]) - target).max(initial=0.0))
    for steps in range(12):
        found = descend(problem, weights, samples=n, precision=0.0, residual=0.0, start=gamma, max_steps=steps)
        rounding = 1e-9 * (abs(found.value) + abs(before if steps else 0.0))
        assert found.value <= before + rounding
        assert found.value - found.excess <= least + rounding
        assert least <= found.value + rounding
        now = float(np.abs(np.log(found.gamma[speaking]) - target).max(initial=0.0))
        assert now <= error * (1 if steps == 0 else 0.5) + 1e-9
        before, error = found.value, now
        assert found.value == pytest.approx(
            problem.value(weights, np.where(speaking, found.gamma, np.inf), samples=n), rel=1e-9, abs=1e-12
        )


@given(seed=seeds)
@examples(40)
def test_slopes_are_the_gradient_of_the_dual(seed):
    """The envelope theorem, also toward policies without weight; and H lies below its tangents, every p above H."""
    problem, weights, _, n, rng = drawn(seed)
    problem = problem_of(make_instance(seed), smoothing=float(10 ** rng.uniform(-2, -0.5)), reference=0)
    weights = np.where(rng.random(len(weights)) < 0.5, weights, 0.0)
    weights[0] = max(weights[0], 0.1)
    weights = weights / weights.sum()

    def dual(at):
        return descend(problem, at, samples=n, precision=0.0, residual=1e-13)

    found = dual(weights)
    slopes = problem.slopes(found.propensities, samples=n)
    assert weights @ slopes == pytest.approx(found.value, rel=1e-9)
    other = rng.dirichlet(np.ones(len(weights)))
    rise = slopes @ (other - weights)
    scale = np.abs(slopes).max()
    assert dual(other).value <= found.value + rise + 1e-9 * scale
    step = 1e-8
    ahead = dual(weights + step * (other - weights)).value
    assert (ahead - found.value) / step == pytest.approx(rise, rel=0.01, abs=1e-4 * scale)
    assert found.value <= problem.primal(problem.uniform(), samples=n) + 1e-9 * scale


@given(seed=seeds)
@examples(60)
def test_the_box_of_the_paper_never_binds(seed):
    """For any λ and γ the next γ lies in [γ_min, γ_max], as long as Aη ≤ 3/2, inside and outside the support."""
    problem, weights, gamma, n, rng = drawn(seed)
    smoothing = float(rng.choice([1.0, 1e-2, 1e-5])) * 1.5 / problem.n_actions
    problem = problem_of(make_instance(seed), smoothing=smoothing, reference=0)
    weights = np.where(rng.random(len(weights)) < 0.3, weights, 0.0)
    weights[0] += 1e-9
    least, most = problem.gamma_range(samples=n)
    found = problem.best_gamma(problem.propensities(weights / weights.sum(), gamma), samples=n)
    assert found.min() >= least * (1 - 1e-9)
    assert found.max() <= most * (1 + 1e-9)


def least_samples(problem, epsilon):
    """Both ends of n*(ε) = 4b²L min_p max_π V_π/(ε + aΔ̂_π)², by the ratio form's solver."""
    rows = problem.speaking
    objective = Objective(problem.reference, problem.weights, np.ones((len(problem.weights), problem.n_actions)))
    urgency = 1 / (epsilon + problem.gap_weight * problem.gaps[rows]) ** 2
    solved = solve_weights(objective, np.ascontiguousarray(problem.actions[rows]), urgency, tolerance=1e-4)
    unit = 4 * problem.width_weight**2 * problem.confidence
    return unit * solved.lower, unit * solved.upper


@pytest.mark.thorough
@given(seed=seeds)
@examples(60)
def test_samples_agree_with_the_ratio_form(seed):
    """n*(4ε/3) ≤ n, and n < 2n*(ε); the ratio form's own design brackets the same saddle value."""
    epsilon = EPSILONS[seed % 4]
    problem = problem_of(make_instance(seed))
    saddle = solve_frank_wolfe(problem, epsilon=epsilon)
    assert saddle.converged
    assert saddle.note == ""
    assert saddle.dual <= epsilon
    if not problem.speaking.any():
        assert saddle.samples == 1
        return
    assert saddle.samples >= least_samples(problem, 4 * epsilon / 3)[0] * (1 - 1e-9)
    if saddle.samples > 1:
        assert saddle.samples <= 2 * least_samples(problem, epsilon)[1] * (1 + 1e-9)
    # At n*(e) the saddle value is e: the bracket found at n must hold the e with n*(e) = n.
    if saddle.primal > 0:
        assert least_samples(problem, saddle.primal)[0] <= saddle.samples * (1 + 1e-9)
    if saddle.dual > 0:
        assert least_samples(problem, saddle.dual)[1] >= saddle.samples * (1 - 1e-9)


def convex_saddle(problem, n):
    """The p of `min_p max_π −aΔ̂_π + 2b√(V^η_π(p)L/n)` by cvxpy; its primal value is an upper bound of the saddle's."""
    present = problem.weights > 0
    p = cp.Variable((int(present.sum()), problem.n_actions))
    inverse = cp.power(p, -0.5)
    rows = []
    for policy, gap in zip(problem.actions[:, present], problem.gaps, strict=True):
        q = problem.reference[present]
        t = np.zeros(p.shape)
        at = np.flatnonzero(policy != q)
        t[at, policy[at]] = t[at, q[at]] = 1.0
        roots = np.sqrt(problem.weights[present][:, None] * (t + problem.smoothing))
        width = 2 * problem.width_weight * math.sqrt(problem.confidence / n)
        rows.append(-problem.gap_weight * gap + width * cp.norm(cp.vec(cp.multiply(roots, inverse), order="C")))
    task = cp.Problem(cp.Minimize(cp.maximum(*rows)), [cp.sum(p, axis=1) == 1, p >= 1e-9])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        task.solve(solver=cp.CLARABEL)
    design = problem.uniform()
    design[present] = np.maximum(p.value, 0) / np.maximum(p.value, 0).sum(axis=1, keepdims=True)
    return design


@pytest.mark.first(2)
@pytest.mark.parametrize("seed", range(10))
def test_bracket_holds_the_convex_optimum(seed):
    instance = make_instance(seed, n_contexts=5, n_actions=3, n_policies=12, awkward=False)
    problem = problem_of(instance, smoothing=0.0 if seed % 2 else 0.01)
    saddle = solve_frank_wolfe(problem, epsilon=0.1, tolerance=1e-3)
    design = convex_saddle(problem, saddle.samples)
    value = problem.primal(design, samples=saddle.samples)
    assert saddle.dual <= value + 1e-9
    assert value <= saddle.primal + 1e-4  # the other solver did its work, and found nothing better than the bracket
    assert saddle.gap <= 1e-4
    assert saddle.primal <= value + 1e-4


@given(seed=seeds)
@examples(40)
def test_what_is_returned_fits_together(seed):
    epsilon = EPSILONS[seed % 4]
    instance = make_instance(seed)
    smoothing = 0.0 if seed % 2 else epsilon**2 / instance.policies.n_actions**4
    problem = problem_of(instance, smoothing=smoothing)
    saddle = solve_frank_wolfe(problem, epsilon=epsilon)
    n = saddle.samples
    assert saddle.weights.min() >= 0
    assert saddle.weights.sum() == pytest.approx(1)
    assert np.array_equal(saddle.support, np.flatnonzero(saddle.weights > 0))
    assert len(saddle.support) <= len(saddle.history)
    assert np.allclose(saddle.propensities.sum(axis=1), 1)
    assert problem.primal(saddle.propensities, samples=n) == pytest.approx(saddle.primal, rel=1e-9, abs=1e-9)
    assert descend(problem, saddle.weights, samples=n, precision=0.0, residual=1e-9).value <= saddle.dual + saddle.gap
    duals, gaps = [row[1] for row in saddle.history], [row[2] for row in saddle.history]
    assert duals == sorted(duals)
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] == saddle.gap
    # The widths that Lemma control_of_UCB needs, with the γ returned.
    with np.errstate(invalid="ignore"):
        width = saddle.gamma * problem.variances(saddle.propensities) + problem.confidence / (saddle.gamma * n)
    width = np.where(np.isinf(saddle.gamma), 0.0, width)
    assert (width <= epsilon / 6 + problem.gaps / 64 + 1e-9).all()
    # The design can be made anew from its masses, which are λ ⊙ γ but for the floor and the precision of the descent.
    again = problem.propensities(saddle.masses, np.ones(len(problem)), floor=saddle.floor)
    assert np.allclose(again, saddle.propensities, rtol=1e-9)
    if saddle.floor == 0.0:
        on = saddle.support[np.isfinite(saddle.gamma[saddle.support])]
        assert np.allclose(saddle.masses[on], saddle.weights[on] * saddle.gamma[on], rtol=0.01)
    least, most = problem.gamma_range(samples=n)
    assert saddle.gamma.min() >= least * (1 - 1e-9)
    assert saddle.gamma.max() <= most * (1 + 1e-9)


@pytest.mark.first(3)
@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.03])
@pytest.mark.parametrize("smoothed", [False, True])
def test_larger_tables_need_few_steps_and_a_small_support(epsilon, smoothed):
    instance = make_instance(1, n_policies=200, n_contexts=50, n_actions=10, awkward=False)
    problem = problem_of(instance, smoothing=epsilon**2 / 10**4 if smoothed else 0.0)
    saddle = solve_frank_wolfe(problem, epsilon=epsilon)
    assert saddle.converged
    assert saddle.iterations <= 200  # 52 at most when written
    assert len(saddle.support) <= 60  # 27 at most when written
    again = solve_frank_wolfe(problem, epsilon=epsilon)
    assert again.dual == saddle.dual
    assert np.array_equal(again.weights, saddle.weights)


@pytest.mark.parametrize("seed", [121, 255, 499, 1157])
def test_corners_of_the_dual_do_not_stop_it(seed):
    """Contexts on which the support agrees with q, or weights of 1e-8 that are all that covers an action."""
    for epsilon in (0.2, 0.01, 0.001):
        assert solve_frank_wolfe(problem_of(make_instance(seed), confidence=5.0), epsilon=epsilon).note == ""


def test_tighter_gaps_can_be_had():
    instance = make_instance(1, n_policies=60, n_contexts=20, n_actions=4, awkward=False)
    problem = problem_of(instance)
    saddle = solve_frank_wolfe(problem, epsilon=0.1, tolerance=1e-3)
    assert saddle.gap <= 1e-4
    assert saddle.iterations <= 1000


def test_an_early_stop_is_admitted_and_its_bracket_holds():
    instance = make_instance(4, n_policies=60, n_contexts=20, n_actions=4, awkward=False)
    problem = problem_of(instance)
    full = solve_frank_wolfe(problem, epsilon=0.05)
    short = solve_frank_wolfe(problem, epsilon=0.05, max_iterations=full.iterations - 2)
    assert not short.converged
    assert "stopped" in short.note
    assert short.samples == full.samples
    assert short.dual <= full.primal
    assert full.dual <= short.primal


def test_policies_that_act_alike_need_one_sample():
    problem = SaddleProblem(
        [[0, 0], [0, 1]], n_actions=2, reference=[0, 0], weights=[1.0, 0.0], gaps=[0.0, 0.0], confidence=3.0
    )
    saddle = solve_frank_wolfe(problem, epsilon=0.1)
    assert saddle.samples == 1
    assert saddle.primal == pytest.approx(0.0)
    assert np.isinf(saddle.gamma).all()


def test_a_gap_that_no_sample_size_can_bridge():
    problem = SaddleProblem([[0], [1]], n_actions=2, reference=[0], weights=[1.0], gaps=[0.0, -1.0], confidence=3.0)
    with pytest.raises(InputError, match="no number of samples will do: policy 1"):
        solve_frank_wolfe(problem, epsilon=0.1)
    assert solve_frank_wolfe(problem, epsilon=0.2).converged  # 1/8 is below 0.2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gaps": [0.0]}, "gaps must have shape"),
        ({"weights": [0.5]}, "must sum to 1"),
        ({"reference": [2]}, "reference actions must be between"),
        ({"confidence": 0.0}, "confidence must be positive"),
        ({"smoothing": -1.0}, "smoothing must be 0 or more"),
        ({"width_weight": np.inf}, "width_weight must be positive"),
        ({"actions": np.zeros((0, 1), dtype=int), "gaps": []}, "at least one policy"),
    ],
)
def test_bad_problem_gets_a_sentence(change, message):
    arguments = {"n_actions": 2, "reference": [0], "weights": [1.0], "gaps": [0.0, 0.1], "confidence": 3.0} | change
    with pytest.raises(InputError, match=message):
        SaddleProblem(arguments.pop("actions", [[0], [1]]), **arguments)


@pytest.mark.parametrize(("epsilon", "tolerance"), [(0.0, 1 / 3), (0.1, 0.0), (-1.0, 1 / 3)])
def test_bad_accuracy_gets_a_sentence(epsilon, tolerance):
    problem = SaddleProblem([[0], [1]], n_actions=2, reference=[0], weights=[1.0], gaps=[0.0, 0.1], confidence=3.0)
    with pytest.raises(InputError, match=r"an epsilon above 0|tolerance must be positive"):
        solve_frank_wolfe(problem, epsilon=epsilon, tolerance=tolerance)
