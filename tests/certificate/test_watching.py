"""Looking at a log: what is found, what is left alone, and how it is said and written down."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import minimize_scalar

import pacbandits as pb
from pacbandits.certificate.alarms import FALSE_ALARM_RATE, AssumptionCheck, look, look_at_ratio
from pacbandits.certificate.check import batches_of_rows
from pacbandits.certificate.drift import (
    bettors,
    find_change,
    gather_means,
    least_log_wealth,
    log_wealth,
    look_for_drift,
)
from pacbandits.compiled import using_cores
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from tests.examples import examples
from tests.instances import seeds

NEEDED = math.log(2 / FALSE_ALARM_RATE)


def make_log(means, *, propensities=None, drawn=None, features=None, seed=0, **options):
    """A log with these mean rewards (n, A), of actions drawn as stated or as in `drawn`."""
    rng = np.random.default_rng(seed)
    means = np.asarray(means, dtype=float)
    n, a = means.shape
    stated = np.broadcast_to(np.full(a, 1 / a) if propensities is None else propensities, (n, a))
    edges = np.cumsum(np.broadcast_to(stated if drawn is None else drawn, (n, a)), axis=1)
    actions = np.minimum((rng.random(n)[:, None] > edges).sum(axis=1), a - 1)
    rewards = (rng.random(n) < means[np.arange(n), actions]).astype(float)
    contexts = Contexts.of(np.empty((n, 0)) if features is None else features)
    return Log.of(contexts, actions=actions, rewards=rewards, propensities=stated, **options)


def normal(n, d=3, seed=1):
    return np.random.default_rng(seed).normal(size=(n, d))


def halves(n, first, second, *, share=0.5):
    """Mean rewards (n, A) that change after a share of the rows."""
    return np.where(np.arange(n)[:, None] < share * n, first, second)


def reversed_example():
    """What is best becomes worst."""
    return make_log(halves(6000, [0.8, 0.2], [0.2, 0.8], share=0.6))


def one_action():
    return make_log(halves(20_000, [0.5, 0.5, 0.5], [0.5, 0.35, 0.5]), features=normal(20_000))


def late():
    return make_log(halves(20_000, [0.5, 0.5, 0.5], [0.5, 0.25, 0.5], share=0.9), features=normal(20_000))


def feature():
    features = normal(10_000)
    features[5000:, 2] += 0.3
    return make_log(np.full((10_000, 2), 0.5), features=features)


def reversal_within_segments():
    features = normal(10_000)
    sign = np.where(features[:, 1] > 0, 1, -1) * np.where(np.arange(10_000) < 5000, 1, -1)
    return make_log(0.5 + 0.1 * np.outer(sign, [1, 0]), features=features)


def slow_slope():
    means = np.full((20_000, 2), 0.5)
    means[:, 0] = np.linspace(0.4, 0.6, 20_000)
    return make_log(means, features=normal(20_000))


DRIFTS = {
    "reversed": (reversed_example, r"the reward of action [01] went from about 0\.\d+ to 0\.\d+ after about 3,\d+ "),
    "one action": (one_action, r"the reward of action 1 went from about 0\.5\d* to 0\.3\d+ after about \d+,\d+ rows"),
    "late": (late, r"the reward of action 1 went from about 0\.\d+ to 0\.2\d+ after about 1[678],\d+ rows"),
    "feature": (feature, r"the share of contexts where 'x2' is above \S+ went from about 0\.\d+ to 0\.\d+ after about"),
    "segments": (reversal_within_segments, r"the reward of action 0 where 'x1' is (above \S+|\S+ or below) went from"),
    "slope": (slow_slope, r"the reward of action 0 went from about 0\.4\d* to 0\.5\d+ after about \d+,\d+ rows"),
}


@pytest.mark.parametrize("name", DRIFTS)
def test_drift_is_found(name):
    make, words = DRIFTS[name]
    drift, ratio = look(make())
    assert drift.alarm
    assert drift.log_evidence > NEEDED + 2
    assert re.match(words, drift.where), drift.where
    assert "or its rows are sorted" in drift.describe()
    assert not ratio.alarm


def test_drift_over_rounds_is_found_and_sorting_is_no_excuse():
    rounds = np.arange(6000) // 400
    log = make_log(halves(6000, [0.8, 0.2], [0.2, 0.8], share=0.6), rounds=rounds)
    order = np.lexsort([log.rewards, log.actions, rounds])
    for one in (log, log.take(order), log.take(np.random.default_rng(0).permutation(6000))):
        drift = look_for_drift(one, needed=NEEDED)
        assert drift.alarm
        assert "from about round 9 on" in drift.where
        assert "sorted" not in drift.describe()
        assert "over 15 rounds in" in drift.looked_at


def ratio_of(shares, **options):
    return look_at_ratio(make_log(np.full((10_000, 2), 0.5), drawn=shares, **options), needed=NEEDED)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_mismatch_of_the_sample_ratio_is_found(seed):
    found = ratio_of([0.53, 0.47], seed=seed)
    assert found.alarm
    assert re.fullmatch(r"action [01] was played \d,\d+ times where 5,000\.0 were expected", found.where)
    assert "actions were not drawn with the propensities that the log states" in found.describe()
    assert "recorded after the action" not in found.describe()  # everywhere, not in one segment
    assert not ratio_of([0.5, 0.5], seed=seed).alarm


def test_a_mismatch_in_one_segment_is_found():
    features = normal(10_000)
    found = ratio_of(np.where(features[:, :1] > 0, [0.56, 0.44], [0.5, 0.5]), features=features)
    assert found.alarm
    assert re.search(r"among contexts where 'x0' is above -?0\.\d+$", found.where)
    cause, remedy = found.describe().index("'x0' was recorded after the action"), found.describe().index("without='x0'")
    assert cause < remedy < found.describe().index("if the split is wrong")


def test_a_mismatch_that_begins_late_is_found():
    rounds = np.arange(10_000) // 500
    drawn = halves(10_000, [0.5, 0.5], [0.58, 0.42], share=0.8)
    found = ratio_of(drawn, rounds=rounds)
    assert found.alarm
    assert found.log_evidence > ratio_of(drawn).log_evidence
    assert re.search(r"from round 1\d on$", found.where)


@pytest.mark.parametrize(("least", "lower"), [(0.0, False), (0.2, True)])
def test_played_propensities_alone_show_mismatches_too(least, lower):
    """Without bounds only what is played too often shows; with them also what is played too seldom."""
    n = 20_000
    full = make_log(np.full((n, 3), 0.5), propensities=[0.25, 0.25, 0.5], drawn=[0.28, 0.19, 0.53], seed=3)

    def forget(log):
        return Log.of_played(
            log.contexts,
            actions=log.actions,
            rewards=log.rewards,
            played=log.played_propensities,
            least=np.full((len(log), 3), least),
        )

    found = look_at_ratio(forget(full), needed=NEEDED)
    assert found.alarm
    assert ("action 1 was played" in found.where) == lower
    assert "times, which by their propensities stand for" in found.where
    drift, ratio = look(forget(make_log(np.full((n, 3), 0.5), propensities=[0.25, 0.25, 0.5], seed=3)))
    assert not drift.alarm
    assert not ratio.alarm
    changed = forget(make_log(halves(n, [0.5] * 3, [0.5, 0.35, 0.5]), propensities=[0.25, 0.25, 0.5], seed=3))
    assert look_for_drift(changed, needed=NEEDED).alarm


SIMULATED = [
    ("trees:actions=4,features=3,contexts=200,bins=5", "coda", 0.25),
    ("two-of-many:actions=4,policies=12", "uniform", 0.1),
    pytest.param("trees:actions=4,features=3,contexts=200,bins=5", "uniform", 0.2, marks=pytest.mark.slow),
    pytest.param("trees:actions=4,features=3,contexts=200,bins=5", "coda", 0.1, marks=pytest.mark.slow),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("problem", "algorithm", "epsilon"), SIMULATED)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 13))])
def test_simulated_logs_raise_no_alarm_though_their_rows_are_sorted(problem, algorithm, epsilon, seed):
    done = pb.run(pb.load_problem(problem), algorithm=algorithm, epsilon=epsilon, delta=0.05, rng=seed)
    drift, ratio = look(done.log)
    assert drift.looked
    assert not drift.alarm, drift
    assert not ratio.alarm, ratio


def test_an_alarm_stays_though_the_evidence_fades():
    """The mean changes, and changes back for long: what had been enough when it stood in the log is enough for ever."""
    means = np.full((16_600, 1), 0.4)
    means[4000:4600] = 0.65
    log = make_log(means)
    with using_cores(1):
        gathered = gather_means(log, batches_of_rows(log))
        assert find_change(gathered, needed=math.inf).log_evidence < NEEDED
        assert look_for_drift(log, needed=NEEDED).alarm
        assert look_for_drift(log.take(np.arange(4600)), needed=NEEDED).alarm
        steady = make_log(np.full((16_600, 1), 0.4))
        assert not look_for_drift(steady, needed=NEEDED).alarm


@examples(5)
@given(seeds)
def test_the_least_wealth_is_that_of_the_mean_that_is_refuted_least(seed):
    """As another minimiser finds it, at most a hundredth of a nat higher; and never below what is reported."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(150, 1500))
    log = make_log(
        halves(n, rng.random(2), rng.random(2), share=rng.random()),
        propensities=rng.dirichlet([1, 1]),
        features=normal(n, 1, seed),
        seed=seed,
    )
    with using_cores(1):
        bets = gather_means(log, batches_of_rows(log)).bets
        n_streams, n_batches = bets.counts.shape
        who = bettors(bets.stakes.shape[2])
        found, earlier = np.empty((n_streams, 4)), np.empty((n_streams, n_batches))
        least_log_wealth(bets, who, n_batches, found, earlier, 0, n_streams)
        values, slopes, peaks = np.empty(n_batches), np.empty(n_batches), np.empty(2)
        for s in range(n_streams):

            def wealth(mean, s=s):
                log_wealth(bets, s, mean, who, values, slopes, peaks)
                return values[-1]

            least = minimize_scalar(wealth, bounds=(0, 1), method="bounded", options={"xatol": 1e-9}).fun
            assert found[s, 0] - 1e-9 <= min(least, wealth(0.0), wealth(1.0)) <= found[s, 0] + 0.0101
            wealth(found[s, 1])
            np.testing.assert_allclose(earlier[s], values)


def test_what_cannot_be_looked_at_is_said():
    n = 500
    base = make_log(np.full((n, 2), 0.5), features=normal(n))
    few = look_for_drift(base.take(np.arange(100)), needed=1.0)
    assert not few.looked
    assert not few.alarm
    assert few.describe() == (
        "drift was not looked for: changes are looked for after the rows that hold the first 100 interactions, and "
        "none follow"
    )
    counts = replace(base, repeats=np.arange(n) + 1)
    assert "counts repeated interactions" in look_for_drift(counts, needed=1.0).looked_at
    assert look_at_ratio(counts, needed=1.0).looked
    ids = np.sort(np.random.default_rng(0).integers(50, size=n))
    by_id = replace(base, contexts=Contexts.of(normal(n), ids=ids))
    assert "sorted by context id" in look_for_drift(by_id, needed=1.0).looked_at
    for fine in (np.arange(n), np.zeros(n, dtype=int), np.random.default_rng(0).permutation(n)):
        assert look_for_drift(replace(base, contexts=Contexts.of(normal(n), ids=fine)), needed=1.0).looked
    alone = look_at_ratio(make_log(np.full((n, 1), 0.5)), needed=1.0)
    assert alone.describe() == (
        "a sample-ratio mismatch was not looked for: there is one action alone, which is always played"
    )


def test_rewards_that_leave_the_unit_interval_are_left_out():
    n = 4000
    features = normal(n)
    features[n // 2 :, 0] += 1
    log = make_log(np.full((n, 2), 0.5), features=features)
    large = replace(log, rewards=log.rewards * 3 - 1)
    drift = look_for_drift(large, needed=NEEDED)
    assert drift.alarm
    assert drift.where.startswith("the share of contexts where 'x0'")
    assert "but not rewards, as they leave [0, 1]" in drift.looked_at
    nothing = replace(large, contexts=Contexts.of(np.empty((n, 0))))
    assert look_for_drift(nothing, needed=NEEDED).looked_at == (
        "contexts have no features or ids to look at, and rewards leave [0, 1]"
    )


def change_of_contexts(kind):
    """2,000 rows whose contexts change half-way, in a feature of labels, in their ids, or in φ."""
    n = 2000
    rng = np.random.default_rng(0)
    codes = (rng.random(n) < np.where(np.arange(n) < n // 2, 0.3, 0.6)).astype(int)
    if kind == "labels":
        labels = [("phone", "desk\x1b[2Jtop")]
        return Contexts.of(codes[:, None], names=["dev\nice"], categories=labels)
    if kind == "ids":
        return Contexts.of(np.empty((n, 0)), ids=codes)
    return Contexts.of(np.empty((n, 0)), phi=np.stack([np.zeros((n, 1)), codes[:, None]], axis=1))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("labels", "the share of contexts where 'dev ice' is 'phone' went"),
        ("ids", "the share of contexts where the context id is "),  # 0 or 1: their evidence is equal to rounding
        ("phi", "the share of contexts where phi 0 of action 1 is above 0 went"),
    ],
)
def test_contexts_of_every_kind_are_looked_at(kind, words):
    log = replace(make_log(np.full((2000, 2), 0.5)), contexts=change_of_contexts(kind))
    drift = look_for_drift(log, needed=NEEDED)
    assert drift.alarm
    assert drift.where.startswith(words)
    assert drift.where.isprintable()


def test_many_actions_and_features_are_looked_at_in_part():
    n, a = 150, 300
    log = make_log(np.full((n, a), 0.5), features=normal(n, 40))
    drift, ratio = look(log)
    assert "rewards of the first 256 of 300 actions, sizes of 32 segments of contexts, over 150 rows" in drift.looked_at
    assert "the plays of the first 256 of 300 actions, over 150 interactions in 1 batch" in ratio.looked_at
    some = look_for_drift(make_log(np.full((n, 30), 0.5), features=normal(n, 8)), needed=NEEDED)
    assert "rewards within the first 4 of 8 segments" in some.looked_at


def test_propensities_near_zero_do_no_harm():
    """An action as good as impossible that is played is a mismatch, and a finite one."""
    n = 400
    propensities = np.tile([1e-300, 1 - 1e-300], (n, 1))
    actions = np.ones(n, dtype=int)
    actions[::50] = 0
    log = Log.of(Contexts.of(np.empty((n, 0))), actions=actions, rewards=np.ones(n), propensities=propensities)
    drift, ratio = look(log)
    assert math.isfinite(drift.log_evidence)
    assert ratio.alarm
    assert math.isfinite(ratio.log_evidence)


def test_one_sentence_for_those_who_run_experiments():
    alarm = AssumptionCheck(
        "drift", 7.0, NEEDED, "the reward of action 1 fell from round 3 on", "rewards", by_rows=False
    )
    assert alarm.describe() == (
        "signs of drift: the reward of action 1 fell from round 3 on; contexts or rewards changed while the log "
        "was collected, so what the log seems to prove may be wrong (chance alone gives such a sign in at most 1 of "
        "1,000 logs)"
    )
    assert "1 of 1,000,000,000 logs" in replace(alarm, log_evidence=5000.0).describe()
    calm = replace(alarm, log_evidence=NEEDED - 1e-9)
    assert calm.describe() == "no sign of drift in rewards; chance alone raises an alarm in at most 0.5 % of logs"
    assert not calm.alarm
    assert replace(alarm, log_evidence=NEEDED).alarm


def test_json_there_and_back():
    for check in look(reversed_example()):
        assert AssumptionCheck.from_json(json.loads(json.dumps(check.to_json()))) == check


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "weather"}, "is of 'drift' or 'sample ratio', not of 'weather'"),
        ({"kind": ["drift"]}, "is of 'drift' or 'sample ratio'"),
        ({"log_evidence": "7"}, "'log_evidence' of a check must be a number"),
        ({"log_evidence": True}, "'log_evidence' of a check must be a number"),
        ({"log_evidence": math.nan}, "'log_evidence' of a check must be a number"),
        ({"needed": math.inf}, "'needed' of a check must be a number"),
        ({"needed": 0}, "'needed' of a check must be positive"),
        ({"needed": None}, "'needed' of a check must be a number"),
        ({"where": 3}, "'where' of a check must be printable text"),
        ({"where": "all is well\x1b[2J"}, r"'where' of a check must be printable text .* got all is well\?\[2J"),
        ({"looked_at": "x" * 1000}, "'looked_at' of a check must be printable text of 600 characters at most"),
        ({"by_rows": 1}, "'by_rows' of a check must be true or false"),
        ({"more": 1}, "a check of a log has the fields kind, log_evidence"),
    ],
)
def test_damaged_json_is_refused(change, words):
    good = look_at_ratio(make_log(np.full((300, 2), 0.5)), needed=NEEDED).to_json()
    with pytest.raises(InputError, match=words) as error:
        AssumptionCheck.from_json(good | change)
    assert len(str(error.value)) < 400
    assert str(error.value).isprintable()


def test_json_without_a_field_or_of_another_kind_is_refused():
    good = look_at_ratio(make_log(np.full((300, 2), 0.5)), needed=NEEDED).to_json()
    for name in good:
        with pytest.raises(InputError, match="a check of a log has the fields"):
            AssumptionCheck.from_json({key: value for key, value in good.items() if key != name})
    for other in (None, [], "drift", 3):
        with pytest.raises(InputError, match="must be an object"):
            AssumptionCheck.from_json(other)


@pytest.mark.parametrize("rate", [0, 1, -0.1, math.nan, "0.1", True, None])
def test_a_rate_of_false_alarms_that_is_none_is_refused(rate):
    with pytest.raises(InputError, match="false_alarms must lie strictly between 0 and 1"):
        look(make_log(np.full((10, 2), 0.5)), false_alarms=rate)


def test_the_rate_of_false_alarms_is_split():
    checks = look(make_log(np.full((300, 2), 0.5)), false_alarms=np.float64(0.2))
    assert [check.kind for check in checks] == ["drift", "sample ratio"]
    assert sum(math.exp(-check.needed) for check in checks) == pytest.approx(0.2)


def test_looking_twice_or_with_other_cores_finds_the_same():
    log = reversal_within_segments()
    first = look(log)
    with using_cores(1):
        assert look(log) == first
    with using_cores(3):
        assert look(log) == first
