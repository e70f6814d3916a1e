"""Best-arm identification in each context: its radius, its rules, its guarantee, and what log(1/δ) costs it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from pacbandits.confidence import arm_confidence, arm_radius, self_normalised_bound
from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite, Trivial
from pacbandits.problems import Bernoulli, Gaussian, Problem
from pacbandits.records import Contexts, RewardBounds
from pacbandits.rivals.per_context import Bounds, PerContext, leading_two, undominated
from pacbandits.simulation import repeat, run

RARE = 1e-6
RULES = ("elimination", "lucb")


def equal_gaps(contexts, actions, gap, *, weights=None, noise=None):
    """Every context alike but for which action is the best, which is never the first."""
    means = np.full((contexts, actions), 0.5 - gap / 2)
    means[np.arange(contexts), 1 + np.arange(contexts) % (actions - 1)] = 0.5 + gap / 2
    population = Contexts.finite(contexts, weights=weights)
    return Problem("alike", "Equal gaps.", population, means, noise or Bernoulli(), Trivial(contexts, actions))


def play(algorithm, problem, rng):
    """All states of a run."""
    states = [algorithm.start(problem.policies, problem.population)]
    while (plan := algorithm.design(states[-1])) is not None:
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng)
        states.append(algorithm.absorb(states[-1], plan, log))
    return states


def test_the_radius_is_the_self_normalised_bound_in_one_dimension():
    for n, noise, confidence in ((1, 0.25, 0.7), (40, 0.25, 5.0), (10**6, 2.0, 30.0)):
        (radius,) = arm_radius(np.array([float(n)]), noise=noise, confidence=confidence)
        one, prior = np.array([[float(n)]]), np.array([[confidence]])
        bound = self_normalised_bound(one, prior, noise=noise, delta=math.exp(-confidence))
        assert (n * radius) ** 2 / (n + confidence) == pytest.approx(bound)
    assert np.isinf(arm_radius(np.zeros(3), noise=0.25, confidence=1.0)).all()
    # For all times at once it is hardly wider than Hoeffding's for one, where gaps can be told apart.
    n, confidence = 8 * 0.25 * 30 / 0.01, 30.0
    hoeffding = math.sqrt(2 * 0.25 * confidence / n)
    assert hoeffding < arm_radius(np.array([n]), noise=0.25, confidence=confidence) < 1.06 * hoeffding


def crossings(alpha, *, paths=4000, steps=3000, widened=1.0, fixed=False):
    """How many random walks of coin flips ever leave the radius; fixed: Hoeffding's, which is for one time alone."""
    rng = np.random.default_rng(3)
    n, sums, left = np.arange(1.0, steps + 1), np.zeros(paths), np.zeros(paths, dtype=bool)
    radius = arm_radius(n, noise=0.25, confidence=-math.log(alpha))
    if fixed:
        radius = np.sqrt(math.log(2 / alpha) / (2 * n))
    for step, flips in enumerate(rng.integers(0, 2, size=(steps, paths), dtype=np.int8)):
        sums += flips - 0.5
        left |= np.abs(sums) > widened * radius[step] * n[step]
    return int(left.sum())


def test_the_radius_holds_at_all_times_and_a_narrower_one_does_not():
    alpha, paths = 0.3, 4000
    limit = binom.ppf(1 - RARE, paths, alpha)
    found = crossings(alpha)
    assert 0.4 * limit < found <= limit
    assert crossings(alpha, widened=0.75) > limit
    assert crossings(alpha, fixed=True) > limit


def test_every_context_and_action_has_its_part_of_delta():
    assert arm_confidence(0.1, n_contexts=7, n_actions=3) == pytest.approx(math.log(7 * 3 / 0.1))
    problem = equal_gaps(7, 3, 0.3, weights=[0.2] * 5 + [0.0, 0.0])
    algorithm = PerContext(0.1, 0.1)
    state = algorithm.start(problem.policies, problem.population)
    plan = algorithm.design(state)
    # Contexts that cannot come have no part: 15 arms, 4R²L plays of each.
    assert plan.samples == math.ceil(15 * math.log(15 / 0.1))


def ever_outside(problem, states, algorithm):
    """Whether some mean ever left its bounds."""
    n_contexts, n_actions = problem.mean_rewards.shape
    confidence = arm_confidence(algorithm.delta, n_contexts=n_contexts, n_actions=n_actions)
    for state in states[1:]:
        bounds = Bounds.of(state.tally, noise=algorithm.noise, confidence=confidence)
        if (problem.mean_rewards < bounds.lower).any() or (problem.mean_rewards > bounds.upper).any():
            return True
    return False


def count_errors(rule, *, runs, delta, **changes):
    """Runs in which some context got an action that is not within ε, and in which some mean ever left its bounds.

    Gaps lie just above ε, so that one wrong action in one context is an error.
    """
    problem = equal_gaps(6, 3, 0.4)
    algorithm = PerContext(0.38, delta, rule=rule, growth=0.5, **changes)
    rng = np.random.default_rng(5)
    wrong = outside = 0
    for _ in range(runs):
        states = play(algorithm, problem, rng)
        assert states[-1].finished
        chosen = problem.mean_rewards[np.arange(6), states[-1].choices]
        wrong += bool((problem.mean_rewards.max(axis=1) - chosen > algorithm.epsilon).any())
        outside += ever_outside(problem, states, algorithm)
    return wrong, outside


@pytest.mark.thorough
@pytest.mark.parametrize("rule", RULES)
def test_errors_are_as_rare_as_delta_says_and_a_narrower_radius_errs(rule):
    runs, delta = 30, 0.1
    limit = binom.ppf(1 - 1e-3, runs, delta)
    assert max(count_errors(rule, runs=runs, delta=delta)) <= limit
    # The same told that noise has a 25th of its variance: radii are a fifth of what they must be.
    assert min(count_errors(rule, runs=runs, delta=delta, rewards=RewardBounds(proxy=0.01))) > limit


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("delta", [0.5, 1e-3])
def test_errors_are_as_rare_as_delta_says_over_many_runs(rule, delta):
    assert max(count_errors(rule, runs=200, delta=delta)) <= binom.ppf(0.999, 200, delta)


BOUNDS = Bounds(
    means=np.array([[0.2, 0.6, 0.5], [0.5, 0.5, 0.4], [0.9, 0.1, 0.3]]),
    lower=np.array([[0.1, 0.5, 0.3], [0.0, 0.2, 0.1], [0.8, 0.0, 0.2]]),
    upper=np.array([[0.3, 0.7, 0.8], [1.0, 0.9, 0.6], [1.0, 0.2, 0.4]]),
)


def test_what_the_rules_play():
    leaders = BOUNDS.leaders
    assert leaders.tolist() == [1, 0, 0]
    challengers, ends = BOUNDS.challengers(leaders)
    assert challengers.tolist() == [2, 1, 2]
    assert ends.tolist() == [0.8, 0.9, 0.4]
    assert undominated(BOUNDS, leaders).tolist() == [[False, True, True], [True, True, True], [True, False, False]]
    assert leading_two(BOUNDS, leaders).tolist() == [[False, True, True], [True, True, False], [True, False, True]]


@pytest.mark.parametrize("rule", RULES)
def test_a_run_follows_its_rule(rule):
    """What is planned and decided follows from the plays and sums, computed here once more."""
    problem = equal_gaps(5, 4, 0.3, weights=[0.5, 0.2, 0.2, 0.1, 0.0])
    algorithm = PerContext(0.1, 0.2, rule=rule)
    rng, plays, sums = np.random.default_rng(2), np.zeros((5, 4)), np.zeros((5, 4))
    state, fixed = algorithm.start(problem.policies, problem.population), {}
    confidence = math.log(16 / 0.2)
    while (plan := algorithm.design(state)) is not None:
        table = plan.sampler.propensities(problem.population)
        with np.errstate(divide="ignore", invalid="ignore"):
            means = np.where(plays > 0, sums / plays, 0.0)
            radius = np.sqrt(0.5 * (plays + confidence) * (confidence + 0.5 * np.log1p(plays / confidence))) / plays
        lower = np.where(plays > 0, np.maximum(means - radius, 0), 0)
        upper = np.where(plays > 0, np.minimum(means + radius, 1), 1)
        for c in range(5):
            leader = int(means[c].argmax())
            challenger = max((a for a in range(4) if a != leader), key=lambda a: (upper[c, a], -a))
            if state.samples and c not in fixed and upper[c, challenger] <= lower[c, leader] + 0.1:
                fixed[c] = leader
            wanted = [a for a in range(4) if upper[c, a] >= lower[c].max()]
            wanted = [fixed[c]] if c in fixed else wanted if rule == "elimination" else sorted((leader, challenger))
            assert np.flatnonzero(table[c]).tolist() == wanted
            assert np.allclose(table[c, wanted], 1 / len(wanted))
            assert state.decided[c] == (c in fixed)
        assert plan.samples == math.ceil(0.1 * state.samples if state.samples else 16 * confidence)
        assert plan.details["undecided"] == state.undecided == 4 - len(fixed.keys() - {4})
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng)
        np.add.at(plays, (log.contexts.ids, log.actions), log.repeats)
        np.add.at(sums, (log.contexts.ids, log.actions), log.repeats * log.rewards)
        state = algorithm.absorb(state, plan, log)
    assert state.decided.tolist() == [True] * 4 + [False]  # nobody waits for a context that cannot come
    assert state.policy(problem.population)[:4].tolist() == problem.mean_rewards.argmax(axis=1)[:4].tolist()


@pytest.mark.first(1)
@pytest.mark.parametrize("rule", RULES)
def test_an_epsilon_of_0_finds_the_best_of_every_context_or_goes_on(rule):
    problem = equal_gaps(3, 3, 0.4)
    done = run(problem, algorithm=f"per-context:rule={rule}", epsilon=0, delta=0.05, rng=0)
    assert (done.stopped, done.value_gap) == ("done", 0)
    assert "except with probability 0.05 the policy is the best of its class, in every context" in done.guarantee
    tied = equal_gaps(3, 3, 0.0)
    ended = run(tied, algorithm=f"per-context:rule={rule}", epsilon=0, delta=0.05, rng=0, max_samples=10**6)
    assert ended.stopped == "budget"
    assert ended.guarantee == "none: 3 of 3 contexts are not decided yet"


def test_rewards_beyond_0_and_1_need_a_sub_gaussian_proxy():
    problem = equal_gaps(3, 3, 0.4, noise=Gaussian(np.full((3, 3), 0.5)))
    done = run(problem, algorithm="per-context", epsilon=0.1, delta=0.05, rng=0)
    assert done.correct
    assert "that noise is 0.5-sub-Gaussian" in done.guarantee
    with pytest.raises(InputError, match=r"needs rewards in \[0, 1\], or RewardBounds with the sub-Gaussian proxy"):
        PerContext(0.1, 0.1, rewards=RewardBounds(2.0, in_unit=False))


def test_what_it_is_not_for_is_said():
    problem = equal_gaps(3, 3, 0.4)
    two = Finite([[0, 1, 2], [1, 1, 1]], n_actions=3)
    with pytest.raises(InputError, match="every map from contexts to actions, and Finite is another class"):
        PerContext(0.1, 0.1).start(two, problem.population)
    with pytest.raises(InputError, match="rule must be elimination or lucb"):
        PerContext(0.1, 0.1, rule="luck")


def slope(problem, algorithm, *, gap, actions):
    """Of samples in log(1/δ), in units of |A|/ε², between δ = 1e-12 and 1e-48."""
    small, tiny = (
        np.mean([one.samples for one in repeat(problem, runs=2, seed=0, algorithm=algorithm, epsilon=gap / 2, delta=d)])
        for d in (1e-12, 1e-48)
    )
    return (tiny - small) / (36 * math.log(10)) / (actions * (2 / gap) ** 2)


FEW, MANY = equal_gaps(4, 3, 0.4), equal_gaps(16, 3, 0.4)


@pytest.mark.thorough
@pytest.mark.parametrize("rule", RULES)
def test_log_1_over_delta_is_paid_in_every_context(rule):
    """Theory has 2|C|/9 in these units."""
    one, two = (slope(problem, f"per-context:rule={rule}", gap=0.4, actions=3) for problem in (FEW, MANY))
    assert 0.9 < one / (8 / 9) < 1.6
    assert 0.9 < two / (32 / 9) < 1.6
    assert 2.8 < two / one < 5.5


@pytest.mark.slow
def test_log_1_over_delta_is_paid_once_where_the_class_is_one_problem():
    """Theory has 1/8 for however many contexts, in the limit."""
    assert max(slope(problem, "uniform", gap=0.4, actions=3) for problem in (FEW, MANY)) < 0.3
