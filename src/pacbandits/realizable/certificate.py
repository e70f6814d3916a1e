"""The certificate for rewards that are linear in known features, by least squares.

Realizability, `r(c, a) = ⟨φ(c, a), θ*⟩`, is an assumption, and reported as one: if it fails, the claim may be wrong. Of
two forms, the one with the smaller price is chosen before any data are seen (pacbandits.confidence):

    ellipsoid   over all policies: θ* lies in {θ : ‖V(θ̂ − θ)‖²_{(V + Λ)⁻¹} ≤ B}, and no θ there makes any policy better
                than q by more than ε. Anytime-valid for rows after those that chose Λ.
    list        over the policies of a list: π is refuted when a stake κ on each round's estimate of ⟨x_π, θ*⟩,
                weighted by its inverse variance, has won log(|Π|K/δ).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from pacbandits.arrays import FloatArray, floats
from pacbandits.certificate.claim import APART, BEFORE, MAX_STORED_MAGNITUDE, Claim, check_follows, read_common, reading
from pacbandits.confidence import check_delta, check_noise
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.features import FeatureMap, map_from_json
from pacbandits.records import Policy
from pacbandits.schema import Fields, Json

REALIZABLE = "mean rewards are linear in the given features (realizability), without which the claim may be wrong"
ASSUMPTIONS = (
    REALIZABLE,
    "mean rewards lie in [0, 1]",
    "the given contexts, with their weights, are the distribution of contexts",
    "rewards of a round are independent given its contexts and actions, and their means are the same, first to last",
    APART,
    BEFORE,
    "rounds are numbered in the order in which they occurred, and none was designed by its own or later rewards",
)
FIXED_LIST = "the form of the certificate, the list of policies and the stakes were fixed before the log was seen"
FIXED_PRIOR = "the form of the certificate was fixed before the log was seen, and the prior before its second round"
SEARCHED = "the search over directions, which is not exact, found the policy that may be best"
# Multiples of the stake ε/R², for policies farther and farther from the best.
STAKE_MULTIPLIERS = (1.0, 2.0, 4.0, 8.0)

Form = Literal["ellipsoid", "list"]


def skipped_rounds(form: Form) -> int:
    """Return the number of rounds that only choose the prior of this form, and do not count."""
    return 1 if form == "ellipsoid" else 0


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RealizableCertificate(Claim):
    """A certificate by least squares, if rewards are linear: a `Claim`, and

    proven_epsilon: bounds V* − V(q) without relying on the search over directions.
    form: see above.
    listed: whether policies were compared one by one; else q is compared with all policies.
    features: φ.
    parameter (d,): θ̂.
    noise: R².
    log_size: log|Π|.
    skipped: the number of rounds that only chose the prior.
    prior (d, d): Λ.
    stake: ε at which the stakes were set.
    contexts_digest: of the contexts of the claim.
    """

    kind: ClassVar[str] = "pacbandits realizable certificate"
    speaks_of_contexts: ClassVar[bool] = True
    unit_rewards: ClassVar[bool] = False  # only their means

    policy: Policy
    proven_epsilon: float
    form: Form
    listed: bool
    features: FeatureMap
    parameter: FloatArray
    noise: float
    log_size: float
    contexts_digest: str
    skipped: int = 0
    prior: FloatArray | None = None
    stake: float | None = None

    @property
    def certified(self) -> bool:
        return bool(self.certified_epsilon <= self.epsilon)

    @property
    def exact(self) -> bool:
        """Whether the claim does not rely on the search."""
        return self.listed or (self.certified and self.proven_epsilon <= self.epsilon)

    @property
    def assumptions(self) -> tuple[str, ...]:
        names = ", ".join(self.features.names[:8]) + (", …" if self.features.dimension > 8 else "")
        given = f"the {self.features.dimension} features are {names}"
        noise = f"rewards scatter about their means as {self.noise:g}-sub-Gaussian noise"
        if self.noise == 0.25:
            noise += " (as all do that lie in [0, 1])"
        fixed = FIXED_LIST if self.form == "list" else FIXED_PRIOR
        return (*ASSUMPTIONS, given, noise, fixed, *(() if self.exact else (SEARCHED,)), *self.remarks)

    @property
    def proviso(self) -> str:
        return "if rewards are linear, then "

    @property
    def best(self) -> str:
        return "the best of its class" if self.listed else "the best of all policies"

    def figures(self) -> Json:
        return {
            "proven_epsilon": self.proven_epsilon,
            "form": self.form,
            "listed": self.listed,
            "features": self.features.to_json(),
            "parameter": self.parameter.tolist(),
            "noise": self.noise,
            "log_size": self.log_size,
            "skipped": self.skipped,
            "prior": None if self.prior is None else self.prior.tolist(),
            "stake": self.stake,
            "multipliers": list(STAKE_MULTIPLIERS),
            "contexts_digest": self.contexts_digest,
            "exact": self.exact,
        }

    @classmethod
    def from_json(cls, value: object, policies: PolicyClass | None = None) -> RealizableCertificate:
        with reading(value, kind=cls) as given:
            fields, most = Fields(given, "certificate"), MAX_STORED_MAGNITUDE
            prior = None if fields["prior"] is None else fields.number_rows("prior")
            made = cls(
                **read_common(given, policies, single=True),
                proven_epsilon=fields.number("proven_epsilon", least=0.0, most=1.0),
                form="list" if fields.one_of("form", get_args(Form)) == "list" else "ellipsoid",
                listed=fields.flag("listed"),
                features=map_from_json(fields["features"]),
                parameter=floats(fields.numbers("parameter", shortest=1), name="parameter", shape=(None,)),
                noise=check_noise(fields.number("noise", least=0.0)),
                log_size=fields.number("log_size", least=0.0, most=most),
                contexts_digest=fields.text("contexts_digest"),
                skipped=fields.whole_number("skipped", most=1),
                prior=None if prior is None else floats(prior, name="prior", shape=(None, None)),
                stake=fields.number_or_null("stake", least=1.0 / most, most=most),
            )
            check_delta(made.delta)
            if made.features.dimension != len(made.parameter):
                raise InputError(f"a parameter of {len(made.parameter)} numbers does not fit the features")
        anew = made.to_json()
        check_follows(given, anew, names=anew)
        return made
