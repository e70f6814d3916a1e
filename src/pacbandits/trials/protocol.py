"""The protocol of an algorithm: `start`, `design`, `absorb`, `result` over an immutable state.

    state = algorithm.start(policies, contexts)
    while (plan := algorithm.design(state)) is not None:
        log = …play plan.sampler for plan.samples interactions, in simulation or for real…
        state = algorithm.absorb(state, plan, log)
    answer = algorithm.result(state)

Every step is a pure function; the result of a run is a function of its logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.certificate.claim import Claim
from pacbandits.checks import flag, instance, settle, whole_number
from pacbandits.confidence import check_epsilon
from pacbandits.errors import InputError, plain
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.progress import Progress
from pacbandits.records import (
    Chosen,
    Contexts,
    Log,
    RewardBounds,
    Sampler,
    check_chosen,
    check_contexts,
    check_log,
    check_sampler,
)
from pacbandits.records.columns import unlike

# Check that a log can have come from a plan: its contexts and its propensities.


MAX_PROPENSITY_ROUNDING = 1e-9  # between logged and planned propensities
ROWS_COMPARED_AT_A_TIME = 2**18


def check_like(known: Contexts, seen: Contexts) -> None:
    """Raise unless contexts seen have the features of those known before, and contexts with the same id agree."""
    if (known.names, known.categories) != (seen.names, seen.categories):
        differ = [name for name in (*known.names, *seen.names) if (name in known.names) != (name in seen.names)]
        what = f"'{plain(differ[0])}' is in one of them alone" if differ else "their order, kinds or labels differ"
        raise InputError(
            f"the contexts of the log have other features than those that the algorithm started with: {what}; log "
            "the same ones, with the same labels"
        )
    if (known.phi is None) != (seen.phi is None):
        raise InputError(
            f"the contexts of the log {'lack' if seen.phi is None else 'have'} phi, unlike those that the algorithm "
            "started with"
        )
    if seen.ids is None:
        return
    _, first, which = np.unique(seen.ids, return_index=True, return_inverse=True)
    _check_alike(seen, seen, mine=first[which], theirs=np.arange(len(seen)))
    if known.ids is not None:
        ids, own = np.unique(known.ids, return_index=True)
        spot = np.minimum(np.searchsorted(ids, seen.ids[first]), len(ids) - 1)
        shared = ids[spot] == seen.ids[first]
        _check_alike(known, seen, mine=own[spot[shared]], theirs=first[shared])


def _check_alike(one: Contexts, log: Contexts, *, mine: IntArray, theirs: IntArray) -> None:
    """Raise unless rows `mine` (m,) of `one` and `theirs` (m,) of the log, which share ids, are the same contexts."""
    apart = unlike(one.features[mine], log.features[theirs])
    if one.phi is not None and log.phi is not None:
        # Rows of one table are equal if their numbers are; otherwise the tables are compared.
        rows, others = one.phi.rows[mine], log.phi.rows[theirs]
        new = np.flatnonzero((rows != others) | (one.phi.table is not log.phi.table))
        if one.phi.table.shape[1:] != log.phi.table.shape[1:]:
            apart[:] = True
        elif len(new):
            apart[new] |= (one.phi.table[rows[new]] != log.phi.table[others[new]]).any(axis=(1, 2))
    if apart.any():
        row = int(theirs[int(np.argmax(apart))])
        assert log.ids is not None
        raise InputError(
            f"row {row} of the log has context id {log.ids[row]}, but other features than the context of that id has "
            "elsewhere; give contexts that differ ids that differ"
        )


def check_propensities(sampler: Sampler, log: Log, *, round_number: int) -> None:
    """Raise unless every row has the propensities of the plan, and an action with positive probability.

    The sampler is evaluated once for each distinct context.
    """
    first, which = log.contexts.distinct()
    asked = log.contexts.take(first)
    planned = floats(
        sampler.propensities(asked), name="propensities of the plan", shape=(len(asked), sampler.n_actions)
    )
    for start in range(0, len(log), ROWS_COMPARED_AT_A_TIME):
        rows = slice(start, start + ROWS_COMPARED_AT_A_TIME)
        wanted: FloatArray = planned[which[rows]]
        off = np.abs(log.propensities[rows] - wanted)
        # An action that the plan gives probability 0 must not have been played, however small the rounding.
        never = np.flatnonzero(wanted[np.arange(len(wanted)), log.actions[rows]] <= 0)
        off[never, log.actions[rows][never]] = np.inf
        if off.max() > MAX_PROPENSITY_ROUNDING:
            row, action = (int(i) for i in np.unravel_index(off.argmax(), off.shape))
            raise InputError(
                f"row {start + row} of the log has propensity {log.propensities[start + row, action]:.6g} for action "
                f"{action}, but the plan of round {round_number} has {wanted[row, action]:.6g}; play each round with "
                "its own plan"
            )


Details = Mapping[str, float | int | str]


@dataclass(frozen=True)
class Profile:
    """A description of an algorithm, and its capabilities.

    name: its name in commands.
    source: its origin, in a line.
    classes: the policy classes it is for.
    assumes: the assumptions of its guarantee.
    guarantees: its guarantee.
    samples: its sample size, in words.
    certifies: whether its answers carry a certificate, and its states a log.
    keeps_state: whether its states can be saved and loaded.
    proves: whether it stops by itself, with a proven answer.
    """

    name: str
    source: str
    classes: str
    assumes: str
    guarantees: str
    samples: str
    certifies: bool = False
    keeps_state: bool = False
    proves: bool = True


@dataclass(frozen=True, eq=False)
class Setting:
    """The inputs from which an algorithm is made by its name.

    policies: the class to search.
    epsilon, delta: how close to the best policy's value, and the probability of being wrong.
    rewards: known bounds on rewards.
    sampled_contexts: the number of contexts sampled from their distribution; None when the distribution is known.
    improve_on, gain: the action over which a gain is to be proven, and the smallest one; None to stop by ε.
    """

    policies: PolicyClass
    epsilon: float
    delta: float
    rewards: RewardBounds
    sampled_contexts: int | None = None
    improve_on: int | None = None
    gain: float | None = None

    def __post_init__(self) -> None:
        settle(self, policies=check_class(self.policies))
        instance(self.rewards, RewardBounds, name="rewards")
        settle(self, sampled_contexts=check_sampled_contexts(self.sampled_contexts))


def check_sampled_contexts(count: object, *, name: str = "sampled_contexts") -> int | None:
    """Return a checked number of sampled contexts, at least 1; None (the distribution is known) is kept."""
    return None if count is None else whole_number(count, name=name, least=1)


@dataclass(frozen=True, eq=False)
class Plan:
    """A round to play: `samples` interactions with actions drawn from `sampler`.

    epsilon: the accuracy ε_l that the round is for. details: figures for the history.
    """

    round_number: int
    epsilon: float
    sampler: Sampler
    samples: int
    oracle_calls: int = 0
    details: Details = field(default_factory=dict[str, float | int | str])

    def __post_init__(self) -> None:
        check_sampler(self.sampler)
        instance(self.details, Mapping, name="details")
        settle(self, details=dict(self.details))
        settle(self, round_number=whole_number(self.round_number, name="round_number", least=1))
        settle(self, epsilon=check_epsilon(self.epsilon), samples=whole_number(self.samples, name="samples", least=1))
        settle(self, oracle_calls=whole_number(self.oracle_calls, name="oracle_calls", least=0))


@dataclass(frozen=True, eq=False)
class State:
    """The state of an algorithm between rounds.

    policies: the class.
    contexts: the population with its weights ν, or a sample D of it.
    policy: the best policy so far.
    round_number: the last round absorbed; 0 before the first.
    samples: interactions so far.
    oracle_calls: the number so far.
    finished: whether the answer is known.
    history: one mapping of figures per round.
    log: all rounds so far, if the algorithm keeps them.
    certificate: the claim about the policy, if the algorithm certifies.
    """

    policies: PolicyClass
    contexts: Contexts
    policy: Chosen
    round_number: int = 0
    samples: int = 0
    oracle_calls: int = 0
    finished: bool = False
    history: tuple[Details, ...] = ()
    log: Log | None = None
    certificate: Claim | None = None

    def __post_init__(self) -> None:
        settle(self, policies=check_class(self.policies))
        check_contexts(self.contexts)
        check_chosen(self.policy)
        for name in ("round_number", "samples", "oracle_calls"):
            settle(self, **{name: whole_number(getattr(self, name), name=name, least=0)})
        settle(self, finished=flag(self.finished, name="finished"))

    def after(
        self,
        plan: Plan,
        log: Log,
        /,
        *,
        policy: Chosen,
        finished: bool,
        details: Details | None = None,
        oracle_calls: int = 0,
        **changes: Any,
    ) -> Self:
        """Return this state after the round of `plan`, with its figures in the history.

        details: figures in addition to the plan's. oracle_calls: since the plan. changes: to the state's own fields.
        """
        samples = self.samples + log.samples
        figures = {"round": plan.round_number, "samples": log.samples, "total": samples}
        return replace(
            self,
            policy=policy,
            round_number=plan.round_number,
            samples=samples,
            oracle_calls=self.oracle_calls + plan.oracle_calls + oracle_calls,
            finished=finished,
            history=(*self.history, figures | dict(plan.details) | dict(details or {}) | {"policy": policy.describe()}),
            **changes,
        )


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer of an algorithm: a policy, and its guarantee in words."""

    policy: Chosen
    finished: bool
    guarantee: str
    certificate: Claim | None = None


StateOf = TypeVar("StateOf", bound=State)


class Algorithm(Protocol[StateOf]):
    """A best-policy identification algorithm: anything with a name and these steps can be run."""

    name: ClassVar[str]

    @property
    def rounds(self) -> int:
        """The expected number of rounds; 0 if unknown."""
        ...

    def start(self, policies: PolicyClass, contexts: Contexts) -> StateOf:
        """Return the state before the first round."""
        ...

    def design(self, state: StateOf, *, progress: Progress | None = None) -> Plan | None:
        """Return the plan of the next round; None when the answer is known."""
        ...

    def absorb(self, state: StateOf, plan: Plan, log: Log) -> StateOf:
        """Return the state after a round was played as planned."""
        ...

    def result(self, state: StateOf) -> Answer:
        """Return the current answer."""
        ...


def check_steps(algorithm: object) -> None:
    """Raise unless this is an object with a name and the steps of an algorithm."""
    lacking = [step for step in ("start", "design", "absorb", "result") if not callable(getattr(algorithm, step, None))]
    if isinstance(algorithm, type):
        raise InputError(f"{algorithm.__name__} is a class; make an object of it first, {algorithm.__name__}(…)")
    if lacking:
        raise InputError(
            f"an algorithm is a name or an object with start, design, absorb and result; {type(algorithm).__name__} "
            f"lacks {', '.join(lacking)}"
        )
    if not isinstance(getattr(algorithm, "name", None), str):
        raise InputError(f'the algorithm {type(algorithm).__name__} has no name; give it one: name = "…"')


class Registered(Algorithm[StateOf], Protocol[StateOf]):
    """An algorithm that can be called by its name: it has a profile, and a constructor from a setting.

    The parameters of `made_for` annotated with `About` are the options that a command may set: `name:key=value,…`.
    """

    profile: ClassVar[Profile]

    @classmethod
    def made_for(cls, setting: Setting, *args: Any, **options: Any) -> Algorithm[Any]:
        """Return the algorithm for this setting."""
        ...


def check_played(state: State, plan: Plan, log: Log, *, rewards: RewardBounds) -> None:
    """Raise unless the log can have come from playing the plan after the state, with rewards as assumed."""
    instance(state, State, name="state")
    instance(plan, Plan, name="plan")
    check_log(log)
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
    if log.units is not None:
        raise InputError(
            f"the log of round {number} tells whose rows they are, and a trial takes each for another person; leave "
            "out the units, and certify all rounds together with them"
        )
    if log.known is not None:
        raise InputError(
            f"the log of round {number} tells that rewards came late, and a round is absorbed once they are all in; "
            "leave out `known` where they are, or catch up with all rounds at once (trials.late_rewards.catch_up)"
        )
    if log.samples != plan.samples:
        raise InputError(f"round {number} asks for {plan.samples} interactions, but the log has {log.samples}")
    if rewards.in_unit and (log.rewards.min() < 0 or log.rewards.max() > 1):
        row = int(np.argmax((log.rewards < 0) | (log.rewards > 1)))
        raise InputError(
            f"rewards are assumed to lie in [0, 1], but row {row} of the log has {log.rewards[row]:.6g}; rescale them, "
            "or state other RewardBounds"
        )
    check_like(state.contexts, log.contexts)
    check_propensities(plan.sampler, log, round_number=number)
