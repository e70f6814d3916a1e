"""A sealed record: what holds is found to hold, and whatever was altered afterwards is found out."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pacbandits as pb
from pacbandits.certificate import Certificate
from pacbandits.errors import InputError
from pacbandits.experiment.assignment_records import Report, id_of, is_id, row_in
from pacbandits.experiment.audit import audit, read_record
from pacbandits.experiment.chain import BEGINNING, entry_bytes, linked, mark_of
from pacbandits.experiment.database import spell
from pacbandits.experiment.exported_record import links_of
from pacbandits.records.log_metadata import PackedText, pack_text, unpack_text
from pacbandits.records.parquet import has_sealed_record
from pacbandits.verifier import recompute as verify
from tests.experiment.conftest import NOTED_ROW
from tests.experiment.live import Played
from tests.experiment.test_fuzzed_records import play_genuine


def test_an_untouched_record_is_good_and_its_certificate_verifies(finished, export):
    _, played, certificate, noted = finished
    found = audit(read_record(export), certificate, head=noted)
    assert found.faults == ()
    assert NOTED_ROW < found.noted < 2 * NOTED_ROW + 2
    assert any("head that was noted down" in words for words in found.checked)
    log = pb.Log.read(export)
    assert certificate.is_of(log)
    # It proves more of the first rounds alone, as rewards of the last one are out.
    assert len(certificate.of(log)) == certificate.rows < len(log)
    assert verify(certificate, certificate.of(log), played.experiment.protocol.policy_class).good
    assert has_sealed_record(export)


def test_all_of_a_record_ends_at_the_head_that_is_shown(finished, tmp_path):
    played = finished[1]
    played.experiment.export(tmp_path / "now.parquet", look=0)
    assert audit(read_record(tmp_path / "now.parquet")).head == played.experiment.seal().head


@pytest.fixture(scope="module")
def noted(tmp_path_factory):
    """An experiment that went on after its certificate, its export, and heads noted at random moments meanwhile."""
    folder, rng = tmp_path_factory.mktemp("noted"), np.random.default_rng(3)
    played, heads = Played(folder / "e.db", {"epsilon": 0.35}), {}

    def note():
        if rng.random() < 0.7:
            seal = played.experiment.seal()
            heads[seal.head] = seal.records

    for _ in range(5):
        given = played.day(int(rng.integers(40, 200)), told=0)
        note()
        played.experiment.record_many([Report(one.id, float(one.action == "discount")) for one in given[:-5]])
        note()
        played.advance()
        note()
    assert played.experiment.result().certified
    note()
    played.experiment.export(folder / "export.parquet")
    return played, folder / "export.parquet", heads


def test_any_head_noted_at_any_moment_is_found(noted):
    played, path, heads = noted
    record = read_record(path)
    assert record.claimed == played.experiment.result().records < record.records == played.experiment.seal().records
    made = Certificate.from_json(played.experiment.result().certificate)
    assert len(heads) > 6
    assert max(heads.values()) > record.claimed > min(heads.values())
    for head, records in heads.items():
        found = audit(record, made, head=head)
        assert (found.faults, found.noted) == ((), records)
    assert any(f"the claim is of its first {record.claimed:,} records" in words for words in found.checked)
    assert found.head == played.experiment.seal().head


def test_a_published_head_tells_by_when_what_was_fixed(noted):
    played, path, heads = noted
    record, line = read_record(path), played.experiment.seal().published()
    name, records, head, at = line.split()[2:]
    assert (name, int(records), head) == ("checkout", played.experiment.seal().records, played.experiment.seal().head)
    found = audit(record, head=line)
    assert found.noted == record.records
    assert any(f"of {at}: fixed by then were the protocol" in words for words in found.checked)
    early = min(heads, key=heads.get)
    words = next(words for words in audit(record, head=early).checked if "fixed by then" in words)
    assert f"{int((record.sequence < heads[early]).sum()):,} of {len(record):,} assignments" in words
    other = line.replace(f" {records} ", f" {int(records) - 1} ")
    assert any("none of this chain" in fault for fault in audit(record, head=other).faults)


def test_of_a_certificate_without_leaders_it_is_not_said_that_they_were_derived_again(tmp_path):
    _, made, _ = play_genuine(tmp_path)  # after a withdrawal
    assert made.leaders is None
    said = audit(read_record(tmp_path / "x.parquet"), made).checked
    assert "the certificate bets as the rounds say, at the protocol's epsilon and its part of delta" in said


def altered(path, target, change):
    """A copy of an export in which something was changed; entries: unpacked and packed again."""
    table = pq.read_table(path)
    key = next(name for name in table.schema.metadata if b"about" in name)
    about = json.loads(table.schema.metadata[key])
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    packed = columns["record_entries"]
    numbers = np.asarray(packed.flatten()).reshape(len(packed), -1)
    entries = json.loads(unpack_text(PackedText(numbers, about["record"]["entries_bytes"])))
    change(columns, entries, about)
    again = pack_text(json.dumps(entries), rows=len(columns["action"]))
    width = again.numbers.shape[1]
    columns["record_entries"] = pa.FixedSizeListArray.from_arrays(pa.array(again.numbers.reshape(-1)), width)
    about["record"]["entries_bytes"] = again.size
    made = pa.table(columns).replace_schema_metadata({**table.schema.metadata, key: json.dumps(about)})
    pq.write_table(made, target)


def put(columns, name, row, value):
    values = columns[name].to_numpy(zero_copy_only=False).copy()
    values[row] = value
    columns[name] = pa.array(values)


def change_action(columns, entries, about):
    was = columns["action"][5].as_py()
    put(columns, "action", 5, (was + 1) % 3)


def change_reward(columns, entries, about):
    row = int(np.flatnonzero(columns["record_reward_sequence"].to_numpy() < 2**62)[3])
    value = 1.0 - columns["record_reward"][row].as_py()
    put(columns, "record_reward", row, value)
    put(columns, "reward", row, value)


def drop_row(columns, entries, about):
    kept = pa.array([row for row in range(len(columns["action"])) if row != 7])
    columns |= {name: values.take(kept) for name, values in columns.items()}


def change_stake(columns, entries, about):
    entry = next(one for one in entries if one[2] == "round" and '"scale"' in one[3] and '"number":0' not in one[3])
    body = json.loads(entry[3])
    entry[3] = json.dumps(body | {"scale": body["scale"] * 2}, sort_keys=True, separators=(",", ":"))


def change_protocol(columns, entries, about):
    body = json.loads(entries[0][3])
    body["protocol"]["epsilon"] = 0.5
    entries[0][3] = json.dumps(body, sort_keys=True, separators=(",", ":"))


def change_time(columns, entries, about):
    put(columns, "record_at", 3, columns["record_at"][3].as_py() + 1)


def change_feature(columns, entries, about):
    flat = np.asarray(columns["record_features"].flatten()).reshape(-1, 2).copy()
    flat[4, 0] += 1
    columns["record_features"] = pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), 2)


def leave_out_entry(columns, entries, about):
    del entries[3]


@pytest.mark.first(5)
@pytest.mark.parametrize(
    "change",
    [
        change_action,
        change_reward,
        drop_row,
        change_stake,
        change_protocol,
        change_time,
        change_feature,
        leave_out_entry,
    ],
)
def test_whatever_is_altered_breaks_the_chain(export, tmp_path, finished, change):
    altered(export, tmp_path / "altered.parquet", change)
    found = audit(read_record(tmp_path / "altered.parquet"), finished[2])
    assert any("chain is broken" in fault or "records are missing" in fault for fault in found.faults)


def untouched(columns, entries, about):
    pass


def test_what_is_not_altered_does_not(export, tmp_path, finished):
    altered(export, tmp_path / "same.parquet", untouched)
    assert audit(read_record(tmp_path / "same.parquet"), finished[2]).good


# What the chain does not hold: what is derived from it, and stands in the file for those who only want the log.


def count_fewer(columns, entries, about):
    first = int(np.flatnonzero(columns["record_counted"].to_numpy())[10])
    put(columns, "record_counted", first, 0)


def count_holdout(columns, entries, about):
    row = int(np.flatnonzero(columns["record_holdout"].to_numpy())[0])
    put(columns, "record_counted", row, 1)


def earn_more(columns, entries, about):
    rewards = columns["reward"].to_numpy(zero_copy_only=False)
    put(columns, "reward", int(np.flatnonzero(rewards == 0.0)[0]), 1.0)


def know_earlier(columns, entries, about):
    known = columns["known"].to_numpy()
    row = int(np.flatnonzero(known > columns["round"].to_numpy() + 1)[0])
    put(columns, "known", row, int(columns["round"][row].as_py()) + 1)


def become_younger(columns, entries, about):
    row = int(np.flatnonzero(columns["record_counted"].to_numpy())[0])
    put(columns, "age", row, columns["age"][row].as_py() - 1)


@pytest.mark.first(2)
@pytest.mark.parametrize("change", [count_fewer, count_holdout, earn_more, know_earlier, become_younger])
def test_a_log_that_is_not_the_records_is_found_out(export, tmp_path, change):
    altered(export, tmp_path / "altered.parquet", change)
    assert not audit(read_record(tmp_path / "altered.parquet")).good


def forged(path, target, change):
    """The same after somebody has made the whole chain anew, as one who keeps the database can."""
    altered(path, target, change)
    head, heads = BEGINNING, {}
    for link in links_of(read_record(target)):
        heads[link.number] = head = linked(head, link.kind, link.record)

    def tell(columns, entries, about):
        for entry in entries:
            entry[4] = heads[entry[0]].hex()

    altered(target, target, tell)


def change_propensity(columns, entries, about):
    flat = np.asarray(columns["propensities"].flatten()).reshape(-1, 3).copy()
    row = int(np.flatnonzero(columns["record_counted"].to_numpy())[0])
    flat[row] = 0.5 * flat[row] + 0.5 / 3 + np.array([0.1, -0.05, -0.05])
    columns["propensities"] = pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), 3)


@pytest.mark.thorough
@pytest.mark.parametrize("change", [change_stake, change_propensity, change_protocol, change_reward])
def test_a_chain_that_was_made_anew_holds_and_has_other_heads(export, tmp_path, finished, change):
    _, _, certificate, noted = finished
    forged(export, tmp_path / "forged.parquet", change)
    record = read_record(tmp_path / "forged.parquet")
    assert not any("chain" in fault for fault in audit(record, certificate).faults)
    if change is not change_reward:  # which the certificate's own digest of the log tells
        assert not audit(record, certificate).good
    last = read_record(export).entries[-1][4]
    assert any("none of this chain" in fault for fault in audit(record, certificate, head=last).faults)
    assert audit(read_record(export), certificate, head=last).good
    assert audit(read_record(export), certificate, head=noted).good


def test_units_stand_for_nobody_and_ids_cannot_be_guessed():
    secret, other = b"s" * 32, b"t" * 32
    assert mark_of(secret, "u-17") != mark_of(other, "u-17")
    about = {"unit": "u-17", "nonce": "00ff"}
    given = id_of(secret, 300, **about)
    assert row_in(given) == 300
    assert is_id(given, secret, 300, **about)
    for wrong in (given[:-1] + "x", given + "\ud800", id_of(other, 300, **about), id_of(secret, 301, **about)):
        assert not is_id(wrong, secret, 300, **about)
    assert not is_id(given, secret, 300, unit="u-17", nonce="00fe")
    assert not is_id(given, secret, 300, unit="u-18", nonce="00ff")
    assert id_of(secret, 300, unit="u-17", nonce="") == id_of(
        secret, 300, unit="u-18", nonce=""
    )  # of the first version
    assert [row_in(one) for one in ("", "-", "x-1", "1" * 16 + "-a", "ä-1")] == [None] * 5


def test_links_depend_on_all_that_came_before():
    one = linked(BEGINNING, b"e", entry_bytes(0, 1, "created", "{}"))
    assert one != linked(BEGINNING, b"e", entry_bytes(0, 2, "created", "{}"))
    assert linked(one, b"e", b"x") != linked(BEGINNING, b"e", b"x")


def test_long_texts_travel_as_columns():
    words = "größer " * 10_000
    assert unpack_text(pack_text(words, rows=7)) == words
    packed = pack_text(words, rows=7)
    with pytest.raises(InputError, match="damaged"):
        unpack_text(PackedText(packed.numbers[::-1].copy(), packed.size))


def test_a_file_without_a_record_is_told_apart(tmp_path, finished, export):
    pb.Log.read(export).write(tmp_path / "log.parquet")
    assert not has_sealed_record(tmp_path / "log.parquet")
    assert not has_sealed_record(tmp_path / "none.parquet")
    with pytest.raises(InputError, match="no record"):
        read_record(tmp_path / "log.parquet")


def test_nothing_is_exported_before_somebody_came(tmp_path):
    with pytest.raises(InputError, match="nobody"):
        Played(tmp_path / "e.db").experiment.export(io.BytesIO())
    with pytest.raises(InputError, match="no interim analysis 9"):
        Played(tmp_path / "f.db").experiment.export(io.BytesIO(), look=9)


def _deliveries(database):
    with database.engine.connect() as connection:
        return connection.exec_driver_sql("SELECT * FROM webhook_deliveries").all()


def test_a_certified_experiment_says_so_once_and_its_export_does_not_name_the_webhook(finished, export):
    _, played, certificate, _ = finished
    found = [row for row in _deliveries(played.experiment.database) if row.event == "certified"]
    assert len(found) == 1
    body = json.loads(found[0].body)
    assert body["id"] == found[0].id
    assert body["details"]["digest"] == certificate.to_json()["digest"]
    assert body["text"] == f"Experiment checkout: certified: {body['details']['claim']}"
    assert (found[0].state, found[0].due) == ("waiting", 0)
    certified = [one for one in played.experiment.seal().entries if one["kind"] == "certified"]
    assert spell(certified[0]["at"]) == body["at"]
    told = export.read_bytes() + json.dumps(played.experiment.seal().to_json()).encode()
    assert b"example.org" not in told
    assert b"HOOK_SECRET" not in told
