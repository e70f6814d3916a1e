"""How closely a gain over control is proven, compared with an ordinary interval on half of the rows.

python -m benchmarks.gains tables      ten kinds of simulated tests, 10⁴ to 10⁶ rows
python -m benchmarks.gains revenue     four tests with long-tailed revenue, beside a t-test of all rows
python -m benchmarks.gains coverage    how often a bound exceeds the true gain, in 300 small tests
python -m benchmarks.gains baselines   gain and guardrail together, beside a half-sample with Bonferroni, and Cram
python -m benchmarks.gains plans       how often `certify` proves a gain with as many rows as a plan says
python -m benchmarks.gains stopping    sample sizes of trials that stop by a proven gain, by ε, and of an A/B test

Some ten minutes of processor time in all; each part prints a Markdown table. An honest half-sample chooses a policy on
one half of the rows and compares it with control on the other: its ordinary one-sided 95 % bound lies 1.645 standard
errors of a difference in means below the estimate. The ratio is the distance of the proven bound from its estimate,
divided by that. At a number of rows that is known beforehand, exactness costs √(2 log 20)/1.645 = 1.49.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measuring import print_table
from pacbandits.arrays import FloatArray, IntArray, special
from pacbandits.certificate.certificate import Candidate, Improvement
from pacbandits.certificate.certify import Request, certify_rows
from pacbandits.planning import Limits, plan
from pacbandits.planning.gain_plan import finished_log
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.trees.classes import Trees
from pacbandits.policies.trees.tree_policy import TreePolicy
from pacbandits.problems import Problem, load_problem
from pacbandits.problems.people import people
from pacbandits.records import Chosen, Contexts, Log, Metric
from pacbandits.records.metrics import read_guardrail
from pacbandits.simulation import run

NORMAL, DELTA = 1.645, 0.05
POLICIES = "trees:depth=1,bins=16"
TOP = 500.0  # the largest revenue
COVERAGE_RUNS = 100


class Test(NamedTuple):
    """A simulated A/B test.

    rows, arms: their numbers. rate: the mean reward of control; of revenue, the share of people who buy.
    lift: of arm 1, as a share of the rate; the others have half of it. by_person: what arm 1 gains more where the first
    feature is positive, and less elsewhere, as a share of the rate. revenue: whether rewards are long-tailed.
    """

    rows: int
    arms: int
    rate: float
    lift: float
    by_person: float = 0.0
    revenue: bool = False


TESTS = (
    Test(10_000, 2, 0.02, 0.5),
    Test(10_000, 2, 0.5, 0.1),
    Test(10_000, 4, 0.2, 0.3),
    Test(30_000, 2, 0.005, 0.6),
    Test(30_000, 4, 0.05, 0.4),
    Test(100_000, 2, 0.02, 0.2),
    Test(100_000, 4, 0.1, 0.1),
    Test(100_000, 2, 0.2, 0.0, by_person=0.3),
    Test(200_000, 2, 0.04, 0.12, revenue=True),
    Test(1_000_000, 2, 0.005, 0.1),
)
COVERED = (
    Test(1_000, 2, 0.05, 0.0),
    Test(1_000, 3, 0.3, 0.2),
    Test(1_000, 2, 0.3, 0.0, by_person=0.3),
)


def means_of(test: Test, features: FloatArray) -> FloatArray:
    """Return the mean rewards (n, A) of people, in units of the rate (of revenue: of buying)."""
    lifts = np.array([0.0, 1.0, 0.5, 0.5][: test.arms]) * test.lift
    out = test.rate * (1.0 + lifts) * np.ones((len(features), 1))
    out[:, 1] += test.rate * test.by_person * np.sign(features[:, 0])
    return np.clip(out * (1.0 + 0.2 * np.tanh(features[:, 1:2])), 0.0, 1.0)


def draw(test: Test, seed: int) -> Log:
    """Return the log of a test with an even split."""
    rng = np.random.default_rng([test.rows, test.arms, seed])
    features = rng.normal(size=(test.rows, 3))
    actions = rng.integers(test.arms, size=test.rows)
    rewards = (rng.random(test.rows) < means_of(test, features)[np.arange(test.rows), actions]).astype(np.float64)
    if test.revenue:
        rewards *= np.minimum(rng.lognormal(4.3, 0.8, test.rows), TOP) / TOP
    shares = np.full((test.rows, test.arms), 1.0 / test.arms)
    log = Log.of(Contexts.of(features), actions=actions, rewards=rewards, propensities=shares)
    names = ("control", *(f"arm {arm}" for arm in range(1, test.arms)))
    return replace(log, action_names=names, reward_range=(0.0, TOP) if test.revenue else (0.0, 1.0))


def proven(log: Log, policies: str | PolicyClass = POLICIES) -> Improvement:
    """Return the proven gains over control."""
    top = log.reward_range[1]
    made = certify_rows(log, Request(policies=policies, control="control", epsilon=0.2 * top, delta=DELTA)).certificate
    assert made.improvement is not None
    return made.improvement


def difference(log: Log, policy: Chosen, rows: slice) -> tuple[float, float]:
    """Return the difference in means between a policy and control with its standard error, in units of rewards.

    People to whom the policy gives the same action are compared with each other: for one action for everybody, that is
    the ordinary difference in means.
    """
    part = log.take(np.arange(log.samples)[rows])
    chosen, gain, variance = policy(part.contexts), 0.0, 0.0
    for arm in range(1, log.n_actions):
        there = chosen == arm
        sides = [part.rewards[there & (part.actions == action)] for action in (arm, 0)]
        if min(map(len, sides)) < 2:
            continue
        share = float(there.mean())
        gain += share * float(sides[0].mean() - sides[1].mean())
        variance += share**2 * sum(float(one.var(ddof=1)) / len(one) for one in sides)
    unit = log.reward_range[1] - log.reward_range[0]
    return unit * gain, unit * math.sqrt(variance)


def best_of(improvement: Improvement) -> Candidate:
    """Return the candidate of the largest proven gain, of those that are not control itself if there are any."""
    others = [one for one in improvement.candidates if getattr(one.policy, "root", None) != improvement.control]
    return max(others or improvement.candidates, key=lambda one: one.low)


def shown(test: Test, value: float) -> str:
    """Return a gain in percentage points, or in units of revenue."""
    return f"{value if test.revenue else 100 * value:+.3f}"


def tables() -> None:
    """Print the ratios on ten kinds of simulated tests: several of each if they are small."""
    rows: list[list[str]] = []
    for test in TESTS:
        ours: list[float] = []
        theirs: list[float] = []
        proofs = half_proofs = 0
        runs = 8 if test.rows <= 30_000 else 4 if test.rows <= 100_000 else 1
        for seed in range(runs):
            log = draw(test, seed)
            best = best_of(proven(log))
            gain, error = difference(log, best.policy, slice(0, None, 2))
            if error == 0.0:  # both candidates are control
                continue
            ours.append(best.estimate - best.low)
            theirs.append(NORMAL * error)
            proofs, half_proofs = proofs + (best.low > 0), half_proofs + (gain > NORMAL * error)
        rate = f"{100 * test.rate:g} %" + (" buy, for up to 500" if test.revenue else "")
        ratios = np.array(ours) / np.array(theirs)
        told = [f"{test.rows:,}", str(test.arms), rate, str(len(ours))]
        told += [shown(test, float(np.mean(one)))[1:] for one in (ours, theirs)]
        rows.append([*told, f"{ratios.mean():.2f}", f"{ratios.max():.2f}", f"{proofs}", f"{half_proofs}"])
    head = [
        "rows",
        "arms",
        "control",
        "tests",
        "proven bound, below the estimate by",
        "half-sample's bound, by",
        "ratio",
    ]
    head += ["largest", "gains proven", "by the half-sample"]
    print_table("distance of bounds from estimates: percentage points, or units of revenue", head, rows)


def revenue() -> None:
    """Print four tests of revenue: an ordinary t-test, and what is proven."""
    test = Test(200_000, 4, 0.0436, 0.124, revenue=True)
    rows: list[list[str]] = []
    for seed in range(1, 5):
        log = draw(test, seed)
        found = proven(log)
        best = best_of(found)
        whole, error = difference(log, ARM_ONE, slice(None))
        ends = whole - 1.96 * error, whole + 1.96 * error
        half, error = difference(log, best.policy, slice(0, None, 2))
        figures = *ends, half - NORMAL * error, best.estimate, best.low
        ratio = (best.estimate - best.low) / (NORMAL * error)
        told = [f"{ratio:.2f}", found.chosen, shown(test, true_gain(test, found.policy))]
        rows.append([str(seed), *(shown(test, one) for one in figures), *told])
    head = ["test", "t-test, from", "to", "half-sample, at least", "estimated", "proven, at least", "ratio"]
    head += ["recommended", "true gain of that"]
    print_table("revenue: 200,000 rows, four offers, gains over control", head, rows)


ARM_ONE = TreePolicy(1, 4)


def true_gain(test: Test, policy: Chosen) -> float:
    """Return the gain of a policy over control among 200,000 fresh people, by the means that rewards are drawn from."""
    features = np.random.default_rng(0).normal(size=(200_000, 3))
    means = means_of(test, features)
    buyers = float(np.mean(means[np.arange(len(means)), policy(Contexts.of(features))] - means[:, 0]))
    sizes = np.minimum(np.random.default_rng(1).lognormal(4.3, 0.8, 200_000), TOP)
    return buyers * (float(sizes.mean()) if test.revenue else 1.0)


def coverage() -> None:
    """Print how often the bound of a candidate exceeds its true gain, all candidates of a test together."""
    rows: list[list[str]] = []
    for test in COVERED:
        wrong = proofs = 0
        for seed in range(COVERAGE_RUNS):
            found = proven(draw(test, seed), "trees:depth=1,bins=8")
            wrong += any(one.low > true_gain(test, one.policy) for one in found.candidates)
            proofs += found.recommended is not None
        told = f"{100 * test.rate:g} %", f"{100 * test.lift:g} %", f"{100 * test.by_person:g} %"
        rows.append([f"{test.rows:,}", *told, f"{COVERAGE_RUNS:,}", f"{wrong:,}", f"{proofs:,}"])
    head = ["rows", "control", "lift", "by person", "tests", "bounds above the true gain", "gains proven"]
    print_table("coverage at δ = 0.05", head, rows)


# Gain and guardrail together. A half-sample chooses a rule by one half of the rows, and tests gain and guardrail on the
# other, by three one-sided bounds with δ/3 each (Bonferroni), as there are two for the guardrail. Cram (Jia, Imai and
# Li, "The Cram method for efficient simultaneous learning and evaluation", 2024) learns π_t from the first t of T
# batches and estimates the gain of π_T over π_0, the control, by
#
#     Σ_{t=1}^{T−1} of the mean of V(π_t) − V(π_{t−1}) on batches t + 1 to T,
#
# which is a sum over batches j of the mean score of g_j = Σ_{t<j} (π_t − π_{t−1})/(T − t), fixed before batch j. Its
# variance is the sum over j of the variance of that score, by batches j to T, over the batch size. Scores are doubly
# robust with the mean reward of each arm in the rows before.

THREE = 2.128  # standard errors of each of three one-sided bounds, with δ/3
CRAM_BATCHES = 20
BASELINE_RUNS = 10
MARGIN = 0.03  # of the guardrail: `returned <= control + 0.03`
RETURNED = 0.1  # the share of people who return an order, under control
BASELINES = (
    ("rule better, harmless", Test(6_000, 2, 0.3, 0.0, by_person=0.4), 0.0),
    ("rule better, harmful", Test(6_000, 2, 0.3, 0.0, by_person=0.4), 0.15),
    ("no effect", Test(6_000, 2, 0.3, 0.0), 0.0),
)


class Verdict(NamedTuple):
    """A rule, the lower bound on its gain, and bounds on its difference from control in returns."""

    policy: Chosen
    gain: float
    returned: tuple[float, float]


def arm_scores(log: Log, values: FloatArray, before: IntArray) -> FloatArray:
    """Return the doubly robust scores (n, A) of each arm; before: the rows whose means predict."""
    taught = log.take(before)
    means = [values[before][taught.actions == arm].mean() for arm in range(log.n_actions)]
    played = np.arange(log.n_actions) == log.actions[:, None]
    return means + played * (values[:, None] - means) / log.propensities


def learn(log: Log, policies: PolicyClass, rows: IntArray) -> Chosen:
    """Return the rule of the class with the largest estimated value on some rows."""
    return policies.argmax(log.contexts.take(rows), arm_scores(log, log.rewards, rows)[rows])


def chosen_matrix(log: Log, policy: Chosen) -> FloatArray:
    """Return 1 at the action of each person (n, A), else 0."""
    return (np.arange(log.n_actions) == policy(log.contexts)[:, None]).astype(np.float64)


def half_sample(log: Log, returned: FloatArray, policies: PolicyClass) -> Verdict:
    """Choose by the first half of the rows, and test on the second."""
    first, second = np.split(np.arange(len(log)), 2)
    policy = learn(log, policies, first)
    moved = (chosen_matrix(log, policy) - chosen_matrix(log, TreePolicy(0, log.n_actions)))[second]
    ends: list[tuple[float, float]] = []
    for values in (log.rewards, returned):
        scores = (moved * arm_scores(log, values, first)[second]).sum(axis=1)
        off = THREE * float(scores.std(ddof=1)) / math.sqrt(len(second))
        ends.append((float(scores.mean()) - off, float(scores.mean()) + off))
    return Verdict(policy, ends[0][0], ends[1])


def cram(log: Log, returned: FloatArray, policies: PolicyClass) -> Verdict:
    """Learn and evaluate by `CRAM_BATCHES` batches."""
    batches = np.array_split(np.arange(len(log)), CRAM_BATCHES)
    learnt: list[Chosen] = [TreePolicy(0, log.n_actions)]
    learnt += [learn(log, policies, np.concatenate(batches[: t + 1])) for t in range(CRAM_BATCHES)]
    done = [chosen_matrix(log, policy) for policy in learnt]
    ends: list[tuple[float, float]] = []
    for values in (log.rewards, returned):
        weights, estimate, variance = np.zeros_like(done[0]), 0.0, 0.0
        for j in range(1, CRAM_BATCHES):
            weights += (done[j] - done[j - 1]) / (CRAM_BATCHES - j)
            scores = (weights * arm_scores(log, values, np.concatenate(batches[:j]))).sum(axis=1)
            estimate += float(scores[batches[j]].mean())
            variance += float(scores[batches[j][0] :].var(ddof=1)) / len(batches[j])
        off = THREE * math.sqrt(variance)
        ends.append((estimate - off, estimate + off))
    return Verdict(learnt[-1], ends[0][0], ends[1])


def certificate(log: Log, policies: PolicyClass) -> Verdict:
    """Return the bounds of the candidate of the largest proven gain."""
    rails = (read_guardrail(f"returned <= control + {MARGIN}"),)
    asked = Request(policies=policies, control="control", epsilon=0.2, delta=DELTA, guardrails=rails)
    found = certify_rows(log, asked).certificate.improvement
    assert found is not None
    best = max(found.candidates, key=lambda one: one.low)
    return Verdict(best.policy, best.low, (best.guarded[0].low, best.guarded[0].high))


def baselines() -> None:
    """Print what is proven of gain and guardrail together, by three methods."""
    rows: list[list[str]] = []
    for words, test, harm in BASELINES:
        found: dict[str, list[tuple[Verdict, float, float]]] = {}
        for seed in range(BASELINE_RUNS):
            log, rng = draw(test, seed), np.random.default_rng([seed, 1])
            returned = (rng.random(len(log)) < RETURNED + harm * (log.actions == 1)).astype(np.float64)
            log = replace(log, metrics=(Metric("returned"),), metric_values=returned[:, None])
            policies = Trees.learn(log.contexts, n_actions=2, depth=1, bins=16)
            for name, verdict in (
                ("certificate", certificate(log, policies)),
                ("half-sample, Bonferroni", half_sample(log, returned, policies)),
                ("Cram", cram(log, returned, policies)),
            ):
                fresh = Contexts.of(np.random.default_rng(0).normal(size=(200_000, 3)))
                share = float((verdict.policy(fresh) == 1).mean())
                found.setdefault(name, []).append((verdict, true_gain(test, verdict.policy), harm * share))
        for name, runs in found.items():
            gains = [100 * verdict.gain for verdict, _, _ in runs]
            shown = [f"{100 * np.mean([gain for _, gain, _ in runs]):+.2f}", f"{np.mean(gains):+.2f}"]
            counts = [
                sum(verdict.gain > 0 for verdict, _, _ in runs),
                sum(verdict.returned[1] <= MARGIN for verdict, _, _ in runs),
                sum(verdict.returned[0] > MARGIN for verdict, _, _ in runs),
                sum(
                    verdict.gain > gain or not verdict.returned[0] <= more <= verdict.returned[1]
                    for verdict, gain, more in runs
                ),
            ]
            rows.append([words, name, *shown, *map(str, counts)])
    head = ["test", "method", "true gain of the rule", "bound on it", "gains proven", "guardrails kept"]
    head += ["violated", "with a wrong bound"]
    print_table(f"gain and guardrail in {BASELINE_RUNS} tests of 6,000 rows each: percentage points", head, rows)


SIMULATED, FRESH = 32, 30  # tests that a plan simulates, and fresh logs that `certify` reads
PLANS: tuple[dict[str, Any], ...] = (
    {"n_actions": 2, "baseline": 0.2, "effect": 0.08},
    {"n_actions": 2, "baseline": 0.5, "effect": 0.1, "policies": "trees:depth=2"},
    {"n_actions": 4, "baseline": 0.3, "effect": 0.12},
    {"n_actions": 2, "baseline": 0.3, "effect": 0.2, "share": 0.4},
    {"n_actions": 3, "baseline": 0.3, "effect": 0.15, "share": 0.6, "policies": "trees:depth=2", "delta": 0.1},
    {"n_actions": 6, "baseline": 0.3, "effect": 0.2, "policies": "trees:depth=2"},
    {"n_actions": 2, "baseline": 0.05, "effect": 0.03},
    {"n_actions": 3, "baseline": 50.0, "spread": 20.0, "reward_range": (0.0, 100.0), "effect": 5.0},
)


def plans() -> None:
    """Print planned sizes, quick and simulated, and the share of fresh logs of that size that prove a gain."""
    rows: list[list[str]] = []
    for options in PLANS:
        who = people(1000, n_features=3, rng=np.random.default_rng(0))
        asked: dict[str, Any] = {"policies": "trees:depth=1", **options, "limits": Limits(trials=SIMULATED)}
        made = plan(who, improve_on=0, **asked)
        proofs = 0
        for seed in range(FRESH):
            log = finished_log(made.supposed.problem(0, 1000 + seed), round(made.rows), np.random.default_rng(seed))
            request = Request(policies=asked["policies"], control="0", epsilon=0.2, delta=made.supposed.delta)
            found = certify_rows(log, request).certificate.improvement
            proofs += found is not None and found.recommended is not None
        share = f"{100 * options['share']:g} %" if "share" in options else "everybody"
        ordinary = f"{made.ordinary():,.0f}" if math.isfinite(made.ordinary()) else "none finds it"
        told = [f"{options['n_actions']}", f"{options['baseline']:g}", f"{options['effect']:g}", share, ordinary]
        rows.append([*told, f"{made.foretold(0.8):,.0f}", f"{made.rows:,.0f}", f"{proofs} of {FRESH}"])
        print(*rows[-1], flush=True, file=sys.stderr)
    head = [
        "actions",
        "control",
        "effect",
        "for",
        "A/B test",
        "plan, quick",
        "plan, simulated",
        "certify proves a gain",
    ]
    print_table("rows for a power of 80 %, and proofs in fresh logs of the simulated size", head, rows)


STOPPING_RUNS, STOPPING_POWER = 20, 0.8
STOPPED = (("two-of-many:actions=6,policies=40", 0), ("trees:actions=4", 1), ("trees:actions=6,depth=1", 3))


def ab_test_size(problem: Problem, control: int) -> float:
    """Return the rows of an A/B test with arms of equal size that finds a better action with a power of 80 %.

    One-sided at the level δ/(number of comparisons); infinite if no action is better than control for everybody.
    """
    means: FloatArray = problem.population.weights @ problem.mean_rewards
    spread, arms = means * (1.0 - means), len(means)
    reach = float(special.ndtri(1.0 - DELTA / (arms - 1)) + special.ndtri(STOPPING_POWER))
    sizes = [
        arms * (spread[a] + spread[control]) * (reach / (means[a] - means[control])) ** 2
        for a in range(arms)
        if means[a] > means[control]
    ]
    return min(sizes, default=math.inf)


def stopping() -> None:
    """Print sample sizes of runs that stop by a proven gain, and by ε, and of an A/B test."""
    rows: list[list[str]] = []
    for spec, control in STOPPED:
        problem = load_problem(spec)
        today = float(problem.population.weights @ problem.mean_rewards[:, control])
        gain = problem.value(problem.best_policy()) - today
        told = [spec, f"{100 * gain:.1f}"]
        asked: tuple[dict[str, Any], ...] = (
            {"improve_on": control},
            {"improve_on": control, "algorithm": "uniform"},
            {"epsilon": gain},
            {"epsilon": gain / 2.0},
        )
        for options in asked:
            done = [run(problem, delta=DELTA, rng=seed, **options) for seed in range(STOPPING_RUNS)]
            sizes = np.array([one.samples for one in done])
            told.append(f"{np.median(sizes):,.0f} ({np.quantile(sizes, 0.9):,.0f})")
            print(*told, "wrong:", sum(not one.correct for one in done), flush=True, file=sys.stderr)
        size = ab_test_size(problem, control)
        rows.append([*told, f"{size:,.0f}" if math.isfinite(size) else "none finds it"])
    head = ["problem", "gain of the best policy", "by a gain, coda", "by a gain, uniform"]
    head += ["by ε = the gain, coda", "by half of it", "A/B test"]
    title = f"people until a gain over today's practice is known: median (90th percentile) of {STOPPING_RUNS} runs"
    print_table(title, head, rows)


PARTS = {
    "tables": tables,
    "revenue": revenue,
    "coverage": coverage,
    "baselines": baselines,
    "plans": plans,
    "stopping": stopping,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
