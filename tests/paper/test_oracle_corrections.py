"""Where the paper's reductions to oracle calls cannot be implemented as printed."""

from __future__ import annotations

import numpy as np
import pytest
from tests.paper.oracle_reductions import choose_policy, frank_wolfe_step

from pacbandits.paper.oracles import (
    Estimates,
    SupportGammas,
    best_outside,
    best_outside_as_printed,
    constrained_argmax,
    relaxed_argmax,
)
from pacbandits.policies import Finite
from pacbandits.policies.base import CountedClass
from pacbandits.records import Contexts


def test_row_24_the_exclusion_algorithm_cycles_on_ties():
    """Two policies to be avoided, equal in value: the printed loop goes from each to the other, since both differ and
    are worth no more than the other. Ours finds the third, and so does the printed loop once the tie is broken."""
    contexts, policies = Contexts.finite(2), Finite([[0, 1], [1, 0], [0, 0]], n_actions=2)
    scores = np.array([[0.0, 1.0], [0.0, 1.0]])
    excluded = [policies.policy(0), policies.policy(1)]

    printed = best_outside_as_printed(policies, contexts, scores, excluded=excluded, max_steps=1000)
    assert printed.returned is None
    assert printed.visited == (0, 1) * 500 + (0,)

    wrapped = CountedClass(policies)
    ours = best_outside(wrapped, contexts, scores, excluded=excluded)
    assert ours is not None
    assert ours.policy.describe() == policies.policy(2).describe()
    assert wrapped.calls <= 1 + 2 * 2

    broken = scores + np.array([[1e-9, 0.0], [0.0, 0.0]])
    assert best_outside_as_printed(policies, contexts, broken, excluded=excluded, max_steps=1000).visited == (0, 1, 2)


def test_row_43_a_limit_on_the_score_itself_is_not_the_limit_that_the_steps_need():
    """`def:csc` maximises s subject to s ≤ l. A step maximises −Δ̂ + √V, V under a limit on Δ̂: of three policies the
    middle one is best, no mixture of V and −Δ̂ is largest there, and a limit on V says nothing of Δ̂: it finds the
    middle one if it happens to lie between its V and the next. Both sums in one score would do, for a Δ̂ of few levels.
    In `c_csc` the printed oracle at the value of π_i returns π_i: that π differ from π_i somewhere is not in the
    definition."""
    contexts, policies = Contexts.finite(1), Finite([[0], [1], [2]], n_actions=3)
    variances, gaps = np.array([[0.04, 1.0, 9.0]]), np.array([[0.0, 0.5, 3.0]])
    values = (-gaps + np.sqrt(variances))[0]
    assert int(values.argmax()) == 1

    def chosen(policy):
        return int(policy(contexts)[0])

    mixed = {chosen(policies.argmax(contexts, variances - slope * gaps)) for slope in np.linspace(0, 10, 101)}
    assert mixed == {0, 2}
    ours = constrained_argmax(policies, contexts, variances, budget=gaps, limit=1.0)
    assert chosen(ours) == 1
    own = [constrained_argmax(policies, contexts, variances, budget=variances, limit=limit) for limit in (0.5, 50.0)]
    assert [chosen(policy) for policy in own] == [0, 2]  # as printed
    coded = 10 * gaps / 0.5 + variances  # V < 10: the largest V at the largest gap of at most 2 · 0.5
    assert chosen(constrained_argmax(policies, contexts, coded, budget=coded, limit=29.5)) == 1
    relaxed = relaxed_argmax(policies, contexts, variances, budget=gaps, limit=1.0)  # argmaxes alone: a hull
    assert chosen(relaxed.policy) == 0
    assert relaxed.value < 1.0 < relaxed.bound
    for i in range(3):
        again = constrained_argmax(policies, contexts, variances, budget=variances, limit=variances[0, i])
        assert chosen(again) == i


def one_context(*, means, shares, gamma, samples):
    """A policy for each action of one context, the first the reference: scores of gaps, scores of costs, γ for all."""
    means, shares = np.array([means]), np.array([shares])
    costs = 1 / shares + 1 / shares[:, :1]
    costs[0, 0] = 0.0
    return (
        Finite(np.arange(means.size)[:, None], n_actions=means.size),
        Contexts.finite(1),
        Estimates(means[:, :1] - means, costs, confidence=5.0, samples=samples),
        SupportGammas(support=[], gammas=np.empty(0), common_gamma=gamma),
    )


def test_row_38_an_argmin_becomes_an_argmax_when_signs_change():
    """Lemma `csc_2` turns every sign of what is to be least and keeps the argmin: that is the policy of the largest
    Δ̂ + γV. Its cost vector is right for the argmax oracle, which is what ours asks."""
    policies, contexts, known, gammas = one_context(
        means=[0.5, 0.9, 0.1], shares=[0.3, 0.4, 0.3], gamma=0.01, samples=1000
    )
    objective = (known.gaps + 0.01 * known.costs)[0]
    vector = -objective  # L(a), as printed
    assert int(vector.argmin()) == int(objective.argmax()) == 2  # the last line as printed: the worst policy
    chosen = choose_policy(policies, contexts, known, gammas)
    assert int(chosen.policy(contexts)[0]) == int(vector.argmax()) == 1


def test_row_39_sums_over_samples_and_contexts_are_means():
    """The cost vectors of Lemma `csc` add n rows of r/(p + γ) and |D| rows of γ/p + γ/p without 1/n and 1/|D|: with a
    thousand samples and ten contexts of history the gaps drown the widths, and another policy is found."""
    n, history, gamma, p = 1000, 10, 0.1, 1 / 3
    means, shares = [0.4, 0.6, 0.5], [0.4, 0.5, 0.1]
    policies, contexts, known, gammas = one_context(means=means, shares=shares, gamma=gamma, samples=n)
    # Exact proportions: n/3 rows of each action, whose rewards add up to n r/3, over p + γ in place of p.
    rows = np.array([n * p * mean / (p + gamma) for mean in means])
    widths = history * gamma * known.costs[0]
    printed = rows + widths
    scaled = rows / n + widths / history
    assert int(printed.argmax()) == 1
    assert int(scaled.argmax()) == 2
    found = frank_wolfe_step(policies, contexts, known, gammas, gap_weight=1.0, width_weight=1.0)
    assert int(found.policy(contexts)[0]) == 2
    assert rows[1] / n == pytest.approx(means[1] * p / (p + gamma))
