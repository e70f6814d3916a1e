"""An approximate certificate: what a normal approximation says of a log, when samples are many and looked at once.

V̂(π) is the doubly robust estimate of V(π), Z(π) = V̂(π) − V(π) its error, q the policy to be certified, whichever way it
was chosen, Δ̂(π) = V̂(q) − V̂(π). Let r be a best policy, fixed. If q is worse than r by more than ε, then

    Z(q) − Z(r) = V(r) − V(q) + Δ̂(r) > ε + Δ̂(r),   so that   sup_π [Z(π) − Z(r)] > ε + Δ̂(r).

The supremum has a law that the multiplier bootstrap estimates (Chernozhukov, Chetverikov, Kato, 2013): G is the sum of
the centred scores with a normal weight each, and T(r) the (1 − δ)-quantile of sup_π [G(π) − G(r)]. Nobody knows r; so q
is certified at ε when T(r) ≤ ε + Δ̂(r) for every r. Only the one for the best policy must be right: no union over r.

Policies far from the best enter the supremum with all their noise, though none of them is going to be q. They are held
back by their gaps: T(r) becomes the quantile of sup_π [G(π) − aΔ̂(π)] − G(r), to be compared with τ(ε + Δ̂(r)). With the
true gaps to r the argument above gives τ = 1 − a. Estimated gaps carry the errors of the very data; in a class so large
that suprema hardly vary, the supremum of G + aZ is that of √(1 + a²)·Z, which gives τ = √(1 + a²) − a. With few
policies that has erred less often than δ. The best of a few slopes a is taken, a = 0 among them.

The supremum is one argmax call a draw and slope. The r that matter are those with a small gap and a large variance: all
of a class that is short enough to list, else those that the oracle names for various prices of variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.certificate import FIXED, ORDERED
from pacbandits.certificate.certify import in_blocks
from pacbandits.certificate.claim import LEARNT, Claim, Json, check_follows, read_common, reading
from pacbandits.certificate.ledger import Ledger
from pacbandits.compiled import kernel, over_cores
from pacbandits.confidence import check_delta
from pacbandits.errors import InputError
from pacbandits.policies.base import EnumeratedClass, PolicyClass, compact, total
from pacbandits.policies.finite import sum_scores
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Log, Policy
from pacbandits.records.digest import digest_log
from pacbandits.rewards import RewardModel, default_model, predict_by_round

SLOPES = (0.0, 0.25, 0.5)
DRAWS = 500
ASSUMPTIONS = (
    "this approximation, which is no proof, will do: δ is right in the limit of many samples, with no word on how many",
    "the number of samples was fixed in advance and the data looked at once, not again and again until they say yes",
    "contexts are independent draws from one distribution",
    "the logged propensities are those with which actions were drawn, and every action could be drawn",
    "propensities did not depend on earlier rewards, or settled down",
    "rewards lie in [0, 1]",
    "predictions were fixed before the round they were used in",
    FIXED,
)
INEXACT = "the argmax oracle, which is not exact, found the suprema"
_LISTED = 2000  # policies; of longer lists, the best is looked for as in classes that cannot be listed
_PRICES = 10  # of variance, at which the oracle names a policy that may be the best
_NAMING = 40  # draws that name one more each
_FEW = 30  # plays of an action, below which a normal approximation is not to be trusted


@dataclass(frozen=True, eq=False, kw_only=True)
class AsymptoticCertificate(Claim):
    """What a normal approximation says of a policy; not a proof, and not to be mistaken for one. A `Claim`, and

    draws: of the bootstrap.
    seed: of its random numbers; None for a generator of unknown seed.
    slope: how much of the gaps was believed.
    rivals: how many policies were looked at as the possible best.
    complete: whether that is the whole class.
    model: the reward model in JSON.
    exact: whether the argmax oracle is.
    ordered: whether a log of one round was cut into blocks, in the order of its rows.
    """

    kind: ClassVar[str] = "pacbandits asymptotic certificate"

    draws: int
    seed: int | None
    slope: float
    rivals: int
    complete: bool
    model: Json
    exact: bool
    ordered: bool = False

    @property
    def certified(self) -> bool:
        return self.certified_epsilon <= self.epsilon

    @property
    def assumptions(self) -> tuple[str, ...]:
        named = f"the best policy is no more in doubt than the {self.rivals} that the oracle named"
        asked = ((ORDERED, self.ordered), (named, not self.complete), (INEXACT, not self.exact))
        said = (*ASSUMPTIONS, *(words for words, needed in asked if needed), *self.remarks)
        return tuple(words for words in said if words != FIXED or LEARNT not in said)

    def describe(self) -> str:
        if self.certified or self.certified_epsilon < 1:
            return f"approximately, and not as a proof: {super().describe()}"
        return f"not even approximately certified at {self.epsilon:g}, nor at any smaller distance than 1"

    def figures(self) -> Json:
        return {
            "approximate": True,
            "method": "multiplier bootstrap of the supremum of doubly robust differences",
            "draws": self.draws,
            "seed": self.seed,
            "slope": self.slope,
            "rivals": self.rivals,
            "complete": self.complete,
            "model": self.model,
            "exact": self.exact,
            "ordered": self.ordered,
        }

    @classmethod
    def from_json(cls, value: object, policies: PolicyClass | None = None) -> AsymptoticCertificate:
        with reading(value, kind=cls) as given:
            made = cls(
                **read_common(given, policies),
                draws=int(given["draws"]),
                seed=None if given["seed"] is None else int(given["seed"]),
                slope=float(given["slope"]),
                rivals=int(given["rivals"]),
                complete=bool(given["complete"]),
                model=dict(given["model"]),
                exact=bool(given["exact"]),
                ordered=bool(given["ordered"]),
            )
        anew = made.to_json()
        check_follows(given, anew, names=anew)
        return made


def certify_asymptotically(
    log: Log,
    policies: PolicyClass,
    *,
    epsilon: float,
    delta: float,
    rng: np.random.Generator | int,
    draws: int = DRAWS,
    model: RewardModel | None = None,
    ordered: bool = False,
    learnt: bool = False,
    progress: Progress | None = None,
) -> AsymptoticCertificate:
    """What the log suggests of the policy it favours, for a number of samples that was fixed in advance.

    rng: a generator, or a seed for one. draws: of the bootstrap, 1/δ or more. model, ordered, learnt: as for `certify`.
    progress: told after each draw.
    """
    if not 0 < epsilon < float("inf"):
        raise InputError(f"epsilon must be positive and finite, got {epsilon}")
    check_delta(delta)
    check_draws(draws, delta=delta)
    if log.n_actions != policies.n_actions:
        raise InputError(f"the log has {log.n_actions} actions, but the policies have {policies.n_actions}")
    if log.least is None and log.propensities.min() <= 0:
        row, action = (int(i) for i in np.argwhere(log.propensities <= 0)[0])
        raise InputError(
            f"action {action} could not be drawn in row {row} (its propensity is 0), so nothing estimates what it "
            "would have earned; certify without the asymptotic option, which allows for that"
        )
    blocks = in_blocks(log) if ordered else log
    used = default_model(blocks.only(blocks.rounds == blocks.rounds.min()).contexts) if model is None else model
    scores = Scores(Ledger.of(blocks, predict_by_round(blocks, used)))
    own = choose(scores, policies, epsilon=epsilon)
    gaps, _ = scores.gaps(own(scores.contexts))
    rivals = name_rivals(scores, policies, reference=own(scores.contexts))
    suprema, heights = bootstrap(
        scores,
        policies,
        reference=own(scores.contexts),
        gaps=gaps,
        rivals=rivals,
        draws=draws,
        rng=np.random.default_rng(rng),
        progress=progress,
    )
    ahead = sum_scores(rivals, gaps)
    distances = [
        float((order_statistic(suprema[:, k, None] - heights, delta=delta) / share_of(slope) - ahead).max())
        for k, slope in enumerate(SLOPES)
    ]
    smallest = min(max(min(distances), 0.0), 1.0)
    return AsymptoticCertificate(
        policy=own,
        epsilon=epsilon,
        delta=delta,
        certified_epsilon=smallest,
        samples=log.samples,
        rows=len(log),
        draws=draws,
        seed=None if isinstance(rng, np.random.Generator) else rng,
        slope=SLOPES[int(np.argmin(distances))],
        rivals=len(rivals),
        complete=isinstance(policies, EnumeratedClass) and len(policies) == len(rivals),
        model=used.to_json(),
        digest=digest_log(blocks),
        exact=policies.exact,
        ordered=blocks is not log,
        remarks=(*log.assumed, *_rarely_played(log), *((LEARNT,) if learnt else ())),
    )


def check_draws(draws: int, *, delta: float) -> int:
    """Enough draws for the (1 − δ)-quantile to be among them."""
    if draws < 1.0 / delta:
        raise InputError(f"draws must be 1/delta = {math.ceil(1.0 / delta):,} or more, got {draws:,}")
    return draws


def order_statistic(values: FloatArray, *, delta: float) -> FloatArray:
    """Of each column of (B, k) values the ⌈(B + 1)(1 − δ)⌉-th smallest, or ∞ when there is none.

    One more draw of the same law exceeds it with probability δ at most, however few draws there are.
    """
    place = math.ceil((len(values) + 1) * (1.0 - delta) * (1.0 - 1e-12))
    if place > len(values):
        return np.full((values.shape[1],), math.inf)
    return np.sort(values, axis=0)[place - 1]


@dataclass(frozen=True, eq=False)
class Scores:
    """Doubly robust differences X_i(π) = ψ_i(π) − ψ_i(q) of a ledger's rows, added up by context.

    ψ_i(x) = f_i(x) + 1{a_i = x} (r_i − f_i(x))/p_i, with the prediction f.
    """

    ledger: Ledger

    @property
    def contexts(self) -> Contexts:
        return self.ledger.contexts

    def sums(self, weights: FloatArray, *, reference: IntArray, squared: bool = False) -> FloatArray:
        """Scores (m, A) that sum to `Σ_i weights_i X_i(π)` over a policy's actions; or, squared, with X² for X.

        weights (n,): one a row. reference (m,): q's actions.
        """
        book = self.ledger
        out = np.zeros((len(book.contexts), book.predictions.shape[1]))
        over_cores(
            lambda a, b: _sums(
                book.starts,
                book.actions,
                book.rewards,
                weights,
                book.played,
                book.predictions,
                reference,
                squared,
                out,
                a,
                b,
            ),
            count=len(book.contexts),
            chunks_per_core=8,
        )
        return out

    def gaps(self, reference: IntArray) -> tuple[FloatArray, FloatArray]:
        """Scores (m, A) that sum to Δ̂(π), and to the square of its standard error (or a little more)."""
        repeats, samples = self.ledger.repeats, self.ledger.samples
        squares = self.sums(repeats, reference=reference, squared=True)
        return -self.sums(repeats, reference=reference) / samples, squares / samples**2

    def draw(self, rng: np.random.Generator, *, reference: IntArray, gaps: FloatArray) -> FloatArray:
        """Scores (m, A) that sum to one draw of `G(π) − G(q) = Σ_i ξ_i (X_i(π) − X̄(π))/n`.

        A row that stands for k has one normal weight of variance k, which has the law of k weights together.
        """
        weights = rng.standard_normal(len(self.ledger.repeats)) * np.sqrt(self.ledger.repeats)
        samples = self.ledger.samples
        return self.sums(weights, reference=reference) / samples + (weights.sum() / samples) * gaps


def bootstrap(
    scores: Scores,
    policies: PolicyClass,
    *,
    reference: IntArray,
    gaps: FloatArray,
    rivals: np.ndarray[Any, Any],
    draws: int,
    rng: np.random.Generator,
    slopes: tuple[float, ...] = SLOPES,
    progress: Progress | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Draws (B, slopes) of `sup_π [G(π) − G(q) − aΔ̂(π)]`, and (B, R) of `G(r) − G(q)` for the rivals r (R, m)."""
    suprema, heights = np.empty((draws, len(slopes))), np.empty((draws, len(rivals)))
    for b in range(draws):
        noise = scores.draw(rng, reference=reference, gaps=gaps)
        for k, slope in enumerate(slopes):
            held = noise - slope * gaps
            suprema[b, k] = total(held, policies.argmax(scores.contexts, held)(scores.contexts))
        heights[b] = sum_scores(rivals, noise)
        if progress is not None:
            progress(f"draw {b + 1:,} of {draws:,}")
    return suprema, heights


def name_rivals(scores: Scores, policies: PolicyClass, *, reference: IntArray) -> np.ndarray[Any, Any]:
    """The actions (R, m) of the policies that may be the best: all, or those with a small gap and a large variance.

    reference (m,): q, which is one of them. What matters of a policy is about z·√v − Δ̂, a concave function of its
    variance v and its gap; where that is largest, so is v/λ − Δ̂ for some λ about √v. They halve from four times the
    largest √v on. As variance is not all that matters, some draws of the noise less the gap name others.
    """
    contexts = scores.contexts
    if isinstance(policies, EnumeratedClass) and len(policies) <= _LISTED:
        return np.ascontiguousarray(policies.actions(contexts))
    gaps, squares = scores.gaps(reference)
    rng = np.random.default_rng(0)  # part of the search, not of the bootstrap
    largest = 4.0 * max(math.sqrt(total(squares, policies.argmax(contexts, squares)(contexts))), 1e-100)
    wanted = [-gaps, squares, *(squares / (largest * 0.5**k) - gaps for k in range(_PRICES))]
    wanted += [scores.draw(rng, reference=reference, gaps=gaps) - gaps for _ in range(_NAMING)]
    named = [policies.argmax(contexts, each)(contexts) for each in wanted]
    return np.unique(np.array([reference, *named]), axis=0).astype(compact(policies.n_actions))


def choose(scores: Scores, policies: PolicyClass, *, epsilon: float) -> Policy:
    """The policy of the largest estimated value, less a standard error: policies on rare actions look best by luck."""
    first = policies.argmax(scores.contexts, scores.ledger.values(np.ones(scores.ledger.n_rounds)))
    gaps, squares = scores.gaps(first(scores.contexts))
    return policies.argmax(scores.contexts, -gaps - squares / (2.0 * epsilon))


def share_of(slope: float) -> float:
    """τ: the part of ε + Δ̂(r) that the supremum must not exceed."""
    return math.sqrt(1.0 + slope**2) - slope


def _rarely_played(log: Log) -> tuple[str, ...]:
    counts = np.bincount(log.actions, weights=log.repeats, minlength=log.n_actions)
    rarest = int(counts.argmin())
    if counts[rarest] >= _FEW:
        return ()
    return (f"a normal approximation will do, although action {rarest} was played only {counts[rarest]:.0f} times",)


@kernel
def _sums(
    starts: IntArray,
    actions: IntArray,
    rewards: FloatArray,
    weights: FloatArray,
    played: FloatArray,
    predictions: FloatArray,
    reference: IntArray,
    squared: bool,
    out: FloatArray,
    start: int,
    stop: int,
) -> None:
    for c in range(start, stop):
        q = reference[c]
        for i in range(starts[c], starts[c + 1]):
            a, w = actions[i], weights[i]
            base = predictions[i, q] + ((rewards[i] - predictions[i, q]) / played[i] if a == q else 0.0)
            for x in range(predictions.shape[1]):
                if x != q:
                    f = predictions[i, x]
                    score = f + ((rewards[i] - f) / played[i] if a == x else 0.0) - base
                    out[c, x] += w * (score * score if squared else score)
