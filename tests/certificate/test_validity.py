"""A certificate errs no more often than δ says: the procedure as a whole, at whatever moment one stops to look.

What an expert may do is in `test_ville`; here it is what they may do together. The first tests are of classes made so
that the bounds are nearly attained: references that err on contexts of their own, stakes far apart, errors that lead in
turn. There the errors come close to δ, and whoever forgets log K, log|Π| or what moves between leaders errs more often
than that. Elsewhere a correct certificate errs far less often than δ; so the runs of whole trials are made at a small
δ, where even one error is too many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from pacbandits.certificate import Bets, Evidence, Leaders, Ledger, make_certificate
from pacbandits.certificate.ledger import Against, plan_moves
from pacbandits.certificate.making import mean_wealth
from pacbandits.compiled import using_cores
from pacbandits.policies.finite import Finite, Trivial
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts, Log
from pacbandits.trials.coda import Coda, Uniform
from tests.certificate.boundary import fewest, most
from tests.certificate.plain import against_one

EPSILON = 0.3


@pytest.fixture(autouse=True)
def _one_core():
    """Problems this small are quicker without the pool; how work is cut changes no result."""
    with using_cores(1):
        yield


@dataclass(frozen=True, eq=False)
class Errors:
    """A class of m policies on m contexts, all as likely: the last is best, and each other errs in one context.

    Rewards and predictions are sure, so that a row counts by its context alone. An error costs 1/m, which is the ε that
    is asked for: wealth rises a little with each row and falls where the error shows, and thus never jumps far beyond
    what is needed.
    """

    m: int

    @property
    def epsilon(self) -> float:
        return 1 / self.m

    @property
    def policies(self) -> Finite:
        return Finite(np.vstack([1 - np.eye(self.m, dtype=int)[:-1], np.ones(self.m, dtype=int)]), n_actions=2)

    def log(self, counts):
        """The log with so many rows (rounds, m) of each context in each round."""
        rounds, ids = np.nonzero(counts)
        return Log.of(
            Contexts.finite(self.m).take(ids),
            actions=np.ones(len(ids), dtype=int),
            rewards=np.ones(len(ids)),
            propensities=np.full((len(ids), 2), 0.5),
            rounds=rounds,
            repeats=counts[rounds, ids],
        )

    def evidence(self, counts, *, delta, stakes, leaders=None):
        """What a certificate is made from."""
        log = self.log(np.asarray(counts))
        ledger = Ledger.of(log, np.tile([0.0, 1.0], (len(log), 1)))
        bets = Bets(stakes, (1.0,) * ledger.n_rounds)
        return Evidence(log, ledger, self.policies, bets, self.epsilon, delta, model={}, leaders=leaders)

    def factors(self, stakes, expert, reference):
        """What a row of each context adds to the log-wealth of an expert against each policy (m, m)."""
        evidence = self.evidence(np.ones((1, self.m), dtype=int), delta=0.5, stakes=stakes)
        against = against_one(self.policies.policy(reference)(evidence.ledger.contexts), rounds=1)
        (wealth,) = evidence.wealths((expert,), against=against, epsilon=self.epsilon)
        return wealth[np.arange(self.m)[:, None], self.policies.table.T.astype(int)]


def growing_looks(last, *, growth):
    """Moments to look at, each later than the one before by a share of it."""
    looks = [1]
    while looks[-1] < last:
        looks.append(max(looks[-1] + 1, int(growth * looks[-1])))
    return np.array(looks)


STAKES = (0.3, 0.075, 0.019, 0.0047)  # so far apart that one has lost all before the next has staked much


def wrong_references(runs, *, delta, seed):
    """For each run whether a wrong policy is certified at any moment; which one, and the counts (m,) at that moment."""
    world, rng = Errors(5), np.random.default_rng(seed)
    looks = growing_looks(800_000, growth=1.03)
    steps = rng.multinomial(np.diff(looks, prepend=0), np.full(world.m, 1 / world.m), size=(runs, len(looks)))
    counts = steps.cumsum(axis=1)
    needed = world.evidence(np.ones((1, world.m), dtype=int), delta=delta, stakes=STAKES).needed
    alike = np.zeros((len(STAKES), 1))  # experts who have all won nothing tell how far their mean is below their sum
    below = mean_wealth(alike, alike[:, 0], count=len(STAKES), share=None) - np.log(len(STAKES))
    found = {}
    for reference in range(world.m - 1):
        each = [counts @ world.factors(STAKES, k, reference) for k in range(len(STAKES))]
        certified = (np.logaddexp.reduce(each, axis=0) + below).min(axis=2) >= needed
        for run in np.flatnonzero(certified.any(axis=1)).tolist():
            found.setdefault(run, (reference, counts[run, certified[run].argmax()]))
    return world, found


def check_references(*, runs, delta):
    world, found = wrong_references(runs, delta=delta, seed=1)
    assert fewest(runs, delta / 4) <= len(found) <= most(runs, delta)
    for reference, counts in list(found.values())[:5]:  # so say the certificates themselves
        evidence = world.evidence(counts[None], delta=delta, stakes=STAKES)
        made, _ = make_certificate(evidence, world.policies.policy(reference))
        assert made.certified
        assert made.threshold == pytest.approx(np.log(world.m / delta))


@pytest.mark.thorough
def test_references_and_experts_together_err_no_more_often_than_delta_says():
    """Without log K, or without log|Π|, about half of these runs would certify an error somewhere."""
    check_references(runs=1500, delta=0.3)


@pytest.mark.slow
def test_references_and_experts_together_err_no_more_often_in_many_runs():
    check_references(runs=10_000, delta=0.3)


STAKE, WINDOW, EVERY, LED = 0.3, 300, 10, 40


def led_in_turn(world, rounds):
    """Each error leads in its turn, for a window; all of them lack ε, and so does every mixture of them."""
    turns = tuple(i % (world.m - 1) for i in range(rounds))
    errors = tuple(world.policies.policy(i) for i in range(world.m - 1))
    return Leaders(errors, turns, (WINDOW,) * rounds)


def wrong_mixtures(runs, *, delta, seed):
    """Runs in which an error is certified at any look, each with its counts (looks, m) until then."""
    world, rng = Errors(6), np.random.default_rng(seed)
    leaders, units = led_in_turn(world, LED), np.full(LED, STAKE)
    moves, _ = plan_moves(leaders, units=units, counts=np.full(LED, float(WINDOW)))
    # One row of each context in each round, each a context of its own, tells what such rows add.
    log = world.log(np.ones((LED, world.m), dtype=int))
    which = log.contexts.ids
    ledger = Ledger.of(replace(log, contexts=replace(log.contexts, ids=None)), np.tile([0.0, 1.0], (len(log), 1)))
    table = world.policies.table.astype(int)
    against = Against(table[: world.m - 1, which], np.array(leaders.counted), moves)
    scores = ledger.log_wealth(against, bets=units, share=0.9, epsilon=0.0)
    factors = np.array([scores[np.arange(len(log)), one[which]] for one in table]).T + STAKE * world.epsilon
    factors = np.repeat(factors.reshape(LED, world.m, len(table)), WINDOW // EVERY, axis=0)
    steps = rng.multinomial(EVERY, np.full(world.m, 1 / world.m), size=(runs, len(factors)))
    paths = np.einsum("rlm,lmp->rlp", steps, factors).cumsum(axis=1)
    certified = paths.min(axis=2) >= -np.log(delta)
    found = np.flatnonzero(certified.any(axis=1)).tolist()
    return world, {run: steps[run, : certified[run].argmax() + 1] for run in found}


def check_mixtures(*, runs, delta):
    world, found = wrong_mixtures(runs, delta=delta, seed=2)
    assert fewest(runs, delta / 4) <= len(found) <= most(runs, delta)
    for steps in list(found.values())[:5]:  # so say the certificates themselves
        windows = np.add.reduceat(steps, np.arange(0, len(steps), WINDOW // EVERY))
        leaders = led_in_turn(world, len(windows))
        made, _ = make_certificate(
            world.evidence(windows, delta=delta, stakes=(STAKE,), leaders=leaders), world.policies.policy(world.m - 1)
        )
        assert made.certified
        assert made.threshold == pytest.approx(-np.log(delta))


@pytest.mark.thorough
def test_mixtures_err_no_more_often_than_delta_says():
    """With moves that are not paid for, or more wealth to begin with, they would err more often."""
    check_mixtures(runs=1500, delta=0.4)


@pytest.mark.slow
def test_mixtures_err_no_more_often_in_many_runs():
    check_mixtures(runs=10_000, delta=0.4)


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
TRIAL_RUNS, SMALL_DELTA = 15, 5e-8
CHEAP = {"pilot": 24, "growth": 1.0}
LOWER = -np.log(0.999)  # a threshold without a union over anything, at δ = 0.999


def run(problem, kind, *, seed, epsilon, delta, threshold=np.inf, pilot=CHEAP["pilot"], most_rounds=40):
    """Play until certified, or until the wealth has reached a threshold below the true one; the gap of the policy that
    this is said of, or None when nothing was in so many rounds; and whether an ε below the gap was ever certified."""
    rng = np.random.default_rng(seed)
    algorithm = kind(epsilon, delta, pilot=pilot, growth=CHEAP["growth"])
    state = algorithm.start(problem.policies, problem.population)
    best, broken = problem.value(problem.best_policy()), False
    while (plan := algorithm.design(state)) is not None:
        if state.round_number >= most_rounds:
            return None, broken
        state = algorithm.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
        broken |= state.certificate.certified_epsilon < best - problem.value(state.policy)
        if state.certificate.value >= threshold:
            break
    assert state.certificate.value >= min(threshold, state.certificate.threshold)
    return best - problem.value(state.policy), broken


def count(name, kind, delta, *, runs, epsilon=EPSILON, **options):
    """In how many runs the policy is worse than ε, and in how many a smaller ε than its gap was certified."""
    problem = PROBLEMS[name]()
    done = [run(problem, kind, seed=1000 + i, epsilon=epsilon, delta=delta, **options) for i in range(runs)]
    gaps = [gap for gap, _ in done if gap is not None]
    assert len(gaps) > 0.9 * runs  # or nothing would be tested
    return sum(gap > epsilon for gap in gaps), sum(broken for _, broken in done)


# Every map costs as much as the others together; its unions are tested at their boundary elsewhere.
SLOW_TOO = ((), (pytest.mark.slow,))


@pytest.mark.first(1)
@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW_TOO[name == "every-map"]) for name in PROBLEMS])
@pytest.mark.parametrize("kind", [pytest.param(Uniform, marks=pytest.mark.slow), Coda])
def test_trials_do_not_err(kind, name):
    """At a δ of one in twenty million a single error is too many."""
    assert max(count(name, kind, SMALL_DELTA, runs=TRIAL_RUNS)) == most(TRIAL_RUNS, SMALL_DELTA) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "runs"), [(0.3, 1000), (0.05, 1000), (1e-3, 400)])
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("kind", [Uniform, Coda])
def test_errors_are_as_rare_as_delta_says_over_many_runs(kind, name, delta, runs):
    """A large δ ends trials early, where a wrong policy leads most often; a small one permits hardly any error."""
    assert max(count(name, kind, delta, runs=runs)) <= most(runs, delta)


@pytest.mark.parametrize("kind", [Uniform, Coda])
def test_with_a_lower_threshold_errors_do_occur(kind):
    """Or the tests above could not fail."""
    wrong, _ = count("trap", kind, SMALL_DELTA, runs=TRIAL_RUNS, threshold=LOWER, pilot=1)
    assert wrong > most(TRIAL_RUNS, SMALL_DELTA)
