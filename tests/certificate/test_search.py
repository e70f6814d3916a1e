"""The least refuted policy, against every policy of small classes looked at one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.certificate.making import least_again, least_wealth, mean_wealth, sum_all, sum_one, sum_two
from pacbandits.policies import Trees
from pacbandits.policies.base import CountedClass, PolicyClass
from pacbandits.policies.finite import Finite, Trivial
from pacbandits.records import Contexts
from tests.examples import examples
from tests.instances import make_instance, seeds
from tests.policies.brute import all_actions, values


class ArgmaxOnly(PolicyClass):
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


def brute(table, scores, experts, beside=None):
    """min_π log Σ_k e^{S_k}/K over the rows of a table of actions and the experts named, of K."""
    more = np.zeros(len(scores)) if beside is None else beside
    wealth = sum(np.exp(values(table, scores[k]) + more[k]) for k in experts)
    return np.log(wealth / len(scores)).min()


def check(least, table, scores, beside=None):
    """What every answer must be: the exact minimum for its experts where it says so, and never above it."""
    more = np.zeros(len(scores)) if beside is None else beside
    assert least.value <= brute(table, scores, range(len(scores)), more) + 1e-8
    assert len(set(least.experts)) == len(least.experts)
    if least.share is None:
        assert least.value == pytest.approx(brute(table, scores, least.experts, more), abs=1e-8)
    else:
        one, two = least.experts
        w = least.share
        mixed = values(table, w * scores[one] + (1 - w) * scores[two]) + w * more[one] + (1 - w) * more[two]
        spread = -w * np.log(w) - (1 - w) * np.log(1 - w)
        assert least.value == pytest.approx(mixed.min() + spread - np.log(len(scores)), abs=1e-8)
        assert least.value <= brute(table, scores, least.experts, more) + 1e-8
    assert least.value >= max(brute(table, scores, [k], more) for k in range(len(scores))) - 1e-8


def check_both(policies, contexts, table, scores, rng):
    """The same with and without something beside; and what was found of the one tells of the other."""
    least = least_wealth(policies, contexts, scores)
    check(least, table, scores)
    beside = rng.normal(scale=3, size=len(scores))
    more = least_wealth(policies, contexts, scores, beside=beside)
    check(more, table, scores, beside)
    told = least.with_beside(beside)
    assert told <= brute(table, scores, least.experts, beside) + 1e-8
    if least.share is None and (len(least.experts) == 1 or not isinstance(policies, ArgmaxOnly)):
        assert told == pytest.approx(brute(table, scores, least.experts, beside), abs=1e-8)
    assert least.with_beside(np.zeros(len(scores))) == least.value
    assert least_again(policies, contexts, [scores[k] for k in least.experts], least) == pytest.approx(least.value)
    return least


@examples(80)
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
    check_both(policies, contexts, table, scores, rng)
    # Some contexts of the set, in another order, as a ledger may have them.
    some = rng.permutation(len(contexts))[: max(1, len(contexts) - 1)]
    part = least_wealth(policies, contexts.take(some), [score[some] for score in scores])
    wanted = brute(table[:, some], [score[some] for score in scores], range(experts))
    assert part.value == pytest.approx(wanted, abs=1e-9)


@examples(80)
@given(seeds, st.integers(1, 5))
def test_with_a_frontier_the_best_pair_is_exact(seed, experts):
    instance = make_instance(seed)
    contexts, table = instance.population, instance.policies.table.astype(int)
    policies = CountedClass(FrontierOnly(instance.policies))
    assert policies.has_frontier
    assert not policies.lists_policies
    rng = np.random.default_rng(seed)
    scores = wealths(rng, experts=experts, n=len(contexts), n_actions=policies.n_actions)
    least = least_wealth(policies, contexts, scores)
    check(least, table, scores)
    assert least.share is None
    assert least.oracle_calls == policies.calls
    check_both(policies, contexts, table, scores, rng)
    # The pairs tried are those of the best three alone.
    alone = [brute(table, scores, [k]) for k in range(experts)]
    top = sorted(range(experts), key=lambda k: -alone[k])[:3]
    wanted = max([max(alone), *(brute(table, scores, pair) for pair in itertools.combinations(top, 2))])
    assert least.value == pytest.approx(wanted, abs=1e-8)


@pytest.mark.thorough
@examples(80)
@given(seeds, st.integers(1, 4))
def test_with_argmax_alone_a_combination_is_a_lower_bound(seed, experts):
    instance = make_instance(seed)
    contexts, table = instance.population, instance.policies.table.astype(int)
    policies = CountedClass(ArgmaxOnly(instance.policies))
    assert not policies.has_frontier
    rng = np.random.default_rng(seed)
    scores = wealths(rng, experts=experts, n=len(contexts), n_actions=policies.n_actions)
    least = least_wealth(policies, contexts, scores)
    check(least, table, scores)
    assert (least.share is None) == (len(least.experts) == 1)
    assert least.oracle_calls == policies.calls
    check_both(policies, contexts, table, scores, rng)
    if experts == 2:  # no weight on a fine grid is better than the one found, by much
        shares = np.linspace(0.01, 0.99, 393)
        spread = -shares * np.log(shares) - (1 - shares) * np.log(1 - shares) - np.log(2)
        grid = [values(table, w * scores[0] + (1 - w) * scores[1]).min() for w in shares] + spread
        slope = np.abs(values(table, scores[0] - scores[1])).max() + 5
        assert least.value >= max(grid) - slope / 2**8 - 1e-8


@examples(60)
@given(seeds, st.integers(1, 4), st.integers(1, 4))
def test_trivial_classes(seed, n, experts):
    rng = np.random.default_rng(seed)
    n_actions = int(rng.integers(1, 4))
    contexts, policies = Contexts.finite(n), Trivial(n, n_actions)
    table = np.array(list(itertools.product(range(n_actions), repeat=n)))
    # Several rows of one context, and contexts that are missing.
    rows = rng.integers(n, size=6)
    scores = wealths(rng, experts=experts, n=6, n_actions=n_actions)
    check_both(policies, contexts.take(rows), table[:, rows], scores, rng)
    pair = [scores[0], scores[-1]]
    exact = brute(table[:, rows], pair, (0, 1))
    sums = sum_two(policies, contexts.take(rows), *pair)
    assert mean_wealth(sums, [0, 0], count=2, share=None) == pytest.approx(exact, abs=1e-8)


@examples(50)
@given(seeds, st.integers(0, 2), st.integers(1, 3))
def test_tree_classes(seed, depth, experts):
    rng = np.random.default_rng(seed)
    n, n_actions = int(rng.integers(2, 9)), int(rng.integers(2, 4))
    features = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), rng.integers(0, 2, n)])
    contexts = Contexts.of(features, categories=[None, None, ("no", "yes")])
    policies = Trees.learn(contexts, n_actions=n_actions, depth=depth, bins=4)
    table = all_actions(policies.bins, contexts, n_actions=n_actions, depth=depth)
    scores = wealths(rng, experts=experts, n=n, n_actions=n_actions)
    check_both(policies, contexts, table, scores, rng)
    assert sum_one(policies, contexts, scores[0]) == pytest.approx(values(table, scores[0]).min(), abs=1e-8)


def test_a_frontier_that_is_rounded_gives_a_lower_bound():
    """The trivial class with a coarse resolution: outward is downward here."""
    rng = np.random.default_rng(0)
    contexts = Contexts.finite(6)
    fine, coarse = Trivial(6, 3), Trivial(6, 3, resolution=8)
    table = np.array(list(itertools.product(range(3), repeat=6)))
    rounded = 0
    for _ in range(40):
        one, two = rng.normal(size=(2, 6, 3))
        exact = brute(table, [one, two], (0, 1))
        found = [mean_wealth(sum_two(kind, contexts, one, two), [0, 0], count=2, share=None) for kind in (fine, coarse)]
        assert found[0] == pytest.approx(exact, abs=1e-9)
        low = found[1]
        assert low <= exact + 1e-9
        rounded += low < exact - 1e-6
    assert rounded > 5


def test_two_experts_can_do_what_neither_can_alone():
    """One policy is refuted by the first expert, the other by the second."""
    policies, contexts = Finite([[0], [1]], n_actions=2), Contexts.finite(1)
    scores = [np.array([[5.0, -1.0]]), np.array([[-1.0, 5.0]])]
    whole = np.log((np.exp(5) + np.exp(-1)) / 2)  # they began with a half each
    assert least_wealth(policies, contexts, scores).value == pytest.approx(whole)
    assert least_wealth(FrontierOnly(policies), contexts, scores).value == pytest.approx(whole)
    combined = least_wealth(ArgmaxOnly(policies), contexts, scores)
    assert combined.value == pytest.approx(2, abs=0.05)  # their mean, as the entropy is what a half each takes away
    assert combined.share == pytest.approx(0.5, abs=0.01)


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=2), st.floats(0, 1))
def test_a_combination_and_its_entropy_are_never_above_the_sum(wealth, share):
    """The bound `log Σ e^S ≥ Σ w S + H(w)`, tight at the weights e^S/Σ e^S."""
    sums = np.array(wealth)[:, None]
    exact = mean_wealth(sums, [0, 0], count=2, share=None)
    assert mean_wealth(sums, [0, 0], count=2, share=share) <= exact + 1e-9
    best = 1 / (1 + np.exp(wealth[1] - wealth[0]))
    assert mean_wealth(sums, [0, 0], count=2, share=float(best)) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("kind", [lambda x: x, FrontierOnly, ArgmaxOnly])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_experts_begin_with_an_equal_share_of_one(kind, count):
    """Where all have the same wealth their mean is that, and one or two of them are worth as much less."""
    policies, contexts = Finite([[0, 1], [1, 1]], n_actions=2), Contexts.finite(2)
    scores = [np.array([[3.0, 4.0], [9.0, 2.0]])] * count
    least = least_wealth(kind(policies), contexts, scores)
    assert least.value == pytest.approx(5 + np.log(len(least.experts) / count), abs=1e-9)
    assert sum_all(policies, contexts, scores).shape == (count, 2)
