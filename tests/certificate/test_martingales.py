"""The martingale itself: the mean of e^wealth of one expert, at the truth, is what the proof says, step by step.

Wrong claims are rare even where a proof is wrong, as many experts share δ, so that counting them would miss much. Here
all courses of a few rows are gone through with their probabilities, whoever chose propensities, predictions and leaders
by what came before: the mean is computed, not sampled. A bet that knows the row it bets on has another mean, and each
test shows that for its path.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from pacbandits.certificate import Bets, Ledger
from pacbandits.certificate.intervals import _centres
from pacbandits.certificate.leaders import MIXTURE_MOVING, SINGLE_MOVING
from pacbandits.certificate.stakes import Stakes
from pacbandits.certificate.summed.survey import survey
from pacbandits.certificate.survey import LogInMemory
from pacbandits.certificate.worth import Decided, Kind
from pacbandits.compiled import using_cores
from pacbandits.engines import LogSource
from pacbandits.policies.trees.tree_policy import TreePolicy
from pacbandits.records import Contexts, Log
from pacbandits.rewards import predict_by_round
from tests.certificate import plain
from tests.certificate.boundary import Past, Played, after_rows, chase, contrary, even, sure_of_itself
from tests.certificate.summed.cases import THREADS, ActionMeans
from tests.certificate.test_led_ville import game_of, in_turn, luckiest, spoiler, wealth_of
from tests.certificate.test_watching_validity import MEANS, WEIGHTS, every_log

STAKES = (0.25, 0.1)  # so small that every row leaves room to bet


@pytest.fixture(autouse=True)
def _one_core():
    with using_cores(1):
        yield


# Leaders, and weight that moves between them.


def every_course(game, *, rows):
    """All courses of so many rows of a game, and their probabilities."""
    pair = game.pair
    n_contexts, n_actions = pair.means.shape
    outcomes = np.array(list(product(range(n_contexts), range(n_actions), range(2))))
    which = np.array(list(product(range(len(outcomes)), repeat=rows)))
    contexts, actions, rewards = (outcomes[which, i] for i in range(3))
    runs, every = len(which), np.arange(len(which))
    past = Past(np.zeros((runs, n_contexts, n_actions)), np.zeros((runs, n_contexts, n_actions)), np.zeros(runs))
    propensities, predictions = np.zeros((2, runs, rows, n_actions))
    number, leader, fresh = np.zeros(runs, dtype=int), np.zeros(runs, dtype=int), np.ones(runs, dtype=bool)
    leaders, rounds, chances = np.zeros((runs, rows), dtype=int), np.zeros((runs, rows), dtype=int), np.ones(runs)
    for i in range(rows):
        here, action, reward = contexts[:, i], actions[:, i], rewards[:, i].astype(float)
        leader = np.where(fresh, game.lead(past, None), leader)
        leaders[:, i], rounds[:, i] = leader, number
        propensities[:, i] = game.logging(past, None)[every, here]
        predictions[:, i] = game.predict(past, None)[every, here]
        mean = pair.means[here, action]
        chances *= pair.weights[here] * propensities[every, i, action] * np.where(reward == 1, mean, 1 - mean)
        past.totals[every, here, action] += reward
        past.counts[every, here, action] += 1
        past = Past(past.totals, past.counts, reward)
        fresh = game.ends(past)
        number = number + fresh
    whole = runs * rows
    log = Log.of(
        Contexts.of(contexts.reshape(whole)[:, None].astype(float)),
        actions=actions.reshape(whole),
        rewards=rewards.reshape(whole).astype(float),
        propensities=propensities.reshape(whole, -1),
        rounds=rounds.reshape(whole),
    )
    made = Played(log, contexts.reshape(whole), predictions.reshape(whole, -1), runs, leaders.reshape(whole))
    assert chances.sum() == pytest.approx(1.0)
    return made, chances


LED = {
    "luckiest": (luckiest, even, sure_of_itself, (0.45, 0.05, 0.2)),
    "spoiler": (spoiler, chase, contrary, (0.3,)),
    "in turn": (in_turn, chase, sure_of_itself, (0.2, 0.45)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("moving", [MIXTURE_MOVING, SINGLE_MOVING, 0.0])
@pytest.mark.parametrize("name", LED)
def test_bets_on_leaders_are_fair_at_every_step(name, moving):
    lead, logging, predict, scales = LED[name]
    game = game_of(lead, logging, predict=predict, ends=after_rows(1), scales=scales)
    played, chances = every_course(game, rows=3)
    found = wealth_of(game, played, moving=moving)
    np.testing.assert_allclose(np.exp(found.bounded).transpose(0, 2, 1) @ chances, 1.0, rtol=1e-9)
    # Leaders that know their own row: the one who would be chosen after it.
    of_rows = played.leaders.reshape(-1, 3)
    after = (np.array([played.log.rewards.reshape(-1, 3)]) > 0)[0] * 3  # the best leads where a reward came
    foreseen = Played(played.log, played.contexts, played.predictions, played.runs, after.reshape(-1))
    assert (after != of_rows).any()
    found = wealth_of(game, foreseen, moving=moving)
    assert not np.allclose(np.exp(found.bounded).transpose(0, 2, 1) @ chances, 1.0, rtol=1e-3)


# Values and gains, in memory and by sums, with predictions and centres of the rounds before.


POLICIES = (TreePolicy(0, 2), TreePolicy(1, 2))
VALUES = {truth: WEIGHTS @ means for truth, means in MEANS.items()}


def decided_by_past(log, *, foreseen=0):
    """Weight (rounds, 2) at the actions, by the rewards before each round; foreseen: or of so many rounds more."""
    earned = np.cumsum(np.where(log.actions == 0, log.rewards, -log.rewards))
    before = np.concatenate([[0.0], earned])[foreseen : foreseen + len(log)]
    moved = np.where(before > 0, 1.3, np.where(before < 0, -0.2, 0.5))
    return Decided(POLICIES, np.column_stack([moved, 1 - moved]), np.ones(len(log), dtype=bool))


def mean_wealth(rule, truth, *, rows, kind, sign, by_sums=False, foreseen=0):
    """The mean (K,) of e^wealth at the truth, less what is known of it before each round."""
    out = 0.0
    for chance, log in every_log(rule, truth, rows=rows, rounds=True):
        stakes = Stakes(Bets(STAKES, (1.0,) * rows), (0.5, 0.5))
        decided = decided_by_past(log, foreseen=foreseen)
        memory = LogInMemory.arranged(log, ordered=False, shuffle=False)
        weighed = memory.weigh(decided, stakes, ActionMeans())
        centres = sign * _centres(weighed._of(kind), weighed._of(kind).weights, np.arange(rows))
        if by_sums:
            source = survey(LogSource(log), engine=THREADS, spec=None, ordered=False, shuffle=False, digested=False)
            found = source.weigh(decided, stakes, ActionMeans()).wealth(kind, sign=sign)
        else:
            found = weighed.wealth(kind, sign=sign)
        means = decided.shares @ VALUES[truth] - (0.0 if kind.against is None else VALUES[truth][kind.against])
        staked = np.array([stakes.bets.stakes(k) for k in range(2)])
        due = (np.log1p(staked * (sign * means - centres)) + staked * centres).sum(axis=1)
        out = out + chance * np.exp(found.wealth - due)
    return out


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rule", "truth", "kind", "sign"),
    [
        ("chase", "plain", Kind(), 1.0),
        ("stop", "sure", Kind(), -1.0),
        ("chase", "sure", Kind(against=0), 1.0),
        ("rare", "plain", Kind(against=1), -1.0),
    ],
)
def test_bets_on_values_and_gains_are_fair_at_every_step(rule, truth, kind, sign):
    for rows in (1, 2, 3):
        np.testing.assert_allclose(mean_wealth(rule, truth, rows=rows, kind=kind, sign=sign), 1.0, rtol=1e-9)
    knowing = mean_wealth(rule, truth, rows=2, kind=kind, sign=sign, foreseen=1)
    assert not np.allclose(knowing, 1.0, rtol=1e-3)


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "sign"), [(Kind(), 1.0), (Kind(against=0), 1.0), (Kind(against=0), -1.0)])
def test_bets_by_sums_are_fair_but_for_what_is_rounded_down(kind, sign):
    found = mean_wealth("chase", "plain", rows=2, kind=kind, sign=sign, by_sums=True)
    assert (found <= 1.0).all()
    np.testing.assert_allclose(found, 1.0, rtol=1e-6)
    knowing = mean_wealth("chase", "plain", rows=2, kind=kind, sign=sign, by_sums=True, foreseen=1)
    assert not np.allclose(knowing, 1.0, rtol=1e-3)


# Units.


def returning(log, visits):
    """The log of people who each come so often, to the same end."""
    rows = np.repeat(np.arange(len(log)), visits)
    again = log.take(rows)
    return Log.of(
        again.contexts, actions=again.actions, rewards=again.rewards, propensities=again.propensities, units=rows
    )


@pytest.mark.parametrize("visits", [1, 3])
def test_people_who_return_to_the_same_end_are_worth_one_row_each(visits):
    """The geometric mean of equal factors is one of them: the mean wealth is exactly that of one visit."""
    rival, reference = 0, 1
    lead = float(VALUES["plain"] @ [1.0, -1.0])
    assert lead > 0
    for stake in STAKES:
        fair = counted = 0.0
        for chance, log in every_log("rare", "plain", rows=2):
            people = returning(log, visits)
            ledger = Ledger.of(people, np.full((len(people), 2), 0.5))
            actions = np.full(len(people), reference)
            wealth = plain.wealth_against(ledger, actions, bets=[stake], share=0.9, epsilon=lead)[:, rival]
            fair += chance * np.exp(wealth.sum())
            counted += chance * np.exp(visits * wealth.sum())  # each visit as a person
        assert fair == pytest.approx(1.0, rel=1e-9)
        assert visits == 1 or counted > 1.0 + 1e-3


# Late rewards.


@pytest.mark.thorough
def test_bets_are_fair_where_rewards_are_late():
    """Predictions are by the rewards that had come before a round; failures of one action come two rounds later."""
    lead = float(VALUES["plain"] @ [1.0, -1.0])
    fair, knowing = np.zeros(3), 0.0
    for chance, log in every_log("chase", "plain", rows=3, rounds=True):
        late = np.where((log.actions == 1) & (log.rewards == 0), 2, 0)
        told = replace(log, known=log.rounds + 1 + late)
        again = ActionMeans().fit(log).predict(log.contexts)  # by all that came in the end
        wealth = [
            plain.wealth_against(Ledger.of(log, one), np.ones(3, dtype=int), bets=[0.4] * 3, share=0.9, epsilon=lead)
            for one in (predict_by_round(told, ActionMeans()), again)
        ]
        fair += chance * np.exp(np.cumsum(wealth[0][:, 0]))
        knowing += chance * np.exp(wealth[1][:, 0].sum())
    np.testing.assert_allclose(fair, 1.0, rtol=1e-9)
    assert abs(knowing - 1.0) > 1e-3
