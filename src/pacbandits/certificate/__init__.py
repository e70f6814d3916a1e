"""Certificates by betting: valid at any time, for any stopping rule, under any design whose propensities are logged.

And one by a normal approximation, for those who accept that (`certify_asymptotically`), and one by least squares, for
those who know that rewards are linear in features (`LinearCertificate`).
"""

from pacbandits.certificate.asymptotic import AsymptoticCertificate, certify_asymptotically
from pacbandits.certificate.bets import Bets, Naming
from pacbandits.certificate.certificate import Certificate, make_certificate
from pacbandits.certificate.certify import certify, in_blocks
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.linear import LinearCertificate
from pacbandits.certificate.linear_verify import verify_linear
from pacbandits.certificate.named import Named, best_certificate, with_name, worth_naming
from pacbandits.certificate.verify import Verdict, verify

__all__ = [
    "AsymptoticCertificate",
    "Bets",
    "Certificate",
    "Ledger",
    "LinearCertificate",
    "Named",
    "Naming",
    "Verdict",
    "best_certificate",
    "certify",
    "certify_asymptotically",
    "in_blocks",
    "make_certificate",
    "verify",
    "verify_linear",
    "with_name",
    "worth_naming",
]
