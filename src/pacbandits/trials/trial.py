"""A trial that stops by its certificate: pooled data, a reward model refitted between rounds, bets made in advance.

    until the certificate holds:
        choose propensities and the scale of the bets for the next round      (what `uniform` and `coda` do differently)
        play the round
        q = the policy of largest doubly robust value on all data
        certify q on all data, or a policy named earlier on the data since       (pacbandits.certificate)
        when a new design is due, name q

Validity rests on the certificate alone; everything else only decides how many samples it takes.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate import Bets, Certificate, Evidence, Ledger, Named, best_certificate, with_name, worth_naming
from pacbandits.confidence import check_delta
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Design, Log, Policy, RewardBounds, Sampler
from pacbandits.rewards import Fitted, RewardModel, default_model, no_idea
from pacbandits.trials.protocol import Answer, Plan, Setting, State, check_played

# Of the bet that the scale of a round asks for. Large bets refute near-optimal policies, small ones those that are far
# off but rely on rare actions.
MULTIPLIERS = (0.25, 0.5, 1.0, 2.0)

Pilot = Annotated[int, About("the size of the first round; 0: 50 an action, or 200", least=0)]
Growth = Annotated[float, About("the largest round, as a share of what was seen", above=0)]


# How many standard errors a policy is marked down by when the best one is chosen: one that relies on rare actions often
# looks best by luck. A standard error √v is no sum over contexts, but at most (v/ε + ε)/2, which is one.
CAUTION = 1.0


@dataclass(frozen=True, eq=False)
class TrialState(State):
    """What a trial knows between rounds; a `State`, and

    model: the reward model.
    predictions (n, A): of the model before each row's round; None before the first.
    scales: of the bets, one a round.
    pool: policies worth starting the next design from.
    current: what is being played.
    played: every sampler in turn, with how many samples it was used for.
    leader: the best policy by all data, which `policy`, the one with most to show for it, may lag behind.
    named: policies that later rounds test.
    """

    model: RewardModel = field(kw_only=True)
    predictions: FloatArray | None = None
    scales: tuple[float, ...] = ()
    pool: tuple[Policy, ...] = ()
    current: Exploration | None = None
    played: tuple[tuple[Sampler, int], ...] = ()
    leader: Policy | None = None
    named: tuple[Named, ...] = ()
    certificate: Certificate | None = None


@dataclass(frozen=True, eq=False)
class Exploration:
    """A way to play, the price it was found to have (V/d² of the worst served policy), and since how many samples."""

    sampler: Sampler
    price: float
    since: int
    pool: tuple[Policy, ...] = ()
    oracle_calls: int = 0


@dataclass(frozen=True, eq=False)
class TrialPlan(Plan):
    """A round, and what it is played with."""

    exploration: Exploration = field(kw_only=True)
    scale: float = field(kw_only=True)


@dataclass(frozen=True)
class Trial:
    """What `uniform` and `coda` share.

    rewards: must be known to lie in [0, 1]. model: the reward model; by default one that fits the contexts. pilot: the
    size of the first round, by default 50 an action, or 200. growth: the largest round, as a share of what was seen.
    """

    name: ClassVar[str] = ""

    epsilon: float
    delta: float
    rewards: RewardBounds = field(default=RewardBounds(), kw_only=True)
    model: RewardModel | None = field(default=None, kw_only=True)
    pilot: int | None = field(default=None, kw_only=True)
    growth: float = field(default=0.3, kw_only=True)

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < float("inf"):
            raise InputError(f"{self.name} needs an epsilon above 0; got {self.epsilon}")
        check_delta(self.delta)
        if self.pilot is not None and not (self.pilot >= 1 and self.pilot == int(self.pilot)):
            raise InputError(f"pilot must be a whole number, 1 or more; got {self.pilot}")
        if not 0 < self.growth < float("inf"):
            raise InputError(f"growth must be positive and finite, got {self.growth}")
        if not self.rewards.in_unit:
            raise InputError(
                f"{self.name} needs rewards in [0, 1], and these are not known to be; rescale them, or use rage or "
                "rage-free, or noise=bernoulli where a problem has that option"
            )

    @staticmethod
    def options_for(setting: Setting, *, pilot: int, growth: float) -> dict[str, Any]:
        """What a setting and the options mean for the fields that all trials have."""
        return {"rewards": setting.rewards, "pilot": pilot or None, "growth": growth}

    @property
    def rounds(self) -> int:
        """Not known beforehand."""
        return 0

    def start(self, policies: PolicyClass, contexts: Contexts) -> TrialState:
        """Nothing seen."""
        first = policies.argmax(contexts, np.zeros((len(contexts), policies.n_actions)))
        model = default_model(contexts) if self.model is None else self.model
        return TrialState(policies, contexts, first, oracle_calls=1, finished=self.epsilon >= 1, model=model)

    def design(self, state: TrialState, *, progress: Progress | None = None) -> TrialPlan | None:
        """The next round."""
        if state.finished:
            return None
        n_actions = state.policies.n_actions
        if state.log is None:
            pilot = max(200, 50 * n_actions) if self.pilot is None else self.pilot
            # A policy that differs everywhere has V = 2A under uniform exploration; rewards vary by 1/4 at most.
            start = Exploration(uniform_design(state.policy), 0.5 * n_actions / self.epsilon**2, 0)
            return self._plan(state, start, pilot)
        explored = self.explore(state, progress=progress)
        return self._plan(state, explored, self._round_size(state, explored))

    def absorb(self, state: TrialState, plan: Plan, log: Log) -> TrialState:
        """Add a round; choose and certify the best policy anew."""
        check_played(state, plan, log, rewards=self.rewards)
        if not isinstance(plan, TrialPlan):
            raise InputError(f"the plan is not one of {self.name}")
        before = state.log
        fitted = fit(state)
        log = replace(log, rounds=np.full(len(log), state.round_number))
        seen = log if before is None else before.followed_by(log)
        new = fitted.predict(log.contexts)
        predictions = new if state.predictions is None else np.concatenate([state.predictions, new])
        scales = (*state.scales, plan.scale)
        ledger = Ledger.of(seen, predictions)
        played = merge(state.played, plan.sampler, log.samples)
        gaps, squares = ledger.gaps(mixture(played, ledger.contexts), reference=state.policy(ledger.contexts))
        best = state.policies.argmax(ledger.contexts, -gaps - CAUTION / (2.0 * self.epsilon) * squares)
        named, reserved = state.named, worth_naming(state.policies)
        if reserved and state.leader is not None and plan.exploration.since == state.samples:
            named = with_name(named, state.leader, state.contexts, round_number=state.round_number)
        evidence = Evidence(
            seen, ledger, state.policies, self.epsilon, self.delta, model=state.model.to_json(), reserved=reserved
        )
        certificate, calls = best_certificate(evidence, leader=best, named=named, bets=Bets(MULTIPLIERS, scales))
        return state.after(
            plan,
            log,
            policy=certificate.policy,
            finished=certificate.certified,
            details={
                "certified_epsilon": certificate.certified_epsilon,
                "wealth": certificate.value,
                "needed": certificate.threshold,
            },
            oracle_calls=calls + 1,
            log=seen,
            predictions=predictions,
            scales=scales,
            pool=plan.exploration.pool or state.pool,
            current=plan.exploration,
            played=played,
            leader=best,
            named=named,
            certificate=certificate,
        )

    def result(self, state: TrialState) -> Answer:
        """The policy and its certificate."""
        if state.certificate is None:
            words = "none: nothing was played" if self.epsilon < 1 else "no gap is larger than 1"
            return Answer(state.policy, state.finished, words)
        return Answer(state.policy, state.finished, state.certificate.promise(), state.certificate)

    @abstractmethod
    def explore(self, state: TrialState, *, progress: Progress | None = None) -> Exploration:
        """How to play next, given that something was seen."""

    def _round_size(self, state: TrialState, explored: Exploration) -> int:
        """A third of what seems to be missing, but no more than the growth allows, and not too little."""
        certificate = state.certificate
        assert certificate is not None
        missing = max(certificate.threshold - certificate.value, 0.0) * 2.0 * explored.price
        least, most = state.samples / 25, state.samples * self.growth
        return max(1, int(np.clip(missing / 3, least, max(least, most))))

    def _plan(self, state: TrialState, explored: Exploration, samples: int) -> TrialPlan:
        return TrialPlan(
            round_number=state.round_number + 1,
            epsilon=self.epsilon,
            sampler=explored.sampler,
            samples=samples,
            oracle_calls=explored.oracle_calls,
            details={"price": explored.price},
            exploration=replace(explored, oracle_calls=0),
            scale=1.0 / (explored.price * self.epsilon),
        )


def fit(state: TrialState) -> Fitted:
    """The model of all that was seen."""
    return no_idea(state.policies.n_actions) if state.log is None else state.model.fit(state.log)


def merge(played: tuple[tuple[Sampler, int], ...], sampler: Sampler, samples: int) -> tuple[tuple[Sampler, int], ...]:
    """Samplers and how often each was used, after one more round."""
    if played and played[-1][0] is sampler:
        return (*played[:-1], (sampler, played[-1][1] + samples))
    return (*played, (sampler, samples))


def mixture(played: tuple[tuple[Sampler, int], ...], contexts: Contexts) -> FloatArray:
    """The propensities (m, A) of a sampler drawn at random by how often each was used."""
    whole = sum(samples for _, samples in played)
    parts = [samples / whole * sampler.propensities(contexts) for sampler, samples in played]
    return np.sum(parts, axis=0)


def uniform_design(reference: Policy) -> Design:
    """Uniform exploration."""
    return Design((), np.empty(0), reference)
