"""Gains over control at the command line, in Python, in JSON and in reports: one question, one answer."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pacbandits as pb
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
