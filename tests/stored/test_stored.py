"""Frozen files of every format, made on x86-64 and aarch64: each is read and verified here, by every later version.

What must be equal on all machines is so to the last bit.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.benchmark.results import read_description, read_rows
from pacbandits.cli.certify import read_analysis_plan
from pacbandits.errors import InputError
from pacbandits.experiment.audit import audit, read_record
from pacbandits.experiment.migrations import STEPS
from pacbandits.proofs import contexts_beside
from pacbandits.records import parquet
from pacbandits.records.log import digest_log
from tests.stored.make import FOLDER, FORMATS, WITHIN, by_sums, facts, people, webhook_body

FIRST = {"state": 6}  # the first number of a format, where it is not 1
MACHINES = sorted(path for path in FOLDER.glob("certificate_*/*") if path.is_dir())
OLDER = [path for path in MACHINES if path.parent.name == "certificate_1"]
NEWER = FOLDER / "certificate_2" / "x86_64"


def named(path):
    return path.relative_to(FOLDER).as_posix()


def each(pattern):
    """One case for each of the files that fit."""
    found = sorted(path for path in FOLDER.glob(pattern) if path.name != "facts.json")
    assert found, pattern
    return pytest.mark.parametrize("path", found, ids=named)


def stored(path):
    return json.loads(path.read_text(encoding="utf-8"))


def in_present_words(written):
    """A certificate with the words that earlier versions had for a mixture policy replaced (docs/stability.md)."""
    text = json.dumps(written).replace('"kind": "lottery"', '"kind": "mixture"')
    return json.loads(text.replace("the lottery is within", "the mixture policy is within"))


def read_stored(path):
    """A frozen certificate and its log."""
    beside = path.with_suffix(".parquet")
    return pb.load_certificate(path), pb.Log.read(beside if beside.exists() else path.with_name("log.parquet"))


def test_each_format_that_was_ever_written_has_frozen_files():
    """A new number asks for `python -m tests.stored.make`, and the folders of earlier ones stay."""
    wanted = {f"{name}_{k}" for name, (number, _) in FORMATS.items() for k in range(FIRST.get(name, 1), number + 1)}
    assert {path.name for path in FOLDER.glob("*_[0-9]*") if path.is_dir()} == wanted
    newest = {f"{name}_{number}" for name, (number, _) in FORMATS.items()}  # the other machine's may be yet to come
    for folder in wanted:
        machines = {path.name for path in (FOLDER / folder).iterdir()}
        assert machines == {"x86_64", "aarch64"} or (folder in newest and machines < {"x86_64", "aarch64"}), folder
    for path in MACHINES:
        assert stored(path / "facts.json")["machine"] == path.name


def test_the_page_names_each_kind_of_file_with_its_numbers():
    """The second cell says how a file states its format; the third has the numbers that were ever written."""
    page = (FOLDER.parent.parent / "docs/stability.md").read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.split("|")] for line in page.splitlines() if line.startswith("| ")]
    rows = {numbers: "".join(one[2] for one in cells if one[3] == numbers) for numbers in {one[3] for one in cells}}
    written = {name.replace("_", " "): number for name, (number, _) in FORMATS.items()} | WITHIN
    state = written.pop("state")
    for name, number in written.items():
        numbers = ", ".join(str(k) for k in range(1, number + 1))
        assert f"`pacbandits {name} {number}`" in rows[numbers], name
    assert "user_version" in rows[str(state)]
    assert "pacbandits_schema" in rows[", ".join(str(k + 1) for k in range(len(STEPS)))]
    source = FOLDER.parent.parent / "src"
    calls = [re.findall(r"(?<!def )format_text\(", path.read_text(encoding="utf-8")) for path in source.rglob("*.py")]
    assert sum(map(len, calls)) == len(written) + 1  # one is for a message; a further one writes a new kind of file


@each("certificate_*/*/*.json")
def test_a_frozen_certificate_says_its_format_and_verifies(path):
    number = int(path.parent.parent.name.rpartition("_")[2])
    written = stored(path)
    assert written.get("format") == (None if number == 1 else f"pacbandits certificate {number}")
    proof, log = read_stored(path)
    assert proof.certificate.format == number
    again = json.loads(json.dumps(proof.certificate.to_json()))
    present = in_present_words(written)
    assert again == {name: value for name, value in present.items() if name not in ("class", "reading")}
    if "asymptotic" in written["kind"]:  # no proof that could be rechecked
        return
    beside = contexts_beside(path)
    contexts = pb.Contexts.read(beside) if beside.exists() else None
    assert pb.verify(proof.certificate, log, proof.policies, contexts=contexts).good


@pytest.mark.parametrize("folder", MACHINES, ids=named)
def test_digests_and_the_run_of_a_seed_are_the_same_everywhere(folder):
    """Samples, actions, rewards and their digests; nothing here rests on a design's last digits."""
    certificate = folder / ("by_sums.json" if folder in OLDER else "in_any_order.json")
    written, (_, log) = stored(folder / "facts.json"), read_stored(certificate)
    here = facts()
    assert {key: written[key] for key in here} == here
    assert digest_log(log) == digest_log(people()) == written["digest of the log"]
    assert np.array_equal(log.rewards, people().rewards)


def test_a_certificate_by_sums_is_the_same_to_the_last_bit():
    """Sums of whole numbers are. The evidence of checks is no such sum, and has its last digits from the processor."""
    made = json.loads(json.dumps(by_sums(people()).to_json()))
    written, elsewhere = (stored(path / "in_any_order.json") for path in MACHINES if path not in OLDER)
    # Those of the version that shuffled the numbers of rows cannot be made any more: they equal each other.
    older, others = (stored(path / "by_sums.json") for path in OLDER)
    for one, other in ((written, made), (elsewhere, made), (older, others)):
        found, here = ([check["log_evidence"] for check in each["checks"]] for each in (one, other))
        assert found == pytest.approx(here, rel=1e-9)
        same = [{**each, "checks": [{**check, "log_evidence": 0} for check in each["checks"]]} for each in (one, other)]
        assert {key: same[0][key] for key in other} == same[1]
    # Before, the digest and the checks depended on the order of the file.
    numbered = stored(OLDER[-1] / "by_content.json") | {"format": written["format"]}  # all that format 2 adds to it
    for one in (stored(NEWER / "by_content.json"), numbered):
        assert {key: one[key] for key in made if key not in ("checks", "digest")} == {
            key: value for key, value in made.items() if key not in ("checks", "digest")
        }


def test_a_certificate_of_the_version_that_shuffled_row_numbers_says_what_it_trusts():
    for name, chosen in (("certificate.json", True), ("by_sums.json", True), ("by_content.json", False)):
        proof, log = read_stored(FOLDER / "certificate_1" / "x86_64" / name)
        found = pb.verify(proof.certificate, log, proof.policies)
        assert found.good
        assert proof.certificate.by_content is not chosen
        assert any("nobody chose the order of the rows in the file" in words for words in found.trusted) is chosen
        assert any("in the order of their contents" in words for words in found.checked) is not chosen


@pytest.mark.parametrize("how", ["", "_by_sums"])
def test_a_certificate_of_the_version_in_which_first_rows_taught_says_what_it_trusts(how):
    for name, chosen in (("first_rows_taught", False), ("chosen_rows_taught", True)):
        proof, log = read_stored(NEWER / f"{name}{how}.json")
        mixed = log.take(np.random.default_rng(0).permutation(len(log)))
        assert proof.certificate.learning.by_content is chosen
        assert proof.certificate.any_time is not chosen
        found = pb.verify(proof.certificate, log, proof.policies)
        assert found.good
        assert any("not sorted by what it holds" in words for words in proof.certificate.assumptions) is not chosen
        assert any("which rows stand first in the file" in words for words in found.trusted) is not chosen
        assert pb.verify(proof.certificate, mixed, proof.policies).good is chosen
        learning = replace(proof.certificate.learning, by_content=not chosen)
        assert not pb.verify(replace(proof.certificate, learning=learning), log, proof.policies).good


@each("record_*/*/export.parquet")
def test_a_sealed_record_holds_and_so_does_a_head_that_was_noted(path):
    proof, record = pb.load_certificate(path.with_name("certificate.json")), read_record(path)
    assert record.about["format"] == f"pacbandits {path.parent.parent.name.replace('_', ' ')}"
    assert audit(record, proof.certificate, head=path.with_name("head.txt").read_text().strip()).faults == ()
    assert pb.verify(proof.certificate, proof.certificate.of(pb.Log.read(path)), proof.policies).good


@each("record_*/*/by_*.parquet")
def test_a_sealed_record_holds_whose_designs_weight_actions_by_noise(path):
    proof, record = pb.load_certificate(path.with_suffix(".json")), read_record(path)
    assert audit(record, proof.certificate).faults == ()
    assert pb.verify(proof.certificate, proof.certificate.of(pb.Log.read(path)), proof.policies).good
    rounds = [json.loads(body) for _, _, kind, body, _ in record.entries if kind == "round"]
    samplers = [one["sampler"] for one in rounds if one["kind"] == "design"][1:]
    assert samplers
    for sampler in samplers:
        assert ("model" in sampler) is (sampler["noise"] is None) is (path.stem == "by_model")


@each("record_*/*/pilot.parquet")
def test_a_sealed_record_holds_whose_first_rows_are_those_of_a_pilot(path):
    proof, record = pb.load_certificate(path.with_suffix(".json")), read_record(path)
    found = audit(record, proof.certificate)
    assert found.faults == ()
    assert "the first 260 rows are those of the pilot that the protocol sealed" in found.checked
    assert pb.verify(proof.certificate, proof.certificate.of(pb.Log.read(path)), proof.policies).good


@each("state_*/*/trial.state")
def test_a_frozen_trial_is_loaded_and_its_rounds_give_its_figures(path, tmp_path):
    algorithm, state = pb.load_state(shutil.copy(path, tmp_path))
    assert algorithm.name == "coda"
    assert state.certificate.certified
    assert algorithm.design(state) is None


@each("plan_*/*/plan.json")
def test_a_frozen_plan_is_read(path):
    plan = pb.load_plan(path)
    assert [one.name for one in plan.supposed.scenarios] == ["none", "winner"]
    assert len(plan.trials) == 12


@each("gain_plan_*/*/plan.json")
def test_a_frozen_plan_to_prove_a_gain_is_read(path):
    plan = pb.load_gain_plan(path)
    assert [one.needed for one in plan.tests] == [900.0, 1000.0, 1100.0]


@each("analysis_plan_*/*/plan.json")
def test_a_frozen_plan_of_an_analysis_is_read(path):
    plan = read_analysis_plan(path)
    assert plan is not None
    assert (plan.options["action"], plan.options["policies"], plan.options["control"]) == ("arm", "trees:depth=1", "a")


@each("webhook_*/*/body.json")
def test_a_webhook_still_sends_what_receivers_were_written_for(path):
    """Of the present number: fields may come, and those that were promised stay as they are."""
    frozen, sent = stored(path), json.loads(webhook_body())
    if frozen["format"] == sent["format"]:
        assert frozen.items() <= sent.items()


@each("benchmark_*/*/results")
def test_a_frozen_benchmark_is_read(path):
    assert list(read_description(path).suites) == ["tiny"]
    assert [row.seed for row in read_rows(path)] == [0, 1, 2]


def altered(path, target, change):
    target.write_text(re.sub(*change, path.read_text(encoding="utf-8"), count=1), encoding="utf-8")
    return target


def test_a_file_of_a_later_format_asks_for_an_upgrade_in_one_sentence(tmp_path):
    """Whatever else is in it: a later version may have other fields. Each of these ended in another message."""
    later = (r'"format": "pacbandits ([\w ]+) \d+"', r'"format": "pacbandits \1 77", "more": [1]')
    certificate, plan = NEWER / "trees.json", FOLDER / "plan_1" / "x86_64" / "plan.json"
    results = shutil.copytree(FOLDER / "benchmark_1" / "x86_64" / "results", tmp_path / "results")
    altered(results / "suite.json", results / "suite.json", later)
    strange = (r'"reading": \{', '"format": "pacbandits certificate 3", "reading": {"later": 1')
    kind = ('"kind": "pacbandits certificate"', '"kind": "pacbandits survival certificate"')
    parquet.write(tmp_path / "log.parquet", {"x": np.zeros(2)}, about={"format": "pacbandits table 77"})
    beside = {"actions": ["a", "b"], "record": {"format": "pacbandits record 77"}}
    parquet.write(tmp_path / "export.parquet", {"x": np.zeros(2)}, about=beside)
    for call, path in (
        (pb.Log.read, tmp_path / "log.parquet"),
        (read_record, tmp_path / "export.parquet"),
        (pb.load_certificate, altered(certificate, tmp_path / "later.json", later)),
        (pb.load_certificate, altered(FOLDER / "certificate_1/x86_64/by_sums.json", tmp_path / "3.json", strange)),
        (pb.load_certificate, altered(certificate, tmp_path / "kind.json", kind)),
        (pb.load_plan, altered(plan, tmp_path / "plan.json", later)),
        (pb.load_gain_plan, altered(FOLDER / "gain_plan_1/x86_64/plan.json", tmp_path / "gain.json", later)),
        (read_analysis_plan, altered(FOLDER / "analysis_plan_1/x86_64/plan.json", tmp_path / "asked.json", later)),
        (read_description, results),
    ):
        with pytest.raises(InputError, match=r"^[^;]*; upgrade pacbandits$"):
            call(path)
    with pytest.raises(InputError, match=r"has format 77, and pacbandits [\d.]+ reads formats up to 2: it was made by"):
        pb.load_certificate(tmp_path / "later.json")


@pytest.mark.parametrize("said", ['"pacbandits certificate"', '"certificate 2"', "2", "null", '"pacbandits plan 2"'])
def test_a_format_that_nobody_writes_is_refused(tmp_path, said):
    change = (r'"format": "[^"]*"', f'"format": {said}')
    with pytest.raises(InputError, match="its format must be 'pacbandits certificate 2'"):
        pb.load_certificate(altered(NEWER / "trees.json", tmp_path / "c.json", change))


def test_a_certificate_of_the_first_release_is_named_as_such(tmp_path):
    written = stored(FOLDER / "certificate_1" / "x86_64" / "by_sums.json")
    older = {
        name: value for name, value in written.items() if name not in ("checks", "alarms", "reward_range", "slack")
    }
    (tmp_path / "c.json").write_text(json.dumps(older | {"reserved": False, "naming": None}), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"made by pacbandits 0\.1\.0, whose certificates no later version reads; make"
    ):
        pb.load_certificate(tmp_path / "c.json")
