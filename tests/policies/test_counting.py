"""Counting changes nothing but the count."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.policies import PolicyClass, Trivial
from pacbandits.policies.base import ArgmaxOnly, CountedClass
from pacbandits.records import Contexts
from tests.paper.oracles.cases import KINDS, ListOnly, make_case


def test_calls_are_counted():
    wrapped = CountedClass(Trivial(3, 2))
    for _ in range(4):
        wrapped.argmax(Contexts.finite(3), np.zeros((3, 2)))
    assert wrapped.calls == 4
    assert wrapped.log_size == pytest.approx(3 * np.log(2))


@pytest.mark.parametrize("kind", KINDS)
def test_frontier_calls_count_too(kind):
    case = make_case(kind, 0)
    wrapped = CountedClass(case.policies)
    first, second = case.scores(1), case.scores(2)
    frontier = wrapped.frontier(case.contexts, first, second)
    wrapped.argmax(case.contexts, first)
    assert wrapped.calls == 2
    np.testing.assert_array_equal(frontier.second, case.policies.frontier(case.contexts, first, second).second)


def test_a_wrapped_class_offers_what_it_offered():
    finite = make_case("finite", 3)
    for policies in (finite.policies, Trivial(2, 2), ArgmaxOnly(finite.policies), ListOnly(finite.policies)):
        wrapped = CountedClass(policies)
        for capability in PolicyClass.flags:
            assert getattr(wrapped, capability) == getattr(policies, capability)
        assert (wrapped.n_actions, wrapped.exact) == (policies.n_actions, policies.exact)
    wrapped = CountedClass(finite.policies)
    assert len(wrapped) == len(finite.policies)
    np.testing.assert_array_equal(wrapped.actions(finite.contexts), finite.policies.actions(finite.contexts))
    np.testing.assert_array_equal(wrapped.policy(1).table, finite.policies.table[1])
    assert wrapped.calls == 0
