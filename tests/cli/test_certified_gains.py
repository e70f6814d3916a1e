"""Gains over control at the command line, in Python, in JSON and in reports: one question, one answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pacbandits as pb
from pacbandits.policies.registry import load_policies
from pacbandits.progress import heard_by


@pytest.fixture
def path(tmp_path):
    """A log of varying propensities without rounds or times, in which one action is much better."""
    rng = np.random.default_rng(1)
    chance = rng.choice([0.3, 0.7], 600)
    new = rng.random(600) < chance
    rewards = rng.random(600) < np.where(new, 0.8, 0.2)
    rows = [
        f"{x:.3f},{'new' if a else 'old'},{int(r)},{p if a else 1 - p:.1f}"
        for x, a, r, p in zip(rng.random(600), new, rewards, chance, strict=True)
    ]
    made = tmp_path / "test.csv"
    made.write_text("\n".join(["x,action,reward,propensity", *rows]) + "\n", encoding="utf-8")
    return made


REMEDIES = ("--time COLUMN", "--ordered", "--shuffle", "--best-only")


def test_a_log_without_an_order_says_first_that_no_gain_is_proven(run, path, tmp_path):
    code, out, err = run("certify", path, "--control", "old", "--report", tmp_path / "report.md")
    first, second, *_ = out.splitlines()
    assert (code, err) == (3, "")
    assert "no gain over old" in first
    assert all(one in first for one in REMEDIES)
    assert "distance from the best" in second
    assert first in (tmp_path / "report.md").read_text(encoding="utf-8")
    code, out, _ = run("certify", path, "--control", "old", "--json")
    told = json.loads(out)
    assert (code, told["proven"], told["certified"], told["answer"][0]) == (3, False, True, first)


def test_python_gives_the_same_answer_with_its_own_words_for_the_remedies(path):
    result = pb.certify(path, control="old")
    assert (result.proven, result.certified, result.gain) == (False, True, None)
    first = result.answer.splitlines()[0]
    assert "no gain over old" in first
    assert all(one in first for one in ('time="COLUMN"', "ordered", "shuffle", "improve_on=False"))
    assert result.to_json()["proven"] is False


@pytest.mark.parametrize(("option", "words"), [("--shuffle", "at least"), ("--best-only", "use new for everyone")])
def test_the_remedies_answer(run, path, option, words):
    code, out, err = run("certify", path, "--control", "old", option)
    assert (code, err) == (0, "")
    assert out.startswith("Recommendation: ")
    assert words in out.splitlines()[0]
    assert "over old" in out or option == "--best-only"


@pytest.mark.thorough
def test_a_single_policy_of_rows_in_order_has_no_proof_of_a_gain(run, path):
    code, out, _ = run("certify", path, "--control", "old", "--ordered", "--single")
    first = out.splitlines()[0]
    assert code == 3
    assert "--single" in first
    assert "leave it out" in first
    assert run("certify", path, "--ordered", "--single")[0] == 0


def test_an_alarm_leaves_nothing_proven(run, path):
    """Counts that contradict the split: a gain is proven if that held, and it does not."""
    lines = path.read_text(encoding="utf-8").splitlines()
    biased = [lines[0], *(line.replace(",0.3", ",0.9").replace(",0.7", ",0.1") for line in lines[1:])]
    path.write_text("\n".join(biased) + "\n", encoding="utf-8")
    result = pb.certify(path, control="old", shuffle=True)
    assert result.alarms
    assert not result.proven
    assert run("certify", path, "--control", "old", "--shuffle")[0] == 3


def test_progress_tells_the_stage_and_how_far_it_is(path):
    """Intervals are counted; the search for the best design, which takes longest with many actions, tells bounds."""
    said: list[str] = []
    result = pb.certify(path, "trees:depth=1", shuffle=True)
    with heard_by(said.append, every_seconds=0.0):
        assert result.worth is not None
        assert said == [f"interval {k} of 4" for k in range(1, 5)]  # the policy is one action, and gains 0 over it
        said.clear()
        assert result.measured.outlook is not None
    assert "the best design: round 1: between" in said[0]


def test_a_distance_that_was_asked_for_and_is_not_proven_is_named(run, path):
    code, out, _ = run("certify", path, "--control", "old", "--shuffle", "--epsilon", "0.0001", "--json")
    told = json.loads(out)
    assert (code, told["proven"]) == (3, False)
    assert any("--epsilon 0.0001" in words and "not proven" in words for words in told["answer"])
    told = json.loads(run("certify", path, "--control", "old", "--shuffle", "--json")[1])
    assert not any("--epsilon" in words for words in told["answer"])


def test_an_approximate_certificate_is_not_asked_for_a_gain(run, path):
    code, _, err = run("certify", path, "--control", "old", "--asymptotic", "--epsilon", "0.4")
    assert code == 2
    assert all(words in " ".join(err.split()) for words in ("--control old", "--asymptotic", "--best-only"))


def test_a_guardrail_beside_the_best_itself_is_refused_by_its_cause(run, path):
    words = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([words[0] + ",harm", *(f"{row},0" for row in words[1:])]) + "\n", encoding="utf-8")
    rail = ("--guardrail", "harm <= control + 0.3", "--epsilon", "0")
    code, _, err = run("certify", path, "--control", "old", "--shuffle", *rail)
    assert code == 2
    assert "--epsilon 0" in " ".join(err.split())


@pytest.mark.thorough
@pytest.mark.parametrize("order", ["--ordered", "--shuffle"])
def test_a_plan_with_an_order_refuses_a_certificate_without_one(run, path, tmp_path, order):
    """Rows without an order prove no gain: whoever does not like the gain could otherwise leave the order out."""
    plan, proof = tmp_path / "plan.json", tmp_path / "proof.json"
    columns = ("--action", "action", "--reward", "reward", "--propensity", "propensity")
    told = json.loads(run("certify", "--write-plan", plan, *columns, "--control", "old", order, "--json")[1])
    pb.certify(path, control="old", action="action", reward="reward", propensity="propensity").save(
        proof, plan=told["digest"]
    )
    code, out, _ = run("verify", proof, path, "--plan", plan, "--json")
    assert code == 3
    assert any("orders rows otherwise" in fault for fault in json.loads(out)["faults"])
    assert run("certify", path, "--plan", plan, "--certificate", proof)[0] == 0
    assert run("verify", proof, path, "--plan", plan)[0] == 0


COLUMNS = {"action": "action", "reward": "reward", "propensity": "propensity"}
READ = tuple(word for name, column in COLUMNS.items() for word in (f"--{name}", column))


def planned(run, path, tmp_path, *options):
    """The file of a plan with these options, and its digest."""
    plan = tmp_path / "plan.json"
    code, out, _ = run("certify", "--write-plan", plan, *READ, *options, "--json")
    assert code == 0
    return plan, json.loads(out)["digest"]


def faults(run, proof, path, plan, *options):
    return json.loads(run("verify", proof, path, "--plan", plan, *options, "--json")[1])["faults"]


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [0.0, 0.001])
def test_a_plan_of_a_gain_is_not_answered_by_a_certificate_without_one(run, path, tmp_path, epsilon):
    """Neither the best itself nor a distance that is far from proven excuses that gains and guardrails are missing."""
    path.write_text(
        "\n".join(
            line + (",harm" if not number else f",{int(line.split(',')[1] == 'new' and number % 2)}")
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines())
        ),
        encoding="utf-8",
    )
    limit = ("--control", "old", "--shuffle", "--guardrail", "harm <= control + 0.1")
    plan, digest = planned(run, path, tmp_path, *limit)
    made = pb.certify(path, epsilon=epsilon, shuffle=True, metrics=["harm"], **COLUMNS)
    pb.save_certificate(
        tmp_path / "proof.json",
        replace(made.certificate, certified_epsilon=1.0) if epsilon else made.certificate,
        made.policies,
        reading=pb.load_certificate(saved(made, tmp_path)).reading,
        plan=digest,
    )
    found = " ".join(faults(run, tmp_path / "proof.json", path, plan))
    assert "a gain over old" in found
    assert "the guardrails of the certificate are not those of the plan" in found
    assert ("the plan asks for delta 0.05 and no epsilon" in found) == (epsilon == 0)


def saved(made, tmp_path):
    made.save(tmp_path / "made.json")
    return tmp_path / "made.json"


def test_a_plan_of_a_class_to_be_learnt_is_not_answered_by_one_of_unknown_origin(run, path, tmp_path):
    """In memory and for files that are read in blocks, of which the first is not the whole."""
    plan, digest = planned(run, path, tmp_path, "--policies", "trees:depth=1,bins=4")
    other = pb.Contexts.of(np.linspace(0, 0.05, 256)[:, None], names=["x"])
    for engine in (None, "stream"):
        given = load_policies("trees:depth=1,bins=4", other, n_actions=2)
        made = pb.certify(path, given, engine=engine, **COLUMNS)
        made.save(tmp_path / "proof.json", plan=digest)
        options = () if engine is None else ("--engine", engine)
        found = " ".join(faults(run, tmp_path / "proof.json", path, plan, *options))
        assert "does not say how its was learnt" in found


@pytest.mark.thorough
def test_a_split_that_changes_after_the_first_block_is_no_fixed_split(run, tmp_path):
    rng, n = np.random.default_rng(1), 66_000
    chance = np.where(np.arange(n) < 65_600, 0.5, np.where(rng.random(n) < 0.5, 0.4, 0.6))
    new = rng.random(n) < chance
    table = {
        "x": np.round(rng.random(n), 4),
        "action": np.where(new, "new", "old"),
        "reward": (rng.random(n) < np.where(new, 0.8, 0.2)).astype(float),
        "propensity": np.where(new, chance, 1 - chance),
    }
    path = tmp_path / "big.parquet"
    pq.write_table(pa.table(table), path)
    plan, _ = planned(run, path, tmp_path, "--policies", "trees:depth=1,bins=4")
    proof = tmp_path / "proof.json"
    assert run("certify", path, "--plan", plan, "--engine", "stream", "--certificate", proof)[0] == 0
    assert faults(run, proof, path, plan, "--engine", "stream") == []


def test_a_distance_that_nobody_asked_for_is_not_said_to_be_unproven(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(lines[:280]) + "\n", encoding="utf-8")
    result = pb.certify(path)
    assert not result.proven
    assert "asked for" not in result.answer
    assert "0.05 is not proven" not in result.answer


def test_a_file_whose_first_rows_taught_no_class_is_not_as_expected(run, path, tmp_path):
    """The class of the first rows of the file, but given as one that was fixed, so that these rows bet."""
    spec = "trees:depth=1,bins=4"
    first = pb.read_log(path, **COLUMNS)[0].contexts.take(np.arange(256))
    made = pb.certify(path, load_policies(spec, first, n_actions=2), **COLUMNS)
    made.save(tmp_path / "proof.json")
    code, out, _ = run("verify", tmp_path / "proof.json", path, "--policies", spec)
    assert code == 3
    assert "these rows bet in it" in " ".join(out.split())


def test_whoever_reads_only_the_beginning_gets_the_files_all_the_same(path, tmp_path):
    proof, report = tmp_path / "proof.json", tmp_path / "report.html"
    words = ("certify", path, "--shuffle", "--certificate", proof, "--report", report)
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "pacbandits", *map(str, words)]
    subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert pb.load_certificate(proof).certificate.certified
    assert report.read_text(encoding="utf-8").startswith("<!")


def test_a_plan_of_the_best_itself_is_kept(run, path, tmp_path):
    """An epsilon of 0 is a question of its own."""
    plan, _ = planned(run, path, tmp_path, "--epsilon", "0", "--shuffle")
    proof = tmp_path / "proof.json"
    run("certify", path, "--plan", plan, "--certificate", proof)
    assert pb.load_certificate(proof).certificate.epsilon == 0
    assert faults(run, proof, path, plan) == []
