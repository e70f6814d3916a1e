"""Rows without an order: those that teach a class are chosen by their contents, so that no file chooses them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import pacbandits as pb
from pacbandits.certificate import learning as learning_module
from pacbandits.certificate import learning_record
from pacbandits.certificate.certificate import UNITS_END
from pacbandits.certificate.certify import Request, certify, certify_survey
from pacbandits.certificate.content_order import order_by_content, row_digests, sorted_by_content
from pacbandits.certificate.learning_record import Learning
from pacbandits.certificate.survey import LogInMemory
from pacbandits.engines import LogSource
from pacbandits.policies.registry import digest_class, load_policies
from pacbandits.records.log import digest_contexts, digest_log
from pacbandits.records.row_order import COUNTED_ROWS
from pacbandits.verifier import order as order_again
from pacbandits.verifier.content_order import digests_of, log_by_content
from tests.certificate.summed.cases import Scattered
from tests.certificate.test_content_order import always_the_first

SPEC = "trees:depth=1,bins=8"
TAUGHT = 256
ASKED = {"epsilon": 0.3, "delta": 0.1}
ENGINES = [None, "threads"]


def varied(n=800, seed=0, **columns):
    """A log of two actions with varying propensities, in whole ages and one of two places; few rows are distinct."""
    rng = np.random.default_rng(seed)
    age, place = rng.integers(20, 60, n), rng.integers(0, 2, n)
    chance = np.where(age + 10 * place > 42, 0.65, 0.4)
    actions = (rng.random(n) < chance).astype(np.int64)
    rewards = (rng.random(n) < np.where((age > 40) == (actions == 1), 0.9, 0.2)).astype(float)
    people = pb.Contexts.of(np.column_stack([age, place]), names=["age", "place"], categories=[None, ("a", "b")])
    propensities = np.column_stack([1.0 - chance, chance])
    return pb.Log.of(people, actions=actions, rewards=rewards, propensities=propensities, **columns)


def with_people():
    return varied(1000, units=np.random.default_rng(5).integers(0, 600, 1000))


def with_metrics():
    harm = (np.random.default_rng(6).random((800, 1)) < 0.2).astype(float)
    return varied(metrics=["harm 0 1"], metric_values=harm)


def played_alone():
    log = varied(1200)
    options = {"played": log.played_propensities, "least": np.full((1200, 2), 0.25), "rewards": log.rewards}
    return pb.Log.of_played(log.contexts, actions=log.actions, **options)


def waiting():
    """Rewards that were known in any of three rounds, or not at all: rows may differ in that alone."""
    rng, log = np.random.default_rng(7), varied(1000)
    out = rng.random(1000) < 0.01
    known = np.where(out, -1, rng.integers(1, 4, 1000))
    return replace(log, rewards=np.where(out, np.nan, log.rewards), known=known)


KINDS = {
    "plain": varied,
    "people": with_people,
    "metrics": with_metrics,
    "minimum propensities": played_alone,
    "late rewards": waiting,
}


def permuted(log):
    """The log in other orders: at random, turned round, and sorted so that the first rows are of one kind."""
    ages = log.contexts.features[:, 0]
    orders = (
        np.random.default_rng(1).permutation(len(log)),
        np.arange(len(log))[::-1],
        np.lexsort([log.rewards, ages]),
    )
    return [log.take(order) for order in orders]


def as_text(made):
    return json.dumps(made.certificate.to_json())


@cache
def genuine(engine):
    log = varied()
    return log, pb.certify(log, SPEC, engine=engine, **ASKED)


@pytest.mark.first(2)
@pytest.mark.parametrize("kind", KINDS)
def test_any_permutation_of_the_file_gives_the_same_certificate(kind):
    log = KINDS[kind]()
    made = pb.certify(log, SPEC, **ASKED)
    assert made.certificate.learning.by_content
    assert not made.certificate.summed
    assert made.certificate.certified_epsilon < 0.5
    for other in permuted(log):
        again = pb.certify(other, SPEC, **ASKED)
        assert as_text(again) == as_text(made)
        assert digest_class(again.policies) == digest_class(made.policies)
        assert again.worth.value == made.worth.value
        assert made.certificate.is_of(other)
        assert pb.verify(made.certificate, other).good
    assert not made.certificate.any_time


@pytest.mark.first(1)
@pytest.mark.parametrize("columns", [{}, {"metrics": ["harm 0 1"], "metric_values": np.arange(800)[:, None] % 2}])
def test_any_permutation_gives_the_same_certificate_by_sums(columns):
    log = varied(**columns)
    made = pb.certify(log, SPEC, engine="threads", **ASKED)
    assert made.certificate.summed
    assert made.certificate.digest.startswith("content:")
    in_memory = pb.certify(log, SPEC, **ASKED).certificate
    assert made.certificate.learning == in_memory.learning
    assert made.certificate.class_digest == in_memory.class_digest
    assert made.certificate.value == pytest.approx(in_memory.value, abs=1e-6)
    for other in permuted(log):
        again = certify(LogSource(other), SPEC, engine=Scattered(3), **ASKED)
        assert again.to_json() == made.certificate.to_json()
        assert made.certificate.is_of(other)
        assert pb.verify(made.certificate, other).good
        assert pb.verify(made.certificate, LogSource(other), engine="threads").good


def test_any_permutation_of_the_lines_of_a_file_gives_the_same_certificate(tmp_path):
    log = varied()
    places = pa.array(np.array(["b", "a"])[log.contexts.features[:, 1].astype(int)])
    table = pa.table(
        {
            "age": log.contexts.features[:, 0],
            "place": places,
            "arm": np.array(["old", "new"])[log.actions],
            "click": log.rewards,
            "chance": log.played_propensities,
        }
    )
    how = {"action": "arm", "reward": "click", "propensity": "chance", **ASKED}
    found = set()
    for number, order in enumerate([np.arange(800), np.argsort(log.contexts.features[:, 0], kind="stable")]):
        pa.csv.write_csv(table.take(order), tmp_path / f"{number}.csv")
        for engine in ENGINES:
            made = pb.certify(str(tmp_path / f"{number}.csv"), SPEC, engine=engine, **how)
            assert made.certificate.learning.by_content
            found.add((engine, as_text(made)))
    assert len(found) == len(ENGINES)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_rows_by_content_teach_and_do_not_bet(engine):
    log, made = genuine(engine)
    c, rows = made.certificate, sorted_by_content(log)
    known = rows.contexts.take(np.arange(TAUGHT)).with_labels_seen()
    known = replace(known, weights=np.full(TAUGHT, 1 / TAUGHT))
    assert c.learning == Learning(SPEC, TAUGHT, digest_contexts(known), 1, in_order=False, by_content=True)
    assert digest_class(load_policies(SPEC, known, n_actions=2)) == c.class_digest
    assert c.bets.spared == 1
    assert not any(c.bets.stakes(expert)[0] for expert in range(len(c.bets)))


def test_what_the_rows_that_taught_earned_proves_nothing():
    log = varied()
    learnt = pb.learn_class(SPEC, log)
    read = LogInMemory.arranged(log, ordered=False, shuffle=False).set_apart(learnt.learning)
    made = certify_survey(read, learnt, Request(policies=SPEC, **ASKED)).certificate
    others = np.where(read.facts.rounds == 0, 1.0 - read.facts.rewards, read.facts.rewards)
    turned = replace(read, facts=replace(read.facts, rewards=others))
    again = certify_survey(turned, learnt, Request(policies=SPEC, **ASKED)).certificate
    assert again.policy.describe() == made.policy.describe()
    assert again.value == pytest.approx(made.value, abs=1e-9)
    betting = replace(
        read.facts, rewards=np.where(read.facts.rounds == 1, 1.0 - read.facts.rewards, read.facts.rewards)
    )
    other = certify_survey(replace(read, facts=betting), learnt, Request(policies=SPEC, **ASKED)).certificate
    assert other.policy.describe() != made.policy.describe()


def test_a_sorted_file_does_not_choose_the_class():
    """Sorted so that the first 256 rows have one place and few ages: by the first rows they would be all it knows."""
    log = varied(2000)
    bad = log.take(np.lexsort([log.contexts.features[:, 0], log.contexts.features[:, 1]]))
    first = bad.contexts.take(np.arange(TAUGHT))
    assert len(np.unique(first.features[:, 1])) == 1
    learnt = [pb.learn_class(SPEC, one) for one in (log, bad, *permuted(log))]
    assert len({digest_class(one.policies) for one in learnt}) == 1
    assert len({one.learning for one in learnt}) == 1
    assert digest_class(learnt[0].policies) != digest_class(load_policies(SPEC, first, n_actions=2))


def test_a_file_cannot_hide_rows_among_those_that_teach(monkeypatch):
    """Rows that speak against a policy, which is worse by 0.1, stand first: there they would prove nothing."""
    rng = np.random.default_rng(3)
    n, chance = 1000, rng.choice([0.45, 0.55], 1000)
    actions = (rng.random(n) < chance).astype(np.int64)
    rewards = (rng.random(n) < 0.45 + 0.1 * actions).astype(float)
    propensities = np.column_stack([1 - chance, chance])
    log = pb.Log.of(pb.Contexts.of(rng.random((n, 2))), actions=actions, rewards=rewards, propensities=propensities)
    against = np.argsort(np.where(actions == 0, 1.0, -1.0) * (rewards - 0.5), kind="stable")
    against[TAUGHT:] = np.sort(against[TAUGHT:])
    arranged = log.take(against)
    monkeypatch.setattr("pacbandits.certificate.survey.find_favourite", always_the_first)
    honest, chosen = (pb.certify(one, "trees:depth=1").certificate for one in (log, arranged))
    assert chosen.to_json() == honest.to_json()
    assert honest.certified_epsilon > 0.1
    for module in (learning_module, learning_record):
        monkeypatch.setattr(module, "sorted_by_content", lambda given: given)
    forged = pb.certify(arranged, "trees:depth=1")
    assert forged.certificate.certified_epsilon < 0.1  # a lie, or nothing is tested
    assert not pb.verify(forged.certificate, arranged, forged.policies).good


@pytest.mark.parametrize("engine", ENGINES)
def test_verify_derives_the_rows_that_taught_again_and_says_so(engine):
    log, made = genuine(engine)
    found = pb.verify(made.certificate, log, made.policies)
    assert found.good
    assert "in the order of their contents, whatever their order in the file" in found.checked[0]
    assert not any("stand first" in words for words in (*found.trusted, *made.certificate.assumptions))
    assert any("chosen by a digest of their contents" in words for words in made.certificate.assumptions)
    assert UNITS_END in made.certificate.assumptions
    grown = pb.verify(made.certificate, log.followed_by(varied(seed=8)), made.policies)
    assert grown.good
    assert any("planned to end there" in words for words in grown.trusted)


@pytest.mark.first(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_verify_refuses_a_change_of_how_rows_were_chosen(engine, monkeypatch):
    log, made = genuine(engine)
    c = made.certificate
    dropped = replace(c, learning=replace(c.learning, by_content=False))
    assert "digest differs" in pb.verify(dropped, log, made.policies).faults[0]
    assert pb.Certificate.from_json(dropped.to_json()).learning.by_content is False
    ordered = pb.certify(log, SPEC, engine=engine, ordered=True, **ASKED)
    added = replace(ordered.certificate, learning=replace(ordered.certificate.learning, by_content=True))
    assert not pb.verify(added, log, ordered.policies).good
    with monkeypatch.context() as forger:
        forger.setattr("pacbandits.certificate.summed.arrangement.order_items", lambda words: np.arange(len(words)))
        for module in (learning_module, learning_record):
            forger.setattr(module, "sorted_by_content", lambda given: given)
        forged = pb.certify(log, SPEC, engine=engine, **ASKED)
    assert not pb.verify(forged.certificate, log, forged.policies).good


def test_by_the_rule_of_earlier_versions_a_certificate_says_what_it_trusts():
    """Its file stands in the order of its contents, so that both rules find the same rows: then both are true."""
    log = varied()
    made = pb.certify(sorted_by_content(log), SPEC, **ASKED)
    old = replace(made.certificate, learning=replace(made.certificate.learning, by_content=False), checks=())
    found = pb.verify(old, sorted_by_content(log), made.policies)
    assert found.good
    assert any("which rows stand first in the file" in words for words in found.trusted)
    assert any("not sorted by what it holds" in words for words in old.assumptions)
    assert not pb.verify(old, permuted(log)[0], made.policies).good


@pytest.mark.parametrize("changed", [{"in_order": True}, {"spared": 2}, {"by_content": 1}, {"spared": 0}])
def test_a_file_that_contradicts_itself_is_refused(changed):
    told = genuine(None)[1].certificate.to_json()
    with pytest.raises(pb.InputError, match=r"contents|takes spec"):
        pb.Certificate.from_json({**told, "learning": {**told["learning"], **changed}})
    with pytest.raises(pb.InputError, match="the rows have an order"):
        pb.Certificate.from_json({**told, "ordered": True})


def test_where_it_does_not_apply_nothing_is_recorded():
    log = varied()
    fixed = replace(log, propensities=np.full((800, 2), 0.5))
    before = varied(300, seed=9).contexts
    rounds = replace(log, rounds=np.arange(800) // 300)
    others = [
        (log, {"ordered": True}),
        (log, {"shuffle": True}),
        (fixed, {}),
        (rounds, {}),
        (log, {"contexts": before}),
    ]
    for rows, how in others:
        made = pb.certify(rows, SPEC, **how, **ASKED).certificate
        assert "by_content" not in made.to_json()["learning"]
        assert UNITS_END not in made.assumptions


def test_rows_of_counted_blocks_keep_their_order():
    log = replace(played_alone(), remarks=(COUNTED_ROWS,))
    learnt = pb.learn_class(SPEC, log)
    assert not learnt.learning.by_content
    made = pb.certify(log, learnt, **ASKED).certificate
    assert pb.verify(made, log, learnt.policies).good
    sorted_log = sorted_by_content(log)
    forged = pb.certify(sorted_log, pb.learn_class(SPEC, sorted_log), **ASKED).certificate
    forged = replace(forged, learning=replace(forged.learning, by_content=True))
    assert "were counted" in " ".join(pb.verify(forged, sorted_log, learnt.policies).faults)


def test_a_change_along_the_file_is_a_remark_that_no_certificate_records():
    log = varied()
    mixed = permuted(log)[2]
    made = pb.certify(mixed, SPEC, **ASKED).certificate
    assert made.along_file.remark
    assert not made.alarms
    assert made.told[0].describe().startswith("rows differ along the file")
    assert pb.certify(log, SPEC, **ASKED).certificate.along_file.found is False


def test_a_mismatch_is_an_alarm_in_any_order():
    rng, log = np.random.default_rng(3), varied(1500)
    kept = log.take(np.flatnonzero((log.actions == 0) | (rng.random(1500) < 0.3)))
    made = pb.certify(kept, SPEC, **ASKED)
    assert made.certificate.alarms
    hidden = replace(made.certificate, checks=genuine(None)[1].certificate.checks)
    for rows in (kept, permuted(kept)[0]):
        assert pb.verify(made.certificate, rows, made.policies).good
        assert "does not tell of signs" in " ".join(pb.verify(hidden, rows, made.policies).faults)


def test_when_a_reward_was_known_is_part_of_a_rows_contents():
    log = waiting()
    later = replace(log, known=np.where(log.known > 0, log.known + 1, log.known))
    assert np.array_equal((row_digests(later) != row_digests(log)).any(axis=1), log.known > 0)
    for one in (log, later):
        assert np.array_equal(digests_of(one), row_digests(one))
    assert digest_log(sorted_by_content(log)) == digest_log(log_by_content(permuted(log)[0]))


def test_the_verifier_orders_by_its_own_code(monkeypatch):
    log, made = genuine(None)
    monkeypatch.setattr(order_again, "log_by_content", lambda given: given)
    assert not pb.verify(made.certificate, log, made.policies).good


@pytest.mark.thorough
def test_an_approximate_certificate_is_the_same_for_any_permutation():
    log = varied()
    asked = {"epsilon": 0.2, "delta": 0.1, "rng": 1, "draws": 50}
    made = pb.certify_asymptotically(log, SPEC, **asked)
    assert made.learning.by_content
    assert not made.ordered
    for other in permuted(log):
        assert pb.certify_asymptotically(other, SPEC, **asked).to_json() == made.to_json()
        assert pb.certify_asymptotically(other, pb.learn_class(SPEC, other), **asked).to_json() == made.to_json()


@pytest.mark.thorough
def test_each_row_teaches_as_often_as_any_other():
    """Of many logs, the share of rewards among the rows that teach varies as of a random subset."""
    scores = []
    for seed in range(300):
        log = varied(600, seed)
        order = order_by_content(log)
        first, share = log.rewards[order[:TAUGHT]], log.rewards.mean()
        scores.append((first.mean() - share) / np.sqrt(share * (1 - share) / TAUGHT * (600 - TAUGHT) / 599))
    assert abs(np.mean(scores)) < 4 / np.sqrt(300)
    assert np.var(scores) == pytest.approx(1.0, abs=0.35)


@pytest.mark.first(3)
@pytest.mark.parametrize("first", [{}, {"ordered": True}, {"shuffle": True}])
@pytest.mark.parametrize("then", [{}, {"ordered": True}, {"shuffle": True}])
def test_a_class_learnt_in_another_order_is_refused(first, then, tmp_path):
    log = varied()
    learnt = pb.learn_class(SPEC, log, **first)
    if first != then:
        words = "without an order.*learn it" if bool(first) != bool(then) else "other rows than the first of this log"
        with pytest.raises(pb.InputError, match=words):
            pb.certify(log, learnt, **ASKED, **then)
        with pytest.raises(pb.InputError, match=words):
            pb.certify_asymptotically(log, learnt, **ASKED, rng=0, draws=20, **then)
    else:
        made = pb.certify(log, learnt, **ASKED, **then)
        made.save(tmp_path / "proof.json")
        assert pb.verify(pb.load_certificate(tmp_path / "proof.json"), log, learnt.policies).good


@pytest.mark.first(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_class_learnt_from_another_log_is_refused(engine):
    log = varied()
    for other in (varied(seed=9), log.take(np.arange(700))):
        with pytest.raises(pb.InputError, match="other rows than the first of this log"):
            pb.certify(log, pb.learn_class(SPEC, other), engine=engine, **ASKED)


def better_by_a_tenth(rounds):
    """A log in which action 1 is better by 0.1, with the rows that show it last, in the file and not in time."""
    rng, n = np.random.default_rng(0), 4000
    chance = np.where(rng.random(n) < 0.5, 0.45, 0.55)
    actions = (rng.random(n) < chance).astype(np.int64)
    rewards = (rng.random(n) < 0.5 + 0.1 * actions).astype(float)
    last = list[np.ndarray]()
    for number in np.unique(rounds):
        for action, reward in ((1, 1.0), (0, 0.0)):
            found = np.flatnonzero((actions == action) & (rewards == reward) & (rounds == number))
            last.append(rng.choice(found, len(found) * 2 // 5, replace=False))
    order = np.concatenate([np.setdiff1d(np.arange(n), np.concatenate(last)), *last])
    people = pb.Contexts.of(rng.random((n, 1)), names=["x"])
    log = pb.Log.of(
        people, actions=actions, rewards=rewards, propensities=np.column_stack([1 - chance, chance]), rounds=rounds
    )
    return log.take(order), n - sum(map(len, last))


@pytest.mark.parametrize("first_round", [0, 600])
def test_a_chosen_beginning_of_a_file_without_an_order_is_taken_on_trust(first_round):
    whole, kept = better_by_a_tenth((np.arange(4000) >= first_round).astype(np.int64))
    policies = load_policies("trees:depth=1,bins=4", varied().contexts, n_actions=2) if not first_round else None
    given = pb.learn_class("trees:depth=1,bins=4", whole, contexts=whole.contexts.take(np.arange(300)))
    made = pb.certify(whole.take(np.arange(kept)), given.policies)
    assert policies is None or made.certificate.learning is None
    assert not made.certificate.alarms
    assert made.certificate.certified_epsilon < 0.1  # of a policy that plays action 0: false
    assert made.certificate.policy(whole.contexts).mean() == 0
    verdict = pb.verify(made.certificate, whole, given.policies)
    assert not any("gone on since" in words for words in verdict.checked)
    assert any("nobody chose by rewards which rows stand first" in words for words in verdict.trusted)


def test_rows_of_the_first_rounds_came_first_wherever_they_stand_in_the_file():
    log = replace(varied(), rounds=np.arange(800) // 200)
    given = pb.learn_class(SPEC, log, contexts=varied(300, seed=9).contexts).policies
    made = pb.certify(log.take(np.arange(600)), given, **ASKED)
    verdict = pb.verify(made.certificate, log, given)
    assert any("gone on since" in words for words in verdict.checked)
    assert not any("gone on since" in words for words in verdict.trusted)


def test_without_an_order_no_ratio_is_compared_with_a_number_from_the_rows_that_teach():
    """Rewards of these rows may follow from rows that bet, as far as anyone knows."""
    rng = np.random.default_rng(3)
    values = np.column_stack([0.5 * rng.random(1500), rng.random(1500) < 0.8]).astype(float)
    log = varied(1500, metrics=["revenue/orders 0 1 0 1"], metric_values=values)
    found = [pb.certify(log, SPEC, engine=engine, **ASKED).worth.metrics for engine in ENGINES]
    for one, other in zip(*found, strict=True):
        assert (one.value.low, one.value.high) == pytest.approx((other.value.low, other.value.high), abs=1e-6)
