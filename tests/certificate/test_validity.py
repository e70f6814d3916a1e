"""A certificate errs no more often than δ says, at whatever moment one stops to look.

Errors are counted over runs at fixed seeds and compared with the binomial distribution. As the bound is a union over
references and experts, a correct certificate errs far less often than δ; a broken one should err on the problems here,
and the last tests show that it does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binom

from pacbandits.certificate import Bets, Evidence, Ledger, make_certificate
from pacbandits.certificate.search import least_of_all
from pacbandits.compiled import using_cores
from pacbandits.confidence import certificate_threshold
from pacbandits.policies.finite import Finite
from pacbandits.policies.trivial import Trivial
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts
from pacbandits.trials.coda import Coda
from pacbandits.trials.uniform import Uniform

RARE = 1e-6
# Of two, the smaller asks for more: at most 14 errors in 60 runs pass, where 28 would with the larger.
DELTAS = [0.05, pytest.param(0.2, marks=pytest.mark.slow)]
FEW, MANY = 60, 1000
EPSILON = 0.3


@pytest.fixture(autouse=True)
def _one_core():
    """Problems this small are quicker without the pool; how work is cut changes no result."""
    with using_cores(1):
        yield


def make_problem(means, *, weights=None, table=None):
    means = np.array(means, dtype=float)
    n, a = means.shape
    policies = Trivial(n, a) if table is None else Finite(table, n_actions=a)
    return Problem("test", "test", Contexts.finite(n, weights=weights), means, Bernoulli(), policies)


def trap():
    """Ahead by 1.05 ε, on one context of four, and the last in the list; all the others are errors, and alike."""
    lead = 1.05 * EPSILON / 0.4
    means = [[0.5 - lead / 2, 0.5 + lead / 2], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]
    table = [[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]]
    return make_problem(means, weights=[0.4, 0.2, 0.2, 0.2], table=table)


def ties():
    """Two best policies, equal, and two errors, equal."""
    means = [[0.8, 0.8, 0.8 - 1.02 * EPSILON], [0.6, 0.6, 0.6 - 1.02 * EPSILON]]
    return make_problem(means, table=[[2, 2], [0, 1], [1, 0], [2, 2]])


def skewed():
    """A rare context where the difference is as large as can be, and a common one where there is none."""
    return make_problem(
        [[0.5, 0.5], [0.0, 1.0]], weights=[1 - 1.05 * EPSILON, 1.05 * EPSILON], table=[[0, 0], [1, 0], [0, 1]]
    )


def sure():
    """Rewards that are almost not random."""
    means = [[0.01, 0.99], [0.99, 0.01], [0.01, 0.01]]
    return make_problem(means, weights=[0.33, 0.33, 0.34], table=[[0, 0, 0], [1, 1, 1], [1, 0, 0], [1, 1, 0]])


def every_map():
    """The trivial class, through its frontier: one action of three leads in one of two contexts."""
    lead = 1.05 * EPSILON * 2
    return make_problem([[0.1, 0.1, 0.1 + lead], [0.5, 0.5, 0.5]])


PROBLEMS = {"trap": trap, "ties": ties, "skewed": skewed, "sure": sure, "every-map": every_map}
CHEAP = {"pilot": 24, "growth": 1.0}
LOWER = -np.log(0.999)  # a threshold without a union over anything, at δ = 0.999


def run(problem, kind, *, seed, epsilon, delta, threshold=np.inf, pilot=CHEAP["pilot"], most=40):
    """Play until certified, or until the wealth has reached a threshold below the true one; the gap of the policy that
    this is said of, or None when nothing was in so many rounds."""
    rng = np.random.default_rng(seed)
    algorithm = kind(epsilon, delta, pilot=pilot, growth=CHEAP["growth"])
    state = algorithm.start(problem.policies, problem.population)
    while (plan := algorithm.design(state)) is not None:
        if state.round_number >= most:
            return None
        state = algorithm.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
        if state.certificate.value >= threshold:
            break
    assert state.certificate.value >= min(threshold, state.certificate.threshold)
    return problem.value(problem.best_policy()) - problem.value(state.policy)


def count(name, kind, delta, *, runs, epsilon=EPSILON, **options):
    problem = PROBLEMS[name]()
    gaps = [run(problem, kind, seed=1000 + i, epsilon=epsilon, delta=delta, **options) for i in range(runs)]
    done = [gap for gap in gaps if gap is not None]
    assert len(done) > 0.9 * runs  # or nothing would be tested
    return sum(gap > epsilon for gap in done)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("kind", [Uniform, Coda])
def test_errors_are_as_rare_as_delta_says(kind, name, delta):
    assert count(name, kind, delta, runs=FEW) <= binom.ppf(1 - RARE, FEW, delta)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.2, 0.05])
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("kind", [Uniform, Coda])
def test_errors_are_as_rare_as_delta_says_over_many_runs(kind, name, delta):
    assert count(name, kind, delta, runs=MANY) <= binom.ppf(0.999, MANY, delta)


@pytest.mark.parametrize("kind", [Uniform, Coda])
def test_with_a_lower_threshold_errors_do_occur(kind):
    """Or the tests above could not fail."""
    assert count("trap", kind, 0.05, runs=FEW, threshold=LOWER, pilot=1) > binom.ppf(1 - RARE, FEW, 0.05)


@dataclass(frozen=True, eq=False)
class Table:
    """Propensities (N, A) by the id of a context."""

    table: np.ndarray

    @property
    def n_actions(self):
        return self.table.shape[1]

    def propensities(self, contexts):
        return self.table[contexts.ids]


def chase(history, rng):
    """Play with probability 1/1000 whatever earned most so far, so that what is known of it hangs on few rows."""
    totals, counts = history
    best = np.argmax((totals + 0.5) / (counts + 1), axis=1)
    table = np.full(totals.shape, 0.999 / (totals.shape[1] - 1))
    table[np.arange(len(table)), best] = 0.001
    return table


def stop_where_it_hurts(history, rng):
    """Play the good action until it first fails in a context, then hardly ever again: failures stand."""
    totals, counts = history
    failed = counts[:, -1] > totals[:, -1]
    last = np.where(failed, 0.02, 0.9)[:, None]
    return np.hstack([np.tile((1 - last) / (totals.shape[1] - 1), (1, totals.shape[1] - 1)), last])


def rare(history, rng):
    """The good action is the rare one, always."""
    n, a = history[0].shape
    return np.tile([*[0.999 / (a - 1)] * (a - 1), 0.001], (n, 1))


def restless(history, rng):
    """Propensities that jump about, some of them 0."""
    table = rng.dirichlet(np.full(history[0].shape[1], 0.3), size=len(history[0]))
    return np.where(table < 1e-3, 0, table) / np.where(table < 1e-3, 0, table).sum(axis=1, keepdims=True)


ADVERSARIES = {"chase": chase, "stop": stop_where_it_hurts, "rare": rare, "restless": restless}


def uneven(epsilon=EPSILON):
    """Two contexts, the last action better by 1.05 ε in one of them; four policies, of which only the last is right."""
    lead = 1.05 * epsilon / 0.5
    means = [[0.5 - lead / 2, 0.5 - lead / 2, 0.5 + lead / 2], [0.5, 0.5, 0.5]]
    return make_problem(means, table=[[0, 0], [0, 1], [1, 1], [2, 2]])


def any_wrong_certificate(adversary, *, seed, delta, rounds=12, samples=12, lower=False):
    """Whether at the end of any round any policy further than ε from the best could be certified.

    Bets are fixed in advance, predictions made of earlier rounds; they and the propensities may do what they like. The
    union over references is put to the test as such: it is not only the best policy so far that is looked at.
    """
    problem, rng = uneven(), np.random.default_rng(seed)
    policies = problem.policies
    gaps = problem.value(problem.best_policy()) - np.array([problem.value(policies.policy(i)) for i in range(4)])
    bad = np.flatnonzero(gaps > EPSILON)
    assert len(bad) == 3
    threshold = certificate_threshold(log_size=policies.log_size, experts=3, delta=delta)
    history = np.zeros((2, *problem.mean_rewards.shape))  # totals and counts
    log, predictions = None, np.empty((0, 3))
    for number in range(rounds):
        table = adversary(history, rng)
        new = problem.interact(Table(table), samples=samples, rng=rng, round_number=number)
        guess = (history[0] + 0.5) / (history[1] + 1)
        predictions = np.concatenate([predictions, guess[new.contexts.ids]])
        np.add.at(history[0], (new.contexts.ids, new.actions), new.repeats * new.rewards)
        np.add.at(history[1], (new.contexts.ids, new.actions), new.repeats)
        log = new if log is None else log.followed_by(new)
        book = Ledger.of(log, predictions)
        bets = Bets((0.1, 0.4, 1.0), tuple([0.3, 0.45, 0.05][i % 3] for i in range(number + 1)))
        evidence = Evidence(log, book, policies, EPSILON, delta, model={})
        for index in bad:
            own = policies.policy(index)
            scores = [evidence.wealth(bets, k, reference=own(book.contexts)) for k in range(3)]
            value = least_of_all(policies, book.contexts, scores)
            if value >= (LOWER if lower else threshold):
                if not lower:
                    assert make_certificate(evidence, own, bets)[0].certified
                return True
    return False


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("name", ADVERSARIES)
def test_no_logging_policy_can_make_a_wrong_certificate(name, delta):
    wrong = sum(any_wrong_certificate(ADVERSARIES[name], seed=i, delta=delta) for i in range(FEW))
    assert wrong <= binom.ppf(1 - RARE, FEW, delta)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.2, 0.05])
@pytest.mark.parametrize("name", ADVERSARIES)
def test_no_logging_policy_can_make_a_wrong_certificate_in_many_runs(name, delta):
    wrong = sum(any_wrong_certificate(ADVERSARIES[name], seed=i, delta=delta) for i in range(MANY))
    assert wrong <= binom.ppf(0.999, MANY, delta)


def test_with_a_lower_threshold_logging_policies_do_make_wrong_certificates():
    """With no union over anything, at δ = 0.999."""
    wrong = [
        sum(any_wrong_certificate(each, seed=i, delta=0.05, lower=True) for i in range(20))
        for each in ADVERSARIES.values()
    ]
    assert max(wrong) > binom.ppf(1 - RARE, 20, 0.05)


@pytest.mark.parametrize("delta", [0.2, 0.05])
def test_the_certified_epsilon_bounds_the_gap_at_all_times_together(delta):
    """The tightest certified ε of the best policies so far, over all rounds of a run, against their true gaps."""
    wrong = 0
    for name in ("trap", "sure", "every-map"):
        problem = PROBLEMS[name]()
        best = problem.value(problem.best_policy())
        for seed in range(FEW // 3):
            rng = np.random.default_rng(seed)
            algorithm = Uniform(0.02, delta, **CHEAP)
            state = algorithm.start(problem.policies, problem.population)
            broken = False
            for _ in range(8):
                plan = algorithm.design(state)
                if plan is None:
                    break
                state = algorithm.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
                broken |= state.certificate.certified_epsilon < best - problem.value(state.policy)
            wrong += broken
    assert wrong <= binom.ppf(1 - RARE, FEW, delta)
