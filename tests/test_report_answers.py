"""The three sentences with which a report begins go by what was found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate.learning import Learning
from pacbandits.certificate.worth import Interval
from pacbandits.report.summary import summarise


@pytest.fixture(scope="module")
def found():
    """A log by whose first feature actions differ, its certificate, and how good that is."""
    rng = np.random.default_rng(0)
    people, actions = pb.Contexts.of(rng.normal(size=(900, 1)), names=["age"]), rng.integers(2, size=900)
    chance = np.where((people.features[:, 0] > 0) == (actions == 1), 0.8, 0.2)
    log = pb.Log.of(
        people,
        actions=actions,
        rewards=(rng.random(900) < chance).astype(float),
        propensities=np.full((900, 2), 0.5),
    )
    log = replace(log, action_names=("wait", "call"))
    made = pb.certify(log, pb.Trees.learn(people, n_actions=2, depth=1, bins=4)).certificate
    return log, made, pb.measure_worth(made, log)


@pytest.mark.parametrize(
    ("lead", "words"),
    [
        ((0.01, 0.1, 0.2), "Use the rule below, which gives different people 2 different actions."),
        (
            (-0.05, 0.1, 0.2),
            "The rule below, which gives different people 2 different actions, looks best, but may be no",
        ),
        ((-0.2, -0.05, 0.1), "for all that these data show: the rule below, which gives different people 2 different"),
    ],
)
def test_what_to_do_goes_by_what_is_gained(found, lead, words):
    log, made, worth = found
    told = summarise(made, log, worth=replace(worth, over_best=Interval(*lead)), source="log.csv", outcome="reward")
    assert words in told.answer()[0]
    if lead[1] < 0:
        assert told.answer()[0].startswith(f"Give everybody {told.best_single}, ")


def test_one_action_for_all_is_not_recommended_where_it_may_not_be_deployed(found):
    log, made, worth = found
    spec = "trees:depth=1,costs=0/1,budget=0.6"
    kept = replace(made, learning=Learning(spec, 300, "d", spared=0, in_order=True))
    bad = replace(worth, over_best=Interval(-0.2, -0.05, 0.1))
    told = summarise(kept, log, worth=bad, source="log.csv", outcome="reward")
    assert told.answer()[0].startswith("Use the rule below")
    assert "Give everybody" not in " ".join(told.answer())
