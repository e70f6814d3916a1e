"""How often `certify` proves what a plan says, on finished logs of the planned size.

python -m benchmarks.finished_logs [settings] [logs] [first seed]

Settings are drawn: 2 to 6 actions, baselines of 10 % to 50 %, effects of 20 % to 80 % of that, trees of depth 0 to 2 on
2 to 5 features, ε of 0.5 to 1.1 effects, and all scenarios, each as likely as the others. A log is of a plain test with
as many rows as the plan says for half of all cases, or for 4 of 5; `certify` reads it without options but the class and
δ. The constants of the plan were fitted to logs of other settings.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.planning.sample_sizes import CERTIFY
from pacbandits.problems.people import people

SHARES = (0.5, 0.8)
MOST_ROWS = 6_000  # of a log; settings that take more are left out, as certifying them takes minutes


def planned(seed: int) -> pb.StudyPlan:
    """The quick plan of a setting."""
    rng = np.random.default_rng([seed, 11])
    baseline = float(np.exp(rng.uniform(np.log(0.1), np.log(0.5))))
    effect = baseline * float(rng.uniform(0.2, 0.8))
    return pb.plan(
        people(1000, n_features=int(rng.integers(2, 6)), rng=rng),
        n_actions=int(rng.choice([2, 3, 4, 6])),
        policies=f"trees:depth={rng.choice([0, 1, 2, 2])}",
        epsilon=effect * float(rng.uniform(0.5, 1.1)),
        delta=float(rng.choice([0.05, 0.1])),
        baseline=baseline,
        effect=min(effect, 0.9 - 1.3 * baseline),
        seed=seed,
        simulated=False,
    )


def finished_log(problem: pb.Problem, rows: int, rng: np.random.Generator) -> pb.Log:
    """The log of a plain test, as a file would hold it: nobody has an id."""
    who = problem.population.take(rng.choice(len(problem.population), rows, p=problem.population.weights))
    actions = rng.integers(problem.n_actions, size=rows)
    return pb.Log.of(
        replace(who, ids=None, weights=np.full(rows, 1.0 / rows)),
        actions=actions,
        rewards=problem.rewards(who, actions, rng),
        propensities=np.full((rows, problem.n_actions), 1.0 / problem.n_actions),
    )


def certified_share(plan: pb.StudyPlan, rows: int, *, logs: int) -> float:
    """The share of so many logs, scenario after scenario, of which `certify` proves the plan's ε."""
    s, proven = plan.supposed, 0
    for number in range(logs):
        scenario = number % len(s.scenarios)
        log = finished_log(s.problem(scenario, 1000 + number), rows, np.random.default_rng([s.seed, number, rows]))
        made = pb.certify(log, s.spec or s.policies, delta=s.delta).certificate
        proven += made.certified_epsilon <= s.epsilon
    return proven / logs


def main(settings: int = 12, logs: int = 24, first: int = 5000) -> None:
    rows: list[list[str]] = []
    shares: list[list[float]] = []
    seed = first
    while len(rows) < settings:
        plan, seed = planned(seed), seed + 1
        if plan.quantiles(CERTIFY).p80 > MOST_ROWS:
            continue
        s, sizes = plan.supposed, (plan.quantiles(CERTIFY).median, plan.quantiles(CERTIFY).p80)
        shares.append([certified_share(plan, round(size), logs=logs) for size in sizes])
        row = [f"{seed - 1}", s.spec or "", f"{s.n_actions}", f"{s.outcome.baseline:.3f}", f"{s.effects[0]:.3f}"]
        row.append(f"{s.epsilon:.3f}")
        for size, share in zip(sizes, shares[-1], strict=True):
            row += [f"{size:,.0f}", f"{100 * share:.0f} %"]
        rows.append(row)
        print(*row, flush=True, file=sys.stderr)
    head = ["seed", "class", "actions", "baseline", "effect", "ε", "half of all cases", "proven", "4 of 5", "proven"]
    print_table(f"Finished logs of planned sizes, {logs} of each", head, rows)
    for share, found in zip(SHARES, np.mean(shares, axis=0), strict=True):
        print(f"planned for {100 * share:.0f} %: {100 * found:.0f} % of logs prove it")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
