"""How much of a large log is brought into memory, and what is learnt from how many of its rows.

What follows from a log depends on these, so that who verifies goes by the same ones: those below, unless a test makes a
small log large.
"""

from __future__ import annotations

from dataclasses import dataclass

from pacbandits.certificate.conventions import MAX_TEACHING_ROWS


@dataclass(frozen=True)
class Limits:
    """Numbers of rows.

    early: rows that may teach: how features are cut, what rewards to expect, and who leads while there are no more.
    neighbours: rows up to which models are fitted that take long to predict.
    watched: rows in which drift and mismatches are looked for.
    """

    early: int = MAX_TEACHING_ROWS
    neighbours: int = 2**14
    watched: int = 2**18


LIMITS = Limits()
