"""Guardrails: false alarms at any time whatever comes late, and how soon an alarm is raised that is due."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import binom

from pacbandits.errors import InputError
from pacbandits.experiment.analyses import ALTERNATIVES, log_evidence, look_at_guardrail
from pacbandits.experiment.protocol import GuardrailRule

REPETITIONS, ROWS, ALPHA = 300, 1500, 0.1


def paths(mean, *, rng, kind="coins"):
    """Sums of outcomes (repetitions, rows) of that mean."""
    if kind == "coins":
        drawn = rng.random((REPETITIONS, ROWS)) < mean
    else:  # any numbers in [0, 1]
        drawn = rng.beta(0.5 * mean, 0.5 * (1 - mean), (REPETITIONS, ROWS))
    return np.cumsum(drawn, axis=1)


def ever(sums, *, most):
    """Whether the evidence exceeds log(1/α) at any row."""
    return evidence(sums, most=most).max(axis=1) >= math.log(1 / ALPHA)


def evidence(sums, *, most):
    """The evidence at every row (repetitions, rows)."""
    rows = np.tile(np.arange(1, ROWS + 1.0), len(sums))
    return log_evidence(rows, sums.reshape(-1).astype(float), most=most).reshape(sums.shape)


@pytest.mark.first(1)
@pytest.mark.parametrize(("most", "kind"), [(0.02, "coins"), (0.3, "coins"), (0.1, "numbers")])
def test_false_alarms_at_any_time_are_as_rare_as_promised(most, kind):
    found = ever(paths(most, rng=np.random.default_rng(1), kind=kind), most=most).sum()
    assert found <= binom.ppf(0.9999, REPETITIONS, ALPHA)
    assert found > 0  # the test is not so cautious that it never speaks


def test_values_that_come_late_by_what_they_are_raise_no_more_false_alarms():
    rng, most = np.random.default_rng(2), 0.05
    bad = rng.random((REPETITIONS, ROWS)) < most
    # Bad ones are told at once, good ones never: of those that are in all are bad.
    rule, alarms = GuardrailRule("bad", most, 2 * ALPHA), 0
    for one in bad:
        told = one.reshape(-1, 50).sum(axis=1)[:, None]
        alarms += len(look_at_guardrail(rule, ("a",), rows=np.full_like(told, 50), seen=told, totals=told).alarms) > 0
    assert 0 < alarms <= binom.ppf(0.9999, REPETITIONS, 2 * ALPHA)


def test_all_tests_together_raise_false_alarms_as_rarely():
    rng, most = np.random.default_rng(3), 0.1
    rule, names = GuardrailRule("bad", most, ALPHA), ("a", "b", "c")
    alarms = 0
    for _ in range(REPETITIONS):
        rows = rng.multinomial(100, [0.2, 0.3, 0.5], size=20)
        totals = rng.binomial(rows, most)
        alarms += len(look_at_guardrail(rule, names, rows=rows, seen=rows, totals=totals).alarms) > 0
    assert 0 < alarms <= binom.ppf(0.9999, REPETITIONS, ALPHA)


def test_what_is_too_frequent_is_noticed_soon():
    most = 0.02
    for mean, most_rows in ((0.06, 900), (0.3, 60)):
        sums = paths(mean, rng=np.random.default_rng(4))[:60]
        first = np.argmax(evidence(sums, most=most) >= math.log(4 / 0.01), axis=1)
        assert np.median(first) < most_rows
        assert ever(sums, most=most).mean() > 0.95


def test_the_action_that_does_harm_is_named_and_good_ones_are_not():
    rule = GuardrailRule("complaint", 0.02)
    found = look_at_guardrail(rule, ("a", "b"), rows=[[500, 500]], seen=[[400, 380]], totals=[[6, 45]])
    assert [(one.of, one.alarm) for one in found.tests] == [("all", True), ("a", False), ("b", True)]
    assert found.tests[2].mean == pytest.approx(45 / 380)
    assert [one.needed for one in found.tests] == pytest.approx([math.log(3 / 0.01)] * 3)  # a third of the level each
    assert "complaint exceeds 2 %" in found.words()
    assert "with b" in found.words()
    assert "with a " not in found.words()
    quiet = look_at_guardrail(rule, ("a", "b"), rows=[[500, 500]], seen=[[0, 0]], totals=[[0, 0]])
    assert (quiet.words(), quiet.tests[0].mean, quiet.alarms) == ("", None, ())


def test_rows_of_which_nothing_is_in_yet_hide_nothing_that_came_before():
    rule = GuardrailRule("complaint", 0.02)
    early = look_at_guardrail(rule, ("a",), rows=[[100]], seen=[[100]], totals=[[20]])
    later = look_at_guardrail(rule, ("a",), rows=[[100], [10_000]], seen=[[100], [0]], totals=[[20], [0]])
    assert early.alarms
    assert later.tests[0].evidence == pytest.approx(early.tests[0].evidence)


def test_the_evidence_is_the_mixture_of_likelihood_ratios():
    n, total, most = 40.0, 3.5, 0.05
    ratios = [(p / most) ** total * ((1 - p) / (1 - most)) ** (n - total) for p in most + (1 - most) * ALTERNATIVES]
    found = log_evidence(np.array([n]), np.array([total]), most=most)[0]
    assert found == pytest.approx(math.log(np.mean(ratios)))


def test_nothing_seen_is_no_evidence_and_looks_are_written_and_read():
    rule = GuardrailRule("complaint", 0.02)
    empty = look_at_guardrail(rule, ("a", "b"), rows=np.empty((0, 2)), seen=np.empty((0, 2)), totals=np.empty((0, 2)))
    assert [one.evidence for one in empty.tests] == [0.0] * 3
    found = look_at_guardrail(rule, ("a", "b"), rows=[[5, 5]], seen=[[4, 0]], totals=[[0.5, 0]])
    for one in (empty, found):
        assert [test["alarm"] for test in json.loads(json.dumps(one.to_json()))["tests"]] == [False] * 3


def test_counts_that_cannot_be_are_refused():
    rule = GuardrailRule("complaint", 0.02)
    for rows, seen, totals in (([[1]], [[2]], [[0]]), ([[2]], [[1]], [[1.5]]), ([[2]], [[1]], [[-1]])):
        with pytest.raises(InputError, match="guardrail"):
            look_at_guardrail(rule, ("a",), rows=rows, seen=seen, totals=totals)
