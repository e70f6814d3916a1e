"""Which logs are shuffled, and that a shuffle is an order: sorted files of a fixed split give no wrong certificates."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate import conventions
from pacbandits.certificate.content_order import order_by_content
from pacbandits.certificate.conventions import (
    FIRST_BLOCK_ROWS,
    SETTLING_SHARE,
    arrange,
    has_fixed_split,
    planned_ends,
    settling_round,
    settling_row,
    shuffled_by_number,
)
from tests.certificate.boundary import most
from tests.certificate.test_certify import lure, uniform_log, wrongly_certified
from tests.certificate.test_certify import shuffled as one_a_row


def fixed(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    people = pb.Contexts.of(rng.normal(size=(rows, 2)))
    actions = rng.integers(0, 2, rows)
    return pb.Log.of(people, actions=actions, rewards=rng.random(rows), propensities=np.full((rows, 2), 0.5))


def test_a_fixed_split_is_shuffled_and_nothing_else_unless_it_is_said():
    log = fixed()
    blocks, mixed = arrange(log, ordered=False)
    assert mixed
    assert blocks.rounds[-1] > 0
    assert sorted(blocks.rewards) == sorted(log.rewards)
    assert not np.array_equal(blocks.rewards, log.rewards)
    assert arrange(log, ordered=True)[1] is False
    uneven = log.propensities.copy()
    uneven[5] = (0.4, 0.6)
    others = {
        "propensities": replace(log, propensities=uneven),
        "rounds": replace(log, rounds=(np.arange(len(log)) > 300).astype(int)),
        "repeats": replace(log, repeats=np.where(np.arange(len(log)) == 3, 2, 1)),
    }
    for other in others.values():
        assert arrange(other, ordered=False) == (other, False)
    assert arrange(others["propensities"], ordered=False, shuffle=True)[1]
    assert not has_fixed_split(others["propensities"])
    with pytest.raises(pb.InputError, match="counts repeated interactions"):
        arrange(others["repeats"], ordered=False, shuffle=True)


def test_the_shuffle_of_earlier_versions_knows_nothing_but_how_many_rows_there_are():
    log = fixed()
    order = shuffled_by_number(replace(log, rewards=np.arange(len(log)) / len(log))).rewards
    again = shuffled_by_number(replace(log, rewards=np.arange(len(log)) / len(log), actions=1 - log.actions)).rewards
    assert np.array_equal(order, again)
    assert abs(np.corrcoef(np.arange(len(log)), order)[0, 1]) < 0.1


@pytest.mark.thorough
def test_sorted_rows_of_a_fixed_split_give_no_wrong_certificates():
    """Said to be in order, such files do give them."""
    problem, runs, wrong, naive = lure(), 10, 0, 0
    for seed in range(runs):
        log = one_a_row(uniform_log(problem, samples=6000, seed=seed), seed)
        log = log.take(np.lexsort([-log.rewards, -log.actions]))
        blocks, mixed = arrange(log, ordered=False)
        assert mixed
        wrong += wrongly_certified(problem, blocks, epsilon=0.2, delta=0.05)
        naive += wrongly_certified(problem, log, epsilon=0.2, delta=0.05, ordered=True)
    assert wrong <= most(runs, 0.05)
    assert naive > most(runs, 0.05)  # or nothing would be tested


def test_a_certificate_of_shuffled_rows_is_verified_and_stays_with_its_rows():
    log = fixed(900)
    policies = pb.Trees.learn(fixed(100, 5).contexts, n_actions=2, depth=1)
    made = pb.certify(log, policies).certificate
    assert made.shuffled
    assert pb.verify(made, log, policies).good
    assert made.is_of(log)
    longer = log.followed_by(fixed(50, 7))
    assert pb.verify(made, longer, policies).good
    assert not made.is_of(fixed(900, 3))
    unsaid = replace(made, shuffled=False)
    assert not pb.verify(unsaid, log, policies).good


def test_blocks_of_shuffled_rows_end_where_the_leader_settles_and_where_the_rows_do():
    for rows in (257, 300, 465, 466, 470, 600, 1000, 12_345, 10**6):
        ends = planned_ends(rows)
        assert ends[0] == FIRST_BLOCK_ROWS
        assert ends[-1] == rows
        assert (np.diff(ends) > 0).all()
        assert settling_row(rows) in ends
        assert settling_row(rows) == max(FIRST_BLOCK_ROWS, int(SETTLING_SHARE * rows))
    blocks, _ = arrange(fixed(1000), ordered=False)
    assert np.flatnonzero(blocks.rounds == settling_round(blocks, 0))[0] == 550


@cache
def settled_certificate():
    log = fixed(2000)
    uplift = np.where(log.contexts.features[:, 0] > 0, log.actions, 1 - log.actions)
    log = replace(log, rewards=np.clip(0.6 * log.rewards + 0.2 * uplift, 0, 1))
    policies = pb.Trees.learn(fixed(100, 5).contexts, n_actions=2, depth=2)
    return log, policies, pb.certify(log, policies).certificate


@pytest.mark.thorough
def test_shuffled_rows_certify_one_policy_that_later_rows_have_not_chosen(monkeypatch):
    log, policies, made = settled_certificate()
    assert not isinstance(made.policy, pb.Mixture)
    assert made.slack == 0
    assert len(made.leaders.policies) > 1  # or no weight had to move
    assert pb.verify(made, log, policies).good
    order = order_by_content(log)
    rewards, late = log.rewards.copy(), order[settling_row(len(log)) :]
    rewards[late] = 1.0 - rewards[late]
    flipped = replace(log, rewards=rewards)
    monkeypatch.setattr(conventions, "sorted_by_content", lambda given: given.take(order))  # other rewards, same order
    assert pb.certify(flipped, policies).certificate.leaders.policies == made.leaders.policies


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            lambda c: {"leaders": replace(c.leaders, settled=c.leaders.settled + 1)},
            "leader stays|could ruin it|log-wealth|slack|not the mixture",
        ),
        (lambda c: {"leaders": replace(c.leaders, settled=None)}, "slack|mixture|leader stays|log-wealth"),
        (lambda c: {"by_rule": False}, "may settle where it is known"),
    ],
)
def test_a_leader_that_settles_otherwise_is_no_proof(change, fault):
    log, policies, made = settled_certificate()
    found = pb.verify(replace(made, **change(made)), log, policies)
    assert re.search(fault, " ".join(found.faults))


@pytest.mark.thorough
def test_leaders_of_blocks_follow_by_the_rule_or_are_no_proof():
    """Nobody who ran a trial can have fixed who leads in blocks that are made afterwards."""
    log, policies, _ = settled_certificate()
    made = pb.certify(log, policies, ordered=True).certificate
    found = pb.verify(replace(made, by_rule=False), log, policies)
    assert "blocks of rows are made by certify, and all that is bet on them follows by its rule" in found.faults
