"""Rewards that are not in count at their worst, wherever something is claimed, and nowhere count as known."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from pacbandits import Contexts, Finite, InputError, Log, Trees, evaluate, read_log, verify
from pacbandits.certificate import Bets, Ledger
from pacbandits.certificate.alarms import look
from pacbandits.certificate.asymptotic import certify_asymptotically
from pacbandits.certificate.certify import certify, measure_worth
from pacbandits.certificate.choosing import lead_log
from pacbandits.certificate.intervals import RowWeighing, _centres
from pacbandits.certificate.learning import learn_class
from pacbandits.certificate.ledger import Against
from pacbandits.problems.pilots import PilotEffects
from pacbandits.records.log import NOT_IN, digest_log
from pacbandits.report.result_facts import tried_arms
from pacbandits.rewards import CellMeans, first_model, predict_by_round
from pacbandits.trials.forecast import outlook
from pacbandits.verifier import verify_log

MEANS = np.array([[0.1, 0.7, 0.3], [0.6, 0.2, 0.3]])
ROUNDS = 5


def draw(rows, seed=0, *, rounds=ROUNDS, ids=False):
    """A log of two kinds of people and three actions, in rounds with splits of their own."""
    rng = np.random.default_rng(seed)
    kind, number = rng.integers(0, 2, rows), np.sort(rng.integers(0, rounds, rows))
    splits = rng.dirichlet(np.full(3, 8.0), size=rounds)[number]
    actions = (rng.random(rows)[:, None] > splits.cumsum(axis=1)[:, :2]).sum(axis=1)
    contexts = Contexts.of(np.column_stack([kind, rng.normal(size=rows)]), names=["kind", "age"])
    if ids:
        contexts = Contexts.finite(2).take(kind)
    return Log.of(
        contexts,
        actions=actions,
        rewards=(rng.random(rows) < MEANS[kind, actions]).astype(float),
        propensities=splits,
        rounds=number,
    )


def late(log, share, seed=0, *, delay=1):
    """Some rewards not in, of those that failed more than of others, and others known later than the next round."""
    rng = np.random.default_rng(seed)
    out = rng.random(len(log)) < share * np.where(log.rewards == 0, 1.5, 0.5)
    known = log.rounds + 1 + rng.integers(0, delay + 1, size=len(log))
    return replace(log, rewards=np.where(out, np.nan, log.rewards), known=np.where(out, NOT_IN, known))


def trees():
    return Trees.learn(draw(400).contexts, n_actions=3, depth=2, bins=8)


@pytest.mark.parametrize("moving", [0.0, 0.8])
def test_the_worst_reward_is_the_worst_for_every_policy_at_once(moving):
    rng = np.random.default_rng(3)
    log = draw(60, seed=1)
    predictions, leaders = rng.random((60, 3)), rng.integers(0, 3, (3, 60))
    moves = moving * rng.dirichlet(np.ones(3), size=ROUNDS)
    against = Against(leaders, np.array([0, 1, 1, 2, -1]), moves)
    bets = rng.uniform(0.05, 0.5, ROUNDS)

    def wealth(rewards, known=None):
        ledger = Ledger.of(replace(log, rewards=rewards, known=known), predictions)
        return ledger.log_wealth(against, bets=bets, share=0.9, epsilon=0.02)

    missing = wealth(np.full(60, np.nan), np.full(60, NOT_IN))
    every = np.array([wealth(np.full(60, reward)) for reward in (0.0, 0.25, 0.9, 1.0)])
    # For each action and row the least that any reward leaves, and one reward of the row that does so for all actions.
    np.testing.assert_allclose(missing, every.min(axis=0), rtol=0, atol=1e-12)
    same = np.isclose(every, missing[None], rtol=0, atol=1e-12).all(axis=2)
    assert (same[0] | same[3]).all()
    assert (every.max(axis=0) > missing + 1e-6).any(axis=1).sum() > 20


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["trees", "list"])
def test_certificates_say_what_is_not_in_and_verify_finds_the_same(kind):
    ids, rows = kind == "list", 700
    whole = draw(rows, seed=2, ids=ids)
    table = np.array(list(itertools.product(range(3), repeat=2)))
    policies = Finite(table, n_actions=3) if ids else trees()
    log = late(whole, 0.1 if ids else 0.01)
    full, some = (certify(one, policies, epsilon=0.5, delta=0.05) for one in (whole, log))
    assert some.certified_epsilon > full.certified_epsilon
    out = int(log.awaited.sum())
    assert any(f"{out} rewards of {rows} are not in, and counted at the worst" in one for one in some.assumptions)
    assert any("known from the round on that the log says" in one for one in some.assumptions)
    assert verify(some, log, policies).good
    assert verify_log(some, log, policies).good
    # Whatever they turn out to be, more is proven then; and the certificate is not of another log.
    rewards = np.where(log.awaited, np.random.default_rng(0).integers(0, 2, len(log)), log.rewards)
    later = replace(log, rewards=rewards, known=np.where(log.awaited, ROUNDS, log.known))
    assert "digest" in verify(some, later, policies).faults[0]
    left_out = certify(log.rows_in(), policies, epsilon=0.3, delta=0.05)
    assert any("digest" in fault for fault in verify(left_out, log, policies).faults)
    quiet = replace(some, remarks=())
    assert any("does not say that it assumes" in fault for fault in verify(quiet, log, policies).faults)
    hopeful = replace(some, value=full.value, certified_epsilon=full.certified_epsilon)
    assert not verify(hopeful, log, policies).good


@pytest.mark.thorough
def test_whatever_comes_in_proves_no_less():
    policies, log = trees(), late(draw(700, seed=3), 0.01)
    now = certify(log, policies, epsilon=0.5, delta=0.05)
    for seed in range(2):
        rewards = np.where(log.awaited, np.random.default_rng(seed).random(len(log)), log.rewards)
        then = replace(log, rewards=rewards, known=np.where(log.awaited, ROUNDS, log.known))
        assert certify(then, policies, epsilon=0.5, delta=0.05).certified_epsilon <= now.certified_epsilon + 1e-12


def test_leaders_know_what_was_known():
    policies, whole = trees(), draw(1_000, seed=4)
    log = late(whole, 0.05, delay=2)
    model = first_model(log)

    def led(one):
        sizes = tuple(int(size) for size in one.round_sizes)
        return lead_log(one, predict_by_round(one, model), policies, sizes=sizes, spared=0, single=False)

    told = led(log)
    for number in (2, 4):
        then = led(log.as_of(number + 1))
        assert then.turns == told.turns[: number + 1]
        assert [one.to_json() for one in then.policies] == [
            one.to_json() for one in told.policies[: len(then.policies)]
        ]
    assert set(told.turns) != {-1}
    # Where nothing is known before the last round, nobody leads before it.
    slow = replace(whole, known=np.full(len(whole), ROUNDS))
    assert set(led(slow).turns) == {-1}
    assert (predict_by_round(slow, model) == 0.5).all()


def test_a_log_of_a_single_round_has_no_order_in_which_rewards_were_known():
    log = replace(draw(800, seed=5, rounds=1), known=None)
    even = replace(log, propensities=np.full((800, 3), 1 / 3))
    waiting = late(even, 0.01)
    for order in ({"ordered": True}, {"shuffle": True}):
        with pytest.raises(InputError, match="has a single round"):
            certify(waiting, trees(), epsilon=0.5, **order)
    plain = certify(waiting, trees(), epsilon=0.5)
    assert not plain.shuffled
    assert plain.leaders is None
    assert verify(plain, waiting, trees()).good
    learnt = learn_class("trees:depth=1", waiting)
    made = certify(waiting, learnt, epsilon=0.5)
    assert verify(made, waiting, learnt.policies).good
    forged = replace(made, ordered=True)
    assert "no rounds that tell which were known" in verify(forged, waiting, learnt.policies).faults[0]


@pytest.mark.thorough
def test_where_the_last_rounds_are_out_the_first_ones_prove_more():
    policies, whole = trees(), draw(800, seed=14)
    out = (whole.rounds == ROUNDS - 1) & (np.random.default_rng(0).random(800) < 0.5)
    log = replace(whole, rewards=np.where(out, np.nan, whole.rewards), known=np.where(out, NOT_IN, whole.rounds + 1))
    made = certify(log, policies, epsilon=0.5)
    before = certify(log.as_of(ROUNDS - 1), policies, epsilon=0.5)
    assert made.to_json() == before.to_json()
    assert made.rows == (whole.rounds < ROUNDS - 1).sum()
    assert not any("not in" in words for words in made.assumptions)
    verdict = verify(made, log, policies)
    assert verdict.good
    assert any("the log has gone on since" in words for words in verdict.checked)
    # A single straggler in the first round is no reason to leave out all the others.
    early = np.arange(800) == 7
    few = replace(whole, rewards=np.where(early, np.nan, whole.rewards), known=np.where(early, NOT_IN, ROUNDS))
    assert certify(few, policies, epsilon=0.5).rows == 800


def test_a_claim_stays_one_of_the_log_as_it_stood():
    policies, log = trees(), late(draw(700, seed=15), 0.01, delay=2)
    then = log.as_of(4)
    made = certify(then, policies, epsilon=0.5)
    assert made.is_of(log)
    assert digest_log(made.of(log)) == made.digest
    assert verify(made, log, policies).good
    other = replace(
        log, rewards=np.where(log.rounds == 0, 1.0, log.rewards), known=np.where(log.rounds == 0, 1, log.known)
    )
    assert not made.is_of(other)
    assert "digest" in verify(made, other, policies).faults[0]


def test_nothing_in_proves_nothing():
    log = draw(600, seed=6)
    nothing = replace(log, rewards=np.full(600, np.nan), known=np.full(600, NOT_IN))
    certificate = certify(nothing, trees(), epsilon=0.3)
    assert certificate.certified_epsilon == 1.0
    assert verify(certificate, nothing, trees()).good
    worth = evaluate(nothing, trees().argmax(nothing.contexts, np.ones((600, 3))))
    assert (worth.value.low, worth.value.high) == (0.0, 1.0)
    assert outlook(certificate, nothing, trees()).same == np.inf


def test_intervals_are_as_wide_as_what_is_not_in_may_make_them():
    whole = draw(300, seed=7, rounds=3)
    policy = trees().argmax(whole.contexts, MEANS[whole.contexts.features[:, 0].astype(int)])
    out = np.zeros(300, dtype=bool)
    out[np.flatnonzero(whole.actions == policy(whole.contexts))[[5, 40]]] = True
    out[np.flatnonzero(whole.actions != policy(whole.contexts))[-9]] = True
    log = replace(whole, rewards=np.where(out, np.nan, whole.rewards), known=np.where(out, NOT_IN, whole.rounds + 1))
    mine, each = evaluate(log, policy), []
    for given in itertools.product((0.0, 1.0), repeat=3):
        rewards = whole.rewards.copy()
        rewards[out] = given
        # Known when it is too late for predictions.
        each.append(evaluate(replace(log, rewards=rewards, known=np.where(out, 9, log.known)), policy))
    for name in ("value", "over_best"):
        lows, highs = ([getattr(getattr(one, name), end) for one in each] for end in ("low", "high"))
        assert getattr(mine, name).low == pytest.approx(min(lows), abs=1e-9) or name != "value"
        assert getattr(mine, name).high == pytest.approx(max(highs), abs=1e-9) or name != "value"
        assert getattr(mine, name).low <= min(lows) + 1e-9
        assert getattr(mine, name).high >= max(highs) - 1e-9
        assert max(lows) > min(lows)
        assert getattr(mine, name).low <= getattr(mine, name).estimate <= getattr(mine, name).high


def test_centres_and_predictions_of_values_are_of_what_was_known():
    log = late(draw(900, seed=8), 0.0, delay=2)
    policies = trees()
    policy = policies.argmax(log.contexts, np.ones((900, 3)))
    # What is learnt after a round changes nothing in it: with one round to come, intervals are the same.
    then = log.as_of(3)
    rewards = then.rewards.copy()
    soon = evaluate(then, policy)
    rewards[then.awaited] = log.rewards[: len(then)][then.awaited]
    later = evaluate(replace(then, rewards=rewards, known=np.where(then.awaited, 3, then.known)), policy)
    assert later.value.low >= soon.value.low - 1e-12
    assert later.value.high <= soon.value.high + 1e-12
    made = certify(log, policies, epsilon=0.4)
    worth = measure_worth(made, log)
    assert worth is not None
    assert worth.value.low <= worth.value.estimate <= worth.value.high


def test_the_centre_of_a_round_is_of_what_was_known_before_it():
    log = late(draw(300, seed=16), 0.0, delay=2)
    weights, f = np.eye(3)[np.zeros(300, dtype=int)], np.full((300, 3), 0.5)
    counted = np.ones(300, dtype=bool)
    rows = RowWeighing(log, f, weights, Bets((1.0,), (0.3,) * ROUNDS), counted)
    found = _centres(rows, weights, log.rounds)
    scores = 0.5 + (log.actions == 0) * (log.rewards - 0.5) / log.played_propensities
    for number in range(ROUNDS):
        known = log.known <= number
        assert found[number] == pytest.approx(np.clip(scores[known].mean(), -1, 1) if known.any() else 0.0)


def test_drift_is_looked_for_where_all_rewards_are_in():
    rng = np.random.default_rng(9)
    whole = draw(6_000, seed=9, rounds=10)
    # Failures are told late: of the last rounds mostly successes are in.
    out = (whole.rounds >= 6) & (whole.rewards == 0) & (rng.random(6_000) < 0.9)
    log = replace(whole, rewards=np.where(out, np.nan, whole.rewards), known=np.where(out, NOT_IN, whole.rounds + 1))
    drift, ratio = look(log)
    assert not drift.alarm
    assert "6 rounds" in drift.describe()
    assert f"{int(out.sum()):,} rewards pending" in drift.describe()
    assert ratio.log_evidence == pytest.approx(look(whole)[1].log_evidence)
    # The same taken for the truth is an alarm, so that the difference is one.
    assert look(replace(log.rows_in(), known=None))[0].alarm
    rewards = np.where(np.arange(6_000) == 3, np.nan, log.rewards)
    first = replace(log, rewards=rewards, known=np.where(np.isnan(rewards), NOT_IN, log.rounds + 1))
    assert "rounds whose rewards are all in" in look(first)[0].describe()


def test_what_cannot_do_without_a_reward_says_so():
    log = late(draw(600, seed=10), 0.05)
    out = int(log.awaited.sum())
    with pytest.raises(InputError, match=f"{out} rewards of 600 still missing, and an approximate certificate needs"):
        certify_asymptotically(log, trees(), epsilon=0.3, delta=0.1, rng=0)
    with pytest.raises(InputError, match="a pilot needs all of them"):
        PilotEffects(log)
    assert PilotEffects(late(draw(600, seed=10), 0.0)).log.known is None


def test_means_of_actions_are_of_what_is_in():
    log = late(draw(600, seed=11), 0.2)
    arms = tried_arms(log, ("a", "b", "c"))
    for action, arm in enumerate(arms):
        own = log.actions == action
        assert (arm.rows, arm.awaited) == (own.sum(), (own & log.awaited).sum())
        assert arm.mean == pytest.approx(np.nanmean(log.rewards[own]))


def test_readers_read_what_was_written(tmp_path):
    log = replace(late(draw(300, seed=12), 0.1), reward_range=(-10.0, 40.0))
    log.write(tmp_path / "log.parquet")
    back = read_log(tmp_path / "log.parquet")[0]
    assert np.array_equal(back.rewards, log.rewards, equal_nan=True)
    assert back.known.tolist() == log.known.tolist()
    assert back.contexts.names == log.contexts.names
    one, other = (certify(each, trees(), epsilon=10.0) for each in (log, back))
    assert one.to_json() == other.to_json()
    # An empty cell of anybody else's file is an error, as ever.
    (tmp_path / "log.csv").write_text("age,action,reward,propensity\n1,0,,0.5\n2,1,1,0.5\n")
    with pytest.raises(InputError, match="missing value"):
        read_log(tmp_path / "log.csv")


def test_cell_means_never_see_what_is_not_in():
    log = late(draw(400, seed=13, ids=True), 0.3)
    predictions = predict_by_round(log, CellMeans())
    assert np.isfinite(predictions).all()
