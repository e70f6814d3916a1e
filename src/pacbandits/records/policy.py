"""Policies: maps from contexts to actions that can describe themselves in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.checks import entries, generator, instance, settle, texts
from pacbandits.errors import InputError, count_of, plain
from pacbandits.records.contexts import Contexts, check_contexts


@runtime_checkable
class Policy(Protocol):
    """A deterministic policy."""

    @property
    def n_actions(self) -> int: ...

    def __call__(self, contexts: Contexts) -> IntArray:
        """Return its action (n,) on each context, also on contexts never seen before."""
        ...

    def describe(self) -> str:
        """Return the rule in words."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object from which `pacbandits.policies.policy_from_json` makes the same policy."""
        ...


def check_policy(policy: object, *, name: str = "policy") -> Policy:
    """Return the policy; raise InputError if it is not one."""
    remedy = "a class finds one by argmax(contexts, scores)"
    return instance(policy, Policy, name=name, remedy=remedy)


# Descriptions with the names of actions.


MAX_LEGEND_ACTIONS = 30  # listed after the description of a policy that knows only numbers


@runtime_checkable
class NamingPolicy(Policy, Protocol):
    """A policy that can describe itself with the names of actions instead of their numbers."""

    def describe_with(self, actions: Sequence[str]) -> str:
        """Return the rule in words; actions (A,): their names."""
        ...


def describe_policy(policy: Policy, actions: Sequence[str] | None) -> str:
    """Return a policy's rule in words; actions (A,): their names, if they have any."""
    if actions is None:
        return policy.describe()
    if isinstance(policy, NamingPolicy):
        return policy.describe_with(actions)
    return f"{policy.describe()}\n({legend(actions)})"


def legend(actions: Sequence[str]) -> str:
    """Return the numbers of actions with their names, for the first MAX_LEGEND_ACTIONS."""
    shown = ", ".join(f"action {i} is '{plain(name)}'" for i, name in enumerate(actions[:MAX_LEGEND_ACTIONS]))
    return shown + (", …" if len(actions) > MAX_LEGEND_ACTIONS else "")


def call(action: int, actions: Sequence[str] | None) -> str:
    """Return the word for an action: its name, or "action" and its number."""
    return f"action {action}" if actions is None else plain(actions[action])


def check_names(names: object, *, n_actions: int) -> tuple[str, ...] | None:
    """Return the names of the actions, or None; raise InputError unless there are `n_actions` distinct names."""
    if names is None:
        return None
    given = texts(names, name="action_names")
    if len(given) != n_actions:
        raise InputError(f"there are {count_of(n_actions, 'action')} and {count_of(len(given), 'name')} for them")
    if len(set(given)) < len(given):
        twice = next(name for i, name in enumerate(given) if name in given[:i])
        raise InputError(f"two actions are called '{plain(twice)}'")
    return given


# Mixture policies, certified when no single policy is.


MIXTURE, FORMER_MIXTURE = "mixture", "lottery"  # the kind in JSON, and that in files of earlier versions
MAX_WEIGHT_ROUNDING = 1e-9  # of the sum of weights


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture policy: draw one of several policies by weight, anew for every interaction, and follow it.

    policies: two or more.
    weights: their probabilities; positive, with sum 1.

    >>> import pacbandits as pb
    >>> left, right = pb.Finite([[0, 0], [0, 1]], n_actions=2).policy(0), pb.Finite([[0, 1]], n_actions=2).policy(0)
    >>> mixture = pb.Mixture((left, right), (0.75, 0.25))
    >>> mixture.propensities(pb.Contexts.finite(2))
    array([[1.  , 0.  ],
           [0.75, 0.25]])
    """

    policies: tuple[Policy, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        given = entries(self.policies, name="policies")
        settle(self, policies=tuple(check_policy(one, name="a policy of the mixture") for one in given))
        weights = floats(self.weights, name="weights of the mixture", shape=(len(self.policies),))
        if len(weights) < 2:
            raise InputError("a mixture has two policies or more; a single policy needs none")
        if weights.min() <= 0 or abs(weights.sum() - 1.0) > MAX_WEIGHT_ROUNDING:
            raise InputError(
                f"the weights of a mixture must be positive and sum to 1; the least is {weights.min():.6g}, and they "
                f"sum to {weights.sum():.6g}"
            )
        if len({policy.n_actions for policy in self.policies}) > 1:
            raise InputError("the policies of a mixture must have the same number of actions")
        settle(self, weights=tuple(float(weight) for weight in weights))

    @property
    def n_actions(self) -> int:
        return self.policies[0].n_actions

    @property
    def likeliest(self) -> Policy:
        """The policy with the largest weight."""
        return self.policies[int(np.argmax(self.weights))]

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return the probability of each action (n, A), to be logged as propensities."""
        out = np.zeros((len(check_contexts(contexts)), self.n_actions))
        rows = np.arange(len(contexts))
        for policy, weight in zip(self.policies, self.weights, strict=True):
            out[rows, policy(contexts)] += weight
        return out

    def draw(self, contexts: Contexts, rng: np.random.Generator) -> IntArray:
        """Return an action (n,) for each context, by a policy drawn for it."""
        return self.play(contexts, draws=generator(rng).random(len(check_contexts(contexts))))

    @property
    def bounds(self) -> tuple[float, ...]:
        """The cumulative weights, which rise to 1, here and in every export of a mixture.

        A draw in [0, 1) selects the first policy whose bound is above it.
        """
        rising = np.cumsum(self.weights)
        return tuple((rising / rising[-1]).tolist())

    def play(self, contexts: Contexts, *, draws: ArrayLike) -> IntArray:
        """Return an action (n,) for each context, by the policy that its draw (n,) in [0, 1) selects."""
        given = floats(draws, name="draws", shape=(len(check_contexts(contexts)),))
        if given.min() < 0 or given.max() >= 1:
            raise InputError(f"draws must be in [0, 1), got {given[(given < 0) | (given >= 1)][0]:.6g}")
        drawn = np.searchsorted(self.bounds, given, side="right")
        out = np.empty(len(given), dtype=np.int64)
        for place, policy in enumerate(self.policies):
            mine = drawn == place
            out[mine] = policy(contexts)[mine]
        return out

    def describe(self) -> str:
        """Return the policies in words, the likeliest first."""
        return self.describe_with(None)

    def describe_with(self, actions: Sequence[str] | None) -> str:
        """Return the same with the names of actions (A,) instead of their numbers."""
        order = sorted(range(len(self.policies)), key=lambda one: -self.weights[one])
        return "\n".join(_part(describe_policy(self.policies[one], actions), self.weights[one]) for one in order)

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values, for `pacbandits.policies.chosen_from_json`."""
        return {
            "kind": MIXTURE,
            "policies": [policy.to_json() for policy in self.policies],
            "weights": list(self.weights),
        }


Chosen = Policy | Mixture  # the type of certified policies


def parts_of(chosen: Chosen) -> tuple[Policy, ...]:
    """Return the policies that may be drawn."""
    return chosen.policies if isinstance(chosen, Mixture) else (chosen,)


def likeliest(chosen: Chosen) -> Policy:
    """Return the policy itself, or the likeliest of a mixture."""
    return chosen.likeliest if isinstance(chosen, Mixture) else chosen


def describe_chosen(chosen: Chosen, actions: Sequence[str] | None) -> str:
    """Return a policy or a mixture in words; actions (A,): their names, if they have any."""
    return chosen.describe_with(actions) if isinstance(chosen, Mixture) else describe_policy(chosen, actions)


def check_chosen(chosen: object, *, name: str = "policy") -> Chosen:
    """Return the policy or mixture; raise InputError if it is neither."""
    return chosen if isinstance(chosen, Mixture) else check_policy(chosen, name=name)


def _part(words: str, weight: float) -> str:
    head, *rest = words.splitlines() or [""]
    share = f"{100 * weight:.0f} %: " if weight >= 0.005 else f"{100 * weight:.1g} %: "
    return "\n".join([share + head, *(" " * len(share) + line for line in rest)])
