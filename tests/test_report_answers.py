"""The sentences with which a report begins go by what was found; alarms come before them."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html import unescape as html_unescape
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import pacbandits as pb
from pacbandits.certificate.alarms import AssumptionCheck
from pacbandits.certificate.certificate import GuardedMetric
from pacbandits.certificate.intervals import rows_held_out
from pacbandits.certificate.learning_record import Learning
from pacbandits.certificate.worth import Confidence, Interval, compose_worth
from pacbandits.records.metrics import read_guardrail
from pacbandits.report import certificate_document, worth_document
from pacbandits.report.html import render_html
from pacbandits.report.markdown import render_markdown
from pacbandits.report.result_report import candidates_table, gains_picture, guardrails_table, result_document
from pacbandits.report.summary import _guarded_words, summarise
from pacbandits.report.terminal import render_terminal


def page_of(told):
    """The report as HTML, with its texts as they are read."""
    return html_unescape(render_html(result_document(told))).replace("\xa0", " ")


def report_markdown(told):
    return render_markdown(result_document(told))


@pytest.fixture(scope="module")
def found():
    """A log by whose first feature actions differ, its certificate, and how good that is."""
    rng = np.random.default_rng(0)
    people, actions = pb.Contexts.of(rng.normal(size=(900, 1)), names=["age"]), rng.integers(2, size=900)
    chance = np.where((people.features[:, 0] > 0) == (actions == 1), 0.8, 0.2)
    log = pb.Log.of(
        people,
        actions=actions,
        rewards=(rng.random(900) < chance).astype(float),
        propensities=np.full((900, 2), 0.5),
    )
    log = replace(log, action_names=("wait", "call"))
    made = pb.certify(log, pb.Trees.learn(people, n_actions=2, depth=1, bins=4)).certificate
    return log, made, pb.measure_worth(made, log)


@pytest.mark.parametrize(
    ("lead", "words"),
    [
        ((0.01, 0.1, 0.2), "use the rule below."),
        ((-0.05, 0.1, 0.2), "use the rule below. That it is better than"),
        ((-0.2, -0.05, 0.1), "use the rule below. That it is better than"),
    ],
)
def test_what_to_do_goes_by_what_is_gained(found, lead, words):
    log, made, worth = found
    told = summarise(made, log, worth=replace(worth, over_best=Interval(*lead)), source="log.csv", outcome="reward")
    assert words in told.answer()[0]
    assert ("not proven" in told.answer()[0]) == (lead[0] < 0)


def test_one_action_for_all_is_not_recommended_where_it_may_not_be_deployed(found):
    log, made, worth = found
    spec = "trees:depth=1,costs=0/1,budget=0.6"
    kept = replace(made, learning=Learning(spec, 300, "d", spared=0, in_order=True))
    bad = replace(worth, over_best=Interval(-0.2, -0.05, 0.1))
    told = summarise(kept, log, worth=bad, source="log.csv", outcome="reward")
    assert "use the rule below, the best that keeps the restrictions" in told.answer()[0]
    assert "for everyone" not in " ".join(told.answer())


ASSURANCES = (
    "proof",
    "proven",
    "It is right",
    "interval is right",
    "right with",
    "95 %",
    "except with probability 0.05 the",
)
ALARMED = AssumptionCheck("sample ratio", 50.0, 5.3, "wait was played 800 times where 450.0 were expected", "plays")


@pytest.mark.parametrize("kind", ["check", "empty interval"])
def test_an_alarm_comes_first_and_nothing_is_said_to_be_proven(found, kind):
    """Of a log whose counts do not fit its split, or by which an interval ends before it begins."""
    log, made, worth = found
    if kind == "check":
        made = replace(made, checks=(ALARMED,))
    worth = replace(worth, singles=(Interval(0.0205, 0.02, 0.0), worth.singles[1]), checks=made.checks)
    told = summarise(made, log, worth=worth, source="log.csv", outcome="reward")
    first = "ALARM: signs of a sample-ratio mismatch" if kind == "check" else "ALARM: an interval is empty"
    assert told.answer()[0].startswith(first)
    assert told.to_json()["alarms"] == list(told.alarms)
    assert told.to_json()["answer"][0].startswith(first)
    html, markdown = page_of(told), report_markdown(told)
    box = html[html.index('<div class="box doubtful">') :]
    assert first in re.sub("<[^>]*>", "", box).split("\n")[1]
    assert f"\n**{first}" in markdown
    assert "<title>ALARM: " in html
    console = Console(file=io.StringIO(), width=400)
    console.print(render_terminal(certificate_document(made, told)))
    shown_worth = worth_document(worth, told.actions, "always wait", own=True, control=None, log=log)
    console.print(render_terminal(shown_worth))
    shown = console.file.getvalue()
    assert shown.startswith(first)
    assert "claim, if its assumptions held" in shown
    body, text = (one.split("How to verify it")[0].replace(made.describe(), "") for one in (html, markdown))
    texts = (body, text, " ".join(told.answer()))
    for text in (*texts, shown.replace(made.describe(), "")):
        assert not [words for words in ASSURANCES if words in text]


def test_candidates_are_not_said_to_be_proven_or_recommended_under_an_alarm(found):
    log, made, worth = found
    rail = SimpleNamespace(guardrail=SimpleNamespace(spelt="a <= b"), estimate=0.0, low=-0.1, high=0.1, state="kept")
    one = SimpleNamespace(name="rule", policy=made.policy, low=0.1, estimate=0.2, allowed=True, guarded=(rail,))
    gain = SimpleNamespace(control=0, candidates=(one,), recommended=one, chosen="rule")
    for checks in ((), (ALARMED,)):
        certified = replace(made, checks=checks)
        told = summarise(certified, log, worth=replace(worth, checks=checks), source="log.csv", outcome="reward")
        parts = (candidates_table(told, gain), gains_picture(told, gain), guardrails_table(told, gain))
        for words in ("proven", "recommended"):
            assert (words in str(parts[0]).lower()) == (not checks)
        assert ("proven" in str(parts[1])) == ("proven" in str(parts[2])) == (not checks)
        assert all(("in doubt" in str(part)) == bool(checks) for part in parts)


def test_bounds_of_guardrails_are_rounded_away_from_what_they_claim(found):
    """A difference that may be 0.010004 is not 'at most +0.01', which the limit would allow."""
    log, made, worth = found
    rail = GuardedMetric(read_guardrail("returned <= control + 0.01"), 0.01, -0.0200049, 0.002, 0.010004)
    one = SimpleNamespace(name="rule", policy=made.policy, low=0.1, estimate=0.2, allowed=True, guarded=(rail,))
    gain = SimpleNamespace(control=0, candidates=(one,), recommended=one, chosen="rule")
    told = summarise(made, log, worth=worth, source="log.csv", outcome="reward")
    assert guardrails_table(told, gain).rows[0][3] == "-0.0201 to +0.0101"
    assert "difference from control at most +0.0101" in _guarded_words(rail)
    assert "at least +0.01," in _guarded_words(replace(rail, low=0.0100049, high=0.03))


def test_an_empty_interval_is_said_to_be_empty_and_never_turned_round(found):
    log, made, worth = found
    empty = Interval(0.0205, 0.02, 0.0164)
    odd = replace(worth, over_each=(empty, empty), over_best=empty, singles=(empty, empty))
    told = summarise(made, log, worth=odd, source="log.csv", outcome="reward")
    assert "2 % (empty interval: the assumptions contradict the data)" in page_of(told)
    for text in (page_of(told), report_markdown(told)):
        assert "+2 points (empty interval: the assumptions contradict the data)" in text
        assert "1.64" not in text
    assert empty.to_json() == {"low": None, "estimate": 0.02, "high": None, "standard_error": None}
    assert repr(empty) == "Interval(empty, estimate=0.02)"
    assert odd.to_json()["alarms"] == list(odd.alarms) == list(told.alarms)
    assert page_of(told).count('class="span"') == 1  # of the rule, whose interval is not empty


def test_bounds_outside_the_range_of_rewards_make_an_empty_interval():
    """A value that would have to be above 1 contradicts what is assumed; it is not said to be 1."""

    class Above:
        def wealth(self, kind, *, sign=1.0):
            bound = 1.2 if sign > 0 else -1.3
            return SimpleNamespace(bound=lambda needed: bound, standard_error=lambda falling: None)

        def estimate(self, kind):
            return 1.25

    facts = SimpleNamespace(reward_range=(0.0, 1.0), n_actions=2, samples=9, units=None)
    made = compose_worth(Above(), facts, Confidence(0.05))
    assert made.value.empty
    assert made.alarms[0].startswith("an interval is empty")


def test_a_certificate_in_doubt_says_so_wherever_it_is_printed(found):
    _, made, _ = found
    assert repr(made) == f"<Certificate: {made.describe()}>"
    doubtful = repr(replace(made, checks=(ALARMED,)))
    assert doubtful.startswith("<Certificate: the log speaks against an assumption of this claim (signs of a sample-")


def test_a_headline_rounds_to_the_safe_side(found):
    """A distance of 0.08131 is not proven to be below 8.13 points, nor a gain of 0.08137 to be 8.14."""
    log, made, worth = found
    sure = replace(worth, value=Interval(0.3, 0.4, 0.5), over_best=Interval(0.08137, 0.1, 0.2))
    told = summarise(replace(made, certified_epsilon=0.08131), log, worth=sure, source="log.csv")
    answer = " ".join(told.answer())
    assert "better by more than 8.14 points" in answer
    assert "gains at least 8.13 points" in answer
    for shown in (page_of(told), report_markdown(told)):
        assert "8.14 points" in shown
    console = Console(file=io.StringIO(), width=400)
    console.print(render_terminal(certificate_document(replace(made, certified_epsilon=0.0813123), told)))
    assert "0.08132" in console.file.getvalue()


def test_a_distance_is_compared_with_what_is_possible(found):
    log, made, worth = found
    high = replace(worth, value=Interval(0.88, 0.93, 0.95), over_best=Interval(-0.1, 0.02, 0.1))
    near, far = replace(made, certified_epsilon=0.03), replace(made, certified_epsilon=0.0943)
    told, vain = (summarise(one, log, worth=high, source="log.csv") for one in (near, far))
    assert told.answer()[2].endswith(
        f"by more than 3 points; the estimated gain over always {told.best_single} is 2 points."
    )
    assert vain.answer()[2] == (
        "This log proves nothing useful about which rule of this kind is best: it only rules out that one is better by "
        "more than 9.43 points, and by the estimate none could be better by more than 7 points. More rows are needed."
    )
    rare = replace(worth, value=Interval(0.015, 0.02, 0.025), over_best=Interval(-0.01, 0.002, 0.01))
    told_of_rare = summarise(replace(made, certified_epsilon=0.0097), log, worth=rare, source="log.csv").answer()[2]
    assert "by more than 0.97 points; that is 48 % of its mean reward, and the estimated gain over" in told_of_rare
    assert vain.answer()[2] in page_of(vain)
    scale = vain.to_json()["scale"]
    assert scale.pop("says_nothing") is True
    assert told.to_json()["scale"]["says_nothing"] is False
    assert scale == pytest.approx({"epsilon": 0.0943, "possible": 0.12, "likely": 0.07, "in_sight": 0.02})
    console = Console(file=io.StringIO(), width=200)
    console.print(render_terminal(certificate_document(far, vain)))
    assert "about 7 points, at most 12 points: this ε says nothing" in console.file.getvalue()


@pytest.mark.thorough
def test_each_figure_says_which_rows_it_is_of_and_groups_are_told_by_rows_held_out():
    """Where actions earn alike, the rows that chose a rule flatter it: they may not tell how good its groups are."""
    rng = np.random.default_rng(5)
    people, actions = pb.Contexts.of(rng.normal(size=(1500, 3))), rng.integers(2, size=1500)
    log = pb.Log.of(
        people, actions=actions, rewards=(rng.random(1500) < 0.3) * 1.0, propensities=np.full((1500, 2), 0.5)
    )
    made = pb.certify(log, "trees:depth=2").certificate
    told = summarise(made, log, worth=pb.measure_worth(made, log), source="log.csv", outcome="click")
    assert made.leaders.settled is not None
    assert told.leaves_of == "the 675 of 1,500 rows that had no part in choosing the rule"
    assert sum(leaf.rows for leaf in told.leaves) == 675
    assert told.worth.measured_by == "1,244 of 1,500 rows, each scored with a rule that was chosen before it"
    assert told.to_json()["groups_of"] == told.leaves_of
    held = rows_held_out(made, log)
    streamed = pb.certify(log, "trees:depth=2", engine="stream").certificate
    assert streamed.summed
    again = rows_held_out(streamed, log)  # the same, in the order of the log
    assert sorted(map(tuple, again.contexts.features)) == sorted(map(tuple, held.contexts.features))
    given = made.policy(held.contexts)
    means = []
    for leaf in told.leaves:  # with a fixed split, plain means
        action = told.actions.index(leaf.action)
        means.append(leaf.share * leaf.estimates[action])
    assert told.leaves_mean == pytest.approx(sum(means))
    assert abs(told.leaves_mean - held.rewards[held.actions == given].mean()) < 0.03
    for text in (page_of(told), report_markdown(told)):
        assert f"by {told.leaves_of}; estimates" in text
        assert f"By this table the rule comes to {told.show(told.leaves_mean)} on average; the value above" in text
        assert f"Measured by {told.worth.measured_by}." in text
        assert "All rows as they stand in the log" in text
    union = pb.certify(log, pb.Trees.learn(people, n_actions=2, depth=0)).certificate
    assert pb.measure_worth(union, log).measured_by.endswith("the estimates may flatter it")
    assert pb.evaluate(log, made.policy).measured_by == "1,244 of 1,500 rows"  # the first 256 tune the stakes
