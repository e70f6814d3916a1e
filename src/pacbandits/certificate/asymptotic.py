"""An approximate certificate by a normal approximation, for large samples that are analysed once.

V̂(π) is the doubly robust estimate of V(π), Z(π) = V̂(π) − V(π) its error, q the policy to be certified, chosen in any
way, Δ̂(π) = V̂(q) − V̂(π). Let r be a best policy, fixed. If q is worse than r by more than ε, then

    Z(q) − Z(r) = V(r) − V(q) + Δ̂(r) > ε + Δ̂(r),   so that   sup_π [Z(π) − Z(r)] > ε + Δ̂(r).

The supremum has a law that the multiplier bootstrap estimates (Chernozhukov, Chetverikov, Kato, 2013): G is the sum of
the centred scores with a normal weight each, and T(r) the (1 − δ)-quantile of sup_π [G(π) − G(r)]. As r is unknown, q
is certified at ε when T(r) ≤ ε + Δ̂(r) for every r. Only the one for the best policy must be right: no union over r.

Policies far from the best enter the supremum with all their noise, though none of them is going to be q. Their gaps
hold them back: T(r) becomes the quantile of sup_π [G(π) − aΔ̂(π)] − G(r), to be compared with τ(ε + Δ̂(r)). With the
true gaps to r the argument above gives τ = 1 − a. Estimated gaps carry the errors of the same data; in a class so large
that suprema hardly vary, the supremum of G + aZ is that of √(1 + a²)·Z, which gives τ = √(1 + a²) − a. With few
policies that has erred less often than δ. The best of a few slopes a is taken, a = 0 among them.

The supremum is one argmax call per draw and slope. The relevant r are those with a small gap and a large variance: all
of a class that is short enough to list, else those that the oracle names for various prices of variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.alarms import look, look_along_file, look_by_content
from pacbandits.certificate.certificate import ORDERED, SHUFFLED
from pacbandits.certificate.choosing import least_gap
from pacbandits.certificate.claim import (
    ALIKE,
    APART,
    BEFORE,
    FIXED,
    Claim,
    check_asked,
    check_compared,
    check_distance,
    check_follows,
    read_common,
    reading,
)
from pacbandits.certificate.conventions import arrange
from pacbandits.certificate.learning import LearntClass, check_taught, learn_from_blocks, rows_that_bet
from pacbandits.certificate.learning_record import Learning
from pacbandits.certificate.ledger import Ledger, add_differences
from pacbandits.checks import flag, random_numbers, whole_number
from pacbandits.compiled import over_cores
from pacbandits.errors import InputError, count_of
from pacbandits.policies.base import PolicyClass, Searches, check_class, check_memory, compact, total
from pacbandits.policies.finite import sum_scores
from pacbandits.policies.registry import digest_class
from pacbandits.progress import Progress, listener
from pacbandits.records import Contexts, Log, Policy, check_log
from pacbandits.records.log import check_all_in, digest_log
from pacbandits.records.row_order import COUNTED, says
from pacbandits.rewards import RewardModel, check_model, first_model, predict_by_round
from pacbandits.schema import Fields, Json

# The law of the largest error of doubly robust differences: the multiplier bootstrap, through an argmax oracle. The
# letters are those of the module docstring: q the reference, r a rival that may be the best, Δ̂ a gap, G the noise that
# is drawn, a the slope, T the quantile, τ the share.


GAP_SLOPES = (0.0, 0.25, 0.5)  # a, of which the best is taken
MAX_LISTED_RIVALS = 2000  # longer lists are searched as classes that cannot be listed
VARIANCE_PRICES_TRIED = 10  # the oracle names a rival for each
NAMING_DRAWS = 40  # the oracle names one more rival for each


@dataclass(frozen=True, eq=False)
class Scores:
    """Doubly robust differences X_i(π) = ψ_i(π) − ψ_i(q) of a ledger's rows, added up by context.

    ψ_i(x) = f_i(x) + 1{a_i = x} (r_i − f_i(x))/p_i, with the prediction f.

    ledger: the rows.
    """

    ledger: Ledger

    @property
    def contexts(self) -> Contexts:
        return self.ledger.contexts

    def sums(self, weights: FloatArray, *, reference: IntArray, squared: bool = False) -> FloatArray:
        """Return scores (m, A) that sum to `Σ_i weights_i X_i(π)` over a policy's actions; if squared, with X² for X.

        weights (n,): one per row. reference (m,): q's actions.
        """
        rows, out = self.ledger.rows, np.zeros((len(self.contexts), self.ledger.n_actions))
        over_cores(
            lambda a, b: add_differences(rows, weights, reference, squared, out, a, b),
            count=len(self.contexts),
            chunks_per_core=8,
        )
        return out

    def gaps(self, reference: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return scores (m, A) that sum to Δ̂(π), and to the square of its standard error (or a little more)."""
        repeats, samples = self.ledger.rows.repeats, self.ledger.samples
        squares = self.sums(repeats, reference=reference, squared=True)
        return -self.sums(repeats, reference=reference) / samples, squares / samples**2

    def draw(self, rng: np.random.Generator, *, reference: IntArray, gaps: FloatArray) -> FloatArray:
        """Return scores (m, A) that sum to one draw of `G(π) − G(q) = Σ_i ξ_i (X_i(π) − X̄(π))/n`.

        A row that stands for k has one normal weight of variance k, which has the law of k weights together.
        """
        repeats, samples = self.ledger.rows.repeats, self.ledger.samples
        weights = rng.standard_normal(len(repeats)) * np.sqrt(repeats)
        return self.sums(weights, reference=reference) / samples + (weights.sum() / samples) * gaps


class Drawn(NamedTuple):
    """B draws of the bootstrap.

    suprema (B, slopes): `sup_π [G(π) − G(q) − aΔ̂(π)]`, one per slope a.
    heights (B, R): `G(r) − G(q)`, one per rival r.
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
    """Draw the noise of every difference and its supremum; one argmax call per draw and slope.

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
    """Return the smallest ε with `T(r) ≤ τ(ε + Δ̂(r))` for every rival r, one per slope.

    ahead (R,): Δ̂(r), the lead of q over each rival.
    """
    return tuple(
        float((order_statistic(drawn.suprema[:, k, None] - drawn.heights, delta=delta) / share_of(slope) - ahead).max())
        for k, slope in enumerate(slopes)
    )


def share_of(slope: float) -> float:
    """Return τ: the part of ε + Δ̂(r) that the supremum must not exceed."""
    return math.sqrt(1.0 + slope**2) - slope


def order_statistic(values: FloatArray, *, delta: float) -> FloatArray:
    """Return the ⌈(B + 1)(1 − δ)⌉-th smallest of each column of (B, k) values, or ∞ if there is none.

    One more draw of the same law exceeds it with probability δ at most, however few draws there are.
    """
    place = math.ceil((len(values) + 1) * (1.0 - delta) * (1.0 - 1e-12))
    if place > len(values):
        return np.full((values.shape[1],), math.inf)
    return np.sort(values, axis=0)[place - 1]


def name_rivals(
    scores: Scores, policies: PolicyClass, *, reference: IntArray, most_listed: int = MAX_LISTED_RIVALS
) -> np.ndarray[Any, Any]:
    """Return the actions (R, m) of the policies that may be the best: all, or those of small gap and large variance.

    reference (m,): q, which is one of them. most_listed: the longest class whose policies are all named.

    What matters of a policy is about z·√v − Δ̂, a concave function of its variance v and its gap; where that is
    largest, so is v/λ − Δ̂ for some λ about √v. The λ tried halve, from four times the largest √v on. As variance is
    not all that matters, some draws of the noise less the gap name others.
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


BOOTSTRAP_DRAWS = 500
MAX_STORED_SEED = 2**128  # the range of the seeds that numpy draws itself
BOOTSTRAP_SEARCHES = Searches(argmaxes=BOOTSTRAP_DRAWS * len(GAP_SLOPES), frontiers=0)
MIN_PLAYS_OF_AN_ACTION = 30  # with fewer, a normal approximation is doubtful, and the certificate says so
ASYMPTOTIC_ASSUMPTIONS = (
    "this approximation, which is no proof, will do: δ is right in the limit of many samples, with no word on how many",
    "the number of samples was fixed in advance and the data looked at once, not again and again until they say yes",
    ALIKE,
    APART,
    BEFORE,
    "the logged propensities are those with which actions were drawn, and every action could be drawn",
    "propensities did not depend on earlier rewards, or settled down",
    "predictions were fixed before the round they were used in",
)
INEXACT_SUPREMA = "the argmax oracle, which is not exact, found the suprema"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AsymptoticCertificate(Claim):
    """An approximate certificate by a normal approximation, which is not a proof: a `Claim` with these figures.

    draws: the number of bootstrap draws.
    seed: of its random numbers; None for a generator of unknown seed.
    slope: a, the share of the gaps that was used.
    rivals: the number of policies that were considered as the possible best.
    complete: whether that is the whole class.
    model: the reward model in JSON.
    exact: whether the argmax oracle is exact.
    ordered: whether a log of one round was cut into blocks, in the order of its rows.
    shuffled: whether that is their order after a shuffle.
    by_content: whether rows were shuffled by their contents, as in a `Certificate`.
    learning: how the policy class was learnt, if it was given by its name.
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
    shuffled: bool = False
    by_content: bool = False
    learning: Learning | None = None

    @property
    def certified(self) -> bool:
        return bool(self.certified_epsilon <= self.epsilon)

    @property
    def best(self) -> str:
        return super().best if self.learning is None else self.learning.best

    @property
    def assumptions(self) -> tuple[str, ...]:
        named = f"the best policy is no more in doubt than the {self.rivals} that the oracle named"
        asked = (
            (FIXED if self.learning is None else self.learning.assumption, True),
            (ORDERED, self.ordered and not self.shuffled),
            (SHUFFLED, self.shuffled and not says(self.remarks, COUNTED)),
            (named, not self.complete),
            (INEXACT_SUPREMA, not self.exact),
        )
        return (*ASYMPTOTIC_ASSUMPTIONS, self.within, *(words for words, needed in asked if needed), *self.remarks)

    def describe(self) -> str:
        if self.certified or self.certified_epsilon < self.unit:
            return f"approximately, and not as a proof: {super().describe()}"
        return f"not even approximately certified at {self.epsilon:g}, nor at any smaller distance than {self.unit:g}"

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
            "shuffled": self.shuffled,
            **({"by_content": True} if self.by_content else {}),
            "learning": None if self.learning is None else self.learning.to_json(),
        }

    @classmethod
    def from_json(cls, value: object, policies: PolicyClass | None = None) -> AsymptoticCertificate:
        with reading(value, kind=cls) as given:
            fields = Fields(given, "certificate")
            made = cls(
                **read_common(given, policies, single=True),
                draws=fields.whole_number("draws", least=1),
                seed=None if fields["seed"] is None else fields.whole_number("seed", most=MAX_STORED_SEED),
                slope=fields.number("slope", least=0.0, most=1.0),
                rivals=fields.whole_number("rivals", least=1),
                complete=fields.flag("complete"),
                model=fields.json_object("model"),
                exact=fields.flag("exact"),
                ordered=fields.flag("ordered"),
                shuffled=fields.flag("shuffled"),
                by_content="by_content" in given and fields.flag("by_content"),
                learning=None if fields["learning"] is None else Learning.from_json(fields["learning"]),
            )
        anew = made.to_json()
        check_follows(given, anew, names=anew)
        return made


def certify_asymptotically(
    log: Log,
    policies: PolicyClass | LearntClass | str,
    *,
    epsilon: float,
    delta: float,
    rng: np.random.Generator | int,
    draws: int = BOOTSTRAP_DRAWS,
    model: RewardModel | None = None,
    ordered: bool = False,
    shuffle: bool = False,
    progress: Progress | None = None,
) -> AsymptoticCertificate:
    """Certify the policy that a log favours approximately, for a sample size that was fixed in advance.

    log, policies, epsilon, delta, model, ordered, shuffle: as for `certify`.
    rng: a generator, or a seed for one.
    draws: the number of bootstrap draws, 1/δ or more.
    progress: called after each draw.
    """
    drawing, seed = random_numbers(rng)
    if check_log(log).units is not None:
        raise InputError(
            "an approximate certificate takes every row for another person, and this log has returning users: leave "
            "out --unit, or ask for a proof"
        )
    check_all_in(log.rewards, by="an approximate certificate")
    blocks, shuffled = arrange(log, ordered=flag(ordered, name="ordered"), shuffle=flag(shuffle, name="shuffle"))
    cut = blocks is not log
    if isinstance(policies, str):
        policies = learn_from_blocks(policies, blocks, None)
    learning = None
    if isinstance(policies, LearntClass):
        learning = check_taught(policies, lambda spec: learn_from_blocks(spec, blocks, None)).learning
    blocks = blocks if learning is None else learning.arrange(blocks)
    policies = policies.policies if isinstance(policies, LearntClass) else check_class(policies)
    asked, delta = check_asked(check_log(log), policies, epsilon=epsilon, delta=delta)
    check_compared(log)
    check_distance(log, asked)
    unit = log.reward_range[1] - log.reward_range[0]
    draws = check_draws(draws, delta=delta)
    _check_played(log)
    used = first_model(blocks) if model is None else check_model(model)
    counted = rows_that_bet(blocks, learning)
    scores = Scores(Ledger.of(blocks.take(counted), predict_by_round(blocks, used)[counted]))
    check_memory(policies, len(scores.contexts))
    chosen = choose(scores, policies, epsilon=asked / unit)
    own = chosen(scores.contexts)
    rivals = name_rivals(scores, policies, reference=own)
    drawn = bootstrap(
        scores,
        policies,
        reference=own,
        rivals=rivals,
        draws=draws,
        rng=drawing,
        progress=listener(progress),
    )
    found = certified_distances(drawn, sum_scores(rivals, scores.gaps(own)[0]), delta=delta)
    by_content = shuffled and not says(log.remarks, COUNTED)
    any_file_order = by_content or (learning is not None and learning.by_content)
    return AsymptoticCertificate(
        policy=chosen,
        epsilon=asked,
        delta=delta,
        certified_epsilon=min(max(min(found), 0.0), 1.0) * unit,
        action_names=log.action_names,
        reward_range=log.reward_range,
        dates=log.dates,
        samples=log.samples,
        rows=len(log),
        draws=draws,
        seed=seed,
        slope=GAP_SLOPES[int(np.argmin(found))],
        rivals=len(rivals),
        complete=policies.lists_policies and len(policies) == len(rivals),
        model=used.to_json(),
        digest=digest_log(blocks),
        class_digest=digest_class(policies),
        exact=policies.exact,
        ordered=cut,
        shuffled=shuffled,
        by_content=by_content,
        learning=learning,
        remarks=(*log.assumed, *_rarely_played(log)),
        checks=look_by_content(blocks) if any_file_order else look(log, shuffled=shuffled),
        along_file=look_along_file(log) if any_file_order else None,
    )


def choose(scores: Scores, policies: PolicyClass, *, epsilon: float) -> Policy:
    """Return the policy to certify: that of smallest doubly robust gap and error together."""
    first = policies.argmax(scores.contexts, scores.ledger.values(np.ones(scores.ledger.n_rounds)))
    gaps, squares = scores.gaps(first(scores.contexts))
    return least_gap(policies, scores.contexts, gaps, squares, epsilon=epsilon)


def check_draws(draws: int, *, delta: float) -> int:
    """Return the number of draws; raise InputError if it is too small for a (1 − δ)-quantile."""
    draws = whole_number(draws, name="--draws")
    if draws < 1.0 / delta:
        raise InputError(f"--draws must be 1/delta = {math.ceil(1.0 / delta):,} or more, got {draws:,}")
    return draws


def _check_played(log: Log) -> None:
    """Raise InputError unless every action could be drawn in every row."""
    if log.least is None and log.propensities.min() <= 0:
        row, action = (int(i) for i in np.argwhere(log.propensities <= 0)[0])
        raise InputError(
            f"action {action} could not be drawn in row {row} (its propensity is 0), so nothing estimates what it "
            "would have earned; certify without the asymptotic option, which allows for that"
        )


def _rarely_played(log: Log) -> tuple[str, ...]:
    """Return the assumption about an action that was played only a few times, in words, if there is one."""
    counts = np.bincount(log.actions, weights=log.repeats, minlength=log.n_actions)
    rarest = int(counts.argmin())
    if counts[rarest] >= MIN_PLAYS_OF_AN_ACTION:
        return ()
    times = count_of(int(counts[rarest]), "time")
    return (f"a normal approximation will do, although action {rarest} was played only {times}",)
