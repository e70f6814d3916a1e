"""CODA with practical sample sizes: optimal designs, pooled data, a betting certificate.

Each round's propensities solve the ratio form for the gaps estimated so far,

    min_p max_π V_π(p; q)/(ε + aΔ̂_π)²,     V weighted by the model's estimate of each action's reward variance,

through the class's oracles, with the probability floor inside and estimated gaps reduced by their error. The slope a is
below 1 for another reason: to refute a policy, the data must show a gap that chance alone would not, for the unluckiest
of many policies of that gap; near the best policy that costs nothing, as q is the luckiest there.

A design is fitted to the gaps that it is made for, and by these gaps it always seems better than it is. So the design,
uniform exploration and mixtures of both are compared by draws of what the data leave possible (`Draws`): what takes the
fewest people on average over the draws is played, and bets are scaled by what it saves there.

There is no theorem on its samples (docs/certificates.md): the certificate is valid whenever it stops, and the floor
keeps every V within 1/floor times that of uniform exploration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate import Ledger
from pacbandits.certificate.conventions import MAX_STAKE
from pacbandits.checks import number, positive, settle
from pacbandits.confidence import best_threshold, certificate_threshold
from pacbandits.design import (
    DesignTask,
    Shifted,
    best_pricing,
    price_propensities,
    solve_by_pricing,
    solve_enumerated,
)
from pacbandits.design.weights import Objective
from pacbandits.options import About
from pacbandits.policies.base import CountedClass, PolicyClass, total
from pacbandits.policies.finite import sum_by_id, sum_scores
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Design, Policy, Sampler, likeliest
from pacbandits.rewards import FiguresById, FittedModel, predict_once
from pacbandits.rewards.base import half_of
from pacbandits.trials.protocol import Profile, Setting
from pacbandits.trials.trial import (
    DEFAULT_GROWTH,
    Exploration,
    Growth,
    Pilot,
    Trial,
    TrialState,
    Wanted,
    mixture,
    nearest_gain,
)

# Explorations of a trial: estimated gaps, prices of designs, and when to design anew.

MIN_REWARD_VARIANCE = 0.02  # lower bound, however certain the model is
MIN_DESIGN_PRICE = 1.0  # lower bound; the price would be 0 where all policies agree
COUNTED_GAP_SHARE = 0.6  # share of a gap that a design relies on
GAP_MARKDOWN_STANDARD_ERRORS = 1.0  # standard errors subtracted from gaps
TYPICAL_ERROR_IN_EPSILONS = 1.5  # error of the gaps of relevant policies, in multiples of ε, before there are data
# Rewards with a mean below the first are rare: bets lose more to them than variances say, and the price is iterated, at
# most the second number of steps, until its logarithm changes by less than the third.
RARE_MEAN_REWARD, SKEW_STEPS, SKEW_TOLERANCE = 0.15, 4, 0.1
REDESIGN_GROWTH_FACTOR = 1.5  # growth of the data after which a design is out of date


@dataclass(frozen=True, eq=False)
class NoisyDesign:
    """A design that weights each action by a model's estimate of its reward variance.

    design: the design.
    fitted: the model.
    """

    design: Design
    fitted: FittedModel

    @property
    def n_actions(self) -> int:
        return self.design.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A); results for contexts with ids are cached."""
        return self._known.look_up(contexts, self._compute)

    def _compute(self, contexts: Contexts) -> FloatArray:
        return self.design.propensities(contexts, noise=variances(self.fitted.predict(contexts)))

    @cached_property
    def _known(self) -> FiguresById:
        return FiguresById(self.n_actions)


@dataclass(frozen=True, eq=False)
class Findings:
    """Estimates of the gaps between policies.

    ledger: the data, with the predictions of `fitted`.
    contexts: their known distribution or sample; None for the ledger's own contexts alone.
    mixed (m, A): propensities of the ledger's contexts, averaged over rounds.
    reference: the policy from which gaps are measured.
    fitted: the reward model of all the data.
    price: V/d² of the exploration that produced the data.
    """

    ledger: Ledger
    contexts: Contexts | None
    mixed: FloatArray
    reference: Policy
    fitted: FittedModel
    price: float

    @cached_property
    def measured(self) -> tuple[Contexts, IntArray, FloatArray, FloatArray, FloatArray, FloatArray | None]:
        """The parts of a design task that do not depend on its options.

        The n contexts to design for; the positions (m,) of the ledger's among them; scores (m, A) that sum to a
        policy's estimated gap, and to its squared error; the noise (n, A) of rewards by the model; and, by the model,
        the squared, weighted difference (n, A) of each action from the reference's, None for contexts without features.
        """
        own, reference = self.ledger.contexts, self.reference
        if self.contexts is not None:
            seen, where = self.contexts.joined(own)
        else:
            seen, where = replace(own, weights=self.ledger.counts / self.ledger.samples), np.arange(len(own))
        gaps, squares = self.ledger.gaps(self.mixed, reference=reference(own))
        means, spread = self.fitted.predict(seen), None
        if seen.n_features:
            played = means[np.arange(len(seen)), reference(seen)]
            spread = seen.weights[:, None] * (means - played[:, None]) ** 2
        return seen, where, gaps, squares, variances(means), spread


def find_gaps(state: TrialState, fitted: FittedModel) -> Findings:
    """Return the estimated gaps of a trial; fitted: the reward model of all its data."""
    assert state.informed is not None
    assert state.current is not None
    assert state.leader is not None
    ledger = Ledger.of(state.informed, predict_once(fitted, state.informed.contexts))
    mixed = mixture(state.played, ledger.contexts)
    return Findings(ledger, state.contexts, mixed, state.leader, fitted, state.current.price)


def design_task(state: TrialState, fitted: FittedModel, *, epsilon: float, floor: float) -> DesignTask:
    """Return the ratio form for a trial's estimated gaps, by which explorations are priced.

    Gaps are not reduced by their error: the policy with the largest cost is already the unluckiest of many, and bets
    scaled by too large a price win too little.

    fitted: the reward model of all the data. floor: the minimum probability of an action, as a share of uniform
    exploration.
    """
    findings = find_gaps(state, fitted)
    return gap_task(findings, state.policies, epsilon=epsilon, floor=floor, standard_errors=0.0)


def gap_task(
    findings: Findings,
    policies: PolicyClass,
    *,
    epsilon: float,
    floor: float,
    standard_errors: float = GAP_MARKDOWN_STANDARD_ERRORS,
) -> DesignTask:
    """Return the ratio form for the estimated gaps, reduced by this many standard errors.

    A standard error √v is not a sum over contexts, but v is one, and √v ≤ (v/η + η)/2 for any η > 0; this η is about
    the error of the relevant policies. Beside the noise of rewards, the spread is how much policies differ from context
    to context, by the model: no exploration changes it, but where rewards are nearly certain it dominates a bet's risk.
    (For contexts without features the model's differences are mostly noise, and the spread is left out.)
    """
    seen, where, gaps, squares, noise, spread = findings.measured
    eta = TYPICAL_ERROR_IN_EPSILONS * epsilon * min(1.0, np.sqrt(findings.price / findings.ledger.samples))
    scores = sum_by_id(where, gaps - standard_errors / (2.0 * eta) * squares, n=len(seen))
    return DesignTask(
        policies,
        seen,
        reference=findings.reference,
        gaps=scores - standard_errors * eta / 2.0 / len(seen),
        scale=Shifted(epsilon, COUNTED_GAP_SHARE),
        noise=noise,
        floor=floor / policies.n_actions,
        spread=spread,
    )


def heaviest(design: Design, *, most: int) -> tuple[Policy, ...]:
    """Return up to `most` policies of a design's support, by falling weight."""
    return tuple(design.support[int(i)] for i in np.argsort(-design.weights, kind="stable")[:most])


def explore_uniformly(state: TrialState, task: DesignTask) -> Exploration:
    """Return uniform exploration with its price for the task."""
    even = Design.uniform(likeliest(state.policy))
    return _priced(state, task, even, even.propensities(task.contexts))


def explore_with(state: TrialState, task: DesignTask, sampler: Sampler) -> Exploration:
    """Return exploration by any sampler, with its price for the task."""
    return _priced(state, task, sampler, sampler.propensities(task.contexts))


def still_recent(state: TrialState) -> Exploration | None:
    """Return the current exploration; None if it is the pilot or the data have outgrown it."""
    current = state.current
    if current is None or current.since == 0:
        return None
    return current if state.informed_samples < REDESIGN_GROWTH_FACTOR * current.since else None


def variances(means: FloatArray) -> FloatArray:
    """Return upper bounds m(1 − m) on the variance of rewards in [0, 1] with these means, at least a floor."""
    return np.maximum(means * (1.0 - means), MIN_REWARD_VARIANCE)


def skewed_variances(means: FloatArray, stakes: FloatArray) -> FloatArray:
    """Return the loss of bets to the noise of rewards with these means, as a variance: m(1 − m) for small stakes.

    stakes: λ/p, the stake on an action over its probability, in the shape of means. A bet on a rare reward of a rarely
    played action loses far more to one such reward than the variance says: with the control variate g that suits it
    best (`certificate.ledger.room_above`) the wealth it costs is, per row and over λ,

        (g − m) − ((1 − m) log(1 + kg) + m log(1 − k(1 − g)))/k,     k = λ/p,

    which is k/2 times a variance. Where that is below m(1 − m), as for rewards that are not rare, m(1 − m) is returned.
    """
    m, k = np.clip(means, 1e-9, 1.0 - 1e-9), np.clip(stakes, 1e-6, 1e6)
    left = 0.5 * ((1.0 - k) + np.sqrt((1.0 - k) ** 2 + 4.0 * m * k))  # 1 − k(1 − g)
    room = np.clip((1.0 - left) / k, 0.0, 1.0 - m)
    g = 1.0 - room
    cost = (g - m) - ((1.0 - m) * np.log1p(k * g) + m * np.log(np.maximum(1.0 - k * room, 1e-300))) / k
    return np.maximum(2.0 * cost / k, variances(means))


def price_for_bets(task: DesignTask, propensities: FloatArray, means: FloatArray, *, guess: float) -> tuple[float, int]:
    """Return the price of an exploration, consistent with the loss of its stakes to rare rewards, and oracle calls.

    means (n, A): assumed mean rewards, on the contexts of the task. guess: a first guess of the price.
    """
    price, calls = guess, 0
    rare = float((task.contexts.weights @ means).mean()) < RARE_MEAN_REWARD
    least = float(task.scale(np.zeros(1))[0])  # ε, for any scale
    for _ in range(SKEW_STEPS if rare else 1):
        if rare:
            noise = skewed_variances(means, 1.0 / (price * least * np.maximum(propensities, 1e-12)))
            task = replace(task, noise=noise)
        found = price_propensities(task, propensities)
        before, price = price, max(found.upper, MIN_DESIGN_PRICE)
        calls += found.oracle_calls
        if abs(np.log(price / before)) < SKEW_TOLERANCE:
            break
    return price, calls


def _priced(state: TrialState, task: DesignTask, sampler: Sampler, propensities: FloatArray) -> Exploration:
    means = state.fitted.predict(task.contexts)
    guess = MIN_DESIGN_PRICE if state.current is None else state.current.price
    price, calls = price_for_bets(task, propensities, means, guess=guess)
    return Exploration(sampler, price, state.informed_samples, oracle_calls=calls)


# What the data leave possible: draws of the truth, and the people that an exploration would take if each were true.
#
# - Mean rewards are those of the model, plus or minus half of the difference between fits to two random halves of the
#   data. These err independently, each with twice the variance of the fit to all data: half of their difference has the
#   size of that fit's error, and its shape over contexts and actions.
# - What the model misses of the gaps of policies is added as far as it is more than chance. Let D be what the doubly
#   robust estimate of a policy's gap adds to the model's, and v its variance. If what the model misses has variance τ²,
#   D² is v + τ² on average, and s = τ²/(v + τ²) of D is real, up to an error of variance s·v. The average of D²/v over
#   policies that the data did not choose gives s: about 0 if the model follows the rewards, near 1 if it does not.
# - A trial is played to its end: after n people an estimated gap is off by chance, normally with variance V/n, by the
#   same normal numbers for every exploration. It ends with the first n at which bets of the best scale refute every
#   policy, the unluckiest too.
# An exploration that spares an action which only seems bad is dear in some of the draws. One that plays an action
# rarely lets policies on it seem good by chance, and loses much to its rare rewards (`skewed_variances`).
EVEN_SHARES = (0.0, 0.25, 0.5)  # of uniform exploration in the mixtures that are compared
SPLITS = 2  # of the data into halves; each gives two draws. One chooses worse, four no better
UNCHOSEN_POLICIES = 8  # drawn from a class that cannot be listed, to tell what a model misses from chance
MAX_COMPARED_POLICIES = 500  # of a list: those that would take most people alone
MIN_PEOPLE, MAX_PEOPLE, PEOPLE_HALVINGS = 20.0, 3e6, 10  # of the search for the end of a trial
SCALE_STEPS = 24  # of the grid on which the scale of bets is searched
MAX_SEARCH_ROUNDS, MAX_MISSING_SHARE = 10, 0.1  # of an oracle's search for the unluckiest policy; of its log-wealth
MIN_PRICED_PROPENSITY, MIN_STAKE, DRAWS_SEED = 1e-6, 1e-5, 1


@dataclass(frozen=True, eq=False)
class Draw:
    """One of the truths that the data leave possible, on n contexts.

    means (n, A): of rewards.
    best (n,): the actions of the best policy.
    gaps (n, A): scores that sum to a policy's gap.
    luck (n, A), luck_of_contexts (n,): standard normal, of the rewards to come and of who comes.
    """

    means: FloatArray
    best: IntArray
    gaps: FloatArray
    luck: FloatArray
    luck_of_contexts: FloatArray


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of what the data leave possible.

    policies: the class; it counts the calls of its oracles.
    contexts: the n contexts of a design task.
    noise (n, A): of rewards.
    epsilon: the difference to resolve.
    multipliers (K,): of the experts' stakes.
    nats: the log-wealth that refutes a policy.
    draws: the draws.
    found: actions (n,) of policies that were the unluckiest under some exploration, if the class cannot be listed.
    """

    policies: CountedClass
    contexts: Contexts
    noise: FloatArray
    epsilon: float
    multipliers: FloatArray
    nats: float
    draws: tuple[Draw, ...]
    found: dict[bytes, IntArray] = field(default_factory=dict[bytes, IntArray])

    @classmethod
    def of(cls, trial: Trial, state: TrialState, findings: Findings) -> Draws:
        """Return draws of what the data of a trial leave possible."""
        seen, where, *_ = findings.measured
        policies, n, rng = CountedClass(state.policies), len(seen), np.random.default_rng(DRAWS_SEED)
        means, weights, samples = findings.fitted.predict(seen), seen.weights[:, None], findings.ledger.samples
        missed, squares = (sum_by_id(where, scores, n=n) for scores in missed_scores(findings))
        if policies.lists_policies:
            unchosen = np.asarray(policies.actions(seen))
        else:
            scores = (np.sqrt(weights) * _normal(rng, means.shape, seen) for _ in range(UNCHOSEN_POLICIES))
            unchosen = np.array([policies.argmax(seen, one)(seen) for one in scores])
        best = policies.argmax(seen, weights * means)(seen)
        share = share_beyond_chance(missed, squares, best, unchosen.astype(np.int64))
        noise = variances(means) * noise_share(findings.ledger)
        played = np.maximum(mixture(state.played, seen), MIN_PRICED_PROPENSITY)
        error = np.sqrt(share * weights * noise / (samples * played))
        errors = [_fit_error(state, seen, rng) for _ in range(SPLITS)]
        draws: list[Draw] = []
        for off in (sign * one for one in errors for sign in (1.0, -1.0)):
            possible = np.clip(means + off, 0.0, 1.0)
            values = weights * possible + share * missed + error * _normal(rng, means.shape, seen)
            first = policies.argmax(seen, values)(seen)
            gaps = values[np.arange(n), first][:, None] - values
            draws.append(Draw(possible, first, gaps, _normal(rng, means.shape, seen), _normal(rng, (n,), seen)))
        size = 0.0 if state.leaders is not None else policies.log_size
        threshold = best_threshold if trial.epsilon == 0 else certificate_threshold
        nats, multipliers = threshold(log_size=size, delta=trial.delta), np.array(trial.multipliers(state))
        return cls(policies, seen, noise, trial.accuracy(state), multipliers, nats, tuple(draws))

    def people(self, sampler: Sampler, *, price: float) -> float:
        """Return the number of people that an exploration takes: the geometric mean over the draws.

        price: of uniform exploration, for stakes.
        """
        p = np.maximum(sampler.propensities(self.contexts), MIN_PRICED_PROPENSITY)
        stakes = float(self.multipliers.mean()) / (price * self.epsilon * p)
        return math.exp(float(np.mean([math.log(self._people_in(one, p, stakes)) for one in self.draws])))

    def _people_in(self, draw: Draw, p: FloatArray, stakes: FloatArray) -> float:
        """Return the number of people in one draw; p, stakes (n, A): probabilities, and stakes over these."""
        rows, weights, spread = np.arange(len(self.contexts)), self.contexts.weights[:, None], None
        noise = self.noise * skewed_variances(draw.means, stakes) / variances(draw.means)
        chance = np.sqrt(weights * noise / p) * draw.luck
        luck = chance[rows, draw.best][:, None] - chance
        if self.contexts.n_features:
            apart = draw.means - draw.means[rows, draw.best][:, None]
            spread = weights * apart**2
            luck -= np.sqrt(weights) * apart * draw.luck_of_contexts[:, None]
        luck[rows, draw.best] = 0.0
        costs = Objective(draw.best.astype(np.int64), self.contexts.weights, noise, spread=spread).costs(p)
        if self.policies.lists_policies:
            table = np.ascontiguousarray(self.policies.actions(self.contexts))
            return self._end(*(sum_scores(table, scores) for scores in (draw.gaps, costs, luck)))[0]
        return self._search(draw.gaps, costs, luck)

    def _search(self, gaps: FloatArray, costs: FloatArray, luck: FloatArray) -> float:
        """Return the same through an oracle; gaps, costs, luck (n, A): scores of a policy's gap, variance and luck."""
        wanted, parts = costs, (gaps, costs, luck)
        people, stake = self._end_of_found(parts) if self.found else (MIN_PEOPLE, 0.0)
        for _ in range(MAX_SEARCH_ROUNDS):
            root = math.sqrt(people)
            if stake > 0:
                wanted = 0.5 * stake * costs - gaps - luck / root
            worst = self.policies.argmax(self.contexts, wanted)(self.contexts).astype(np.int64)
            gap, variance, lucky = (total(scores, worst) for scores in parts)
            wealth = people * stake * (self.epsilon + gap + lucky / root - 0.5 * stake * variance)
            enough = stake > 0 and wealth >= (1.0 - MAX_MISSING_SHARE) * self.nats
            if enough or worst.tobytes() in self.found:
                break
            self.found[worst.tobytes()] = worst
            people, stake = self._end_of_found(parts)
        return people

    def _end_of_found(self, parts: tuple[FloatArray, ...]) -> tuple[float, float]:
        table = np.array(list(self.found.values()))
        return self._end(*(sum_scores(table, scores) for scores in parts))

    def _end(self, gaps: FloatArray, variances: FloatArray, luck: FloatArray) -> tuple[float, float]:
        """Return the number of people at which bets of the best scale refute policies (N,), and the best stake."""
        alone = (np.sqrt(2.0 * self.nats * variances) - luck) / (self.epsilon + np.maximum(gaps, 0.0))
        order: IntArray = np.argsort(-alone, kind="stable")
        kept = order[variances[order] > 0][:MAX_COMPARED_POLICIES]
        if not len(kept):
            return MIN_PEOPLE, 0.0
        known = gaps[kept], variances[kept], luck[kept]
        low, high = math.log(MIN_PEOPLE), math.log(MAX_PEOPLE)
        for _ in range(PEOPLE_HALVINGS):
            middle = (low + high) / 2.0
            low, high = (low, middle) if self._best_scale(math.exp(middle), *known)[0] >= self.nats else (middle, high)
        (below, _), (above, stake) = (self._best_scale(math.exp(end), *known) for end in (low, high))
        share = min(max((self.nats - below) / (above - below), 0.0), 1.0) if above > below else 1.0
        return math.exp(low + share * (high - low)), stake

    def _best_scale(
        self, people: float, gaps: FloatArray, variances: FloatArray, luck: FloatArray
    ) -> tuple[float, float]:
        """Return the largest log-wealth against the least refuted policy, over scales, and the best expert's stake."""
        edges = self.epsilon + gaps + luck / math.sqrt(people)
        suited = np.clip(edges / variances, MIN_STAKE, MAX_STAKE)
        low, high = math.log(suited.min() / 2.0), math.log(min(2.0 * suited.max(), MAX_STAKE))
        scales: FloatArray = np.exp(np.linspace(low, high, SCALE_STEPS))
        stakes = scales[:, None, None] * self.multipliers[:, None]
        wealths = people * stakes * (edges - 0.5 * stakes * variances)
        least = np.logaddexp.reduce(wealths, axis=1).min(axis=1) - math.log(len(self.multipliers))
        best = int(least.argmax())
        expert = int(wealths[best].min(axis=1).argmax())
        return float(least[best]), float(stakes[best, expert, 0])


def _normal(rng: np.random.Generator, shape: tuple[int, ...], contexts: Contexts) -> FloatArray:
    """Return normal numbers (n, …) for contexts that can occur: the same with and without ids of contexts."""
    out, occur = np.zeros(shape), contexts.weights > 0
    out[occur] = rng.standard_normal((int(occur.sum()), *shape[1:]))
    return out


def _fit_error(state: TrialState, contexts: Contexts, rng: np.random.Generator) -> FloatArray:
    """Return an error (n, A) of the model's fit: half of the difference between fits to two halves of the data.

    Interactions are drawn into halves, or units. 0 for contexts that cannot occur.
    """
    log = state.informed
    assert log is not None
    heads = rng.binomial(log.repeats, 0.5) if log.units is None else half_of(log).astype(np.int64)
    halves = [(log.take(np.flatnonzero(some)), some[some > 0]) for some in (heads, log.repeats - heads) if some.any()]
    out, occur = np.zeros((len(contexts), log.n_actions)), contexts.weights > 0
    if len(halves) == 2:
        fits = [state.model.fit(replace(part, repeats=repeats)) for part, repeats in halves]
        first, second = (fitted.predict(contexts.only(occur)) for fitted in fits)
        out[occur] = 0.5 * (first - second)
    return out


def missed_scores(findings: Findings) -> tuple[FloatArray, FloatArray]:
    """Return what the model misses of actions' values, by the data: scores (m, A) on the ledger's contexts.

    They sum to what the doubly robust estimate of a policy's value adds to the model's, and to its squared error.
    """
    rows, shape = findings.ledger.rows, findings.mixed.shape
    context = np.repeat(np.arange(len(findings.mixed)), np.diff(rows.starts))
    guesses = rows.predictions[np.arange(len(context)), rows.actions]
    off = (rows.rewards - guesses) / (findings.ledger.samples * findings.mixed[context, rows.actions])
    cells = context * shape[1] + rows.actions
    sums = (np.bincount(cells, weights=rows.repeats * off**power, minlength=shape[0] * shape[1]) for power in (1, 2))
    first, second = (one.astype(np.float64).reshape(shape) for one in sums)
    return first, second


def share_beyond_chance(missed: FloatArray, squares: FloatArray, best: IntArray, policies: IntArray) -> float:
    """Return s, the share of what a model seems to miss of policies' gaps that is more than chance.

    missed, squares (n, A): as `missed_scores` gives. best (n,): the actions that gaps are measured from.
    policies (K, n): the actions of policies that the data did not choose.
    """
    rows = np.arange(len(best))
    differences, errors = missed - missed[rows, best][:, None], squares + squares[rows, best][:, None]
    errors[rows, best] = 0.0
    table = np.ascontiguousarray(policies)
    seemed, chance = sum_scores(table, differences), sum_scores(table, errors)
    known = chance > 0
    ratio = float((seemed[known] ** 2 / chance[known]).mean()) if known.any() else 0.0
    return max(0.0, 1.0 - 1.0 / ratio) if ratio > 0 else 0.0


def noise_share(ledger: Ledger) -> float:
    """Return the noise of rewards as a share of the variance that designs assume, at most 1; rare rewards have less."""
    rows = ledger.rows
    at = np.arange(len(rows.actions))
    taken = variances(rows.predictions)[at, rows.actions]
    found = (rows.rewards - rows.predictions[at, rows.actions]) ** 2
    return min(1.0, float((rows.repeats * found).sum() / (rows.repeats * taken).sum()))


DEFAULT_FLOOR_SHARE = 0.2  # minimum probability of an action, as a share of uniform exploration
DEFAULT_PRECISION = 0.1  # the relative gap to which designs are solved through oracles
# For a large class: tolerance of a design as a share of the relative error of gaps, and its upper bound.
LOOSENED_ERROR_SHARE, MAX_LOOSENED = 0.3, 0.6
LISTED_PRECISION = 0.01  # the relative gap to which designs are solved over a list
MAX_PRICING_ROUNDS, MAX_PRICING_ROUNDS_INEXACT = 25, 8  # of one design; fewer with an oracle that is not exact
COMPARING_EVEN_SHARE = 0.5  # of uniform exploration in the comparison of a leader with control
MAX_POOLED_POLICIES = 200  # the heaviest of one design, from which the next starts


@dataclass(frozen=True)
class Coda(Trial):
    """CODA with a betting certificate: explores by optimal designs, stops when the answer is proven.

    epsilon, delta: how close to the best, 0 for the best policy itself, and the probability of being wrong.
    rewards: must be known to lie in [0, 1].
    model: the reward model; by default `default_model` of the contexts.
    pilot: the size of the first round; by default 50 per action, at least 200.
    growth: the largest round, as a share of the samples so far.
    single: whether the answer must be a single policy, not a mixture policy.
    improve_on, gain: as for `Trial`, to stop by a proven gain over an action.
    floor: the minimum probability of an action, as a share of uniform exploration.
    precision: the relative gap to which designs are solved through oracles, once gaps are known as precisely.

    >>> import pacbandits as pb
    >>> people = pb.Contexts.of([[20], [30], [40], [50]], names=["age"])
    >>> trial = pb.Coda(epsilon=0.1, delta=0.05)
    >>> state = trial.start(pb.Trees.learn(people, n_actions=3, depth=1), people)
    >>> plan = trial.design(state)  # then play it, and `state = trial.absorb(state, plan, log)`
    >>> plan.samples, plan.sampler.propensities(people)[0].round(2)
    (200, array([0.33, 0.33, 0.33]))
    """

    name: ClassVar[str] = "coda"
    profile: ClassVar[Profile] = Profile(
        name="coda",
        source="CODA that people can afford: optimal designs for the gaps seen so far, and a certificate by betting",
        classes="any",
        assumes="rewards in [0, 1]; contexts, known or sampled, only make it faster",
        guarantees="(ε, δ)-PAC at any stopping time, with a certificate that `verify` rechecks",
        samples="until the certificate holds",
        certifies=True,
        keeps_state=True,
    )

    floor: float = field(default=DEFAULT_FLOOR_SHARE, kw_only=True)
    precision: float = field(default=DEFAULT_PRECISION, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        share = number(self.floor, name="floor, a share of uniform exploration,", least=0, most=1)
        settle(self, floor=share, precision=positive(self.precision, name="precision"))

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        pilot: Pilot = 0,
        growth: Growth = DEFAULT_GROWTH,
        answer: Wanted = "mixture",
        floor: Annotated[
            float, About("the least probability of an action, as a share of uniform exploration", least=0, most=1)
        ] = DEFAULT_FLOOR_SHARE,
        precision: Annotated[float, About("the relative gap to which designs are solved", above=0)] = DEFAULT_PRECISION,
    ) -> Coda:
        """Return CODA for this setting."""
        return cls(
            setting.epsilon,
            setting.delta,
            rewards=setting.rewards,
            pilot=pilot or None,
            growth=growth,
            single=answer == "single",
            improve_on=setting.improve_on,
            gain=setting.gain,
            floor=floor,
            precision=precision,
        )

    def explore(self, state: TrialState, *, progress: Progress | None = None) -> Exploration:
        """Return the design for the gaps estimated so far, or the last one while it is recent enough."""
        if self.improve_on is not None:
            return self._compare_with_control(state)
        if (recent := still_recent(state)) is not None:
            return recent
        fitted = state.fitted
        findings, options = find_gaps(state, fitted), {"epsilon": self.accuracy(state), "floor": self.floor}
        cautious = gap_task(findings, state.policies, **options)
        # The gap of a policy is known to about √(V/n), and the price of the exploration is the largest V/d² of any
        # policy: so the largest error, relative to the difference to resolve, is √(price/n).
        error = math.sqrt(findings.price / state.informed_samples)
        listed = state.policies.lists_policies
        if listed:
            solution, calls = solve_enumerated(cautious, tolerance=LISTED_PRECISION), 0
        else:
            looser = min(LOOSENED_ERROR_SHARE * error, MAX_LOOSENED) if state.leaders is not None else 0.0
            counted = CountedClass(state.policies)
            solution = solve_by_pricing(
                cautious,
                pricing=best_pricing(counted),
                tolerance=max(self.precision, looser),
                max_rounds=MAX_PRICING_ROUNDS if state.policies.exact else MAX_PRICING_ROUNDS_INEXACT,
                seeds=state.pool,
                progress=progress,
            )
            calls = counted.calls
        even = explore_uniformly(state, gap_task(findings, state.policies, **options, standard_errors=0.0))
        draws = Draws.of(self, state, findings)
        designs = [NoisyDesign(replace(solution.design, even_share=share), fitted) for share in EVEN_SHARES]
        people = [draws.people(one, price=even.price) for one in (even.sampler, *designs)]
        calls += even.oracle_calls + draws.policies.calls
        best = int(np.argmin(people))
        if best == 0:
            return replace(even, oracle_calls=calls)
        # A design is believed to save what it saves in the draws.
        price = max(even.price * people[best] / people[0], MIN_DESIGN_PRICE)
        pool = () if listed else heaviest(solution.design, most=MAX_POOLED_POLICIES)
        return Exploration(designs[best - 1], price, state.informed_samples, pool=pool, oracle_calls=calls)

    def _compare_with_control(self, state: TrialState) -> Exploration:
        """Return the design for the gain of the leader over control: both alike where they differ, half of it uniform.

        In a context on which they differ, the variance of the gain's score is least with a probability of 1/2 for each
        (for rewards of one variance). The uniform half bounds that of any other candidate by twice that of uniform
        exploration, however wrong the leader is.
        """
        assert state.current is not None
        nearest = nearest_gain(state.improvement)
        leader = None if nearest is None else nearest.leaders.last
        if leader is None:
            return state.current
        design = Design((self._control(state.policies),), np.ones(1), leader, even_share=COMPARING_EVEN_SHARE)
        return Exploration(design, state.current.price, state.informed_samples)


# The uniform randomised trial, with the same certificate as `coda`.


@dataclass(frozen=True)
class Uniform(Trial):
    """The uniform randomised trial with the same certificate: every action has the same probability in every round.

    epsilon, delta: how close to the best, 0 for the best policy itself, and the probability of being wrong.
    rewards: must be known to lie in [0, 1].
    model: the reward model; by default `default_model` of the contexts.
    pilot: the size of the first round; by default 50 per action, at least 200.
    growth: the largest round, as a share of the samples so far.
    single: whether the answer must be a single policy, not a mixture policy.
    improve_on, gain: as for `Trial`, to stop by a proven gain over an action.

    >>> import pacbandits as pb
    >>> done = pb.run("trivial:contexts=2,actions=2", algorithm=pb.Uniform(epsilon=0.2, delta=0.05), rng=1)
    >>> done.certificate.certified
    True
    """

    name: ClassVar[str] = "uniform"
    profile: ClassVar[Profile] = Profile(
        name="uniform",
        source="the plain randomised trial with the same certificate",
        classes="any",
        assumes="rewards in [0, 1]",
        guarantees="(ε, δ)-PAC at any stopping time, with a certificate that `verify` rechecks",
        samples="until the certificate holds",
        certifies=True,
        keeps_state=True,
    )

    @classmethod
    def made_for(
        cls, setting: Setting, *, pilot: Pilot = 0, growth: Growth = DEFAULT_GROWTH, answer: Wanted = "mixture"
    ) -> Uniform:
        """Return the trial for this setting."""
        return cls(
            setting.epsilon,
            setting.delta,
            rewards=setting.rewards,
            pilot=pilot or None,
            growth=growth,
            single=answer == "single",
            improve_on=setting.improve_on,
            gain=setting.gain,
        )

    def explore(self, state: TrialState, *, progress: Progress | None = None) -> Exploration:
        """Return uniform exploration; only the scale of the bets is computed anew."""
        if self.improve_on is not None and state.current is not None:
            return state.current
        if (recent := still_recent(state)) is not None:
            return recent
        task = design_task(state, state.fitted, epsilon=self.accuracy(state), floor=0.0)
        return explore_uniformly(state, task)
