"""The law of the largest error of doubly robust differences: the multiplier bootstrap, through an argmax oracle.

`pacbandits.certificate.asymptotic` says what for, and has the letters: q the reference, r a rival that may be the best,
Δ̂ a gap, G the noise that is drawn, a the slope, T the quantile, τ the share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.rows import add_differences
from pacbandits.compiled import over_cores
from pacbandits.policies.base import PolicyClass, compact, total
from pacbandits.policies.finite import sum_scores
from pacbandits.progress import Progress
from pacbandits.records import Contexts

GAP_SLOPES = (0.0, 0.25, 0.5)  # a, of which the best is taken
MAX_LISTED_RIVALS = 2000  # of longer lists, the best is looked for as in classes that cannot be listed
VARIANCE_PRICES_TRIED = 10  # at each the oracle names a rival
NAMING_DRAWS = 40  # for each the oracle names one more


@dataclass(frozen=True, eq=False)
class Scores:
    """Doubly robust differences X_i(π) = ψ_i(π) − ψ_i(q) of a ledger's rows, added up by context.

    ψ_i(x) = f_i(x) + 1{a_i = x} (r_i − f_i(x))/p_i, with the prediction f.

    ledger: where the rows are.
    """

    ledger: Ledger

    @property
    def contexts(self) -> Contexts:
        return self.ledger.contexts

    def sums(self, weights: FloatArray, *, reference: IntArray, squared: bool = False) -> FloatArray:
        """Scores (m, A) that sum to `Σ_i weights_i X_i(π)` over a policy's actions; or, squared, with X² for X.

        weights (n,): one a row. reference (m,): q's actions.
        """
        rows, out = self.ledger.rows, np.zeros((len(self.contexts), self.ledger.n_actions))
        over_cores(
            lambda a, b: add_differences(rows, weights, reference, squared, out, a, b),
            count=len(self.contexts),
            chunks_per_core=8,
        )
        return out

    def gaps(self, reference: IntArray) -> tuple[FloatArray, FloatArray]:
        """Scores (m, A) that sum to Δ̂(π), and to the square of its standard error (or a little more)."""
        repeats, samples = self.ledger.rows.repeats, self.ledger.samples
        squares = self.sums(repeats, reference=reference, squared=True)
        return -self.sums(repeats, reference=reference) / samples, squares / samples**2

    def draw(self, rng: np.random.Generator, *, reference: IntArray, gaps: FloatArray) -> FloatArray:
        """Scores (m, A) that sum to one draw of `G(π) − G(q) = Σ_i ξ_i (X_i(π) − X̄(π))/n`.

        A row that stands for k has one normal weight of variance k, which has the law of k weights together.
        """
        repeats, samples = self.ledger.rows.repeats, self.ledger.samples
        weights = rng.standard_normal(len(repeats)) * np.sqrt(repeats)
        return self.sums(weights, reference=reference) / samples + (weights.sum() / samples) * gaps


class Drawn(NamedTuple):
    """What the bootstrap drew, B times.

    suprema (B, slopes): of `sup_π [G(π) − G(q) − aΔ̂(π)]`, one a slope a.
    heights (B, R): of `G(r) − G(q)`, one a rival r.
    """

    suprema: FloatArray
    heights: FloatArray


def bootstrap(
    scores: Scores,
    policies: PolicyClass,
    *,
    reference: IntArray,
    rivals: np.ndarray[Any, Any],
    draws: int,
    rng: np.random.Generator,
    slopes: tuple[float, ...] = GAP_SLOPES,
    progress: Progress | None = None,
) -> Drawn:
    """Draw the noise of every difference, and look for its supremum; one argmax call a draw and slope.

    reference (m,): q's actions. rivals (R, m): those of the policies that may be the best.
    """
    gaps, _ = scores.gaps(reference)
    suprema, heights = np.empty((draws, len(slopes))), np.empty((draws, len(rivals)))
    for b in range(draws):
        noise = scores.draw(rng, reference=reference, gaps=gaps)
        for k, slope in enumerate(slopes):
            held = noise - slope * gaps
            suprema[b, k] = total(held, policies.argmax(scores.contexts, held)(scores.contexts))
        heights[b] = sum_scores(rivals, noise)
        if progress is not None:
            progress(f"draw {b + 1:,} of {draws:,}")
    return Drawn(suprema, heights)


def certified_distances(
    drawn: Drawn, ahead: FloatArray, *, delta: float, slopes: tuple[float, ...] = GAP_SLOPES
) -> tuple[float, ...]:
    """The smallest ε with `T(r) ≤ τ(ε + Δ̂(r))` for every rival r, one a slope.

    ahead (R,): Δ̂(r), by how much q is ahead of each rival.
    """
    return tuple(
        float((order_statistic(drawn.suprema[:, k, None] - drawn.heights, delta=delta) / share_of(slope) - ahead).max())
        for k, slope in enumerate(slopes)
    )


def share_of(slope: float) -> float:
    """τ: the part of ε + Δ̂(r) that the supremum must not exceed."""
    return math.sqrt(1.0 + slope**2) - slope


def order_statistic(values: FloatArray, *, delta: float) -> FloatArray:
    """Of each column of (B, k) values the ⌈(B + 1)(1 − δ)⌉-th smallest, or ∞ when there is none.

    One more draw of the same law exceeds it with probability δ at most, however few draws there are.
    """
    place = math.ceil((len(values) + 1) * (1.0 - delta) * (1.0 - 1e-12))
    if place > len(values):
        return np.full((values.shape[1],), math.inf)
    return np.sort(values, axis=0)[place - 1]


def name_rivals(
    scores: Scores, policies: PolicyClass, *, reference: IntArray, most_listed: int = MAX_LISTED_RIVALS
) -> np.ndarray[Any, Any]:
    """The actions (R, m) of the policies that may be the best: all, or those with a small gap and a large variance.

    reference (m,): q, which is one of them. most_listed: of a class that is longer, some are named.

    What matters of a policy is about z·√v − Δ̂, a concave function of its variance v and its gap; where that is largest,
    so is v/λ − Δ̂ for some λ about √v. They halve from four times the largest √v on. As variance is not all that
    matters, some draws of the noise less the gap name others.
    """
    contexts = scores.contexts
    if policies.lists_policies and len(policies) <= most_listed:
        return np.ascontiguousarray(policies.actions(contexts))
    gaps, squares = scores.gaps(reference)
    rng = np.random.default_rng(0)  # part of the search, not of the bootstrap
    largest = 4.0 * max(math.sqrt(total(squares, policies.argmax(contexts, squares)(contexts))), 1e-100)
    wanted = [-gaps, squares, *(squares / (largest * 0.5**k) - gaps for k in range(VARIANCE_PRICES_TRIED))]
    wanted += [scores.draw(rng, reference=reference, gaps=gaps) - gaps for _ in range(NAMING_DRAWS)]
    named = [policies.argmax(contexts, each)(contexts) for each in wanted]
    return np.unique(np.array([reference, *named]), axis=0).astype(compact(policies.n_actions))
