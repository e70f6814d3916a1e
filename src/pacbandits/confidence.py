"""Every split of δ, union bound, radius, threshold and sample size, each with its lemma.

Legend: l round, L = log(1/δ_l), V = V_π(p; q), n samples of the round, s² ≥ 1 a bound on E[r² | c, a] (so that the
importance-weighted difference has second moment at most s²V). docs/algorithms.md has the proofs with these constants.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import finite, number, shown
from pacbandits.errors import InputError

MIN_EPSILON, MAX_EPSILON = 1e-100, 1e100  # with a square that a double can hold

# A slope is the a, and a factor the b², of a sample size n_l = b² s² L · max_π V_π/d² with accuracy d = ε_l + aΔ̂.
#
# n_l = ⌈4 ε_l⁻² ρ(Π_l) L⌉ of Elimination Contextual RAGE, as its proof has it (corrections, row 2).
ELIMINATION_FACTOR = 4.0
# max_π −aΔ̂ + 28 √(2VL/n) ≤ ε_l of Non-elimination Contextual RAGE: a, and b² = 2·28² (corrections, row 7).
RAGE_FREE_SLOPE = 1.0 / 4.0
RAGE_FREE_FACTOR = 1568.0
# max_π −aΔ̂ + 8γV + 8L/(γn) ≤ ε_l of CODA: a, the 8, and b² = (2·8)² once γ is the best one (corrections, row 7).
CODA_SLOPE = 1.0 / 8.0
CODA_WIDTH_WEIGHT = 8.0
CODA_FACTOR = (2.0 * CODA_WIDTH_WEIGHT) ** 2
# In CODA through oracles, gaps are estimated from above and the same width is asked of −Δ̂/2, in the place of −Δ̂/8
# (docs/algorithms.md, coda-oracle): a, and the β of γ = βL/(n ε_l), one γ for the estimates of a round.
CODA_ORACLE_SLOPE = 1.0 / 2.0
CODA_ORACLE_GAMMA_WEIGHT = 8.0
# The same with one γ for every policy: 8L/(γn) = ε_l/2 fixes γ, and what is left asks for n ≥ 256 LV/(ε_l(ε_l + Δ̂/4)).
COMMON_GAMMA_SLOPE = 2.0 * CODA_SLOPE

# On the good event no best policy (Δ = 0) has an estimated gap Δ̂_l of more than so many ε_l: where all others have,
# π̂_l is the only best one, and the rounds end (docs/algorithms.md, "Rounds that end").
#   rage-free    Δ̂_l ≤ w_π + w_π̂ − Δ(π̂_l) with w = (√2/28)(2ε_l + 5Δ/16): 4·√2/28
#   coda-paper   Δ̂_l ≤ 2u_π + 2u_π̂ − Δ(π̂_l) with u = tε_l + 5Δ/256, t ≤ 11/48: 4·11/48
#   coda-oracle  Δ̂_l ≤ 4u_π − Δ(π̂_l) with u ≤ ε_l/4
RAGE_FREE_BEST_GAP = math.sqrt(2.0) / 7.0
CODA_BEST_GAP = 11.0 / 12.0
CODA_ORACLE_BEST_GAP = 1.0

# Of noise, so that its square and inverse are numbers.
MIN_NOISE, MAX_NOISE = 1e-100, 1e100
# How often a declared noise, though right, is taken for refuted by the residuals.
RESIDUAL_ALARM_RATE = 1e-6


def check_epsilon(epsilon: object) -> float:
    """ε ≥ 0 and finite, with a square that a double can hold."""
    given = number(epsilon, name="epsilon", least=0)
    if given != 0 and not MIN_EPSILON <= given <= MAX_EPSILON:
        raise InputError(f"epsilon must be 0 or between {MIN_EPSILON:g} and {MAX_EPSILON:g}, got {shown(epsilon)}")
    return given


def check_positive_epsilon(
    epsilon: object, *, asker: str = "a certificate", why: str = "", least: float = MIN_EPSILON
) -> float:
    """ε > 0 likewise, no less than `least`, which in words is an ε above 0; why: what the asker needs it for."""
    given = finite(epsilon)
    if given is None or not least <= given <= MAX_EPSILON:
        ends = f"a number from {least:g} to {MAX_EPSILON:g}"
        raise InputError(f"{asker} needs an epsilon above 0, {ends}{why}; got {shown(epsilon)}")
    return given


def check_delta(delta: object) -> float:
    """0 < δ < 1."""
    return number(delta, name="delta", above=0, below=1, wanted="lie strictly between 0 and 1")


def check_noise(variance: object, *, name: str = "noise") -> float:
    """A variance of noise, or R² of sub-Gaussian noise: 0, or of a size with which squares can be computed."""
    variance = number(variance, name=name, least=0)
    if variance != 0 and not MIN_NOISE <= variance <= MAX_NOISE:
        raise InputError(
            f"{name} must be 0 or between {MIN_NOISE:g} and {MAX_NOISE:g}, got {variance}; rescale rewards"
        )
    return variance


def round_confidence(delta: float, *, round_number: int, log_size: float) -> float:
    """log(1/δ_l) with `δ_l = 3δ/(π² l² |Π|²)`, for a two-sided event on every pair of policies in round l = 1, 2, ….

    As Σ 1/l² = π²/6, all those events together fail with probability at most Σ_l 2 |Π|² δ_l = δ. Of the paper's, the
    δ/(2l²|Π|) of Algorithms 1 and 2 counts one side (and in the second one policy for a pair), and the δ/(l²|Π|²) of
    CODA one side and a series that exceeds 1 (corrections, row 6).
    """
    return math.log(math.pi**2 * round_number**2 / 3.0) - math.log(delta) + 2.0 * log_size


def oracle_confidence(delta: float, *, round_number: int, log_size: float) -> float:
    """log(1/δ_l) with `δ_l = 3δ/(π² l² |Π|)`, for a two-sided event on every policy against q in round l = 1, 2, ….

    q is fixed before the round, so no pairs are needed (corrections, row 29): Σ_l 2 |Π| δ_l = δ.
    """
    return round_confidence(delta, round_number=round_number, log_size=log_size / 2.0)


def catoni_radius(variance: FloatArray, *, samples: int, confidence: float) -> FloatArray:
    """`√(2vL/(n − 2L))`: Catoni's mean of n values of variance ≤ v errs by more with probability at most 2e^{−L}.

    Catoni (2012, Proposition 2.4) with the α of `catoni_scale`, from n = 4L on. He has it for all n > 2L; below 4L we
    rely on no radius (gaps are cut instead), and it is infinite. The paper has n − L (corrections, row 25).
    """
    if samples < 4.0 * confidence:
        return np.full_like(variance, np.inf)
    return np.sqrt(2.0 * variance * confidence / (samples - 2.0 * confidence))


def catoni_scale(variance: FloatArray, *, samples: int, confidence: float) -> FloatArray:
    """The α for which Catoni's mean has `catoni_radius`, from n = 4L on: `√(2L (n − 2L)/(n² v))`. Zero where v is.

    With n < 4L, where we rely on no radius, α is what n = 4L would ask for, `√(1/(4v))`.
    """
    spare = max(1.0 - 2.0 * confidence / samples, 0.5)
    with np.errstate(divide="ignore"):
        alpha = np.sqrt(2.0 * min(confidence, samples / 4.0) * spare / (samples * variance))
    return np.where(variance > 0, alpha, 0.0)


def has_catoni_radius(samples: int, *, confidence: float, scale: float) -> bool:
    """Whether a round is long enough, `n ≥ 4cL`, for its means to be taken for estimates; `scale` c = 1 for the proof.

    A shorter one has `s²V < ε_l²` in `rage-features` and `s²V < (ε_l + Δ̂/4)²/392` in `rage-free-features`. As a gap
    is at most √V there (Cauchy and Schwarz: ⟨x, θ*⟩² ≤ ‖x‖²_{A⁻¹} · θ*ᵀAθ*, and θ*ᵀAθ* = E r(c, a)² ≤ 1), an estimate
    of 0 errs by no more than Catoni's radius is to be in a longer one: ε_l, and (√2/28)(ε_l + Δ̂/4).
    """
    return samples >= 4.0 * scale * confidence


def regularised_radius(gamma: FloatArray, variance: FloatArray, *, samples: int, confidence: float) -> FloatArray:
    """`2(γV + L/(γn))`: the regularised estimate of a gap errs by more with probability at most 2e^{−L} (Lemma `EE`).

    Its bias is at most γV; Bernstein's inequality for terms of at most 1/γ and second moment V adds
    √(2VL/n) + 2L/(3γn) ≤ (γV + L/(γn))/√2 + 2L/(3γn).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = 2.0 * (gamma * variance + confidence / (gamma * samples))
    return np.where(variance > 0, radius, 0.0)


def best_gamma(variance: FloatArray, *, samples: int, confidence: float) -> FloatArray:
    """The γ that makes `γV + L/(γn)` least: `√(L/(nV))`; infinite for a policy that never differs."""
    with np.errstate(divide="ignore"):
        return np.sqrt(confidence / (samples * variance))


def common_gamma(epsilon: float, *, samples: int, confidence: float) -> float:
    """The γ for all policies at once: `8L/(γn) = ε_l/2`."""
    return 2.0 * CODA_WIDTH_WEIGHT * confidence / (samples * epsilon)


def round_gamma(epsilon: float, *, samples: int, confidence: float) -> float:
    """The γ of a round of CODA through oracles: `L/(γn) = ε_l/8`."""
    return CODA_ORACLE_GAMMA_WEIGHT * confidence / (samples * epsilon)


def elimination_samples(rho: float, *, epsilon: float, confidence: float, second_moment: float, scale: float) -> int:
    """`n_l = ⌈c · 4 s² ε_l⁻² ρ(Π_l) L⌉`, at least 1; `scale` c = 1 for the guarantee."""
    return whole_samples(scale * ELIMINATION_FACTOR * second_moment * rho * confidence / epsilon**2)


def ratio_samples(value: float, *, factor: float, confidence: float, second_moment: float, scale: float) -> int:
    """`n_l = ⌈c · b² s² L · max_π V_π/d(Δ̂_π)²⌉`, at least 1, for the value of the ratio form that a design attains."""
    return whole_samples(scale * factor * second_moment * value * confidence)


# What the theorems say of n_l, constant and all: n_l ≤ C s² ρ_{Π,ε_l} L + 1 on the good event. By V_{π,q} ≤ 2V_{π,π*}
# + 2V_{q,π*} ≤ 2ρ(max(Δ, ε_l)² + 4ε_l²), with x = Δ/ε_l and the lemmas' Δ̂ ≥ max(0, 3Δ/4 − 4ε_l):
#   rage        4 · 4 · 16, as Π_l has gaps of at most 4ε_l and V_{π,π'} ≤ 4 max V_{π,π*}
#   rage-free   1568 · max_x 2(max(x, 1)² + 4)/max(1, 3x/16)²,            largest at x = 16/3
#   coda-paper   256 · max_x 2(max(x, 1)² + 4)/max(1, 1/2 + 3x/32)²,      largest as x → ∞
# and by V_{π,q} ≤ V_{π,π*} + V_{q,π*} with Δ̂ ≥ max(0, Δ − 2ε_l):
#   coda-oracle  256 · max_x (max(x, 1)² + 4)/max(1, x/2)²,               largest at x = 2
RAGE_THEOREM_FACTOR = 256.0
RAGE_FREE_THEOREM_FACTOR = RAGE_FREE_FACTOR * 2.0 * ((16.0 / 3.0) ** 2 + 4.0)
CODA_THEOREM_FACTOR = CODA_FACTOR * 2.0 * (32.0 / 3.0) ** 2
CODA_ORACLE_THEOREM_FACTOR = CODA_FACTOR * 8.0
# With a common γ the same holds of the linear price ρ' = min_p max_π V_π/(ε_l max(Δ, ε_l)), as V_{π,q} ≤
# 2ρ'ε_l(max(Δ, ε_l) + 2ε_l): 256 · max_x 2(max(x, 1) + 2)/max(1, 3x/16).
COMMON_GAMMA_THEOREM_FACTOR = CODA_FACTOR * 2.0 * (16.0 / 3.0 + 2.0)


def theorem_samples(
    rhos: Iterable[float], *, constant: float, delta: float, log_size: float, second_moment: float
) -> float:
    """`Σ_l (C s² ρ_{Π,ε_l} log(1/δ_l) + 1)`: what the rounds l = 1, 2, … with complexities `rhos` may cost together."""
    return sum(
        constant * second_moment * rho * round_confidence(delta, round_number=number, log_size=log_size) + 1.0
        for number, rho in enumerate(rhos, start=1)
    )


def certificate_threshold(*, delta: float, log_size: float = 0.0) -> float:
    """`log(|Π|/δ)`: the log-wealth at which every policy must have been refuted for q to be certified.

    Fix π* and a q with V(π*) > V(q) + ε. Certifying q means refuting π* too. The mean wealth of K experts against the
    pair (π*, q) is a nonnegative supermartingale that starts at 1, so by Ville's inequality it ever reaches |Π|/δ with
    probability at most δ/|Π|; a union over q gives δ. No union over π is needed: whatever the others do, π* must be
    among the refuted. The leaders of rounds are fixed before them, and the lottery between these takes no union at all
    (`pacbandits.certificate.leaders`): log|Π| is 0 there.
    """
    return log_size - math.log(delta)


def union_threshold(*, log_size: float, experts: int, delta: float) -> float:
    """`log(|Π| K/δ)`: the same where each of K experts has a K-th of δ to itself."""
    return certificate_threshold(log_size=log_size, delta=delta) + math.log(experts)


# Of δ, where q is to be the best of its class: for best policies that act like it on every context of the log.
UNSEEN_PART = 0.1


def best_threshold(*, delta: float, log_size: float) -> float:
    """`log(|Π|/(0.9 δ))`: the log-wealth at ε = 0 at which all who act unlike q on the log must have been refuted.

    Fix q, and of the best policies π* the one that acts unlike q most often. The wealth against "V(π*) ≥ V(q)" is a
    nonnegative supermartingale that starts at 1. If π* acts unlike q on some context of the log, certifying q means
    refuting it, which has probability 0.9 δ/|Π| at most (Ville); a union over q gives 0.9 δ. There is no union over π*,
    which is fixed. Nothing refutes a policy that acts like q on the whole log: for that see `unseen_share`.
    """
    return certificate_threshold(log_size=log_size, delta=(1.0 - UNSEEN_PART) * delta)


def unseen_share(samples: float, *, delta: float, log_size: float) -> float:
    """`1 − (0.1 δ/|Π|)^(1/n)`: on how many contexts at most π* acts unlike q, if it does so on none of the n logged.

    With D that share of contexts, `1{alike on the first n}/(1 − D)^n` is a martingale that starts at 1, and ever
    reaches |Π|/(0.1 δ) with probability 0.1 δ/|Π| at most (Ville); a union over q gives 0.1 δ. Together with
    `best_threshold`, except with probability δ and at all times: whichever q is certified, each best policy acts like
    it on all but this share of contexts, so that V* − V(q), of rewards in [0, 1], is no more than that.
    """
    return -math.expm1(-certificate_threshold(log_size=log_size, delta=UNSEEN_PART * delta) / samples)


# `certify` has two proofs for a large class, by whether its log has an order: leaders, or a union over all policies.
# What is looked at without an order today may have one tomorrow, and both together may err no more often than δ.
LEADERS_PART, UNION_PART = 0.8, 0.2
# Of δ, for the first of several starts; and of what is left, for each later one.
FIRST_START_PART, LATER_START_PART = 0.5, 0.3


def start_part(number: int) -> float:
    """Of δ, what the proof from one of several starts may use up, by its number, from 0: 1/2, then 3/10 of the rest.

    The wealth of the rows from a start on begins at 1 there. By Ville's inequality, given all that came before, it ever
    reaches 1/(wδ) with probability at most wδ. Where and how many starts there are may depend on what was seen before
    each: as the parts w of all that there can be sum to 1, all proofs together err with probability at most δ.
    """
    if number == 0:
        return FIRST_START_PART
    return (1.0 - FIRST_START_PART) * LATER_START_PART * (1.0 - LATER_START_PART) ** (number - 1)


# Of δ, what a trial with actions that may be withdrawn has while none is; the rest is for those in which some are.
NOTHING_WITHDRAWN_PART = 0.9


def withdrawal_part(n_actions: int, withdrawn: int) -> float:
    """Of δ, what a proof may use up where so many of so many actions were withdrawn: 9/10, or 2^−k/(10 C(A, k)).

    Which set W of actions is withdrawn, and when, follows from what was seen, harm or luck, so that the class Π_W of
    policies that never take one of them is chosen by the data. But there are finitely many W, and each Π_W is a class
    fixed beforehand: leaders are policies of Π_W chosen by what was known before their rounds, so the wealth against
    the best of Π_W ever reaches 1/(wδ) with probability at most wδ (Ville), whatever is withdrawn and whenever. There
    are C(A, k) sets of k actions, and k goes from 1 to A − 1: all proofs together err with probability at most

        δ (9/10 + Σ_k C(A, k) · 2^−k/(10 C(A, k))) ≤ δ.

    A proof for one W uses its own part from the first row on, also for rows from before W was withdrawn.
    """
    if withdrawn == 0:
        return NOTHING_WITHDRAWN_PART
    if not 0 < withdrawn < n_actions:
        raise InputError(f"of {n_actions} actions from 0 to {n_actions - 1} can be withdrawn, got {withdrawn}")
    return (1.0 - NOTHING_WITHDRAWN_PART) * 0.5**withdrawn / math.comb(n_actions, withdrawn)


def alarm_threshold(false_alarms: float) -> float:
    """`log(2/α)`: the log-evidence at which either of two e-processes, α/2 each, raises an alarm by Ville."""
    return math.log(2.0) - math.log(false_alarms)


def arm_confidence(delta: float, *, n_contexts: int, n_actions: int) -> float:
    """`log(|C||A|/δ)`: a best-arm identification in each of |C| contexts, with confidence for each of its |A| arms."""
    return math.log(n_contexts) + math.log(n_actions) - math.log(delta)


def arm_radius(plays: FloatArray, *, noise: float, confidence: float) -> FloatArray:
    """`√(2R² (n + L)(L + log(1 + n/L)/2))/n`: the mean of an arm's n rewards errs by more, ever, w.p. at most e^(−L).

    It is `self_normalised_bound` in one dimension, |Σ η|²/(n + Λ) ≤ 2R² log(√(1 + n/Λ) e^L), with Λ = L: for all n
    together, two-sided, and whichever arms are played for whatever reason, as long as noise is R²-sub-Gaussian given
    all that came before. Any Λ that is fixed beforehand will do. Gaps of 1 need n ≈ 8R²L plays, fewer prove nothing: so
    n + Λ is hardly more than n, and a logarithm of n/L is all that a proof at all times costs. Infinite where n is 0.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = (plays + confidence) * (confidence + np.log1p(plays / confidence) / 2.0)
        radius = np.sqrt(2.0 * noise * spread) / plays
    return np.where(plays > 0, radius, np.inf)


def self_normalised_bound(information: FloatArray, prior: FloatArray, *, noise: float, delta: float) -> float:
    """`2R² log(√(det(V + Λ)/det Λ)/δ)`: what `‖Σ φ η‖²_{(V + Λ)⁻¹}` exceeds, ever, with probability at most δ.

    Abbasi-Yadkori, Pál and Szepesvári (2011, Theorem 1), for V = Σ φφᵀ (d, d), noise η that is R²-sub-Gaussian given
    all that came before, actions chosen as one likes, and a Λ (d, d) that was fixed before the first of these rows.
    """
    grown = float(np.linalg.slogdet(information + prior)[1] - np.linalg.slogdet(prior)[1])
    return 2.0 * noise * (grown / 2.0 - math.log(delta))


def fixed_design_bound(rank: int, *, noise: float, delta: float) -> float:
    """`R²(r + 2√(rL) + 2L)` with L = log(1/δ): what `‖Σ φ η‖²_{V⁻¹}` exceeds with probability at most δ.

    For V = Σ φφᵀ of rank r and independent R²-sub-Gaussian noise η, given contexts and actions that were chosen without
    a look at rewards. With a standard normal g ∈ R^r and Z = V^{−½} Σ φη, `E exp(s‖Z‖²) = E exp(√(2s)⟨g, Z⟩) ≤
    E exp(sR²‖g‖²) = (1 − 2sR²)^(−r/2)`, as for R² times a χ² of r degrees, and of that the bound is Laurent and
    Massart's (2000, Lemma 1).
    """
    confidence = -math.log(delta)
    return noise * (rank + 2.0 * math.sqrt(rank * confidence) + 2.0 * confidence)


def residual_bound(samples: int, *, noise: float, alpha: float) -> float:
    """`R²(n + 2√(nL) + 2L)` with L = log(n(n + 1)/α): what Σ η² exceeds, for any n ever, with probability at most α.

    For noise η that is R²-sub-Gaussian given all that came before: with a standard normal g, `E exp(sη²)` is
    `E exp(√(2s) g η) ≤ E exp(s R² g²) = (1 − 2sR²)^(−1/2)`, so that Ση²/R² has no larger an exponential moment than a
    χ² of n degrees, and of that the bound is Laurent and Massart's (2000, Lemma 1) with probability e^(−L). All n
    together cost α, as Σ 1/(n(n + 1)) = 1. The residuals of least squares have squares that sum to no more than Ση²:
    where these exceed the bound, the noise is larger than R² or means are not linear.
    """
    confidence = math.log(samples) + math.log(samples + 1.0) - math.log(alpha)
    return noise * (samples + 2.0 * math.sqrt(samples * confidence) + 2.0 * confidence)


def ellipsoid_price(dimension: int, *, share: float, delta: float) -> float:
    """`(1 + c)(d/2 log(1 + 1/c) + log(1/δ))`: what stands in the place of log(|Π|/δ) when Λ turns out to be cV."""
    return (1.0 + share) * (dimension / 2.0 * math.log1p(1.0 / share) - math.log(delta))


def best_share(dimension: int, *, delta: float) -> float:
    """The c that makes `ellipsoid_price` least, to 5 %."""
    return min((0.01 * 1.05**j for j in range(160)), key=lambda c: ellipsoid_price(dimension, share=c, delta=delta))


def list_price(*, log_size: float, experts: int, delta: float) -> float:
    """What stands there for a class that can be listed: the threshold, and 6 % for stakes a factor of √2 off.

    A stake m times the best one grows wealth by 2m − m² of what that does, 0.91 and 0.83 at m = 1/√2 and √2; of stakes
    a factor of 2 apart the better one is off by less, and 6 % is about the mean.
    """
    return 1.06 * union_threshold(log_size=log_size, experts=experts, delta=delta)


def round_epsilon(round_number: int) -> float:
    """ε_l = 2^{−l}."""
    return 0.5**round_number


def rounds_needed(epsilon: float) -> int:
    """⌈log₂(1/ε)⌉: the first round whose ε_l is at most ε; none when ε ≥ 1, as no gap is larger."""
    return max(0, math.ceil(-math.log2(epsilon) - 1e-12))


def whole_samples(n: float) -> int:
    """⌈n⌉, at least 1, or a sentence when n is beyond what a double can hold."""
    if not n < math.inf:
        raise InputError("the round would need infinitely many interactions; take a larger epsilon or a smaller scale")
    return max(1, math.ceil(n))
