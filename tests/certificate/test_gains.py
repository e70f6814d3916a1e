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
from pacbandits.certificate import choosing, conventions, gains
from pacbandits.certificate.certificate import CONTROL, ONE_ACTION, RULE, Certificate
from pacbandits.certificate.certify import Request, certify_rows, measure_worth
from pacbandits.certificate.choosing import validated_class
from pacbandits.certificate.claim import rounded_down
from pacbandits.certificate.content_order import order_by_content
from pacbandits.certificate.gains import improve_on
from pacbandits.certificate.summed.limits import RowLimits
from pacbandits.certificate.survey import LogInMemory
from pacbandits.certificate.worth import Ends, Kind, decide_led, stakes_for
from pacbandits.confidence import CONTROL_PART, candidate_part, guardrail_part, recommended_part
from pacbandits.engines import Local, LogSource
from pacbandits.errors import InputError
from pacbandits.logs.data_set import open_set
from pacbandits.policies.registry import load_policies
from pacbandits.policies.trees.classes import single_actions
from pacbandits.policies.trees.tree_policy import TreePolicy
from pacbandits.records import Contexts, Log, Metric, Ratio
from pacbandits.records.log import NOT_IN
from pacbandits.records.metrics import read_guardrail, read_guardrails
from pacbandits.records.row_order import COUNTED_ROWS
from pacbandits.report.document import Intervals, Section
from pacbandits.report.markdown import render_markdown
from pacbandits.report.result_report import certificate_document, ladder, result_document
from pacbandits.rewards import model_from_json
from pacbandits.verifier import verify_rows
from pacbandits.verifier.content_order import content_order
from pacbandits.verifier.gains import number_before
from pacbandits.verifier.sums import read_rows
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


@pytest.mark.thorough
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


def test_a_class_that_excludes_an_action_somewhere_never_gives_it_to_everybody(monkeypatch):
    """Given as an object, as trials and experiments have it, too."""
    rng, n = np.random.default_rng(1), 1500
    ages, actions = rng.integers(10, 80, n).astype(float), rng.integers(0, 2, n)
    people = pb.Contexts.of(ages[:, None], names=["age"])
    rewards = (rng.random(n) < np.where(actions == 1, 0.8, 0.2)).astype(float)
    log = pb.Log.of(people, actions=actions, rewards=rewards, propensities=np.full((n, 2), 0.5))
    policies = load_policies("trees:depth=1,bins=4,never=1:age<=25,fallback=0", people, n_actions=2)
    request = Request(policies=policies, control="0")
    made = certify_rows(log, request).certificate
    assert [one.name for one in made.improvement.candidates] == [RULE]
    assert (made.policy(people)[ages <= 25] == 0).all()
    assert pb.verify(made, log, policies).good
    monkeypatch.setattr(type(policies), "excludes", False)
    forged = certify_rows(log, request).certificate
    monkeypatch.undo()
    assert forged.improvement.chosen != CONTROL
    assert len(forged.improvement.candidates) == 2
    assert not pb.verify(forged, log, policies).good


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


def test_each_candidate_has_a_proven_distance_from_the_best_at_its_own_part_of_delta():
    """Control is worse than the best by 0.3: that is in its ε; all of them are in the report, as they hold together."""
    log, made, policies = better()
    result = pb.certify(log, policies, control="today")
    for name in (CONTROL, RULE, ONE_ACTION):
        own = result.found.certify_candidate(name)
        part = recommended_part(control=name == CONTROL, candidates=2)
        assert own.threshold == pytest.approx(-math.log(0.05 * 0.8 * part))
        assert result.distances[name] == own.certified_epsilon
    assert made.improvement.chosen in (RULE, ONE_ACTION)
    assert result.distances[made.improvement.chosen] == result.epsilon < 0.2 < 0.3 < result.distances[CONTROL] < 0.5
    sections = result_document(result.summary(distances=True)).blocks
    (table,) = (block.blocks[0] for block in sections if isinstance(block, Section) and block.title == "Candidates")
    assert table.head[5] == "proven ε"
    assert [row[5] != "—" for row in table.rows] == [True] * len(table.rows)
    plain = pb.certify(log, policies)
    assert (plain.distances, plain.found.certify_candidate(RULE)) == ({}, None)


@pytest.mark.slow
def test_false_distances_of_candidates_are_rare():
    """The ε of control and of both candidates hold together, except with probability δ."""
    wrong, runs, delta, means = 0, 60, 0.4, np.array([0.3, 0.5, 0.3])
    for seed in range(runs):
        log = draw(500, 900 + seed, lift=0.2)
        result = pb.certify(log, single_actions(3), control="today", delta=delta)
        rungs = {CONTROL: 0} | {one.name: one.policy.root for one in result.certificate.improvement.candidates}
        wrong += any(result.distances[name] < means.max() - means[action] for name, action in rungs.items())
    assert wrong <= stats.binom.ppf(0.999, runs, delta)


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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


RAILS = {
    "columns": ("harm <= control + 0.1", "minutes <= control * 1.2", "minutes >= control - 10"),
    "ratios": ("revenue/orders >= control - 9", "revenue/orders >= control * 0.9"),
}


def with_rails(kind: str) -> tuple[Log, Request]:
    log = guarded()[0].take(np.arange(900)) if kind == "columns" else shop(900, 1, dearer=0.5)
    rails = read_guardrails(RAILS[kind])
    return log, Request(policies=single_actions(log.n_actions), control="today", guardrails=rails)


def summed(log: Log, request: Request):
    """Certify by sums over rows, of which few are early."""
    few = RowLimits(early=400, neighbours=300, watched=500)
    return certify_rows(LogSource(log), request, engine=Local("stream"), limits=few)


@cache
def guarded_by_sums(kind: str):
    """A log, its certificate with guardrails by rows in memory, and the same by sums over rows."""
    log, request = with_rails(kind)
    return log, certify_rows(log, request).certificate, summed(log, request)


@pytest.mark.parametrize("kind", [pytest.param("columns", marks=pytest.mark.thorough), "ratios"])
def test_sums_over_rows_prove_the_same_guardrails(kind):
    """Bounds are those of rows in memory, but for the few rows that teach the model; `verify` derives them again."""
    _, memory, sums = guarded_by_sums(kind)
    made = sums.certificate
    assert made.summed
    assert made.improvement.guardrails == memory.improvement.guardrails
    for one, other in zip(made.improvement.candidates, memory.improvement.candidates, strict=True):
        for mine, theirs in zip(one.guarded, other.guarded, strict=True):
            wide = theirs.high - theirs.low
            assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), abs=0.1 * wide)
            assert mine.estimate == pytest.approx(theirs.estimate, abs=0.1 * wide)
            assert mine.limit == theirs.limit
    assert wrong_by_sums(kind, made) == ()


def wrong_by_sums(kind: str, made: Certificate) -> tuple[str, ...]:
    """Return the faults of a certificate of that log by sums."""
    log, _, sums = guarded_by_sums(kind)
    return verify_rows(made, LogSource(log), sums.policies, engine=Local("threads"))[0].faults


def with_candidates(made: Certificate, change) -> Certificate:
    """Return the certificate with other candidates, and the policy that they recommend."""
    found = replace(made.improvement, candidates=tuple(change(one) for one in made.improvement.candidates))
    return replace(made, improvement=found, policy=found.policy, leaders=found.leaders)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", RAILS)
def test_forged_guardrails_by_sums_are_refused(kind):
    made = guarded_by_sums(kind)[2].certificate
    for place in range(len(RAILS[kind])):
        for end, by in (("low", 1e-3), ("high", -1e-3), ("low", -0.2), ("limit", 0.05)):

            def forge(one, place=place, end=end, by=by):
                rails = list(one.guarded)
                rails[place] = replace(rails[place], **{end: getattr(rails[place], end) + by})
                return replace(one, guarded=tuple(rails))

            assert any("guardrail" in fault for fault in wrong_by_sums(kind, with_candidates(made, forge)))


@pytest.mark.thorough
def test_a_proven_gain_by_sums_cannot_be_understated(monkeypatch):
    """Control would be recommended, though a gain is proven."""

    def less(*given, **more):
        made = improve_on(*given, **more)
        return replace(made, candidates=tuple(replace(one, low=-0.1) for one in made.candidates))

    assert guarded_by_sums("columns")[2].certificate.improvement.chosen != CONTROL
    monkeypatch.setattr(flow, "improve_on", less)
    forged = summed(*with_rails("columns")).certificate
    assert forged.improvement.chosen == CONTROL
    assert any("is proven, and the certificate has" in fault for fault in wrong_by_sums("columns", forged))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["columns", "ratios"])
def test_false_verdicts_on_guardrails_by_sums_are_rare(kind):
    """The true difference lies outside the bounds with probability δ at most, all bounds together."""
    wrong, runs, delta = 0, 60, 0.5
    for seed in range(runs):
        if kind == "columns":
            log, rng = draw(400, 700 + seed), np.random.default_rng(seed)
            log = replace(log, metrics=(Metric("harm"),), metric_values=(rng.random((400, 1)) < 0.3).astype(float))
            rails = read_guardrails(("harm <= control", "harm <= control * 1.5"))
        else:
            log = shop(500, 300 + seed, dearer=0.8)
            rails = read_guardrails(("revenue/orders >= control", "revenue/orders >= control * 0.9"))
        request = Request(policies=single_actions(log.n_actions), control="today", guardrails=rails, delta=delta)
        found = certify_rows(LogSource(log), request, engine=Local("threads"), limits=RowLimits()).certificate
        for one in found.improvement.candidates:
            mean = (8.0 if one.policy.root == 1 else 10.0) if kind == "ratios" else 0.3
            true = (mean - 10.0, mean - 9.0) if kind == "ratios" else (0.0, -0.15)
            wrong += any(not each.low <= value <= each.high for each, value in zip(one.guarded, true, strict=True))
    assert wrong <= stats.binom.ppf(0.999, runs, 0.2 * delta)


@pytest.mark.thorough
def test_metrics_by_sums_have_the_intervals_of_rows_in_memory():
    log, memory, sums = guarded_by_sums("columns")
    found = gains.measure_metrics(sums.survey, replace(sums.certificate, delta=0.2))
    known = gains.measure_metrics(LogInMemory.certified(memory, log), replace(memory, delta=0.2))
    assert [one.metric for one in found] == ["harm", "minutes"]
    for mine, theirs in zip(found, known, strict=True):
        for one, other in ((mine.value, theirs.value), (mine.over_control, theirs.over_control)):
            wide = other.high - other.low
            assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=0.1 * wide)


def test_metrics_of_files_are_those_of_rows_in_memory(tmp_path):
    """Files are read anew for each metric, and give the same bits as rows in memory."""
    log, _, sums = guarded_by_sums("ratios")
    log.write(tmp_path / "log.parquet")
    with_files = open_set([tmp_path / "log.parquet"])
    request = with_rails("ratios")[1]
    made = certify_rows(with_files, request, engine=Local("stream"), limits=sums.certificate.limits).certificate
    assert made.improvement.to_json() == sums.certificate.improvement.to_json()


def test_early_rows_of_a_large_log_keep_their_metrics():
    """Each row has its own values, in whatever order rows count; for the maker and for the verifier."""
    log, request = with_rails("ratios")
    log = replace(log, contexts=Contexts.of(np.random.default_rng(0).random((len(log), 1))))  # rows differ
    sums = summed(log, request)
    values = log.metric_values
    told = {tuple(row): tuple(value) for row, value in zip(log.contexts.features, values, strict=True)}
    again = read_rows(sums.certificate, LogSource(log), engine=Local("threads"))
    for rows in (sums.survey.early, sums.survey.watched, again.early, again.watched):
        assert len(rows) < len(log)
        assert [told[tuple(row)] for row in rows.contexts.features] == [tuple(value) for value in rows.metric_values]


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
    """Nor is a gain that was asked for, because rows without one prove a smaller distance from the best."""
    log, rail = late(rounds=2), (read_guardrail("returned <= control + 0.9"),)
    asked = {"policies": pb.load_policies("trees:depth=0", log.contexts, n_actions=2), "control": "0"}
    without = certify_rows(log, Request(**asked)).certificate
    assert (without.rows, without.improvement is None) == (500, False)
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


def shop(n: int, seed: int, *, dearer: float = 1.0, rounds: int = 0, orders: float = 0.7) -> Log:
    """A test of two actions: `new` sells to more people, for `dearer` times as much an order; 10 each with `today`."""
    rng = np.random.default_rng([n, seed, 1])
    actions = rng.integers(2, size=n)
    sold = rng.binomial(2, orders * np.where(actions == 1, 1.2, 1.0))
    revenue = np.minimum(sold * rng.choice([5.0, 15.0], n) * np.where(actions == 1, dearer, 1.0), 30.0)
    return replace(
        Log.of(
            Contexts.of(rng.integers(2, size=(n, 1)).astype(float)),
            actions=actions,
            rewards=(rng.random(n) < np.where(actions == 1, 0.7, 0.2)).astype(float),
            propensities=np.full((n, 2), 0.5),
            rounds=np.arange(n) * rounds // n if rounds else None,
        ),
        action_names=NAMES[:2],
        metrics=(Ratio(Metric("revenue", 0, 30), Metric("orders", 0, 2)),),
        metric_values=np.column_stack([revenue / 30.0, sold / 2.0]),
    )


@cache
def cheaper() -> pb.Result:
    """The better action sells at half the price, which a guardrail on revenue per order forbids."""
    rails = ["revenue/orders >= control * 0.9", "revenue/orders >= control - 9"]
    return pb.certify(shop(900, 1, dearer=0.5), single_actions(2), control="today", guardrails=rails)


def test_a_ratio_is_guarded():
    """Revenue per order falls from 10 to 5: one guardrail is violated, the other kept; control stays."""
    result = cheaper()
    improvement = result.certificate.improvement
    for one in improvement.candidates:
        assert one.low > 0
        assert [each.state for each in one.guarded] == ["violated", "kept"]
        share, off = one.guarded
        assert share.low < 5 - 0.9 * 10 < share.high < 0
        assert off.low < -5 < off.high
        assert abs(off.estimate + 5) < 1
    assert improvement.chosen == CONTROL
    assert result.verify().good
    assert read_again(result.certificate).to_json() == result.certificate.to_json()
    assert "revenue/orders >= control * 0.9 is violated, as is proven" in result.answer


@pytest.mark.first(1)
@pytest.mark.parametrize("change", [{"low": -8.9}, {"high": 3.0}, {"limit": -6.0}, {"estimate": -3.0}])
def test_forged_guardrails_on_ratios_are_refused(change):
    result = cheaper()
    made = result.certificate
    changed = [
        replace(one, guarded=(one.guarded[0], replace(one.guarded[1], **change))) for one in made.improvement.candidates
    ]
    forged = replace(made, improvement=replace(made.improvement, candidates=tuple(changed)))
    faults = pb.verify(forged, result.log, result.policies).faults
    assert any("guardrail 'revenue/orders >= control - 9'" in words for words in faults)


def test_a_ratio_is_bounded_by_the_corners_of_four_bounds(monkeypatch):
    """For any ratio and f, the difference at points of the box lies between the ends; the parts of δ sum to it."""
    rng, wealth = np.random.default_rng(3), []

    class Fixed(gains.MetricBets):
        def bound(self, kind, needed):
            wealth.append(needed)
            main = kind.against is not None or self.unit == 2.0
            middle = (10.0 if self.unit == 2.0 else 3.0) if main else -4.0
            return Ends(middle - 2.0, middle, middle + 2.0)

    survey = LogInMemory.arranged(shop(60, 4, rounds=3), ordered=False, shuffle=False)
    asked = []

    def fixed(own, lead, *, nats, spared):
        asked.append(spared)
        low, high = own.facts.reward_range
        return Fixed(None, max(spared, 1), 0.0, low, high - low)

    monkeypatch.setattr(gains.MetricBets, "of", fixed)
    metric, number = survey.watched.metrics[0], gains.ratio_before(survey.early, survey.watched.metrics[0], first=1)
    lead = gains.Lead(TreePolicy(1, 2), None)
    for times in (1.0, 0.8, 1.5):
        ends = gains.bound_metric(survey, metric, lead, Kind(against=0, times=times), nats=5.0, spared=0)
        drawn = rng.uniform(-2.0, 2.0, size=(400, 4)) + np.array([3.0, -4.0, 10.0, 10.0])
        drawn[:16] = np.array(np.meshgrid([1, 5], [-6, -2], [8, 12], [8, 12])).reshape(4, -1).T
        g, theta, mine, theirs = drawn.T
        ratios = number + (g + times * theta) / mine, number + theta / theirs
        differences = ratios[0] - times * ratios[1]
        assert ends.low == pytest.approx(differences.min())
        assert ends.high == pytest.approx(differences.max())
    assert sum(2.0 * math.exp(-one) for one in wealth[:4]) == pytest.approx(2.0 * math.exp(-5.0))
    assert set(asked) == {1}  # a round that does not bet teaches the number


def test_the_number_that_a_ratio_is_compared_with_is_known_before_the_bets():
    """Rows of rounds that bet have no say in it; pending rewards have none, either."""
    log = shop(400, 5, rounds=4)
    metric, later = log.metrics[0], log.rounds[:, None] >= 1
    number = gains.ratio_before(log, metric, first=1)
    first = log.only(log.rounds < 1).metric_values.sum(axis=0)
    assert number == pytest.approx(15 * first[0] / first[1])
    changed = replace(log, metric_values=np.where(later, 1.0, log.metric_values))
    late = replace(log, known=np.where(np.arange(400) < 50, 3, log.rounds + 1))
    assert gains.ratio_before(changed, metric, first=1) == number
    assert gains.ratio_before(late, metric, first=1) != number
    for one in (log, changed, late):
        assert number_before(one, metric, spared=1) == pytest.approx(gains.ratio_before(one, metric, first=1))


def test_a_ratio_without_a_bound_is_not_proven_yet():
    """So few orders that 0 is not excluded: ends are null in a file, and words say so."""
    result = pb.certify(
        shop(400, 6, orders=0.004), single_actions(2), control="today", guardrails=["revenue/orders >= control - 1"]
    )
    (one,) = {each.guarded[0] for each in result.certificate.improvement.candidates[:1]}
    assert (one.low, one.high, one.state) == (-math.inf, math.inf, "not proven yet")
    assert one.to_json()["low"] is None
    assert result.verify().good
    assert "no bound on the difference from control yet" in result.answer


def test_a_denominator_that_is_0_for_everybody_is_refused():
    log = shop(200, 7)
    empty = replace(log, metric_values=log.metric_values * [1.0, 0.0])
    with pytest.raises(InputError, match=r"'orders', the denominator of a ratio, is 0 in every row; name another"):
        pb.certify(empty, single_actions(2), control="today")


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [0, 6])
def test_false_verdicts_on_ratios_are_rare(rounds):
    """The true difference in revenue per order lies outside the bounds with probability δ at most, all together."""
    wrong, runs, delta = 0, 60, 0.5
    for seed in range(runs):
        rails = (read_guardrail("revenue/orders >= control"), read_guardrail("revenue/orders >= control * 0.9"))
        log = shop(500, 300 + seed, dearer=0.8, rounds=rounds)
        found = certified(log, delta=delta, policies=single_actions(2), guardrails=rails).certificate.improvement
        for one in found.candidates:
            mean = 8.0 if one.policy.root == 1 else 10.0
            true = mean - 10.0, mean - 9.0
            wrong += any(not each.low <= value <= each.high for each, value in zip(one.guarded, true, strict=True))
            assert any(each.high < math.inf for each in one.guarded)
    assert wrong <= stats.binom.ppf(0.999, runs, 0.2 * delta)


def test_metrics_of_the_recommended_policy_have_intervals_that_hold_together():
    """A column and a ratio, each with its difference from control; none from control itself."""
    log = shop(900, 8)
    log = replace(log, metrics=(Metric("orders", 0, 2), *log.metrics), metric_values=log.metric_values[:, ::-1])
    result = pb.certify(log, single_actions(2), control="today")
    orders, ratio = result.worth.metrics
    assert (orders.metric, ratio.metric) == ("orders", "revenue/orders")
    assert orders.value.low < 1.68 < orders.value.high
    assert -0.1 < orders.over_control.low < 0.28 < orders.over_control.high
    assert ratio.value.low < 10 < ratio.value.high < 15
    assert ratio.over_control.low < 0 < ratio.over_control.high
    assert [one["metric"] for one in result.worth.to_json()["metrics"]] == ["orders", "revenue/orders"]
    text = render_markdown(result_document(result.summary()))
    assert "## Metrics" in text
    assert "revenue/orders" in text
    shown = render_markdown(certificate_document(result.certificate, result.summary()))
    assert all(f"{name}, less the control's" in shown for name in ("orders", "revenue/orders"))
    alone = result.found.certificate
    narrow = gains.measure_metrics(result.found.survey, replace(alone, delta=2 * alone.delta))
    assert narrow[1].value.high - narrow[1].value.low < ratio.value.high - ratio.value.low
    kept = cheaper().worth.metrics[0]
    assert (kept.over_control.low, kept.over_control.high) == (0.0, 0.0)
    assert kept.value.low < 10 < kept.value.high


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["late", "units", "ordered", "ranges"])
def test_guardrails_on_ratios_of_any_log_verify(kind):
    """Late rewards, returning people, rows in order, and ranges that do not begin at 0."""
    log = shop(600, 11, dearer=0.7, rounds=6 if kind == "late" else 0)
    if kind == "late":
        known = log.rounds + 1 + (np.arange(600) % 3 == 0)
        pending = known > 5
        values = np.where(pending[:, None], np.nan, log.metric_values)
        rewards = np.where(pending, np.nan, log.rewards)
        log = replace(log, known=np.where(pending, -1, known), rewards=rewards, metric_values=values)
    elif kind == "units":
        log = replace(log, units=np.arange(600) // 2)
    elif kind == "ranges":
        log = replace(log, metrics=(Ratio(Metric("revenue", -5, 30), Metric("orders", 1, 3)),))
    most = "control + 9" if kind == "ranges" else "control * 1.5"  # a share is of what is never negative
    rails = ["revenue/orders >= control - 9", f"revenue/orders <= {most}"]
    result = pb.certify(log, single_actions(2), control="today", guardrails=rails, ordered=kind == "ordered")
    assert len(result.certificate.improvement.guardrails) == 2
    assert pb.verify(read_again(result.certificate), log, result.policies).good
    assert result.worth.metrics[0].value.low < result.worth.metrics[0].value.estimate
