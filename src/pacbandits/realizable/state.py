"""What linear-rage knows between rounds, and what it plans for one."""

from __future__ import annotations

from dataclasses import dataclass, field

from pacbandits.arrays import FloatArray
from pacbandits.realizable.certificate import Form, RealizableCertificate, skipped_rounds
from pacbandits.realizable.moments import Moments
from pacbandits.realizable.population import Population
from pacbandits.records import Policy
from pacbandits.trials.protocol import Plan, State


@dataclass(frozen=True, eq=False)
class RealizableState(State):
    """What every algorithm's state has, and

    population: the contexts in coordinates that suit them.
    form: of the certificate.
    price: what that form pays in the place of log(|Π|/δ).
    moments: of all rounds.
    propensities (N, A): of the last design.
    prior (r, r): Λ of the certificate, once it is chosen.
    certificate: the last.
    """

    policy: Policy
    population: Population = field(kw_only=True)
    form: Form = field(kw_only=True)
    price: float = field(kw_only=True)
    moments: Moments | None = None
    propensities: FloatArray | None = None
    prior: FloatArray | None = None
    certificate: RealizableCertificate | None = None

    @property
    def seen(self) -> Moments:
        """The moments, after a round at least."""
        assert self.moments is not None
        return self.moments

    @property
    def counted(self) -> Moments:
        """Those of the rounds that the certificate counts."""
        return self.seen.after(skipped_rounds(self.form))


@dataclass(frozen=True, eq=False)
class RealizablePlan(Plan):
    """A round.

    table (N, A): its propensities.
    prior (r, r): Λ, as it was chosen before the round.
    """

    table: FloatArray = field(kw_only=True)
    prior: FloatArray | None = field(kw_only=True)
