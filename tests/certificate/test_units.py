"""People who come back: what is counted are people, whatever their visits have to do with each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate import Ledger
from pacbandits.certificate.alarms import look
from pacbandits.certificate.certificate import UNITS_COME, UNITS_END, UNITS_FIRST
from pacbandits.certificate.conventions import FIRST_BLOCK_ROWS, arrange, block_ends, in_blocks, planned_ends
from pacbandits.certificate.learning import rows_that_bet
from pacbandits.verifier import recompute
from tests.certificate.boundary import most
from tests.certificate.plain import against_one

POLICIES = pb.Finite([[0], [1]], n_actions=2)  # always the first action, or always the second
SAME = np.array([0.5, 0.5])


def visits(people: int, each: int, seed: int, *, gap: float = 0.2, sticky: bool = False) -> pb.Log:
    """People who like one action and not the other, at every visit; the first is better by the gap."""
    rng = np.random.default_rng(seed)
    likes = (rng.random(people) >= 0.5 + gap / 2).astype(np.int64)
    units = np.repeat(np.arange(people), each)
    actions = np.repeat(rng.integers(0, 2, people), each) if sticky else rng.integers(0, 2, len(units))
    return plain_log(actions, (actions == likes[units]).astype(float), units)


def plain_log(actions, rewards, units, propensities=SAME) -> pb.Log:
    n = len(actions)
    return pb.Log.of(
        pb.Contexts.of(np.zeros((n, 0)), ids=np.zeros(n, dtype=int)),
        actions=actions,
        rewards=rewards,
        propensities=np.broadcast_to(propensities, (n, 2)),
        units=units,
    )


def shoppers(people: int, seed: int, *, most_visits: int = 4, uneven: bool = False) -> pb.Log:
    """People of an age who come one to four times, in any order; the young like the second action."""
    rng = np.random.default_rng(seed)
    units = rng.permutation(np.repeat(np.arange(people), rng.integers(1, most_visits + 1, people)))
    age = rng.integers(18, 80, people)[units]
    chance = np.full(len(units), 0.5)
    chance[::2] += 0.2 * uneven
    actions = (rng.random(len(units)) < chance).astype(np.int64)
    rewards = rng.random(len(units)) < np.where((age < 40) == (actions == 1), 0.8, 0.3)
    return pb.Log.of(
        pb.Contexts.of(age[:, None].astype(float), names=["age"]),
        actions=actions,
        rewards=rewards.astype(float),
        propensities=np.column_stack([1.0 - chance, chance]),
        units=units,
    )


def trees() -> pb.Trees:
    return pb.Trees.learn(shoppers(200, 99).contexts, n_actions=2, depth=1)


def without(log: pb.Log) -> pb.Log:
    return replace(log, units=None)


WAYS = {
    "shuffled": ({}, {}),
    "in order": ({}, {"ordered": True}),
    "rounds": ({"rounds": 3}, {}),
    "no order": ({"uneven": True}, {}),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("way", WAYS)
def test_one_visit_each_is_the_same_certificate(way):
    told, how = WAYS[way]
    log = shoppers(400, 1, most_visits=1, uneven="uneven" in told)
    if "rounds" in told:
        log = replace(log, rounds=np.arange(len(log)) * told["rounds"] // len(log))
    one, other = (pb.certify(each, trees(), **how).certificate.to_json() for each in (log, without(log)))
    assert (one.pop("units"), other.pop("units")) == (400, None)
    mine, theirs = set(one.pop("assumptions")), set(other.pop("assumptions"))
    assert (mine - theirs) & {UNITS_COME, UNITS_FIRST}
    assert not theirs & {UNITS_COME, UNITS_FIRST}
    assert one.pop("checks")[0]["log_evidence"] == other.pop("checks")[0]["log_evidence"]
    assert one == other
    young = log.contexts.features[:, 0] < 40
    policy = trees().argmax(log.contexts, np.column_stack([~young, young]).astype(float))
    worth, plain = (pb.evaluate(each, policy, **how) for each in (log, without(log)))
    assert worth.value == plain.value


def test_a_person_who_comes_three_times_alike_counts_once():
    log = shoppers(500, 2, most_visits=1, uneven=True)
    thrice = log.take(np.repeat(np.arange(len(log)), 3))
    once, again, naive = (pb.certify(each, trees(), epsilon=0.2).certificate for each in (log, thrice, without(thrice)))
    assert again.value == pytest.approx(once.value, rel=1e-9)
    assert again.certified_epsilon == once.certified_epsilon
    assert naive.certified_epsilon < 0.8 * once.certified_epsilon
    assert (again.samples, again.units, again.independent) == (1500, 500, 500)


def test_the_order_of_visits_does_not_matter_where_there_is_none():
    log, rng = shoppers(400, 3, uneven=True), np.random.default_rng(0)
    order = np.argsort(log.units, kind="stable")
    mixed = np.empty(len(log), dtype=int)
    mixed[order] = order[np.lexsort([rng.random(len(log)), log.units[order]])]
    assert not np.array_equal(mixed, np.arange(len(log)))
    assert np.array_equal(log.units[mixed], log.units)
    one, other = (pb.certify(each, trees(), epsilon=0.2).certificate for each in (log, log.take(mixed)))
    assert other.value == pytest.approx(one.value, rel=1e-9)


def test_units_are_shuffled_and_none_is_left_out():
    log = shoppers(600, 4)
    blocks, mixed = arrange(log, ordered=False)
    assert mixed
    assert len(blocks) == len(log)
    assert (np.flatnonzero(np.diff(blocks.units)) + 1).size == 599  # the visits of each follow each other
    assert blocks.round_sizes.tolist() == np.diff(planned_ends(600), prepend=0).tolist()
    assert np.isclose(blocks.weights.sum(), 600)


def first_rows(log):
    """The first row of every unit, one by one."""
    seen = set()
    return [row for row, unit in enumerate(log.units.tolist()) if not (unit in seen or seen.add(unit))]


def test_in_order_only_first_visits_count():
    log = shoppers(600, 5)
    blocks, kept = in_blocks(log), first_rows(log)
    assert np.array_equal(blocks.rewards, log.rewards[kept])
    assert blocks.round_sizes.tolist() == np.diff(np.minimum(block_ends(600), 600), prepend=0).tolist()
    assert blocks.remarks[-1].startswith(f"{len(log) - 600:,} rows of people who had come before were left out")


def test_with_rounds_only_first_visits_count():
    log = replace(shoppers(300, 6), rounds=np.repeat([0, 1, 2], 300)[: len(shoppers(300, 6))])
    kept, mixed = arrange(log, ordered=False)
    assert not mixed
    assert np.array_equal(kept.rewards, log.rewards[first_rows(log)])
    made = pb.certify(log, trees(), epsilon=0.3).certificate
    assert (made.ordered, made.rows, made.samples, made.units) == (False, len(log), 300, 300)
    assert made.any_time
    assert UNITS_FIRST in made.assumptions
    assert pb.verify(made, log, trees()).good


def fickle(people, delay, seed):
    """The first visit is better with the first action, the second one, somewhat later, far better with the other."""
    rng = np.random.default_rng(seed)
    when = np.concatenate([np.arange(people), np.arange(people) + delay + 0.5])
    order = np.argsort(when)
    units, second = np.tile(np.arange(people), 2)[order], np.repeat([False, True], people)[order]
    actions = rng.integers(2, size=len(units))
    chance = np.where(second, np.where(actions == 1, 0.9, 0.1), np.where(actions == 1, 0.4, 0.6))
    rewards = (rng.random(len(units)) < chance).astype(float)
    return plain_log(actions, rewards, units, np.full((len(units), 2), 0.5))


def test_values_do_not_go_by_how_late_in_a_block_somebody_came():
    """Visits within a block, more or fewer by its length, would make the value another number in each."""
    log = fickle(2000, 300, 1)
    firsts = pb.evaluate(log, POLICIES.policy(0), ordered=True).value
    assert firsts.low <= 0.6 <= firsts.high
    everything = pb.evaluate(log, POLICIES.policy(0)).value
    assert everything.low <= 0.35 <= everything.high
    assert not any(check.alarm for check in look(log))


@pytest.mark.thorough
@pytest.mark.parametrize("how", [{}, {"ordered": True}], ids=["shuffled", "in-order"])
def test_a_certificate_is_verified_and_none_of_its_units_can_be_changed(how):
    log = shoppers(900, 7)
    learnt = pb.learn_class("trees:depth=1", log, **how)
    made = pb.certify(log, learnt, **how).certificate
    assert made.certified_epsilon < 0.3
    assert pb.verify(made, log, learnt.policies).good
    assert made.is_of(log)
    assert pb.Certificate.from_json(made.to_json()).to_json() == made.to_json()
    assert (UNITS_FIRST in made.assumptions) == made.any_time == ("ordered" in how)
    longer = log.followed_by(shoppers(900, 8))
    assert pb.verify(made, longer, learnt.policies).good
    renamed = replace(log, units=1000 - log.units)
    assert pb.verify(made, renamed, learnt.policies).good  # whatever they are called
    joined = replace(log, units=np.where(log.units == 3, 4, log.units))
    others = [without(log), joined, replace(log, units=np.arange(len(log)))]
    faults = [" ".join(recompute(made, other, learnt.policies).faults) for other in others]
    assert all("its digest differs" in words for words in faults)
    assert "rows are of no people, and by the certificate of 900 people" in faults[0]
    assert not recompute(replace(made, units=901), log, learnt.policies).good
    assert not recompute(replace(made, units=None), log, learnt.policies).good
    with pytest.raises(pb.InputError, match="cannot be of 99,999 people"):
        pb.Certificate.from_json(made.to_json() | {"units": 99_999})


def test_whoever_taught_the_class_does_not_bet():
    log = shoppers(600, 9, uneven=True)
    learnt = pb.learn_class("trees:depth=1", log)
    rows = learnt.learning.arrange(log)
    betting = set(rows.units[rows_that_bet(rows, learnt.learning)].tolist())
    taught = list(dict.fromkeys(rows.units.tolist()))[:FIRST_BLOCK_ROWS]
    assert betting == set(log.units.tolist()) - set(taught)
    made = pb.certify(log, learnt, epsilon=0.3).certificate
    assert pb.verify(made, log, learnt.policies).good
    assert UNITS_END in made.assumptions
    assert not made.any_time


def test_what_units_do_not_go_with():
    log = shoppers(300, 10)
    with pytest.raises(pb.InputError, match="row 0 counts 2 interactions"):
        replace(log, repeats=np.full(len(log), 2))
    with pytest.raises(pb.InputError, match="takes every row for another person"):
        pb.certify_asymptotically(log, trees(), epsilon=0.1, delta=0.05, rng=0)
    with pytest.raises(pb.InputError, match="one of the two logs has units"):
        log.followed_by(without(log))
    with pytest.raises(pb.InputError, match="the first 256 people, whose rows then prove nothing, and the log has 200"):
        pb.learn_class("trees:depth=1", shoppers(200, 1))


def wealth(log: pb.Log, *, epsilon: float, stakes: tuple[float, ...]) -> float:
    """The log-wealth of one expert, who stakes so much in each round, against "the first action leads by ε"."""
    ledger = Ledger.of(log, np.full((len(log), 2), 0.5))
    against = against_one(np.ones(1, dtype=np.int64), rounds=len(stakes))
    return float(ledger.log_wealth(against, bets=np.array(stakes), share=0.9, epsilon=epsilon)[0, 0])


@pytest.mark.thorough
@pytest.mark.parametrize("sticky", [False, True])
def test_no_expert_grows_rich_by_people_who_come_back(sticky):
    """At the boundary, a gap of ε itself: wealth of people is 1 on average at most, that of rows is not."""
    runs, alpha, gap = 120, 0.1, 0.2
    logs = [visits(40, 20, seed, gap=gap, sticky=sticky) for seed in range(runs)]
    bold, shy = ([wealth(log, epsilon=gap, stakes=(stake,)) for log in logs] for stake in (0.3, 0.05))
    rows = [wealth(without(log), epsilon=gap, stakes=(0.05,)) for log in logs]
    people, rich = np.array(bold), np.log(1 / alpha)
    assert 0 < (people >= rich).sum() <= most(runs, alpha)
    assert (np.array(shy) >= rich).sum() <= most(runs, alpha)
    assert (np.array(rows) >= rich).sum() > most(runs, alpha)  # or nothing would be tested
    mean, error = np.exp(people).mean(), np.exp(people).std() / np.sqrt(runs)
    assert mean <= 1 + 3 * error
    if sticky:  # each person is one draw: nothing is lost
        assert mean >= 1 - 3 * error


def adaptive(people: int, each: int, seed: int, *, gap: float) -> pb.Log:
    """The same in order of time, each person within a few steps, where what did better so far is played more often."""
    rng = np.random.default_rng(seed)
    likes = (rng.random(people) >= 0.5 + gap / 2).astype(int)
    units = np.repeat(np.arange(people), each)[
        np.argsort(np.repeat(np.arange(people), each) + 5 * rng.random(people * each))
    ]
    actions, chances, sums = np.zeros(len(units), dtype=int), np.zeros(len(units)), np.ones((2, 2))
    draws = rng.random(len(units))
    for row, unit in enumerate(units):
        means = sums[:, 0] / sums[:, 1]
        chances[row] = 0.8 if means[1] > means[0] else 0.2
        actions[row] = draws[row] < chances[row]
        sums[actions[row]] += actions[row] == likes[unit], 1
    return plain_log(actions, (actions == likes[units]).astype(float), units, np.column_stack([1 - chances, chances]))


@pytest.mark.thorough
def test_no_expert_grows_rich_where_propensities_and_stakes_learn():
    """In order, with people who come back, and a stake in the next block that goes by what came before."""
    runs, gap, found = 60, 0.2, []
    for seed in range(runs):
        blocks = in_blocks(adaptive(300, 3, seed, gap=gap))
        assert blocks.round_sizes.tolist() == [256, 44]
        before = blocks.rewards[blocks.rounds == 0].mean()
        found.append(wealth(blocks, epsilon=gap, stakes=(0.1, 0.3 if before > 0.5 else 0.05)))
    mean, error = np.exp(found).mean(), np.exp(found).std() / np.sqrt(runs)
    assert 0.2 < mean <= 1 + 3 * error


def errs(log: pb.Log, gap: float, **how) -> bool:
    """Whether the second action is certified to be nearer to the first than it is."""
    made = pb.certify(log, POLICIES, delta=0.05, **how).certificate
    return int(made.policy(log.contexts.take(np.array([0])))[0]) == 1 and made.certified_epsilon < gap


def count_errors(runs: int, **how) -> tuple[int, int]:
    """Wrong certificates of people, and of rows, where a gap is hard to see."""
    gap, found = 0.05, [0, 0]
    for seed in range(runs):
        log = adaptive(300, 20, seed, gap=gap) if how else visits(40, 60, seed, gap=gap)
        found[0] += errs(log, gap, **how)
        found[1] += errs(without(log), gap, **how)
    return found[0], found[1]


def test_certificates_of_people_do_not_err_where_those_of_rows_do():
    people, rows = count_errors(6)
    assert people == 0
    assert rows >= 2


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"ordered": True}], ids=["shuffled", "adaptive"])
def test_certificates_of_people_err_no_more_often_than_delta_says(how):
    runs = 150
    people, rows = count_errors(runs, **how)
    assert people <= most(runs, 0.05)
    assert rows > most(runs, 0.05)  # or nothing would be tested


def covered(log: pb.Log, truth: float) -> bool:
    worth = pb.evaluate(log, POLICIES.policy(0), delta=0.1)
    return worth.value.low <= truth <= worth.value.high


@pytest.mark.thorough
@pytest.mark.parametrize("runs", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_intervals_of_values_cover(runs):
    people, rows = 0, 0
    for seed in range(runs):
        log = visits(40, 60, seed)
        people += not covered(log, 0.6)
        rows += not covered(without(log), 0.6)
    assert people <= 0.1 * runs  # far from it, as intervals hold at any stake
    assert rows >= 0.4 * runs


def test_intervals_of_people_shrink_with_people():
    widths = []
    for people, each in ((300, 2), (300, 10), (3000, 2)):
        value = pb.evaluate(visits(people, each, 1), POLICIES.policy(0)).value
        widths.append(value.high - value.low)
    assert widths[1] > 0.7 * widths[0]
    assert widths[2] < 0.5 * widths[0]


@pytest.mark.thorough
def test_people_who_come_back_are_no_cause_of_alarms():
    """Each is always given the same, and likes it or not: to one who counts rows, both look like a change."""
    logs = [visits(150, 20, seed, sticky=True) for seed in range(8)]
    assert not any(check.alarm for log in logs for check in look(log))
    ratios = [look(without(log))[1].alarm for log in logs]
    assert sum(ratios) >= 2


def test_changes_are_still_seen():
    one, other = visits(1500, 2, 1, gap=0.6), visits(1500, 2, 2, gap=-0.6)
    joined = replace(one, units=one.units).followed_by(replace(other, units=other.units + 1500))
    drift, ratio = look(joined)
    assert drift.alarm
    assert not ratio.alarm
    tilted = replace(one, propensities=np.tile([0.4, 0.6], (len(one), 1)))
    found = look(tilted)[1]
    assert found.alarm
    assert "each person counted once" in found.where
