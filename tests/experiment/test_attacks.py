"""What a hostile referee tried, as whoever keeps the database could: each is refused, or raises no more alarms."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom, kstest

import pacbandits as pb
from pacbandits.certificate import Certificate
from pacbandits.experiment import analyses, assignments
from pacbandits.experiment.assignment_records import AssignmentRequest
from pacbandits.experiment.audit import DRAWN, NOBODY_NOTED, SEED_HIDDEN, audit, read_record
from pacbandits.experiment.draws import unit_draws
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.protocol import GuardrailRule
from pacbandits.experiment.stored_rows import NEVER
from pacbandits.records import Log
from pacbandits.verifier import Verdict, recompute
from tests.experiment.cases import people, protocol
from tests.experiment.live import Played

# Leaders chosen in hindsight, once an action is withdrawn that nobody would miss.


@pytest.fixture(scope="module")
def withdrawn(tmp_path_factory):
    """An experiment from which an action was withdrawn."""
    folder = tmp_path_factory.mktemp("withdrawn")
    played = Played(folder / "e.db", {"policies": "trees:depth=2", "epsilon": 0.2})
    played.day(300)
    played.advance()
    played.experiment.withdraw("free shipping", "sold out")
    for _ in range(2):
        played.day(300)
        played.advance()
    return folder, played


@pytest.mark.thorough
def test_leaders_chosen_in_hindsight_are_refused_after_a_withdrawal_too(withdrawn, monkeypatch):
    folder, played = withdrawn
    honest = played.experiment.result()
    played.experiment.export(folder / "honest.parquet", look=honest.look)
    own = Certificate.from_json(honest.certificate)
    assert audit(read_record(folder / "honest.parquet"), own).good
    again, best = analyses.leaders_again, own.leaders.policies[-1]

    def in_hindsight(*given):
        return tuple(replace(one, leader=best) for one in again(*given))

    monkeypatch.setattr(analyses, "leaders_again", in_hindsight)
    played.experiment.advance(at_once=True)
    result = played.experiment.result()
    made = Certificate.from_json(result.certificate)
    assert made.certified_epsilon < own.certified_epsilon
    played.experiment.export(folder / "forged.parquet", look=result.look)
    log = Log.read(folder / "forged.parquet")
    assert recompute(made, made.of(log), played.experiment.protocol.trial(("free shipping",))[1]).good
    found = audit(read_record(folder / "forged.parquet"), made)
    assert any("led in the certificate by somebody else" in fault for fault in found.faults)


# A certificate that reads the export otherwise than it was recorded.


def alone(name):
    """The people, of whom one feature is known."""
    place = people().names.index(name)
    return replace(
        people(), features=people().features[:, [place]], names=(name,), categories=(people().categories[place],)
    )


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """The export of an experiment all of whose rewards are known."""
    folder = tmp_path_factory.mktemp("complete")
    played = Played(folder / "e.db", {"epsilon": 0.2})
    played.day(400)
    played.experiment.export(folder / "x.parquet", look=0)
    return folder / "x.parquet"


@pytest.mark.parametrize(
    "reading",
    [
        {"reward": "age", "reward_range": (0, 100)},
        {"reward_range": (0, 0.5), "clip": True},
        {"reward_range": (-1, 1)},
        {},
    ],
)
def test_a_certificate_of_other_rewards_than_those_recorded_is_refused(complete, tmp_path, reading):
    log, record = pb.read_log(complete, **reading)[0], read_record(complete)
    known = people() if "age" in log.contexts.names else alone("country")
    made = pb.certify(log, "trees:depth=1", contexts=known)
    pb.save_certificate(tmp_path / "proof.json", made, reading=reading)
    proof = pb.load_certificate(tmp_path / "proof.json")
    assert pb.verify(proof, proof.log(complete)).good  # the certificate by itself is right
    found = audit(record, made.certificate, log=log)
    assert found.good if not reading else any("other rows than those recorded" in fault for fault in found.faults)


def test_an_audit_takes_nothing_off_trust_that_it_does_not_show(complete):
    record = read_record(complete)
    found = audit(record, pb.certify(record.log, "trees:depth=1", contexts=people()).certificate)
    verdict = Verdict((), 1.0, ("a",), ("the class was fixed", *found.shown))
    joined = found.joined(verdict)
    assert joined.trusted == ("the class was fixed", *found.trusted)
    assert joined.checked == ("a", *found.checked)
    assert found.trusted == (SEED_HIDDEN, NOBODY_NOTED)
    assert replace(found, faults=("bad",)).joined(verdict).trusted == verdict.trusted


def test_a_claim_made_afterwards_may_leave_out_features_and_nothing_else(complete):
    log, record = pb.read_log(complete, without=["country"])[0], read_record(complete)
    made = pb.certify(log, "trees:depth=1", contexts=alone("age")).certificate
    assert audit(record, made, log=log).good
    assert not audit(record, made).good  # what it was verified on is not known
    older = replace(log, contexts=replace(log.contexts, features=log.contexts.features + 1.0))
    assert not audit(record, made, log=older).good
    assert not audit(record, replace(made, remarks=()), log=log).good


# A guardrail that takes visits for people.


def snapshot_of(who, values, rule):
    """What the guardrail is asked of: visits in their order; who: came; values: their outcomes."""
    n, seen = len(who), {}
    visits = np.array([seen.update({one: seen.get(one, -1) + 1}) or seen[one] for one in who.tolist()])
    rows = SimpleNamespace(
        rounds=np.zeros(n, dtype=np.int64),
        actions=np.zeros(n, dtype=np.int64),
        holdout=np.zeros(n, dtype=np.bool_),
        visits=visits,
        guardrail=values,
        guardrail_sequence=np.arange(n),
    )
    made = SimpleNamespace(guardrail=rule, n_actions=1, actions=("a",))
    stored, own = SimpleNamespace(protocol=made), np.ones(n, dtype=np.bool_)
    return SimpleNamespace(stored=stored, rows=Sized(rows), rounds=[None], sequence=NEVER, own=own)


class Sized(SimpleNamespace):
    def __init__(self, rows):
        super().__init__(**vars(rows))

    def __len__(self):
        return len(self.actions)


def test_people_who_come_back_raise_no_more_false_alarms():
    """40 people who come 50 times each; one in ten complains at every visit, the others never."""
    rng, rule, repetitions = np.random.default_rng(5), GuardrailRule("complaint", 0.1, 0.05), 200
    alarms = 0
    for _ in range(repetitions):
        complains = rng.random(40) < 0.1
        who = rng.permutation(np.repeat(np.arange(40), 50))
        alarms += bool(analyses.guardrail_of(snapshot_of(who, complains[who].astype(float), rule)).alarms)
    assert alarms <= binom.ppf(0.9999, repetitions, 0.05)


def test_a_guardrail_still_hears_first_visits_and_not_the_holdout():
    rule, who = GuardrailRule("complaint", 0.1, 0.05), np.repeat(np.arange(40), 5)
    asked = snapshot_of(who, np.ones(200), rule)
    found = analyses.guardrail_of(asked)
    assert found.alarms
    assert (found.tests[0].rows, found.tests[0].seen) == (40, 40)
    asked.rows.holdout = who >= 1
    assert analyses.guardrail_of(asked).tests[0].rows == 1
    assert not analyses.guardrail_of(asked).alarms


# A holdout of those whom somebody would rather not have in the trial.

PEOPLE = 120


def cheated(folder, monkeypatch, share, **options):
    """An export of an experiment whose holdout was chosen; share: of the people who were added to it."""
    stay = assignments._stay_held

    def chosen(drawn, units, known):
        held = stay(drawn, units, known)
        held[np.flatnonzero(~held)[: math.ceil(share * len(units))]] = True  # people who were not drawn
        return held

    monkeypatch.setattr(assignments, "_stay_held", chosen)
    experiment = Experiment.create(folder / "e.db", protocol(holdout=0.02, **options))
    person = {"age": 30, "country": "DE"}
    experiment.assign_many([AssignmentRequest(f"u-{n}", person) for n in range(PEOPLE)])
    return experiment


def exported(experiment, path, **options):
    experiment.export(path, look=0, **options)
    return audit(read_record(path))


def test_a_holdout_of_another_share_than_the_protocols_is_refused(tmp_path, monkeypatch):
    found = exported(cheated(tmp_path, monkeypatch, 0.35), tmp_path / "x.parquet")
    assert any("the protocol says 2 %" in fault for fault in found.faults)


@pytest.mark.parametrize("drawing", ["row", "unit"])
def test_a_single_one_who_was_held_out_by_hand_is_found_once_the_seed_is_known(tmp_path, monkeypatch, drawing):
    experiment = cheated(tmp_path, monkeypatch, 1 / PEOPLE, draws=drawing)
    quiet = exported(experiment, tmp_path / "x.parquet")
    assert quiet.good
    assert SEED_HIDDEN in quiet.trusted
    assert DRAWN not in quiet.shown
    found = exported(experiment, tmp_path / "y.parquet", reveal_seed=True)
    assert any("whom the sealed seed drew otherwise" in fault for fault in found.faults)


@pytest.mark.parametrize("drawing", ["row", "unit"])
def test_every_draw_is_computed_again_once_the_experiment_is_stopped(tmp_path, drawing):
    experiment = Experiment.create(tmp_path / "e.db", protocol(holdout=0.3, draws=drawing, visits="each"))
    person = {"age": 30, "country": "DE"}
    experiment.assign_many([AssignmentRequest(f"u-{n % 50}", person) for n in range(PEOPLE)])
    assert exported(experiment, tmp_path / "x.parquet").good
    experiment.stop("enough")
    found = exported(experiment, tmp_path / "y.parquet")
    assert found.good
    assert DRAWN in found.shown
    assert SEED_HIDDEN not in found.trusted
    record = read_record(tmp_path / "y.parquet")
    other = replace(record, seed=record.seed + 1)
    assert audit(other).faults == ("the seed that was disclosed is not the one that the protocol sealed",)


@pytest.mark.parametrize("drawing", ["row", "unit"])
def test_actions_that_were_chosen_are_found_once_the_seed_is_known(tmp_path, monkeypatch, drawing):
    monkeypatch.setattr(assignments, "choose", lambda propensities, drawn: np.full(len(drawn), 1))
    experiment = Experiment.create(tmp_path / "e.db", protocol(draws=drawing))
    experiment.assign_many([AssignmentRequest(f"u-{n}", {"age": 30, "country": "DE"}) for n in range(20)])
    assert exported(experiment, tmp_path / "x.parquet").good
    found = exported(experiment, tmp_path / "y.parquet", reveal_seed=True)
    assert found.faults == ("somebody got another action than the sealed seed drew",)


@pytest.mark.parametrize("drawing", ["row", "unit"])
def test_what_a_unit_gets_does_not_depend_on_when_it_is_asked_for(tmp_path, drawing):
    """Who knows the seed cannot wait for a draw that suits; by row, as in older protocols, they could."""
    Experiment.create(tmp_path / "a.db", protocol(draws=drawing, holdout=0.2)).close()
    shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
    person, got = {"age": 30, "country": "DE"}, []
    for name, order in (("a.db", range(40)), ("b.db", range(39, -1, -1))):
        with Experiment.open(tmp_path / name, "checkout") as experiment:
            units = [f"u-{n}" for n in order]
            made = experiment.assign_many([AssignmentRequest(unit, person) for unit in units])
            got.append({one.unit: (one.action, one.holdout) for one in made})
    assert (got[0] == got[1]) == (drawing == "unit")


def test_draws_by_unit_are_uniform_and_apart():
    marks = [n.to_bytes(16, "little") for n in range(2000)]
    drawn, later = (unit_draws(17, marks, [visit] * 2000) for visit in (0, 1))
    for values in (drawn[:, 0], drawn[:, 1], later[:, 1]):
        assert kstest(values, "uniform").pvalue > 1e-3
    assert np.abs(np.corrcoef([*drawn.T, later[:, 1]]) - np.eye(3)).max() < 0.1
    assert np.array_equal(drawn[:, 0], later[:, 0])  # the holdout is for good
    assert not np.array_equal(drawn, unit_draws(18, marks, [0] * 2000))
