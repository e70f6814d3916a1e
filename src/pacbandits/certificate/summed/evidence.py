"""What a large log says, laid out so that a certificate can be made of it."""

from __future__ import annotations

from dataclasses import dataclass

from pacbandits.certificate.making import Evidence
from pacbandits.certificate.summed.ledger import SummedLedger
from pacbandits.policies.base import PolicyClass


@dataclass(frozen=True, eq=False)
class SummedEvidence(Evidence):
    """Evidence whose wealth is sums of whole numbers over rows, wherever these are.

    named: the digest of all rows.
    """

    named: str = ""

    @property
    def digest(self) -> str:
        return self.named

    @property
    def summed(self) -> bool:
        return True

    @property
    def searched(self) -> PolicyClass:
        assert isinstance(self.ledger, SummedLedger)
        return self.ledger.summing.policies
