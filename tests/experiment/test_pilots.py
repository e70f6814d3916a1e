"""Experiments whose first rows are those of a pilot: stored, sealed, exported and verified with the others."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

import pacbandits as pb
from pacbandits.certificate import Certificate
from pacbandits.errors import InputError, spelling_options
from pacbandits.experiment.audit import audit, read_record
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.protocol import ExperimentProtocol
from pacbandits.experiment.protocol_files import read_protocol
from pacbandits.proofs import verify
from pacbandits.records import Contexts, Log
from pacbandits.trials.pilot_rows import as_stored
from tests.experiment.cases import ACTIONS, COUNTRIES, people, protocol
from tests.experiment.live import Played, mean_of
from tests.experiment.test_auditing import altered, forged

RANGE = (0.0, 3.0)


@cache
def pilot_log(n=260, seed=3, *, returned=False):
    """The log of a uniform pilot, with actions, features and labels in other orders than the protocol has."""
    rng = np.random.default_rng(seed)
    ages, countries = rng.integers(18, 80, n), rng.integers(0, 2, n)
    names = tuple(sorted(ACTIONS))
    actions = rng.integers(0, 3, n)
    rewards = [float(rng.random() < mean_of(names[a], {"age": age})) for a, age in zip(actions, ages, strict=True)]
    labels = COUNTRIES[:2][::-1]
    contexts = Contexts.of(np.column_stack([countries, ages]), names=["country", "age"], categories=[labels, None])
    metrics = {"metrics": ["returned 0 7"], "metric_values": rng.random((n, 1)).round(2)} if returned else {}
    even = np.full((n, 3), 1 / 3)
    return Log.of(
        contexts, actions=actions, rewards=rewards, propensities=even, action_names=names, reward_range=RANGE, **metrics
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """An experiment with a pilot after one day, its export and its certificate."""
    folder = tmp_path_factory.mktemp("pilot")
    options = {"pilot": pilot_log(returned=True), "metrics": ["returned 0 7"], "reward_range": RANGE, "epsilon": 0.1}
    made = protocol(**options)
    experiment = Experiment.create(folder / "it.db", made)
    rng, given = np.random.default_rng(1), []
    for i in range(40):
        context = {"age": int(rng.integers(18, 80)), "country": str(rng.choice(COUNTRIES))}
        one = experiment.assign(context, unit=f"u{i}")
        value = 3.0 * (rng.random() < mean_of(one.action, context))
        experiment.record(one.id, reward=float(value), metrics={"returned": 1.0})
        given.append(one)
    experiment.advance(at_once=True)
    experiment.stop("enough")
    experiment.export(folder / "export.parquet")
    result = experiment.result()
    return experiment, folder / "export.parquet", Certificate.from_json(result.certificate), made


def test_its_rows_are_the_first_and_the_certificate_says_so(played):
    experiment, path, made, asked = played
    status = experiment.status().to_json()
    assert (status["assigned"], made.samples, made.pilot.samples) == (300, 300, 260)
    assert made.pilot == asked.counted_pilot
    assert status["pilot"] == 260
    assert status["events"][1]["words"] == "round 0: rows of the pilot"
    assert status["to_go"]["days"] is None  # the pilot's rows are no traffic
    log = Log.read(path)
    assert np.array_equal(log.rewards[:260], asked.pilot_rows.log.rewards)
    assert np.array_equal(log.metric_values[:260], asked.pilot_rows.log.metric_values)
    assert verify(made, log, asked.policy_class).good
    found = audit(read_record(path), made)
    assert found.good, found.faults
    assert "the first 260 rows are those of the pilot that the protocol sealed" in found.checked
    assert "stakes and leaders of the pilot's rounds follow from the rows before each" in found.checked
    assert any(words.startswith("after the pilot, every action") for words in found.checked)
    assert made.pilot.assumption in found.left_to_assume(made.assumptions)
    assert "the logged propensities are those with which actions were drawn" in found.left_to_assume(made.assumptions)


def test_the_protocol_seals_the_pilot(played, tmp_path):
    _, _, _, asked = played
    again = ExperimentProtocol.from_json(json.loads(json.dumps(asked.to_json())), contexts=asked.contexts)
    assert (again.digest, again.pilot) == (asked.digest, asked.counted_pilot)
    assert replace(asked, name="again", control=None).pilot_rows.record == asked.counted_pilot
    assert protocol(pilot=pilot_log(seed=4), reward_range=RANGE).digest != asked.digest
    with pytest.raises(InputError, match="names a pilot without its rows"):
        Experiment.create(tmp_path / "it.db", again)


def change_stake(columns, entries, about):
    """Somebody who knew all rows staked more on the first."""
    body = json.loads(entries[2][3])
    entries[2][3] = json.dumps(body | {"scale": 2 * body["scale"]}, sort_keys=True, separators=(",", ":"))


def change_reward(columns, entries, about):
    for name, most in (("record_reward", 3.0), ("reward", 1.0)):
        values = columns[name].to_numpy(zero_copy_only=False).copy()
        values[5] = most - values[5]
        columns[name] = pa.array(values)


def move_row(columns, entries, about):
    """Two rows of the pilot change places, with their rewards."""
    order = np.arange(len(columns["action"]))
    order[[3, 4]] = [4, 3]
    fixed = ("record_sequence", "record_reward_sequence", "record_metric_0_sequence", "record_entries")
    for name, values in columns.items():
        if name not in fixed and not name.startswith("record_contexts"):
            columns[name] = values.take(pa.array(order))


@pytest.mark.parametrize(
    ("change", "words"),
    [(change_reward, "not those that"), (move_row, "do not stand in the order of their contents")],
)
def test_a_pilot_that_was_altered_with_its_chain_is_noticed(played, tmp_path, change, words):
    forged(played[1], tmp_path / "forged.parquet", change)
    found = audit(read_record(tmp_path / "forged.parquet"))
    assert words in str(found.faults)
    altered(played[1], tmp_path / "altered.parquet", change)
    assert "the chain is broken" in str(audit(read_record(tmp_path / "altered.parquet")).faults)


def test_stakes_on_a_pilot_in_hindsight_are_noticed(played, tmp_path):
    forged(played[1], tmp_path / "forged.parquet", change_stake)
    made = played[2]
    scales = (made.bets.scales[0], 2 * made.bets.scales[1], *made.bets.scales[2:])
    forgery = replace(made, bets=replace(made.bets, scales=scales))
    found = audit(read_record(tmp_path / "forged.parquet"), forgery)
    assert "stakes or leaders of the pilot's rounds do not follow" in str(found.faults)


def test_a_certificate_of_another_pilot_is_refused(played):
    made = replace(played[2], pilot=None)
    assert "which rows are those of a pilot" in str(audit(read_record(played[1]), made).faults)


@pytest.mark.thorough
def test_leaders_of_a_pilot_are_chosen_again_after_a_withdrawal(tmp_path):
    it = Played(
        tmp_path / "it.db", {"pilot": replace(pilot_log(), reward_range=(0.0, 1.0)), "policies": "trees:depth=2"}
    )
    it.day(60)
    it.advance()
    it.experiment.withdraw("standard", "sold out")
    it.day(60)
    it.advance()
    it.experiment.export(tmp_path / "it.parquet")
    made = Certificate.from_json(it.experiment.result().certificate)
    assert made.pilot is not None
    found = audit(read_record(tmp_path / "it.parquet"), made)
    assert found.good, found.faults


TOML = """
name = "checkout"
contexts = "contexts.parquet"
actions = ["standard", "discount", "free shipping"]
policies = "trees:depth=1"
epsilon = 0.1
pilot = "pilot.csv"
"""


def write(folder, lines=TOML, *, log=None):
    people().write(folder / "contexts.parquet")
    log = pilot_log() if log is None else log
    rows = ["country,age,action,reward"]
    for row in range(len(log)):
        country = log.contexts.categories[0][int(log.contexts.features[row, 0])]
        age, action = int(log.contexts.features[row, 1]), log.action_names[log.actions[row]]
        rows.append(f"{country},{age},{action},{log.rewards[row]:g}")
    (folder / "pilot.csv").write_text("\n".join(rows) + "\n")
    (folder / "it.toml").write_text(lines)
    return folder / "it.toml"


def test_a_file_names_the_pilot(tmp_path):
    made = read_protocol(write(tmp_path, TOML + 'pilot_split = "uniform"\n'))
    assert made.counted_pilot.rows == 260
    assert made.pilot_rows.log.action_names == ACTIONS
    without = write(tmp_path)
    with pytest.raises(InputError, match='pilot_split = "uniform"'):
        read_protocol(without)
    with spelling_options(), pytest.raises(InputError) as found:
        read_protocol(without)
    assert 'pilot_split = "uniform"' in str(found.value.args[0])
    split_alone = write(tmp_path, TOML.replace("pilot =", "#") + 'pilot_split = "uniform"\n')
    with pytest.raises(InputError, match="name its log"):
        read_protocol(split_alone)


def test_a_pilot_that_cannot_count_is_refused(tmp_path):
    elsewhere = replace(pilot_log().contexts, categories=(("DE", "IT"), None))
    with pytest.raises(InputError, match="take contexts that have all labels"):
        protocol(pilot=replace(pilot_log(), contexts=elsewhere), reward_range=RANGE)
    with pytest.raises(InputError, match="and those of the trial in 0 to 1"):
        protocol(pilot=pilot_log())
    with pytest.raises(InputError, match="give both the same"):
        protocol(pilot=replace(pilot_log(), action_names=("a", "b", "c")), reward_range=RANGE)
    with pytest.raises(InputError, match="lacks the metric 'returned'"):
        protocol(pilot=pilot_log(), reward_range=RANGE, metrics=["returned 0 7"])
    with pytest.raises(InputError, match="pilot must be a Log"):
        protocol(pilot="pilot.csv")
    enough = protocol(pilot=pilot_log(), reward_range=RANGE, epsilon=2.5)
    with pytest.raises(InputError, match="the pilot alone proves what is asked; ask for a smaller epsilon"):
        Experiment.create(tmp_path / "it.db", enough)
    rng = np.random.default_rng(0)
    ages = pb.Contexts.of(rng.random((100, 1)), names=["age"])
    same = Log.of(ages, actions=rng.integers(0, 3, 100), rewards=np.zeros(100), propensities=np.full((100, 3), 1 / 3))
    with pytest.raises(InputError, match="take the contexts of other people"):
        protocol(contexts=ages, pilot=replace(same, action_names=ACTIONS))


def test_values_settle_when_they_are_stored():
    once = as_stored(np.random.default_rng(0).random(1000), -0.1, 0.7)
    assert np.array_equal(np.clip((-0.1 + (0.7 - -0.1) * once - -0.1) / (0.7 - -0.1), 0.0, 1.0), once)
