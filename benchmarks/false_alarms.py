"""How often the tests for drift and for the sample ratio raise a false alarm; and claims under drift that hurts bets.

Honest logs of several kinds: rows, contexts and rewards from one distribution, actions by their propensities. Each test
states that it ever raises an alarm with probability 0.5 % at most.

Then drift that is designed against leaders: action 2 always earns 0.6; action 0 earns more by d in the first half of
the log and less by 3d in the second, action 1 the other way round. Each leads while it is good, so that a mixture of
both seems better than action 2, and is worse by d on average over the log.

python -m benchmarks.false_alarms [logs [drifting logs]]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.certificate.alarms import look
from pacbandits.compiled import using_cores
from pacbandits.records import Contexts, Log, Mixture, parts_of

ROWS, ACTIONS, CHUNK = 300, 3, 250
STATED = 0.005
DRIFTS = (0.0, 0.025, 0.05, 0.1, 0.2)
DRIFTING_ROWS, PLACES, DELTA, BASE = 2_000, 10, 0.05, 0.6


def honest(kind: str, logs: int, *, seed: int, rows: int = ROWS) -> Iterator[Log]:
    """Yield honest logs of a kind."""
    rng = np.random.default_rng([seed, len(kind)])
    shape = (logs, rows)
    age = rng.normal(size=shape)
    base = 0.02 if kind == "rare rewards" else 0.4
    means = np.stack([np.full(shape, base), base + base * (age > 0), np.full(shape, 1.5 * base)], axis=2)
    if kind == "units":  # a person's visits have one age, one action for good, and rewards that depend on each other
        people = np.sort(rng.integers(rows // 3, size=shape), axis=1)
        age = np.take_along_axis(rng.normal(size=shape), people, axis=1)
        mood = np.take_along_axis(rng.random(shape), people, axis=1)
    else:
        people, mood = np.zeros(shape, dtype=int), rng.random(shape)
    luck, noise = rng.random(shape), np.where(rng.random(shape) < 0.5, mood, rng.random(shape))
    if kind == "units":
        luck = np.take_along_axis(luck, people, axis=1)
    else:
        noise = mood
    actions, rewards = np.zeros(shape, dtype=int), np.zeros(shape)
    propensities = np.full((*shape, ACTIONS), 1 / ACTIONS)
    earned, counts, every = np.zeros((logs, ACTIONS)), np.zeros((logs, ACTIONS)), np.arange(logs)
    for t in range(rows):
        if kind == "adaptive propensities":  # hardly ever what earned most so far
            best = ((earned + 0.5) / (counts + 1)).argmax(axis=1)
            propensities[:, t] = 0.47
            propensities[every, t, best] = 0.06
        actions[:, t] = (luck[:, t, None] >= np.cumsum(propensities[:, t], axis=1)[:, :-1]).sum(axis=1)
        rewards[:, t] = noise[:, t] < means[every, t, actions[:, t]]
        earned[every, actions[:, t]] += rewards[:, t]
        counts[every, actions[:, t]] += 1
    for i in range(logs):
        yield Log.of(
            Contexts.of(age[i][:, None], names=["age"]),
            actions=actions[i],
            rewards=rewards[i],
            propensities=propensities[i],
            rounds=np.arange(rows) // 25 if kind == "rounds" else None,
            units=people[i] if kind == "units" else None,
        )


KINDS = ("one split", "rounds", "adaptive propensities", "units", "rare rewards")


def count_alarms(kind: str, logs: int, *, seed: int = 0) -> tuple[int, int]:
    """Return the number of honest logs with an alarm for drift, and with one for the sample ratio."""
    found = np.zeros(2, dtype=int)
    with using_cores(1):
        for first in range(0, logs, CHUNK):
            for log in honest(kind, min(CHUNK, logs - first), seed=seed + first):
                found += [one.found for one in look(log)]
            print(f"{kind}, {min(first + CHUNK, logs):,} logs: {found.tolist()}", file=sys.stderr, flush=True)
    return int(found[0]), int(found[1])


def drifting(drift: float, *, seed: int, rows: int = DRIFTING_ROWS) -> Log:
    """Return a log whose drift lets two actions lead in turn, each while it is good."""
    rng = np.random.default_rng([seed, 1])
    early = np.arange(rows) < rows // 2
    means = np.column_stack(
        [
            np.where(early, BASE + drift, BASE - 3 * drift),
            np.where(early, BASE - 3 * drift, BASE + drift),
            np.full(rows, BASE),
        ]
    )
    actions = rng.integers(ACTIONS, size=rows)
    return Log.of(
        Contexts.finite(PLACES).take(rng.integers(PLACES, size=rows)),
        actions=actions,
        rewards=(rng.random(rows) < means[np.arange(rows), actions]).astype(float),
        propensities=np.full((rows, ACTIONS), 1 / ACTIONS),
    )


def claims_under_drift(drift: float, logs: int, *, ordered: bool, seed: int = 0) -> tuple[int, int, int, float]:
    """Return the wrong claims without an alarm, those with one, all alarms, and the largest excess over a claim.

    A claim is wrong if the policy is worse than the best one, on average over the rows, by more than it says.
    """
    silent, loud, alarms, excess = 0, 0, 0, 0.0
    worth = np.array([BASE - drift, BASE - drift, BASE])  # of each action, on average over the rows
    with using_cores(1):
        for i in range(logs):
            log = drifting(drift, seed=1000 * seed + i)
            made = pb.certify(log, pb.Trivial(PLACES, ACTIONS), delta=DELTA, ordered=ordered).certificate
            weights = made.policy.weights if isinstance(made.policy, Mixture) else (1.0,)
            every = Contexts.finite(PLACES)
            value = sum(
                share * float(worth[one(every)].mean())
                for share, one in zip(weights, parts_of(made.policy), strict=True)
            )
            over = float(worth.max()) - value - made.certified_epsilon
            alarm = any(check.found for check in made.told)  # a remark, too, if rows were shuffled
            alarms += alarm
            excess = max(excess, over)
            silent, loud = silent + (over > 0 and not alarm), loud + (over > 0 and alarm)
    return silent, loud, alarms, excess


def main(logs: int, drifting_logs: int) -> None:
    began = time.process_time()
    each = max(logs // len(KINDS), 1)
    found = {kind: count_alarms(kind, each) for kind in KINDS}
    rows = [[kind, f"{each:,}", str(drift), str(ratio)] for kind, (drift, ratio) in found.items()]
    whole = [sum(one[i] for one in found.values()) for i in range(2)]
    rates = [f"{count} ({count / (each * len(KINDS)):.2%})" for count in whole]
    rows.append(["all", f"{each * len(KINDS):,}", *rates])
    print_table(
        f"false alarms; at most {STATED:.1%} of each are stated ({time.process_time() - began:.0f} CPU-seconds)",
        ["honest logs", "number", "drift", "sample ratio"],
        rows,
    )
    if drifting_logs == 0:
        return
    rows = []
    for drift in DRIFTS:
        for ordered in (True, False):
            silent, loud, alarms, excess = claims_under_drift(drift, drifting_logs, ordered=ordered)
            how = "in order" if ordered else "shuffled"
            rows.append([f"{drift:g}", how, f"{alarms} of {drifting_logs}", str(loud), str(silent), f"{excess:.3f}"])
    print_table(
        f"claims under drift, {DRIFTING_ROWS:,} rows, δ = {DELTA}",
        ["d", "rows", "found", "wrong, and found", "wrong, not found", "largest excess"],
        rows,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, int(sys.argv[2]) if len(sys.argv) > 2 else 100)
