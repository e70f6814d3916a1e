"""Certificates by betting: valid at any time, for any stopping rule, under any design whose propensities are logged."""

from pacbandits.certificate.bets import Bets
from pacbandits.certificate.certificate import Certificate, make_certificate
from pacbandits.certificate.certify import certify, in_blocks
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.verify import Verdict, verify

__all__ = ["Bets", "Certificate", "Ledger", "Verdict", "certify", "in_blocks", "make_certificate", "verify"]
