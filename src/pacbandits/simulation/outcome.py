"""The progress of a run, and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pacbandits.certificate.claim import Claim
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Chosen, Contexts, Log

Stopped = Literal["done", "budget", "memory", "interrupted"]


@dataclass(frozen=True)
class Stage:
    """Where a run is.

    doing: what it does.
    round_number, rounds: in which round, of about how many.
    samples: so far.
    policy: the best one so far, in words.
    run: which of several runs, from 0.
    certified_epsilon: the smallest ε certified so far, 1 while there is none; None where nothing is certified.
    """

    doing: str
    round_number: int
    rounds: int
    samples: int
    policy: str
    run: int = 0
    certified_epsilon: float | None = None


Watch = Callable[[Stage], None]


@dataclass(frozen=True, eq=False)
class Run:
    """What came of a run.

    algorithm, problem: their names.
    seed: of the random numbers; None for a generator of unknown seed.
    epsilon, delta: what was asked for.
    policy: the answer.
    samples, rounds, oracle_calls: what it took.
    value_gap: `max V − V(policy)`, by the truth.
    correct: whether that is at most ε.
    stopped: why it ended.
    reason: the same in words, unless it was done.
    guarantee: what is promised of the policy, and under which assumptions.
    seconds: of the clock on the wall.
    history: the figures of each round.
    certificate, log: of the algorithms that certify.
    contexts: what the algorithm was shown of them.
    policies: the class.
    """

    algorithm: str
    problem: str
    seed: int | None
    epsilon: float
    delta: float
    policy: Chosen
    samples: int
    rounds: int
    oracle_calls: int
    value_gap: float
    correct: bool
    stopped: Stopped
    reason: str
    guarantee: str
    seconds: float
    history: tuple[dict[str, Any], ...]
    certificate: Claim | None = None
    log: Log | None = None
    contexts: Contexts | None = None
    policies: PolicyClass | None = None

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        return {
            "algorithm": self.algorithm,
            "problem": self.problem,
            "seed": self.seed,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "samples": self.samples,
            "rounds": self.rounds,
            "oracle_calls": self.oracle_calls,
            "value_gap": self.value_gap,
            "correct": self.correct,
            "stopped": self.stopped,
            "reason": self.reason,
            "guarantee": self.guarantee,
            "seconds": self.seconds,
            "policy": self.policy.to_json(),
            "words": self.policy.describe(),
            "certificate": None if self.certificate is None else self.certificate.to_json(),
            "history": list(self.history),
        }
