"""What the intervals of a policy's value are bounded by, row by row: see `pacbandits.certificate.values`."""

from __future__ import annotations

import math

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.certificate.rows import Rows
from pacbandits.compiled import kernel
from pacbandits.records import Chosen, parts_of

MIN_PRODUCT, MAX_PRODUCT = 1e-100, 1e100


@kernel
def cut_to(f: float, u: float, most: float) -> float:
    """A prediction made so small (or large, for u < 0) that no reward can ruin an expert."""
    return min(f, most) if u > 0 else max(f, 1.0 - most)


@kernel
def add_log_wealth(
    actions: IntArray,
    rewards: FloatArray,
    repeats: FloatArray,
    played: FloatArray,
    known: FloatArray,
    predictions: FloatArray,
    weights: FloatArray,
    counted: BoolArray,
    rounds: IntArray,
    stakes: FloatArray,
    centres: FloatArray,
    share: float,
    out: FloatArray,
) -> None:
    """Add Σ log(1 + λ(S − m)) over rows to what each expert has (K,); −∞ where no prediction keeps factors positive.

    A reward that is not in counts as what makes S least: nothing where u > 0, and all where u < 0.
    """
    for i in range(actions.shape[0]):
        if not counted[i]:
            continue
        centre, below = centres[rounds[i]], 0.0
        for a in range(weights.shape[1]):
            below += max(-weights[i, a], 0.0)
        for k in range(stakes.shape[0]):
            stake = stakes[k, rounds[i]]
            room = share / stake - max(centre, 0.0) - below
            if room <= 0.0:
                out[k] = -np.inf
                continue
            score = 0.0
            for a in range(weights.shape[1]):
                u = weights[i, a]
                if u == 0.0:
                    continue
                f, most = predictions[i, a], room * known[i, a] / abs(u)
                f = cut_to(f, u, most)
                score += u * f
                if a == actions[i]:
                    reward = rewards[i]
                    if math.isnan(reward):
                        reward = 0.0 if u > 0 else 1.0
                    score += u * (reward - f) / played[i]
            out[k] += repeats[i] * math.log1p(stake * (score - centre))


def slack_of(policy: Chosen, leaders: tuple[object, ...], shares: FloatArray) -> float:
    """By how much the value of what is certified may differ from θ, as weight was dropped (see `moving.choose`)."""
    kept = [j for j, leader in enumerate(leaders) if any(leader is one for one in parts_of(policy))]
    if not kept:  # read from a file: by what they are
        written = [one.to_json() for one in parts_of(policy)]
        kept = [j for j, leader in enumerate(leaders) if leader.to_json() in written]  # pyright: ignore
    dropped = np.abs(np.delete(shares, kept)).sum()
    off = float(dropped + abs(1.0 - shares[kept].sum()))
    return off if off > 1e-9 else 0.0


@kernel
def add_all_bounds(
    rows: Rows,
    own: FloatArray,
    counted: BoolArray,
    stakes: FloatArray,
    centres: FloatArray,
    share: float,
    out: FloatArray,
) -> None:
    """Add Σ log(1 + λ(S − m)) over rows to out (kinds, 2, K), for u of all kinds (`worth.kinds_of`) and for −u.

    own (n, A): u of the policy. counted (n,): which rows count. stakes (K, rounds): λ. centres (kinds, rounds): m, that
    of −u is −m. −∞ where no prediction keeps factors positive. Rewards are all in. Factors are multiplied as long as
    their product is a number with all its digits, as that is much quicker than logarithms of all of them.
    """
    n_actions = own.shape[1]
    factors = np.ones(out.shape)
    which, much = np.empty(n_actions, dtype=np.int64), np.empty(n_actions)
    for i in range(own.shape[0]):
        if not counted[i]:
            continue
        t, played = rows.rounds[i], rows.actions[i]
        for kind in range(2 * n_actions + 1):
            used = 0
            for a in range(n_actions):
                u = own[i, a] if kind <= n_actions else 0.0
                if a == kind - 1:
                    u -= 1.0
                elif a == kind - 1 - n_actions:
                    u = 1.0
                if u != 0.0:
                    which[used], much[used] = a, u
                    used += 1
            for side in range(2):
                sign = 1.0 if side == 0 else -1.0
                centre, below = sign * centres[kind, t], 0.0
                for j in range(used):
                    below += max(-sign * much[j], 0.0)
                for k in range(stakes.shape[0]):
                    stake = stakes[k, t]
                    room = share / stake - max(centre, 0.0) - below
                    if room <= 0.0:
                        out[kind, side, k] = -np.inf
                        continue
                    score = 0.0
                    for j in range(used):
                        a, u = which[j], sign * much[j]
                        f, most = rows.predictions[i, a], room * rows.propensities[i, a] / abs(u)
                        f = cut_to(f, u, most)
                        score += u * f
                        if a == played:
                            score += u * (rows.rewards[i] - f) / rows.played[i]
                    if rows.repeats[i] != 1.0:
                        out[kind, side, k] += rows.repeats[i] * math.log1p(stake * (score - centre))
                        continue
                    product = factors[kind, side, k] * (1.0 + stake * (score - centre))
                    if not MIN_PRODUCT < product < MAX_PRODUCT:
                        out[kind, side, k] += math.log(product)
                        product = 1.0
                    factors[kind, side, k] = product
    for kind in range(out.shape[0]):
        for side in range(2):
            for k in range(out.shape[2]):
                out[kind, side, k] += math.log(factors[kind, side, k])
