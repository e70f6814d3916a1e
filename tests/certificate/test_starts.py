"""Where the proof of a single policy may start: after a late change of leaders, at the price of a part of δ."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate import Certificate, Leaders
from pacbandits.certificate.certify import measure_worth
from pacbandits.certificate.leaders import MIXTURE_MOVING, SINGLE_MOVING
from pacbandits.confidence import start_part
from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite
from pacbandits.rewards import no_idea
from pacbandits.trials.coda import Uniform
from pacbandits.verifier import recompute as verify
from tests.certificate.test_leaders import TREES, run

POLICIES = tuple(Finite([actions], n_actions=2).policy(0) for actions in ([0, 0], [0, 1], [1, 1]))


def led(turns, *, moving=SINGLE_MOVING, **options):
    return Leaders(POLICIES, tuple(turns), (10,) * len(turns), moving, **options)


@pytest.mark.parametrize(
    ("turns", "counts", "starts"),
    [
        ([-1, 0, 0, 0], [10, 10, 10, 10], (0,)),
        ([-1, 0, 1, 1], [10, 10, 10, 10], (0, 2)),  # after 20, when somebody led after 10
        ([-1, 0, 1, 1], [11, 10, 10, 10], (0,)),  # 21 are not twice as many as 11
        ([-1, 0, 1, 0, 1, 2], [10, 10, 10, 10, 10, 10], (0, 2, 4)),  # after 20 and 40
        ([-1, -1, 0, 1, 1, 2], [10, 10, 20, 10, 10, 20], (0, 3)),  # after 40, when somebody led after 20
        ([-1, 0, -1, 0], [10, 10, 10, 10], (0, 3)),  # who leads after nobody is a new one
        ([0, 1, 1, 2], [10, 10, 10, 10], (0, 1, 3)),
    ],
)
def test_a_proof_may_start_where_a_new_leader_comes_and_the_data_have_doubled(turns, counts, starts):
    counts = np.array(counts, dtype=float)
    assert led(turns).starts(counts) == starts
    assert led(turns, moving=MIXTURE_MOVING).starts(counts) == (0,)
    for number, start in enumerate(starts):
        one = led(turns, start=start)
        assert one.part(counts) == start_part(number)
        assert one.counted == (*[-1] * start, *turns[start:])
    for start in set(range(len(turns))) - set(starts):
        with pytest.raises(InputError, match=f"may not start in round {start + 1}"):
            led(turns, start=start).part(counts)


@pytest.mark.parametrize("start", [-1, 5])
def test_leaders_start_in_one_of_their_rounds(start):
    with pytest.raises(InputError, match=f"leaders of 4 rounds cannot start in round {start}"):
        led([-1, 0, 1, 1], start=start)


def test_all_starts_that_there_can_be_share_delta():
    assert sum(start_part(number) for number in range(1000)) == pytest.approx(1, abs=1e-12)
    assert all(0 < start_part(number + 1) < start_part(number) for number in range(100))


@pytest.fixture(scope="module")
def late():
    """A run whose certificate starts late, and its states."""
    problem = pb.load_problem(TREES)
    states = run(problem, Uniform, seed=6, delta=0.05, epsilon=0.15, single=True, pilot=40)
    assert states[-1].certificate.certified
    assert states[-1].certificate.leaders.start > 1
    return problem, states


@pytest.mark.thorough
def test_a_late_start_is_verified(late):
    problem, states = late
    log, made = states[-1].log, states[-1].certificate
    counts = np.bincount(log.rounds, weights=log.repeats)
    number = made.leaders.starts(counts).index(made.leaders.start)
    assert made.threshold == pytest.approx(-math.log(0.05 * start_part(number)))
    assert not isinstance(made.policy, pb.Mixture)
    assert made.policy is made.leaders.policies[made.leaders.turns[-1]]
    assert problem.value(problem.best_policy()) - problem.value(made.policy) <= made.certified_epsilon
    assert verify(made, log, problem.policies).good
    again = Certificate.from_json(json.loads(json.dumps(made.to_json(), allow_nan=False)))
    assert again.to_json() == made.to_json()
    assert verify(again, log, problem.policies).good


class Half:
    """A reward model that learns nothing."""

    def fit(self, log):
        return no_idea(log.n_actions)

    def to_json(self):
        return {"kind": "half"}


@pytest.mark.thorough
def test_rows_before_the_start_have_no_say_in_values(late):
    log, made = late[1][-1].log, late[1][-1].certificate
    _, rounds = np.unique(log.rounds, return_inverse=True)
    early = rounds < made.leaders.start
    assert early.any()
    other = replace(log, rewards=np.where(early, 1.0 - log.rewards, log.rewards))
    found, same = (measure_worth(made, one, model=Half()).value for one in (log, other))
    assert (found.low, found.estimate, found.high) == (same.low, same.estimate, same.high)


@pytest.mark.thorough
def test_the_start_is_the_one_that_proves_most(late):
    """Of all certificates of a run the last one is from another start than the first ones, and proves more."""
    _, states = late
    made = [state.certificate for state in states[1:]]
    assert made[0].leaders.start == 0 < made[-1].leaders.start
    reached = [one.certified_epsilon for one in made]
    assert reached == sorted(reached, reverse=True)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: {"leaders": replace(c.leaders, start=c.leaders.start + 1)}, "may not start in round"),
        (lambda c: {"leaders": replace(c.leaders, start=len(c.leaders.turns))}, "may not start in round"),
        (lambda c: {"leaders": replace(c.leaders, start=0)}, "the threshold"),
        (lambda c: {"threshold": -math.log(0.05)}, "the threshold"),
        (lambda c: {"threshold": -math.log(0.025), "leaders": replace(c.leaders, start=0)}, "slack|log-wealth"),
        (lambda c: {"leaders": replace(c.leaders, moving=MIXTURE_MOVING)}, "may not start in round"),
    ],
)
def test_verify_finds_forged_starts(late, change, words):
    problem, states = late
    made = states[-1].certificate
    found = verify(replace(made, **change(made)), states[-1].log, problem.policies)
    assert not found.good
    assert re.search(words, found.faults[0]), found.faults


@pytest.mark.thorough
def test_a_state_is_read_back_with_the_start_that_its_rounds_prove(late, tmp_path):
    """Whatever start the certificate of the saved state says: certificates are not stored."""
    _, states = late
    trial, made = Uniform(0.15, 0.05, single=True, pilot=40), states[-1].certificate
    for start in (made.leaders.start, made.leaders.start + 1, 0):
        told = replace(made, leaders=replace(made.leaders, start=start))
        pb.save_state(tmp_path / "state", trial, replace(states[-1], certificate=told))
    _, back = pb.load_state(tmp_path / "state")
    assert back.certificate.to_json() == made.to_json()
