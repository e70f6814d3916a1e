"""The play loop: outcomes when they are due, rounds in the order of an algorithm's steps, delays and refusals."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pacbandits.algorithms import make_algorithm
from pacbandits.problems import load_problem
from pacbandits.simulation.play_loop import Pending, Periods, in_time, play_rounds
from pacbandits.trials.protocol import Setting


@pytest.fixture(scope="module")
def problem():
    return load_problem("two-of-many:actions=4,policies=20")


def steps_of(problem, epsilon=0.3, **options):
    """All steps of a run of `uniform`."""
    made = make_algorithm("uniform", Setting(problem.policies, epsilon, 0.1, problem.reward_bounds), {})
    first = made.start(problem.policies, problem.population)
    return list(play_rounds(problem, made, first, rng=np.random.default_rng(0), **options))


def test_outcomes_come_when_they_are_due_and_before_a_start():
    clock, pending, seen, starts = Periods(), Pending[str](), [], [0, 2, 5]
    for time, outcome in in_time(pending, clock, lambda: starts[0] if starts else None):
        seen.append((time, outcome))
        if outcome is None:
            begun = starts.pop(0)
            pending.add(begun + 2, f"late {begun}")
            pending.add(begun + 2, f"later {begun}")
            pending.add(begun, f"at once {begun}")
    assert [outcome for _, outcome in seen] == [
        None,
        "at once 0",
        "late 0",
        "later 0",
        None,
        "at once 2",
        "late 2",
        "later 2",
        None,
        "at once 5",
        "late 5",
        "later 5",
    ]
    assert [time for time, _ in seen] == sorted(time for time, _ in seen)
    assert clock.now() == 7


def test_rounds_whose_rewards_are_known_at_once_follow_the_steps_of_the_algorithm(problem):
    steps = steps_of(problem)
    doing = [step.doing for step in steps]
    rounds = (len(doing) - 2) // 4
    assert doing == ["designing", "playing", "played", "absorbed"] * rounds + ["designing", "done"]
    assert [step.state.round_number for step in steps if step.doing == "absorbed"] == list(range(1, rounds + 1))
    assert steps[-1].state.finished
    assert steps[-1].state is steps[-2].state


def test_rewards_are_absorbed_a_delay_after_their_round_ended(problem):
    steps = steps_of(problem, period_size=300, delay=2)
    ends, time = [], 0
    for step in steps:
        if step.doing == "played":
            assert step.plan.samples % 300 == 0
            assert step.log.samples == step.plan.samples
            assert step.time == time
            time += step.plan.samples // 300
            ends.append(time)
    absorbed = [step for step in steps if step.doing == "absorbed"]
    assert [step.time for step in absorbed] == [end + 2 for end in ends[: len(absorbed)]]
    assert [step.plan.round_number for step in absorbed] == list(range(1, len(absorbed) + 1))
    assert steps[-1].doing == "done"
    assert len(ends) > len(absorbed)  # those that were pending when the answer was known


def test_after_a_refusal_pending_rewards_are_absorbed(problem):
    def refuse(state, plan):
        begun.append(plan)
        return ("budget", "three rounds will do") if len(begun) > 3 else None

    begun = []
    steps = steps_of(problem, epsilon=0.02, period_size=60, delay=4, refuse=refuse)
    counts = Counter(step.doing for step in steps)
    assert (counts["played"], counts["absorbed"], counts["designing"]) == (3, 3, 4)
    assert steps[-1].doing == "refused"
    assert steps[-1].refusal == ("budget", "three rounds will do")
    assert steps[-1].plan is begun[-1]
    assert steps[-1].state.samples == sum(plan.samples for plan in begun[:3])
