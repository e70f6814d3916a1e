"""Logs that tell the propensity of the played action alone: certificates as valid as any, with what they assume."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pacbandits as pb
from pacbandits.certificate import Bets, Evidence, Ledger, make_certificate
from pacbandits.certificate.certify import EXPERT_STAKES
from pacbandits.paper.estimators import regularised_scores
from pacbandits.records import Design, Log
from pacbandits.rewards import CellMeans, predict_by_round
from pacbandits.trials.coda import Uniform
from tests.certificate import plain
from tests.certificate.boundary import Game, after_rows, most, play, separate
from tests.certificate.test_certify import LOGGING, UNEVEN, shuffled
from tests.certificate.test_validity import make_problem
from tests.examples import examples
from tests.instances import seeds

EPSILON = 0.25
# What those who keep logs play every action with, at least; some play some actions never.
LEAST = {"chase": 0.001, "stop": 0.02, "rare": 0.001, "restless": 0.0}


def forget(log, least):
    """The same log without the propensities of actions that were not played, but with what they were at least."""
    return Log.of_played(
        log.contexts,
        actions=log.actions,
        rewards=log.rewards,
        played=log.played_propensities,
        least=np.broadcast_to(least, log.propensities.shape),
        rounds=log.rounds,
        repeats=log.repeats,
    )


def draw_bounded(rng, n, a):
    """Propensities (n, A), and what those of each row are at least (n, 1): nothing, a little, or all."""
    least = rng.choice([0.0, 0.0, 1e-3, 1e-2, 0.3, 0.999, 1.0], size=(n, 1)) / a
    rest = plain.draw_propensities(rng, (n, a), least=1e-4, zeros=bool(rng.integers(2)))
    return least + (1 - a * least) * rest, least


def score_by_hand(x, q, *, action, reward, played, bound, f, bet, cap):
    if x == q:
        return 0.0
    high = 1.0 if bound == 0 else max(plain.centre(f[x], bet / bound), 1 - bound * cap)
    low = 0.0 if bound == 0 else min(1 - plain.centre(1 - f[q], bet / bound), bound * cap)
    return high - low + (action == x) * (reward - high) / played - (action == q) * (reward - low) / played


@pytest.mark.thorough
@examples(150)
@given(seeds)
def test_scores_are_unbiased_and_bounded_whatever_the_other_propensities_were(seed):
    """Over all actions and rewards: E[X] = V(π) − V(q), no less where an action is never played; X ≤ 1 + M."""
    rng = np.random.default_rng(seed)
    n, a = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    propensities, least = draw_bounded(rng, n, a)
    means, weights = rng.choice([0.0, 1.0, rng.random(), rng.random()], size=(n, a)), rng.dirichlet(np.ones(n))
    full, which = plain.every_outcome(propensities)
    log = forget(full, least[which])
    predictions = plain.draw_predictions(rng, (n, a))[which]
    bets, share = plain.draw_bets(rng, 1)
    bet, cap = float(bets[0]), plain.cap_of(float(bets[0]), share)
    epsilon = float(rng.choice([0.0, 0.01, 0.3]))
    mean = means[which, log.actions]
    chance = weights[which] * log.played_propensities * np.where(log.rewards == 1, mean, 1 - mean)
    ledger = Ledger.of(log, predictions)
    for q in range(a):
        wealth = plain.wealth_against(ledger, np.full(len(log), q), bets=bets, share=share, epsilon=epsilon)
        assert np.exp(wealth).min() >= 1 - max(share, bet) - 1e-9
        for x in range(a):
            scores = np.array(
                [
                    score_by_hand(
                        x,
                        q,
                        action=int(log.actions[i]),
                        reward=float(log.rewards[i]),
                        played=float(log.played_propensities[i]),
                        bound=float(least[which[i], 0]),
                        f=predictions[i],
                        bet=bet,
                        cap=cap,
                    )
                    for i in range(len(log))
                ]
            )
            assert scores.max() <= 1 + cap + 1e-9
            np.testing.assert_allclose(wealth[:, x], np.log1p(bet * (epsilon - scores)), rtol=1e-9, atol=1e-11)
            expected = np.bincount(which, weights=chance * scores, minlength=n)
            truth = weights * (means[:, x] - means[:, q]) * (x != q)
            both = (propensities[:, x] > 0) & (propensities[:, q] > 0)
            np.testing.assert_allclose(expected[both], truth[both], atol=1e-9)
            assert (expected >= truth - 1e-9).all()
            if bet > 0.01:  # the same from what the wealth says the scores were
                implied = epsilon - np.expm1(wealth[:, x]) / bet
                np.testing.assert_allclose(np.bincount(which, weights=chance * implied), expected, atol=1e-9)


def test_a_control_variate_that_knew_the_played_propensity_would_be_biased():
    """So the propensity of the played action must not enter as if it had been known of all."""
    propensities, least = np.array([[0.1, 0.9]]), 0.1
    full, which = plain.every_outcome(propensities)
    log = forget(full, least)
    naive = replace(log, least=None, propensities=log.propensities / log.propensities.sum(axis=1, keepdims=True))
    bets, share = np.array([0.2]), 0.8
    errors = []
    for one in (log, naive):
        ledger = Ledger.of(one, np.full((len(log), 2), 0.5))
        ledger = replace(ledger, rows=ledger.rows._replace(played=log.played_propensities))
        wealth = plain.wealth_against(ledger, np.zeros(len(log), dtype=int), bets=bets, share=share, epsilon=0.0)
        scores = -np.expm1(wealth[:, 1]) / bets[0]
        errors.append(abs(0.5 * log.played_propensities @ scores))  # both actions earn 1/2: the truth is 0
    assert errors[0] < 1e-12
    assert errors[1] > 0.01
    assert len(which) == 4


@pytest.mark.thorough
@examples(60)
@given(seeds, st.booleans())
def test_verify_agrees_and_knowing_all_is_the_special_case(seed, ids):
    """With the true propensities for bounds a log gives the same wealth as the full log; and its certificate holds."""
    log, predictions = plain.draw_log(seed, ids=ids)
    same = Log.of_played(
        log.contexts,
        actions=log.actions,
        rewards=log.rewards,
        played=log.played_propensities,
        least=log.propensities,
        rounds=log.rounds,
        repeats=log.repeats,
    )
    rng = np.random.default_rng(seed)
    one, two = Ledger.of(log, predictions), Ledger.of(same, predictions)
    bets, share = plain.draw_bets(rng, one.n_rounds)
    own = rng.integers(log.n_actions, size=len(one.contexts))
    wealths = [plain.wealth_against(book, own, bets=bets, share=share, epsilon=0.1) for book in (one, two)]
    np.testing.assert_array_equal(*wealths)
    least = rng.choice([0.0, float(log.propensities.min())])
    policies = pb.Finite(rng.integers(log.n_actions, size=(3, 13)), n_actions=log.n_actions)
    if ids:
        alone = forget(log, least)
        made = pb.certify(alone, policies, epsilon=0.3, delta=0.5).certificate
        assert pb.verify(made, alone, policies).good


def uneven():
    """Two contexts, the last action better in one of them; four policies, of which only the last is within EPSILON."""
    return make_problem(UNEVEN.means, table=[[0, 0], [0, 1], [1, 1], [2, 2]])


@pytest.mark.thorough
@pytest.mark.parametrize("name", LOGGING)
def test_what_is_certified_holds_whoever_collected_the_log(name):
    """Of the policy that is chosen, and of each that is further from the best than ε if it had been looked at."""
    problem, runs, delta, wrong, bad = uneven(), 10, 1e-6, 0, 0
    game = Game(UNEVEN, LOGGING[name], ends=after_rows(40), least=LEAST[name])
    best = problem.value(problem.best_policy())
    for log in separate(play(game, runs=runs, rows=240, seed=13), contexts=2):
        made = pb.certify(log, problem.policies, epsilon=EPSILON, delta=delta).certificate
        wrong += best - problem.value(made.policy) > made.certified_epsilon
        ledger = Ledger.of(log, predict_by_round(log, CellMeans()))
        evidence = Evidence(log, ledger, problem.policies, Bets(EXPERT_STAKES, (1.0,) * 6), EPSILON, delta, model={})
        bad += any(make_certificate(evidence, problem.policies.policy(i))[0].certified for i in range(3))
    assert wrong <= most(runs, delta)
    assert bad <= most(runs, delta)


@pytest.mark.thorough
def test_a_false_least_propensity_can_make_wrong_certificates():
    """The good action was never played, but declared to have been: an assumption that matters, so it is printed."""
    problem = uneven()
    game = Game(UNEVEN, lambda past, rng: np.broadcast_to([0.5, 0.5, 0.0], past.totals.shape))
    (log,) = separate(play(game, runs=1, rows=4000, seed=0), contexts=2)

    def certificate(least):
        declared = forget(log, least)
        ledger = Ledger.of(declared, np.full((len(log), 3), 0.5))
        evidence = Evidence(declared, ledger, problem.policies, Bets(EXPERT_STAKES, (1.0,)), EPSILON, 0.05, model={})
        return make_certificate(evidence, problem.policies.policy(0))[0]

    made = certificate(0.25)
    assert made.certified
    assert "every action was always played with probability 0.25 or more" in made.assumptions
    assert not certificate(0).certified


def uniform_log(spec="trees:contexts=80,features=3,bins=4,actions=3,competitive=2", *, samples=4000, seed=0):
    problem = pb.load_problem(spec)
    uniform = Design((), np.empty(0), problem.best_policy())
    return problem, problem.interact(uniform, samples=samples, rng=np.random.default_rng(seed))


@pytest.mark.slow
def test_the_more_is_declared_the_more_is_proven():
    problem, counted = uniform_log()
    full = shuffled(counted, 0)
    values = [
        pb.certify(log, problem.policies, epsilon=0.3, delta=0.1, ordered=True).certificate.value
        for log in (forget(full, 0.0), forget(full, 0.05), forget(full, 1 / 3), full)
    ]
    assert values[0] < values[1] < values[2] == pytest.approx(values[3])
    assert values[0] > 0


@pytest.mark.thorough
def test_the_certificate_says_what_was_declared_and_verify_looks():
    problem, full = uniform_log(samples=2000)
    log = forget(full, 0.25)
    words = "every action was always played with probability 0.25 or more"
    made = pb.certify(log, problem.policies, epsilon=0.3, delta=0.1).certificate
    assert words in made.assumptions
    assert pb.verify(made, log, problem.policies).good
    silent = pb.verify(replace(made, remarks=()), log, problem.policies)
    assert any(words in fault for fault in silent.faults)
    for other in (full, forget(full, 0.2), forget(full, 0.0)):
        assert "digest differs" in pb.verify(made, other, problem.policies).faults[0]
    higher = log.propensities.copy()
    higher[0, log.actions[0]] += 1e-9
    assert "digest differs" in pb.verify(made, replace(log, propensities=higher), problem.policies).faults[0]
    lower = log.least.copy()  # of the played action alone, so that the propensities are the same
    lower[0, log.actions[0]] /= 2
    other = replace(log, least=lower)
    assert np.array_equal(other.propensities, log.propensities)
    assert "digest differs" in pb.verify(made, other, problem.policies).faults[0]
    nothing = pb.certify(forget(full, 0.0), problem.policies, epsilon=0.3, delta=0.1).certificate
    assert nothing.remarks == ()
    bounds = np.where(np.arange(len(full)) % 2, 0.25, 0.1)[:, None]
    vary = pb.certify(forget(full, bounds), problem.policies, epsilon=0.3, delta=0.1).certificate
    assert any("(0.1 to 0.25), and that was known before the action was drawn" in words for words in vary.remarks)


def test_remarks_of_a_log_reach_its_certificates(tmp_path):
    problem, full = uniform_log(samples=500)
    log = replace(full, remarks=("the moon was full",))
    log.write(tmp_path / "log.parquet")
    again = Log.read(tmp_path / "log.parquet")
    assert again.remarks == ("the moon was full",)
    made = pb.certify(again, problem.policies, epsilon=0.3, delta=0.1).certificate
    assert "the moon was full" in made.assumptions
    assert not pb.verify(replace(made, remarks=()), again, problem.policies).good
    assert again.followed_by(full).remarks == full.followed_by(again).take(np.arange(3)).remarks == log.remarks


@pytest.mark.parametrize("contexts", ["ids", "features"])
def test_parquet_there_and_back(contexts, tmp_path):
    spec = "two-of-many:actions=4,policies=10" if contexts == "ids" else "trees:contexts=80,features=3,bins=4,actions=3"
    _, full = uniform_log(spec, samples=200)
    never = full.only(full.actions < full.n_actions - 1)  # the last action does not occur, and is known all the same
    log = forget(never, 0.2)
    log.write(tmp_path / "log.parquet")
    for again in (Log.read(tmp_path / "log.parquet"), pb.read_log(tmp_path / "log.parquet")[0]):
        assert again.n_actions == full.n_actions
        for name in ("actions", "rewards", "propensities", "least", "rounds", "repeats"):
            assert np.array_equal(getattr(again, name), getattr(log, name))


def test_parts_and_sums_of_such_logs():
    _, full = uniform_log(samples=300)
    log = forget(full, 0.1)
    assert np.array_equal(log.played_propensities, full.played_propensities)
    assert np.array_equal(log.take(np.array([3, 1])).least, log.least[[3, 1]])
    both = full.followed_by(log)
    assert np.array_equal(both.least, np.concatenate([full.propensities, log.least]))
    assert np.array_equal(both.played_propensities, np.tile(full.played_propensities, 2))
    assert full.followed_by(full).least is None
    assert full.assumed == ()


def test_whoever_divides_by_the_played_propensity_divides_by_the_right_one():
    _, full = uniform_log(samples=300)
    assert np.array_equal(regularised_scores(forget(full, 0.05)), regularised_scores(full))


def test_algorithms_want_all_propensities():
    problem, _ = uniform_log()
    algorithm = Uniform(0.3, 0.1)
    state = algorithm.start(problem.policies, problem.population)
    plan = algorithm.design(state)
    log = problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(0))
    with pytest.raises(pb.InputError, match="the propensity of the played action alone"):
        algorithm.absorb(state, plan, forget(log, 0.1))


@pytest.mark.parametrize(
    ("least", "words"),
    [
        (0.34, "below the minimum propensity 0.34 that was declared; declare a smaller one"),
        ([[0.1, 0.4, 0.4]], "which leaves less for the 2 others than the minimum propensity that was declared"),
        (-0.1, "propensities must not be negative"),
        (math.nan, "minimum propensities must be finite"),
    ],
)
def test_a_declaration_that_the_log_refutes_is_refused(least, words):
    _, full = uniform_log(samples=100)
    with pytest.raises(pb.InputError, match=words):
        forget(full.only(full.actions == 0), least)


def test_other_propensities_than_declared_are_refused():
    _, full = uniform_log(samples=100)
    with pytest.raises(pb.InputError, match="not played must be the minimum ones"):
        replace(forget(full, 0.1), propensities=full.propensities)
