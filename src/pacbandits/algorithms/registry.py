"""Algorithms by name: what there is, what each assumes and guarantees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pacbandits.algorithms.base import Algorithm
from pacbandits.algorithms.coda import Coda, Uniform
from pacbandits.algorithms.coda_oracle import CodaOracle
from pacbandits.algorithms.coda_paper import CodaPaper
from pacbandits.algorithms.linear_rage import LinearRage
from pacbandits.algorithms.listed import can_be_listed
from pacbandits.algorithms.rage import Rage
from pacbandits.algorithms.rage_free import RageFree
from pacbandits.errors import InputError, nearest, plain
from pacbandits.policies.base import EnumeratedClass, PolicyClass
from pacbandits.records import RewardBounds


@dataclass(frozen=True)
class About:
    """An algorithm in words."""

    name: str
    source: str
    classes: str
    assumes: str
    guarantees: str
    samples: str


ALGORITHMS = (
    About(
        name="coda",
        source="CODA that people can afford: optimal designs for the gaps seen so far, and a certificate by betting",
        classes="any",
        assumes="rewards in [0, 1]; contexts, known or sampled, only make it faster",
        guarantees="(ε, δ)-PAC at any stopping time, with a certificate that `verify` rechecks",
        samples="until the certificate holds",
    ),
    About(
        name="uniform",
        source="the plain randomised trial with the same certificate",
        classes="any",
        assumes="rewards in [0, 1]",
        guarantees="(ε, δ)-PAC at any stopping time, with a certificate that `verify` rechecks",
        samples="until the certificate holds",
    ),
    About(
        name="linear-rage",
        source="RAGE for rewards linear in features: designs over p(a|c), least squares, a certificate of its own",
        classes="classes that can be listed; with linear or trivial, all policies",
        assumes="realizability: mean rewards are linear in the features; contexts known; sub-Gaussian noise",
        guarantees="(ε, δ)-PAC if rewards are linear, with a certificate that `verify` rechecks",
        samples="until the certificate holds",
    ),
    About(
        name="rage",
        source="Elimination Contextual RAGE: drop every policy that another clearly beats",
        classes="classes that can be listed, up to 3,000 policies (all pairs are compared)",
        assumes="mean rewards in [0, 1], a bound on E[r²], the distribution of contexts",
        guarantees="(ε, δ)-PAC",
        samples="n_l = 4 s² ε_l⁻² ρ(Π_l) log(1/δ_l), Catoni's mean for every pair",
    ),
    About(
        name="rage-free",
        source="Non-elimination Contextual RAGE: gaps of all policies against the best so far",
        classes="classes that can be listed",
        assumes="mean rewards in [0, 1], a bound on E[r²], the distribution of contexts",
        guarantees="(ε, δ)-PAC",
        samples="n_l = 1568 s² log(1/δ_l) min_p max_π V/(ε_l + Δ̂/4)², Catoni's mean",
    ),
    About(
        name="coda-paper",
        source="CODA in full: the design by its dual (ratio form or FW-GD), regularised importance weighting",
        classes="any: one γ a policy where the class can be listed, else one γ for all through the argmax oracle",
        assumes="rewards in [0, 1], the distribution of contexts (or many contexts drawn from it)",
        guarantees="(ε, δ)-PAC",
        samples="n_l = 256 log(1/δ_l) min_p max_π V/(ε_l + Δ̂/8)²; through the oracle V/(ε_l(ε_l + Δ̂/4))",
    ),
)

CERTIFYING: dict[str, Callable[..., Algorithm[Any]]] = {"coda": Coda, "uniform": Uniform, "linear-rage": LinearRage}


def make_algorithm(
    name: str,
    policies: PolicyClass,
    *,
    epsilon: float,
    delta: float,
    rewards: RewardBounds,
    scale: float = 1.0,
    sampled_contexts: int | None = None,
    solver: str = "ratio",
) -> Algorithm[Any]:
    """The algorithm of that name for a policy class; `solver` is for coda-paper.

    solver: ratio, or fw-gd where the class can be listed (a small trivial class then is).
    """
    known = [about.name for about in ALGORITHMS]
    if name not in known:
        raise InputError(f"unknown algorithm '{plain(name)}'{nearest(name, known)}")
    if name in CERTIFYING:
        if solver != "ratio" or scale != 1.0:
            raise InputError(
                f"{name} has no sample sizes to scale and no choice of solver; leave out --scale and --solver"
            )
        # The others need to know nothing of how contexts are distributed.
        known = {"sampled_contexts": sampled_contexts} if name == "linear-rage" else {}
        return CERTIFYING[name](epsilon, delta, rewards=rewards, **known)
    options: dict[str, Any] = {
        "rewards": rewards,
        "scale": scale,
        "sampled_contexts": sampled_contexts,
        # Contexts outside the sample may need actions that no support policy of the design takes there.
        "floor": 0.0 if sampled_contexts is None else 0.05,
    }
    makers: dict[str, Callable[..., Algorithm[Any]]] = {"rage": Rage, "rage-free": RageFree, "coda-paper": CodaPaper}
    if name == "coda-paper":
        if isinstance(policies, EnumeratedClass) or (solver != "ratio" and can_be_listed(policies)):
            options["solver"] = solver
        elif solver != "ratio":
            raise InputError(
                f"the solver {plain(solver)} needs a class that can be listed, and {type(policies).__name__} cannot; "
                "use --solver ratio"
            )
        else:
            makers["coda-paper"] = CodaOracle
    elif solver != "ratio":
        raise InputError(f"--solver {plain(solver)} is for coda-paper; {name} has no choice of solver")
    return makers[name](epsilon, delta, **options)
