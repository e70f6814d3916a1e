"""What a round of a large log is scored by was fixed before it, and its wealth is rounded down."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pacbandits.certificate import Ledger
from pacbandits.certificate.certificate import leaders_to_json
from pacbandits.certificate.certify import certify
from pacbandits.certificate.choosing import lead_after
from pacbandits.certificate.learning import LearntClass
from pacbandits.certificate.ledger import alone
from pacbandits.certificate.summed.ledger import SummedLedger, WealthSums
from pacbandits.certificate.summed.limits import RowLimits
from pacbandits.certificate.summed.survey import lay_out, survey
from pacbandits.engines import LogSource
from pacbandits.policies import Trees, Trivial
from pacbandits.policies.summation import summing
from pacbandits.rewards import first_model
from tests.certificate import plain
from tests.certificate.boundary import RARE, evidence_of_growth
from tests.certificate.summed.cases import (
    QUICK,
    SMALL,
    THREADS,
    Scattered,
    log_of_people,
    people,
    played_alone,
    rechecked,
)

N = 4000
ROUNDS = np.arange(N) // 250
TREES = Trees.learn(people(200, 99), n_actions=3, bins=3)


def laid_out(log, *, model=None, single=False, limits=SMALL, engine=THREADS, **order):
    """A log laid out for a class that was fixed before."""
    asked = {"ordered": False, "shuffle": False, **order}
    surveyed = survey(LogSource(log), engine=engine, spec=None, limits=limits, **asked)
    learnt = LearntClass(TREES, None)
    return surveyed, lay_out(surveyed, learnt, engine=engine, model=model or QUICK["model"], single=single)


def rounds_of(surveyed, log):
    return surveyed.arrangement.rounds_of(0, log)


ORDERS = {
    "rounds": (lambda: log_of_people(N, 1, gap=0.1, rounds=ROUNDS), {}),
    "rounds, mixed": (
        lambda: log_of_people(N, 1, gap=0.1, rounds=np.random.default_rng(1).permutation(ROUNDS)),
        {},
    ),
    "in order": (lambda: log_of_people(N, 1, gap=0.1), {"ordered": True}),
    "in order, a single policy": (lambda: log_of_people(N, 2, gap=0.1), {"ordered": True, "single": True}),
    "shuffled": (lambda: log_of_people(N, 5, gap=0.1, fixed=True), {}),
    "played alone": (lambda: played_alone(log_of_people(N, 1, gap=0.1, rounds=ROUNDS), 0.01), {}),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ORDERS)
def test_leaders_and_models_are_of_earlier_rounds_alone(name):
    """Whatever becomes of the rows of a round and all later ones, who leads in it and what is predicted stays."""
    log, order = ORDERS[name][0](), {**ORDERS[name][1], "by_content": False}  # or other rewards are another order
    surveyed, laid = laid_out(log, **order)
    assert laid.leaders is not None
    rounds = rounds_of(surveyed, log)
    everywhere = people(50, 7)
    led = [turn for turn in laid.leaders.turns if turn >= 0]
    assert len(set(led)) > 1
    for t in np.unique(rounds)[2::3].tolist():
        rows = np.flatnonzero(rounds >= t)
        changed = log.rewards.copy()
        changed[rows] = (log.actions[rows] == 2).astype(float)  # as if the third action were the best by far
        mine = laid_out(replace(log, rewards=changed), **order)[1]
        assert mine.leaders is not None
        for number in range(t + 1):
            one, two = laid.leaders.turns[number], mine.leaders.turns[number]
            assert (one < 0) == (two < 0)
            if one >= 0:
                assert laid.leaders.policies[one].to_json() == mine.leaders.policies[two].to_json(), (t, number)
            fits = [x.ledger.setting.predict(everywhere, np.full(50, number), n_actions=3) for x in (laid, mine)]
            np.testing.assert_array_equal(*fits)
    # And they are not fixed for good.
    whole = laid_out(replace(log, rewards=(log.actions == 2).astype(float)), **order)[1].leaders
    assert whole is not None
    assert leaders_to_json(whole) != leaders_to_json(laid.leaders)


@pytest.mark.parametrize("name", ["rounds", "shuffled", "played alone"])
def test_late_leaders_are_about_those_of_all_rows_in_memory(name):
    """Chosen by passes over rows, with the rows before: nearly as good by these rows as who is chosen in memory."""
    log, order = ORDERS[name][0](), ORDERS[name][1]
    surveyed, laid = laid_out(log, **order)
    rounds, leaders = rounds_of(surveyed, log), laid.leaders
    assert leaders is not None
    turns = np.array(leaders.turns)
    changes = [t for t in range(1, len(turns)) if turns[t] != turns[t - 1] and turns[t - 1] >= 0]
    late = [t for t in changes if (rounds < t).sum() > SMALL.early]
    assert late
    for t in late:
        rows = np.flatnonzero(rounds < t)
        predictions = laid.ledger.setting.predict(log.contexts.take(rows), rounds[rows], n_actions=3)
        part = replace(log.take(rows), rounds=rounds[rows])
        ledger = Ledger.of(part, predictions)
        single = order.get("single", False)
        before = leaders.policies[turns[t - 1]]
        theirs = lead_after(part, predictions, TREES, before, single=single, simple=leaders.settled is not None)
        values = ledger.values(np.ones(ledger.n_rounds)) / len(rows)
        mine, best, old = (
            float(values[np.arange(len(rows)), policy(part.contexts)].sum())
            for policy in (leaders.policies[turns[t]], theirs, before)
        )
        assert mine > old - 1e-3
        assert mine > best - 0.02


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ORDERS)
def test_certificates_of_large_logs_are_found_again(name):
    log, order = ORDERS[name][0](), ORDERS[name][1]
    found = certify(LogSource(log), TREES, engine=THREADS, limits=SMALL, **QUICK, **order)
    assert found.certified
    verdict = rechecked(found, LogSource(log), TREES, Scattered(2), limits=SMALL, **QUICK)
    assert verdict.faults == ()
    assert rechecked(found, LogSource(log), TREES, limits=RowLimits(early=1200), **QUICK).faults != ()


def test_passes_over_rows_are_few():
    """One reading, two for each late leader, and one for all experts: reading is what takes longest."""
    log = log_of_people(N, 3, gap=0.1, fixed=True)
    asked = []

    class Counted(Scattered):
        def ask(self, source, question, *, what):
            asked.append(what)
            return super().ask(source, question, what=what)

    certify(LogSource(log), TREES, engine=Counted(1), limits=SMALL, **QUICK)
    assert len(asked) <= 5, asked


@pytest.mark.first(3)
@pytest.mark.parametrize("name", ["rounds, mixed", "played alone"])
@pytest.mark.parametrize("before", [1, 7, 16])
def test_gaps_are_those_of_the_rows_before(name, before):
    """By the definition, row by row; each row a context of its own."""
    log = ORDERS[name][0]()
    surveyed, laid = laid_out(log)
    rounds = rounds_of(surveyed, log)
    own = replace(log, contexts=replace(log.contexts, ids=np.arange(N)))
    every = SummedLedger(LogSource(own), THREADS, laid.ledger.setting, summing(Trivial(N, 3)), N)
    reference = TREES.argmax(log.contexts, np.random.default_rng(0).normal(size=(N, 3)))
    gaps, squares = every.gaps(reference, before=before)
    f = laid.ledger.setting.predict(log.contexts, rounds, n_actions=3)
    rows = np.arange(N)
    scores = f.copy()
    scores[rows, log.actions] += (log.rewards - f[rows, log.actions]) / log.played_propensities
    known = (scores[rows, reference(log.contexts)][:, None] - scores) * (rounds < before)[:, None]
    seen = (rounds < before).sum()
    np.testing.assert_allclose(gaps, known / seen, atol=2.0**-24 / seen)
    np.testing.assert_allclose(squares, known**2 / seen**2, atol=2.0**-16 / seen**2)
    parts = TREES.parts(reference, log.contexts)
    losses, errors = laid.ledger.part_gaps(TREES, reference, before=before, n_parts=8)
    for part in range(8):
        np.testing.assert_allclose(losses[part], gaps[parts == part].sum(axis=0), atol=1e-12)
        np.testing.assert_allclose(errors[part], squares[parts == part].sum(axis=0), atol=1e-12)


@pytest.mark.parametrize("bits", [36, 11])
def test_wealth_of_every_row_is_rounded_down(bits):
    """Against the definition, in exact arithmetic: never above it, and never a whole step below."""
    log = log_of_people(120, 1, rounds=np.arange(120) // 40, repeats=np.arange(120) % 3 + 1)
    surveyed, laid = laid_out(log)
    own = replace(log, contexts=replace(log.contexts, ids=np.arange(120)))
    setting = laid.ledger.setting
    policies = tuple(TREES.argmax(log.contexts, np.random.default_rng(k).normal(size=(120, 3))) for k in range(2))
    turns, moves = np.array([0, -1, 1]), np.array([[0.0, 0.0], [0.0, 0.0], [0.2, 0.0]])
    stakes = np.array([[0.4, 0.1, 0.2], [0.05, 0.0, 0.1]])
    asked = WealthSums(setting, summing(Trivial(120, 3)), policies, turns, moves, stakes, 0.9, 0.05, bits)
    sums = asked.begin()
    asked.add(0, own, sums)
    rounds = rounds_of(surveyed, log)
    predictions = setting.predict(log.contexts, rounds, n_actions=3)
    actions = np.array([policy(log.contexts) for policy in policies])
    step, near = Fraction(1, 2**bits), Fraction(1, 10**13)
    for k, bets in enumerate(stakes):
        exact = plain.led_wealth(
            log, predictions, actions=actions, turns=turns, moves=moves, bets=bets, share=0.9, epsilon=0.05
        )
        assert (exact[rounds == 1] == 0).all()
        below = 0
        for i in range(120):
            for a in range(3):
                made, known = int(sums[0][i, 3 * k + a]) * step, Fraction(float(exact[i, a]))
                assert known - step - near < made <= known + near
                below += made < known - step / 2
        assert below > 50  # as many as would be rounded up to the nearest


def test_a_union_bets_by_the_rows_that_are_not_spared():
    """Rows that taught have no part in wealth: it is the same whatever they earned."""
    log = log_of_people(700, 1)
    found, asked = [], {"engine": THREADS, "spec": "trees", "ordered": False, "shuffle": False}
    surveyed = survey(LogSource(log), **asked)
    taught = surveyed.arrangement.rounds_of(0, log) == 0
    assert taught.sum() == 256
    for reward in (0.0, 1.0):
        changed = replace(log, rewards=np.where(taught, reward, log.rewards))
        ledger = SummedLedger(LogSource(changed), THREADS, surveyed.setting(first_model(log)), summing(TREES), 700)
        policy = TREES.argmax(log.contexts, np.random.default_rng(0).normal(size=(700, 3)))
        against = ledger.against((policy,), *alone(2))
        made = certify(LogSource(changed), "trees:bins=3", engine=THREADS, epsilon=0.3)
        assert made.bets.spared == 1
        stakes = [made.bets.stakes(3)]
        found.append(ledger.log_wealths(against, stakes=stakes, share=0.9, epsilon=0.1)[0])
    np.testing.assert_array_equal(*found)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["rounds, mixed", "in order", "shuffled"])
def test_no_policy_is_ever_refuted_by_luck(how):
    """Where all actions are alike nobody leads anybody, and wealth against those who lead is 1 on average at ε = 0.

    Whoever leads on rows that chose it seems better than the rest there, and wealth against all others would grow.
    """
    grown = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        rounds = rng.permutation(np.arange(N) // 250) if how == "rounds, mixed" else None
        log = log_of_people(N, seed, fixed=how == "shuffled", rounds=rounds)
        log = replace(log, rewards=rng.integers(0, 2, N).astype(float))
        laid = laid_out(log, ordered=how == "in order")[1]
        assert laid.leaders is not None
        turns = np.array(laid.leaders.turns)
        moves = np.zeros((len(turns), len(laid.leaders.policies)))
        against = laid.ledger.against(laid.leaders.policies, turns, moves)
        (wealth,) = laid.ledger.log_wealths(against, stakes=[np.full(len(turns), 0.2)], share=0.9, epsilon=0.0)
        fixed = TREES.argmax(log.contexts, np.tile([1.0, 0.0, 0.0], (N, 1)))
        grown.append(laid.ledger.summing.policies.attained(laid.ledger.contexts, wealth, fixed))
    assert evidence_of_growth(np.array(grown)) < -np.log(RARE)
    assert np.std(grown) > 0.3  # or nothing would show


def test_rounds_before_which_nobody_leads_prove_nothing():
    log = log_of_people(150, 1, rounds=np.arange(150) // 50)
    found = certify(LogSource(log), TREES, engine=THREADS, epsilon=0.3, **QUICK)
    assert found.leaders is not None
    assert found.leaders.policies == ()
    assert not found.certified
    assert rechecked(found, LogSource(log), TREES, **QUICK).good
