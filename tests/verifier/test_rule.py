"""A certificate that claims the rule of `certify` is held to it: leaders, stakes and model follow from the log."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate import Bets, Evidence, Leaders, Ledger, make_certificate
from pacbandits.certificate.conventions import EXPERT_STAKES
from pacbandits.certificate.leaders import NOBODY
from pacbandits.confidence import LEADERS_PART
from pacbandits.rewards import CellMeans, first_model, predict_by_round
from pacbandits.verifier import recompute

TREES = "trees:contexts=300,features=3,bins=8,actions=6,competitive=2"
EPSILON, DELTA = 0.1, 0.05


@pytest.fixture(scope="module")
def case():
    """A log of eight rounds, a class that is large enough for leaders, and what `certify` makes of it."""
    problem = pb.load_problem(TREES)
    rng, log = np.random.default_rng(5), None
    design = pb.Design.uniform(problem.best_policy())
    for number in range(8):
        new = problem.interact(design, samples=400, rng=rng, round_number=number)
        log = new if log is None else log.followed_by(new)
    made = pb.certify(log, problem.policies, epsilon=EPSILON, delta=DELTA).certificate
    assert len(made.leaders.policies) > 2
    return problem.policies, log, made


def forge(case, leaders, *, multipliers=EXPERT_STAKES, scale=1.0, model=None):
    """A certificate by the real code from choices of one's own, which claims to have followed the rule."""
    policies, log, _ = case
    used = first_model(log) if model is None else model
    book = Ledger.of(log, predict_by_round(log, used))
    bets = Bets(multipliers, (scale,) * book.n_rounds)
    evidence = Evidence(
        log,
        book,
        policies,
        bets,
        EPSILON,
        DELTA,
        model=used.to_json(),
        leaders=leaders,
        part=LEADERS_PART,
        by_rule=True,
    )
    forged, _ = make_certificate(evidence, policies.argmax(log.contexts, np.zeros((len(log), policies.n_actions))))
    assert recompute(forged, log, policies).good  # figures alone do not give it away
    return forged


def test_what_certify_makes_is_derived_again(case):
    policies, log, made = case
    for single in (False, True):
        one = pb.certify(log, policies, epsilon=EPSILON, delta=DELTA, single=single).certificate
        found = pb.verify(one, log, policies)
        assert found.good
        assert "the reward model, stakes and leaders follow from the log by the rule of certify" in found.checked
        assert not any("whoever ran the trial" in words for words in one.assumptions)
        assert not any("tie" in words for words in found.trusted)
    assert made.leaders.policies


def favourite_of(case, chosen):
    """The policy of largest plain estimate on some rows (n,)."""
    policies, log, _ = case
    part = log.take(np.flatnonzero(chosen))
    gains = np.zeros((len(part), log.n_actions))
    gains[np.arange(len(part)), part.actions] = part.repeats * (part.rewards - 0.5) / part.played_propensities
    return policies.argmax(part.contexts, gains)


def led_by(case, leaders_of_rounds):
    """The leaders of certify with others in their places."""
    _, log, made = case
    leaders = Leaders(moving=made.leaders.moving)
    for own, size in zip(leaders_of_rounds, made.leaders.sizes, strict=True):
        leaders = leaders.followed_by(own, log.contexts, size=size)
    return leaders


def genuine_leaders(made):
    return [None if turn == NOBODY else made.leaders.policies[turn] for turn in made.leaders.turns]


def test_leaders_that_saw_their_own_block_are_found_out(case):
    policies, log, made = case
    seen = [None, *(favourite_of(case, log.rounds == number) for number in range(1, 8))]
    forged = forge(case, led_by(case, seen))
    assert forged.certified_epsilon < made.certified_epsilon  # or nothing would be gained
    found = pb.verify(forged, log, policies)
    assert "is not the policy that the rows before it favour" in found.faults[0]


@pytest.mark.thorough
def test_an_antedated_leader_is_found_out(case):
    """The last one, as if it had led from the beginning."""
    policies, log, made = case
    last = genuine_leaders(made)[-1]
    found = pb.verify(forge(case, led_by(case, [None, *[last] * 7])), log, policies)
    assert "is not the policy that the rows before it favour" in found.faults[0]
    early = pb.verify(forge(case, led_by(case, [last, *genuine_leaders(made)[1:]])), log, policies)
    assert "the leader of round 1 is not the policy" in early.faults[0]


@pytest.mark.thorough
@pytest.mark.parametrize("number", [4, *(pytest.param(other, marks=pytest.mark.slow) for other in (2, 7))])
def test_a_leader_of_one_round_that_is_another_is_found_out(case, number):
    """Whoever it is: one that leads later, or the worst one."""
    policies, log, made = case
    mine = genuine_leaders(made)
    worst = policies.argmax(log.contexts, -np.eye(log.n_actions)[log.actions] * log.rewards[:, None])
    found = pb.verify(forge(case, led_by(case, [*mine[:number], worst, *mine[number + 1 :]])), log, policies)
    assert f"the leader of round {number + 1} is not the policy" in found.faults[0]


@pytest.mark.slow
def test_leaders_stay_until_there_is_enough_to_choose_again_by(case):
    """A leader that is replaced between two choices, by who is best by then, was chosen with hindsight."""
    policies, log, _ = case
    finer = replace(log, rounds=np.minimum(np.arange(len(log)) * 16 // len(log), 15))
    made = pb.certify(finer, policies, epsilon=EPSILON, delta=DELTA).certificate
    fine = (policies, finer, made)
    assert pb.verify(made, finer, policies).good
    mine = genuine_leaders(made)
    kept = [i for i in range(2, 16) if made.leaders.turns[i] == made.leaders.turns[i - 1]]
    newer = {number: favourite_of(fine, finer.rounds < number) for number in kept}
    other = [n for n in kept if not np.array_equal(newer[n](finer.contexts), mine[n](finer.contexts))]
    number = other[-1]
    forged = forge(fine, led_by(fine, [*mine[:number], newer[number], *mine[number + 1 :]]))
    assert f"the leader of round {number + 1} is not" in pb.verify(forged, finer, policies).faults[0]


@pytest.mark.thorough
def test_a_tie_is_taken_on_trust_and_said():
    """Where the rows before cannot tell two policies apart, the choice may have been made with hindsight."""
    problem = pb.load_problem("trivial:contexts=400,actions=2")
    rng, log = np.random.default_rng(1), None
    for number in range(4):
        new = problem.interact(pb.Design.uniform(problem.best_policy()), samples=280, rng=rng, round_number=number)
        log = new if log is None else log.followed_by(new)
    made = pb.certify(log, problem.policies, epsilon=0.5, delta=DELTA).certificate
    assert made.leaders is not None
    assert not any("tie" in words for words in pb.verify(made, log, problem.policies).trusted)
    case = problem.policies, log, made
    mine = genuine_leaders(made)
    unseen = np.setdiff1d(np.arange(400), log.contexts.ids[log.rounds < 1])
    gains = np.zeros((400, 2))
    gains[np.arange(400), mine[1](problem.population)] = 1
    gains[unseen] = gains[unseen, ::-1]
    twin = problem.policies.argmax(problem.population, gains)
    found = pb.verify(forge(case, led_by(case, [None, twin, *mine[2:]])), log, problem.policies)
    assert found.good
    assert any("a tie between policies was broken" in words and words.endswith("round 2") for words in found.trusted)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"multipliers": (0.3, 0.1)}, "the stakes are not those that certify fixes in advance"),
        ({"scale": 0.7}, "the stakes are not those that certify fixes in advance"),
        ({"model": CellMeans()}, "the reward model is not the one that follows from the first round of the log"),
    ],
)
def test_stakes_and_models_of_ones_own_are_found_out(case, options, words):
    policies, log, made = case
    assert words in pb.verify(forge(case, made.leaders, **options), log, policies).faults


@pytest.mark.thorough
def test_a_model_of_ones_own_is_said_to_be_one(case):
    policies, log, _ = case
    made = pb.certify(log, policies, epsilon=EPSILON, delta=DELTA, model=CellMeans()).certificate
    found = pb.verify(made, log, policies)
    assert found.good
    assert found.trusted == (
        "the policy class is the one that was fixed before the log was seen",
        "the reward model was chosen before the log was seen",
    )
    assert "the reward model was chosen before the log was seen" in made.assumptions
    silent = replace(made, remarks=tuple(words for words in made.remarks if "reward model" not in words))
    assert not pb.verify(silent, log, policies).good


@pytest.mark.thorough
def test_what_a_trial_chose_is_taken_on_trust_and_said(command, tmp_path):
    proof, log = tmp_path / "proof.json", tmp_path / "log.parquet"
    spec = "trees:contexts=80,features=3,bins=4,actions=3,competitive=2"
    assert command("run", spec, "--epsilon", 0.3, "--certificate", proof, "--log", log)[0] == 0
    code, out, _ = command("verify", proof, log, "--json")
    got = json.loads(out)
    assert code == 0
    assert any("as whoever ran the trial says" in words for words in got["trusted"])
    assert any("by whoever ran the trial" in words for words in json.loads(proof.read_text())["assumptions"])
    # Claiming the rule in the place of trust is no way out.
    made = replace(pb.load_certificate(proof).certificate, by_rule=True)
    assert not pb.verify(made, pb.Log.read(log), pb.load_certificate(proof).policies).good
