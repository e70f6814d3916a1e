"""Track-and-stop (Garivier and Kaufmann 2016): the best arm with the fewest plays, where an arm is a whole policy.

    after t plays, N_i of policy i with mean reward μ_i:
        w = the shares of plays that would tell policy 1 (the best so far) from all others soonest, were μ the truth:
            the maximum over w of  min_j inf_λ w_1 kl(μ_1, λ) + w_j kl(μ_j, λ + ε)
        play policies in proportion to what they lack of  max(w_i t, √t − K/2)
        stop once for all j  inf_λ N_1 kl(μ_1, λ) + N_j kl(μ_j, λ + ε) > log((K − 1)/δ) + c_1 + c_j
        with  c_i = log of the largest likelihood of the N_i rewards over their Krichevsky–Trofimov probability

**Source.** Garivier and Kaufmann, "Optimal best arm identification with fixed confidence", COLT 2016, with Bernoulli
arms and D-tracking. Contexts play no part in what is learnt of a policy but that it sees them. Their proof of the
threshold log(2t(K − 1)/δ), Theorem 10, is by the c_i, and 4√(N_1 N_j) ≤ 2t bounds exp(c_1 + c_j); here these stand as
they are, which is never more. A policy's rewards in [0, 1] need not be coin flips: a likelihood ratio of coins of means
q and μ is log-linear in the reward, so that it has mean 1 at most for any rewards in [0, 1] of mean μ. For ε > 0 the
test is of μ_j ≥ μ_1 + ε: were the answer more than ε off, that would be true of the best policy j, and the same
inequality bounds the chance by δ/(K − 1) for each wrong answer.

A round plays a mixture of policies, and the log records the action, not the policy. The policy is drawn afterwards,
from those that take the action, in proportion to the mixture. That has the same joint distribution as a mixture whose
draws are recorded, as the reward depends on context and action alone.

**Tuning.** `arms` is `policies`, or `actions` for the policies of the class that always take the same action. `seed` is
of the draws of policies. Nothing else is to be tuned.

**Guarantees.** (ε, δ)-PAC; and for ε = 0, as δ → 0, as few plays as any rule that ignores contexts can do with, up to
the length of a round, where gaps are above `LEAST_GAP`. A baseline, and not what its authors propose for contexts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np

from pacbandits.arrays import FloatArray, IntArray, special
from pacbandits.checks import settle, shown, whole_number
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Chosen, Contexts, Log
from pacbandits.rivals.base import DEFAULT_GROWTH, Growth, Play, Rival, RivalState, check_listed, next_checkpoint
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan, Profile, Setting

MOST_ARMS = 2_000
GRID = 32  # points at which the trade-off between two arms is known
LEAST_GAP = 1e-3  # what arms are taken to differ by at the least where shares are computed

Arms = Literal["policies", "actions"]
ArmsOption = Annotated[Arms, About("arms: the policies of the class, or those that always take the same action")]
Seed = Annotated[int, About("random seed of the draws of policies", least=0)]


@dataclass(frozen=True, eq=False)
class ArmTally:
    """The observations of each arm.

    arms (K,): their numbers in the class.
    plays (K,): how often each was played.
    sums (K,): of its rewards.
    """

    arms: IntArray
    plays: FloatArray
    sums: FloatArray

    @classmethod
    def nothing(cls, arms: IntArray) -> Self:
        """Return no observations."""
        return cls(arms, np.zeros(len(arms)), np.zeros(len(arms)))

    @property
    def means(self) -> FloatArray:
        """Mean rewards (K,), 0 of arms that were not played."""
        return self.sums / np.maximum(self.plays, 1.0)

    @property
    def guesses(self) -> FloatArray:
        """Mean rewards (K,) shrunk towards 1/2, which orders arms that were hardly played."""
        return (self.sums + 0.5) / (self.plays + 1.0)

    @property
    def best(self) -> int:
        """The arm with the largest mean."""
        return int(np.lexsort((-self.guesses, -self.means))[0])

    @property
    def prices(self) -> FloatArray:
        """c (K,): by how much the largest log-likelihood exceeds that of the Krichevsky–Trofimov mixture of coins."""
        missed, means = self.plays - self.sums, self.means
        largest = special.xlogy(self.sums, means) + special.xlogy(missed, 1.0 - means)
        return largest - (special.betaln(self.sums + 0.5, missed + 0.5) - special.betaln(0.5, 0.5))

    def evidence(self, *, epsilon: float) -> FloatArray:
        """Return the evidence that no other arm (K − 1,) is ε better: a log-likelihood ratio, less two arms' prices."""
        best, means = self.best, np.minimum(self.means, 1.0)
        rest = np.arange(len(means)) != best
        ratio = closest(means[best], means[rest], self.plays[best], self.plays[rest], epsilon=epsilon)
        prices = self.prices
        return ratio - prices[best] - prices[rest]


def kl(one: FloatArray | float, two: FloatArray) -> FloatArray:
    """Return the Kullback–Leibler divergence of Bernoulli distributions with these means."""
    out: FloatArray = special.rel_entr(one, two) + special.rel_entr(np.subtract(1.0, one), 1.0 - two)
    return out


def closest(best: float, means: FloatArray, plays: float, others: FloatArray, *, epsilon: float) -> FloatArray:
    """`inf_λ plays kl(best, λ) + others kl(means, λ + ε)`, for every other arm; λ by bisection, as that is convex."""
    high = np.full(len(means), min(best, 1.0 - epsilon))
    low = np.minimum(np.clip(means - epsilon, 0.0, 1.0 - epsilon), high)
    apart = low < high
    for _ in range(40):
        at = (low + high) / 2.0
        moved = at + epsilon
        slope = plays * (at - best) * moved * (1.0 - moved) + others * (moved - means) * at * (1.0 - at)
        low, high = np.where(slope < 0, at, low), np.where(slope < 0, high, at)
    at = (low + high) / 2.0
    with np.errstate(invalid="ignore"):
        value = np.where(plays > 0, plays * kl(best, at), 0.0) + np.where(
            others > 0, others * kl(means, at + epsilon), 0
        )
    return np.where(apart, value, 0.0)


def optimal_shares(means: FloatArray, *, epsilon: float) -> FloatArray:
    """w (K,), for true means strictly between 0 and 1.

    With w_1 = 1 and x = w_j, the infimum over λ is attained where x = (μ_1 − λ)(λ + ε)(1 − λ − ε)/(λ(1 − λ)(λ + ε −
    μ_j)). At the optimum it is the same y for all j, and Σ_j kl(μ_1, λ_j)/kl(μ_j, λ_j + ε) = 1 (their Theorem 5). Both
    are tabulated over λ for each j, and y is found by bisection.
    """
    best = int(means.argmax())
    top, rest = float(means[best]), np.delete(means, best)
    if len(rest) == 0:
        return np.ones(1)
    gap = max(epsilon, LEAST_GAP)
    high, low = min(top, 1.0 - gap), np.maximum(rest - gap, 0.0)
    low = np.minimum(low, high - 1e-9)
    steps = (1.0 - np.cos(np.linspace(0.01, np.pi - 0.01, GRID))) / 2.0  # denser at both ends
    at = low[:, None] + (high - low)[:, None] * steps
    moved, own = at + gap, rest[:, None]
    share = (top - at) * moved * (1.0 - moved) / np.maximum(at * (1.0 - at) * (moved - own), 1e-300)
    first, second = kl(top, at), np.maximum(kl(own, moved), 1e-300)
    value, ratio = first + share * second, first / second
    rows = np.arange(len(rest))

    def between(table: FloatArray, y: float) -> FloatArray:
        upper = np.clip((value > y).sum(axis=1), 1, GRID - 1)
        left, right = value[rows, upper - 1], value[rows, upper]
        part = np.clip((left - y) / np.maximum(left - right, 1e-300), 0.0, 1.0)
        out: FloatArray = table[rows, upper - 1] * (1.0 - part) + table[rows, upper] * part
        return out

    below, above = 0.0, float(value[:, 0].min())
    for _ in range(24):
        y = (below + above) / 2.0
        below, above = (y, above) if between(ratio, y).sum() < 1.0 else (below, y)
    shares = np.insert(between(share, (below + above) / 2.0), best, 1.0)
    out: FloatArray = shares / shares.sum()
    return out


@dataclass(frozen=True, eq=False)
class ArmMixture:
    """A mixture of the listed policies.

    policies: the list.
    arms (K,): those that may be drawn.
    weights (K,): with what chances, which sum to 1.
    """

    policies: PolicyClass
    arms: IntArray
    weights: FloatArray

    @property
    def n_actions(self) -> int:
        return self.policies.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A)."""
        actions = self.policies.actions(contexts)[self.arms]
        out = np.stack([self.weights @ (actions == action) for action in range(self.n_actions)], axis=1)
        return out / out.sum(axis=1, keepdims=True)

    def drawn(self, log: Log, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return the plays and the reward sums of each arm (K,), with arms drawn given the actions.

        Interactions are taken in an order of their own, so that it does not matter in which they were written down.
        """
        rows, where = log.contexts.distinct()
        actions = self.policies.actions(log.contexts.take(rows))[self.arms].T
        m, k = actions.shape
        order = np.argsort(actions, axis=1, kind="stable")
        ends = np.cumsum(self.weights[order], axis=1)
        sizes = np.stack([(actions == action).sum(axis=1) for action in range(self.n_actions)], axis=1)
        last = np.cumsum(sizes, axis=1)
        by_row = np.lexsort((log.rewards, log.actions, where))
        row = np.repeat(by_row, log.repeats[by_row])
        context, action = where[row], log.actions[row]
        stop = last[context, action]
        start = stop - sizes[context, action]
        before = np.where(start > 0, ends[context, np.maximum(start - 1, 0)], 0.0)
        target = before + rng.random(len(row)) * (ends[context, stop - 1] - before)
        flat: FloatArray = (ends + 2.0 * np.arange(m, dtype=np.float64)[:, None]).reshape(
            -1
        )  # rows of totals one after the other, rising throughout
        place = np.searchsorted(flat, target + 2.0 * context, side="right") - k * context
        arm = order[context, np.clip(place, start, stop - 1)]
        plays, sums = (np.bincount(arm, weights=each, minlength=k) for each in (None, log.rewards[row]))
        return plays.astype(np.float64), sums.astype(np.float64)


@dataclass(frozen=True)
class TrackAndStop(Rival):
    """Play whole policies as often as it takes to tell the best from each other one, and stop once that is done.

    arms: what an arm is.
    seed: of the draws that say which policy was played.
    """

    name: ClassVar[str] = "track-and-stop"
    profile: ClassVar[Profile] = Profile(
        name="track-and-stop",
        source="Garivier and Kaufmann 2016: best-arm identification with each policy for an arm",
        classes=f"classes that can be listed, up to {MOST_ARMS:,} policies",
        assumes="rewards in [0, 1]",
        guarantees="(ε, δ)-PAC",
        samples="about log(1/δ) times what telling policies apart takes that are played whole, of order |Π|/(Δ + ε)²",
    )

    arms: Arms = field(default="policies", kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.arms not in ("policies", "actions"):
            raise InputError(f"arms must be policies or actions, got {shown(self.arms)}")
        settle(self, seed=whole_number(self.seed, name="seed", least=0))
        if not self.rewards.in_unit:
            raise InputError(f"{self.name} needs rewards in [0, 1], as its test is of coins; rescale them")

    @classmethod
    def made_for(
        cls, setting: Setting, *, arms: ArmsOption = "policies", seed: Seed = 0, growth: Growth = DEFAULT_GROWTH
    ) -> TrackAndStop:
        """Return the algorithm for this setting."""
        return cls(**cls.common(setting), arms=arms, seed=seed, growth=growth)

    def first_memory(self, policies: PolicyClass, contexts: Contexts) -> ArmTally:
        """Return the first tally; raise unless the policies can be listed."""
        if self.arms == "policies":
            return ArmTally.nothing(np.arange(len(check_listed(policies, name=self.name, most=MOST_ARMS))))
        actions = check_listed(policies, name=self.name, most=10**6).actions(contexts)
        fixed: list[int] = np.flatnonzero((actions == actions[:, :1]).all(axis=1)).tolist()
        # One policy an action is enough, as two that always take it are the same.
        kept = {int(actions[k, 0]): k for k in reversed(fixed)}
        if not kept:
            raise InputError(
                f"{self.name} with arms=actions needs policies that always take the same action, and none of the "
                f"{len(actions):,} does; use arms=policies"
            )
        return ArmTally.nothing(np.array(sorted(kept.values()), dtype=np.int64))

    def _listed(self, state: RivalState) -> PolicyClass:
        return check_listed(state.policies, name=self.name, most=10**6)

    def play(self, state: RivalState) -> Play:
        """Return the mixture of policies, in proportion to the plays they lack."""
        mixture, share = self._arm_mixture(state)
        return Play(mixture, details={"arms": len(mixture.arms), "share": share})

    def _arm_mixture(self, state: RivalState) -> tuple[ArmMixture, float]:
        """Return that mixture, and the best arm's optimal share of plays."""
        tally: ArmTally = state.memory
        k = len(tally.arms)
        total = next_checkpoint(state.samples, growth=self.growth)
        explored = bool(tally.plays.min() > 0)
        shares = optimal_shares(tally.guesses, epsilon=self.epsilon) if explored else np.full(k, 1.0 / k)
        goals = np.maximum(shares * total, np.sqrt(total) - k / 2.0)
        lacking = np.maximum(goals - tally.plays, 0.0)
        played = lacking > 0
        weights = lacking[played] / lacking.sum()
        return ArmMixture(self._listed(state), tally.arms[played], weights), float(shares[tally.best])

    def remember(self, state: RivalState, plan: Plan, log: Log, seen: Seen) -> ArmTally:
        """Return the tally after the round, with arms drawn given the actions."""
        tally: ArmTally = state.memory
        # Any mixture with these propensities will do, as it could have been the one that was played.
        mixture = plan.sampler if isinstance(plan.sampler, ArmMixture) else self._arm_mixture(state)[0]
        plays, sums = mixture.drawn(log, np.random.default_rng([self.seed, plan.round_number]))
        at = np.searchsorted(tally.arms, mixture.arms)
        more, earned = np.zeros(len(tally.arms)), np.zeros(len(tally.arms))
        more[at], earned[at] = plays, sums
        return replace(tally, plays=tally.plays + more, sums=tally.sums + earned)

    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """Return the arm with the largest mean reward."""
        return self._listed(state).policy(int(memory.arms[memory.best])), 0

    def proven(self, state: RivalState, seen: Seen, memory: Any) -> bool:
        """Return whether no other arm can be better by ε."""
        others = len(memory.arms) - 1
        return others == 0 or bool(memory.evidence(epsilon=self.epsilon).min() > np.log(others / self.delta))

    def promise(self, state: RivalState) -> str:
        """Return the guarantee of the test."""
        k, size = len(state.memory.arms), len(self._listed(state))
        if not (state.finished and (state.samples or self.epsilon >= 1)):
            return f"none: the best of {k:,} arms is not told from the others yet"
        if k < size:
            return f"none: the best of {k:,} arms is known, and the class has {size:,} policies"
        return (
            f"except with probability {self.delta:g} the policy is within {self.epsilon:g} of the best of its class, "
            "provided rewards lie in [0, 1]"
        )
