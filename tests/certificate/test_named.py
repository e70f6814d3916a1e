"""Policies named in advance: what they need not prove, that errors stay as rare as δ says, and no forgeries."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate import (
    Bets,
    Certificate,
    Evidence,
    Ledger,
    Named,
    Naming,
    best_certificate,
    make_certificate,
    verify,
    with_name,
    worth_naming,
)
from pacbandits.certificate.conventions import MIN_LOG_SIZE_WORTH_NAMING
from pacbandits.certificate.leaders import name_leaders
from pacbandits.compiled import using_cores
from pacbandits.confidence import certificate_threshold, head_start
from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite
from pacbandits.policies.linear import Linear
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts
from pacbandits.rewards import default_model, predict_by_round
from pacbandits.trials.coda import Coda
from pacbandits.trials.trial import EXPERT_MULTIPLIERS
from pacbandits.trials.uniform import Uniform
from tests.certificate.boundary import most

EPSILON = 0.3
FEW, SMALL_DELTA = 15, 5e-8
TREES = "trees:contexts=300,features=3,bins=8,actions=6,competitive=2"


def crowd():
    """One policy is right, in the one context that matters; 256 others are errors, and differ where nothing matters."""
    lead = 1.05 * EPSILON / 0.6
    means = np.full((9, 2), 0.5)
    means[0] = 0.5 - lead / 2, 0.5 + lead / 2
    table = np.zeros((257, 9), dtype=int)
    table[:256, 1:] = (np.arange(256)[:, None] >> np.arange(8)) & 1
    table[256] = 1
    contexts = Contexts.finite(9, weights=[0.6, *[0.05] * 8])
    return Problem("crowd", "", contexts, means, Bernoulli(), Finite(table, n_actions=2))


def run(problem, kind, *, seed, delta, epsilon=EPSILON, **options):
    rng = np.random.default_rng(seed)
    algorithm = kind(epsilon, delta, **options)
    state = algorithm.start(problem.policies, problem.population)
    while (plan := algorithm.design(state)) is not None:
        state = algorithm.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
    return state


class Counted(Finite):
    """A class that is counted as if it were so large that policies are named; those that were pay no more for it."""

    @property
    def log_size(self):
        return MIN_LOG_SIZE_WORTH_NAMING


def large_crowd():
    problem = crowd()
    return replace(problem, policies=Counted(problem.policies.table, n_actions=2))


@pytest.fixture
def one_core():
    """Problems this small are quicker without the pool; how work is cut changes no result."""
    with using_cores(1):
        yield


def count(kind, delta, *, runs):
    """How often a policy further than ε from the best is certified, and how often it had been named."""
    problem = large_crowd()
    best = problem.value(problem.best_policy())
    done = [run(problem, kind, seed=i, delta=delta, pilot=8, growth=0.3) for i in range(runs)]
    wrong = sum(best - problem.value(state.policy) > EPSILON for state in done)
    return wrong, sum(state.certificate.bets.naming is not None for state in done)


@pytest.mark.usefixtures("one_core")
@pytest.mark.parametrize("kind", [Uniform, Coda])
def test_trials_do_not_err(kind):
    """At a δ of one in twenty million a single error is too many."""
    wrong, by_name = count(kind, SMALL_DELTA, runs=FEW)
    assert wrong == most(FEW, SMALL_DELTA) == 0
    assert by_name > FEW / 4  # or nothing would be tested


@pytest.mark.slow
@pytest.mark.usefixtures("one_core")
@pytest.mark.parametrize("delta", [0.3, 0.05, 1e-3])
@pytest.mark.parametrize("kind", [Uniform, Coda])
def test_errors_are_as_rare_as_delta_says_over_many_runs(kind, delta):
    assert count(kind, delta, runs=1000)[0] <= most(1000, delta)


def wrong_with_a_longer_head_start(problem, kind, *, seed, extra):
    """Whether the first policy of a run that late experts refute all others of, with so much more wealth to begin with,
    is further than ε from the best."""
    rng, algorithm = np.random.default_rng(seed), kind(EPSILON, 0.05, pilot=2, growth=0.3)
    state = algorithm.start(problem.policies, problem.population)
    best = problem.value(problem.best_policy())
    while (plan := algorithm.design(state)) is not None:
        state = algorithm.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
        bets = replace(state.certificate.bets, naming=None)
        book = Ledger.of(state.log, state.predictions)
        evidence = Evidence(state.log, book, problem.policies, EPSILON, 0.05, model={}, reserved=True)
        for one in state.named:
            late = replace(bets, naming=one.naming)
            waiting = range(len(bets), late.experts)
            least = evidence.find_least(late, reference=one.policy(book.contexts), experts=waiting)
            if least.value + extra >= evidence.needed(late):
                return best - problem.value(one.policy) > EPSILON
    return False


@pytest.mark.usefixtures("one_core")
@pytest.mark.parametrize("kind", [Uniform, Coda])
def test_with_too_long_a_head_start_errors_do_occur(kind):
    """Or the tests above could not fail: as much more as there is to prove."""
    problem = large_crowd()
    extra = math.log(2 * len(EXPERT_MULTIPLIERS) / 0.05) + 2.0
    wrong = sum(wrong_with_a_longer_head_start(problem, kind, seed=i, extra=extra) for i in range(FEW))
    assert wrong > most(FEW, 0.05)


@pytest.mark.parametrize(("log_size", "experts", "delta"), [(24.2, 4, 0.05), (10.0, 10, 0.2)])
def test_all_tests_together_fail_with_probability_delta(log_size, experts, delta):
    """Each expert errs with probability e^−threshold, for each of |Π| policies, and once for each that was named."""
    threshold = certificate_threshold(log_size=log_size, experts=experts, delta=delta, reserved=True)
    open_to_all = experts * math.exp(log_size - threshold)
    numbers = np.arange(1, 200_001)
    late = experts * sum(math.exp(head_start(log_size=log_size, number=int(i)) - threshold) for i in numbers)
    assert open_to_all == pytest.approx(delta / 2)
    assert late < delta / 2
    assert late == pytest.approx(delta / 2, rel=1e-4)
    whole = certificate_threshold(log_size=log_size, experts=experts, delta=delta)
    assert threshold == pytest.approx(whole + math.log(2))


@pytest.fixture(scope="module")
def trial():
    """A run on trees that stopped by a policy named in advance."""
    problem = pb.load_problem(TREES)
    for seed in range(20):
        state = run(problem, Uniform, seed=seed, delta=0.05, epsilon=0.1)
        if state.certificate.bets.naming is not None:
            return problem, state
    raise AssertionError("no policy that was named has been certified")


def test_late_experts_see_later_rounds_alone(trial):
    problem, state = trial
    made = state.certificate
    book = Ledger.of(state.log, state.predictions)
    own = state.policy(book.contexts)
    size, naming, n_experts = problem.policies.log_size, made.bets.naming, len(made.bets)
    assert made.bets.experts == 2 * n_experts
    later = np.flatnonzero(state.log.rounds >= naming.round)
    part = Ledger.of(state.log.take(later), state.predictions[later])
    whole = Evidence(state.log, book, problem.policies, 0.1, 0.05, model={}, reserved=True)
    rest = Evidence(state.log.take(later), part, problem.policies, 0.1, 0.05, model={})
    some = problem.policies.argmax(problem.population, np.random.default_rng(0).random((len(problem.population), 6)))
    for k, number in product(range(n_experts), (1, 7)):
        named = replace(made.bets, naming=Naming(naming.round, number))
        late = whole.wealth(named, k + n_experts, reference=own)
        bets = Bets((made.bets.multipliers[k],), made.bets.scales[naming.round :])
        alone = rest.wealth(bets, 0, reference=state.policy(part.contexts))
        early = whole.wealth(named, k, reference=own)  # who does not wait has no head start
        np.testing.assert_array_equal(early, whole.wealth(replace(named, naming=None), k, reference=own))
        seen, known = some(book.contexts), some(part.contexts)
        assert late[np.arange(len(seen)), seen].sum() == pytest.approx(
            alone[np.arange(len(known)), known].sum() + head_start(log_size=size, number=number)
        )


def test_the_value_is_the_least_of_the_best_expert_by_enumeration():
    rng = np.random.default_rng(3)
    problem = crowd()
    state = run(problem, Uniform, seed=0, delta=0.05, pilot=30, growth=0.5)
    book = Ledger.of(state.log, state.predictions)
    bets = Bets((0.5, 1.0), tuple(rng.uniform(0.1, 0.3, size=book.n_rounds)), naming=Naming(1, 3))
    reference = problem.policies.policy(256)
    evidence = Evidence(state.log, book, problem.policies, EPSILON, 0.05, model={}, reserved=True)
    made, _ = make_certificate(evidence, reference, bets)
    own = reference(book.contexts)
    scores = [evidence.wealth(bets, k, reference=own) for k in range(4)]
    table = problem.policies.actions(book.contexts)
    rows = np.arange(table.shape[1])
    each = [max(score[rows, actions].sum() for score in scores) for actions in table]
    assert made.value == pytest.approx(min(each))


def test_verify_accepts_it_and_refuses_every_forgery(trial):
    problem, state = trial
    made = state.certificate
    assert verify(made, state.log, problem.policies).good
    naming = made.bets.naming
    for forged in (
        replace(made, bets=replace(made.bets, naming=Naming(naming.round, naming.number + 5))),
        replace(made, bets=replace(made.bets, naming=Naming(naming.round + 1, naming.number))),
        replace(made, bets=replace(made.bets, naming=Naming(len(made.bets.scales), naming.number))),
        replace(made, bets=replace(made.bets, naming=None)),
        replace(made, reserved=False),
        replace(made, reserved=False, threshold=made.threshold - math.log(2)),
        replace(made, policy=state.named[0].policy if state.named[0].policy != state.policy else state.leader),
    ):
        assert not verify(forged, state.log, problem.policies).good


def test_it_says_when_the_policy_was_named_and_survives_json(trial):
    _, state = trial
    made = state.certificate
    naming = made.bets.naming
    said = f"named, as number {naming.number}, before round {naming.round + 1} of {len(made.bets.scales)}, by whoever"
    assert said in " ".join(made.assumptions)
    text = json.loads(json.dumps(made.to_json()))
    back = Certificate.from_json(text)
    assert back.bets == made.bets
    assert back.reserved
    for word, bad in (
        ("round", 0),
        ("number", 0),
        ("number", "1"),
        ("number", 1.0),
        ("number", True),
        ("round", 10**400),
    ):
        with pytest.raises(InputError):
            Certificate.from_json(text | {"naming": text["naming"] | {word: bad}})
    for bad in ("false", 1, None):
        with pytest.raises(InputError):
            Certificate.from_json(text | {"reserved": bad})


def test_certificates_from_before_can_be_read():
    state = run(crowd(), Uniform, seed=0, delta=0.05, pilot=30)
    text = state.certificate.to_json()
    older = {name: value for name, value in text.items() if name not in ("naming", "reserved")}
    back = Certificate.from_json(older)
    assert back.bets.naming is None
    assert not back.reserved


def test_a_name_is_that_of_the_leader_before_the_round(trial):
    problem, _ = trial
    algorithm, rng = Uniform(0.1, 0.05), np.random.default_rng(11)
    state = algorithm.start(problem.policies, problem.population)
    states = [state]
    while (plan := algorithm.design(state)) is not None:
        state = algorithm.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
        states.append(state)
    assert len(state.named) > 1
    for number, one in enumerate(state.named, start=1):
        assert one.naming.number == number
        assert one.policy is states[one.naming.round].leader
        assert states[one.naming.round + 1].named[number - 1] is one
        assert len(states[one.naming.round].named) == number - 1


def test_who_was_named_is_not_named_again():
    contexts = Contexts.finite(3)
    first, same, other = (Finite([actions], n_actions=2).policy(0) for actions in ([0, 1, 0], [0, 1, 0], [1, 1, 0]))
    one = with_name((), first, contexts, round_number=2)
    assert with_name(one, same, contexts, round_number=3) == one
    two = with_name(one, other, contexts, round_number=4)
    assert [named.naming for named in two] == [Naming(2, 1), Naming(4, 2)]


def test_small_and_inexact_classes_keep_all_of_delta():
    assert not worth_naming(crowd().policies)
    assert worth_naming(pb.load_problem("trees").policies)
    contexts = Contexts.of(np.random.default_rng(0).normal(size=(60, 4)))
    inexact = Linear.of(pb.Crossed.blocks(contexts, n_actions=4), oracle="search")
    assert not inexact.exact
    assert not worth_naming(inexact)
    state = run(crowd(), Uniform, seed=0, delta=0.05, pilot=30)
    assert not state.certificate.reserved
    assert state.named == ()


def test_a_name_that_nothing_tested_is_refused(trial):
    """A head start is no evidence."""
    problem, state = trial
    book = Ledger.of(state.log, state.predictions)
    bets = replace(state.certificate.bets, naming=Naming(book.n_rounds, 1))
    evidence = Evidence(state.log, book, problem.policies, 0.1, 0.05, model=state.model.to_json(), reserved=True)
    made, _ = make_certificate(evidence, state.leader, bets)
    assert verify(made, state.log, problem.policies).faults == (
        "the policy was named after the last round, and nothing tested it",
    )


def test_a_naming_without_its_half_of_delta_is_refused():
    problem = crowd()
    log = problem.interact(pb.Design.uniform(problem.policies.policy(0)), samples=50, rng=np.random.default_rng(0))
    book = Ledger.of(log, np.full((len(log), 2), 0.5))
    bets = Bets((1.0,), (0.1,), naming=Naming(1, 1))
    evidence = Evidence(log, book, problem.policies, 0.1, 0.1, model={})
    with pytest.raises(InputError, match="reserved"):
        make_certificate(evidence, problem.policies.policy(0), bets)


def test_certify_names_policies_where_a_log_has_rounds():
    """Rows in their order, cut into blocks: later blocks test the leader of earlier ones, and prove more."""
    problem = pb.load_problem(TREES)
    rng = np.random.default_rng(1)
    design = pb.Design.uniform(problem.best_policy())
    counted = problem.interact(design, samples=3000, rng=rng)
    rows = rng.permutation(np.repeat(np.arange(len(counted)), counted.repeats))
    log = replace(counted.take(rows), repeats=np.ones(len(rows), dtype=int))
    options = {"epsilon": 0.1, "delta": 0.05}
    plain = pb.certify(log, problem.policies, **options)
    made = pb.certify(log, problem.policies, ordered=True, **options)
    assert plain.bets.naming is None
    assert plain.threshold == made.threshold  # a log of one round may go on, and all looks at it hold together
    assert made.bets.naming is not None
    assert made.certified_epsilon < plain.certified_epsilon
    assert verify(made, log, problem.policies).good
    assert problem.value(problem.best_policy()) - problem.value(made.policy) <= made.certified_epsilon


def test_names_do_not_depend_on_epsilon(trial):
    """Else whoever asks for many would have more names than δ was shared out among."""
    problem, state = trial
    log, model = state.log, default_model(state.log.only(state.log.rounds == 0).contexts)
    named = {one.naming: one.policy for one in name_leaders(log, predict_by_round(log, model), problem.policies)}
    assert len(named) > 1
    used = set()
    for epsilon in (0.4, 0.2, 0.1, 0.05, 0.02):
        made = pb.certify(log, problem.policies, epsilon=epsilon, delta=0.05)
        assert made.model == model.to_json()
        if made.bets.naming is not None:
            assert made.policy.to_json() == named[made.bets.naming].to_json()
            used.add(epsilon)
    assert len(used) > 1  # or nothing would be tested


def test_half_of_delta_cannot_be_taken_back(trial):
    """Also of a certificate whose policy was not named, as others may have been."""
    problem, state = trial
    book = Ledger.of(state.log, state.predictions)
    bets = replace(state.certificate.bets, naming=None)
    for reserved in (True, False):
        evidence = Evidence(
            state.log, book, problem.policies, 0.3, 0.05, model=state.model.to_json(), reserved=reserved
        )
        made, _ = make_certificate(evidence, state.leader, bets)
        assert verify(made, state.log, problem.policies).good == reserved


def test_a_fresh_name_does_not_hide_what_the_leader_has_proven(trial):
    """Its head start is no evidence: what counts is the smallest ε that is certified."""
    problem, state = trial
    book = Ledger.of(state.log, state.predictions)
    bets = replace(state.certificate.bets, naming=None)
    evidence = Evidence(state.log, book, problem.policies, 0.01, 0.05, model={}, reserved=True)
    fresh = (Named(state.leader, Naming(book.n_rounds - 1, 1)),)
    made, _ = best_certificate(evidence, leader=state.leader, named=fresh, bets=bets)
    alone, _ = best_certificate(evidence, leader=state.leader, named=(), bets=bets)
    assert made.certified_epsilon <= alone.certified_epsilon


def test_the_leader_is_certified_if_it_has_most_to_show(trial):
    """A hopeless policy that was named does not stand in its way."""
    problem, state = trial
    book = Ledger.of(state.log, state.predictions)
    worst = problem.policies.argmax(problem.population, -problem.mean_rewards)
    evidence = Evidence(state.log, book, problem.policies, 0.1, 0.05, model={}, reserved=True)
    bets = replace(state.certificate.bets, naming=None)
    hopeless = (Named(worst, Naming(1, 1)),)
    made, _ = best_certificate(evidence, leader=state.leader, named=hopeless, bets=bets)
    assert made.policy is state.leader
    assert made.bets.naming is None
