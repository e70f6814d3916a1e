"""A round of each algorithm, recomputed policy by policy from its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.algorithms.cases import make

from pacbandits.design import solve_listed
from pacbandits.paper.estimators import catoni_means
from pacbandits.paper.pairs import solve_pairs
from pacbandits.paper.rounds import listed
from pacbandits.problems import load_problem

SPEC = "random:policies=10,contexts=4,actions=3,skew=1,seed=7"
DELTA = 0.1


class Round:
    """The first round of a run with few samples (so that estimates differ from the truth), and the plan after it."""

    def __init__(self, name, spec=SPEC, *, seed=3, scale=0.01):
        self.problem = load_problem(spec)
        self.algorithm = make(name, self.problem, epsilon=0.05, delta=DELTA, scale=scale)
        self.before = self.algorithm.start(self.problem.policies, self.problem.population)
        self.plan = self.algorithm.design(self.before)
        rng = np.random.default_rng(seed)
        self.log = self.problem.interact(self.plan.sampler, samples=self.plan.samples, rng=rng)
        self.after = self.algorithm.absorb(self.before, self.plan, self.log)
        self.next = self.algorithm.design(self.after)
        self.listing = listed(self.problem.policies, algorithm="test")
        self.table = np.asarray(self.listing.actions(self.problem.population)).astype(int)
        self.weights = self.problem.population.weights
        self.confidence = math.log(math.pi**2 * len(self.table) ** 2 / (3 * DELTA))

    def spread(self, one, other):
        """V of two policies under the round's design."""
        p = self.plan.sampler.propensities(self.problem.population)
        return sum(
            w * (1 / p[c, one[c]] + 1 / p[c, other[c]]) for c, w in enumerate(self.weights) if one[c] != other[c]
        )

    def differences(self, better, worse, gamma=0.0):
        """X_i = r_i/(p_i + γ) (1{better plays a_i} − 1{worse does}), one for each row of the log."""
        ids, actions = self.log.contexts.ids, self.log.actions
        played = self.log.propensities[np.arange(len(actions)), actions] + gamma
        return self.log.rewards / played * ((better[ids] == actions).astype(float) - (worse[ids] == actions))

    def catoni(self, better, worse):
        """Catoni's mean of the differences, cut to ± P(π ≠ π')."""
        spread = self.spread(better, worse)
        if spread == 0:
            return 0.0
        n, confidence = self.log.samples, min(self.confidence, self.log.samples / 4)
        alpha = math.sqrt(2 * confidence * (n - 2 * confidence) / spread) / n
        (theta,) = catoni_means(self.differences(better, worse)[None], alpha=[alpha], repeats=self.log.repeats)
        apart = self.weights @ (better != worse)
        return min(max(theta, -apart), apart)

    def name_of(self, index):
        return self.listing.policy(int(index)).to_json()

    def least_ratio(self, accuracy):
        return solve_listed(self.listing, self.problem.population, reference=self.after.policy, accuracy=accuracy).lower


def test_elimination():
    done = Round("rage", "random:policies=10,contexts=3,actions=4,seed=2", scale=1.0)
    lead = np.array([[done.catoni(one, other) for other in done.table] for one in done.table])
    beaten = lead.max(axis=0)
    assert 1 < len(done.after.alive) < 10
    assert done.after.alive.tolist() == np.flatnonzero(beaten <= 0.5).tolist()
    assert done.after.policy.to_json() == done.name_of(beaten.argmin())
    assert done.after.history[0]["dropped"] == 10 - len(done.after.alive)
    best = solve_pairs(done.table[done.after.alive], n_actions=4, weights=done.weights, tolerance=1e-4)
    assert best.lower * (1 - 1e-9) <= done.next.details["rho"] <= best.upper * 1.0011


@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_non_elimination(scale):
    done = Round("rage-free", scale=scale)
    own = done.table[0]  # π̂_0
    gaps = np.array([done.catoni(own, policy) for policy in done.table])
    assert done.after.policy.to_json() == done.name_of(gaps.argmin())
    assert np.allclose(done.after.gaps, gaps - gaps.min(), atol=1e-9)
    least = done.least_ratio(0.25 + done.after.gaps / 4)
    assert least * (1 - 1e-9) <= done.next.details["ratio"] <= least * 1.0011


@pytest.mark.parametrize("seed", range(4))
def test_coda_with_a_gamma_for_each_policy(seed):
    done = Round("coda-paper", seed=seed, scale=0.002)
    own, n = done.table[0], done.log.samples
    gaps, widths = np.zeros(10), np.zeros(10)
    for k, policy in enumerate(done.table):
        spread = done.spread(policy, own)
        if spread > 0:
            gamma = math.sqrt(done.confidence / (n * spread))
            gaps[k] = done.log.repeats @ done.differences(own, policy, gamma) / n
            widths[k] = gamma * spread + done.confidence / (gamma * n)
    best = (gaps + widths).argmin()
    assert done.after.policy.to_json() == done.name_of(best)
    assert np.allclose(done.after.gaps, np.maximum(gaps - gaps[best], 0), atol=1e-12)
    least = done.least_ratio(0.25 + done.after.gaps / 8)
    assert least * (1 - 1e-9) <= done.next.details["ratio"] <= least * 1.0011


def test_the_width_decides_in_coda():
    """With few samples the policy of least estimate is not the one of least estimate plus width, on some seed."""
    chosen = set()
    for seed in range(10):
        done = Round("coda-paper", seed=seed, scale=0.002)
        spread = np.array([done.spread(policy, done.table[0]) for policy in done.table])
        gamma = np.sqrt(done.confidence / (done.log.samples * np.maximum(spread, 1e-300)))
        gaps = [
            done.log.repeats @ done.differences(done.table[0], policy, g) / done.log.samples
            for policy, g in zip(done.table, gamma, strict=True)
        ]
        chosen.add(done.after.policy.to_json() == done.name_of(np.argmin(gaps)))
    assert False in chosen


def test_coda_with_one_gamma():
    done = Round("coda-common-gamma", "trivial:contexts=3,actions=3,gap=0.1,seed=4")
    n = done.log.samples
    gamma = 16 * done.confidence / (n * 0.5)
    nobody = np.full(3, -1)
    values = np.array([done.log.repeats @ done.differences(policy, nobody, gamma) / n for policy in done.table])
    assert done.after.history[0]["gamma"] == pytest.approx(gamma)
    assert np.array_equal(done.after.policy(done.problem.population), done.table[values.argmax()])
    gaps = values.max() - values
    least = done.least_ratio(np.sqrt(0.25 * (0.25 + gaps / 4)))
    assert least * (1 - 1e-9) <= done.next.details["ratio"] <= least * 1.0501
    assert least < 0.9 * done.least_ratio(np.full(27, 0.25))  # and the gaps count
