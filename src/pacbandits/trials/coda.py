"""CODA that people can afford: optimal designs, pooled data, a betting certificate.

Each round's propensities solve the ratio form for the gaps seen so far,

    min_p max_π V_π(p; q)/(ε + aΔ̂_π)²,     V weighted by the model's guess of each action's reward variance,

through the class's oracles, with the probability floor inside. Gaps are believed less the larger their error is,
and a design is mixed with uniform exploration by how large it is (`exploration.even_share`): a design that follows
noise does worse than the plain trial. The slope a is below 1 for another reason: to refute a policy the data must show
a gap that chance alone would not, for the unluckiest of many policies of that gap; near the best policy that costs
nothing, as q is the luckiest there. A design that does not seem cheaper than uniform exploration even so is not played.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from pacbandits.checks import number, positive, settle
from pacbandits.design import (
    DesignTask,
    best_pricing,
    price_propensities,
    solve_by_pricing,
    solve_enumerated,
)
from pacbandits.options import About
from pacbandits.policies.base import CountedClass
from pacbandits.progress import Progress
from pacbandits.records import Design
from pacbandits.rewards import FittedModel
from pacbandits.trials.exploration import (
    NoisyDesign,
    even_share,
    explore_uniformly,
    explore_with,
    find_gaps,
    gap_task,
    heaviest,
    still_recent,
)
from pacbandits.trials.protocol import Profile, Setting
from pacbandits.trials.trial import DEFAULT_GROWTH, Exploration, Growth, Pilot, Trial, TrialState, Wanted

# Of a small class, a design is played whole, if it seems so many times cheaper than uniform exploration: there are few
# policies to be wrong about, and what is played evenly would cost more than a wrong gap does.
MIN_PRICE_ADVANTAGE = 1.5
DEFAULT_FLOOR_SHARE = 0.2  # of uniform exploration, the least probability of an action
DEFAULT_PRECISION = 0.1  # the relative gap to which designs are solved through oracles
# Of a large class: as a share of the relative error of gaps, to which a design need not be solved any better; the most.
LOOSENED_ERROR_SHARE, MAX_LOOSENED = 0.3, 0.6
LISTED_PRECISION = 0.01  # the relative gap to which designs are solved over a list
MAX_PRICING_ROUNDS, MAX_PRICING_ROUNDS_INEXACT = 25, 8  # of one design; fewer with an oracle that is not exact
# Of a small class: how much more a design costs than it knows before it is mixed, and what is then played evenly.
COSTLY_DESIGN, TEMPERING_SHARES = 1.1, (0.3, 0.6)
# Of a large class: what is believed, on a log scale, of what a design seems to save. It is priced by the gaps that it
# was fitted to, and stakes by that price would be too large. By the truth, what seems 1.35 to 2.1 times cheaper than
# uniform exploration is 1.2 to 1.7 times (trees on digits, and on 1,000 contexts with 8 actions), about the root.
BELIEVED_SAVING = 0.5
MAX_POOLED_POLICIES = 200  # the heaviest of one design, to start the next from


@dataclass(frozen=True)
class Coda(Trial):
    """CODA with a betting certificate: explores by optimal designs, stops when the answer is proven.

    epsilon, delta: how near to the best, 0 for the best itself, and with what probability of being wrong.
    rewards: must be known to lie in [0, 1].
    model: the reward model; by default one that fits the contexts.
    pilot: the size of the first round, by default 50 an action, or 200.
    growth: the largest round, as a share of what was seen.
    single: whether a lottery between policies will not do.
    floor: the least probability of an action, as a share of uniform exploration.
    precision: the relative gap to which designs are solved through oracles, once their gaps are known as well.

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
        """CODA for this setting."""
        return cls(
            setting.epsilon,
            setting.delta,
            rewards=setting.rewards,
            pilot=pilot or None,
            growth=growth,
            single=answer == "single",
            floor=floor,
            precision=precision,
        )

    def explore(self, state: TrialState, *, progress: Progress | None = None) -> Exploration:
        """The design for the gaps seen so far, or the last one while that is recent enough."""
        if (recent := still_recent(state)) is not None:
            return recent
        fitted = state.fitted
        findings, options = find_gaps(state, fitted), {"epsilon": self.accuracy(state), "floor": self.floor}
        cautious = gap_task(findings, state.policies, **options)
        # The gap of a policy is known to about √(V/n), and the price of what was played is V/d² of the policy that it
        # served worst: so the largest error, relative to what must be told apart, is √(price/n).
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


def believed_price(price: float, *, even: float) -> float:
    """What a design of a large class is taken to cost, of what it seems to; even: the same of uniform exploration."""
    return even * (price / even) ** BELIEVED_SAVING if price < even else price


def _tempered(
    state: TrialState, task: DesignTask, designed: Exploration, design: Design, fitted: FittedModel
) -> tuple[Exploration, int]:
    """The cheapest of a design and its mixtures with even exploration, if bets lose more to rare rewards than it knows.

    A design goes by variances, and plays some actions so rarely that one of their rare rewards ruins a bet. Also how
    many oracle calls that took.
    """
    plain = price_propensities(task, designed.sampler.propensities(task.contexts))
    if designed.price <= COSTLY_DESIGN * plain.upper:
        return designed, plain.oracle_calls
    mixed = [
        explore_with(state, task, NoisyDesign(replace(design, even_share=share), fitted)) for share in TEMPERING_SHARES
    ]
    calls = plain.oracle_calls + sum(one.oracle_calls for one in mixed)
    return min((designed, *mixed), key=lambda one: one.price), calls
