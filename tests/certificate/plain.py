"""The scores and the wealth of a certificate by the definition, one row and one pair of actions at a time.

Written from the words of `pacbandits.certificate.ledger` and sharing none of its code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pacbandits.certificate import Ledger
from pacbandits.certificate.ledger import Against, alone
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


def cap_of(bet: float, share: float, *, moved: float = 0.0) -> float:
    """M, for a row that moves so much weight."""
    return math.inf if bet == 0 else max(share / (bet * (1 + moved)) - 1, 0.0)


def log_wealth(log: Log, predictions: Any, *, reference: Any, bets: Any, share: float, epsilon: float) -> np.ndarray:
    """Σ over repeats of log(1 + λ(ε − X)) for every row of a log and every action (n, A); reference (n,)."""
    return led_wealth(
        log,
        predictions,
        actions=np.asarray(reference)[None, :],
        turns=[0] * len(bets),
        moves=np.zeros((len(bets), 1)),
        bets=bets,
        share=share,
        epsilon=epsilon,
    )


def led_wealth(
    log: Log, predictions: Any, *, actions: Any, turns: Any, moves: Any, bets: Any, share: float, epsilon: float
) -> np.ndarray:
    """The same of Z = X(π) + Σ_j c_j X(q_j), against leaders by their actions (L, n); moves (rounds, L): c."""
    numbers = sorted(set(log.rounds.tolist()))
    out = np.zeros(log.propensities.shape)
    for i in range(len(log)):
        number = numbers.index(int(log.rounds[i]))
        turn, bet = turns[number], float(bets[number])
        if turn < 0 or bet == 0:
            continue
        q = int(actions[turn, i])
        others = [(float(c), int(own)) for c, own in zip(moves[number], actions[:, i], strict=True) if own != q]

        cap = cap_of(bet, share, moved=sum(c for c, _ in others))

        def scored(x, i=i, q=q, bet=bet, cap=cap):
            return score(
                x,
                q,
                action=int(log.actions[i]),
                reward=float(log.rewards[i]),
                p=log.propensities[i],
                f=predictions[i],
                bet=bet,
                cap=cap,
            )

        moved = sum(c * scored(own) for c, own in others)
        for x in range(log.n_actions):
            out[i, x] = log.repeats[i] * math.log1p(bet * (epsilon - scored(x) - moved))
    return out


def against_one(actions: Any, *, rounds: int) -> Against:
    """The comparator of a single policy, by its actions (m,), in all rounds."""
    return Against(np.asarray(actions, dtype=np.int64)[None, :], *alone(rounds))


def wealth_against(ledger: Ledger, reference: Any, *, bets: Any, share: float, epsilon: float) -> np.ndarray:
    """What the ledger makes of a single policy, by its actions (m,)."""
    against = against_one(reference, rounds=ledger.n_rounds)
    return ledger.log_wealth(against, bets=np.asarray(bets), share=share, epsilon=epsilon)


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


def draw_bets(rng: np.random.Generator, rounds: int, *, most: float = 0.95) -> tuple[np.ndarray, float]:
    """Bets λ (rounds,), small and large, and a share that keeps λ(1 + M) below 1; not only those that `Bets` makes."""
    bets = np.where(rng.random(rounds) < 0.1, 0.0, 10 ** rng.uniform(-4, math.log10(most), size=rounds))
    return bets, float(rng.uniform(1e-3, 0.999))


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
