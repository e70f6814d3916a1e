"""What somebody who keeps the database could do to a record, chain and all, without its looking wrong."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate.certificate import BETS_FIXED, FIXED, LED, ROUNDS
from pacbandits.experiment.audit import audit, read_record
from pacbandits.proofs import verify
from tests.experiment.test_auditing import altered, forged, put, untouched

DAY = 86_400_000_000


def numbers(columns, name):
    return columns[name].to_numpy(zero_copy_only=False)


def call_it_late(columns, entries, about):
    """A reward that came in time is no reward, as somebody did not like it."""
    came = (numbers(columns, "record_reward_sequence") < 2**62) & (numbers(columns, "record_reward_late") == 0)
    put(columns, "record_reward_late", int(np.flatnonzero(came)[5]), 1)


def take_it_for_in_time(columns, entries, about):
    came = numbers(columns, "record_reward_sequence") < 2**62
    row = int(np.flatnonzero(came)[5])
    put(columns, "record_reward_at", row, int(columns["record_reward_at"][row].as_py()) + 9 * DAY)


def go_back_in_time(columns, entries, about):
    put(columns, "record_at", 40, int(columns["record_at"][40].as_py()) - 1)


def look_ahead(columns, entries, about):
    """Windows are over that are not: what has not come yet counts as if it never did."""
    about["record"]["at"] += DAY


def design_ahead(columns, entries, about):
    entry = [one for one in entries if one[2] == "round" and "snapshot_at" in one[3]][-1]
    body = json.loads(entry[3])
    entry[3] = json.dumps(body | {"snapshot_at": body["snapshot_at"] + DAY}, sort_keys=True, separators=(",", ":"))


def create_it_again(columns, entries, about):
    """Another protocol, written down after the data, is shown as the first entry."""
    body = json.loads(entries[0][3])
    number = about["record"]["records"]
    about["record"]["records"] += 1
    entries.insert(0, [number, entries[-1][1], "created", json.dumps(body), ""])


def come_again(columns, entries, about):
    """Somebody new is said to have come before, so as not to count."""
    row = int(np.flatnonzero(numbers(columns, "record_counted"))[10])
    put(columns, "record_visit", row, 1)
    put(columns, "record_counted", row, 0)


def hold_out_otherwise(columns, entries, about):
    row = int(np.flatnonzero(numbers(columns, "record_holdout"))[0])
    put(columns, "action", row, (int(columns["action"][row].as_py()) + 1) % 3)


def call_actions_otherwise(columns, entries, about):
    about["actions"] = about["actions"][::-1]


def stretch_rewards(columns, entries, about):
    about["reward_range"] = [0.0, 100.0]


def count_by_person(columns, entries, about):
    """All rows that somebody does not like are of one person, of whom the first alone counts."""
    columns["who"] = columns["record_sequence"]
    about["unit"] = "who"


FORGED = {
    call_it_late: "taken for late that came within",
    take_it_for_in_time: "counts that came after its window",
    go_back_in_time: "go back",
    look_ahead: "windows are taken for over",
    design_ahead: "a design took windows for over",
    create_it_again: "there must be no other",
    come_again: "as somebody who had come before",
    hold_out_otherwise: "another action than the standard",
    call_actions_otherwise: "called otherwise",
    stretch_rewards: "another range",
    count_by_person: "one by one",
}


@pytest.mark.thorough
@pytest.mark.parametrize("change", FORGED, ids=lambda one: one.__name__)
def test_records_that_do_not_fit_together_are_found_out_though_their_chain_holds(export, tmp_path, change):
    forged(export, tmp_path / "forged.parquet", change)
    found = audit(read_record(tmp_path / "forged.parquet"))
    assert any(FORGED[change] in fault for fault in found.faults), found.faults


@pytest.mark.thorough
def test_a_chain_that_is_made_anew_of_the_same_records_is_good(export, tmp_path, finished):
    forged(export, tmp_path / "forged.parquet", untouched)
    assert audit(read_record(tmp_path / "forged.parquet"), finished[2]).good


def test_remarks_cannot_be_left_out(export, finished):
    record = read_record(export)
    late, holdout = finished[1].experiment.protocol.remarks()
    for left_out in (late, holdout):
        kept = tuple(words for words in record.log.remarks if words != left_out)
        silent = replace(record, log=replace(record.log, remarks=kept))
        assert audit(silent, finished[2]).faults == (f"the log does not say that {left_out}",)


@pytest.mark.thorough
def test_stakes_models_and_moves_cannot_be_chosen_afterwards(export, finished):
    record, made = read_record(export), finished[2]
    assert made.leaders is not None
    others = {
        "experts": replace(made, bets=replace(made.bets, multipliers=(0.3, 0.9))),
        "weight moves": replace(made, leaders=replace(made.leaders, moving=0.7)),
        "learnt otherwise": replace(made, learning=replace(made.learning, spec="trees:depth=1")),
        "another model": replace(made, model=made.model | {"kind": "another"}),
        "somebody else": replace(made, leaders=replace(made.leaders, turns=(0,) * len(made.leaders.turns))),
        "planned": replace(
            made, leaders=replace(made.leaders, turns=made.leaders.turns[1:], sizes=made.leaders.sizes[1:])
        ),
    }
    for words, other in others.items():
        assert any(words in fault for fault in audit(record, other).faults), words


def change_last_model(columns, entries, about):
    entry = [one for one in entries if one[2] == "round" and '"model"' in one[3]][1]
    body = json.loads(entry[3])
    entry[3] = json.dumps(body | {"model": {"kind": "another"}}, sort_keys=True, separators=(",", ":"))


def test_the_model_is_that_of_all_rounds_and_not_of_the_last_alone(export, tmp_path, finished):
    forged(export, tmp_path / "forged.parquet", change_last_model)
    found = audit(read_record(tmp_path / "forged.parquet"), finished[2])
    assert any("another model" in fault for fault in found.faults)


def test_what_is_left_to_assume_is_what_the_record_does_not_show(export, finished):
    made = finished[2]
    left = audit(read_record(export), made).left_to_assume(made.assumptions)
    assert {ROUNDS, BETS_FIXED, LED} <= set(made.assumptions)
    assert not {ROUNDS, BETS_FIXED, LED} & set(left)
    assert "the logged propensities are those with which actions were drawn" in left


@pytest.mark.thorough
def test_a_claim_made_afterwards_of_the_same_log_is_of_the_record_but_its_class_was_not_fixed_by_it(export, finished):
    log, policies = pb.Log.read(export), finished[1].experiment.protocol.policy_class
    made = pb.certify(log, policies, epsilon=0.2).certificate
    found = audit(read_record(export), made)
    assert found.good
    assert verify(made, log, policies).good
    left = found.left_to_assume(made.assumptions)
    assert FIXED in left
    assert ROUNDS not in left


def test_an_altered_file_is_told_from_a_forged_one(export, tmp_path):
    altered(export, tmp_path / "altered.parquet", go_back_in_time)
    assert any("chain is broken" in fault for fault in audit(read_record(tmp_path / "altered.parquet")).faults)
