"""The leaders of rounds: how weight moves between them, what is certified of them, and what is found out."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pacbandits as pb
from pacbandits.certificate import (
    Bets,
    Certificate,
    Evidence,
    Leaders,
    Ledger,
    make_certificate,
    worth_leading,
)
from pacbandits.certificate.certificate import leaders_to_json
from pacbandits.certificate.conventions import (
    MIN_NATS_WORTH_LEADING,
    block_ends,
    delta_part,
    sizes_beforehand,
)
from pacbandits.certificate.leaders import MAX_SLACK, MIN_MIXTURE_WEIGHT, MIXTURE_MOVING, NOBODY, SINGLE_MOVING
from pacbandits.certificate.ledger import Against, choose, plan_moves
from pacbandits.compiled import using_cores
from pacbandits.confidence import LEADERS_PART, UNION_PART, start_part
from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts
from pacbandits.rewards import CellMeans, predict_by_round
from pacbandits.trials.coda import Coda, Uniform
from pacbandits.trials.trial import EXPERT_MULTIPLIERS
from pacbandits.verifier import recompute as verify
from tests.certificate import plain
from tests.certificate.boundary import most
from tests.certificate.test_search import ArgmaxOnly, FrontierOnly
from tests.examples import examples
from tests.instances import seeds

EPSILON = 0.3
FEW = 12
TREES = "trees:contexts=300,features=3,bins=8,actions=6,competitive=2"


class Counted(Finite):
    """A class that is counted as if it were so large that leaders take the place of a union."""

    def __init__(self, table, *, n_actions):
        super().__init__(table, n_actions=n_actions)
        self.log_size = MIN_NATS_WORTH_LEADING


A, B, C = (Finite([actions], n_actions=2).policy(0) for actions in ([0, 0, 1], [0, 1, 1], [1, 1, 1]))


def moved(turns, *, counts, moving, sizes=None, units=None):
    """Moves (rounds, L) and weights (L,) of leaders A, B and C."""
    leaders = Leaders((A, B, C), tuple(turns), tuple(counts if sizes is None else sizes), moving)
    units = np.ones(len(turns)) if units is None else np.array(units, dtype=float)
    return plan_moves(leaders, units=units, counts=np.array(counts, dtype=float))


def test_without_moving_weights_are_what_was_staked():
    moves, weights = moved([0, 1, 0, 2], counts=[10, 20, 5, 1], moving=0.0, units=[1, 2, 1, 10])
    assert not moves.any()
    assert np.array_equal(weights, [15, 40, 10])


def test_weight_moves_from_who_has_not_led_for_longest():
    """By hand. Round 2 moves 0.5 · 10 from A; round 3 takes the 5 that A has left, and of B none but 0.5 · 12 − 5."""
    moves, weights = moved([0, 1, 2], counts=[10, 10, 12], moving=0.5)
    np.testing.assert_allclose(moves, [[0, 0, 0], [0.5, 0, 0], [5 / 12, 1 / 12, 0]])
    # B: 10 · 1.5 − 1 = 14; C: 12 + 6.
    np.testing.assert_allclose(weights, [0, 14, 18], atol=1e-12)


def test_who_leads_again_is_not_the_oldest_and_loses_nothing_to_itself():
    """A leads again in round 3, so that B is who has not led for longest when C comes."""
    moves, weights = moved([0, 1, 0, 2], counts=[10, 10, 10, 4], moving=0.5)
    np.testing.assert_allclose(moves[2], [0, 0.5, 0])  # B had 15, and loses 5 of it
    np.testing.assert_allclose(moves[3], [0, 0.5, 0])
    np.testing.assert_allclose(weights, [5 + 15, 15 - 5 - 2, 4 + 2])


def test_a_single_policy_remains_where_all_weight_moves():
    moves, weights = moved([0, 1, 2, 2, 2], counts=[10, 10, 10, 10, 10], moving=1.0)
    np.testing.assert_allclose(weights, [0, 0, 50], atol=1e-12)
    np.testing.assert_allclose(moves.sum(axis=1), [0, 1, 1, 1, 0])


def test_where_nobody_leads_or_stakes_nothing_happens():
    moves, weights = moved([NOBODY, 0, 1, 2], counts=[7, 10, 10, 10], moving=1.0, units=[1, 1, 0, 1])
    assert not moves[[0, 1, 2]].any()
    np.testing.assert_allclose(weights, [0, 0, 20], atol=1e-12)


def test_more_rows_than_planned_take_more_than_there_was():
    """How much a row moves is fixed by the planned size: four times as many rows take four times as much."""
    moves, weights = moved([0, 1], counts=[10, 40], sizes=[10, 10], moving=0.5)
    np.testing.assert_allclose(moves[1], [0.5, 0, 0])
    np.testing.assert_allclose(weights, [10 - 20, 40 + 20, 0])
    fewer, weights = moved([0, 1], counts=[10, 4], sizes=[10, 10], moving=0.5)
    np.testing.assert_allclose(fewer, moves)
    np.testing.assert_allclose(weights, [10 - 2, 4 + 2, 0])


@given(
    st.lists(st.integers(NOBODY, 2), min_size=1, max_size=12),
    st.sampled_from([0.0, 0.2, MIXTURE_MOVING, 1.0]),
    st.randoms(use_true_random=False),
)
def test_weights_add_up_to_all_stakes_and_are_their_definition(turns, moving, random):
    """u_j = Σ_{t: q_t = q_j} λ_t(1 + c_t) − Σ_t λ_t c_tj, and Σ u = Σ λ, over rows."""
    counts = [random.randint(1, 30) for _ in turns]
    sizes = [random.choice([count, random.randint(1, 30)]) for count in counts]
    units = [random.choice([0.0, 0.1, 1.0, 0.37]) for _ in turns]
    moves, weights = moved(turns, counts=counts, sizes=sizes, units=units, moving=moving)
    earned = np.array(counts) * np.array(units) * (np.array(turns) != NOBODY)
    assert weights.sum() == pytest.approx(earned.sum(), abs=1e-9)
    wanted = -(earned[:, None] * moves).sum(axis=0)
    for turn, own, taken in zip(turns, earned, moves.sum(axis=1), strict=True):
        if turn != NOBODY:
            wanted[turn] += own * (1 + taken)
    np.testing.assert_allclose(weights, wanted, atol=1e-9)
    assert (moves >= 0).all()
    assert (moves.sum(axis=1) <= moving + 1e-12).all()
    if sizes == counts:
        assert (weights >= -1e-9).all()


@given(st.lists(st.integers(0, 2), min_size=2, max_size=8), st.integers(0, 2**20))
def test_what_a_round_moves_is_fixed_before_it(turns, seed):
    """Neither who leads later nor how many rows this round and later ones have changes it."""
    rng = np.random.default_rng(seed)
    counts, other = rng.integers(1, 40, size=(2, len(turns)))
    sizes = rng.integers(1, 40, size=len(turns)).tolist()
    t = int(rng.integers(len(turns)))
    changed = np.where(np.arange(len(turns)) < t, counts, other)
    later = [*turns[: t + 1], *rng.integers(0, 3, size=len(turns) - t - 1).tolist()]
    one, _ = moved(turns, counts=counts.tolist(), sizes=sizes, moving=0.7)
    two, _ = moved(later, counts=changed.tolist(), sizes=sizes, moving=0.7)
    assert np.array_equal(one[: t + 1], two[: t + 1])


def picked(weights, *, moving=MIXTURE_MOVING):
    leaders = Leaders((A, B, C), (0, 1, 2), (1, 1, 1), moving)
    return choose(leaders, np.array(weights, dtype=float))


def test_the_mixture_is_of_those_who_have_weight():
    chosen, slack = picked([1, 0, 3])
    assert (chosen.policies, chosen.weights, slack) == ((A, C), (0.25, 0.75), 0)
    assert picked([0, 5, 0]) == (B, 0)
    chosen, slack = picked([MIN_MIXTURE_WEIGHT / 2, 0.5, 0.5])
    assert chosen.policies == (B, C)
    assert slack == pytest.approx(MIN_MIXTURE_WEIGHT / 2, rel=1e-3)


def test_who_has_less_than_nothing_costs_what_the_others_have_too_much():
    """Weights −0.2, 0.9, 0.3 of Λ = 1: the two kept have 1.2 together, and a value of 1 would be counted 1.2 times."""
    chosen, slack = picked([-2, 9, 3])
    assert chosen.policies == (B, C)
    np.testing.assert_allclose(chosen.weights, [0.75, 0.25])
    assert slack == pytest.approx(0.2)


def test_one_policy_costs_the_weight_of_the_others():
    assert picked([1, 8, 1], moving=SINGLE_MOVING) == (B, pytest.approx(0.2))
    assert picked([0, 8, 0], moving=SINGLE_MOVING) == (B, 0)
    # −0.1, 0.9 and 0.2: what is dropped and positive costs; what was taken too often is in what is left.
    assert picked([-1, 9, 2], moving=SINGLE_MOVING) == (B, pytest.approx(0.2))
    assert picked([-1, 11, 0], moving=SINGLE_MOVING) == (B, pytest.approx(0.1))


@given(st.lists(st.floats(-1, 5), min_size=3, max_size=3), st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_the_slack_covers_what_any_values_make_of_it(weights, values):
    """Σ (u_j/Λ) V_j ≤ V(chosen) + slack, for values in [0, 1]: so ε + slack bounds what is chosen."""
    if sum(weights) < 0.1:
        return
    by_policy = dict(zip((A, B, C), values, strict=True))
    for moving in (MIXTURE_MOVING, SINGLE_MOVING):
        chosen, slack = picked(weights, moving=moving)
        parts = zip(chosen.policies, chosen.weights, strict=True) if isinstance(chosen, pb.Mixture) else [(chosen, 1)]
        mine = sum(weight * by_policy[policy] for policy, weight in parts)
        whole = sum(u * v for u, v in zip(weights, values, strict=True)) / sum(weights)
        assert whole <= mine + slack + 1e-9


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (((A,), (0, 1), (1, 1)), "one of 1 leaders must lead in each round"),
        (((A,), (0, -2), (1, 1)), "one of 1 leaders must lead in each round"),
        (((A,), (0,), (1, 1)), "a planned size"),
        (((A,), (0,), (0,)), "a planned size, 1 or more"),
        (((A,), (0,), (1,), 1.1), "from 0 to 1, got 1.1"),
        (((A,), (0,), (1,), -0.1), "from 0 to 1, got -0.1"),
        (((A,), (0,), (1,), math.nan), "from 0 to 1, got nan"),
    ],
)
def test_what_leaders_refuse(given, words):
    with pytest.raises(InputError, match=words):
        Leaders(*given)


def test_leaders_that_act_alike_are_one():
    contexts, known = Contexts.finite(3), Contexts.finite(3).take(np.array([0, 2]))
    same = Finite([[0, 0, 1]], n_actions=2).policy(0)
    led = Leaders().followed_by(None, contexts, size=5).followed_by(A, contexts, size=6)
    led = led.followed_by(same, contexts, size=7).followed_by(B, contexts, size=8).followed_by(same, contexts, size=9)
    assert led.turns == (NOBODY, 0, 0, 1, 0)
    assert led.sizes == (5, 6, 7, 8, 9)
    assert led.policies == (A, B)
    assert led.last is A
    # Where the context in which they differ is not known yet, the first stands for both.
    assert Leaders().followed_by(A, known, size=1).followed_by(B, known, size=1).policies == (A,)


def test_planned_sizes_follow_from_what_came_before():
    log, _ = plain.draw_log(3)
    n = 700
    long = log.take(np.zeros(n, dtype=int))
    ends = block_ends(n)
    assert sizes_beforehand(replace(long, rounds=np.zeros(n, dtype=int)), in_order=True) == tuple(
        np.diff(ends, prepend=0).tolist()
    )
    rounds = np.repeat([0, 3, 9], [100, 350, 250])
    counted = replace(long, rounds=rounds, repeats=np.where(rounds == 0, 2, 1))
    assert sizes_beforehand(counted, in_order=False) == (1, 200, 550)


@examples(120)
@given(seeds, st.booleans())
def test_the_kernel_is_its_definition(seed, ids):
    """Leaders with and without moves, rounds that nobody leads, repeats, rare actions and those never played."""
    log, predictions = plain.draw_log(seed, ids=ids)
    rng = np.random.default_rng(seed + 1)
    ledger = Ledger.of(log, predictions)
    count, rounds, m = int(rng.integers(1, 4)), ledger.n_rounds, len(ledger.contexts)
    actions = rng.integers(log.n_actions, size=(count, m))
    turns = rng.integers(NOBODY, count, size=rounds)
    moves = rng.dirichlet(np.ones(count), size=rounds) * rng.choice([0.0, 0.35, 1.0], size=(rounds, 1))
    bets, share = plain.draw_bets(rng, rounds, most=0.49)
    epsilon = float(rng.choice([0.0, 0.1]))
    got = ledger.log_wealth(Against(actions, turns, moves), bets=bets, share=share, epsilon=epsilon)
    which = np.unique(log.contexts.ids, return_inverse=True)[1] if ids else np.arange(len(log))
    rows = plain.led_wealth(
        log,
        predictions,
        actions=actions[:, which],
        turns=turns,
        moves=moves,
        bets=bets,
        share=share,
        epsilon=epsilon,
    )
    wanted = np.zeros_like(got)
    np.add.at(wanted, which, rows)
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-10)


@examples(100)
@given(seeds, st.sampled_from([1e-2, 1e-6, 1e-12]), st.sampled_from([0.35, 1.0]))
def test_no_row_that_moves_weight_can_ruin_an_expert(seed, least, moving):
    """λZ is at most the share, or what stakes and moves come to without a cap; for all outcomes."""
    rng = np.random.default_rng(seed)
    n, a, stake = 2, int(rng.integers(2, 5)), float(rng.choice([0.45, 0.2, 0.01]))
    propensities = plain.draw_propensities(rng, (n, a), least=least, zeros=bool(rng.integers(2)))
    log, which = plain.every_outcome(propensities, rewards=(0.0, 1.0, float(rng.random())))
    ledger = Ledger.of(log, plain.draw_predictions(rng, (n, a))[which])
    actions = rng.integers(a, size=(4, len(log)))
    moves = moving * rng.dirichlet([0.3, 0.3, 0.3], size=1)
    against = Against(actions, np.zeros(1, dtype=int), np.concatenate([[[0.0]], moves], axis=1))
    wealth = ledger.log_wealth(against, bets=np.array([stake]), share=0.9, epsilon=0.0)
    assert np.isfinite(wealth).all()
    assert np.exp(wealth).min() >= 1 - max(0.9, stake * (1 + moving)) - 1e-6


@dataclass(frozen=True, eq=False)
class Case:
    """A log of rounds, a class, and what leads in them."""

    log: pb.Log
    policies: object
    leaders: Leaders
    bets: Bets

    def evidence(self, *, epsilon=0.2, delta=0.2, **options):
        ledger = Ledger.of(self.log, predict_by_round(self.log, CellMeans()))
        given = {"model": CellMeans().to_json(), "leaders": self.leaders, **options}
        return Evidence(self.log, ledger, self.policies, self.bets, epsilon, delta, **given)

    def certificate(self, **options):
        evidence = self.evidence(**options)
        return make_certificate(evidence, self.policies.argmax(self.log.contexts, np.zeros((len(self.log), 3))))[0]


def draw_case(seed, *, kind=lambda x: x, samples=400):
    """Leaders drawn at random of a class of 12, rounds that are longer or shorter than planned."""
    rng = np.random.default_rng(seed)
    problem = pb.load_problem("random:policies=12,contexts=5,actions=3,skew=1,seed=3")
    counted = Counted(problem.policies.table, n_actions=3)
    log, rounds = None, int(rng.integers(2, 7))
    for number in range(rounds):
        size = int(rng.integers(1, 2 * samples))
        new = problem.interact(pb.Design.uniform(problem.best_policy()), samples=size, rng=rng, round_number=number)
        log = new if log is None else log.followed_by(new)
    counts = np.bincount(log.rounds, weights=log.repeats).astype(int)
    leaders = Leaders(moving=float(rng.choice([0.0, MIXTURE_MOVING, SINGLE_MOVING])))
    for number in range(rounds):
        best = int(rng.choice([11, *range(12)]))
        policy = None if number == 0 and rng.random() < 0.7 else counted.policy(best)
        size = int(counts[number]) if rng.random() < 0.7 else int(rng.integers(1, 2 * samples))
        leaders = leaders.followed_by(policy, problem.population, size=size)
    bets = Bets((0.25, 0.5, 1.0, 2.0), tuple(rng.uniform(0.01, 0.5, size=rounds)))
    return Case(log, kind(counted), leaders, bets)


KINDS = {"listed": lambda x: x, "frontier": FrontierOnly, "argmax": ArgmaxOnly}


@examples(40)
@given(seeds, st.sampled_from(sorted(KINDS)))
def test_a_certificate_is_its_definition_and_verify_finds_the_same(seed, kind):
    """Σ log(1 − λZ) + λ(ε − slack) over all rows that had a leader, of the mean of experts, and the least policy."""
    case = draw_case(seed, kind=KINDS[kind])
    made = case.certificate()
    assert verify(made, case.log, case.policies).faults == ()
    again = Certificate.from_json(json.loads(json.dumps(made.to_json(), allow_nan=False)))
    assert again.to_json() == made.to_json()
    _, rounds = np.unique(case.log.rounds, return_inverse=True)
    counts = np.bincount(rounds, weights=case.log.repeats)
    assert made.leaders.start in case.leaders.starts(counts)
    leaders = replace(case.leaders, start=made.leaders.start)
    moves, weights = plan_moves(leaders, units=case.bets.units, counts=counts)
    if not weights.any():
        assert (made.value, made.certified_epsilon) == (pytest.approx(0, abs=1e-9), 1)
        return
    chosen, slack = choose(leaders, weights)
    assert made.slack == slack
    assert made.policy.to_json() == chosen.to_json()
    assert made.threshold == pytest.approx(-math.log(0.2 * leaders.part(counts)))
    table = Finite(case.policies.table if kind == "listed" else load().table, n_actions=3).actions(case.log.contexts)
    rows = np.arange(len(case.log))
    led = np.array(leaders.counted)[rounds] != NOBODY

    def value(epsilon):
        each = []
        for k in made.experts:
            factors = plain.led_wealth(
                case.log,
                predict_by_round(case.log, CellMeans()),
                actions=np.array([policy(case.log.contexts) for policy in leaders.policies]),
                turns=leaders.counted,
                moves=moves,
                bets=case.bets.stakes(k),
                share=case.bets.share,
                epsilon=0.0,
            )
            sure = epsilon * (case.bets.stakes(k)[rounds] * case.log.repeats * led).sum()
            each.append([factors[rows, one].sum() + sure for one in table])
        each, w = np.array(each), made.share
        if w is None:
            return np.logaddexp.reduce(each, axis=0).min() - math.log(4)
        spread = -w * math.log(w) - (1 - w) * math.log(1 - w)
        return (w * each[0] + (1 - w) * each[1]).min() + spread - math.log(4)

    claimable = slack <= MAX_SLACK
    assert made.value == pytest.approx(value(0.2 - slack * claimable), rel=1e-8, abs=1e-8)
    assert made.certified == (claimable and made.value >= made.threshold)
    if made.certified_epsilon < 1:
        assert claimable
        assert value(made.certified_epsilon - slack) >= made.threshold - 1e-8
        assert made.certified_epsilon < 1.2e-3 or value(made.certified_epsilon * 0.98 - slack) < made.threshold
    elif claimable:
        assert value(0.98 - slack) < made.threshold


def load():
    return pb.load_problem("random:policies=12,contexts=5,actions=3,skew=1,seed=3").policies


def crowd():
    """One policy is right, in the one context that matters; 256 others are errors, and differ where nothing matters."""
    lead = 1.05 * EPSILON / 0.6
    means = np.full((9, 2), 0.5)
    means[0] = 0.5 - lead / 2, 0.5 + lead / 2
    table = np.zeros((257, 9), dtype=int)
    table[:256, 1:] = (np.arange(256)[:, None] >> np.arange(8)) & 1
    table[256] = 1
    contexts = Contexts.finite(9, weights=[0.6, *[0.05] * 8])
    return Problem("crowd", "", contexts, means, Bernoulli(), Counted(table, n_actions=2))


def run(problem, kind, *, seed, delta, epsilon=EPSILON, most_rounds=60, **options):
    """The states of a trial, the last of them finished unless there were too many rounds."""
    rng = np.random.default_rng(seed)
    algorithm = kind(epsilon, delta, **options)
    states = [algorithm.start(problem.policies, problem.population)]
    while (plan := algorithm.design(states[-1])) is not None and len(states) <= most_rounds:
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng)
        states.append(algorithm.absorb(states[-1], plan, log))
    return states


@pytest.fixture
def one_core():
    """Problems this small are quicker without the pool; how work is cut changes no result."""
    with using_cores(1):
        yield


def count(kind, delta, *, runs, single):
    """In how many runs something false was claimed after any round, and how many ended with several leaders."""
    problem = crowd()
    best, wrong, several = problem.value(problem.best_policy()), 0, 0
    for seed in range(runs):
        states = run(problem, kind, seed=seed, delta=delta, pilot=8, growth=0.3, single=single)[1:]
        wrong += any(best - problem.value(one.policy) > one.certificate.certified_epsilon + 1e-12 for one in states)
        several += len(states[-1].leaders.policies) > 1
    return wrong, several


@pytest.mark.thorough
@pytest.mark.usefixtures("one_core")
@pytest.mark.parametrize(
    ("kind", "single"),
    [
        (Uniform, False),
        pytest.param(Coda, True, marks=pytest.mark.slow),
        pytest.param(Uniform, True, marks=pytest.mark.slow),
        pytest.param(Coda, False, marks=pytest.mark.slow),
    ],
)
def test_trials_do_not_err(kind, single):
    """At a δ of one in a million two errors are too many; leaders come and go."""
    wrong, several = count(kind, 1e-6, runs=FEW, single=single)
    assert wrong <= most(FEW, 1e-6) <= 1
    assert several > FEW / 4  # or nothing would be tested


@pytest.mark.slow
@pytest.mark.usefixtures("one_core")
@pytest.mark.parametrize(("delta", "runs"), [(0.3, 100), (1e-3, 200)])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("kind", [Uniform, Coda])
def test_errors_are_as_rare_as_delta_says_over_many_runs(kind, single, delta, runs):
    assert count(kind, delta, runs=runs, single=single)[0] <= most(runs, delta)


@pytest.fixture(scope="module")
def trial():
    """A run on trees with several leaders, and its states."""
    problem = pb.load_problem(TREES)
    states = run(problem, Uniform, seed=3, delta=0.05, epsilon=0.2)
    made = states[-1].certificate
    assert made.certified
    assert isinstance(made.policy, pb.Mixture)
    assert verify(made, states[-1].log, problem.policies).good
    return problem, states


@pytest.mark.thorough
def test_each_round_is_led_by_who_was_best_before_it(trial):
    _, states = trial
    for before, after in pairwise(states):
        led = after.leaders
        assert led.turns[:-1] == before.leaders.turns
        assert led.sizes[:-1] == before.leaders.sizes
        assert led.sizes[-1] == after.history[-1]["samples"]
        if before.leader is None:
            assert led.turns == (NOBODY,)
        else:
            here = before.contexts
            assert np.array_equal(led.policies[led.turns[-1]](here), before.leader(here))


def test_small_classes_do_without_leaders():
    problem = crowd()
    small = replace(problem, policies=Finite(problem.policies.table, n_actions=2))
    assert not worth_leading(small.policies)
    assert worth_leading(problem.policies)
    assert worth_leading(pb.load_problem("trees").policies)
    state = run(small, Uniform, seed=0, delta=0.05, pilot=30)[-1]
    assert state.leaders is None
    assert state.certificate.leaders is None


@pytest.mark.thorough
def test_what_is_proven_stays_proven(trial):
    """The best certificate so far stands, with the policy and the rows that it was proven by."""
    problem, states = trial
    best, kept = 1.0, 0
    for state in states[1:]:
        made = state.certificate
        assert made.certified_epsilon <= best
        kept += made.rows < len(state.log)
        best = made.certified_epsilon
        assert state.history[-1]["certified_epsilon"] == best
        assert state.policy is made.policy
    assert kept > 0  # or nothing would be tested
    older = next(state for state in states[1:] if state.certificate.rows < len(state.log))
    found = pb.verify(older.certificate, older.log, problem.policies)
    assert found.good
    assert any("the log has gone on since" in words for words in found.checked)
    shorter = older.log.take(np.arange(older.certificate.rows - 1))
    assert not pb.verify(older.certificate, shorter, problem.policies).good


@pytest.mark.thorough
def test_a_worse_certificate_never_replaces_a_better_one(trial):
    """Whatever comes: a state whose certificate proved more than the next round does keeps it."""
    problem, states = trial
    state = states[3]
    algorithm = Uniform(0.2, 0.05)
    boast = replace(state.certificate, certified_epsilon=1.01e-3)
    rich = replace(state, certificate=boast)
    plan = algorithm.design(rich)
    log = problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(0))
    after = algorithm.absorb(rich, plan, log)
    assert after.certificate is boast
    assert after.policy is boast.policy
    assert after.missing > 0


@pytest.mark.slow
def test_certificates_of_any_epsilon_hold_together(trial):
    """Whatever ε is asked for, leaders, stakes and what is certified are the same: there is no luck in asking."""
    problem, states = trial
    log = states[-1].log
    made = [pb.certify(log, problem.policies, epsilon=e, delta=0.05).certificate for e in (0.1, 0.3, 0.7)]
    assert len({json.dumps(leaders_to_json(one.leaders)) for one in made}) == 1
    assert len({json.dumps(one.policy.to_json()) for one in made}) == 1
    assert len({one.bets for one in made}) == 1
    for one in made:
        assert one.certified == (one.certified_epsilon <= one.epsilon)
        assert one.certified_epsilon < 1


@pytest.mark.thorough
def test_certify_has_two_proofs_that_share_delta(trial):
    """Of a large class; of a small one there is one, and it has all of it."""
    problem, states = trial
    log = states[-1].log
    flat = replace(log, rounds=np.zeros(len(log), dtype=int))
    assert pytest.approx(1) == LEADERS_PART + UNION_PART
    led = pb.certify(log, problem.policies, epsilon=0.2, delta=0.05).certificate
    union = pb.certify(flat, problem.policies, epsilon=0.2, delta=0.05).certificate
    assert led.threshold == pytest.approx(-math.log(LEADERS_PART * 0.05))
    assert union.threshold == pytest.approx(problem.policies.log_size - math.log(UNION_PART * 0.05))
    for one, seen in ((led, log), (union, flat)):
        assert pb.verify(one, seen, problem.policies).good
        greedy = replace(one, threshold=one.threshold + math.log(delta_part(problem.policies, led=one is led)))
        assert any("the threshold" in fault for fault in pb.verify(greedy, seen, problem.policies).faults)
    small = Finite([[0, 1], [1, 0]], n_actions=2)
    assert delta_part(small, led=False) == 1
    # What a trial proves needs one proof alone.
    assert states[-1].certificate.threshold == pytest.approx(-math.log(0.05))


def swapped(mixture):
    return pb.Mixture(mixture.policies, tuple(reversed(mixture.weights)))


def led_otherwise(c, **changes):
    return {"leaders": replace(c.leaders, **changes)}


FORGERIES = {
    "weights of the mixture": (lambda c: {"policy": swapped(c.policy)}, "not the mixture of the leaders"),
    "the likeliest in its place": (lambda c: {"policy": c.policy.likeliest}, "not the mixture of the leaders"),
    "slack": (lambda c: {"slack": c.slack + 0.01}, "the slack is"),
    "less slack": (lambda c: {"slack": -0.01}, "the slack is"),
    "moving": (lambda c: led_otherwise(c, moving=0.9 * c.leaders.moving), "not the mixture|log-wealth|slack"),
    "no moving": (lambda c: led_otherwise(c, moving=0.0), "not the mixture|log-wealth|slack"),
    "sizes": (
        lambda c: led_otherwise(c, sizes=tuple(2 * size for size in c.leaders.sizes)),
        "not the mixture|log-wealth|slack",
    ),
    "turns": (
        lambda c: led_otherwise(c, turns=(NOBODY, *reversed(c.leaders.turns[1:]))),
        "not the mixture|log-wealth|slack",
    ),
    "a leader of the first round": (
        lambda c: led_otherwise(c, turns=(0, *c.leaders.turns[1:])),
        "not the mixture|log-wealth|slack",
    ),
    "too few rounds": (
        lambda c: led_otherwise(c, turns=c.leaders.turns[:-1], sizes=c.leaders.sizes[:-1]),
        "there were leaders of",
    ),
    "no leaders": (lambda c: {"leaders": None}, "has leaders, and the certificate tells of none"),
    "leaders in another order": (
        lambda c: led_otherwise(c, policies=tuple(reversed(c.leaders.policies))),
        "not the mixture|log-wealth|slack",
    ),
    "an expert twice": (lambda c: {"experts": c.experts[:1] * 2, "share": None}, "names an expert twice"),
    "a share of one": (lambda c: {"experts": c.experts[:1], "share": 0.5}, "the weight of one of two experts"),
    "stakes that could be ruined": (
        lambda c: {
            "bets": replace(c.bets, share=0.999999999),
            "leaders": replace(c.leaders, moving=SINGLE_MOVING),
            "threshold": c.threshold - math.log(start_part(0)),
        },
        "log-wealth|mixture|slack",
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", FORGERIES)
def test_verify_refuses_every_forgery(trial, name):
    problem, states = trial
    log, made = states[-1].log, states[-1].certificate
    change, words = FORGERIES[name]
    found = verify(replace(made, **change(made)), log, problem.policies)
    assert not found.good
    assert any(re.search(words, fault) for fault in found.faults), found.faults


@pytest.mark.thorough
def test_too_much_slack_claims_nothing(trial):
    """A single policy of a mixture that is far from one: others weigh too much, and it is too early to start anew."""
    problem, states = trial
    state = states[-1]
    ledger = Ledger.of(state.log, state.predictions)
    early = np.cumsum(ledger.round_sizes) < state.samples / 2
    turns = tuple(NOBODY if before else number % 2 for number, before in enumerate(early))
    assert turns[-3:] in ((0, 1, 0), (1, 0, 1))
    sizes = tuple(50 * size for size in state.leaders.sizes)
    single = replace(state.leaders, moving=SINGLE_MOVING, turns=turns, sizes=sizes)
    assert single.starts(ledger.round_sizes) == (0,)
    evidence = Evidence(
        state.log,
        ledger,
        problem.policies,
        Bets(EXPERT_MULTIPLIERS, state.scales),
        0.9,
        0.05,
        model=state.model.to_json(),
        leaders=single,
    )
    made, _ = make_certificate(evidence, state.leader)
    assert made.slack > MAX_SLACK
    assert made.value >= made.threshold
    assert not made.certified
    assert made.certified_epsilon == 1
    assert verify(made, state.log, problem.policies).good
    claimed = replace(made, certified_epsilon=0.9)
    assert "nothing is claimed with a slack" in verify(claimed, state.log, problem.policies).faults[0]


@pytest.mark.thorough
def test_a_class_without_a_size_is_certified_by_leaders_alone():
    problem = pb.load_problem(TREES)

    class Sizeless(ArgmaxOnly):
        """Trees that nobody has counted."""

        def has(self, policy):
            return problem.policies.has(policy)

    sizeless = Sizeless(problem.policies)
    sizeless.log_size = math.inf
    state = run(replace(problem, policies=sizeless), Uniform, seed=4, delta=0.05, epsilon=0.4)[-1]
    made = state.certificate
    assert made.certified
    assert pb.verify(made, state.log, sizeless).good
    assert json.loads(json.dumps(made.to_json(), allow_nan=False))["log_size"] is None
    flat = replace(state.log, rounds=np.zeros(len(state.log), dtype=int))
    union = pb.certify(flat, sizeless, epsilon=0.4, delta=0.05).certificate
    assert (union.certified_epsilon, union.threshold) == (1, math.inf)
    again = Certificate.from_json(json.loads(json.dumps(union.to_json(), allow_nan=False)))
    assert again.threshold == math.inf
    assert pb.verify(again, flat, sizeless).good


@pytest.mark.thorough
def test_a_certificate_in_the_words_of_earlier_versions_verifies(trial):
    """They called a mixture policy a lottery, in its kind and in the claim."""
    problem, states = trial
    made = states[-1].certificate
    written = made.to_json()
    assert "the mixture policy is within" in written["claim"]
    old = written["claim"].replace("mixture policy", "lottery")
    earlier = {**written, "claim": old, "policy": {**written["policy"], "kind": "lottery"}}
    back = type(made).from_json(json.loads(json.dumps(earlier)), problem.policies)
    assert back.to_json() == written
    assert verify(back, states[-1].log, problem.policies).good
    with pytest.raises(InputError, match="'claim' of the certificate does not follow"):
        type(made).from_json({**written, "claim": old.replace("lottery", "policy")}, problem.policies)


@pytest.mark.thorough
def test_verify_takes_no_other_policies_in_a_mixture(trial):
    """Of the class, and drawn with the weights of those who led."""
    problem, states = trial
    log, made = states[-1].log, states[-1].certificate
    others = pb.Mixture(made.policy.policies[::-1], made.policy.weights)
    assert "not the mixture" in verify(replace(made, policy=others), log, problem.policies).faults[0]
