"""A certificate that claims the rule of `certify` is held to it: names, stakes and model follow from the log."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate import Bets, Evidence, Ledger, Naming, make_certificate
from pacbandits.certificate import verify as recompute
from pacbandits.certificate.conventions import EXPERT_STAKES
from pacbandits.rewards import CellMeans, first_model, predict_by_round

TREES = "trees:contexts=300,features=3,bins=8,actions=6,competitive=2"
EPSILON, DELTA = 0.1, 0.05


@pytest.fixture(scope="module")
def case():
    """A log of eight rounds, a class whose policies are named, and what `certify` makes of it."""
    problem = pb.load_problem(TREES)
    rng, log = np.random.default_rng(5), None
    design = pb.Design.uniform(problem.best_policy())
    for number in range(8):
        new = problem.interact(design, samples=400, rng=rng, round_number=number)
        log = new if log is None else log.followed_by(new)
    made = pb.certify(log, problem.policies, epsilon=EPSILON, delta=DELTA)
    assert made.bets.naming is not None
    return problem.policies, log, made


def forge(case, policy, *, naming, multipliers=EXPERT_STAKES, scale=1.0, model=None):
    """A certificate by the real code from choices of one's own, which claims to have followed the rule."""
    policies, log, _ = case
    used = first_model(log) if model is None else model
    book = Ledger.of(log, predict_by_round(log, used))
    evidence = Evidence(log, book, policies, EPSILON, DELTA, model=used.to_json(), reserved=True, by_rule=True)
    bets = Bets(multipliers, (scale,) * book.n_rounds, naming=naming)
    forged, _ = make_certificate(evidence, policy, bets)
    assert recompute(forged, log, policies).good  # figures alone do not give it away
    return forged


def test_what_certify_makes_is_derived_again(case):
    policies, log, made = case
    found = pb.verify(made, log, policies)
    assert found.good
    assert "the reward model, stakes and names follow from the log by the rule of certify" in found.checked
    assert not any("whoever ran the trial" in words for words in made.assumptions)


def test_an_antedated_name_is_found_out(case):
    """It would pay as if it had been named first and be tested by nearly all rows: much more than is proven."""
    policies, log, made = case
    first = forge(case, made.policy, naming=Naming(1, 1))
    assert first.certified_epsilon < 0.95 * made.certified_epsilon or made.bets.naming == Naming(1, 1)
    found = pb.verify(first, log, policies)
    assert not found.good
    assert "before round 2" in found.faults[0]
    never = forge(case, made.policy, naming=Naming(made.bets.naming.round, made.bets.naming.number + 1))
    assert "no policy was named as number" in pb.verify(never, log, policies).faults[0]


def test_another_policy_under_a_genuine_name_is_found_out(case):
    policies, log, made = case
    naming = made.bets.naming
    other = policies.argmax(log.contexts, np.random.default_rng(0).random((len(log), policies.n_actions)))
    found = pb.verify(forge(case, other, naming=naming), log, policies)
    assert found.faults == (
        f"the policy that was named as number {naming.number} before round {naming.round + 1} is another one",
    )


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
    assert words in pb.verify(forge(case, made.policy, naming=None, **options), log, policies).faults


def test_a_model_of_ones_own_is_said_to_be_one(case):
    policies, log, _ = case
    made = pb.certify(log, policies, epsilon=EPSILON, delta=DELTA, model=CellMeans())
    found = pb.verify(made, log, policies)
    assert found.good
    assert found.trusted == (
        "the policy class is the one that was fixed before the log was seen",
        "the reward model was chosen before the log was seen",
    )
    assert "the reward model was chosen before the log was seen" in made.assumptions
    silent = replace(made, remarks=tuple(words for words in made.remarks if "reward model" not in words))
    assert not pb.verify(silent, log, policies).good


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
