"""Protocols: what is fixed at creation, what is refused, and what names it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.errors import InputError
from pacbandits.experiment.chain import digest_published, hash_seed
from pacbandits.experiment.protocol import (
    MAX_CONTEXTS,
    ExperimentProtocol,
    Forecast,
    GuardrailRule,
    LateRule,
    read_duration,
    spell_duration,
)
from pacbandits.policies.registry import load_policies, same_class
from pacbandits.records.log import digest_contexts
from pacbandits.trials.coda import Coda
from tests.experiment.cases import ACTIONS, people, protocol

EVERYTHING = {
    "reward_range": (-1.0, 3.0),
    "epsilon": 0.4,
    "algorithm": "coda:growth=0.2,answer=single",
    "visits": "each",
    "unknown_labels": "missing",
    "standard": "discount",
    "holdout": 0.1,
    "late": LateRule("window", 36 * 3600.0),
    "round_hours": 12,
    "guardrail": GuardrailRule("complaint", 0.02, 0.001),
    "plan": Forecast((100.0, 200.0, None), (1.0, 2.0, None), 400.0),
}


def test_the_class_is_that_of_the_contexts_and_the_trial_has_its_part_of_delta():
    made = protocol(epsilon=0.4, reward_range=(0.0, 2.0))
    trial, policies = made.trial()
    assert isinstance(trial, Coda)
    assert trial.epsilon == pytest.approx(0.2)
    assert trial.delta == pytest.approx(0.05 * 0.9)
    assert same_class(policies, load_policies("trees:depth=1", people(), n_actions=3))
    assert made.learning is not None
    assert made.learning.digest == digest_contexts(people())
    assert protocol(algorithm="uniform:growth=0.5").trial()[0].growth == 0.5


@pytest.mark.parametrize("options", [{}, EVERYTHING])
def test_what_is_written_is_read_again(options):
    made = protocol(**options)
    stored = json.loads(json.dumps(made.to_json()))
    again = ExperimentProtocol.from_json(stored, contexts=made.contexts)
    assert again.to_json() == stored
    assert again.digest == made.digest == digest_published(stored) == digest_published(made.published())


def test_contexts_and_classes_that_are_not_those_named_are_refused():
    stored = json.loads(json.dumps(protocol().to_json()))
    with pytest.raises(InputError, match="contexts are not those"):
        ExperimentProtocol.from_json(stored, contexts=people(seed=1))
    other = protocol(policies="trees:depth=0").to_json()["policies"]["class"]
    with pytest.raises(InputError, match="class is not the one"):
        ExperimentProtocol.from_json(stored | {"policies": stored["policies"] | {"class": other}}, contexts=people())
    for said, words in (
        ("another", "not a pacbandits experiment"),
        ("pacbandits experiment 9", "upgrade pacbandits"),
    ):
        with pytest.raises(InputError, match=words):
            ExperimentProtocol.from_json({"format": said, "more": 1}, contexts=people())


def test_every_field_changes_the_digest_and_the_seed_only_by_its_hash():
    usual = protocol()
    seen = {usual.digest}
    for name, value in (EVERYTHING | {"seed": 18, "delta": 0.1, "policies": "trees:depth=0"}).items():
        if name != "reward_range":
            seen.add(protocol(**{name: value}).digest)
    seen |= {protocol(reward_range=(0, 2)).digest, protocol(contexts=people(seed=1)).digest}
    assert len(seen) == len(EVERYTHING) + 5
    shown = usual.published()
    assert "seed" not in shown
    assert shown["seed_sha256"] == hash_seed("17")


def test_a_seed_that_is_not_given_is_drawn():
    one, other = protocol(seed=None), protocol(seed=None)
    assert one.drawn_seed != other.drawn_seed
    assert one.drawn_seed > 2**64 or other.drawn_seed > 2**64


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "a b"}, "no name for an experiment"),
        ({"name": "../x"}, "no name for an experiment"),
        ({"actions": ["a"]}, "2 to 1,000 actions"),
        ({"actions": ["a", "a"]}, "two actions are called 'a'"),
        ({"actions": ["a", " b"]}, "an action's name"),
        ({"actions": "ab"}, "actions must be a list"),
        ({"policies": "trees:deep=2"}, "did you mean 'depth'"),
        ({"policies": "tree"}, "did you mean 'trees'"),
        ({"policies": "trivial"}, "ids"),
        ({"epsilon": 0}, "above 0"),
        ({"epsilon": 1.0}, "epsilon must be below 1"),
        ({"delta": 1}, "delta"),
        ({"reward_range": (1, 0)}, "smaller first"),
        ({"algorithm": "cod"}, "did you mean 'coda'"),
        ({"algorithm": "rage"}, "these can: coda, uniform"),
        ({"algorithm": "coda:growht=1"}, "did you mean 'growth'"),
        ({"seed": -1}, "seed must be"),
        ({"visits": "stick"}, "did you mean 'sticky'"),
        ({"unknown_labels": "ignore"}, "unknown_labels"),
        ({"standard": "discout"}, "did you mean 'discount'"),
        ({"holdout": 1.0}, "holdout"),
        ({"late": "window"}, "late must be a LateRule"),
        ({"late": LateRule("window", 60, 2.0)}, "missing, what no reward"),
        ({"round_hours": 0}, "hours of a round"),
        ({"guardrail": 0.1}, "guardrail must be"),
        ({"dates": ["when"]}, "no feature is made"),
        ({"contexts": [[1]]}, "contexts must be"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(options, words):
    with pytest.raises(InputError, match=words):
        protocol(**options)


def test_rules_that_cannot_be_are_refused():
    for call, words in (
        (lambda: LateRule("windows"), "did you mean 'window'"),
        (lambda: LateRule("window"), 'window = "7 days"'),
        (lambda: LateRule("worst case", 60), "of the window rule"),
        (lambda: LateRule("window", -1), "window, in seconds"),
        (lambda: GuardrailRule("", 0.1), "name of the guardrail"),
        (lambda: GuardrailRule("a", 1.0), "strictly between 0 and 1"),
        (lambda: GuardrailRule("a", 0), "strictly between 0 and 1"),
        (lambda: GuardrailRule("a", 0.1, 0), "false_alarms"),
    ):
        with pytest.raises(InputError, match=words):
            call()


def test_contexts_that_cannot_be_asked_for_are_refused():
    with pytest.raises(InputError, match="column of the log"):
        protocol(contexts=replace(people(), names=("age", "reward")))
    with pytest.raises(InputError, match="no features"):
        protocol(contexts=pb.Contexts.of(np.empty((3, 0))))
    with pytest.raises(InputError, match="phi"):
        protocol(contexts=pb.Contexts.finite(4, phi=np.zeros((4, 3, 2))))
    with pytest.raises(InputError, match="2 actions, and there are 3"):
        protocol(policies=load_policies("trees", people(), n_actions=2))


def test_ids_stay_where_the_class_goes_by_them_and_nowhere_else():
    listed = protocol(contexts=pb.Contexts.finite(4), policies="trivial")
    assert listed.contexts.ids is not None
    assert protocol(contexts=replace(people(), ids=np.arange(200))).digest == protocol().digest


def test_of_many_contexts_some_are_drawn():
    many = protocol(contexts=people(MAX_CONTEXTS + 500))
    assert len(many.contexts) == MAX_CONTEXTS
    stored = ExperimentProtocol.from_json(many.to_json(), contexts=many.contexts)
    assert stored.digest == many.digest


def test_unknown_labels_become_missing_ones_where_that_is_asked():
    assert protocol().contexts.categories[1] == ("AT", "DE", "FR")
    made = protocol(unknown_labels="missing")
    assert made.contexts.categories[1] == ("AT", "DE", "FR", "missing")
    assert protocol(contexts=made.contexts, unknown_labels="missing").digest == made.digest


def test_withdrawn_actions_are_played_by_no_policy_and_have_a_part_of_delta_of_their_own():
    made = protocol()
    trial, policies = made.trial(["discount"])
    assert trial.delta == pytest.approx(0.05 * 0.1 * 0.5 / 3)
    rng = np.random.default_rng(0)
    assert all(1 not in policies.argmax(people(), rng.normal(size=(200, 3)))(people()) for _ in range(20))
    assert set(made.trial(["discount", "standard"])[1].argmax(people(), np.zeros((200, 3)))(people())) == {2}
    with pytest.raises(InputError, match="did you mean 'discount'"):
        made.trial(["discoun"])
    with pytest.raises(InputError, match="stop the experiment"):
        made.trial(ACTIONS)


def test_durations_are_read_and_spelt_as_people_do():
    day = 86_400
    for words, seconds in (
        ("7 days", 7 * day),
        ("36 hours", 1.5 * day),
        ("1 day 12 hours", 1.5 * day),
        ("2weeks", 14 * day),
    ):
        assert read_duration(words, name="window") == seconds
    for words in ("", "7", "days", "7 dogs", "7 days ago", "0 days", "99999 weeks", "-1 day"):
        with pytest.raises(InputError, match="window"):
            read_duration(words, name="window")
    assert [spell_duration(x) for x in (7 * day, 1.5 * day, 3600, 90, 0.5)] == [
        *("7 days", "36 hours", "1 hour", "1.5 minutes", "0.5 seconds")
    ]


def test_draws_are_by_unit_unless_a_seed_is_given_or_the_protocol_is_from_before():
    hidden, given, both = protocol(seed=None), protocol(seed=17), protocol(seed=17, draws="unit")
    assert [one.draws for one in (hidden, given, both)] == ["unit", "row", "unit"]
    assert "draws" not in given.to_json()  # as in protocols from before, whose digests stay
    for one in (hidden, given, both):
        again = ExperimentProtocol.from_json(json.loads(json.dumps(one.to_json())), contexts=one.contexts)
        assert (again.draws, again.digest) == (one.draws, one.digest)
    assert both.digest != given.digest
    with pytest.raises(InputError, match="draws"):
        protocol(draws="person")
