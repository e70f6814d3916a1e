"""The proven gain over control: bounds that hold, candidates that share δ, one policy everywhere, forgeries."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

import pacbandits as pb
import pacbandits.certificate.certify as flow
from pacbandits.certificate import choosing, conventions
from pacbandits.certificate.certificate import CONTROL, ONE_ACTION, RULE, Certificate
from pacbandits.certificate.certify import Request, certify_rows, measure_worth
from pacbandits.certificate.choosing import validated_class
from pacbandits.certificate.claim import rounded_down
from pacbandits.certificate.content_order import order_by_content
from pacbandits.certificate.gains import improve_on
from pacbandits.certificate.summed.limits import RowLimits
from pacbandits.certificate.survey import LogInMemory
from pacbandits.certificate.worth import decide_led, stakes_for
from pacbandits.confidence import CONTROL_PART, candidate_part, guardrail_part, recommended_part
from pacbandits.engines import Local, LogSource
from pacbandits.errors import InputError
from pacbandits.policies.trees.classes import single_actions
from pacbandits.policies.trees.tree_policy import TreePolicy
from pacbandits.records import Contexts, Log, Metric, Ratio
from pacbandits.records.log import NOT_IN
from pacbandits.records.metrics import read_guardrail
from pacbandits.records.row_order import COUNTED_ROWS
from pacbandits.report.document import Intervals, Section
from pacbandits.report.markdown import render_markdown
from pacbandits.report.result_report import ladder, result_document
from pacbandits.rewards import model_from_json
from pacbandits.verifier import verify_rows
from pacbandits.verifier.content_order import content_order
from pacbandits.verifier.verify import COUNT_TRUSTED, ORDER_TRUSTED

NAMES = ("today", "new", "other")


def draw(n: int, seed: int, *, lift: float = 0.0, by_person: float = 0.0, rate: float = 0.3) -> Log:
    """A test of three actions with a fixed split: `new` lifts everybody, and by the first feature up or down."""
    rng = np.random.default_rng([n, seed])
    features = rng.normal(size=(n, 3))
    means = np.full((n, 3), rate)
    means[:, 1] += lift + by_person * np.sign(features[:, 0])
    actions = rng.integers(3, size=n)
    rewards = (rng.random(n) < means[np.arange(n), actions]).astype(float)
    log = Log.of(Contexts.of(features), actions=actions, rewards=rewards, propensities=np.full((n, 3), 1 / 3))
    return replace(log, action_names=NAMES)


def certified(log: Log, **options):
    return certify_rows(log, Request(**{"policies": "trees:depth=1,bins=8", "control": "today", **options}))


@cache
def better() -> tuple[Log, Certificate, pb.PolicyClass]:
    """A log that proves that one action for everybody is better."""
    log = draw(1500, 1, lift=0.3)
    found = certified(log)
    return log, found.certificate, found.policies


def test_one_policy_is_recommended_certified_and_exported():
    """What is better for all is proven to be; a rule where people differ; else control is kept."""
    for log, chosen in (
        (draw(1500, 1, lift=0.3), ONE_ACTION),
        (draw(3000, 2, by_person=0.25), RULE),
        (draw(900, 6, lift=0.03), CONTROL),
    ):
        result = pb.certify(log, "trees:depth=1,bins=8", control="today")
        made = result.certificate
        improvement = made.improvement
        assert improvement.chosen in ({chosen, RULE} if chosen == ONE_ACTION else {chosen})
        assert made.policy.to_json() == improvement.policy.to_json()
        assert result.policy.chosen is made.policy
        assert (result.gain is not None) == (chosen != CONTROL) == result.proven
        assert result.verify().good
        first = result.answer.splitlines()[0]
        assert ("keep today" in first) == (chosen == CONTROL)
        assert ("by at least" in first) == (chosen != CONTROL)
    assert isinstance(made.policy, TreePolicy)
    assert made.policy.root == 0


def test_gains_are_proven_about_as_closely_as_an_ordinary_interval_of_half_of_the_rows():
    log, made, _ = better()
    best = made.improvement.recommended
    means = [log.rewards[log.actions == a] for a in (0, 1)]
    half = 1.645 * math.sqrt(sum(2.0 * one.var() / len(one) for one in means))
    assert best.low > 0
    assert best.estimate - best.low < 1.5 * half


@pytest.mark.parametrize("lift", [0.0, 0.05])
def test_false_gains_are_rare(lift):
    """The bound of a candidate exceeds its true gain with probability δ at most, all candidates together."""
    wrong, runs, delta = 0, 40, 0.3
    for seed in range(runs):
        made = certified(draw(500, 100 + seed, lift=lift), delta=delta, policies="trees:depth=0").certificate
        wrong += any(one.low > (lift if one.policy.root == 1 else 0.0) for one in made.improvement.candidates)
    assert wrong <= stats.binom.ppf(0.999, runs, delta)


@pytest.mark.slow
def test_false_gains_of_rules_are_rare():
    """The same for rules that follow noise, with rare rewards: 400 logs at δ = 0.2."""
    wrong, runs, delta = 0, 400, 0.2
    for seed in range(runs):
        made = certified(draw(700, seed, rate=0.05), delta=delta).certificate
        wrong += any(one.low > 0 for one in made.improvement.candidates)
    assert wrong <= stats.binom.ppf(0.99, runs, delta)


def test_parts_of_delta_are_fixed_beforehand_and_sum_to_it():
    assert 2 * candidate_part(2) == candidate_part(1) == 1.0
    for candidates in (1, 2):
        parts = candidates * recommended_part(control=False, candidates=candidates)
        assert parts + recommended_part(control=True, candidates=candidates) == pytest.approx(1.0)
    log, made, _ = better()
    assert made.threshold == pytest.approx(-math.log(0.05 * 0.8 * (1 - CONTROL_PART) / 2))
    kept = certified(draw(900, 3)).certificate
    assert kept.threshold == pytest.approx(-math.log(0.05 * 0.8 * CONTROL_PART))
    assert log.n_actions == 3


def test_rows_that_tune_the_stakes_are_no_evidence():
    log, made, policies = better()
    survey = pb.certify(log, policies, control="today").found.survey
    stakes = stakes_for(survey, model_from_json(made.model), spared=0, nats=-math.log(0.05 / 2))
    assert stakes.bets.spared == made.improvement.spared == 1
    assert stakes.bets.scales[0] == made.improvement.scale
    own = made.improvement.recommended
    decided, slack = decide_led(own.policy, own.leaders, stakes, survey.counts)
    assert slack == 0
    assert decided.counted.tolist() == [False, *(True,) * (len(survey.counts) - 1)]


def test_sums_over_rows_prove_the_same_gains():
    log = draw(3000, 4, by_person=0.25)
    request = Request(policies="trees:depth=1,bins=8", control="today")
    memory = certify_rows(log, request).certificate.improvement
    found = certify_rows(LogSource(log), request, engine=Local("stream"), limits=RowLimits())
    sums = found.certificate.improvement
    assert sums.chosen == memory.chosen == RULE
    for one, other in zip(sums.candidates, memory.candidates, strict=True):
        assert other.low - 1e-3 < one.low <= other.low + 1e-9
        assert one.estimate == pytest.approx(other.estimate, abs=1e-6)
    verdict, _ = verify_rows(found.certificate, LogSource(log), found.policies, engine=Local("stream"))
    assert verdict.good


FORGERIES = {
    "a larger gain": lambda c: replace(
        c,
        improvement=replace(
            c.improvement, candidates=tuple(replace(o, low=o.low + 1e-3) for o in c.improvement.candidates)
        ),
    ),
    "another estimate": lambda c: replace(
        c,
        improvement=replace(
            c.improvement, candidates=tuple(replace(o, estimate=0.4) for o in c.improvement.candidates)
        ),
    ),
    "stakes by hindsight": lambda c: replace(c, improvement=replace(c.improvement, scale=c.improvement.scale * 1.1)),
    "all rows bet": lambda c: replace(c, improvement=replace(c.improvement, spared=0)),
    "another control": lambda c: replace(c, improvement=replace(c.improvement, control=2)),
}


def refused(*names: str) -> bool:
    """Return whether all these forgeries are refused, and the certificate itself is not."""
    log, made, policies = better()
    assert pb.verify(made, log, policies).good
    return not any(pb.verify(FORGERIES[name](made), log, policies).good for name in names)


def test_forged_gains_are_refused():
    assert refused("a larger gain")


def test_forged_estimates_and_controls_are_refused():
    assert refused("another estimate", "another control")


def test_forged_stakes_on_gains_are_refused():
    assert refused("stakes by hindsight", "all rows bet")


def test_a_candidate_left_out_is_refused(monkeypatch):
    """All figures follow, but one candidate has all of δ: who looks first could choose which."""
    log, _, policies = better()

    def without_rule(rows, control, leaders, **options):
        del leaders[RULE]
        return improve_on(rows, control, leaders, **options)

    monkeypatch.setattr(flow, "improve_on", without_rule)
    verdict = pb.verify(certified(log, policies=policies).certificate, log, policies)
    assert verdict.faults == ("the candidates are not those that certify compares with control",)


def test_leaders_by_hindsight_are_refused(monkeypatch):
    """All figures follow, but who leads among single actions was not chosen by the rows before."""
    log, _, policies = better()
    honest = LogInMemory.lead_single_actions

    def lead(self, learnt, **options):
        found = honest(self, learnt, **options)
        return replace(found, policies=(TreePolicy(2, 3),), turns=tuple(min(turn, 0) for turn in found.turns))

    monkeypatch.setattr(LogInMemory, "lead_single_actions", lead)
    verdict = pb.verify(certified(log, policies=policies).certificate, log, policies)
    assert len(verdict.faults) == 1
    assert "not the policy that the rows before it favour" in verdict.faults[0]


def test_a_certificate_of_another_policy_than_the_recommended_cannot_be_made():
    _, made, _ = better()
    with pytest.raises(InputError, match="not the one that its proven gains recommend"):
        replace(made, policy=TreePolicy(0, 3))
    given = json.loads(json.dumps(made.to_json()))
    assert Certificate.from_json(given).to_json() == given
    given["improvement"]["recommended"] = CONTROL
    with pytest.raises(InputError, match="the recommendation is"):
        Certificate.from_json(given)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"control": "todey"}, "todey.*did you mean.*today"),
        ({"improve_on": "nothing"}, "nothing"),
        ({"control": "today", "improve_on": "new"}, "'new'.*'today'"),
        ({"improve_on": True}, "improve_on"),
    ],
)
def test_a_control_that_is_no_action_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        pb.certify(better()[0], "trees:depth=0", **options)


def test_without_a_control_or_where_none_is_wanted_nothing_changes():
    log, *_ = better()
    plain, off = (
        pb.certify(log, "trees:depth=1,bins=8", **options)
        for options in ({}, {"control": "today", "improve_on": False})
    )
    assert plain.certificate.improvement is off.certificate.improvement is None
    assert plain.epsilon == off.epsilon
    assert plain.gain is None
    assert plain.proven


def test_a_restricted_class_has_no_single_action_as_a_candidate():
    log = draw(3000, 5, by_person=0.25)
    restrictions = pb.Restrictions(max_treated=0.7, control="today")
    made = pb.certify(log, "trees:depth=1,bins=8", control="today", restrictions=restrictions).certificate
    assert [one.name for one in made.improvement.candidates] == [RULE]


def test_a_leader_that_has_settled_is_not_chosen_again():
    """Whoever is chosen later, the leader of the settled round stays; rows that it leads have no say."""
    asked: list[int] = []

    def choose(leader, number):
        asked.append(number)
        return TreePolicy(number % 3, 3)

    people = Contexts.of(np.zeros((4, 1)))
    choices = choosing.Choices([0.0, 256.0, 512.0, 1024.0, 2048.0], [1.25] * 5, choose, lambda number: people)
    leaders = choosing.lead_rounds(choices, sizes=[256] * 5, spared=0, single=False, settled=2)
    assert asked == [1, 2]
    assert len(set(leaders.turns[2:])) == 1


def test_the_size_of_a_rule_is_chosen_on_rows_that_did_not_choose_it():
    """Noise makes no rule; an effect that differs between people does."""
    people = draw(1000, 6).contexts
    trees = pb.Trees.learn(people, n_actions=3, depth=2, bins=16)
    half = np.full((1000, 3), 0.3)
    depths = [validated_class(draw(1000, seed), half, trees).depth for seed in range(6)]
    assert np.mean(np.array(depths) == 0) >= 0.5
    assert validated_class(draw(1000, 7, by_person=0.28), half, trees).depth >= 1
    assert [each.depth for each in trees.simpler()] == [0, 1]
    assert single_actions(3).simpler() == ()


@cache
def by_person() -> pb.Result:
    """A log that proves that a rule is better."""
    return pb.certify(draw(3000, 2, by_person=0.25), "trees:depth=1,bins=8", control="today")


def test_the_report_has_a_ladder_of_candidates_and_one_picture_of_gains():
    """From the simplest on, the recommended one marked; what to do next is a section; control is drawn once."""
    for result, place in ((by_person(), 2), (pb.certify(draw(900, 3), "trees:depth=1,bins=8", control="today"), 0)):
        told = result.summary()
        document = result_document(told)
        sections = {block.title: block for block in document.blocks if isinstance(block, Section)}
        table, picture = sections["Candidates"].blocks
        named = [row[0].partition(":")[0] for row in table.rows]
        assert named == [name for name in (CONTROL, ONE_ACTION, RULE) if name in named]
        assert table.strong == {place}
        assert [k for k, row in enumerate(table.rows) if "(recommended)" in row[0]] == [place]
        assert (table.rows[place][4] != "—") == (place > 0)
        assert len(picture.rows) == len(table.rows) - 1 + (place > 0)
        lows = [one.low for one in ladder(result.certificate.improvement)]
        assert [line.low for line in picture.rows][: len(lows)] == lows
        assert told.next_step().lower() == f"next: {sections['What to do next'].blocks[0].words}".lower()
        text = render_markdown(document)
        assert text.count("Next:") == 0
        assert "CUPED" in text
        assert text.count("### Gain over today") == 1
        over = [one for one in sections["Estimated value"].blocks if isinstance(one, Intervals) and one.zero]
        assert not any("today" in line.label for one in over for line in one.rows)


def test_of_two_candidates_with_the_same_policy_the_ladder_has_one():
    rule, single = by_person().certificate.improvement.candidates
    twice = replace(by_person().certificate.improvement, candidates=(rule, replace(single, policy=rule.policy)))
    assert ladder(twice) == (rule,)
    assert len(ladder(by_person().certificate.improvement)) == 2


@pytest.mark.parametrize("name", [RULE, ONE_ACTION, CONTROL])
def test_another_candidate_is_exported_and_said_to_be_one(command, tmp_path, name):
    single = by_person().certificate.improvement.candidates[1].policy.root
    action = {RULE: None, ONE_ACTION: single, CONTROL: 0}[name]
    by_person().save(tmp_path / "proof.json")
    code, out, err = command("apply", tmp_path / "proof.json", "--candidate", name, "--sql", "-")
    assert code == 0
    assert f"candidate '{name}'" in err
    assert f"-- candidate '{name}'" in out
    assert ("recommends 'rule'" in err) == (name != RULE)
    if action is not None:
        assert out.splitlines()[-1] == f"'{NAMES[action]}'"
    else:
        assert "CASE" in out


def test_a_candidate_that_is_none_is_refused(command, tmp_path):
    by_person().save(tmp_path / "proof.json")
    code, _, err = command("apply", tmp_path / "proof.json", "--candidate", "best", "--sql", "-")
    assert code == 2
    assert "must be 'rule', 'one action' or 'control', got 'best'" in err
    pb.certify(draw(300, 3), "trees:depth=0").save(tmp_path / "plain.json")
    code, _, err = command("apply", tmp_path / "plain.json", "--candidate", "rule", "--sql", "-")
    assert code == 2
    assert "certify with --control" in err


def test_bounds_are_rounded_down():
    assert [rounded_down(x) for x in (0.034169, -0.08961, 0.0)] == [0.0341, -0.0897, 0.0]


@cache
def guarded() -> tuple[Log, Log]:
    """A log with two metrics: `harm` rises by 0.1 with the better action, `minutes` (10 to 60) does not change."""
    log, rng = draw(2500, 8, lift=0.25), np.random.default_rng(8)
    harm = (rng.random(len(log)) < np.where(log.actions == 1, 0.15, 0.05)).astype(float)
    metrics = (Metric("harm"), Metric("minutes", 10, 60))
    whole = replace(log, metrics=metrics, metric_values=np.column_stack([harm, rng.random(len(log))]))
    return whole, log


def test_a_candidate_that_violates_a_guardrail_is_not_recommended():
    log, _ = guarded()
    for rails, states, chosen in (
        (["minutes >= control * 0.8"], ["kept"], {RULE, ONE_ACTION}),
        (["harm <= control + 0.1"], ["not proven yet"], {RULE, ONE_ACTION}),
        (["harm <= control + 0.01", "minutes <= control + 10"], ["violated", "kept"], {CONTROL}),
    ):
        result = pb.certify(log, "trees:depth=0", control="today", guardrails=rails)
        improvement = result.certificate.improvement
        assert [one.state for one in improvement.candidates[-1].guarded] == states
        assert improvement.chosen in chosen
        assert result.verify().good
        back = json.loads(json.dumps(result.certificate.to_json()))
        assert Certificate.from_json(back).to_json() == back
        assert sum("Guardrail" in line for line in result.answer.splitlines()) == (
            1 if chosen == {CONTROL} else len(rails)
        )
    assert "but it violates a guardrail" in result.answer


def test_guardrails_take_their_part_of_delta_from_gains():
    log, plain = guarded()
    free, bound = (
        certified(rows, policies="trees:depth=0", guardrails=rails).certificate.improvement.candidates[-1]
        for rows, rails in ((plain, ()), (log, (read_guardrail("harm <= control + 0.1"),)))
    )
    assert candidate_part(2, guardrails=3) * 2 + 2 * 3 * 2 * guardrail_part(2, guardrails=3) == pytest.approx(1.0)
    assert bound.estimate - bound.low > free.estimate - free.low - 0.02
    assert bound.guarded[0].low < 0.1 < bound.guarded[0].high


@pytest.mark.parametrize("end", ["low", "high", "limit"])
def test_forged_guardrails_are_refused(end):
    log, _ = guarded()
    result = pb.certify(log, "trees:depth=0", control="today", guardrails=["harm <= control + 0.1"])
    made = result.certificate
    better_by = {"low": 0.01, "high": -0.01, "limit": 0.05}[end]
    changed = tuple(
        replace(one, guarded=tuple(replace(each, **{end: getattr(each, end) + better_by}) for each in one.guarded))
        for one in made.improvement.candidates
    )
    forged = replace(made, improvement=replace(made.improvement, candidates=changed))
    assert result.verify().good
    assert not pb.verify(forged, log, result.policies).good


def read_again(made: Certificate) -> Certificate:
    return Certificate.from_json(json.loads(json.dumps(made.to_json())))


def test_a_violated_guardrail_cannot_be_hidden_by_wider_bounds(monkeypatch):
    """Wider bounds are weaker claims, but they make a candidate that violates a guardrail the recommended one."""
    log, _ = guarded()
    options = {"policies": "trees:depth=0", "guardrails": (read_guardrail("harm <= control + 0.01"),)}
    honest = certified(log, **options)
    assert honest.certificate.improvement.chosen == CONTROL

    def wider(*given, **more):
        made = improve_on(*given, **more)
        hidden = [replace(one, guarded=tuple(replace(r, low=-0.5) for r in one.guarded)) for one in made.candidates]
        return replace(made, candidates=tuple(hidden))

    monkeypatch.setattr(flow, "improve_on", wider)
    forged = read_again(certified(log, **options).certificate)
    assert forged.improvement.chosen != CONTROL
    assert "is proven between" in pb.verify(forged, log, honest.policies).faults[0]


def test_a_proven_gain_cannot_be_understated(monkeypatch):
    """Control would be recommended, though a gain is proven."""
    log, _, policies = better()

    def less(*given, **more):
        made = improve_on(*given, **more)
        return replace(made, candidates=tuple(replace(one, low=-0.1) for one in made.candidates))

    monkeypatch.setattr(flow, "improve_on", less)
    forged = read_again(certified(log, policies=policies).certificate)
    assert forged.improvement.chosen == CONTROL
    assert "is proven, and the certificate has" in pb.verify(forged, log, policies).faults[0]


def test_gains_by_the_rules_of_earlier_versions_are_refused(monkeypatch):
    """These never proved gains: another order of rows, or another choice of leaders, would be a second attempt."""
    log, _, policies = better()
    with monkeypatch.context() as patch:
        patch.setattr(conventions, "sorted_by_content", conventions.shuffled_by_number)
        by_number = replace(certified(log, policies=policies).certificate, by_content=False)
    assert "order of their contents" in pb.verify(read_again(by_number), log, policies).faults[0]
    with monkeypatch.context() as patch:
        patch.setattr(choosing, "validated_class", lambda part, predictions, policies: policies)
        lead = choosing.lead_rounds
        patch.setattr(choosing, "lead_rounds", lambda one, **rest: lead(one._replace(cross_validated=False), **rest))
        pruned = certified(log, policies=policies).certificate
    assert "by cross-validation" in pb.verify(read_again(pruned), log, policies).faults[0]


def test_that_rows_were_counted_is_not_taken_from_the_certificate(monkeypatch):
    """It would hide that the order of the file is taken on trust, and the assumption that any order will do."""
    log, _, policies = better()
    monkeypatch.setattr(conventions, "sorted_by_content", conventions.shuffled_by_number)
    by_number = replace(certified(log, policies=policies, improve=False).certificate, by_content=False)
    assert ORDER_TRUSTED in pb.verify(read_again(by_number), log, policies).trusted
    forged = read_again(by_number.with_remarks(COUNTED_ROWS))
    assert "were counted in blocks, and the log does not" in pb.verify(forged, log, policies).faults[0]


@pytest.mark.parametrize(("rows", "options"), [(600, {"single": True}), (200, {})])
def test_a_small_class_without_a_proof_of_gains_has_no_leaders(rows, options):
    """A single policy by rounds has no proof of gains, nor has a log in which nobody leads; both verify."""
    log = replace(draw(rows, 5, lift=0.3), rounds=np.arange(rows) // 50)
    found = certified(log, policies=single_actions(3), **options)
    assert (found.certificate.improvement, found.certificate.leaders) == (None, None)
    assert pb.verify(found.certificate, log, found.policies).good


def test_the_order_of_a_stored_log_of_counted_blocks_is_taken_on_trust():
    """Whoever stores such a log chooses the order; rows that were left out are missing, so it cannot be derived."""
    log, _, _ = better()
    stored = replace(log.take(np.argsort(log.rewards, kind="stable")), remarks=(COUNTED_ROWS,))
    found = certified(stored, policies="trees:depth=0")
    verdict = pb.verify(found.certificate, stored, found.policies)
    assert COUNT_TRUSTED in verdict.trusted


def test_intervals_of_the_recommended_policy_allow_for_its_choice():
    """It is one of three by the data: its intervals have its part of δ, and hold whichever it is."""
    log, made, _ = better()
    own, plain = measure_worth(made, log), measure_worth(replace(made, improvement=None), log)
    part = recommended_part(control=made.improvement.recommended is None, candidates=2)
    same = measure_worth(replace(made, improvement=None), log, delta=part * made.delta)
    assert own.value.low < plain.value.low < plain.value.high < own.value.high
    assert (own.value.low, own.value.high) == (same.value.low, same.value.high)


def test_false_verdicts_on_guardrails_are_rare():
    """The true difference lies outside the bounds with probability δ at most, all bounds together."""
    wrong, runs, delta = 0, 30, 0.4
    for seed in range(runs):
        log, rng = draw(400, 300 + seed), np.random.default_rng(seed)
        log = replace(log, metrics=(Metric("harm"),), metric_values=(rng.random((400, 1)) < 0.1).astype(float))
        rails = (read_guardrail("harm <= control"),)
        found = certified(log, delta=delta, policies="trees:depth=0", guardrails=rails).certificate.improvement
        wrong += any(not one.guarded[0].low <= 0.0 <= one.guarded[0].high for one in found.candidates)
    assert wrong <= stats.binom.ppf(0.999, runs, delta)


def test_a_ratio_and_a_stream_are_refused_for_guardrails():
    log, _ = guarded()
    whole = replace(log, metrics=(Ratio(*log.metrics),))
    with pytest.raises(InputError, match=r"harm/minutes.*ratio"):
        certified(whole, policies="trees:depth=0", guardrails=(read_guardrail("harm/minutes <= control"),))
    request = Request(policies="trees:depth=0", control="today", guardrails=(read_guardrail("harm <= control"),))
    with pytest.raises(InputError, match=r"harm.*leave out engine"):
        certify_rows(LogSource(log), request, engine=Local("stream"))


def late(rounds):
    """A log whose last rewards are mostly pending, in so many rounds; a few first rows prove more than all do."""
    rng, n = np.random.default_rng(0), 500
    actions, number = rng.integers(0, 2, n), np.minimum(np.arange(n) // 400, rounds - 1)
    rewards = (rng.random(n) < np.where(actions == 1, 0.9, 0.1)).astype(float)
    rewards[400:][rng.random(100) < 0.9] = np.nan
    return Log.of(
        Contexts.of(rng.random((n, 1))),
        actions=actions,
        rewards=rewards,
        propensities=np.full((n, 2), 0.5),
        rounds=number,
        known=np.where(np.isnan(rewards), NOT_IN, number + 1),
        metrics=["returned"],
        metric_values=rng.integers(0, 2, (n, 1)),
    )


def test_a_guardrail_is_tested_or_it_is_said_that_it_cannot_be():
    """It is never left out because rows without a gain prove a smaller distance from the best."""
    log, rail = late(rounds=2), (read_guardrail("returned <= control + 0.9"),)
    asked = {"policies": pb.load_policies("trees:depth=0", log.contexts, n_actions=2), "control": "0"}
    without = certify_rows(log, Request(**asked)).certificate
    assert (without.rows, without.improvement) == (400, None)
    made = certify_rows(log, Request(**asked, guardrails=rail)).certificate
    assert made.rows == 500
    assert made.improvement is not None
    assert made.improvement.guardrails == rail
    for other, options, said in (
        (late(rounds=1), {}, "'returned <= control [+] 0.9' cannot be tested: .* more rounds"),
        (log, {"improve": False}, "none was asked for"),
        (log, {"single": True}, "single proves no gain"),
    ):
        with pytest.raises(InputError, match=said):
            certify_rows(other, Request(**asked, **options, guardrails=rail))


def test_the_order_of_rows_depends_on_metrics_too():
    """Rows that are equal but for a metric are different rows: who writes the file cannot deal out their values."""
    log, _ = guarded()
    other = replace(log, metric_values=log.metric_values[::-1])
    assert not np.array_equal(*(order_by_content(one) for one in (log, other)))
    for one in (log, other):
        np.testing.assert_array_equal(order_by_content(one), content_order(one))
