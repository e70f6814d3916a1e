"""Approximate certificates for people: no one should take them for the other kind."""

from __future__ import annotations

from rich.console import RenderableType

from pacbandits.certificate import AsymptoticCertificate
from pacbandits.report.numbers import show_number
from pacbandits.report.runs import claim_table


def asymptotic_table(certificate: AsymptoticCertificate) -> RenderableType:
    """What a log suggests: the warning, the policy in words, the claim, and the figures behind it."""
    c = certificate
    seed = "" if c.seed is None else f", seed {c.seed}"
    figures = {
        "certified, approximately": "in doubt (alarm)" if c.alarms else "yes" if c.certified else "no",
        "smallest ε, approximately": show_number(c.certified_epsilon) if c.certified_epsilon < c.unit else "—",
        "interactions": f"{c.samples:,}",
        "bootstrap": f"{c.draws:,} draws{seed}, slope {c.slope:g}",
        "looked at as possibly the best": (
            f"all {c.rivals:,} of the class" if c.complete else f"{c.rivals:,} that the oracle named"
        ),
    }
    return claim_table(c, figures, warning="an approximate certificate, which is not a proof\n\n")
