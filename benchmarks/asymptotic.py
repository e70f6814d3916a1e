"""The approximate certificate: how often it errs, what it saves against the proof, and what peeking does to it.

python -m benchmarks.asymptotic                  everything
python -m benchmarks.asymptotic compare 400      against the proof, on small problems
python -m benchmarks.asymptotic large            the same on two large ones
python -m benchmarks.asymptotic rules 400        with parts of the rule left out
python -m benchmarks.asymptotic peeking 200      when it is looked at again and again

Logs are of one round of uniform exploration. "Wrong" is the share of runs in which the policy is further from the best
than the certified distance; δ = 0.05 everywhere. Sample sizes are those at which about half of the logs certify ε.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tests.certificate.test_validity import EPSILON, PROBLEMS

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.certificate.asymptotic import Scores, bootstrap, choose, name_rivals, order_statistic, share_of
from pacbandits.certificate.ledger import Ledger
from pacbandits.policies.finite import Finite, sum_scores
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts, Design, Log

DELTA, DRAWS = 0.05, 100
GROWTH = 1.25  # of the sample sizes that are tried
SPECS = (
    ("two-of-many:actions=6,policies=40", 0.05),
    ("trees:contexts=80,features=3,bins=4,actions=3,competitive=2", 0.15),
)
LARGE = (("two-of-many", 0.05, 8000), ("trees:actions=16,competitive=3", 0.05, 20000))  # with a size to begin at
RULES = (0.0, 0.25, 0.5, 1.0)


def crowd(*, policies: int = 40, weight: float = 0.15, epsilon: float = 0.1, contexts: int = 30) -> Problem:
    """One policy is ahead by 1.05 ε, on one context of this weight; the others differ by luck alone on the rest.

    With a small weight all policies are about as noisy; with a large one the best is much noisier than the others.
    """
    rng = np.random.default_rng(1)
    lead = 1.05 * epsilon / weight
    means = np.full((contexts + 1, 2), 0.5)
    means[0] = 0.5 - lead / 2, 0.5 + lead / 2
    table = np.hstack([np.zeros((policies, 1), dtype=int), rng.integers(2, size=(policies, contexts))])
    table[-1, 0] = 1
    weights = [weight] + [(1 - weight) / contexts] * contexts
    name = f"crowd of {policies}, {weight:g}"
    population = Contexts.finite(contexts + 1, weights=weights)
    return Problem(name, name, population, means, Bernoulli(), Finite(table, n_actions=2))


@dataclass(frozen=True)
class Case:
    """A problem and the ε that is asked for."""

    name: str
    problem: Problem
    epsilon: float

    def log(self, samples: int, rng: np.random.Generator) -> Log:
        uniform = Design((), np.empty(0), self.problem.best_policy())
        return self.problem.interact(uniform, samples=samples, rng=rng)

    def gap(self, policy: pb.Policy) -> float:
        return self.problem.value(self.problem.best_policy()) - self.problem.value(policy)

    def approximate(self, log: Log, seed: int, *, draws: int = DRAWS) -> pb.AsymptoticCertificate:
        options = {"epsilon": self.epsilon, "delta": DELTA, "rng": seed, "draws": draws}
        return pb.certify_asymptotically(log, self.problem.policies, **options)

    def proven(self, log: Log) -> pb.Certificate:
        return pb.certify(log, self.problem.policies, epsilon=self.epsilon, delta=DELTA).certificate


def cases() -> list[Case]:
    small = [Case(f"`{name}` of the tests", make(), EPSILON) for name, make in PROBLEMS.items()]
    crowds = [
        Case(made.name, made, 0.1) for made in (crowd(), crowd(policies=400), crowd(weight=0.55), crowd(policies=2))
    ]
    return [*small, *(Case(f"`{spec}`", pb.load_problem(spec), epsilon) for spec, epsilon in SPECS), *crowds]


def half(case: Case, certified: Callable[[Log, int], bool], *, start: int = 24, tries: int = 21) -> int:
    """The first sample size of a growing sequence at which most logs certify."""
    samples = start
    while True:
        rng = np.random.default_rng(samples)
        if sum(certified(case.log(samples, rng), seed) for seed in range(tries)) > tries / 2:
            return samples
        samples = round(samples * GROWTH)


def compare(runs: int) -> None:
    rows: list[list[str]] = []
    for case in cases():
        asked = half(case, lambda log, seed, case=case: case.approximate(log, seed, draws=40).certified)
        proven = half(case, lambda log, _, case=case: case.proven(log).certified, start=asked)
        yes, claims, wrong = 0, 0, 0
        rng = np.random.default_rng(0)
        for seed in range(runs):
            made = case.approximate(case.log(asked, rng), seed)
            gap = case.gap(made.policy)
            yes += made.certified
            claims += made.certified and gap > case.epsilon
            wrong += gap > made.certified_epsilon
        shares = [f"{100 * count / runs:.1f} %" for count in (yes, claims, wrong)]
        rows.append([case.name, f"{case.epsilon:g}", f"{asked:,}", f"{proven:,}", f"{proven / asked:.1f}", *shares])
    head = ["problem", "ε", "samples", "for a proof", "times fewer", "certified", "certified and wrong", "wrong"]
    print_table(f"{runs} runs each, δ = {DELTA:g}", head, rows)


def rules(runs: int) -> None:
    """What each part of the rule is for: error rates with a part left out, at several sample sizes; the largest."""
    rows: list[list[str]] = []
    for case in (Case(made.name, made, 0.1) for made in (crowd(policies=400), crowd(), crowd(weight=0.55))):
        worst: dict[str, float] = {}
        for samples in (200, 400, 700):
            rng, wrong = np.random.default_rng(samples), dict[str, int]()
            for _ in range(runs):
                log = case.log(samples, rng)
                policy, claims = distances(log, case, rng)
                for name, distance in claims.items():
                    wrong[name] = wrong.get(name, 0) + (case.gap(policy) > distance)
            worst = {name: max(worst.get(name, 0.0), count / runs) for name, count in wrong.items()}
        rows.append([case.name, *(f"{100 * share:.1f} %" for share in worst.values())])
    print_table(
        f"largest share of wrong claims over three sample sizes, {runs} runs each, δ = {DELTA:g}",
        ["problem", *worst],
        rows,
    )


def distances(log: Log, case: Case, rng: np.random.Generator) -> tuple[pb.Policy, dict[str, float]]:
    """The certified distance by the rule, by its slopes alone, and by rules that leave something out."""
    policies = case.problem.policies
    scores = Scores(Ledger.of(log, np.full(log.propensities.shape, 0.5)))
    policy = choose(scores, policies, epsilon=case.epsilon)
    own = policy(scores.contexts)
    gaps, _ = scores.gaps(own)
    rivals = name_rivals(scores, policies, reference=own)
    suprema, heights = bootstrap(scores, policies, reference=own, rivals=rivals, draws=DRAWS, rng=rng, slopes=RULES)
    ahead = sum_scores(rivals, gaps)
    claims: dict[str, float] = {}
    for k, slope in enumerate(RULES):
        least = order_statistic(suprema[:, k, None] - heights, delta=DELTA)
        alone = float(order_statistic(suprema[:, [k]], delta=DELTA)[0])
        if slope <= 0.5:
            claims[f"a = {slope:g}"] = float((least / share_of(slope) - ahead).max())
        if slope == 0:
            claims["a = 0, r = q alone"] = alone
        else:
            claims[f"a = {slope:g}, τ = 1, r = q alone"] = alone
    ours = min(claims[f"a = {slope:g}"] for slope in RULES if slope <= 0.5)
    return policy, {"the rule": ours} | claims


def peeking(runs: int, *, choices: tuple[int, ...] = (1, 10, 40)) -> None:
    """Look after every so many samples, and stop at the first yes."""
    problem = crowd(policies=2)
    case, rows = Case(problem.name, problem, 0.1), list[list[str]]()
    for looks in choices:
        wrong = np.zeros(2, dtype=int)
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            done, log = [False, False], None
            for look in range(looks):
                if all(done):
                    break
                new = case.log(400 // looks, rng)
                log = new if log is None else log.followed_by(new)
                for which in (0, 1):
                    if not done[which]:
                        made = case.approximate(log, seed * 100 + look) if which == 0 else case.proven(log)
                        done[which] = made.certified
                        wrong[which] += made.certified and case.gap(made.policy) > case.epsilon
        rows.append([f"{looks}", *(f"{100 * count / runs:.1f} %" for count in wrong)])
    head = ["analyses", "approximate: certified and wrong", "proof: certified and wrong"]
    print_table(f"{case.name}: up to 400 samples, {runs} runs each, δ = {DELTA:g}", head, rows)


def large(_: int) -> None:
    """Sample sizes alone, from three logs each."""
    rows: list[list[str]] = []
    for spec, epsilon, start in LARGE:
        case = Case(f"`{spec}`", pb.load_problem(spec), epsilon)
        asked = half(case, lambda log, seed, case=case: case.approximate(log, seed).certified, start=start, tries=3)
        proven = half(case, lambda log, _, case=case: case.proven(log).certified, start=asked, tries=3)
        rows.append([case.name, f"{epsilon:g}", f"{asked:,}", f"{proven:,}", f"{proven / asked:.1f}"])
    print_table(
        f"two of three logs certify, δ = {DELTA:g}", ["problem", "ε", "samples", "for a proof", "times fewer"], rows
    )


# What can be asked for, and how many runs it takes.
PARTS = {"compare": (compare, 400), "large": (large, 1), "rules": (rules, 400), "peeking": (peeking, 200)}


def main(names: list[str] | None = None, runs: int | None = None) -> None:
    if hasattr(os, "sched_setaffinity"):
        # Many small problems: threads would only get in the way.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for name in names or PARTS:
        part, usual = PARTS[name]
        part(runs or usual)


if __name__ == "__main__":
    main(sys.argv[1:2], int(sys.argv[2]) if len(sys.argv) > 2 else None)
