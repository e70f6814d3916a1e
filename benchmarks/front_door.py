"""What `certify` makes of the log of an A/B/n test by default, against its other settings, where the truth is known.

python -m benchmarks.front_door [runs] [runs with a million rows]

The value of a policy is that of fresh people. Values and certified ε are means over the runs: a value as a share of
that of the best setting, and an ε as a multiple of the smallest; in brackets that ε, in units of the mean reward of a
plain trial.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.arrays import FloatArray
from pacbandits.certificate.content_order import sorted_by_content

FRESH_PEOPLE = 100_000
MILLION = 1_000_000
REVENUE_CAP = 500.0


@dataclass(frozen=True)
class Scenario:
    """A test: so many actions, of a base rate, which earn 1 each or a revenue with a long tail."""

    actions: int
    rate: float
    revenue: bool
    rows: int

    @property
    def name(self) -> str:
        return f"{self.actions} actions, {100 * self.rate:g} %{', revenue' if self.revenue else ''}, {self.rows:,} rows"


SCENARIOS = tuple(
    Scenario(actions, rate, revenue, rows)
    for (actions, rate, revenue), rows in product(
        ((2, 0.5, False), (3, 0.05, True), (5, 0.02, False), (10, 0.2, False), (4, 0.005, False)),
        (10_000, 100_000, MILLION),
    )
)
SETTINGS: dict[str, dict[str, bool]] = {
    "default": {},
    "in order": {"ordered": True},
    "in order, single": {"ordered": True, "single": True},
}


def people(n: int, rng: np.random.Generator) -> pb.Contexts:
    """Mixed columns: age, past spending, visits, country, device."""
    columns = [
        rng.integers(18, 80, n),
        rng.gamma(2.0, 30.0, n).round(2),
        rng.poisson(3, n),
        rng.integers(0, 5, n),
        rng.integers(0, 3, n),
    ]
    countries, devices = ("AT", "CH", "DE", "FR", "IT"), ("desktop", "phone", "tablet")
    return pb.Contexts.of(
        np.column_stack(columns).astype(float),
        names=["age", "spent", "visits", "country", "device"],
        categories=[None, None, None, countries, devices],
    )


def rates(scenario: Scenario, rng: np.random.Generator) -> Callable[[pb.Contexts], FloatArray]:
    """The probability (n, A) of a reward: a base that depends on the person, and effects that differ by segment."""
    lifts = rng.uniform(-0.3, 0.6, size=(scenario.actions, 4)) * (rng.random((scenario.actions, 4)) < 0.7)
    edge, half = rng.integers(28, 65), rng.uniform(30, 80)

    def of(contexts: pb.Contexts) -> FloatArray:
        age, spent, visits = contexts.features[:, 0], contexts.features[:, 1], contexts.features[:, 2]
        base = scenario.rate * (0.6 + 0.25 * np.minimum(visits, 6) / 3 + 0.3 * (spent > half))
        segment = 2 * (age > edge) + (spent > half)
        return np.clip(base[:, None] * (1.0 + lifts[:, segment].T), 0.0, 1.0)

    return of


def draw(scenario: Scenario, seed: int) -> tuple[pb.Log, Callable[[pb.Contexts], FloatArray]]:
    """A log of the test, and the mean reward (n, A) of any people, both with rewards in [0, 1]."""
    rng = np.random.default_rng(seed)
    chance = rates(scenario, rng)
    contexts, n = people(scenario.rows, rng), scenario.rows
    actions = rng.integers(0, scenario.actions, n)
    paid = rng.random(n) < chance(contexts)[np.arange(n), actions]
    spent = np.minimum(rng.lognormal(3.5, 1.0, n), REVENUE_CAP) / REVENUE_CAP if scenario.revenue else np.ones(n)
    many = np.minimum(rng.lognormal(3.5, 1.0, 10**6), REVENUE_CAP) / REVENUE_CAP
    worth = float(many.mean()) if scenario.revenue else 1.0
    log = pb.Log.of(
        contexts,
        actions=actions,
        rewards=paid * spent,
        propensities=np.full((n, scenario.actions), 1.0 / scenario.actions),
    )
    return log, lambda others: worth * chance(others)


def value(policy: pb.Policy | pb.Mixture, means: FloatArray, contexts: pb.Contexts) -> float:
    """The mean reward of a policy."""
    if isinstance(policy, pb.Mixture):
        return float((policy.propensities(contexts) * means).sum(axis=1).mean())
    return float(means[np.arange(len(contexts)), policy(contexts)].mean())


def main(runs: int = 8, runs_of_million: int = 2) -> None:
    rows: list[list[str]] = []
    for scenario in sorted(SCENARIOS, key=lambda one: one.rows == MILLION):
        times = runs_of_million if scenario.rows == MILLION else runs
        values: dict[str, list[float]] = {name: [] for name in SETTINGS}
        distances: dict[str, list[float]] = {name: [] for name in SETTINGS}
        seconds: list[float] = []
        for seed in range(times):
            log, truth = draw(scenario, seed)
            fresh = people(FRESH_PEOPLE, np.random.default_rng(10**6 + seed))
            means, mean = truth(fresh), float(log.rewards.mean())
            for name, options in SETTINGS.items():
                start = time.perf_counter()
                # In the order into which the default shuffles them, so that luck is the same for all.
                rows_as = sorted_by_content(log) if options else log
                made = pb.certify(rows_as, "trees:depth=2", delta=0.05, **options).certificate
                if name == "default":
                    seconds.append(time.perf_counter() - start)
                values[name].append(value(made.policy, means, fresh) / mean)
                distances[name].append(made.certified_epsilon / mean)
        best, nearest = (take(np.mean(one) for one in of.values()) for take, of in ((max, values), (min, distances)))
        row = [scenario.name]
        for name in SETTINGS:
            worth, distance = np.mean(values[name]) / best, np.mean(distances[name])
            row.append(f"{100 * worth:.1f} %, {distance / nearest:.2f} ({distance:.2g})")
        rows.append([*row, f"{np.median(seconds):.1f}"])
        print(*rows[-1], flush=True, file=sys.stderr)
    head = ["test", *(f"{name}: value, ε" for name in SETTINGS), "seconds"]
    print_table(f"Means of {runs} runs, of {runs_of_million} with a million rows, δ = 0.05", head, rows)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
