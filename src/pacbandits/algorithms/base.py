"""What an algorithm is: `start`, `design`, `absorb`, `result` over an immutable state.

    state = algorithm.start(policies, contexts)
    while (plan := algorithm.design(state)) is not None:
        log = …play plan.sampler for plan.samples interactions, in simulation or for real…
        state = algorithm.absorb(state, plan, log)
    answer = algorithm.result(state)

Every step is a pure function; what came of a run is a function of its logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from pacbandits.certificate import Certificate, LinearCertificate
from pacbandits.confidence import round_confidence, round_epsilon, rounds_needed
from pacbandits.errors import InputError, check_delta
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Log, Policy, RewardBounds, Sampler

# Logged propensities may differ from the planned ones by rounding, but not by more than this.
_SAME_PROPENSITY = 1e-9
_BLOCK = 2**18  # rows compared at a time

Progress = Callable[[str], None]
Details = Mapping[str, float | int | str]


@dataclass(frozen=True, eq=False)
class Plan:
    """A round to be played: `samples` interactions with actions drawn from `sampler`.

    epsilon: the accuracy ε_l that the round is for. details: figures for the record.
    """

    round_number: int
    epsilon: float
    sampler: Sampler
    samples: int
    oracle_calls: int
    details: Details


@dataclass(frozen=True, eq=False)
class State:
    """What an algorithm knows between rounds.

    contexts: the population with its weights ν, or a sample D of it. policy: the best one so far. round_number: of the
    last round absorbed, 0 before the first. history: one mapping of figures a round.
    """

    policies: PolicyClass
    contexts: Contexts
    policy: Policy
    round_number: int = 0
    samples: int = 0
    oracle_calls: int = 0
    finished: bool = False
    history: tuple[Details, ...] = ()


@dataclass(frozen=True, eq=False)
class Answer:
    """A policy, and what is promised of it in words."""

    policy: Policy
    finished: bool
    guarantee: str
    certificate: Certificate | LinearCertificate | None = None


StateOf = TypeVar("StateOf", bound=State)


class Algorithm(Protocol[StateOf]):
    """A best-policy identification algorithm."""

    name: ClassVar[str]

    @property
    def rounds(self) -> int:
        """How many rounds it expects to take."""
        ...

    def start(self, policies: PolicyClass, contexts: Contexts) -> StateOf:
        """The state before the first round."""
        ...

    def design(self, state: StateOf, *, progress: Progress | None = None) -> Plan | None:
        """The next round, or None when the answer is known."""
        ...

    def absorb(self, state: StateOf, plan: Plan, log: Log) -> StateOf:
        """The state after a round was played as planned."""
        ...

    def result(self, state: StateOf) -> Answer:
        """The answer as far as it is known."""
        ...


@dataclass(frozen=True)
class PaperAlgorithm:
    """What the paper's algorithms have in common: dyadic accuracies, a split of δ, and the words of the guarantee.

    scale: multiplies every sample size; below 1 the guarantee is void. rewards: what is assumed of rewards.
    sampled_contexts: how many contexts were drawn to stand for ν; None when ν is known. floor: the least probability of
    an action as a share of uniform exploration, for contexts that the sample does not have.
    """

    name: ClassVar[str] = ""

    epsilon: float
    delta: float
    scale: float = field(default=1.0, kw_only=True)
    rewards: RewardBounds = field(default=RewardBounds(), kw_only=True)
    sampled_contexts: int | None = field(default=None, kw_only=True)
    floor: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < float("inf"):
            raise InputError(
                f"{self.name} needs an epsilon above 0, as it takes log₂(1/epsilon) rounds; got {self.epsilon}"
            )
        check_delta(self.delta)
        if not 0 < self.scale < float("inf"):
            raise InputError(f"scale must be positive and finite, got {self.scale}")
        if not 0 <= self.floor < 1:
            raise InputError(f"floor is a share of uniform exploration, from 0 to below 1; got {self.floor}")

    @property
    def rounds(self) -> int:
        """⌈log₂(1/ε)⌉."""
        return rounds_needed(self.epsilon)

    def confidence(self, policies: PolicyClass, round_number: int) -> float:
        """log(1/δ_l)."""
        return round_confidence(self.delta, round_number=round_number, log_size=policies.log_size)

    def plan(
        self, state: State, *, sampler: Sampler, samples: int, oracle_calls: int = 0, details: Details | None = None
    ) -> Plan:
        """The round after `state`."""
        number = state.round_number + 1
        return Plan(number, round_epsilon(number), sampler, samples, oracle_calls, details or {})

    def advance(
        self,
        state: StateOf,
        plan: Plan,
        log: Log,
        *,
        policy: Policy,
        finished: bool,
        details: Details,
        calls: int = 0,
        **changes: Any,
    ) -> StateOf:
        """`state` after the round of `plan`, with its figures in the history.

        calls: how often the oracle was asked since the plan. changes: to the fields of the algorithm's own state.
        """
        figures = {"round": plan.round_number, "epsilon": plan.epsilon, "samples": log.samples}
        return replace(
            state,
            policy=policy,
            round_number=plan.round_number,
            samples=state.samples + log.samples,
            oracle_calls=state.oracle_calls + plan.oracle_calls + calls,
            finished=finished,
            history=(*state.history, figures | dict(plan.details) | dict(details) | {"policy": policy.describe()}),
            **changes,
        )

    def result(self, state: State) -> Answer:
        """The best policy so far, and what is promised of it."""
        return Answer(state.policy, state.finished, self.guarantee(state))

    def guarantee(self, state: State) -> str:
        """What is promised of the policy of `state`, and under which assumptions; or why nothing is."""
        if not state.finished:
            return f"none: stopped after {state.round_number} of about {self.rounds} rounds"
        if self.scale < 1:
            return f"void: sample sizes were multiplied by {self.scale:g}, and the proof needs 1"
        words = (
            f"except with probability {self.delta:g} the policy is within {self.epsilon:g} of the best of its class; "
            f"assumes that contexts are independent, that {self.rewards.describe()}"
        )
        if self.sampled_contexts is None:
            words += ", and that the distribution of contexts is known"
        else:
            words += (
                f", and that {self.sampled_contexts:,} contexts stand well enough for their distribution "
                "(policies that act alike on them are not told apart)"
            )
        return words if state.policies.exact else words + ", and that the argmax oracle, which is not exact, was right"


def check_played(state: State, plan: Plan, log: Log, *, rewards: RewardBounds) -> None:
    """Raise unless the log can have come from playing the plan after the state, with rewards as assumed."""
    number, n_actions = plan.round_number, state.policies.n_actions
    if number != state.round_number + 1:
        raise InputError(
            f"the plan is for round {number}, but round {state.round_number + 1} comes next; "
            "design and absorb from the same state"
        )
    if not n_actions == log.n_actions == plan.sampler.n_actions:
        raise InputError(
            f"the policies have {n_actions} actions, the plan of round {number} has {plan.sampler.n_actions} and the "
            f"log {log.n_actions}; log a propensity for each action of the class"
        )
    if log.least is not None:
        raise InputError(
            f"the log of round {number} tells the propensity of the played action alone; log that of every action, as "
            "the plan has it"
        )
    if log.samples != plan.samples:
        raise InputError(f"round {number} asks for {plan.samples} interactions, but the log has {log.samples}")
    if rewards.in_unit and (log.rewards.min() < 0 or log.rewards.max() > 1):
        row = int(np.argmax((log.rewards < 0) | (log.rewards > 1)))
        raise InputError(
            f"rewards are assumed to lie in [0, 1], but row {row} of the log has {log.rewards[row]:.6g}; rescale them, "
            "or state other RewardBounds"
        )
    _check_propensities(plan, log)


def _check_propensities(plan: Plan, log: Log) -> None:
    """Compare every row with the plan, whose propensities are computed once for each context."""
    first, which = log.contexts.distinct()
    planned = plan.sampler.propensities(log.contexts.take(first))
    for start in range(0, len(log), _BLOCK):
        rows = slice(start, start + _BLOCK)
        off = np.abs(log.propensities[rows] - planned[which[rows]])
        if off.max() > _SAME_PROPENSITY:
            row, action = (int(i) for i in np.unravel_index(off.argmax(), off.shape))
            raise InputError(
                f"row {start + row} of the log has propensity {log.propensities[start + row, action]:.6g} for action "
                f"{action}, but the plan of round {plan.round_number} has {planned[which[start + row], action]:.6g}; "
                "play each round with its own plan"
            )
