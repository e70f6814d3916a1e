"""Policy sets (Molitor 2026): a confidence sequence for the value of every policy, and those that may be the best.

    for every policy π, from logged interactions (c, a, r) with propensities h:
        m(c, b) = min(r̂(c, b), k h(b|c))                                       r̂: fitted to earlier rounds
        φ = m(c, π(c)) + 1{π(c) = a} (r − m(c, a)) / h(a|c)                    ≥ −k, and V(π) in the mean
        L(π) ≤ V(π): a lower confidence sequence for the mean of φ, at level δ/(2|Π|)
        U(π) ≥ V(π): the same for 1 − r and 1 − r̂, and 1 minus that
    S = {π: U(π) ≥ max L};  stop once U(π') − L(π) ≤ ε for some π and all other π'

**Source.** Molitor, "Anytime-valid optimal policy identification", 2026, whose confidence sequences are those of
Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro, "Anytime-valid off-policy inference for contextual bandits", 2022.
It is for logs that others keep; here it keeps its own, in which all actions are alike. It stops at a single policy; the
rule for ε is the same with ε to spare. The truncation of r̂ is a function of context and action, without which φ would
have another mean than V(π); outcomes are not cut to [0, 1], and r̂ knows nothing of its own round. Whatever a confidence
sequence needs of the past (r̂, the mean around which squares are taken, the bet λ) is that before the round, which is
predictable as it has to be. Ends once reached are kept, as all ends hold at once.

**Tuning.** `sequence` is `lil`, the stitched boundary that the paper's theory is about, or `plug-in`, the empirical
Bernstein sequence of its simulations (bets cut at 1/2, as suggested). `truncation` is C of k = A/C, the largest weight
where all actions are alike over C; 2 is the suggested one, and a large one comes to weighting by 1/h alone.

**Guarantees.** At all times at once, except with probability δ, the best policy is in S; so the answer is within ε.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.checks import positive, settle, shown
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import sum_by_id, sum_scores
from pacbandits.records import Chosen, Contexts, Log
from pacbandits.rivals.base import DEFAULT_GROWTH, Growth, Play, Rival, RivalState, check_listed
from pacbandits.rivals.regression import ContextCoordinates, fit_ridge
from pacbandits.rivals.samplers import even
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan, Profile, Setting

MOST_POLICIES = 100_000
DEFAULT_SEQUENCE = "plug-in"
DEFAULT_TRUNCATION = 2.0
LARGEST_BET = 0.5
PRIOR_VARIANCE = 0.25

Sequence = Literal["lil", "plug-in"]
SequenceOption = Annotated[Sequence, About("the boundary: stitched (iterated logarithm), or predictable plug-in")]
Truncation = Annotated[float, About("C, where outcomes may go below 0 by k = A/C", above=0)]


@dataclass(frozen=True, eq=False)
class LowerEnds:
    """Lower confidence sequences for the means of outcomes φ ≥ −k, one a policy, from sums of ξ = φ/(1 + k).

    count: how many outcomes each has.
    scale: 1 + k.
    sums (|Π|,): of ξ.
    squares (|Π|,): of ξ².
    deviations (|Π|,): of (ξ − ξ̂)², ξ̂ the mean before the round.
    bets (|Π|,): of λ.
    won (|Π|,): of λξ − ψ(λ)(ξ − ξ̂)², ψ(λ) = −log(1 − λ) − λ.
    ends (|Π|,): the largest so far.
    """

    count: float
    scale: float
    sums: FloatArray
    squares: FloatArray
    deviations: FloatArray
    bets: FloatArray
    won: FloatArray
    ends: FloatArray

    @classmethod
    def nothing(cls, n_policies: int, *, reach: float) -> Self:
        """Return the sequences before any outcome; reach: k."""
        zero = np.zeros(n_policies)
        return cls(0.0, 1.0 + reach, zero, zero, zero, zero, zero, zero)

    @property
    def means(self) -> FloatArray:
        """Mean outcomes (|Π|,)."""
        return self.scale * self.sums / max(self.count, 1.0)

    def after(self, sums: FloatArray, squares: FloatArray, *, count: float, sequence: Sequence, level: float) -> Self:
        """Return the sequences after a round of outcomes, whose ξ and ξ² sum to these (|Π|,); level: α."""
        confidence, cap = float(np.log(1.0 / level)), 1.0 / self.scale
        centre = np.minimum(self.sums / self.count, cap) if self.count else np.full(len(sums), cap / 2.0)
        around = squares - 2.0 * centre * sums + count * centre**2
        spread = np.maximum(self.squares - 2.0 * centre * self.sums + self.count * centre**2, 0.0)
        middle = self.count + (count + 1.0) / 2.0
        variance = (PRIOR_VARIANCE + spread) / (self.count + 1.0)
        bet = np.minimum(np.sqrt(2.0 * confidence / (variance * middle * np.log1p(middle))), LARGEST_BET)
        grown = replace(
            self,
            count=self.count + count,
            sums=self.sums + sums,
            squares=self.squares + squares,
            deviations=self.deviations + around,
            bets=self.bets + count * bet,
            won=self.won + bet * sums + (np.log1p(-bet) + bet) * around,
        )
        ends = grown.stitched(confidence) if sequence == "lil" else grown.plugged_in(confidence)
        return replace(grown, ends=np.maximum(self.ends, ends))

    def stitched(self, confidence: float) -> FloatArray:
        """Proposition 3 of Waudby-Smith and others, (|Π|,), at confidence log(1/α).

        mean φ − (1 + k)(√(2.13 ℓV + 1.76 ℓ²) + 1.33 ℓ)/t,   ℓ = 2 log(1 + log V) + log(1.65/α),   V ≥ 1
        """
        variance = np.maximum(self.deviations, 1.0)
        level = 2.0 * np.log1p(np.log(variance)) + np.log(1.65) + confidence
        width = np.sqrt(2.13 * level * variance + 1.76 * level**2) + 1.33 * level
        return self.means - self.scale * width / max(self.count, 1.0)

    def plugged_in(self, confidence: float) -> FloatArray:
        """Proposition 2 of Waudby-Smith and others, (|Π|,): (1 + k)(Σ(λξ − ψ(λ)(ξ − ξ̂)²) − log(1/α)) / Σλ."""
        return self.scale * (self.won - confidence) / np.maximum(self.bets, 1e-300)


@dataclass(frozen=True, eq=False)
class PolicySet:
    """Confidence sequences for every policy's value, valid at all times at once except with probability δ.

    low: lower sequences of V.
    high: lower sequences of 1 − V.
    """

    low: LowerEnds
    high: LowerEnds

    @classmethod
    def nothing(cls, n_policies: int, *, reach: float) -> Self:
        """Return the sequences before any data."""
        nothing = LowerEnds.nothing(n_policies, reach=reach)
        return cls(nothing, nothing)

    @property
    def samples(self) -> int:
        """The number of interactions."""
        return int(self.low.count)

    @property
    def lower(self) -> FloatArray:
        """L (|Π|,)."""
        return self.low.ends

    @property
    def upper(self) -> FloatArray:
        """U (|Π|,)."""
        return 1.0 - self.high.ends

    @property
    def survivors(self) -> BoolArray:
        """Whether each policy (|Π|,) may still be the best."""
        return self.upper >= self.lower.max()

    @property
    def gaps(self) -> FloatArray:
        """An upper bound on each policy's gap to the best (|Π|,): the largest U of another, less L."""
        upper = self.upper
        best = int(upper.argmax())
        others = np.full(len(upper), upper[best])
        others[best] = np.delete(upper, best).max(initial=-np.inf)
        return np.maximum(others - self.lower, 0.0)

    @property
    def best(self) -> int:
        """The policy with the smallest gap, and among equals the one of largest estimated value."""
        return int(np.lexsort((self.high.means - self.low.means, self.gaps))[0])

    def after(
        self, log: Log, predictions: FloatArray, policies: PolicyClass, *, sequence: Sequence, delta: float
    ) -> Self:
        """Return the sequences after a round; predictions: r̂ (n, A) of its rows, from earlier rounds alone."""
        rows, where = log.contexts.distinct()
        table = policies.actions(log.contexts.take(rows))
        level, count = delta / (2.0 * len(policies)), float(log.samples)
        sides: list[LowerEnds] = []
        for side, rewards, model in (
            (self.low, log.rewards, predictions),
            (self.high, 1 - log.rewards, 1 - predictions),
        ):
            first, second = _summed(log, where, rewards / side.scale, model / side.scale, reach=1.0 - 1.0 / side.scale)
            sums, squares = sum_scores(table, first), sum_scores(table, second)
            sides.append(side.after(sums, squares, count=count, sequence=sequence, level=level))
        return replace(self, low=sides[0], high=sides[1])


def _summed(
    log: Log, where: IntArray, rewards: FloatArray, model: FloatArray, *, reach: float
) -> tuple[FloatArray, FloatArray]:
    """Return the sums of outcomes and of their squares, for each context and policy action, (contexts, A) each.

    Actions that are never played (h = 0) have m = 0, and so outcomes of 0, which no reward falls below.
    """
    n, each, repeats = int(where.max()) + 1, np.arange(len(log)), log.repeats.astype(np.float64)
    told = np.minimum(model, reach * log.propensities)
    own = told[each, log.actions]
    outcomes = own + (rewards - own) / log.played_propensities
    first, second = told.copy(), told**2
    first[each, log.actions] = outcomes
    second[each, log.actions] = outcomes**2
    return sum_by_id(where, repeats[:, None] * first, n=n), sum_by_id(where, repeats[:, None] * second, n=n)


def predicted(seen: Seen, contexts: Contexts, *, coordinates: ContextCoordinates) -> FloatArray:
    """Return rewards (n, A) in [0, 1] predicted by a regression on the observations."""
    return np.clip(fit_ridge(seen, coordinates=coordinates).predict(contexts), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Known:
    """The memory of policy sets between rounds.

    coordinates: of contexts, for the regression.
    values: of every policy, as far as they are known.
    """

    coordinates: ContextCoordinates
    values: PolicySet


@dataclass(frozen=True)
class PolicySets(Rival):
    """Explore uniformly until the confidence sequences of policies' values separate the best from the rest.

    sequence: which of the two kinds.
    truncation: C, where k = A/C.
    """

    name: ClassVar[str] = "policy-sets"
    profile: ClassVar[Profile] = Profile(
        name="policy-sets",
        source="Molitor 2026: a confidence sequence for the value of each policy, from actions played alike",
        classes="classes that can be listed",
        assumes="rewards in [0, 1]",
        guarantees="(ε, δ)-PAC",
        samples="of order A (log|Π| + log log(1/(Δ + ε)))/(Δ + ε)²",
    )

    sequence: Sequence = field(default=DEFAULT_SEQUENCE, kw_only=True)
    truncation: float = field(default=DEFAULT_TRUNCATION, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sequence not in ("lil", "plug-in"):
            raise InputError(f"sequence must be lil or plug-in, got {shown(self.sequence)}")
        settle(self, truncation=positive(self.truncation, name="truncation"))
        if not self.rewards.in_unit:
            raise InputError(f"{self.name} needs rewards in [0, 1], as its confidence sequences do; rescale them")

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        sequence: SequenceOption = DEFAULT_SEQUENCE,
        truncation: Truncation = DEFAULT_TRUNCATION,
        growth: Growth = DEFAULT_GROWTH,
    ) -> PolicySets:
        """Return the algorithm for this setting."""
        return cls(**cls.common(setting), sequence=sequence, truncation=truncation, growth=growth)

    def first_memory(self, policies: PolicyClass, contexts: Contexts) -> Known:
        """Return the first memory; raise unless the policies can be listed."""
        listed = check_listed(policies, name=self.name, most=MOST_POLICIES)
        nothing = PolicySet.nothing(len(listed), reach=listed.n_actions / self.truncation)
        return Known(ContextCoordinates.of(contexts), nothing)

    def play(self, state: RivalState) -> Play:
        """Return uniform exploration."""
        return Play(even(state.policies.n_actions), details={"survivors": int(state.memory.values.survivors.sum())})

    def remember(self, state: RivalState, plan: Plan, log: Log, seen: Seen) -> Known:
        """Return the memory after the round."""
        known: Known = state.memory
        listed = check_listed(state.policies, name=self.name, most=MOST_POLICIES)
        predictions = predicted(state.seen, log.contexts, coordinates=known.coordinates)
        values = known.values.after(log, predictions, listed, sequence=self.sequence, delta=self.delta)
        return replace(known, values=values)

    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """Return the policy with the smallest upper bound on its gap."""
        return check_listed(state.policies, name=self.name, most=MOST_POLICIES).policy(memory.values.best), 0

    def proven(self, state: RivalState, seen: Seen, memory: Any) -> bool:
        """Return whether that bound is at most ε."""
        return bool(memory.values.gaps[memory.values.best] <= self.epsilon)

    def promise(self, state: RivalState) -> str:
        """Return the guarantee of the confidence sequences."""
        known: PolicySet = state.memory.values
        if not (state.finished and (state.samples or self.epsilon >= 1)):
            return f"none: {int(known.survivors.sum()):,} of {len(known.lower):,} policies may still be the best"
        return (
            f"except with probability {self.delta:g} the policy is within {self.epsilon:g} of the best of its class, "
            "provided rewards lie in [0, 1]"
        )
