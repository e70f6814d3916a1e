"""An experiment from its first person to what is served in the end: withdrawals, claims, workers, databases."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from benchmarks.trials import People, drive_experiment, simulate

import pacbandits as pb
from pacbandits.certificate import Certificate
from pacbandits.confidence import withdrawal_part
from pacbandits.errors import InputError
from pacbandits.experiment import database as tables
from pacbandits.experiment import rounds
from pacbandits.experiment.audit import audit, read_record
from pacbandits.experiment.database import Database
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.rounds import Deployed, LiveDesign, live, live_from_json, without
from pacbandits.records import Design
from pacbandits.records.design import Sparing
from pacbandits.rewards import CachedModel, default_model
from pacbandits.trials.coda import MAX_POOLED_POLICIES, NoisyDesign, heaviest, variances
from pacbandits.verifier import recompute as verify
from tests.experiment.cases import people, protocol
from tests.experiment.live import Played
from tests.rewards.logs import uniform_log

YOUNG, OLD = {"age": 25, "country": "DE"}, {"age": 70, "country": "AT"}


def play_to_the_end(played, *, days=30, people=200):
    for _ in range(days):
        played.day(people)
        if played.advance()["state"] == "certified":
            return
    raise AssertionError("it was to be certified")


def check_export(played, path):
    """The certificate of an experiment, after it and its record were rechecked from the export."""
    played.experiment.export(path)
    certificate = Certificate.from_json(played.experiment.result().certificate)
    withdrawn = played.experiment.status().to_json()["withdrawn"]
    policies = played.experiment.protocol.trial(tuple(withdrawn))[1]
    assert verify(certificate, pb.Log.read(path), policies).faults == ()
    assert audit(read_record(path), certificate).faults == ()
    return certificate


def test_what_is_certified_is_served(tmp_path):
    played = Played(tmp_path / "e.db", {"epsilon": 0.15})
    play_to_the_end(played)
    given = played.day(300)
    assert {one.round for one in given} == {played.experiment.status().to_json()["round"]["number"]}
    payload = played.experiment.payload()
    assert payload["kind"] == "deployed"
    policy = live_from_json(payload["sampler"])
    assert isinstance(policy, Deployed)
    young = played.experiment.assign(YOUNG, unit="somebody young")
    assert young.action == "discount"
    assert young.propensity == young.propensities["discount"] > 0.5
    certificate = check_export(played, tmp_path / "x.parquet")
    assert certificate.certified
    assert certificate.delta == pytest.approx(0.05 * withdrawal_part(3, 0))
    before = played.experiment.result().to_json()
    played.advance()
    assert played.experiment.result().to_json()["certified"] == before["certified"]


@pytest.mark.thorough
def test_an_action_is_withdrawn_at_once_and_the_claim_does_without_it(tmp_path):
    played = Played(tmp_path / "e.db", {"epsilon": 0.15})
    played.day(150)
    played.experiment.withdraw("discount", "sold out")
    given = played.day(150)
    assert "discount" not in {one.action for one in given}
    assert {one.propensities["discount"] for one in given} == {0.0}
    play_to_the_end(played)
    certificate = check_export(played, tmp_path / "x.parquet")
    assert certificate.delta == pytest.approx(0.05 * withdrawal_part(3, 1))
    everybody = played.experiment.protocol.contexts
    assert "discount" not in certificate.words
    assert (certificate.policy(everybody) != 1).all()
    assert "discount" not in {one.action for one in played.day(100)}


@pytest.mark.thorough
def test_withdrawing_after_the_end_begins_again(tmp_path):
    played = Played(tmp_path / "e.db")
    play_to_the_end(played)
    played.experiment.withdraw("discount", "it does harm")
    assert played.experiment.status().state == "collecting"
    assert "discount" not in {one.action for one in played.day(200)}
    play_to_the_end(played)
    check_export(played, tmp_path / "x.parquet")


def test_what_cannot_be_withdrawn_is_said(tmp_path):
    experiment = Played(tmp_path / "e.db").experiment
    with pytest.raises(InputError, match="discont"):
        experiment.withdraw("discont", "typo")
    with pytest.raises(InputError, match="say why"):
        experiment.withdraw("discount", "  ")
    experiment.withdraw("discount", "sold out")
    experiment.withdraw("discount", "sold out, again")  # no news
    experiment.withdraw("standard", "sold out, too")
    assert experiment.assign(YOUNG, unit="u").action == "free shipping"
    with pytest.raises(InputError, match="withdraw"):
        experiment.withdraw("free shipping", "nothing is left")
    kinds = [one["kind"] for one in experiment.seal().to_json()["entries"]]
    assert kinds == ["created", "round", "withdrawn", "round", "withdrawn", "round"]


def test_the_seal_tells_the_protocol_without_its_seed(tmp_path):
    experiment = Played(tmp_path / "e.db", {"seed": 123456789}).experiment
    seal = experiment.seal()
    assert seal.protocol == experiment.protocol.digest
    assert "123456789" not in json.dumps(seal.to_json())
    before = seal.head
    experiment.assign(YOUNG, unit="u")
    assert experiment.seal().head != before


@pytest.mark.thorough
def test_traffic_while_a_design_is_computed_keeps_the_old_one(tmp_path):
    """People who come between a snapshot and the round that is designed from it belong to the old design."""
    played = Played(tmp_path / "e.db", {"epsilon": 0.05})
    played.day(210)
    experiment, other = played.experiment, Experiment.open(tmp_path / "e.db", "checkout", clock=lambda: played.now)
    seen = {}

    def come(*given, **options):
        seen["given"] = other.assign([YOUNG] * 40, units=[f"late{i}" for i in range(40)])
        return original(*given, **options)

    trial = type(played.experiment.protocol.trial()[0])
    original = trial.design
    trial.design = come
    try:
        assert experiment.advance()
    finally:
        trial.design = original
    assert {one.round for one in seen["given"]} == {1}
    status = experiment.status().to_json()
    assert (status["round"]["number"], status["round"]["kind"]) == (2, "design")
    after = experiment.assign(YOUNG, unit="after")
    assert after.round == 2
    played.day(100)
    played.advance()
    check_export(played, tmp_path / "x.parquet")


@pytest.mark.thorough
def test_two_who_advance_open_one_round(tmp_path):
    played = Played(tmp_path / "e.db", {"epsilon": 0.05})
    played.day(210)
    one, other = (Experiment.open(tmp_path / "e.db", "checkout", clock=lambda: played.now) for _ in range(2))
    seen = other._advancer.snapshot  # taken before the first one opens a round, as by a server that was slow
    before = seen(at=one._now())
    assert one.advance()
    other._advancer.snapshot = lambda *, at: before
    other.advance(at_once=True)
    rounds = [entry for entry in one.seal().to_json()["entries"] if entry["kind"] == "round"]
    assert [entry["body"]["number"] for entry in rounds] == [0, 1, 2]


@pytest.mark.slow
def test_a_worker_process_advances_by_itself(tmp_path):
    experiment = Experiment.create(tmp_path / "e.db", protocol(epsilon=0.05))
    for one in experiment.assign([YOUNG] * 220, units=[f"u{i}" for i in range(220)]):
        experiment.record(one.id, reward=float(one.action == "discount"))
    worker = subprocess.Popen([sys.executable, "-m", "pacbandits.experiment.worker", str(tmp_path / "e.db")])
    try:
        until = time.monotonic() + 60
        while experiment.status().to_json()["round"]["number"] < 2 and time.monotonic() < until:
            time.sleep(0.1)
        assert experiment.status().to_json()["round"]["number"] >= 2
        assert experiment.status().to_json()["curve"]
    finally:
        worker.terminate()
    assert worker.wait(timeout=30) == 0


def test_designs_are_the_same_after_json(tmp_path):
    trees = pb.Trees.learn(people(), n_actions=3, depth=1)
    rng = np.random.default_rng(0)
    support = tuple(trees.argmax(people(), rng.normal(size=(len(people()), 3))) for _ in range(6))
    design = LiveDesign(Design(support, rng.random(6), support[0], floor=0.02), np.array([0.1, 0.2, 0.25]), (1,))
    again = live_from_json(json.loads(json.dumps(design.to_json())))
    assert np.array_equal(again.propensities(people()), design.propensities(people()))
    assert (design.propensities(people())[:, 1] == 0).all()
    whole = LiveDesign(design.design, design.noise)
    one_by_one = design.design.propensities(people(), noise=np.broadcast_to(design.noise, (len(people()), 3)))
    assert np.array_equal(whole.propensities(people()), one_by_one)


def noisy_design():
    """The sampler of a trial: a design, weighted by a model that was fitted to a log of three actions."""
    rng, who = np.random.default_rng(3), people(120)
    trees = pb.Trees.learn(who, n_actions=3, depth=1)
    support = tuple(trees.argmax(who, rng.normal(size=(len(who), 3))) for _ in range(4))
    means = np.column_stack([np.full(len(who), 0.3), who.features[:, 0] / 90, 0.2 + 0.3 * who.features[:, 1]])
    log = uniform_log(means, who.features, seed=4, categories=who.categories)
    fitted = CachedModel(default_model(who).fit(log), n_actions=3)
    return NoisyDesign(Design(support, rng.random(4), support[0], floor=0.02, even_share=0.1), fitted)


def test_an_experiment_plays_the_sampler_of_the_trial_model_and_all():
    sampler, others = noisy_design(), people(80, seed=9)
    for trial, barred in ((sampler, ()), (Sparing(sampler, (1,)), (1,))):
        stored = live_from_json(json.loads(json.dumps(live(trial, people()).to_json())))
        assert stored.barred == barred
        assert np.array_equal(stored.propensities(others), trial.propensities(others))
        alone = np.concatenate([stored.propensities(others.take(np.array([i]))) for i in range(20)])
        assert np.array_equal(alone, trial.propensities(others)[:20])
        assert live(stored, people()) is stored
        pool = heaviest(sampler.design, most=MAX_POOLED_POLICIES)  # the order affects the next design
        assert [one.to_json() for one in stored.pool] == [one.to_json() for one in pool]
        assert list(sampler.design.support) != list(pool)
    assert np.ptp(sampler.propensities(others)[:, 0]) > 0
    assert without(stored, (0,)).barred == (0, 1)


def test_a_model_that_is_too_large_is_replaced_and_the_round_says_so(monkeypatch):
    sampler = noisy_design()
    monkeypatch.setattr(rounds, "MAX_MODEL_CHARACTERS", 100)
    simple = live(sampler, people())
    told = json.loads(json.dumps(simple.to_json()))
    asked = {"scale": 0.1, "price": 10.0, "since": 9, "leader": None, "snapshot": 0, "snapshot_at": 0, "mature": 9}
    body = asked | {"number": 2, "kind": "design", "planned": 50, "sampler": told, "model": {}}
    words = rounds.round_from_json(body, (), None, opened=0, sequence=5).words
    assert re.fullmatch(
        "round 2 begins, planned for 50; each action has one noise figure, as the fitted reward model has [0-9,]+ "
        "characters, and at most 100 are stored",
        words,
    )
    assert "model" not in told
    noise = people().weights @ variances(sampler.fitted.predict(people()))
    assert np.allclose(told["noise"], noise, rtol=0, atol=1e-15)
    assert np.array_equal(live_from_json(told).propensities(people()), simple.propensities(people()))


@pytest.mark.thorough
def test_an_experiment_from_before_models_were_stored_goes_on(tmp_path, monkeypatch):
    """Its earlier designs have one number per action, its later ones a model; the audit accepts both."""
    played = Played(tmp_path / "e.db", {"epsilon": 0.15, "policies": "trees:depth=2"})

    def next_design():
        before = played.experiment.payload()["round"]
        while played.experiment.payload()["round"] == before or played.experiment.payload()["kind"] == "continued":
            played.day(50)
            played.experiment.advance()
        return played.experiment.payload()["sampler"]

    with monkeypatch.context() as patch:
        patch.setattr(rounds, "MAX_MODEL_CHARACTERS", 0)
        while (sampler := next_design())["noise"] is None:
            assert not sampler["support"]  # uniform exploration
    sampler = next_design()
    while "model" not in sampler and sampler["kind"] == "design":
        sampler = next_design()
    assert sampler["kind"] == "design"
    played.day(50)
    again = Experiment.open(tmp_path / "e.db", "checkout", clock=lambda: played.now)
    assert again.payload()["sampler"] == sampler
    again.export(tmp_path / "e.parquet", look=0)
    assert audit(read_record(tmp_path / "e.parquet")).faults == ()


@pytest.mark.thorough
def test_a_full_round_is_over_without_another_row(tmp_path):
    """The next design follows at once, as in simulation: nobody more is assigned by the old one."""
    with Experiment.create(tmp_path / "e.db", protocol()) as experiment:
        contexts = [YOUNG, OLD] * 100
        for one, context in zip(given := experiment.assign(contexts), contexts, strict=True):
            experiment.record(one.id, reward=float(one.action == "discount" and context == YOUNG))
        assert {one.round for one in given} == {0}
        before = experiment.status().to_json()["round"]
        assert (before["kind"], before["planned"], before["assigned"]) == ("design", 200, 200)
        experiment.advance()
        after = experiment.status().to_json()["round"]
        assert (after["number"], after["kind"], after["assigned"]) == (1, "design", 0)
        assert not experiment.advance()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "epsilon"),
    [
        ("trees:actions=4,competitive=2,contexts=300,depth=1", 0.1),
        ("two-of-many:actions=4,policies=20", 0.1),
        ("random:actions=4", 0.15),
        ("iris", 0.15),
    ],
)
def test_an_experiment_takes_as_many_people_as_the_trial_in_simulation(spec, epsilon):
    """With the same people, every round is the same at the same δ; a tenth of it is kept for withdrawals."""
    for seed in (1, 2):
        problem = pb.load_problem(spec)
        coming, asked = People.of(problem, seed), {"epsilon": epsilon, "seed": seed}
        played = drive_experiment(problem, coming, delta=0.05, **asked)
        assert len(played) > 4
        assert played == simulate(problem, coming, delta=0.05 * withdrawal_part(problem.n_actions, 0), **asked)


@pytest.mark.parametrize(
    ("given", "words"),
    [("", "empty"), ("mysql://x/y", "SQLite or PostgreSQL"), ("://", "must be a file"), (3, "text")],
)
def test_databases_are_files_or_urls(given, words):
    with pytest.raises(InputError, match=words):
        Database(given)


def test_a_file_that_is_no_database_is_said(tmp_path):
    (tmp_path / "e.db").write_text("this is a letter, and no database at all, whatever it is called")
    with pytest.raises(InputError, match="cannot open the database"):
        Database(tmp_path / "e.db")


def test_every_table_but_one_is_written_once(tmp_path):
    """No statement changes or removes a row of any table but `standings`."""
    played = Played(tmp_path / "e.db")
    said = []
    sa.event.listen(played.experiment.database.engine, "before_cursor_execute", lambda *given: said.append(given[2]))
    played.day(250)
    played.advance()
    played.experiment.withdraw("discount", "sold out")
    played.experiment.pause("lunch")
    changes = {
        words.split()[1 if words.startswith("UPDATE") else 2] for words in said if words.startswith(("UPD", "DEL"))
    }
    assert changes == {"standings"}
    assert set(tables.metadata.tables) > {"standings", "assignments", "outcomes", "entries"}
