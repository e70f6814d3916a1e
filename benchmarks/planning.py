"""How well a plan foretells: the quick answer against simulated trials, and simulated bands against fresh trials.

python -m benchmarks.planning [problems] [trials] [first seed] [fresh]

Problems are drawn from the scenarios (2 to 10 actions, mean rewards of 3 % to 50 %, all or nothing or spread out, trees
of depth 0 to 2 on 2 to 10 features, ε of 0.3 to 0.8 effects, δ of 0.001 to 0.2) and, one in five, from the built-in
ones. The constants of the quick answer were fitted to seeds below 200. With `fresh` 1, half of the trials of every
problem make a band from the 10 % to the 90 % quantile, and the other half is counted in it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import cast

import numpy as np

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.planning.assumptions import RIVALS, Assumptions, people_of
from pacbandits.planning.sample_sizes import estimate, foretold
from pacbandits.planning.simulated_trials import Job, TrialQuestion, play_all, quantile
from pacbandits.policies.base import PolicyClass
from pacbandits.problems.people import people
from pacbandits.problems.scenarios import KINDS, Outcome, Scenario, ScenarioKind
from pacbandits.records import Contexts

FACTOR = 1.5
MAX_PEOPLE_PLAYED = 400_000


class Fixed:
    """A problem as a scenario of its own: every draw of it is the same."""

    weight = 1.0

    def __init__(self, problem: pb.Problem) -> None:
        self.problem, self.name = problem, problem.name

    def describe(self) -> str:
        return self.problem.description

    def check(self, outcome: Outcome, *, n_actions: int) -> None:
        assert n_actions == self.problem.n_actions

    def draw(
        self, contexts: Contexts, policies: PolicyClass, *, outcome: Outcome, rng: np.random.Generator
    ) -> pb.Problem:
        if len(contexts) == len(self.problem.population):
            return self.problem
        # Some of the people, for the quick answer: they are known by their features.
        rows = [
            int(np.flatnonzero((self.problem.population.features == one).all(axis=1))[0]) for one in contexts.features
        ]
        return pb.Problem(self.name, self.name, contexts, self.problem.mean_rewards[rows], self.problem.noise, policies)


def supposed(seed: int) -> Assumptions:
    """The problem of a seed."""
    rng = np.random.default_rng(seed)
    delta = float(np.random.default_rng(seed + 7).choice([0.05, 0.01, 0.2, 0.001]))
    if seed % 5 == 4:
        problem, epsilon = built_in(seed, rng)
        contexts, policies = problem.population, problem.policies
        return Assumptions(contexts, policies, epsilon, delta, Outcome(0.5), (Fixed(problem),), seed=seed)
    kind = cast(ScenarioKind, str(rng.choice(KINDS)))
    actions = int(rng.choice([2, 3, 4, 6, 10]))
    if kind == "few" and actions < 4:
        actions = 6
    baseline = float(np.exp(rng.uniform(np.log(0.03), np.log(0.5))))
    effect = float(min(rng.uniform(0.4, 1.0) * np.sqrt(baseline * (1 - baseline)) * 0.6, 0.9 - 1.3 * baseline))
    epsilon = effect * float(rng.uniform(0.3, 0.8))
    n, d, depth = int(rng.choice([500, 1000, 2000])), int(rng.integers(2, 11)), int(rng.choice([0, 1, 2, 2]))
    contexts = people_of(people(n, n_features=d, rng=rng))
    policies = pb.Trees.learn(contexts, n_actions=actions, depth=depth)
    spread = float(np.sqrt(baseline * (1 - baseline)) * rng.uniform(0.2, 0.8)) if rng.random() < 0.3 else None
    scenario = Scenario(kind, effect=effect, share=float(rng.uniform(0.15, 0.5)))
    return Assumptions(contexts, policies, epsilon, delta, Outcome(baseline, spread), (scenario,), seed=seed)


def built_in(seed: int, rng: np.random.Generator) -> tuple[pb.Problem, float]:
    """One of the built-in problems, and an ε for it."""
    options = (
        (
            f"trees:actions={rng.integers(2, 11)},contexts=1000,features={rng.integers(2, 9)},"
            f"depth={rng.integers(1, 3)},seed={seed}",
            (0.05, 0.1, 0.15),
        ),
        (f"two-of-many:actions={rng.integers(3, 12)},policies={rng.integers(10, 200)},seed={seed}", (0.05, 0.1)),
        (f"random:actions={rng.integers(2, 6)},policies={rng.integers(10, 200)},seed={seed}", (0.05, 0.1)),
        (f"trivial:contexts={rng.integers(1, 8)},actions={rng.integers(2, 6)},seed={seed}", (0.1, 0.15)),
    )
    spec, near = options[rng.integers(len(options))]
    return pb.load_problem(spec), float(rng.choice(near))


def main(problems: int = 40, trials: int = 5, first: int = 1000, fresh: int = 0) -> None:
    rows: list[list[str]] = []
    ratios: dict[str, list[float]] = {one: [] for one in RIVALS}
    inside: list[bool] = []
    for seed in range(first, first + problems):
        one = supposed(seed)
        quick = estimate(one)
        asked = TrialQuestion(one.unit_epsilon, one.delta, None, 0, MAX_PEOPLE_PLAYED)
        # Each trial draws anew who wins, and which people differ.
        jobs: Iterator[Job] = iter([(0, k, name) for k in range(trials) for name in RIVALS])
        times: dict[str, list[float]] = {name: [] for name in RIVALS}
        for done in play_all(one, asked, jobs):
            times[done.algorithm].append(float(done.samples) if done.done else np.inf)
        row = [f"{seed}", one.scenarios[0].name.split(":")[0], f"{one.n_actions}", f"{one.policies.log_size:.1f}"]
        for name in RIVALS:
            median, told = float(np.median(times[name])), foretold(quick, one.shares, name).median
            ratios[name].append(told / median)
            row += [f"{told:,.0f}", f"{median:,.0f}", f"{told / median:.2f}"]
            if fresh:
                half = trials // 2
                low, high = (quantile(times[name][:half], [1.0] * half, share) for share in (0.1, 0.9))
                inside += [low <= t <= high for t in times[name][half:]]
        rows.append(row)
        print(*row, flush=True, file=sys.stderr)
    head = ["seed", "problem", "actions", "log size"]
    head += [words for kind in ("adaptive", "plain") for words in (f"{kind}: predicted", "simulated", "ratio")]
    print_table(f"Medians of {trials} trials of each problem", head, rows)
    for name in RIVALS:
        near = np.mean([1 / FACTOR <= ratio <= FACTOR for ratio in ratios[name]])
        print(f"{name}: predicted within a factor {FACTOR} in {100 * near:.0f} % of {problems} problems")
    if fresh:
        print(f"fresh trials within the 80 % band: {100 * np.mean(inside):.0f} % of {len(inside)}")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
