"""A log that speaks against what its certificate rests on: the certificate says so, and cannot be kept quiet."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate.alarms import look

POLICIES = pb.Trees.learn(pb.Contexts.of([[0.0], [1.0]], names=["x"]), n_actions=2, depth=0)


def made_log(*, change_after=6000, played=0.5):
    """6,000 rows: action 0 earns .8 and action 1 earns .2 at first, and the other way round after the change."""
    rng = np.random.default_rng(3)
    actions = (rng.random(6000) >= played).astype(int)
    good = (actions == 0) == (np.arange(6000) < change_after)
    rewards = (rng.random(6000) < np.where(good, 0.8, 0.2)).astype(float)
    contexts = pb.Contexts.of(rng.random((6000, 1)), names=["x"])
    return pb.Log.of(contexts, actions=actions, rewards=rewards, propensities=np.full((6000, 2), 0.5))


@pytest.fixture(scope="module", params=["drift", "sample ratio"])
def doubtful(request):
    """A log that was collected while the world changed, or with other probabilities than it states."""
    log = made_log(change_after=3600) if request.param == "drift" else made_log(played=0.56)
    return request.param, log, pb.certify(log, POLICIES, epsilon=0.3, delta=0.05, ordered=True).certificate


@pytest.mark.thorough
def test_a_quiet_log_says_that_it_was_looked_at():
    log = made_log()
    made = pb.certify(log, POLICIES, epsilon=0.3, delta=0.05).certificate
    assert [check.kind for check in made.checks] == ["drift", "sample ratio"]
    assert made.alarms == ()
    found = pb.verify(made, log, POLICIES)
    assert found.good
    assert found.alarms == ()
    assert sum(words.startswith("no sign of") for words in found.checked) == 2


@pytest.mark.thorough
def test_an_alarm_is_part_of_what_is_said(doubtful):
    kind, log, made = doubtful
    assert [check.alarm for check in made.checks] == [check.kind == kind for check in made.checks]
    assert made.certified  # by the figures alone
    assert made.promise().startswith("the log speaks against an assumption of this claim (signs of ")
    assert made.to_json()["alarms"] == list(made.alarms)
    found = pb.verify(made, log, POLICIES)
    assert found.good
    assert found.alarms == made.alarms


@pytest.mark.thorough
def test_an_alarm_cannot_be_dropped_or_played_down(doubtful):
    _, log, made = doubtful
    quiet = tuple(replace(check, log_evidence=0.0) for check in made.checks)
    for checks in ((), quiet, made.checks[:1] if made.checks[1].alarm else made.checks[1:]):
        found = pb.verify(replace(made, checks=checks), log, POLICIES)
        assert found.faults[0].startswith("the certificate does not tell of signs of")
    louder = tuple(replace(check, log_evidence=check.log_evidence + 1.0) for check in made.checks)
    assert "is not what its log shows" in pb.verify(replace(made, checks=louder), log, POLICIES).faults[0]
    given = made.to_json() | {"alarms": []}
    with pytest.raises(pb.InputError, match="'alarms' of the certificate does not follow"):
        pb.Certificate.from_json(given)


@pytest.mark.first(1)
def test_the_command_line_does_not_pass_it_silently(doubtful, command, tmp_path):
    _, log, _ = doubtful
    log.write(tmp_path / "log.parquet")
    asked = ("certify", tmp_path / "log.parquet", "--policies", "trees:depth=0", "--epsilon", 0.3, "--ordered")
    code, out, _ = command(*asked, "--certificate", tmp_path / "proof.json")
    assert code == 3
    assert out.startswith("ALARM: signs of")
    code, out, _ = command(*asked, "--json")
    assert (code, next(iter(json.loads(out))), json.loads(out)["answer"][0][:16]) == (3, "alarms", "ALARM: signs of ")
    code, out, _ = command("evaluate", tmp_path / "proof.json", tmp_path / "log.parquet")
    assert (code, out[:16]) == (3, "ALARM: signs of ")
    assert "interval is right" not in out
    code, _, err = command("apply", tmp_path / "proof.json", tmp_path / "log.parquet")
    assert "ALARM: the certificate is in doubt: signs of" in err
    code, out, _ = command("verify", tmp_path / "proof.json", tmp_path / "log.parquet")
    assert code == 3
    assert out.startswith("ALARM: signs of")
    assert "\ndoubtful: if its assumptions held, except with probability 0.05" in out
    code, out, _ = command("verify", tmp_path / "proof.json", tmp_path / "log.parquet", "--json")
    assert (code, json.loads(out)["good"], len(json.loads(out)["alarms"])) == (3, True, 1)


def test_trials_look_too():
    done = pb.run("trivial:contexts=2,actions=2", algorithm="uniform", epsilon=0.2, delta=0.05, rng=1)
    assert [check.alarm for check in done.certificate.checks] == [False, False]


def test_drift_along_shuffled_rows_is_a_remark_that_changes_no_exit_code(command, tmp_path):
    log = made_log(change_after=3600)
    log.write(tmp_path / "log.parquet")
    asked = ("certify", tmp_path / "log.parquet", "--policies", "trees:depth=0", "--epsilon", 0.3)
    code, out, _ = command(*asked, "--certificate", tmp_path / "proof.json", "--report", tmp_path / "report.md")
    assert (code, "ALARM" in out) == (0, False)
    assert "rows differ along the file: the reward of action" in out
    assert "• **Did anything change on the way?** rows differ along the file" in (tmp_path / "report.md").read_text()
    code, out, _ = command("verify", tmp_path / "proof.json", tmp_path / "log.parquet")
    assert (code, "rows differ along the file" in " ".join(out.split())) == (0, True)
    code, out, _ = command("evaluate", tmp_path / "proof.json", tmp_path / "log.parquet")
    assert (code, "rows differ along the file" in " ".join(out.split())) == (0, True)


@pytest.mark.thorough
def test_a_remark_cannot_hide_an_alarm_and_older_certificates_keep_theirs():
    log = made_log(change_after=3600)
    made = pb.certify(log, POLICIES, epsilon=0.3, delta=0.05).certificate
    drift, ratio = made.told
    assert (made.shuffled, drift.remark, drift.alarm, made.alarms) == (True, True, False, ())
    assert pb.Certificate.from_json(made.to_json()).checks == made.checks
    assert pb.verify(made, log, POLICIES).good
    before = replace(made, checks=look(log, shuffled=True))  # as written before checks were by content
    assert pb.verify(before, log, POLICIES).good
    mixed = log.take(np.random.default_rng(1).permutation(len(log)))
    assert not pb.verify(before, mixed, POLICIES).good
    assert pb.verify(made, mixed, POLICIES).good
    older = replace(made, checks=(replace(drift, remark=False), before.checks[1]))  # as written before remarks existed
    found = pb.verify(older, log, POLICIES)
    assert (found.good, len(found.alarms)) == (True, 1)
    assert "not what its log shows" in pb.verify(replace(made, checks=(ratio,)), log, POLICIES).faults[0]
    in_order = pb.certify(log, POLICIES, epsilon=0.3, delta=0.05, ordered=True).certificate
    played_down = replace(in_order, checks=(replace(in_order.checks[0], remark=True), in_order.checks[1]))
    assert pb.verify(played_down, log, POLICIES).faults[0].startswith("the certificate does not tell of signs of drift")
    given = made.to_json()
    given["checks"][1]["remark"] = True
    with pytest.raises(pb.InputError, match="only a sign of drift along the rows of a file can be a remark"):
        pb.Certificate.from_json(given)


@pytest.mark.thorough
def test_no_drift_is_looked_for_if_the_order_of_rows_means_nothing(command, tmp_path):
    log = made_log(change_after=3600)
    rows = zip(log.contexts.features[:, 0], log.actions, log.rewards, strict=True)
    text = "x,action,reward\n" + "".join(f"{x:.6f},{a},{r:.0f}\n" for x, a, r in rows)
    (tmp_path / "log.csv").write_text(text)
    asked = ("certify", tmp_path / "log.csv", "--split", "uniform", "--policies", "trees:depth=0", "--order", "none")
    code, out, _ = command(*asked, "--certificate", tmp_path / "proof.json")
    said = " ".join(out.split())
    assert code == 0
    assert "drift was not looked for: the order of the rows in the file means nothing" in said
    assert "that the order of the rows in the file means nothing" in said  # among the assumptions
    code, out, _ = command("verify", tmp_path / "proof.json", tmp_path / "log.csv")
    assert (code, "--order none" in " ".join(out.split())) == (0, True)
    given = json.loads((tmp_path / "proof.json").read_text())
    del given["reading"]["order"]  # without it, `verify` remarks on the order, on which the proof does not depend
    (tmp_path / "forged.json").write_text(json.dumps(given))
    code, out, _ = command("verify", tmp_path / "forged.json", tmp_path / "log.csv")
    assert (code, "rows differ along the file" in " ".join(out.split())) == (0, True)
    for other, words in (
        (("--order", "time"), "--order 'time' is unknown: write --order none"),
        (("--order", "none", "--ordered"), "leave it out, or --ordered"),
        (("--order", "none", "--time", "x"), "leave it out, or --time"),
    ):
        code, _, err = command(*asked[:-2], *other)
        assert (code, words in err) == (2, True), err
