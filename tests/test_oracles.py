"""What is built on oracles: counting, and the constrained argmax against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from instances import make_instance, seeds
from pacbandits.errors import InputError
from pacbandits.oracles import Counting, constrained_argmax
from pacbandits.policies import Trivial
from pacbandits.records import Contexts


@given(seed=seeds)
@settings(max_examples=50, deadline=None)
def test_constrained_argmax_is_exact(seed):
    rng = np.random.default_rng(seed)
    instance = make_instance(seed)
    scores, budget = rng.normal(size=(2, *instance.mean_rewards.shape))
    rows = np.arange(len(instance.population))
    totals = [(scores[rows, row].sum(), budget[rows, row].sum()) for row in instance.policies.table]
    limit = float(np.median([b for _, b in totals]))
    policy = constrained_argmax(instance.policies, instance.population, scores, budget=budget, limit=limit)
    actions = policy(instance.population)
    assert budget[rows, actions].sum() <= limit + 1e-9
    assert scores[rows, actions].sum() == pytest.approx(max(s for s, b in totals if b <= limit + 1e-12))


def test_an_impossible_limit_names_the_least():
    contexts = Contexts.finite(2)
    with pytest.raises(InputError, match="least possible is 2"):
        constrained_argmax(Trivial(2, 2), contexts, np.zeros((2, 2)), budget=np.ones((2, 2)), limit=1.0)


def test_calls_are_counted():
    counting = Counting(Trivial(3, 2))
    for _ in range(4):
        counting.argmax(Contexts.finite(3), np.zeros((3, 2)))
    assert counting.calls == 4
    assert counting.log_size == pytest.approx(3 * np.log(2))
