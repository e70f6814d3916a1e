"""Certificates by betting: valid at any time, for any stopping rule, under any design whose propensities are logged.

And one by a normal approximation, for those who accept that (`certify_asymptotically`).
"""

from pacbandits.certificate.asymptotic import AsymptoticCertificate, certify_asymptotically
from pacbandits.certificate.bets import Bets, Naming
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.certify import certify
from pacbandits.certificate.claim import Claim
from pacbandits.certificate.conventions import in_blocks, worth_naming
from pacbandits.certificate.learning import Learning, LearntClass, learn_class
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.making import Evidence, make_certificate
from pacbandits.certificate.named import Named, best_certificate, with_name
from pacbandits.certificate.verify import Verdict, verify

__all__ = [
    "AsymptoticCertificate",
    "Bets",
    "Certificate",
    "Claim",
    "Evidence",
    "Learning",
    "LearntClass",
    "Ledger",
    "Named",
    "Naming",
    "Verdict",
    "best_certificate",
    "certify",
    "certify_asymptotically",
    "in_blocks",
    "learn_class",
    "make_certificate",
    "verify",
    "with_name",
    "worth_naming",
]
