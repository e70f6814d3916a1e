"""What an A/B tester looks at first: how many rows each action had, and their mean outcome."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.records import Log


@dataclass(frozen=True)
class Arm:
    """An action as it was tried.

    action: what it is called.
    rows: that had it.
    share: of all rows.
    mean: of what they earned, as it stands in the log, in the units of rewards; None where no row had it.
    awaited: how many of the rows have a reward that is not in; the mean is of the others.
    """

    action: str
    rows: int
    share: float
    mean: float | None
    awaited: int = 0


def tried_arms(log: Log, names: tuple[str, ...]) -> tuple[Arm, ...]:
    """Every action as it was tried, none of it weighted or modelled; names (A,): what they are called."""
    rows = np.bincount(log.actions, weights=log.repeats, minlength=log.n_actions)
    awaited = np.bincount(log.actions[log.awaited], minlength=log.n_actions)
    earned = np.bincount(
        log.actions, weights=log.repeats * np.where(log.awaited, 0.0, log.rewards), minlength=log.n_actions
    )
    low, high = log.reward_range
    return tuple(
        Arm(
            name,
            int(n),
            float(n / rows.sum()),
            float(low + (high - low) * total / (n - out)) if n > out else None,
            int(out),
        )
        for name, n, total, out in zip(names, rows, earned, awaited, strict=True)
    )
