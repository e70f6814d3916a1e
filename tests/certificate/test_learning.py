"""A class that is learnt from a log: from its first rows alone, which then do not bet; and learnt again by verify."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate.learning_record import MIN_LEARNING_INTERACTIONS, set_apart
from pacbandits.policies.registry import digest_class, same_class
from pacbandits.policies.trees.bins import Bins, NumberBins
from pacbandits.policies.trees.classes import Trees
from pacbandits.records.log import digest_log

SPEC = "trees:depth=1,bins=8"
ROWS = 1400


def made_log(*, seed=0, rows=ROWS, rounds=None, places=("a", "b")):
    """Action 1 is right above 40, action 0 below; places mean nothing."""
    rng = np.random.default_rng(seed)
    age, place = rng.normal(40, 10, rows), rng.integers(len(places), size=rows)
    contexts = pb.Contexts.of(np.column_stack([age, place]), names=["age", "place"], categories=[None, tuple(places)])
    actions = rng.integers(2, size=rows)
    rewards = (rng.random(rows) < np.where((age > 40) == (actions == 1), 0.9, 0.2)).astype(float)
    options = {} if rounds is None else {"rounds": np.minimum(np.arange(rows) // rounds, 9)}
    propensities = np.full((rows, 2), 0.5)
    return pb.Log.of(contexts, actions=actions, rewards=rewards, propensities=propensities, **options)


def with_features(log, features, categories=None):
    contexts = replace(log.contexts, features=features, categories=categories or log.contexts.categories)
    return replace(log, contexts=contexts)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("log", "ordered", "taught"),
    [
        (made_log(), True, MIN_LEARNING_INTERACTIONS),
        (made_log(rounds=300), False, 300),
        (made_log(rounds=100), False, 300),  # as many rounds as it takes
    ],
    ids=["ordered", "rounds", "short rounds"],
)
def test_later_rows_have_no_say_in_the_class_and_the_first_none_in_the_proof(log, ordered, taught):
    learnt = pb.learn_class(SPEC, log, ordered=ordered)
    assert learnt.learning.contexts == taught
    later = np.arange(ROWS) >= taught
    moved = np.where(later[:, None] & np.array([True, False]), 3 * log.contexts.features + 7, log.contexts.features)
    labels = (None, ("a", "b", "new"))
    codes = np.where(later & (log.contexts.features[:, 1] == 1), 2, moved[:, 1])
    other = with_features(log, np.column_stack([moved[:, 0], codes]), labels)
    assert digest_class(pb.learn_class(SPEC, other, ordered=ordered).policies) == digest_class(learnt.policies)
    made = pb.certify(log, learnt, epsilon=0.3, delta=0.05, ordered=ordered).certificate
    assert made.certified
    assert any(f"its first {taught} rows taught it, and those rows prove nothing" in one for one in made.assumptions)
    assert not any("not sorted by what it holds" in one for one in made.assumptions)
    # A model learns from the first rows, so that their rewards may change how much is proven, but they never bet.
    for expert in made.experts:
        assert not made.bets.stakes(expert)[: made.bets.spared].any()
    assert pb.verify(made, log, learnt.policies).checked[0] == (
        f"the policy class is what {SPEC} learns from the first {taught} rows of the log"
    )


def test_by_its_name_alone_is_the_same_as_learnt_before():
    log = made_log()
    learnt = pb.learn_class(SPEC, log)
    one, two = (pb.certify(log, given, epsilon=0.3, delta=0.05).certificate for given in (SPEC, learnt))
    assert one.to_json() == two.to_json()


def test_contexts_of_before_spare_no_rows_and_can_be_asked_for_again():
    log, before = made_log(), made_log(seed=1, rows=90).contexts
    learnt = pb.learn_class(SPEC, log, contexts=before)
    made = pb.certify(log, SPEC, contexts=before, epsilon=0.3, delta=0.05).certificate
    assert made.bets.spared == 0
    assert any("learnt from 90 contexts (digest" in words for words in made.assumptions)
    plain = pb.verify(made, log, learnt.policies)
    assert plain.good
    assert "from the contexts that it says" in plain.trusted[0]
    assert pb.verify(made, log, learnt.policies, contexts=before).checked[0].endswith("learns from 90 contexts")
    other = pb.verify(made, log, learnt.policies, contexts=made_log(seed=2, rows=90).contexts)
    assert other.faults == ("the policy class was learnt from other contexts than the certificate says",)


def hollow(policies):
    """A class of the same size whose cuts lie beyond all data, so that all its policies act alike."""
    features = tuple(
        NumberBins(one.name, tuple(1e6 + np.arange(len(one.thresholds)))) if isinstance(one, NumberBins) else one
        for one in policies.bins.features
    )
    return Trees(Bins(features), n_actions=policies.n_actions, depth=policies.depth)


@pytest.mark.parametrize("claim", ["first rows", "contexts"])
def test_a_hollow_class_is_found_out_where_it_claims_to_have_been_learnt(claim):
    log, before = made_log(), None if claim == "first rows" else made_log(seed=1).contexts
    empty = hollow(pb.learn_class(SPEC, log, contexts=before).policies)
    forged = pb.certify(
        log,
        pb.LearntClass(empty, pb.learn_class(SPEC, log, contexts=before).learning),
        epsilon=0.3,
        delta=0.05,
    ).certificate
    assert forged.certified  # among policies that all act alike the best is soon found
    found = pb.verify(forged, log, empty, contexts=before)
    where = "the first 256 rows of the log" if before is None else "the contexts"
    assert found.faults == (f"the policy class is not what {SPEC} learns from {where}",)


@pytest.mark.thorough
def test_a_hollow_class_that_claims_to_be_fixed_shows_itself_and_is_not_what_a_reader_expects(command, tmp_path):
    log = made_log()
    log.write(tmp_path / "log.parquet")
    empty = hollow(pb.learn_class(SPEC, log).policies)
    pb.save_certificate(tmp_path / "proof.json", pb.certify(log, empty, epsilon=0.3, delta=0.05).certificate, empty)
    code, out, _ = command("verify", tmp_path / "proof.json", tmp_path / "log.parquet")
    assert code == 0
    assert "age ≤ 1e+06, " in out
    said = " ".join(out.split())
    assert "all rows answer 7 of these 7 questions alike" in said
    assert "the policy class is the one that was fixed before the log was seen" in said.split("taken on trust")[1]
    code, out, _ = command("verify", tmp_path / "proof.json", tmp_path / "log.parquet", "--policies", SPEC)
    assert code == 3
    assert f"the policy class is not {SPEC} for the first rows of the log, which was expected" in " ".join(out.split())
    honest = pb.learn_class(SPEC, log).policies
    assert pb.verify(pb.certify(log, empty, epsilon=0.3, delta=0.05).certificate, log, honest).faults[0] == (
        "the policy class is not the one that was certified: its digest differs"
    )


def test_rows_that_taught_must_not_bet():
    log = made_log()
    learnt = pb.learn_class(SPEC, log)
    made = pb.certify(log, learnt, epsilon=0.3, delta=0.05).certificate
    cut = set_apart(log)
    betting = replace(made, bets=replace(made.bets, spared=0), digest=digest_log(cut))
    assert "must not bet" in " ".join(pb.verify(betting, log, learnt.policies).faults)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (made_log(rows=256), "learnt from the first 256 interactions, which then prove nothing, and the log has 256"),
        (made_log(rows=900, rounds=700).take(np.arange(700)), "the log has 700"),
        (replace(made_log(), repeats=np.full(ROWS, 2)), "its first rows are no sample"),
    ],
    ids=["short", "one round", "counted"],
)
def test_where_nothing_would_be_left_or_first_means_nothing_contexts_are_asked_for(log, words):
    if "700" in words:
        log = replace(log, rounds=np.where(np.arange(700) < 100, 0, 1))
    with pytest.raises(pb.InputError, match=words) as caught:
        pb.certify(log, SPEC, epsilon=0.3, delta=0.05)
    assert "contexts=…" in str(caught.value)


def test_a_class_that_learns_nothing_spares_nothing():
    problem = pb.load_problem("trivial:contexts=3,actions=2")
    log = pb.run(problem, algorithm="uniform", epsilon=0.3, delta=0.1, rng=0).log
    made = pb.certify(log, "trivial", epsilon=0.4, delta=0.1).certificate
    assert made.bets.spared == 0
    assert made.learning is None
    with pytest.raises(pb.InputError, match="contexts are for a class that is given by its name"):
        pb.certify(log, problem.policies, contexts=log.contexts, epsilon=0.4, delta=0.1)


@pytest.mark.thorough
def test_linear_classes_are_learnt_again_to_rounding():
    log = made_log(rows=1500)
    learnt = pb.learn_class("linear:levels=1", log)
    made = pb.certify(log, learnt, epsilon=0.5, delta=0.1).certificate
    assert pb.verify(made, log, learnt.policies).good
    described = learnt.policies.to_json()
    encoder = described["map"]["encoders"][0]
    near, far = (dict(encoder) | {"centre": encoder["centre"] * (1 + off)} for off in (1e-12, 1e-6))
    for other, same in ((near, True), (far, False)):
        changed = described | {"map": described["map"] | {"encoders": [other, *described["map"]["encoders"][1:]]}}
        assert same_class(pb.Linear.from_json(changed), learnt.policies) is same
