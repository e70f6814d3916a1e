"""What a report recommends, and with which figures: one policy has one mean, one gain has one proven bound."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import pacbandits as pb
from pacbandits.certificate.alarms import AssumptionCheck
from pacbandits.certificate.worth import Interval
from pacbandits.report import certificate_document, worth_document
from pacbandits.report.markdown import render_markdown
from pacbandits.report.result_report import applied_document, result_document
from pacbandits.report.terminal import render_terminal

ALARMED = AssumptionCheck("sample ratio", 50.0, 5.3, "call was played 800 times where 450.0 were expected", "plays")


def log_of(n, lift=0.4):
    """People who are drawn to wait or to call at random; calling raises the mean reward from 0.3 by the lift."""
    rng = np.random.default_rng(4)
    people, actions = pb.Contexts.of(rng.normal(size=(n, 1)), names=["age"]), rng.integers(2, size=n)
    rewards = (rng.random(n) < 0.3 + lift * actions) * 1.0
    log = pb.Log.of(people, actions=actions, rewards=rewards, propensities=np.full((n, 2), 0.5))
    return replace(log, action_names=("wait", "call"))


@pytest.fixture(scope="module")
def better():
    """The result of a log in which calling is better, without a control."""
    return pb.certify(log_of(900), "trees:depth=1")


@pytest.fixture(scope="module")
def gained():
    """The same with a proven gain over waiting."""
    return pb.certify(log_of(900), "trees:depth=1", control="wait")


@pytest.fixture(scope="module")
def kept():
    """The same with calling as today's practice, which no candidate is proven to beat."""
    return pb.certify(log_of(900), "trees:depth=1", control="call")


def table(summary):
    console = Console(file=io.StringIO(), width=400)
    console.print(render_terminal(certificate_document(summary.certificate, summary)))
    return console.file.getvalue()


def test_nothing_is_recommended_of_a_log_that_proves_nothing(better):
    few = pb.certify(log_of(270), "trees:depth=1").summary()
    assert not few.answered
    first = few.answer()[0]
    assert first.startswith("No recommendation is proven yet: call has the highest estimate")
    assert "Of the 270 rows 256" in first
    assert 'contexts="FILE"' in first
    assert "Recommendation: " not in " ".join(few.answer())
    assert better.summary().answer()[0].startswith("Recommendation: use call for everyone")
    far = replace(better.summary(), certificate=replace(better.certificate, value=-9.0))  # a requested ε is not proven
    assert far.answer()[0].startswith("What was asked for is not proven yet: call has the highest estimate")
    assert "256" not in far.answer()[0]


def test_a_report_is_a_proof_only_of_what_is_proven(better, gained, kept):
    def confidence(result):
        text = render_markdown(result_document(result.summary()))
        return text.split("## Confidence and assumptions")[1].split("\n- ")[0].strip()

    assert confidence(better).startswith("This is a proof, not an approximation: except with probability 0.05")
    assert confidence(gained).startswith("This is a proof, not an approximation: except with probability 0.05")
    told = confidence(kept)
    assert told.startswith("This is a proof, not an approximation: except with probability 0.05 the policy is within")
    assert "No gain over call is proven. The first claim is right" in told
    for few in (pb.certify(log_of(270), "trees:depth=1"), pb.certify(log_of(270), "trees:depth=1", control="call")):
        assert confidence(few).startswith("Nothing is proven yet")
        assert "It is right" not in confidence(few)


def test_a_policy_of_one_action_has_one_mean(better, gained):
    for result in (better, gained):
        told = result.summary()
        assert told.sole == 1
        shown = table(told)
        assert "always call" not in " ".join(told.answer()) + shown.split("claim")[1]
        assert "best single action" not in " ".join(told.answer()) + shown
        page = render_markdown(result_document(told))
        assert page.count("| always call |") == 1
        assert "best single action" not in page


def test_another_action_with_a_larger_estimate_is_not_called_the_best_without_a_reason(better, kept):
    high = Interval(0.7, 0.95, 1.0)
    worth = replace(better.worth, singles=(high, better.worth.singles[1]))
    good = " ".join(replace(better.summary(), worth=worth).answer())
    assert "always wait has the highest estimate, 95 %, but the rows that chose the policy pointed to call" in good
    worth = replace(kept.worth, singles=(high, kept.worth.singles[1]))
    good = " ".join(replace(kept.summary(), worth=worth).answer())
    assert "always wait has the highest estimate, 95 %, but no gain over call is proven" in good
    assert "the best single action" not in good


def test_a_gain_has_one_proven_bound(gained):
    """The interval of the gain has two sides, and its lower end is below the proven gain."""
    told = gained.summary()
    least = told.show_least(gained.gain)
    shown = table(told)
    assert f"proven at least {least}" in shown
    assert "gain over the control" not in shown
    assert "gain over wait, ordinary" in shown


def test_the_table_says_of_gain_and_distance_whether_they_are_proven(better, gained, kept):
    def verdicts(result):
        lines = (line.strip() for line in table(result.summary()).splitlines())
        return {line.split("  ")[0]: line.split("  ")[-1].strip() for line in lines if line}

    assert verdicts(gained)["gain over wait proven"] == "yes"
    assert verdicts(kept)["gain over call proven"] == "no"
    for result in (better, gained, kept):
        assert verdicts(result)["distance from best certified"] == "yes"
        assert "certified" not in verdicts(result)
    assert not any(label.startswith("gain over") for label in verdicts(better))


def test_an_applied_policy_names_the_actions_that_nobody_gets():
    words = str(applied_document([("plain", 0), ("mail", 7), ("call", 0)]))
    assert "used for nobody: plain, call" in words
    assert "nobody" not in str(applied_document([("mail", 7)]))


def test_the_control_is_not_what_rows_point_to_where_it_is_only_kept(kept):
    high = Interval(0.7, 0.95, 1.0)
    worth = replace(kept.worth, singles=(high, kept.worth.singles[1]), checks=(ALARMED,))
    certificate = replace(kept.certificate, checks=(ALARMED,))
    told = replace(kept.summary(), certificate=certificate, worth=worth)
    told = replace(told, question=replace(told.question, certificate=certificate))
    last = told.answer()[-1]
    assert "point to" not in last
    assert "would prove no gain over call" in last
    assert "always wait has the highest estimate, 95 %" in last


def test_evaluate_repeats_the_proven_gain_over_the_same_control(gained):
    told, log = gained.summary(), gained.log
    about = {"own": True, "log": log, "proven": gained.certificate.improvement}
    for control, there in ((0, True), (1, False), (None, False)):
        console = Console(file=io.StringIO(), width=400)
        console.print(render_terminal(worth_document(gained.worth, told.actions, "…", control=control, **about)))
        words = f"at least {told.show_least(gained.gain)}"
        assert (words in console.file.getvalue()) == there
