"""The result of one run as a row of a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

# What a clock says, which another run of the same row need not repeat.
CLOCK_COLUMNS = ("seconds", "seconds_certifying", "decision_microseconds")


@dataclass(frozen=True)
class Row:
    """One run.

    suite, case, problem, policies, epsilon, delta, most, growth, certified: of the `Case`.
    entry, algorithm, role: of the `Entry`.
    seed: of all random numbers.
    version: of this package.

    samples, rounds, oracle_calls: what was played.
    points: after how many interactions the answer was looked at, rising.
    gaps: there, max V − V of the policy it would answer with, by the truth.
    leader_gaps: the same of the best policy by the certificate's own estimates; empty where nobody made one.
    regrets: there, the reward lost so far against the best policy, in expectation over actions and rewards.
    certified_at: after how many interactions our certificate accepted; None if it did not.
    certified_gap: of the policy that it is of.
    own_at: after how many the algorithm stopped by a proof of its own; None if it did not, or has none.
    own_gap: of the answer it gave then.
    stopped: why the run ended: certified, most, refused (the next round would have gone beyond), done.
    seconds: that the algorithm took to choose and learn.
    seconds_certifying: that our certificate took.
    decision_microseconds: for one decision, of one context, at the end.
    """

    suite: str
    case: str
    problem: str
    policies: str
    epsilon: float
    delta: float
    most: int
    growth: float
    certified: bool
    entry: str
    algorithm: str
    role: str
    seed: int
    version: str
    samples: int
    rounds: int
    oracle_calls: int
    points: tuple[int, ...]
    gaps: tuple[float, ...]
    leader_gaps: tuple[float, ...]
    regrets: tuple[float, ...]
    certified_at: int | None
    certified_gap: float | None
    own_at: int | None
    own_gap: float | None
    stopped: str
    seconds: float
    seconds_certifying: float
    decision_microseconds: float

    def to_json(self) -> dict[str, Any]:
        """Every column by its name."""
        return asdict(self)

    def without_clock(self) -> dict[str, Any]:
        """The columns that another run repeats."""
        return {name: value for name, value in asdict(self).items() if name not in CLOCK_COLUMNS}


COLUMNS = tuple(field.name for field in fields(Row))
