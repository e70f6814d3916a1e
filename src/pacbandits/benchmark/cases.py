"""Cases of a benchmark (a problem with ε, δ and a budget) and entries (an algorithm with its options)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import Finite
from pacbandits.problems import Problem, load_policies_for, load_problem

Role = Literal["default", "tuned"]

SHUFFLE_SEED = 20


@dataclass(frozen=True)
class Case:
    """A problem, what is asked of it, and how long it may take.

    name: what tables call it.
    problem: the spec of the problem.
    epsilon, delta: how near to the best, and with what probability of being wrong.
    most: the largest number of interactions of a run.
    policies: the spec of a policy class, if not the problem's own.
    growth: of the grid on which rivals play and answers are looked at.
    certified: whether certificates are made; they need rewards in [0, 1].
    """

    name: str
    problem: str
    epsilon: float
    delta: float
    most: int
    policies: str = ""
    growth: float = 0.05
    certified: bool = True

    def load(self) -> Problem:
        """The problem with the policy class that is searched; a list of policies is shuffled, always alike.

        Of policies that tie the first is taken, and in some problems the first is the best.
        """
        problem = load_problem(self.problem)
        policies = load_policies_for(self.policies, problem) if self.policies else problem.policies
        return replace(problem, policies=_shuffled(policies))


def _shuffled(policies: PolicyClass) -> PolicyClass:
    if not isinstance(policies, Finite):
        return policies
    order: list[int] = np.random.default_rng(SHUFFLE_SEED).permutation(len(policies)).tolist()
    names = None if policies.names is None else [policies.names[i] for i in order]
    return Finite(policies.table[order], n_actions=policies.n_actions, names=names)


@dataclass(frozen=True)
class Entry:
    """An algorithm in a table.

    name: what the table calls it: all entries of a name are one algorithm, with other knobs.
    spec: the algorithm, `name:key=value,…`.
    role: with its published defaults, or tuned.
    """

    name: str
    spec: str
    role: Role = "default"


@dataclass(frozen=True)
class Task:
    """One run.

    suite: that it belongs to.
    case: what is asked.
    entry: who answers.
    seed: of all random numbers.
    """

    suite: str
    case: Case
    entry: Entry
    seed: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What tells runs of a suite apart."""
        return self.suite, self.case.name, self.entry.spec, self.seed
