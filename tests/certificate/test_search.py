"""The least refuted policy, against every policy of small classes looked at one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacbandits.certificate.search import least_of_all, least_of_one, least_of_two, least_wealth
from pacbandits.policies import Trees
from pacbandits.policies.base import EnumeratedClass, FrontierClass
from pacbandits.policies.counting import counting
from pacbandits.policies.finite import Finite
from pacbandits.policies.trivial import Trivial
from pacbandits.records import Contexts
from tests.instances import make_instance, seeds
from tests.policies.brute import all_actions, values


class ArgmaxOnly:
    """A class of which nothing is known but its argmax."""

    exact = True

    def __init__(self, policies):
        self._policies = policies
        self.n_actions, self.log_size = policies.n_actions, policies.log_size

    def argmax(self, contexts, scores):
        return self._policies.argmax(contexts, scores)


class FrontierOnly(ArgmaxOnly):
    """A class with a frontier that cannot be listed."""

    def frontier(self, contexts, first, second):
        return self._policies.frontier(contexts, first, second)


def wealths(rng, *, experts, n, n_actions):
    """Log-wealth scores as they come: of either sign, correlated between experts, sometimes with ties or equal."""
    common = rng.normal(size=(n, n_actions))
    if rng.random() < 0.3:
        return [rng.integers(-2, 3, size=(n, n_actions)).astype(float) for _ in range(experts)]
    spread = rng.choice([0.0, 0.3, 3.0])
    return [common * rng.uniform(0.2, 3) + spread * rng.normal(size=(n, n_actions)) for _ in range(experts)]


def brute(table, scores, experts):
    """min_π max_k over the rows of a table of actions and the experts named."""
    return np.max([values(table, scores[k]) for k in experts], axis=0).min()


def check(least, table, scores):
    """What every answer must be: the exact minimum for its experts where it says so, and never above it."""
    assert least.value <= brute(table, scores, range(len(scores))) + 1e-8
    assert len(set(least.experts)) == len(least.experts)
    if least.share is None:
        assert least.value == pytest.approx(brute(table, scores, least.experts), abs=1e-8)
    else:
        one, two = least.experts
        mixed = least.share * scores[one] + (1 - least.share) * scores[two]
        assert least.value == pytest.approx(values(table, mixed).min(), abs=1e-8)
        assert least.value <= brute(table, scores, least.experts) + 1e-8
    assert least.value >= max(values(table, score).min() for score in scores) - 1e-8


@settings(max_examples=80)
@given(seeds, st.integers(1, 5))
def test_a_listed_class_is_looked_through(seed, experts):
    instance = make_instance(seed)
    contexts, policies = instance.population, instance.policies
    rng = np.random.default_rng(seed)
    scores = wealths(rng, experts=experts, n=len(contexts), n_actions=policies.n_actions)
    least = least_wealth(policies, contexts, scores)
    table = policies.table.astype(int)
    assert least.value == pytest.approx(brute(table, scores, range(experts)), abs=1e-9)
    assert least.experts == tuple(range(experts))
    assert (least.share, least.oracle_calls) == (None, 0)
    assert least_of_all(policies, contexts, scores) == least.value
    # Some contexts of the set, in another order, as a ledger may have them.
    some = rng.permutation(len(contexts))[: max(1, len(contexts) - 1)]
    part = least_wealth(policies, contexts.take(some), [score[some] for score in scores])
    wanted = brute(table[:, some], [score[some] for score in scores], range(experts))
    assert part.value == pytest.approx(wanted, abs=1e-9)


@settings(max_examples=80)
@given(seeds, st.integers(1, 5))
def test_with_a_frontier_the_best_pair_is_exact(seed, experts):
    instance = make_instance(seed)
    contexts, table = instance.population, instance.policies.table.astype(int)
    policies = counting(FrontierOnly(instance.policies))
    assert isinstance(policies, FrontierClass)
    assert not isinstance(policies, EnumeratedClass)
    rng = np.random.default_rng(seed)
    scores = wealths(rng, experts=experts, n=len(contexts), n_actions=policies.n_actions)
    least = least_wealth(policies, contexts, scores)
    check(least, table, scores)
    assert least.share is None
    assert least.oracle_calls == policies.calls
    # The pairs tried are those of the best three alone.
    alone = [values(table, score).min() for score in scores]
    top = sorted(range(experts), key=lambda k: -alone[k])[:3]
    wanted = max([max(alone), *(brute(table, scores, pair) for pair in itertools.combinations(top, 2))])
    assert least.value == pytest.approx(wanted, abs=1e-8)


@settings(max_examples=80)
@given(seeds, st.integers(1, 4))
def test_with_argmax_alone_a_combination_is_a_lower_bound(seed, experts):
    instance = make_instance(seed)
    contexts, table = instance.population, instance.policies.table.astype(int)
    policies = counting(ArgmaxOnly(instance.policies))
    assert not isinstance(policies, FrontierClass)
    rng = np.random.default_rng(seed)
    scores = wealths(rng, experts=experts, n=len(contexts), n_actions=policies.n_actions)
    least = least_wealth(policies, contexts, scores)
    check(least, table, scores)
    assert (least.share is None) == (len(least.experts) == 1)
    assert least.oracle_calls == policies.calls
    if experts == 2:  # no weight on a fine grid is better than the one found, by much
        grid = [values(table, w * scores[0] + (1 - w) * scores[1]).min() for w in np.linspace(0, 1, 401)]
        slope = max(np.abs(values(table, scores[0] - scores[1])).max(), 1e-9)
        assert least.value >= max(grid) - slope / 2**8 - 1e-8


@settings(max_examples=60)
@given(seeds, st.integers(1, 4), st.integers(1, 4))
def test_trivial_classes(seed, n, experts):
    rng = np.random.default_rng(seed)
    n_actions = int(rng.integers(1, 4))
    contexts, policies = Contexts.finite(n), Trivial(n, n_actions)
    table = np.array(list(itertools.product(range(n_actions), repeat=n)))
    # Several rows of one context, and contexts that are missing.
    rows = rng.integers(n, size=6)
    scores = wealths(rng, experts=experts, n=6, n_actions=n_actions)
    check(least_wealth(policies, contexts.take(rows), scores), table[:, rows], scores)
    one, two = scores[0], scores[-1]
    exact = np.maximum(values(table[:, rows], one), values(table[:, rows], two)).min()
    assert least_of_two(policies, contexts.take(rows), one, two) == pytest.approx(exact, abs=1e-8)


@settings(max_examples=50)
@given(seeds, st.integers(0, 2), st.integers(1, 3))
def test_tree_classes(seed, depth, experts):
    rng = np.random.default_rng(seed)
    n, n_actions = int(rng.integers(2, 9)), int(rng.integers(2, 4))
    features = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), rng.integers(0, 2, n)])
    contexts = Contexts.of(features, categories=[None, None, ("no", "yes")])
    policies = Trees.learn(contexts, n_actions=n_actions, depth=depth, bins=4)
    table = all_actions(policies.bins, contexts, n_actions=n_actions, depth=depth)
    scores = wealths(rng, experts=experts, n=n, n_actions=n_actions)
    check(least_wealth(policies, contexts, scores), table, scores)
    assert least_of_one(policies, contexts, scores[0]) == pytest.approx(values(table, scores[0]).min(), abs=1e-8)


def test_a_frontier_that_is_rounded_gives_a_lower_bound():
    """The trivial class with a coarse resolution: outward is downward here."""
    rng = np.random.default_rng(0)
    contexts = Contexts.finite(6)
    fine, coarse = Trivial(6, 3), Trivial(6, 3, resolution=8)
    table = np.array(list(itertools.product(range(3), repeat=6)))
    rounded = 0
    for _ in range(40):
        one, two = rng.normal(size=(2, 6, 3))
        exact = np.maximum(values(table, one), values(table, two)).min()
        assert least_of_two(fine, contexts, one, two) == pytest.approx(exact, abs=1e-9)
        low = least_of_two(coarse, contexts, one, two)
        assert low <= exact + 1e-9
        rounded += low < exact - 1e-6
    assert rounded > 5


def test_two_experts_can_do_what_neither_can_alone():
    """One policy is refuted by the first expert, the other by the second."""
    policies, contexts = Finite([[0], [1]], n_actions=2), Contexts.finite(1)
    scores = [np.array([[5.0, -1.0]]), np.array([[-1.0, 5.0]])]
    assert least_wealth(policies, contexts, scores).value == 5
    assert least_wealth(FrontierOnly(policies), contexts, scores).value == 5
    combined = least_wealth(ArgmaxOnly(policies), contexts, scores)
    assert combined.value == pytest.approx(2, abs=0.05)
    assert combined.share == pytest.approx(0.5, abs=0.01)
