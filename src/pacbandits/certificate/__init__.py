"""Certificates by betting: valid at any time, for any stopping rule, under any design whose propensities are logged.

Names are imported when they are asked for, so that the verifier, which reads the records here, loads no code that
makes certificates. `certify_asymptotically` makes certificates by a normal approximation instead.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pacbandits.certificate.asymptotic import AsymptoticCertificate as AsymptoticCertificate
    from pacbandits.certificate.asymptotic import certify_asymptotically as certify_asymptotically
    from pacbandits.certificate.certificate import Certificate as Certificate
    from pacbandits.certificate.certify import evaluate as evaluate
    from pacbandits.certificate.certify import measure_worth as measure_worth
    from pacbandits.certificate.claim import Claim as Claim
    from pacbandits.certificate.conventions import Bets as Bets
    from pacbandits.certificate.conventions import in_blocks as in_blocks
    from pacbandits.certificate.conventions import worth_leading as worth_leading
    from pacbandits.certificate.leaders import Leaders as Leaders
    from pacbandits.certificate.learning import LearntClass as LearntClass
    from pacbandits.certificate.learning import learn_class as learn_class
    from pacbandits.certificate.learning_record import Learning as Learning
    from pacbandits.certificate.ledger import Ledger as Ledger
    from pacbandits.certificate.making import Evidence as Evidence
    from pacbandits.certificate.making import make_certificate as make_certificate
    from pacbandits.certificate.worth import Interval as Interval
    from pacbandits.certificate.worth import Worth as Worth

_HOMES = {
    "asymptotic": ("AsymptoticCertificate", "certify_asymptotically"),
    "certificate": ("Certificate",),
    "claim": ("Claim",),
    "certify": ("evaluate", "measure_worth"),
    "conventions": ("Bets", "in_blocks", "worth_leading"),
    "leaders": ("Leaders",),
    "learning": ("LearntClass", "learn_class"),
    "learning_record": ("Learning",),
    "ledger": ("Ledger",),
    "making": ("Evidence", "make_certificate"),
    "worth": ("Interval", "Worth"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
