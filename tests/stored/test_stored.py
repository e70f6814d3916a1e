"""Files made on x86-64 and on aarch64: each is read and verified here; what must be equal is so to the last bit."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.experiment.audit import audit, read_record
from pacbandits.records.log import digest_log
from tests.stored.make import FOLDER, by_sums, facts, people

MACHINES = ("x86_64", "aarch64")
on_each = pytest.mark.parametrize("machine", MACHINES)


def stored(machine, name):
    return json.loads((FOLDER / machine / name).read_text(encoding="utf-8"))


def test_the_files_are_of_both_kinds_of_machine():
    assert [stored(machine, "facts.json")["machine"] for machine in MACHINES] == list(MACHINES)


@on_each
def test_digests_and_the_run_of_a_seed_are_the_same_everywhere(machine):
    """Samples, actions, rewards and their digests; nothing here rests on a design's last digits."""
    written = stored(machine, "facts.json")
    assert {key: written[key] for key in facts()} == facts()
    log = pb.Log.read(FOLDER / machine / "log.parquet")
    assert digest_log(log) == digest_log(people()) == written["digest of the log"]
    assert np.array_equal(log.rewards, people().rewards)


@on_each
@pytest.mark.parametrize("name", ["certificate.json", "by_sums.json"])
def test_certificates_verify_whoever_made_them(machine, name):
    proof = pb.load_certificate(FOLDER / machine / name)
    assert pb.verify(proof.certificate, pb.Log.read(FOLDER / machine / "log.parquet"), proof.policies).good


@on_each
def test_a_certificate_by_sums_is_the_same_to_the_last_bit(machine):
    """Sums of whole numbers are. The evidence of drift is no such sum, and has its last digits from the processor."""
    written, made = stored("x86_64", "by_content.json"), json.loads(json.dumps(by_sums(people()).to_json()))
    # Those of the version that shuffled the numbers of rows cannot be made any more: they equal each other.
    older, others = stored("x86_64", "by_sums.json"), stored(machine, "by_sums.json")
    for one, other in ((written, made), (older, others)):
        found, here = ([check.pop("log_evidence") for check in each["checks"]] for each in (one, other))
        assert {key: one[key] for key in other} == other
        assert found == pytest.approx(here, rel=1e-9)


def test_a_certificate_of_the_version_that_shuffled_row_numbers_says_what_it_trusts():
    log = pb.Log.read(FOLDER / "x86_64" / "log.parquet")
    for name, chosen in (("certificate.json", True), ("by_sums.json", True), ("by_content.json", False)):
        proof = pb.load_certificate(FOLDER / "x86_64" / name)
        found = pb.verify(proof.certificate, log, proof.policies)
        assert found.good
        assert proof.certificate.by_content is not chosen
        assert any("nobody chose the order of the rows in the file" in words for words in found.trusted) is chosen
        assert any("in the order of their contents" in words for words in found.checked) is not chosen


@on_each
def test_a_sealed_record_holds_and_so_does_a_head_that_was_noted(machine):
    proof = pb.load_certificate(FOLDER / machine / "export.json")
    record = read_record(FOLDER / machine / "export.parquet")
    found = audit(record, proof.certificate, head=stored(machine, "facts.json")["noted head"])
    assert found.faults == ()
    log = pb.Log.read(FOLDER / machine / "export.parquet")
    assert pb.verify(proof.certificate, proof.certificate.of(log), proof.policies).good
