"""The numbers of rows of a large log that are kept in memory, and those that models are learnt from.

A certificate depends on these numbers, so it records them. A changed default affects new certificates alone, if the new
values are added to `RELEASED_LIMITS`: a verifier uses those of the certificate.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pacbandits.certificate.conventions import MAX_TEACHING_ROWS
from pacbandits.engines.base import ROWS_PER_BLOCK
from pacbandits.errors import InputError, plain


@dataclass(frozen=True)
class RowLimits:
    """Numbers of rows of a large log for each purpose.

    early: rows that may teach: the cuts of features, reward models, and leaders while there are no more rows.
    neighbours: rows up to which models are fitted that are slow to predict.
    watched: rows in which drift and mismatches are tested.
    block: rows of a block, by which the digest is made.
    """

    early: int = MAX_TEACHING_ROWS
    neighbours: int = 2**14
    watched: int = 2**18
    block: int = ROWS_PER_BLOCK

    def to_json(self) -> dict[str, int]:
        """Serialise to JSON-compatible values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> RowLimits:
        """Return the limits that a certificate records; those of the first release if it records none."""
        found = next((one for one in RELEASED_LIMITS if value == one.to_json()), None)
        if value is not None and found is None:
            raise InputError(f"no release of pacbandits has used these 'limits': {plain(value)}")
        return RELEASED_LIMITS[0] if found is None else found


LIMITS = RowLimits()
# Every set of limits that a release has made certificates with: add a line, and never change one. Others are refused,
# as a free choice of limits would allow trying many. The first is that of certificates that record none.
RELEASED_LIMITS = (RowLimits(early=2**18, neighbours=2**14, watched=2**18, block=2**16),)
