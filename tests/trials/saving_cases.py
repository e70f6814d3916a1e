"""States to be saved, and when two of them are the same."""

from __future__ import annotations

import io
import json
from functools import cache

import numpy as np

from pacbandits.policies import Finite, Trees, Trivial, class_to_json
from pacbandits.problems import load_problem
from pacbandits.records import Mixture
from pacbandits.records.log import digest_log
from pacbandits.trials.coda import Coda, NoisyDesign, Uniform
from pacbandits.trials.saved_state import StateFile, StoredRound

KINDS = {"uniform": Uniform, "coda": Coda}


FINITE = "two-of-many:actions=10,policies=20,contexts=8"


TRIVIAL = "trivial:contexts=4,actions=10,gap=0.3"


TREES = "trees:contexts=60,features=2,bins=4,actions=8,competitive=2,depth=1"


LED = "trivial:contexts=16,actions=3,gap=0.3"


SPECS = {FINITE: (Finite, 0.15), TRIVIAL: (Trivial, 0.2), TREES: (Trees, 0.15)}


CASES = [(name, spec) for name in KINDS for spec in SPECS]


def step(algorithm, problem, state, rng):
    """The state after one more round, None when there is none."""
    plan = algorithm.design(state)
    if plan is None:
        return None
    return algorithm.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))


def play(algorithm, problem, state, rng):
    """The states that follow, and where the random numbers stood at each; begins with the one given."""
    states, places = [state], [rng.bit_generator.state]
    while (state := step(algorithm, problem, state, rng)) is not None:
        assert len(states) < 60
        states.append(state)
        places.append(rng.bit_generator.state)
    return states, places


@cache
def direct(name, spec):
    """A run that nothing interrupts."""
    problem = load_problem(spec)
    algorithm = KINDS[name](SPECS[spec][1], 0.1, pilot=100)
    first = algorithm.start(problem.policies, problem.population)
    return (algorithm, problem, *play(algorithm, problem, first, np.random.default_rng(0)))


@cache
def beginning(spec, rounds=5):
    """The first states of a run of coda, and its algorithm."""
    problem, rng = load_problem(spec), np.random.default_rng(0)
    algorithm = Coda(0.25 if spec == LED else SPECS[spec][1], 0.1, pilot=100)
    states = [algorithm.start(problem.policies, problem.population)]
    for _ in range(rounds):
        states.append(step(algorithm, problem, states[-1], rng))
    return algorithm, states


def generator(place):
    rng = np.random.default_rng()
    rng.bit_generator.state = place
    return rng


def forge(path, number, change, *, rows=None):
    """Change an entry of a file, with digests that fit.

    change: alters the JSON of the entry in place. rows: the log or contexts to put in the place of those there.
    """
    with StateFile.held(path) as file:
        entries = file.entries()
        body, table = json.loads(entries[number].body), io.BytesIO(entries[number].rows)
        change(body)
        if rows is not None:
            table = io.BytesIO()
            rows.write(table)
        entries[number] = StoredRound(json.dumps(body), table.getvalue())
        file.replace(entries)


def unchanged(body):
    """No change."""


def same_contexts(one, two):
    assert (one.names, one.categories) == (two.names, two.categories)
    assert (one.ids is None) is (two.ids is None)
    for mine, yours in ((one.features, two.features), (one.ids, two.ids), (one.weights, two.weights)):
        assert np.array_equal(mine, yours)


def same_logs(one, two):
    assert (one is None) is (two is None)
    if one is not None:
        assert digest_log(one) == digest_log(two)
        same_contexts(one.contexts, two.contexts)
        for name in ("actions", "rewards", "propensities", "rounds", "repeats"):
            assert np.array_equal(getattr(one, name), getattr(two, name))


def described(policies):
    return [policy.to_json() for policy in policies]


def same(one, two):
    """Whether two states are alike, to the last bit, and share what they share."""
    assert class_to_json(one.policies) == class_to_json(two.policies)
    same_contexts(one.contexts, two.contexts)
    same_logs(one.log, two.log)
    assert one.policy.to_json() == two.policy.to_json()
    assert one.model.to_json() == two.model.to_json()
    for name in ("round_number", "samples", "oracle_calls", "finished", "history", "scales", "missing"):
        assert getattr(one, name) == getattr(two, name)
    assert (one.predictions is None) is (two.predictions is None)
    assert one.predictions is None or np.array_equal(one.predictions, two.predictions)
    assert described(one.pool) == described(two.pool)
    assert (one.leader is None) is (two.leader is None)
    assert one.leader is None or one.leader.to_json() == two.leader.to_json()
    assert (one.leaders is None) is (two.leaders is None)
    if one.leaders is not None:
        for name in ("turns", "sizes", "moving"):
            assert getattr(one.leaders, name) == getattr(two.leaders, name)
        assert described(one.leaders.policies) == described(two.leaders.policies)
    assert [samples for _, samples in one.played] == [samples for _, samples in two.played]
    for (mine, _), (yours, _) in zip(one.played, two.played, strict=True):
        assert type(mine) is type(yours)
        assert np.array_equal(mine.propensities(one.contexts), yours.propensities(two.contexts))
    assert (one.current is None) is (two.current is None)
    if one.current is not None:
        assert (one.current.price, one.current.since) == (two.current.price, two.current.since)
        assert described(one.current.pool) == described(two.current.pool)
        for state in (one, two):
            assert state.current.sampler is state.played[-1][0]
            assert state.certificate.policy is state.policy
        assert one.certificate.to_json() == two.certificate.to_json()


@cache
def led():
    """A state with leaders, whose certificate is of a mixture of them, by earlier rounds; and its algorithm.

    The second round has a design.
    """
    problem, algorithm = load_problem(LED), Coda(0.25, 0.1, pilot=100)
    for seed in range(20):
        state, rng = algorithm.start(problem.policies, problem.population), np.random.default_rng(seed)
        while state.round_number < 12 and (state := step(algorithm, problem, state, rng)) is not None:
            several = isinstance(state.policy, Mixture) and len(state.leaders.policies) > 2
            designed = len(state.played) > 1 and isinstance(state.played[1][0], NoisyDesign)
            if designed and several and not state.finished and state.certificate.rows < len(state.log):
                return algorithm, state
            if state.finished:
                break
    raise AssertionError("no run had such a state")
