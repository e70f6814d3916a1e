"""Certificates by betting: valid at any time, for any stopping rule, under any design whose propensities are logged.

`certify_asymptotically` makes certificates by a normal approximation instead.
"""

from pacbandits.certificate.asymptotic import AsymptoticCertificate, certify_asymptotically
from pacbandits.certificate.certificate import Bets, Certificate, Claim
from pacbandits.certificate.certify import certify, evaluate, measure_worth
from pacbandits.certificate.conventions import in_blocks, worth_leading
from pacbandits.certificate.leaders import Leaders
from pacbandits.certificate.learning import LearntClass, learn_class
from pacbandits.certificate.learning_record import Learning
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.making import Evidence, make_certificate
from pacbandits.certificate.worth import Interval, Worth

__all__ = [
    "AsymptoticCertificate",
    "Bets",
    "Certificate",
    "Claim",
    "Evidence",
    "Interval",
    "Leaders",
    "Learning",
    "LearntClass",
    "Ledger",
    "Worth",
    "certify",
    "certify_asymptotically",
    "evaluate",
    "in_blocks",
    "learn_class",
    "make_certificate",
    "measure_worth",
    "worth_leading",
]
