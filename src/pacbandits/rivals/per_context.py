"""Best-arm identification in each context separately: natural for the trivial class, but not optimal.

    until every context is decided:
        lower, upper = mean ± radius of every context and action          (confidence.arm_radius, each at δ/(|C||A|))
        leader h = the action of largest mean, challenger = the other one of largest upper end
        a context is decided for h once no other action's upper end exceeds lower_h by more than ε
        play the next contexts as they come: where undecided
            elimination     every action that is not dominated, upper < max lower, all alike
            lucb            the leader and the challenger alike

**Source.** Successive elimination is of Even-Dar, Mannor and Mansour, "Action elimination and stopping conditions for
the multi-armed bandit and reinforcement learning problems", JMLR 2006; LUCB of Kalyanakrishnan, Tewari, Auer and Stone,
"PAC subset selection in stochastic multi-armed bandits", ICML 2012. Theirs pull arms one by one; here contexts come at
random and in batches that grow by a share of what was seen, and a context that is decided still comes, so that its rows
are wasted. Radii count plays alone and hold at all times, so that the proof does not mind by what rule arms were
played; an action that is dominated no longer is played again.

**Tuning.** `rule` is `elimination` or `lucb`; `growth` is the length of a round, as a share of what was seen.

**Guarantees.** (ε, δ)-PAC in every context. Except with probability δ all means lie within their bounds at all times.
Then the best action of a context is never dominated, and its mean is at most its upper end: at most lower_h + ε ≤
mean_h + ε when the context is decided. With every context within ε the policy is within ε of the best, whatever the
distribution of contexts.

**What it costs.** A context whose second best action is Δ behind needs about 8R²L/(Δ + ε)² plays an action, with
L = log(|C||A|/δ), and comes once in 1/ν_c interactions: ε⁻²|C||A| log(1/δ) in the worst case. The trivial class as one
problem needs ε⁻²|A|(|C| + log(1/δ)) (the paper's section "Trivial policy class"): there log(1/δ) is paid once, here in
every context.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.checks import instance, positive, settle, shown, text
from pacbandits.confidence import arm_confidence, arm_radius, check_delta, check_epsilon, whole_samples
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Log, Policy, RewardBounds, check_contexts
from pacbandits.rivals.base import DEFAULT_GROWTH, Growth
from pacbandits.trials.protocol import Answer, Plan, Profile, Setting, State, check_played, check_sampled_contexts

Rule = Literal["elimination", "lucb"]
RuleName = Annotated[
    Rule, About("actions played in undecided contexts: all that are not dominated, or the two that matter")
]


@dataclass(frozen=True, eq=False)
class CellTally:
    """Sums over interactions for every context and action.

    plays (C, A): how often it was played.
    sums (C, A): of its rewards.
    """

    plays: FloatArray
    sums: FloatArray

    @classmethod
    def empty(cls, n_contexts: int, n_actions: int) -> CellTally:
        """Return sums over no interactions."""
        return cls(np.zeros((n_contexts, n_actions)), np.zeros((n_contexts, n_actions)))

    @property
    def means(self) -> FloatArray:
        """Mean rewards (C, A); 0 if an action was not played."""
        return self.sums / np.maximum(self.plays, 1.0)

    def with_log(self, log: Log) -> CellTally:
        """Return the sums with one more round."""
        n_contexts, n_actions = self.plays.shape
        cells = log.contexts.require_ids(below=n_contexts) * n_actions + log.actions
        repeats = log.repeats.astype(np.float64)
        plays, sums = (
            np.bincount(cells, weights=weights, minlength=self.plays.size).reshape(self.plays.shape)
            for weights in (repeats, repeats * log.rewards)
        )
        return CellTally(self.plays + plays, self.sums + sums)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds on all mean rewards, at all times, except with probability δ.

    means (C, A): as seen.
    lower (C, A): ends.
    upper (C, A): ends.
    """

    means: FloatArray
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def of(cls, tally: CellTally, *, noise: float, confidence: float) -> Bounds:
        """Means ± radii, cut to [0, 1], where mean rewards are known to lie."""
        radius = arm_radius(tally.plays, noise=noise, confidence=confidence)
        return cls(tally.means, np.maximum(tally.means - radius, 0.0), np.minimum(tally.means + radius, 1.0))

    @property
    def leaders(self) -> IntArray:
        """(C,): the actions of largest mean."""
        return np.argmax(self.means, axis=1)

    def challengers(self, leaders: IntArray) -> tuple[IntArray, FloatArray]:
        """(C,), (C,): the other actions of largest upper end, and that; −∞ where there is no other."""
        rows = np.arange(len(leaders))
        others = self.upper.copy()
        others[rows, leaders] = -np.inf
        found = np.argmax(others, axis=1)
        return found, others[rows, found]


def undominated(bounds: Bounds, leaders: IntArray) -> BoolArray:
    """(C, A): the actions that may be the best, which successive elimination plays."""
    return bounds.upper >= bounds.lower.max(axis=1, keepdims=True)


def leading_two(bounds: Bounds, leaders: IntArray) -> BoolArray:
    """(C, A): the leader and its challenger, which LUCB plays."""
    rows = np.arange(len(leaders))
    both = np.zeros_like(bounds.means, dtype=np.bool_)
    both[rows, leaders] = both[rows, bounds.challengers(leaders)[0]] = True
    return both


WORTH_PLAYING: dict[str, Callable[[Bounds, IntArray], BoolArray]] = {
    "elimination": undominated,
    "lucb": leading_two,
}


@dataclass(frozen=True, eq=False)
class TableSampler:
    """Propensities for every element of a finite context set.

    table (C, A): p(a|c).
    """

    table: FloatArray

    @property
    def n_actions(self) -> int:
        return self.table.shape[1]

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A)."""
        return self.table[contexts.require_ids(below=len(self.table))]


@dataclass(frozen=True, eq=False)
class PerContextState(State):
    """The state between rounds: a `State`, and

    policies: every map.
    policy: what was decided, and the leader where nothing was.
    occurs (C,): whether a context can come.
    decided (C,): whether its action is settled, which it then stays.
    choices (C,): the actions of the policy.
    tally: what was seen.
    """

    policies: PolicyClass
    policy: Policy
    occurs: BoolArray = field(kw_only=True)
    decided: BoolArray = field(kw_only=True)
    choices: IntArray = field(kw_only=True)
    tally: CellTally = field(kw_only=True)

    @property
    def undecided(self) -> int:
        """The number of contexts that can occur and are undecided."""
        return int((self.occurs & ~self.decided).sum())


@dataclass(frozen=True)
class PerContext:
    """Identify the best action of each context by itself, each within ε and all but with probability δ.

    epsilon: how far from the best the answer may be; 0 for the best of each context, which must then be unique.
    delta: the probability of being wrong.
    rule: what is played in a context that is not decided.
    growth: the size of a round, as a share of what was seen.
    rewards: their noise must have a sub-Gaussian proxy.
    sampled_contexts: how many contexts were drawn to stand for all that may come; None when these are known.
    """

    name: ClassVar[str] = "per-context"
    profile: ClassVar[Profile] = Profile(
        name="per-context",
        source="best-arm identification in each context by itself: successive elimination or LUCB",
        classes="every map: trivial",
        assumes="the contexts that may come are known; rewards in [0, 1], or sub-Gaussian noise",
        guarantees="(ε, δ)-PAC, within ε in every context",
        samples="until every context is decided: about 2(Δ + ε)⁻² |C||A| log(|C||A|/δ) where all come alike",
    )

    epsilon: float
    delta: float
    rule: Rule = field(default="elimination", kw_only=True)
    growth: float = field(default=DEFAULT_GROWTH, kw_only=True)
    rewards: RewardBounds = field(default=RewardBounds(), kw_only=True)
    sampled_contexts: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        settle(self, epsilon=check_epsilon(self.epsilon), delta=check_delta(self.delta))
        settle(self, growth=positive(self.growth, name="growth"))
        settle(self, sampled_contexts=check_sampled_contexts(self.sampled_contexts))
        if text(self.rule, name="rule") not in WORTH_PLAYING:
            raise InputError(f"rule must be elimination or lucb, got {shown(self.rule)}")
        if instance(self.rewards, RewardBounds, name="rewards").proxy is None:
            raise InputError(
                f"{self.name} needs rewards in [0, 1], or RewardBounds with the sub-Gaussian proxy of their noise"
            )

    @classmethod
    def made_for(
        cls, setting: Setting, *, rule: RuleName = "elimination", growth: Growth = DEFAULT_GROWTH
    ) -> PerContext:
        """Return the algorithm for this setting."""
        return cls(
            setting.epsilon,
            setting.delta,
            rule=rule,
            growth=growth,
            rewards=setting.rewards,
            sampled_contexts=setting.sampled_contexts,
        )

    @property
    def rounds(self) -> int:
        """The number of rounds, which is not known in advance."""
        return 0

    @property
    def noise(self) -> float:
        """R²."""
        assert self.rewards.proxy is not None
        return self.rewards.proxy

    def start(self, policies: PolicyClass, contexts: Contexts) -> PerContextState:
        """Return the state before the first round."""
        policies = check_class(policies)
        check_contexts(contexts)
        if not policies.holds_every_map:
            raise InputError(
                f"{self.name} decides each context by itself, which needs every map from contexts to actions, and "
                f"{policies.type_name} is another class; use --policies trivial, or coda"
            )
        n_contexts, n_actions = policies.n_contexts, policies.n_actions
        ids = contexts.require_ids(below=n_contexts)
        occurs: BoolArray = np.bincount(ids, weights=contexts.weights, minlength=n_contexts) > 0
        choices = np.zeros(n_contexts, dtype=np.int64)
        return PerContextState(
            policies,
            contexts,
            policies.policy_of(choices),
            finished=self.epsilon >= 1 or n_actions == 1,
            occurs=occurs,
            decided=np.zeros(n_contexts, dtype=np.bool_),
            choices=choices,
            tally=CellTally.empty(n_contexts, n_actions),
        )

    def design(self, state: PerContextState, *, progress: Progress | None = None) -> Plan | None:
        """Return the plan of the next round."""
        instance(state, PerContextState, name="state")
        if state.finished:
            return None
        bounds = self._bounds(state, state.tally)
        worth = WORTH_PLAYING[self.rule](bounds, bounds.leaders)
        worth[state.decided] = np.arange(state.policies.n_actions) == state.choices[state.decided, None]
        table = worth / worth.sum(axis=1, keepdims=True)
        # A gap of 1 needs about 8R²L plays an action: half of that decides nothing yet.
        pilot = worth[state.occurs].size * max(1.0, 4.0 * self.noise * self._confidence(state))
        size = self.growth * state.samples if state.samples else pilot
        details = {"undecided": state.undecided, "in_play": int(worth[state.occurs & ~state.decided].sum())}
        return Plan(
            state.round_number + 1, self.epsilon, TableSampler(table), samples=whole_samples(size), details=details
        )

    def absorb(self, state: PerContextState, plan: Plan, log: Log) -> PerContextState:
        """Return the state after the round."""
        instance(state, PerContextState, name="state")
        check_played(state, plan, log, rewards=self.rewards)
        tally = state.tally.with_log(log)
        bounds = self._bounds(state, tally)
        leaders = bounds.leaders
        _, best_others = bounds.challengers(leaders)
        settled = best_others <= bounds.lower[np.arange(len(leaders)), leaders] + self.epsilon
        decided = state.decided | settled
        choices = np.where(state.decided, state.choices, leaders)
        return state.after(
            plan,
            log,
            policy=state.policies.policy_of(choices),
            finished=bool(decided[state.occurs].all()),
            details={"decided": int(decided[state.occurs].sum())},
            decided=decided,
            choices=choices,
            tally=tally,
        )

    def result(self, state: PerContextState) -> Answer:
        """Return the policy so far, and its guarantee."""
        instance(state, PerContextState, name="state")
        return Answer(state.policy, state.finished, self._promise(state))

    def _promise(self, state: PerContextState) -> str:
        if not state.finished:
            return f"none: {state.undecided:,} of {int(state.occurs.sum()):,} contexts are not decided yet"
        near = f"within {self.epsilon:g} of the best" if self.epsilon > 0 else "the best"
        words = f"except with probability {self.delta:g} the policy is {near} of its class, in every context"
        noise = "" if self.rewards.in_unit else f", that noise is {self.noise:g}-sub-Gaussian"
        known = "no context comes but those that were shown"
        if self.sampled_contexts is not None:
            known = f"{self.sampled_contexts:,} contexts stand well enough for all that may come"
        return f"{words}; assumes that {self.rewards.describe()}{noise}, and that {known}"

    def _confidence(self, state: PerContextState) -> float:
        """L: each of the contexts that can come has an equal part of δ."""
        return arm_confidence(self.delta, n_contexts=int(state.occurs.sum()), n_actions=state.policies.n_actions)

    def _bounds(self, state: PerContextState, tally: CellTally) -> Bounds:
        return Bounds.of(tally, noise=self.noise, confidence=self._confidence(state))
