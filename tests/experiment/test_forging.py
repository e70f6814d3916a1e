"""What somebody who keeps the database could do to a record, chain and all, without its looking wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate.certificate import BETS_FIXED, LED, ROUNDS
from pacbandits.certificate.claim import FIXED
from pacbandits.experiment.assignment_records import AssignmentRequest
from pacbandits.experiment.audit import (
    _wrong_people,
    _wrong_rounds,
    _wrong_rows,
    _wrong_times,
    audit,
    read_record,
    wrong_certificate,
)
from pacbandits.experiment.exported_record import SealedTerms
from pacbandits.experiment.protocol import LateRule
from pacbandits.proofs import verify
from tests.experiment.live import Played
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


def change_stored_model(columns, entries, about):
    """Predictions that favour an action, in the fitted model by which a design weights its actions."""
    entry = [one for one in entries if one[2] == "round" and "coefficients" in one[3]][-1]
    body = json.loads(entry[3])
    body["sampler"]["model"]["means"][1] = 0.02
    entry[3] = json.dumps(body, sort_keys=True, separators=(",", ":"))


def test_a_stored_model_cannot_be_altered(export, tmp_path):
    """Its entry is part of the chain; and rows were drawn with the probabilities that follow from it."""
    altered(export, tmp_path / "altered.parquet", change_stored_model)
    found = audit(read_record(tmp_path / "altered.parquet"))
    assert any("chain is broken" in fault for fault in found.faults)
    forged(export, tmp_path / "forged.parquet", change_stored_model)
    found = audit(read_record(tmp_path / "forged.parquet"))
    assert any("other probabilities than its design gives" in fault for fault in found.faults), found.faults


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


# Each term of a certificate by itself, and each of a round.


def terms(made):
    """A certificate in which one term is not what the protocol and the rounds say, by what is said of it."""
    leaders, bets = made.leaders, made.bets
    return {
        "at delta": replace(made, delta=made.delta / 0.9),
        "another epsilon": replace(made, epsilon=made.epsilon * 1.01),
        "another policy class": replace(made, class_digest="0" * 64),
        "learnt otherwise": replace(made, learning=replace(made.learning, contexts=made.learning.contexts + 1)),
        "stakes other": replace(made, bets=replace(bets, scales=(2 * bets.scales[0], *bets.scales[1:]))),
        "experts": replace(made, bets=replace(bets, share=0.5)),
        "another model": replace(made, model=made.model | {"kind": "another"}),
        "weight moves": replace(made, leaders=replace(leaders, moving=leaders.moving / 2)),
        "weight moves between": replace(made, leaders=replace(leaders, settled=len(leaders.turns) - 1)),
        "planned": replace(made, leaders=replace(leaders, sizes=(leaders.sizes[0] + 1, *leaders.sizes[1:]))),
        "somebody else": replace(made, leaders=replace(leaders, turns=(0,) * len(leaders.turns))),
    }


def test_every_term_of_a_certificate_is_that_of_the_protocol_or_of_a_round(export, finished):
    record, made = read_record(export), finished[2]
    sealed = SealedTerms.of(record).before(record.claimed)
    rows = made.of(record.log)
    assert wrong_certificate(rows, sealed, made) == ([], [])
    for words, other in terms(made).items():
        faults, _ = wrong_certificate(rows, sealed, other)
        assert len(faults) == 1, words
        assert words in faults[0]


def with_round(record, number, **changes):
    """The same record and its terms, in which something of a round is another."""
    sealed = SealedTerms.of(record)
    rounds = [replace(one, **changes) if one.number == number else one for one in sealed.rounds]
    return replace(sealed, rounds=tuple(rounds))


def test_a_design_knows_no_record_from_its_opening_on(export):
    record = read_record(export)
    last = SealedTerms.of(record).rounds[-1]
    assert _wrong_rounds(record, with_round(record, last.number, snapshot=last.sequence)) == []
    later = _wrong_rounds(record, with_round(record, last.number, snapshot=last.sequence + 1))
    assert later == ["a design knew of records that came after it"]


def test_rows_are_of_the_round_that_was_open_with_its_probabilities(export):
    record = read_record(export)
    sealed = SealedTerms.of(record)
    second = sealed.rounds[2]
    later = with_round(record, 2, sequence=second.sequence + 3)
    assert _wrong_rounds(record, later) == [
        "a row belongs to another round than the one that was open when it was assigned"
    ]
    other = replace(second.sampler, barred=(1,))
    assert _wrong_rounds(record, with_round(record, 2, sampler=other)) == [
        "rows of round 2 were drawn with other probabilities than its design gives"
    ]
    seven = SimpleNamespace(propensities=lambda contexts: np.full((len(contexts), 7), 1 / 7))  # of other actions
    assert len(_wrong_rounds(record, with_round(record, 2, sampler=seven))) == 1


def test_the_holdout_is_for_good_and_gets_the_standard(tmp_path):
    played = Played(tmp_path / "e.db", {"holdout": 0.4, "visits": "each"})
    person = {"age": 30, "country": "DE"}
    played.experiment.assign_many([AssignmentRequest(f"u-{n % 10}", person) for n in range(30)])
    played.experiment.export(tmp_path / "x.parquet", look=0)
    record = read_record(tmp_path / "x.parquet")
    sealed = SealedTerms.of(record)
    assert _wrong_people(record, sealed) == []
    held = record.columns["holdout"].copy()
    row = int(np.flatnonzero((record.visits > 0) & (held == 0))[0])
    held[row] = 1
    actions = record.actions.copy()
    actions[row] = sealed.standard
    once = replace(record, columns=record.columns | {"holdout": held, "action": actions})
    assert _wrong_people(once, sealed) == [
        "people are of the holdout who cannot be by the protocol, or only at some of their visits"
    ]
    visits = record.visits.copy()
    visits[row] += 1
    again = replace(record, columns=record.columns | {"visit": visits})
    assert _wrong_people(again, sealed) == [
        "somebody was taken in twice as a new person, or a new one as somebody who had come before"
    ]


def test_a_window_is_over_after_its_last_moment(tmp_path):
    """Rewards that are reported at the last moment count, so that a window which ends now is not over."""
    played = Played(tmp_path / "e.db", {"late": LateRule("window", window_seconds=86400)})
    given = played.day(30, told=0)
    played.experiment.pause("an entry tells the time")
    played.experiment.export(tmp_path / "x.parquet", look=0)
    record = read_record(tmp_path / "x.parquet")
    assert (record.claimed_at - record.at == DAY).all()
    assert audit(record).faults == ()
    assert np.isnan(record.rewards).all()
    assert played.experiment.record(given[0].id, reward=1.0).outcome == "recorded"
    played.experiment.export(tmp_path / "y.parquet", look=0)
    assert audit(read_record(tmp_path / "y.parquet")).faults == ()
    late = read_record(tmp_path / "y.parquet")
    late.outcomes["reward"].late[0] = 1
    assert _wrong_times(late, SealedTerms.of(late)) == [
        "a reward counts that came after its window, or one is taken for late that came within it"
    ]


def test_rewards_and_what_was_known_follow_from_the_records(export):
    record = read_record(export)
    sealed = SealedTerms.of(record).before(record.claimed)
    assert _wrong_rows(record, sealed) == []
    row = int(np.flatnonzero(record.rewards == 0.0)[0])
    for name, value, words in (
        ("rewards", 1.0, "a reward is not what was reported, or what the rule for late ones says"),
        ("known", record.known[row] + 1, "a design knew of other rewards than the log says"),
        ("counted", not record.counted[row], "rows were left out of the log, or added to it"),
    ):
        values = getattr(record, name).copy()
        values[row] = value
        found = _wrong_rows(replace(record, **{name: values}), sealed)
        assert len(found) == 1
        assert words in found[0]


def test_times_do_not_go_back_and_windows_are_over_by_a_record(export):
    record = read_record(export)
    sealed = SealedTerms.of(record)
    assert _wrong_times(record, sealed) == []
    at = record.at.copy()
    at[40] -= 1
    back = replace(record, columns=record.columns | {"at": at})
    assert "times of records go back" in _wrong_times(back, sealed)
    ahead = with_round(record, sealed.rounds[-1].number, snapshot_at=sealed.rounds[-1].snapshot_at + DAY)
    assert any("a design took windows for over" in fault for fault in _wrong_times(record, ahead))
    later = replace(record, claimed_at=record.claimed_at + DAY)
    assert any("windows are taken for over" in fault for fault in _wrong_times(later, sealed))
