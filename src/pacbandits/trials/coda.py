"""CODA that people can afford: optimal designs, pooled data, a betting certificate.

Each round's propensities solve the ratio form for the gaps seen so far,

    min_p max_π V_π(p; q)/(ε + aΔ̂_π)²,     V weighted by the model's guess of each action's reward variance,

through the class's oracles, with the probability floor inside. Gaps are believed less the larger their error is. The
slope a is below 1 for another reason: to refute a policy the data must show a gap that chance alone would not, for the
unluckiest of many policies of that gap; near the best policy that costs nothing, as q is the luckiest there. A design
that does not seem clearly cheaper than uniform exploration is not played: the difference would be noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate import Ledger
from pacbandits.design import DesignTask, Shifted, best_pricing, price_propensities, solve_by_pricing, solve_enumerated
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.base import EnumeratedClass, PolicyClass
from pacbandits.policies.counting import counting
from pacbandits.policies.finite import sum_by_id
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Design, Policy
from pacbandits.rewards import Fitted
from pacbandits.trials.protocol import Profile, Setting
from pacbandits.trials.trial import Exploration, Growth, Pilot, Trial, TrialState, fit, mixture, uniform_design

LEAST_VARIANCE = 0.08  # of a reward, however sure the model is
LEAST_PRICE = 1.0  # of a design; it would be 0 where there is nothing to tell apart
WORTH = 1.5  # times cheaper than uniform exploration a design must seem to be played
FLOOR = 0.2  # the least probability of an action, as a share of uniform exploration
SLOPE = 0.6  # how much of a gap counts
DOUBT = 1.0  # how many standard errors a gap is marked down by
PATIENCE = 1.5  # a design is kept until the data have grown by this factor
MOST_COLUMNS_KEPT = 200  # of one design, to start the next from


@dataclass(frozen=True, eq=False)
class NoisyDesign:
    """A design that weighs each action by a model's guess of its reward variance."""

    design: Design
    fitted: Fitted

    @property
    def n_actions(self) -> int:
        return self.design.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """p(a|c) as (n, A)."""
        return self.design.propensities(contexts, noise=variances(self.fitted.predict(contexts)))


@dataclass(frozen=True)
class Coda(Trial):
    """CODA with a betting certificate.

    floor: the least probability of an action, as a share of uniform exploration. precision: the relative gap to which
    designs are solved through oracles.
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

    floor: float = field(default=FLOOR, kw_only=True)
    precision: float = field(default=0.1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.floor <= 1:
            raise InputError(f"floor is a share of uniform exploration, from 0 to 1; got {self.floor}")
        if not 0 < self.precision < float("inf"):
            raise InputError(f"precision must be positive and finite, got {self.precision}")

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        pilot: Pilot = 0,
        growth: Growth = 0.3,
        floor: Annotated[
            float, About("the least probability of an action, as a share of uniform exploration", least=0, most=1)
        ] = FLOOR,
        precision: Annotated[float, About("the relative gap to which designs are solved", above=0)] = 0.1,
    ) -> Coda:
        """CODA for this setting."""
        options = cls.options_for(setting, pilot=pilot, growth=growth)
        return cls(setting.epsilon, setting.delta, **options, floor=floor, precision=precision)

    def explore(self, state: TrialState, *, progress: Progress | None = None) -> Exploration:
        """The design for the gaps seen so far, or the last one while that is recent enough."""
        if (recent := still_recent(state)) is not None:
            return recent
        fitted = fit(state)
        task = design_task(state, fitted, epsilon=self.epsilon, floor=self.floor)
        if isinstance(state.policies, EnumeratedClass):
            solution, calls = solve_enumerated(task, tolerance=0.01), 0
        else:
            counted = counting(state.policies)
            solution = solve_by_pricing(
                task,
                pricing=best_pricing(counted),
                tolerance=self.precision,
                max_rounds=25 if state.policies.exact else 8,
                seeds=state.pool,
                progress=progress,
            )
            calls = counted.calls
        even = explore_uniformly(state, task)
        if even.price < WORTH * solution.upper:
            return replace(even, oracle_calls=calls + even.oracle_calls)
        return Exploration(
            NoisyDesign(solution.design, fitted),
            max(solution.upper, LEAST_PRICE),
            state.samples,
            pool=() if isinstance(state.policies, EnumeratedClass) else solution.design.support[:MOST_COLUMNS_KEPT],
            oracle_calls=calls,
        )


def explore_uniformly(state: TrialState, task: DesignTask) -> Exploration:
    """Uniform exploration, and its price for the task."""
    n_actions = state.policies.n_actions
    price = price_propensities(task, np.full((len(task.contexts), n_actions), 1.0 / n_actions))
    return Exploration(
        uniform_design(state.policy),
        max(price.upper, LEAST_PRICE),
        state.samples,
        oracle_calls=price.oracle_calls,
    )


def design_task(state: TrialState, fitted: Fitted, *, epsilon: float, floor: float) -> DesignTask:
    """The ratio form for the gaps that the data of a trial show."""
    assert state.log is not None
    assert state.current is not None
    assert state.leader is not None
    ledger = Ledger.of(state.log, fitted.predict(state.log.contexts))
    return gap_task(
        ledger,
        state.policies,
        state.contexts,
        mixed=mixture(state.played, ledger.contexts),
        reference=state.leader,
        fitted=fitted,
        epsilon=epsilon,
        price=state.current.price,
        floor=floor,
    )


def gap_task(
    ledger: Ledger,
    policies: PolicyClass,
    contexts: Contexts | None,
    *,
    mixed: FloatArray,
    reference: Policy,
    fitted: Fitted,
    epsilon: float,
    price: float,
    floor: float,
    doubt: float = DOUBT,
) -> DesignTask:
    """The ratio form for the gaps that a ledger shows against a reference, less `doubt` standard errors.

    contexts: what is known of their distribution; None for no more than the ledger's own. mixed (m, A): propensities of
    the ledger's contexts, rounds taken together. price: of the exploration so far, V/d². A standard error √v is no sum
    over contexts, but v is one, and √v ≤ (v/η + η)/2 for any η > 0; ours is about that of the policies that matter.
    """
    gaps, squares = ledger.gaps(mixed, reference=reference(ledger.contexts))
    if contexts is None:
        shares = np.add.reduceat(ledger.rows.repeats, ledger.rows.starts[:-1]) / ledger.samples
        seen, where = replace(ledger.contexts, weights=shares), np.arange(len(ledger.contexts))
    else:
        seen, where = contexts.joined(ledger.contexts)
    eta = 1.5 * epsilon * min(1.0, np.sqrt(price / ledger.samples))
    scores = sum_by_id(where, gaps - doubt / (2.0 * eta) * squares, n=len(seen))
    return DesignTask(
        policies,
        seen,
        reference=reference,
        gaps=scores - doubt * eta / 2.0 / len(seen),
        scale=Shifted(epsilon, SLOPE),
        noise=variances(fitted.predict(seen)),
        floor=floor / policies.n_actions,
    )


def variances(means: FloatArray) -> FloatArray:
    """Of rewards in [0, 1] with these means: at most m(1 − m), and never below a floor."""
    return np.maximum(means * (1.0 - means), LEAST_VARIANCE)


def still_recent(state: TrialState) -> Exploration | None:
    """What is being played, unless it is the pilot or the data have outgrown it."""
    current = state.current
    fresh = current is not None and current.since > 0 and state.samples < PATIENCE * current.since
    return current if fresh else None
