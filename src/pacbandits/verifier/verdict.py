"""The outcome of a verification."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """The outcome of a verification.

    faults: what does not hold, in words; empty for a good certificate.
    value: the least log-wealth, computed anew; None if a fault was found before.
    checked: what else was derived again, in words.
    trusted: what could have been derived again with more data at hand, in words.
    alarms: where the log contradicts an assumption of the claim, in words; the proof itself may still be right.
    """

    faults: tuple[str, ...]
    value: float | None
    checked: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return not self.faults
