"""What is played: a problem with what is asked of it, and an algorithm with its options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pacbandits.problems import Problem, load_policies_for, load_problem

Role = Literal["default", "tuned"]


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
        """The problem with the policy class that is searched."""
        problem = load_problem(self.problem)
        if not self.policies:
            return problem
        return replace(problem, policies=load_policies_for(self.policies, problem))


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
