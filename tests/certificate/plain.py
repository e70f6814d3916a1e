"""The scores and the wealth of a certificate by the definition, one row and one pair of actions at a time.

Written from the words of `pacbandits.certificate.ledger` and sharing none of its code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pacbandits.records import Contexts, Log


def growth(g: float, *, mean: float, stake: float) -> float:
    """What the control variate g maximises, but for a constant."""
    win, lose = 1 - stake * (1 - g), 1 + stake * g
    if (mean > 0 and win <= 0) or (mean < 1 and lose <= 0):
        return -math.inf
    return -stake * g + (mean * math.log(win) if mean > 0 else 0) + ((1 - mean) * math.log(lose) if mean < 1 else 0)


def centre(mean: float, stake: float) -> float:
    """Its maximiser, as a root of w² − (1 − k)w − fk = 0 computed without cancellation."""
    half = math.hypot(1 - stake, 2 * math.sqrt(mean * stake))
    if stake <= 1:
        # (1 − w)/k with w the larger root: 1 − w solves u² − (1 + k)u + k(1 − f) = 0, and is its smaller root.
        return 1 - 2 * (1 - mean) / (1 + stake + half)
    w = 2 * mean * stake / (stake - 1 + half) if mean > 0 else 0.0
    return 1 - (1 - w) / stake


def score(x: int, q: int, *, action: int, reward: float, p: Any, f: Any, bet: float, cap: float) -> float:
    """X for a policy that plays x against a reference that plays q."""
    if x == q:
        return 0.0
    high = 1.0 if p[x] == 0 else max(centre(f[x], bet / p[x]), 1 - p[x] * cap)
    low = 0.0 if p[q] == 0 else min(1 - centre(1 - f[q], bet / p[q]), p[q] * cap)
    out = high - low
    if action == x:
        out += (reward - high) / p[x]
    if action == q:
        out -= (reward - low) / p[q]
    return out


def log_wealth(log: Log, predictions: Any, *, reference: Any, bets: Any, caps: Any, epsilon: float) -> np.ndarray:
    """Σ over repeats of log(1 + λ(ε − X)) for every row of a log and every action (n, A); reference (n,)."""
    numbers = sorted(set(log.rounds.tolist()))
    out = np.empty(log.propensities.shape)
    for i in range(len(log)):
        number = numbers.index(int(log.rounds[i]))
        for x in range(log.n_actions):
            value = score(
                x,
                int(reference[i]),
                action=int(log.actions[i]),
                reward=float(log.rewards[i]),
                p=log.propensities[i],
                f=predictions[i],
                bet=float(bets[number]),
                cap=float(caps[number]),
            )
            out[i, x] = log.repeats[i] * math.log1p(bets[number] * (epsilon - value))
    return out


def every_outcome(propensities: Any, *, rewards: Any = (0.0, 1.0)) -> tuple[Log, np.ndarray]:
    """A log of contexts without ids in which all that can happen in each context happens once; and of which context
    each row is (n,)."""
    triples = [
        (c, a, r) for c in range(len(propensities)) for a in np.flatnonzero(propensities[c]).tolist() for r in rewards
    ]
    which = np.array([c for c, _, _ in triples])
    log = Log.of(
        Contexts.of(which[:, None].astype(float)),
        actions=[a for _, a, _ in triples],
        rewards=[r for _, _, r in triples],
        propensities=np.asarray(propensities)[which],
    )
    return log, which


def draw_propensities(rng: np.random.Generator, shape: tuple[int, int], *, least: float, zeros: bool) -> np.ndarray:
    """Propensities down to about `least`, with some actions that are never played."""
    raw = 10 ** rng.uniform(math.log10(least), 0, size=shape)
    if zeros:
        gone = rng.random(shape) < 0.3
        gone[np.arange(shape[0]), rng.integers(shape[1], size=shape[0])] = False
        raw = np.where(gone, 0.0, raw)
    return raw / raw.sum(axis=1, keepdims=True)


def draw_predictions(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Anything in [0, 1], the ends included."""
    return np.where(rng.random(shape) < 0.2, rng.integers(0, 2, size=shape), rng.random(shape))


def draw_bets(rng: np.random.Generator, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Bets λ and caps M (rounds,) with λ(1 + M) < 1, small and large; not only those that `Bets` makes."""
    bets = np.where(rng.random(rounds) < 0.1, 0.0, 10 ** rng.uniform(-4, math.log10(0.95), size=rounds))
    with np.errstate(divide="ignore"):
        most = np.minimum(1 / bets - 1, 1e6)
    return bets, rng.random(rounds) * 0.999 * most


def draw_log(seed: int, *, ids: bool = True, least: float = 1e-4) -> tuple[Log, np.ndarray]:
    """A random log of a few contexts, rounds and repeats, with rewards anywhere in [0, 1], and predictions (n, A)."""
    rng = np.random.default_rng(seed)
    n, m, a = int(rng.integers(1, 12)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
    which = rng.integers(m, size=n)
    propensities = draw_propensities(rng, (n, a), least=least, zeros=bool(rng.integers(2)))
    actions = [int(rng.choice(np.flatnonzero(row))) for row in propensities]
    rewards = np.where(rng.random(n) < 0.5, rng.integers(0, 2, size=n), rng.random(n))
    log = Log.of(
        Contexts.of(np.column_stack([which, which**2]), ids=3 * which if ids else None),
        actions=actions,
        rewards=rewards,
        propensities=propensities,
        rounds=rng.choice([0, 1, 4], size=n),
        repeats=rng.integers(1, 4, size=n),
    )
    return log, draw_predictions(rng, (n, a))
