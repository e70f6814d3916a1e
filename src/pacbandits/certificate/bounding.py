"""What the intervals of a policy's value are bounded by, row by row: see `pacbandits.certificate.values`."""

from __future__ import annotations

import math

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.records import Chosen, parts_of


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
                f = min(f, most) if u > 0 else max(f, 1.0 - most)
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
