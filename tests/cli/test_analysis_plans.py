"""Plans of an analysis: `certify --write-plan` fixes the question, `--plan` keeps to it, `verify --plan` checks it."""

from __future__ import annotations

import hashlib
import json

import pytest
from benchmarks.forgeries import write_people

import pacbandits as pb

COLUMNS = ("--action", "arm", "--reward", "earned", "--split", "uniform", "--without", "school,user,stage,place,income")
ASKED = (*COLUMNS, "--control", "a", "--policies", "trees:depth=1", "--guardrail", "complaint <= control + 0.3")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_people(tmp_path_factory.mktemp("log") / "people.csv", rows=400)


@pytest.fixture
def plan(run, tmp_path):
    """The plan of the question, written without a log."""
    path = tmp_path / "plan.json"
    code, out, _ = run("certify", "--write-plan", path, *ASKED)
    assert code == 0
    assert hashlib.sha256(path.read_bytes()).hexdigest() in out.replace("\n", "")
    told = json.loads(run("certify", "--write-plan", path, *ASKED, "--json")[1])
    assert told == {"plan": str(path), "digest": hashlib.sha256(path.read_bytes()).hexdigest()}
    return path


def test_a_plan_fixes_the_question_and_verify_checks_it(run, plan, log, tmp_path):
    proof, other = tmp_path / "proof.json", tmp_path / "other.json"
    same = ("--delta", "5%", "--policies", "trees:depth=1", "--guardrail", "complaint <= control + 0.3")
    assert run("certify", log, "--plan", plan, *same, "--certificate", proof)[0] == 0
    assert run("certify", log, *ASKED, "--certificate", other)[0] == 0
    named = json.loads(proof.read_text())
    assert named.pop("plan") == hashlib.sha256(plan.read_bytes()).hexdigest()
    assert named == json.loads(other.read_text())
    code, out, _ = run("verify", proof, log, "--plan", plan, "--json")
    trusted = json.loads(out)["trusted"]
    assert code == 0
    assert any("the question is that of the plan with the digest" in words for words in trusted)
    assert not any("were named before the log was seen" in words for words in trusted)
    code, out, _ = run("verify", proof, log, "--json")
    assert code == 0
    assert any("--plan PLAN checks that" in words for words in json.loads(out)["trusted"])
    code, out, _ = run("verify", other, log, "--plan", plan, "--json")
    assert code == 3
    assert "names no plan" in json.loads(out)["faults"][0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--delta", "0.1"), "--delta 0.1 contradicts the plan: {} has 0.05; leave --delta out"),
        (("--single",), "--single contradicts the plan: {} does not name it"),
        (("--policies", "trees:depth=2"), "--policies trees:depth=2 contradicts the plan: {} has trees:depth=1"),
        (("--control", "b"), "--control b contradicts the plan: {} has a"),
        (("--guardrail", "complaint <= control + 0.5"), "contradicts the plan: {} has complaint <= control + 0.3"),
        (("--unit", "user"), "--unit user contradicts the plan: {} does not name it"),
    ],
)
def test_an_option_that_contradicts_the_plan_is_refused_naming_both(run, plan, log, options, words):
    code, _, err = run("certify", log, "--plan", plan, *options)
    assert code == 2
    assert words.format(plan) in err


def test_what_is_no_plan_ends_in_a_sentence(run, log, tmp_path):
    for value, words in (
        ({"delta": "much"}, "much"),
        ({"delta": [0.1]}, "'delta' of the plan"),
        ({"guardrail": "complaint <= control + 0.3"}, "must be a list of texts"),
        ({"contexts": "before.csv"}, "needs 'contexts' and 'contexts_digest'"),
        ({"sigma": 1}, "sigma"),
    ):
        path = tmp_path / "bad.json"
        path.write_text(json.dumps({"format": "pacbandits analysis plan 1"} | value))
        code, _, err = run("certify", log, "--plan", path)
        assert code == 2
        assert words in " ".join(err.replace("│", " ").split())
    code, _, err = run("certify", *ASKED)
    assert code == 2
    assert "the log is missing" in err


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"delta": 0.1}, "asks for delta 0.1"),
        ({"epsilon": 0.2}, "epsilon 0.2"),
        ({"policies": "trees:depth=2"}, "asks for the policy class trees:depth=2"),
        ({"ordered": True}, "orders rows otherwise"),
        ({"guardrail": ["complaint <= control + 0.5"]}, "guardrails of the certificate are not"),
        ({"best_only": True, "guardrail": None}, "asks for no gain"),
        ({"control": "b"}, "asks for a gain over b"),
        ({"without": "school,user,stage"}, "differ in --without"),
        ({"contexts": "before.csv", "contexts_digest": "0" * 64}, "learnt from other contexts"),
    ],
)
def test_a_certificate_that_answers_another_question_is_refused_though_it_names_the_plan(
    run, plan, log, tmp_path, change, words
):
    """Whoever certifies could write any digest into the file."""
    fixed = json.loads(plan.read_text()) | change
    plan.write_text(json.dumps(fixed))
    asked = {name: fixed[name] for name in ("action", "reward", "split")}
    left, rails = tuple(COLUMNS[-1].split(",")), ("complaint <= control + 0.3",)
    found = pb.certify(log, "trees:depth=1", **asked, without=left, control="a", guardrails=rails)
    found.save(tmp_path / "proof.json", plan=hashlib.sha256(plan.read_bytes()).hexdigest())
    code, out, _ = run("verify", tmp_path / "proof.json", log, "--plan", plan, "--json")
    assert code == 3
    assert any(words in fault for fault in json.loads(out)["faults"])
