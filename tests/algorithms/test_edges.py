"""Options, awkward problems and classes of the caller's own: every algorithm takes them, or says why not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pacbandits.algorithms import options_of, profile_of
from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite, Trivial
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts
from pacbandits.simulation import run
from tests.algorithms.cases import (
    CASES,
    DELTA,
    NAMES,
    PLAYED,
    make,
    problem_of,
    refusal,
)
from tests.algorithms.test_conformance import one_line

REFUSES_ZERO = ("linear-rage", "planner-sampler")


@pytest.mark.parametrize("name", NAMES)
def test_declared_options_are_taken_and_have_their_defaults(name):
    problem = problem_of(next(spec for other, spec in CASES if other == name))
    plain, known = make(name, problem), options_of(name)
    assert make(name, problem, **{option.name: option.default for option in known}) == plain
    for option in known:
        others = {
            "choice": [choice for choice in option.choices if choice != option.default],
            "integer": [7],
            "number": [0.5 if option.default != 0.5 else 0.25],
        }[option.kind]
        for value in others:
            changed = make(name, problem, **{option.name: value})
            assert changed != plain
            # Whether an answer may be a mixture is a flag of the trials.
            flagged = option.name == "answer" and hasattr(changed, "single")
            assert changed.single if flagged else getattr(changed, option.name) == value
            assert make(f"{name}:{option.name}={value}", problem) == changed


@pytest.mark.first(17)
@pytest.mark.parametrize("name", NAMES)
def test_options_that_are_not_declared_or_not_permitted_are_refused(name):
    problem, known = problem_of(next(spec for other, spec in CASES if other == name)), options_of(name)

    def refused(message, spec=name, **options):
        with pytest.raises(InputError, match=message) as caught:
            make(spec, problem, **options)
        assert one_line(caught)

    refused(f"{name} has no option 'bogus'", bogus=1)
    refused(f"{name} has no option 'bogus'", spec=f"{name}:bogus=1")
    assert known
    for option in known:
        words = f"{option.name} must be "
        for value in ("bogus", None, [1], float("nan"), True):
            refused(words, **{option.name: value})
        refused(words, spec=f"{name}:{option.name}=bogus")
        for end, beyond in (("least", -1), ("above", 0), ("most", 1)):
            if getattr(option.about, end) is not None:
                refused(words, **{option.name: getattr(option.about, end) + beyond})
        default = {option.name: option.default}
        refused("is given twice", spec=f"{name}:{option.name}={option.default}", **default)
    made = make(name, problem)
    with pytest.raises(InputError, match=f"{name} was made already; give '{known[0].name}' to it, not to run"):
        run(problem, algorithm=made, rng=0, **{known[0].name: known[0].default})


@pytest.mark.first(72)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        *(({"epsilon": epsilon}, "needs an epsilon above 0|epsilon must") for epsilon in (-0.1, math.nan, math.inf)),
        *(({"delta": delta}, "delta must lie strictly between 0 and 1") for delta in (0.0, 1.0, -0.1, float("nan"))),
    ],
)
def test_epsilon_and_delta_must_make_sense(name, wrong, message):
    problem = problem_of(next(spec for other, spec in CASES if other == name))
    with pytest.raises(InputError, match=message) as caught:
        make(name, problem, **wrong)
    assert one_line(caught)


@pytest.mark.parametrize("name", NAMES)
def test_an_epsilon_of_0_is_taken_or_refused(name):
    problem = problem_of(next(spec for other, spec in CASES if other == name))
    if name in REFUSES_ZERO:
        with pytest.raises(InputError, match="needs an epsilon above 0") as caught:
            make(name, problem, epsilon=0.0)
        assert one_line(caught)
    else:
        assert make(name, problem, epsilon=0.0).epsilon == 0


def small(means, table, *, weights=None):
    """Contexts of which each has a feature of its own, so that any mean rewards are linear in them."""
    means = np.array(means, dtype=float)
    n, n_actions = means.shape
    contexts = Contexts.of(np.eye(n), ids=np.arange(n), weights=weights)
    return Problem("small", "A few contexts.", contexts, means, Bernoulli(), Finite(table, n_actions=n_actions))


AWKWARD = {
    "one policy": small([[0.2, 0.9], [0.7, 0.1]], [[0, 1]]),
    "all alike": small([[0.2, 0.9], [0.7, 0.1]], [[0, 1]] * 5),
    "alike where contexts come": small([[0.2, 0.9], [0.7, 0.1]], [[0, 1], [0, 0]], weights=[1.0, 0.0]),
    "a tie": small([[0.5, 0.5, 0.1]], [[0], [1], [2]]),
    "all of one value": small([[0.5, 0.5]] * 3, [[0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1]]),
    "one action": small([[0.3], [0.6]], [[0, 0]]),
    "sure rewards": small([[0.0, 1.0], [1.0, 0.0]], [[0, 1], [1, 0]]),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("problem", AWKWARD.values(), ids=list(AWKWARD))
@pytest.mark.parametrize("name", NAMES)
def test_awkward_problems_come_to_an_end(name, problem):
    if refusal(name, problem):  # by an algorithm for every map alone
        problem = replace(problem, policies=Trivial(len(problem.population), problem.n_actions))
    done = run(problem, algorithm=name, epsilon=0.1, delta=0.05, rng=0)
    assert done.stopped == "done"
    assert done.correct
    promised = "except with probability 0.05 the policy is within 0.1 of" in done.guarantee
    assert promised is profile_of(name).proves


@pytest.mark.first(9)
@pytest.mark.parametrize(("name", "spec"), PLAYED)
def test_a_policy_class_of_the_callers_own(name, spec):
    """Another class than the problem's: here the constant policies, of which the best is another than the problem's."""
    problem = problem_of(spec)
    n = len(problem.population)
    constant = Finite([[action] * n for action in range(problem.n_actions)], n_actions=problem.n_actions)
    if words := refusal(name, replace(problem, policies=constant)):
        with pytest.raises(InputError) as caught:
            run(problem, constant, algorithm=name, epsilon=0.3, delta=DELTA, rng=1)
        assert str(caught.value) == words
        return
    done = run(problem, constant, algorithm=name, epsilon=0.3, delta=DELTA, rng=1)
    values = [problem.value(constant.policy(action)) for action in range(problem.n_actions)]
    assert done.stopped == "done"
    assert done.value_gap == pytest.approx(max(values) - problem.value(done.policy))
    assert done.correct
    assert len(set(done.policy(problem.population).tolist())) == 1
