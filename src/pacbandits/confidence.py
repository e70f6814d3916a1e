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

MIN_EPSILON, MAX_EPSILON = 1e-100, 1e100  # their squares are doubles
MAX_ASKED_DELTA = 0.5  # a larger one is a confidence

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
# In CODA through oracles, gaps are estimated from above and the same width is required of −Δ̂/2 instead of −Δ̂/8
# (docs/algorithms.md, coda-oracle): a, and the β of γ = βL/(n ε_l), one γ for the estimates of a round.
CODA_ORACLE_SLOPE = 1.0 / 2.0
CODA_ORACLE_GAMMA_WEIGHT = 8.0
# The same with one γ for every policy: 8L/(γn) = ε_l/2 fixes γ, which leaves n ≥ 256 LV/(ε_l(ε_l + Δ̂/4)).
COMMON_GAMMA_SLOPE = 2.0 * CODA_SLOPE

# On the good event no best policy (Δ = 0) has an estimated gap Δ̂_l above this multiple of ε_l. If all other policies
# have, π̂_l is the only best one, and the rounds end (docs/algorithms.md, "Rounds that end").
#   rage-free    Δ̂_l ≤ w_π + w_π̂ − Δ(π̂_l) with w = (√2/28)(2ε_l + 5Δ/16): 4·√2/28
#   coda-paper   Δ̂_l ≤ 2u_π + 2u_π̂ − Δ(π̂_l) with u = tε_l + 5Δ/256, t ≤ 11/48: 4·11/48
#   coda-oracle  Δ̂_l ≤ 4u_π − Δ(π̂_l) with u ≤ ε_l/4
RAGE_FREE_BEST_GAP = math.sqrt(2.0) / 7.0
CODA_BEST_GAP = 11.0 / 12.0
CODA_ORACLE_BEST_GAP = 1.0

# Bounds on the noise variance, so that its square and inverse are finite.
MIN_NOISE, MAX_NOISE = 1e-100, 1e100
# The probability that the residuals refute a declared noise that is correct.
RESIDUAL_ALARM_RATE = 1e-6


def check_epsilon(epsilon: object) -> float:
    """Return ε if it is finite and ≥ 0 with a square that a double can hold; else raise InputError."""
    given = number(epsilon, name="epsilon", least=0)
    if given != 0 and not MIN_EPSILON <= given <= MAX_EPSILON:
        raise InputError(f"epsilon must be 0 or between {MIN_EPSILON:g} and {MAX_EPSILON:g}, got {shown(epsilon)}")
    return given


def check_positive_epsilon(
    epsilon: object, *, asker: str = "a certificate", why: str = "", least: float = MIN_EPSILON
) -> float:
    """Return ε if it is from `least` to MAX_EPSILON; else raise InputError. asker, why: who needs it, and for what."""
    given = finite(epsilon)
    if given is None or not least <= given <= MAX_EPSILON:
        ends = f"a number from {least:g} to {MAX_EPSILON:g}"
        raise InputError(f"{asker} needs an epsilon above 0, {ends}{why}; got {shown(epsilon)}")
    return given


def check_delta(delta: object) -> float:
    """Return δ if 0 < δ < 1; else raise InputError."""
    return number(delta, name="delta", above=0, below=1, wanted="lie strictly between 0 and 1")


def check_asked_delta(delta: object) -> float:
    """Return the δ that a person asks for; raise InputError also above 1/2, which is a confidence taken for δ.

    Certificates, plans and states that are read may have any δ (`check_delta`).
    """
    given = check_delta(delta)
    if given > MAX_ASKED_DELTA:
        wrong = 1.0 - given
        raise InputError(
            f"delta must be at most 0.5, got {shown(delta)}: it is the probability of being wrong; for "
            f"{100 * given:.6g} % confidence use {wrong:.4g} ({100 * wrong:.4g}%)"
        )
    return given


def check_noise(variance: object, *, name: str = "noise") -> float:
    """Return a noise variance, or R² of sub-Gaussian noise, if it is 0 or has a square and an inverse."""
    variance = number(variance, name=name, least=0)
    if variance != 0 and not MIN_NOISE <= variance <= MAX_NOISE:
        raise InputError(
            f"{name} must be 0 or between {MIN_NOISE:g} and {MAX_NOISE:g}, got {variance}; rescale rewards"
        )
    return variance


def round_confidence(delta: float, *, round_number: int, log_size: float) -> float:
    """Return log(1/δ_l) with `δ_l = 3δ/(π² l² |Π|²)`, for a two-sided event on every pair of policies in round l ≥ 1.

    As Σ 1/l² = π²/6, all those events together fail with probability at most Σ_l 2 |Π|² δ_l = δ. In the paper, the
    δ/(2l²|Π|) of Algorithms 1 and 2 counts one side (and in Algorithm 2 one policy instead of a pair), and the
    δ/(l²|Π|²) of CODA counts one side and a series that exceeds 1 (corrections, row 6).
    """
    return math.log(math.pi**2 * round_number**2 / 3.0) - math.log(delta) + 2.0 * log_size


def oracle_confidence(delta: float, *, round_number: int, log_size: float) -> float:
    """Return log(1/δ_l) with `δ_l = 3δ/(π² l² |Π|)`, for a two-sided event on every policy against q in round l ≥ 1.

    q is fixed before the round, so no pairs are needed (corrections, row 29): Σ_l 2 |Π| δ_l = δ.
    """
    return round_confidence(delta, round_number=round_number, log_size=log_size / 2.0)


def catoni_scale(variance: FloatArray, *, samples: int, confidence: float) -> FloatArray:
    """Return the α of Catoni's mean, `√(2L (n − 2L)/(n² v))` for n ≥ 4L; 0 where v is 0.

    With it, the mean of n values of variance ≤ v errs by more than the radius `√(2vL/(n − 2L))` w.p. at most 2e^{−L}
    (Catoni 2012, Proposition 2.4; the paper has n − L: corrections, row 25). He proves it for all n > 2L; with n < 4L
    no proof here uses a radius (gaps are cut instead), and α is that of n = 4L, `√(1/(4v))`.
    """
    spare = max(1.0 - 2.0 * confidence / samples, 0.5)
    with np.errstate(divide="ignore"):
        alpha = np.sqrt(2.0 * min(confidence, samples / 4.0) * spare / (samples * variance))
    return np.where(variance > 0, alpha, 0.0)


def has_catoni_radius(samples: int, *, confidence: float, scale: float) -> bool:
    """Return whether a round is long enough, `n ≥ 4cL`, to use its means as estimates; `scale` c = 1 for the proof.

    A shorter one has `s²V < ε_l²` in `rage-features` and `s²V < (ε_l + Δ̂/4)²/392` in `rage-free-features`. As a gap
    is at most √V there (Cauchy and Schwarz: ⟨x, θ*⟩² ≤ ‖x‖²_{A⁻¹} · θ*ᵀAθ*, and θ*ᵀAθ* = E r(c, a)² ≤ 1), an estimate
    of 0 errs by no more than Catoni's radius in a longer one: ε_l, and (√2/28)(ε_l + Δ̂/4).
    """
    return samples >= 4.0 * scale * confidence


def regularised_radius(gamma: FloatArray, variance: FloatArray, *, samples: int, confidence: float) -> FloatArray:
    """Return `2(γV + L/(γn))`: the regularised gap estimate errs by more w.p. at most 2e^{−L} (Lemma `EE`).

    Its bias is at most γV; Bernstein's inequality for terms of at most 1/γ and second moment V adds
    √(2VL/n) + 2L/(3γn) ≤ (γV + L/(γn))/√2 + 2L/(3γn).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = 2.0 * (gamma * variance + confidence / (gamma * samples))
    return np.where(variance > 0, radius, 0.0)


def best_gamma(variance: FloatArray, *, samples: int, confidence: float) -> FloatArray:
    """Return the γ that minimises `γV + L/(γn)`: `√(L/(nV))`; infinite for a policy that never differs."""
    with np.errstate(divide="ignore"):
        return np.sqrt(confidence / (samples * variance))


def common_gamma(epsilon: float, *, samples: int, confidence: float) -> float:
    """Return the γ common to all policies: `8L/(γn) = ε_l/2`."""
    return 2.0 * CODA_WIDTH_WEIGHT * confidence / (samples * epsilon)


def round_gamma(epsilon: float, *, samples: int, confidence: float) -> float:
    """Return the γ of a round of CODA through oracles: `L/(γn) = ε_l/8`."""
    return CODA_ORACLE_GAMMA_WEIGHT * confidence / (samples * epsilon)


def elimination_samples(rho: float, *, epsilon: float, confidence: float, second_moment: float, scale: float) -> int:
    """Return `n_l = ⌈c · 4 s² ε_l⁻² ρ(Π_l) L⌉`, at least 1; `scale` c = 1 for the guarantee."""
    return whole_samples(scale * ELIMINATION_FACTOR * second_moment * rho * confidence / epsilon**2)


def ratio_samples(value: float, *, factor: float, confidence: float, second_moment: float, scale: float) -> int:
    """Return `n_l = ⌈c · b² s² L · max_π V_π/d(Δ̂_π)²⌉`, at least 1; value: the max, as a design attains it."""
    return whole_samples(scale * factor * second_moment * value * confidence)


# The theorems bound n_l with these constants: n_l ≤ C s² ρ_{Π,ε_l} L + 1 on the good event. By V_{π,q} ≤ 2V_{π,π*} +
# 2V_{q,π*} ≤ 2ρ(max(Δ, ε_l)² + 4ε_l²), with x = Δ/ε_l and the lemmas' Δ̂ ≥ max(0, 3Δ/4 − 4ε_l):
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
    """Return `Σ_l (C s² ρ_{Π,ε_l} log(1/δ_l) + 1)`: a bound on all samples of rounds of complexity `rhos`."""
    return sum(
        constant * second_moment * rho * round_confidence(delta, round_number=number, log_size=log_size) + 1.0
        for number, rho in enumerate(rhos, start=1)
    )


def certificate_threshold(*, delta: float, log_size: float = 0.0) -> float:
    """Return `log(|Π|/δ)`: the log-wealth that must be reached against every policy to certify q.

    Fix π* and a q with V(π*) > V(q) + ε. Certifying q means refuting π* too. The mean wealth of K experts against the
    pair (π*, q) is a nonnegative supermartingale that starts at 1, so by Ville's inequality it ever reaches |Π|/δ with
    probability at most δ/|Π|; a union over q gives δ. No union over π is needed: π* must be among the refuted policies,
    whatever the others do. The leader of a round is fixed before the round, and the mixture of the leaders needs no
    union at all (`pacbandits.certificate.leaders`): log|Π| is 0 there.
    """
    return log_size - math.log(delta)


def union_threshold(*, log_size: float, experts: int, delta: float) -> float:
    """Return `log(|Π| K/δ)`: the same threshold if each of K experts has its own share δ/K."""
    return certificate_threshold(log_size=log_size, delta=delta) + math.log(experts)


# The share of δ, in proofs that q is the best of its class, for best policies that agree with q on the whole log.
UNSEEN_PART = 0.1


def best_threshold(*, delta: float, log_size: float) -> float:
    """Return `log(|Π|/(0.9 δ))`: the log-wealth at ε = 0 that refutes a policy which differs from q on the log.

    Fix q, and among the best policies the π* that differs from q most often. The wealth against "V(π*) ≥ V(q)" is a
    nonnegative supermartingale that starts at 1. If π* differs from q on some context of the log, certifying q means
    refuting π*, which has probability at most 0.9 δ/|Π| (Ville); a union over q gives 0.9 δ. There is no union over π*,
    which is fixed. A policy that agrees with q on the whole log cannot be refuted: for that see `unseen_share`.
    """
    return certificate_threshold(log_size=log_size, delta=(1.0 - UNSEEN_PART) * delta)


def unseen_share(samples: float, *, delta: float, log_size: float) -> float:
    """Return `1 − (0.1 δ/|Π|)^(1/n)`: the largest share of contexts on which π* may differ from q unseen in n rows.

    With D the share of contexts on which π* differs from q, `1{alike on the first n}/(1 − D)^n` is a martingale that
    starts at 1, and ever reaches |Π|/(0.1 δ) with probability at most 0.1 δ/|Π| (Ville); a union over q gives 0.1 δ.
    Together with `best_threshold`, with probability 1 − δ and at all times: whichever q is certified, each best policy
    agrees with it on all but this share of contexts, so that V* − V(q), for rewards in [0, 1], is at most this share.
    """
    return -math.expm1(-certificate_threshold(log_size=log_size, delta=UNSEEN_PART * delta) / samples)


# `certify` has two proofs for a large class: by leaders if its log has an order, else by a union over all policies. A
# log analysed without an order may have one at a later analysis, and both proofs together may err with probability at
# most δ.
LEADERS_PART, UNION_PART = 0.8, 0.2
# Where gains over control are proven: the share of δ of each candidate, and that of each policy that may be
# recommended, for its distance from the best. Both are fixed before the first row (see `pacbandits.certificate.gains`).
CONTROL_PART = 0.1
GUARDRAILS_PART = 0.2  # the share of δ of all guardrails together, if there are any; gains have the remainder


def candidate_part(candidates: int, *, guardrails: int = 0) -> float:
    """Return the share of δ of each candidate's gain over control, for one or two candidates."""
    return (1.0 - GUARDRAILS_PART if guardrails else 1.0) / candidates


def guardrail_part(candidates: int, *, guardrails: int) -> float:
    """Return the share of δ of each side of each guardrail of each candidate."""
    return GUARDRAILS_PART / (2.0 * candidates * guardrails)


# The share of a part of δ for the main one of the four bounds of a ratio; the others share the remainder. A choice: the
# main one sets the width, and the others count in products of small numbers.
RATIO_PART = 0.8


def ratio_part(*, main: bool) -> float:
    """Return the share, in a part α for each side, of each side of the bounds that a difference of ratios needs.

    Let R(x) = E_x[r]/μ_x with μ_x = E_x[o] > 0 for the policies x = q and x = c; f a factor; and ρ a number fixed
    before the rows that bet. With θ_x = E_x[r − ρo] = μ_x (R(x) − ρ) and the main quantity G = θ_q − fθ_c,

        R(q) − f R(c) = (1 − f)ρ + G/μ_q + fθ_c (1/μ_q − 1/μ_c).

    This is affine in each of G, θ_c, 1/μ_q and 1/μ_c, so its extremes over a box are at corners: while all four lie
    between their bounds, it lies between its smallest and its largest value at their ends. Each side of G is wrong with
    probability at most 4α/5, each side of the three others with α/15: all eight together with 2α, as the two sides of a
    guardrail on one column.
    """
    return RATIO_PART if main else (1.0 - RATIO_PART) / 3.0


def recommended_part(*, control: bool, candidates: int) -> float:
    """Return the share of δ of the distance from the best of control, or of each candidate."""
    return CONTROL_PART if control else (1.0 - CONTROL_PART) / candidates


# The share of δ for the first of several starts, and the share of the remainder for each later one.
FIRST_START_PART, LATER_START_PART = 0.5, 0.3


def start_part(number: int) -> float:
    """Return the share of δ for the proof from start `number` = 0, 1, …: 1/2, then each time 3/10 of the remainder.

    The wealth over the rows after a start begins at 1 there. By Ville's inequality, given the past, it ever reaches
    1/(wδ) with probability at most wδ. The number of starts and their positions may depend on the rows before each: as
    the shares w of all possible starts sum to 1, all proofs together err with probability at most δ.
    """
    if number == 0:
        return FIRST_START_PART
    return (1.0 - FIRST_START_PART) * LATER_START_PART * (1.0 - LATER_START_PART) ** (number - 1)


# The share of δ, in a trial whose actions may be withdrawn, while none is; the remainder is for all other cases.
NOTHING_WITHDRAWN_PART = 0.9


def withdrawal_part(n_actions: int, withdrawn: int) -> float:
    """Return the share of δ for a proof when k of A actions are withdrawn: 9/10 if k = 0, else 2^−k/(10 C(A, k)).

    The set W of withdrawn actions, and the time, follow from the data (harm or chance), so the class Π_W of policies
    that never take an action of W is chosen by the data. But there are finitely many W, and each Π_W is a class fixed
    beforehand: leaders are policies of Π_W chosen by data from before their rounds, so the wealth against the best of
    Π_W ever reaches 1/(wδ) with probability at most wδ (Ville), whatever is withdrawn and whenever. There are C(A, k)
    sets of k actions, and k goes from 1 to A − 1: all proofs together err with probability at most

        δ (9/10 + Σ_k C(A, k) · 2^−k/(10 C(A, k))) ≤ δ.

    A proof for one W uses its own share from the first row on, also for rows from before W was withdrawn.
    """
    if withdrawn == 0:
        return NOTHING_WITHDRAWN_PART
    if not 0 < withdrawn < n_actions:
        raise InputError(f"of {n_actions} actions from 0 to {n_actions - 1} can be withdrawn, got {withdrawn}")
    return (1.0 - NOTHING_WITHDRAWN_PART) * 0.5**withdrawn / math.comb(n_actions, withdrawn)


def alarm_threshold(false_alarms: float) -> float:
    """Return `log(2/α)`: the log-evidence at which one of two e-processes, α/2 each, raises an alarm (Ville)."""
    return math.log(2.0) - math.log(false_alarms)


def arm_confidence(delta: float, *, n_contexts: int, n_actions: int) -> float:
    """Return `log(|C||A|/δ)`, for a confidence bound on each of |A| arms in each of |C| contexts."""
    return math.log(n_contexts) + math.log(n_actions) - math.log(delta)


def arm_radius(plays: FloatArray, *, noise: float, confidence: float) -> FloatArray:
    """Return `√(2R² (n + L)(L + log(1 + n/L)/2))/n`: the mean of n rewards of an arm ever errs by more w.p. ≤ e^(−L).

    This is `self_normalised_bound` in one dimension, |Σ η|²/(n + Λ) ≤ 2R² log(√(1 + n/Λ) e^L), with Λ = L: for all n
    together, two-sided, and for any choice of arms, if noise is R²-sub-Gaussian given the past. Any Λ fixed beforehand
    is valid. Gaps of 1 need n ≈ 8R²L plays, fewer prove nothing: so n + Λ is hardly more than n, and validity at all
    times costs only a logarithm of n/L. Infinite where n is 0.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = (plays + confidence) * (confidence + np.log1p(plays / confidence) / 2.0)
        radius = np.sqrt(2.0 * noise * spread) / plays
    return np.where(plays > 0, radius, np.inf)


def self_normalised_bound(information: FloatArray, prior: FloatArray, *, noise: float, delta: float) -> float:
    """Return `2R² log(√(det(V + Λ)/det Λ)/δ)`: `‖Σ φ η‖²_{(V + Λ)⁻¹}` ever exceeds it with probability at most δ.

    Abbasi-Yadkori, Pál and Szepesvári (2011, Theorem 1), for V = Σ φφᵀ (d, d), noise η that is R²-sub-Gaussian given
    the past, any choice of actions, and a Λ (d, d) that was fixed before the first of these rows.
    """
    grown = float(np.linalg.slogdet(information + prior)[1] - np.linalg.slogdet(prior)[1])
    return 2.0 * noise * (grown / 2.0 - math.log(delta))


def fixed_design_bound(rank: int, *, noise: float, delta: float) -> float:
    """Return `R²(r + 2√(rL) + 2L)` with L = log(1/δ): `‖Σ φ η‖²_{V⁻¹}` exceeds it with probability at most δ.

    For V = Σ φφᵀ of rank r and independent R²-sub-Gaussian noise η, given contexts and actions that were chosen
    independently of rewards. With a standard normal g ∈ R^r and Z = V^{−½} Σ φη, `E exp(s‖Z‖²) = E exp(√(2s)⟨g, Z⟩) ≤ E
    exp(sR²‖g‖²) = (1 − 2sR²)^(−r/2)`, as for R² times a χ² of r degrees, for which Laurent and Massart (2000, Lemma 1)
    have this bound.
    """
    confidence = -math.log(delta)
    return noise * (rank + 2.0 * math.sqrt(rank * confidence) + 2.0 * confidence)


def residual_bound(samples: int, *, noise: float, alpha: float) -> float:
    """Return `R²(n + 2√(nL) + 2L)` with L = log(n(n + 1)/α): Σ η² exceeds it for any n w.p. at most α.

    For noise η that is R²-sub-Gaussian given the past: with a standard normal g, `E exp(sη²)` is `E exp(√(2s) g η) ≤ E
    exp(s R² g²) = (1 − 2sR²)^(−1/2)`, so that Ση²/R² has no larger an exponential moment than a χ² of n degrees, for
    which Laurent and Massart (2000, Lemma 1) have this bound with probability 1 − e^(−L). All n together cost α, as Σ
    1/(n(n + 1)) = 1. The squared residuals of least squares sum to at most Ση²: if they exceed the bound, the noise is
    larger than R² or means are not linear.
    """
    confidence = math.log(samples) + math.log(samples + 1.0) - math.log(alpha)
    return noise * (samples + 2.0 * math.sqrt(samples * confidence) + 2.0 * confidence)


def ellipsoid_price(dimension: int, *, share: float, delta: float) -> float:
    """Return `(1 + c)(d/2 log(1 + 1/c) + log(1/δ))`, which replaces log(|Π|/δ) if Λ turns out to be cV."""
    return (1.0 + share) * (dimension / 2.0 * math.log1p(1.0 / share) - math.log(delta))


def best_share(dimension: int, *, delta: float) -> float:
    """Return the c that minimises `ellipsoid_price`, to 5 %."""
    return min((0.01 * 1.05**j for j in range(160)), key=lambda c: ellipsoid_price(dimension, share=c, delta=delta))


def list_price(*, log_size: float, experts: int, delta: float) -> float:
    """Return the price of a class that can be listed: the union threshold, plus 6 % for stakes off by up to √2.

    A stake m times the best one grows wealth at 2m − m² of the best rate, 0.91 and 0.83 at m = 1/√2 and √2. If stakes
    are a factor of 2 apart, the better one is off by less, and 6 % is about the mean loss.
    """
    return 1.06 * union_threshold(log_size=log_size, experts=experts, delta=delta)


def round_epsilon(round_number: int) -> float:
    """Return ε_l = 2^{−l}."""
    return 0.5**round_number


def rounds_needed(epsilon: float) -> int:
    """Return ⌈log₂(1/ε)⌉: the first round whose ε_l is at most ε; 0 if ε ≥ 1, as no gap is larger."""
    return max(0, math.ceil(-math.log2(epsilon) - 1e-12))


def whole_samples(n: float) -> int:
    """Return ⌈n⌉, at least 1; raise InputError if n is infinite."""
    if not n < math.inf:
        raise InputError("the round would need infinitely many interactions; take a larger epsilon or a smaller scale")
    return max(1, math.ceil(n))
