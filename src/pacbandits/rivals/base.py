"""The base of all baselines: rounds on one grid, sums of observations, an answer from the class.

Papers update after every interaction. Here a round ends at the next point of a grid that grows by a share, 10 at first,
so that propensities are known and logged, and what an algorithm plays lags behind what it has seen by that share at the
most; most of the papers allow as much themselves, by epochs. All baselines stand on the same grid.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pacbandits.checks import instance, positive, settle, whole_number
from pacbandits.confidence import check_delta, check_epsilon
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass, check_class, check_memory
from pacbandits.progress import Progress
from pacbandits.records import Chosen, Contexts, Log, RewardBounds, Sampler, check_contexts
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Answer, Details, Plan, Profile, Setting, State, check_played

FIRST_ROUND = 10
DEFAULT_GROWTH = 0.1
DEFAULT_BUDGET = 10_000

Budget = Annotated[int, About("number of interactions; it never stops by itself", least=1)]
Growth = Annotated[float, About("size of a round, as a share of all samples so far", above=0)]


def next_checkpoint(samples: int, *, growth: float) -> int:
    """Return the least point of the grid beyond this many interactions: 10, and then a share more each time.

    >>> from pacbandits.rivals.base import next_checkpoint
    >>> [next_checkpoint(n, growth=0.5) for n in (0, 9, 10, 15, 21, 22)]
    [10, 10, 15, 22, 22, 33]
    """
    point = FIRST_ROUND
    while point <= samples:
        point = max(point + 1, int(point * (1.0 + growth)))
    return point


@dataclass(frozen=True, eq=False)
class Play:
    """The sampler of the next round.

    sampler: with what probability to play each action.
    oracle_calls: what it took to choose that.
    details: figures for the record.
    """

    sampler: Sampler
    oracle_calls: int = 0
    details: Details = field(default_factory=dict[str, float | int | str])


@dataclass(frozen=True, eq=False)
class RivalState(State):
    """The state of a baseline between rounds: a `State`, and

    seen: what was seen, in sums.
    memory: what the algorithm keeps of its own.
    """

    seen: Seen = field(kw_only=True)
    memory: Any = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Rival(ABC):
    """A baseline: it defines `play` and `recommend` and, if it keeps more than sums, `remember` and `first_memory`.

    epsilon, delta: by what its answer is judged.
    rewards: what is known of them.
    growth: the size of a round, as a share of what was seen.
    """

    name: ClassVar[str]
    profile: ClassVar[Profile]

    epsilon: float
    delta: float
    rewards: RewardBounds = field(default=RewardBounds(), kw_only=True)
    growth: float = field(default=DEFAULT_GROWTH, kw_only=True)

    def __post_init__(self) -> None:
        settle(self, epsilon=check_epsilon(self.epsilon), delta=check_delta(self.delta))
        settle(self, growth=positive(self.growth, name="growth"))
        instance(self.rewards, RewardBounds, name="rewards")

    @staticmethod
    def common(setting: Setting) -> dict[str, Any]:
        """Return the fields that a setting determines."""
        return {"epsilon": setting.epsilon, "delta": setting.delta, "rewards": setting.rewards}

    @abstractmethod
    def play(self, state: RivalState) -> Play:
        """Return the sampler of the next round."""

    @abstractmethod
    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """Return the policy to recommend after `seen`, and the number of oracle calls; state: before the round."""

    def first_memory(self, policies: PolicyClass, contexts: Contexts) -> Any:
        """Return its own memory before the first round; raise if the class or the contexts are unsuitable."""
        return None

    def remember(self, state: RivalState, plan: Plan, log: Log, seen: Seen) -> Any:
        """Return its own memory after a round."""
        return state.memory

    def left(self, samples: int) -> int | None:
        """Return the number of interactions it may still play; None for any number."""
        return None

    def proven(self, state: RivalState, seen: Seen, memory: Any) -> bool:
        """Return whether its answer is proven, if it can prove one."""
        return False

    @property
    def rounds(self) -> int:
        """The number of rounds, which is not known in advance."""
        return 0

    def start(self, policies: PolicyClass, contexts: Contexts) -> RivalState:
        """Return the state before the first round."""
        policies = check_class(policies)
        check_memory(policies, len(check_contexts(contexts)))
        memory = self.first_memory(policies, contexts)
        seen = Seen.nothing(contexts, n_actions=policies.n_actions)
        first = policies.argmax(seen.contexts, seen.sums)
        return RivalState(
            policies, contexts, first, oracle_calls=1, finished=self.epsilon >= 1, seen=seen, memory=memory
        )

    def design(self, state: RivalState, *, progress: Progress | None = None) -> Plan | None:
        """Return the plan of the next round."""
        instance(state, RivalState, name="state")
        if state.finished:
            return None
        size = next_checkpoint(state.samples, growth=self.growth) - state.samples
        left = self.left(state.samples)
        played = self.play(state)
        return Plan(
            state.round_number + 1,
            self.epsilon,
            played.sampler,
            samples=size if left is None else min(size, left),
            oracle_calls=played.oracle_calls,
            details=played.details,
        )

    def absorb(self, state: RivalState, plan: Plan, log: Log) -> RivalState:
        """Return the state after the round."""
        instance(state, RivalState, name="state")
        check_played(state, plan, log, rewards=self.rewards)
        seen = state.seen.with_log(log)
        memory = self.remember(state, plan, log, seen)
        policy, calls = self.recommend(state, seen, memory)
        proven = self.proven(state, seen, memory)
        return state.after(
            plan,
            log,
            policy=policy,
            finished=proven or self.left(state.samples + log.samples) == 0,
            oracle_calls=calls,
            seen=seen,
            memory=memory,
        )

    def result(self, state: RivalState) -> Answer:
        """Return the policy so far, and its guarantee."""
        instance(state, RivalState, name="state")
        return Answer(state.policy, state.finished, self.promise(state))

    @abstractmethod
    def promise(self, state: RivalState) -> str:
        """Return the guarantee of the policy so far, in words."""


@dataclass(frozen=True)
class Budgeted(Rival):
    """A baseline that plays its budget: it never stops by itself, and its answer has no guarantee.

    budget: how many interactions.
    """

    budget: int = field(default=DEFAULT_BUDGET, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, budget=whole_number(self.budget, name="budget", least=1))

    def left(self, samples: int) -> int:
        """Return what is left of the budget."""
        return max(self.budget - samples, 0)

    def promise(self, state: RivalState) -> str:
        """Return that there is no guarantee."""
        return "none: it promises little regret while it plays, and nothing of the policy that it has learnt"


def check_listed(policies: PolicyClass, *, name: str, most: int) -> PolicyClass:
    """Raise unless the policies can be listed and are at most `most`; return the class."""
    if not policies.lists_policies:
        raise InputError(
            f"{name} keeps a figure for each policy, and {policies.type_name} cannot be listed; use a class that "
            "can be, or coda"
        )
    if len(policies) > most:
        raise InputError(
            f"{name} keeps a figure for each policy, at most {most:,} of them, and the class has {len(policies):,}; "
            "use a smaller class, or coda"
        )
    return policies
