"""Explorations of a trial: estimated gaps, prices of designs, and when a design is out of date."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate import Ledger
from pacbandits.design import DesignTask, Shifted, price_propensities
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import sum_by_id
from pacbandits.records import Contexts, Design, Policy, Sampler, likeliest
from pacbandits.rewards import FiguresById, FittedModel, predict_once
from pacbandits.trials.trial import Exploration, TrialState, mixture

MIN_REWARD_VARIANCE = 0.02  # however sure the model is
MIN_DESIGN_PRICE = 1.0  # it would be 0 where there is nothing to tell apart
COUNTED_GAP_SHARE = 0.6  # how much of a gap a design relies on
GAP_MARKDOWN_STANDARD_ERRORS = 1.0  # by which gaps are taken to be smaller than they look
TYPICAL_ERROR_IN_EPSILONS = 1.5  # of the gaps of policies that matter, before there are data
# Of the relative error of gaps, what is played evenly on that account for a design that seems to be twice as cheap as
# uniform exploration; how that falls with what it seems to save; and the most, however little is known.
HEDGED_ERROR_SHARE, HEDGE_EXPONENT, MAX_EVEN_SHARE = 0.6, 1.5, 0.8
# The mean reward below which rewards are rare. Then what bets lose to them is reckoned, so often unless the price
# changes by less than this share. Of others variances tell enough, and a model that knows little takes some for rare.
RARE_MEAN_REWARD, SKEW_STEPS, SKEW_TOLERANCE = 0.15, 4, 0.1
REDESIGN_GROWTH_FACTOR = 1.5  # by which the data have grown when a design is out of date


@dataclass(frozen=True, eq=False)
class NoisyDesign:
    """A design that weighs each action by a model's guess of its reward variance.

    design: what is weighed.
    fitted: the model.
    """

    design: Design
    fitted: FittedModel

    @property
    def n_actions(self) -> int:
        return self.design.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """p(a|c) as (n, A); what was asked before of contexts with ids is remembered."""
        return self._known.look_up(contexts, self._compute)

    def _compute(self, contexts: Contexts) -> FloatArray:
        return self.design.propensities(contexts, noise=variances(self.fitted.predict(contexts)))

    @cached_property
    def _known(self) -> FiguresById:
        return FiguresById(self.n_actions)


@dataclass(frozen=True, eq=False)
class Findings:
    """What data say of the gaps between policies.

    ledger: the data, with the predictions of `fitted`.
    contexts: what is known of their distribution; None for no more than the ledger's own.
    mixed (m, A): propensities of the ledger's contexts, rounds taken together.
    reference: the policy that gaps are measured from.
    fitted: the reward model of all the data.
    price: V/d² of the exploration that the data come from.
    """

    ledger: Ledger
    contexts: Contexts | None
    mixed: FloatArray
    reference: Policy
    fitted: FittedModel
    price: float

    @cached_property
    def measured(self) -> tuple[Contexts, IntArray, FloatArray, FloatArray, FloatArray, FloatArray | None]:
        """The parts of a design task that do not depend on what is asked.

        The n contexts to design for; where (m,) among them the ledger's are; scores (m, A) that sum to a policy's
        estimated gap, and to its squared error; the noise (n, A) of rewards by the model; and what the model says that
        each action differs by from the reference's, squared and weighed (n, A), None of contexts without features.
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
    """What the data of a trial say of gaps; fitted: the reward model of all of them."""
    assert state.informed is not None
    assert state.current is not None
    assert state.leader is not None
    ledger = Ledger.of(state.informed, predict_once(fitted, state.informed.contexts))
    mixed = mixture(state.played, ledger.contexts)
    return Findings(ledger, state.contexts, mixed, state.leader, fitted, state.current.price)


def design_task(state: TrialState, fitted: FittedModel, *, epsilon: float, floor: float) -> DesignTask:
    """The ratio form for the gaps that the data of a trial show, by which explorations are priced.

    Gaps are taken as they are: the policy that seems to be served worst is the unluckiest of many as it is, and bets
    that are scaled by too large a price win too little.

    fitted: the reward model of all the data. floor: the least probability of an action, as a share of uniform
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
    """The ratio form for the gaps that were found, less so many standard errors.

    A standard error √v is no sum over contexts, but v is one, and √v ≤ (v/η + η)/2 for any η > 0; ours is about that of
    the policies that matter. Beside the noise of rewards there is what policies differ by from context to context, by
    the model: no exploration changes that, but where rewards are nearly certain it is most of what a bet must stand.
    (Of contexts without features the model knows too little: what it takes for a difference is mostly noise.)
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


def even_share(*, error: float, advantage: float) -> float:
    """κ, how much of a design is played evenly: as large a share as its gaps may be wrong, for what it may save.

    A design relies on gaps where it plays an action rarely, and pays for a wrong one without bound; played evenly for a
    share κ it pays at most 1/κ of what uniform exploration does, and at most 1/(1 − κ) of what it would itself. One
    that seems to save little, as where each action is best for somebody, has more to lose by that than to gain.

    error: the largest relative error of a gap. advantage: how many times cheaper than uniform exploration the design
    seems to be.
    """
    if advantage <= 1:
        return MAX_EVEN_SHARE
    return min(HEDGED_ERROR_SHARE * error / (advantage - 1.0) ** HEDGE_EXPONENT, MAX_EVEN_SHARE)


def heaviest(design: Design, *, most: int) -> tuple[Policy, ...]:
    """Up to so many policies of a design's support, by falling weight."""
    order: IntArray = np.argsort(-design.weights, kind="stable")
    return tuple(design.support[int(i)] for i in order[:most])


def explore_uniformly(state: TrialState, task: DesignTask) -> Exploration:
    """Uniform exploration, and its price for the task."""
    n_actions = state.policies.n_actions
    even = np.full((len(task.contexts), n_actions), 1.0 / n_actions)
    return _priced(state, task, Design.uniform(likeliest(state.policy)), even)


def explore_with(state: TrialState, task: DesignTask, sampler: Sampler) -> Exploration:
    """Exploration by any sampler, and its price for the task."""
    return _priced(state, task, sampler, sampler.propensities(task.contexts))


def still_recent(state: TrialState) -> Exploration | None:
    """What is being played, unless it is the pilot or the data have outgrown it."""
    current = state.current
    if current is None or current.since == 0:
        return None
    return current if state.informed_samples < REDESIGN_GROWTH_FACTOR * current.since else None


def variances(means: FloatArray) -> FloatArray:
    """Of rewards in [0, 1] with these means: at most m(1 − m), and never below a floor."""
    return np.maximum(means * (1.0 - means), MIN_REWARD_VARIANCE)


def skewed_variances(means: FloatArray, stakes: FloatArray) -> FloatArray:
    """What bets lose to the noise of rewards with these means, as a variance: m(1 − m) for small stakes.

    stakes: λ/p, what is staked on an action over its probability, in the shape of means. A bet on a rare reward of an
    action that is rarely played loses far more to the one that comes than a variance tells: with the control variate g
    that suits it best (`certificate.rows.room_above`) the wealth it costs is, a row and over λ,

        (g − m) − ((1 − m) log(1 + kg) + m log(1 − k(1 − g)))/k,     k = λ/p,

    which is k/2 times a variance. Where that is less than m(1 − m), as of rewards that are not rare, that is taken.
    """
    m, k = np.clip(means, 1e-9, 1.0 - 1e-9), np.clip(stakes, 1e-6, 1e6)
    left = 0.5 * ((1.0 - k) + np.sqrt((1.0 - k) ** 2 + 4.0 * m * k))  # 1 − k(1 − g)
    room = np.clip((1.0 - left) / k, 0.0, 1.0 - m)
    g = 1.0 - room
    cost = (g - m) - ((1.0 - m) * np.log1p(k * g) + m * np.log(np.maximum(1.0 - k * room, 1e-300))) / k
    return np.maximum(2.0 * cost / k, variances(means))


def price_for_bets(task: DesignTask, propensities: FloatArray, means: FloatArray, *, guess: float) -> tuple[float, int]:
    """The price of an exploration once stakes and what they lose to rare rewards agree; and the oracle calls it took.

    means (n, A): what rewards are taken to be, on the contexts of the task. guess: about what the price will be.
    """
    price, calls = guess, 0
    rare = float((task.contexts.weights @ means).mean()) < RARE_MEAN_REWARD
    least = float(task.scale(np.zeros(1))[0])  # ε, whatever the scale makes of gaps
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
