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
from typing import ClassVar

import numpy as np

from pacbandits.certificate.bootstrap import GAP_SLOPES, Scores, bootstrap, certified_distances, name_rivals
from pacbandits.certificate.certificate import ORDERED, SHUFFLED
from pacbandits.certificate.choosing import least_gap
from pacbandits.certificate.claim import (
    ALIKE,
    APART,
    BEFORE,
    FIXED,
    Claim,
    Json,
    check_asked,
    check_compared,
    check_distance,
    check_follows,
    read_common,
    reading,
)
from pacbandits.certificate.conventions import arrange
from pacbandits.certificate.learning import LearntClass, learn_from_blocks, rows_that_bet
from pacbandits.certificate.learning_record import Learning
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.watching import look
from pacbandits.checks import flag, random_numbers, whole_number
from pacbandits.errors import InputError, count_of
from pacbandits.fields import Fields
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.costs import Searches, check_memory
from pacbandits.policies.finite import sum_scores
from pacbandits.policies.registry import digest_class
from pacbandits.progress import Progress, listener
from pacbandits.records import Log, Policy, check_log
from pacbandits.records.digest import digest_log
from pacbandits.records.late import check_all_in
from pacbandits.rewards import RewardModel, check_model, first_model, predict_by_round

BOOTSTRAP_DRAWS = 500
MAX_STORED_SEED = 2**128  # what numpy draws for a seed of its own
BOOTSTRAP_SEARCHES = Searches(argmaxes=BOOTSTRAP_DRAWS * len(GAP_SLOPES), frontiers=0)
MIN_PLAYS_OF_AN_ACTION = 30  # below which a normal approximation is not to be trusted, and the certificate says so
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
    """What a normal approximation says of a policy; not a proof, and not to be mistaken for one. A `Claim`, and

    draws: of the bootstrap.
    seed: of its random numbers; None for a generator of unknown seed.
    slope: how much of the gaps was believed.
    rivals: how many policies were looked at as the possible best.
    complete: whether that is the whole class.
    model: the reward model in JSON.
    exact: whether the argmax oracle is.
    ordered: whether a log of one round was cut into blocks, in the order of its rows.
    shuffled: whether that is the order of its rows after a shuffle.
    learning: how the policy class was learnt, if it was asked for by its name.
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
            (SHUFFLED, self.shuffled),
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
    """What the log suggests of the policy it favours, for a number of samples that was fixed in advance.

    log, policies, epsilon, delta, model, ordered, shuffle: as for `certify`.
    rng: a generator, or a seed for one.
    draws: of the bootstrap, 1/δ or more.
    progress: told after each draw.
    """
    drawing, seed = random_numbers(rng)
    if check_log(log).units is not None:
        raise InputError(
            "an approximate certificate takes every row for another person; people who come back need one: leave "
            "out --unit, or ask for a proof"
        )
    check_all_in(log.rewards, by="an approximate certificate")
    blocks, shuffled = arrange(log, ordered=flag(ordered, name="ordered"), shuffle=flag(shuffle, name="shuffle"))
    if isinstance(policies, str):
        policies = learn_from_blocks(policies, blocks, None)
    learning = policies.learning if isinstance(policies, LearntClass) else None
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
        ordered=blocks is not log,
        shuffled=shuffled,
        learning=learning,
        remarks=(*log.assumed, *_rarely_played(log)),
        checks=look(log),
    )


def choose(scores: Scores, policies: PolicyClass, *, epsilon: float) -> Policy:
    """The policy to be certified: the leader by the doubly robust differences."""
    first = policies.argmax(scores.contexts, scores.ledger.values(np.ones(scores.ledger.n_rounds)))
    gaps, squares = scores.gaps(first(scores.contexts))
    return least_gap(policies, scores.contexts, gaps, squares, epsilon=epsilon)


def check_draws(draws: int, *, delta: float) -> int:
    """Enough draws for the (1 − δ)-quantile to be among them."""
    draws = whole_number(draws, name="--draws")
    if draws < 1.0 / delta:
        raise InputError(f"--draws must be 1/delta = {math.ceil(1.0 / delta):,} or more, got {draws:,}")
    return draws


def _check_played(log: Log) -> None:
    """Raise unless every action could be drawn in every row."""
    if log.least is None and log.propensities.min() <= 0:
        row, action = (int(i) for i in np.argwhere(log.propensities <= 0)[0])
        raise InputError(
            f"action {action} could not be drawn in row {row} (its propensity is 0), so nothing estimates what it "
            "would have earned; certify without the asymptotic option, which allows for that"
        )


def _rarely_played(log: Log) -> tuple[str, ...]:
    """What is assumed of an action that was played a few times only."""
    counts = np.bincount(log.actions, weights=log.repeats, minlength=log.n_actions)
    rarest = int(counts.argmin())
    if counts[rarest] >= MIN_PLAYS_OF_AN_ACTION:
        return ()
    times = count_of(int(counts[rarest]), "time")
    return (f"a normal approximation will do, although action {rarest} was played only {times}",)
