"""CODA with practical sample sizes: optimal designs, pooled data, a betting certificate.

Each round's propensities solve the ratio form for the gaps estimated so far,

    min_p max_π V_π(p; q)/(ε + aΔ̂_π)²,     V weighted by the model's estimate of each action's reward variance,

through the class's oracles, with the probability floor inside. Estimated gaps are reduced by their error, and a design
is mixed with uniform exploration in proportion to that error (`even_share`): a design that fits noise does worse than
uniform exploration. The slope a is below 1 for another reason: to refute a policy, the data must show a gap that chance
alone would not, for the unluckiest of many policies of that gap; near the best policy that costs nothing, as q is the
luckiest there. A design whose price is still not below that of uniform exploration is not played.

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
from pacbandits.checks import number, positive, settle
from pacbandits.design import (
    DesignTask,
    Shifted,
    best_pricing,
    price_propensities,
    solve_by_pricing,
    solve_enumerated,
)
from pacbandits.options import About
from pacbandits.policies.base import CountedClass, PolicyClass
from pacbandits.policies.finite import sum_by_id
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Design, Policy, Sampler, likeliest
from pacbandits.rewards import FiguresById, FittedModel, predict_once
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
# Share of uniform exploration per unit of relative gap error, for a design that seems twice as cheap as uniform
# exploration; exponent by which it falls with the saving; and its upper bound.
HEDGED_ERROR_SHARE, HEDGE_EXPONENT, MAX_EVEN_SHARE = 0.6, 1.5, 0.8
# Rewards with a mean below the first are rare: bets lose more to them than variances say. The price then accounts for
# that by fixed-point iteration, with at most the second number of steps, until its logarithm changes by less than the
# third. For other rewards variances suffice, and a model fitted to little data takes some of them for rare.
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


def even_share(*, error: float, advantage: float) -> float:
    """Return κ, the share of uniform exploration in a design: larger the larger gaps' error and the smaller the saving.

    A design relies on gaps where it plays an action rarely, and a wrong gap costs without bound; mixed with a share κ
    of uniform exploration it costs at most 1/κ times that, and at most 1/(1 − κ) times the design itself. A design
    that saves little, as where every action is best in some context, risks more than it can gain.

    error: the largest relative error of a gap. advantage: the price of uniform exploration over that of the design.
    """
    if advantage <= 1:
        return MAX_EVEN_SHARE
    return min(HEDGED_ERROR_SHARE * error / (advantage - 1.0) ** HEDGE_EXPONENT, MAX_EVEN_SHARE)


def heaviest(design: Design, *, most: int) -> tuple[Policy, ...]:
    """Return up to `most` policies of a design's support, by falling weight."""
    order: IntArray = np.argsort(-design.weights, kind="stable")
    return tuple(design.support[int(i)] for i in order[:most])


def explore_uniformly(state: TrialState, task: DesignTask) -> Exploration:
    """Return uniform exploration with its price for the task."""
    n_actions = state.policies.n_actions
    even = np.full((len(task.contexts), n_actions), 1.0 / n_actions)
    return _priced(state, task, Design.uniform(likeliest(state.policy)), even)


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


# For a small class, a design is played if its price is this many times below that of uniform exploration, and mixed
# with it only if rewards are rare: there are few policies to be wrong about, and a uniform share would cost more than a
# wrong gap does.
MIN_PRICE_ADVANTAGE = 1.5
DEFAULT_FLOOR_SHARE = 0.2  # minimum probability of an action, as a share of uniform exploration
DEFAULT_PRECISION = 0.1  # the relative gap to which designs are solved through oracles
# For a large class: tolerance of a design as a share of the relative error of gaps, and its upper bound.
LOOSENED_ERROR_SHARE, MAX_LOOSENED = 0.3, 0.6
LISTED_PRECISION = 0.01  # the relative gap to which designs are solved over a list
MAX_PRICING_ROUNDS, MAX_PRICING_ROUNDS_INEXACT = 25, 8  # of one design; fewer with an oracle that is not exact
# For a small class: ratio of a design's price to its price by variances above which it is mixed, and the shares tried.
COSTLY_DESIGN, TEMPERING_SHARES = 1.1, (0.3, 0.6)
# For a large class: the exponent that shrinks a design's estimated saving. A design is priced by the gaps it was fitted
# to, and stakes by that price would be too large. By the truth, an estimated saving of 1.35 to 2.1 times over uniform
# exploration is 1.2 to 1.7 times (trees on digits, and on 1,000 contexts with 8 actions), about the square root.
BELIEVED_SAVING = 0.5
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
        answer: Wanted = "lottery",
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
        task, led, listed = cautious, state.leaders is not None, state.policies.lists_policies
        if listed:
            solution, calls = solve_enumerated(cautious, tolerance=LISTED_PRECISION), 0
        else:
            looser = min(LOOSENED_ERROR_SHARE * error, MAX_LOOSENED) if led else 0.0
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
        if led:
            task = gap_task(findings, state.policies, **options, standard_errors=0.0)
        even = explore_uniformly(state, task)
        designed = explore_with(state, task, NoisyDesign(solution.design, fitted))
        calls += designed.oracle_calls + even.oracle_calls
        if led:
            share = even_share(error=error, advantage=even.price / designed.price)
            designed = explore_with(state, task, NoisyDesign(replace(solution.design, even_share=share), fitted))
            designed = replace(designed, price=believed_price(designed.price, even=even.price))
            calls += designed.oracle_calls
        else:
            designed, more = _tempered(state, task, designed, solution.design, fitted)
            calls += more
        if even.price <= (1.0 if led else MIN_PRICE_ADVANTAGE) * designed.price:
            return replace(even, oracle_calls=calls)
        pool = () if listed else heaviest(solution.design, most=MAX_POOLED_POLICIES)
        return replace(designed, pool=pool, oracle_calls=calls)

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


def believed_price(price: float, *, even: float) -> float:
    """Return the shrunk price of a design of a large class; price: its estimate; even: that of uniform exploration."""
    return even * (price / even) ** BELIEVED_SAVING if price < even else price


def _tempered(
    state: TrialState, task: DesignTask, designed: Exploration, design: Design, fitted: FittedModel
) -> tuple[Exploration, int]:
    """Return the cheapest of a design and its mixtures with uniform exploration, if rare rewards make it costly.

    A design is solved by variances, and plays some actions so rarely that one of their rare rewards ruins a bet. Also
    return the oracle calls it took.
    """
    plain = price_propensities(task, designed.sampler.propensities(task.contexts))
    if designed.price <= COSTLY_DESIGN * plain.upper:
        return designed, plain.oracle_calls
    mixed = [
        explore_with(state, task, NoisyDesign(replace(design, even_share=share), fitted)) for share in TEMPERING_SHARES
    ]
    calls = plain.oracle_calls + sum(one.oracle_calls for one in mixed)
    return min((designed, *mixed), key=lambda one: one.price), calls


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
        cls, setting: Setting, *, pilot: Pilot = 0, growth: Growth = DEFAULT_GROWTH, answer: Wanted = "lottery"
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
