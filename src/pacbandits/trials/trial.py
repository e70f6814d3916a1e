"""A trial that stops by its certificate: pooled data, a reward model refitted between rounds, bets made in advance.

    until the certificate holds:
        choose propensities and the scale of the bets for the next round      (`uniform` and `coda` differ here)
        play the round and add it to the data
        leader = the policy of largest doubly robust value on all data, less a standard error
        certify the mixture of the leaders of all rounds; for a small class, the leader   (pacbandits.certificate)

Validity depends on the certificate alone; everything else only affects the sample size.

A trial that is asked to improve on an action stops by a proven gain over it instead: after every round the gains are
those that `certify` proves of the log so far, which hold at all analyses together (docs/gains.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate import Bets, Certificate, Evidence, Leaders, Ledger, make_certificate, worth_leading
from pacbandits.certificate.certificate import Candidate, CountedPilot, Improvement
from pacbandits.certificate.certify import Request, certify_survey, improve_by_rounds
from pacbandits.certificate.choosing import makes_way
from pacbandits.certificate.conventions import MAX_STAKE
from pacbandits.certificate.leaders import MIXTURE_MOVING, SINGLE_MOVING
from pacbandits.certificate.learning import LearntClass
from pacbandits.certificate.survey import LogInMemory
from pacbandits.certificate.worth import constant_action
from pacbandits.checks import flag, instance, number, positive, settle, whole_number
from pacbandits.confidence import best_threshold, check_delta, check_epsilon
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass, check_class, check_memory, total
from pacbandits.policies.finite import sum_scores
from pacbandits.policies.rivals import RivalClass, check_rivals, rivals_of
from pacbandits.policies.trees.tree_policy import TreePolicy
from pacbandits.progress import Progress
from pacbandits.records import (
    Contexts,
    Design,
    Guardrail,
    Log,
    Policy,
    RewardBounds,
    Sampler,
    check_contexts,
    check_sampler,
    likeliest,
    spare,
)
from pacbandits.rewards import (
    CachedModel,
    FittedModel,
    RewardModel,
    check_model,
    default_model,
    first_model,
    no_idea,
    predict_once,
)
from pacbandits.trials.protocol import Answer, Plan, State, check_played

# The hardest rival of the leader by the data so far, for trials of the best policy itself (ε = 0).
#
# The gaps to be resolved are not known in advance; they are estimated from the data. A stake λ against a rival of gap
# g, whose score has variance V, gains about λg − λ²V/2 nats per row. Both g and V are sums over contexts: for each λ
# a search (`pacbandits.policies.rivals`) finds the rival of smallest gain, and the best λ maximises that gain. That
# rival is the hardest, and the next round bets by its stake. A rival that seems tied would need an arbitrarily
# small stake; the stake is bounded below by the one for a gap that ten times the data would prove.


STAKE_HALVINGS = 24  # halvings of the largest stake, down to the smallest one searched
STEPS_PER_HALVING = 2
MAX_TIE_ROUNDING = 1e-9  # between two policies that another machine's arithmetic may order otherwise
PATIENCE = 10.0  # multiple of the data so far at which the smallest gap that stakes are made for would be proven


@dataclass(frozen=True)
class Hardest:
    """The rival that will be refuted last, by the data so far.

    gap: its estimated gap.
    error: the standard error of the gap.
    stake: the λ that refutes it fastest.
    nats: log-wealth needed to refute a policy.
    """

    gap: float
    error: float
    stake: float
    nats: float

    @property
    def resolution(self) -> float:
        """Return the difference to resolve now: the gap, at least its error, at most what `nats` would prove."""
        return min(max(self.gap, self.error), self.error * math.sqrt(2.0 * self.nats))


def nominal_variance(n_actions: int) -> float:
    """Return V of a policy that differs everywhere, under uniform exploration: 2A times a reward variance of 1/4."""
    return 0.5 * n_actions


def nominal_hardest(policies: PolicyClass, samples: float, *, delta: float) -> Hardest:
    """Return such a policy with the gap that this many samples would just prove, at most 1/2."""
    nats, variance = best_threshold(log_size=policies.log_size, delta=delta), nominal_variance(policies.n_actions)
    error = min(math.sqrt(variance / samples), 0.5 / math.sqrt(2.0 * nats))
    gap = error * math.sqrt(2.0 * nats)
    return Hardest(gap, error, gap / (math.sqrt(PATIENCE) * variance), nats)


def find_hardest(
    policies: PolicyClass, ledger: Ledger, mixed: FloatArray, reference: IntArray, *, delta: float
) -> Hardest | None:
    """Return the hardest rival of a policy with actions `reference` (m,) on the ledger's contexts; None if it has none.

    mixed (m, A): propensities of these contexts, averaged over rounds. delta: the error probability of the proof.
    """
    rivals = rivals_of(policies, ledger.contexts, reference)
    if rivals is None:
        return None
    gaps, squares = ledger.gaps(mixed, reference=reference)
    samples, nominal = ledger.samples, nominal_hardest(policies, ledger.samples, delta=delta)
    grid = MAX_STAKE * 0.5 ** (np.arange(STAKE_HALVINGS * STEPS_PER_HALVING + 1) / STEPS_PER_HALVING)
    stake, gap, variance = _best_stake(rivals, ledger, gaps, samples * squares, grid)
    return Hardest(gap, math.sqrt(max(variance, 1e-12) / samples), max(stake, nominal.stake), nominal.nats)


def _best_stake(
    rivals: RivalClass, ledger: Ledger, gaps: FloatArray, variances: FloatArray, grid: FloatArray
) -> tuple[float, float, float]:
    """Return the stake of a falling grid at which the minimum growth is largest; the gap and variance of its rival.

    The minimum of functions that are concave in λ is concave: bisection finds its maximum.
    """
    if rivals.lists_policies:
        table = np.ascontiguousarray(rivals.actions(ledger.contexts))
        each = sum_scores(table, gaps), sum_scores(table, variances)

        def look(stake: float) -> tuple[float, float, float]:
            growth = stake * each[0] - 0.5 * stake**2 * each[1]
            worst = int(growth.argmin())
            return float(growth[worst]), float(each[0][worst]), float(each[1][worst])

    else:

        def look(stake: float) -> tuple[float, float, float]:
            scores = stake * gaps - 0.5 * stake**2 * variances
            actions = rivals.argmax(ledger.contexts, -scores)(ledger.contexts)
            return total(scores, actions), total(gaps, actions), total(variances, actions)

    low, high = 0, len(grid) - 1
    while low < high:
        middle = (low + high) // 2
        # At a tie take the smaller stake.
        low, high = (low, middle) if look(grid[middle])[0] > look(grid[middle + 1])[0] else (middle + 1, high)
    _, gap, variance = look(grid[low])
    return float(grid[low]), gap, variance


# Multiples of the round's base stake. Large stakes refute near-optimal policies, small ones policies that are far from
# optimal but rely on rare actions.
EXPERT_MULTIPLIERS = (0.5, 1.0, 2.0)
# The same where leaders are tested. The unluckiest of many rivals decides: x nats of growth at the best stake against a
# single rival have standard deviation √(2x), a share m of that stake gains (2m − m²)x of them, and z deviations below,
# `(2m − m²)x − mz√(2x)` is largest at m = 1 − z/√(2x): about a half at 15 nats and three deviations. More experts would
# cost more than they gain.
LEADERS_MULTIPLIERS = (0.4, 0.8)
# Markdown of policies when the leader is chosen: policies on rare actions often look best by chance. A standard error
# √v is not a sum over contexts, but at most (v/ε + ε)/2, which is one.
LEADER_MARKDOWN_STANDARD_ERRORS = 1.0
# The same for ε = 0, as multiples of the stake for the hardest rival by the data so far.
BEST_MULTIPLIERS = (0.25, 0.5, 1.0, 2.0)
BEST_PRICE_FACTOR = 2.5  # a rival is then refuted by its gap alone, without ε: V/Δ² is this many prices V/d²
DEFAULT_GROWTH = 0.3
MIN_PILOT_SAMPLES, PILOT_SAMPLES_PER_ACTION = 200, 50

Pilot = Annotated[int, About("the size of the first round; 0: 50 an action, or 200", least=0)]
Growth = Annotated[float, About("the largest round, as a share of what was seen", above=0)]
AnswerKind = Literal["mixture", "single"]
Wanted = Annotated[
    AnswerKind,
    About("a mixture policy where that is proven sooner, or a single policy", former=(("lottery", "mixture"),)),
]


@dataclass(frozen=True, eq=False)
class Exploration:
    """An exploration: propensities to play with, and their price.

    sampler: the probabilities of actions.
    price: the largest V/d² of any policy; bets are scaled and rounds sized by it.
    since: the number of samples with known rewards when it was chosen.
    pool: policies from which the next design starts.
    oracle_calls: the number it took to choose it.
    """

    sampler: Sampler
    price: float
    since: int
    pool: tuple[Policy, ...] = ()
    oracle_calls: int = 0

    def __post_init__(self) -> None:
        check_sampler(self.sampler)
        settle(self, price=positive(self.price, name="price"), since=whole_number(self.since, name="since", least=0))
        settle(self, oracle_calls=whole_number(self.oracle_calls, name="oracle_calls", least=0))


@dataclass(frozen=True, eq=False)
class TrialPlan(Plan):
    """A round to be played: a `Plan`, and

    exploration: the exploration it is played with.
    scale: the scale of its bets.
    """

    exploration: Exploration = field(kw_only=True)
    scale: float = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class TrialState(State):
    """The state of a trial between rounds: a `State`, and

    model: the reward model.
    predictions (n, A): the model's predictions before each row's round; None before the first.
    plans: of the rounds that `absorb` added.
    scales: the scale of the bets in each round.
    pool: policies from which the next design starts.
    current: the exploration in use.
    played: every sampler in order, with the number of its samples whose rewards are known.
    leader: the best policy by all data; `policy`, the certified one, may lag behind it.
    leaders: of the rounds so far; None for a class whose leaders are not tested.
    missing: log-wealth by which the certificate of all data fell short after the last round.
    certificate: the one with the smallest certified ε so far, of all data or of the first rounds alone.
    improvement: the gains over control proven after the last round, if the trial stops by them.
    pilot: what certificates record of the pilot whose rows are the first; None without one.
    """

    model: RewardModel = field(kw_only=True)
    predictions: FloatArray | None = None
    plans: tuple[TrialPlan, ...] = ()
    scales: tuple[float, ...] = ()
    pool: tuple[Policy, ...] = ()
    current: Exploration | None = None
    played: tuple[tuple[Sampler, int], ...] = ()
    leader: Policy | None = None
    leaders: Leaders | None = None
    missing: float = 0.0
    certificate: Certificate | None = None
    improvement: Improvement | None = None
    pilot: CountedPilot | None = None

    @cached_property
    def informed(self) -> Log | None:
        """The rows whose rewards are known by now, on which every choice is based; None if there are none."""
        if self.log is None or (known := self.log.known_by(self.round_number)).all():
            return self.log
        return self.log.only(known) if known.any() else None

    @property
    def informed_samples(self) -> int:
        """The number of interactions of these rows."""
        return 0 if self.informed is None else self.informed.samples

    @cached_property
    def fitted(self) -> FittedModel:
        """The reward model fitted to all known rewards."""
        n_actions, seen = self.policies.n_actions, self.informed
        return no_idea(n_actions) if seen is None else CachedModel(self.model.fit(seen), n_actions=n_actions)


@dataclass(frozen=True)
class Trial(ABC):
    """The base class of `uniform` and `coda`. Subclass it with `explore`, and with fields for options.

    name: the name in reports; by default the name of the class.

    epsilon: how close to the best policy's value the answer must be; 0 for the best policy itself.
    delta: the probability of being wrong.
    rewards: must be known to lie in [0, 1].
    model: the reward model; by default `default_model` of the contexts.
    pilot: the size of the first round; by default 50 per action, at least 200.
    growth: the largest round, as a share of the samples so far.
    single: whether the answer must be a single policy, not a mixture policy.
    improve_on: the number of the action that is today's practice, to stop by a proven gain over it; ε is then only the
        size of differences by which exploration is chosen. None to stop by ε.
    gain: the smallest proven gain to stop at; None for any above 0.
    """

    name: ClassVar[str] = ""

    epsilon: float
    delta: float
    rewards: RewardBounds = field(default=RewardBounds(), kw_only=True)
    model: RewardModel | None = field(default=None, kw_only=True)
    pilot: int | None = field(default=None, kw_only=True)
    growth: float = field(default=DEFAULT_GROWTH, kw_only=True)
    single: bool = field(default=False, kw_only=True)
    improve_on: int | None = field(default=None, kw_only=True)
    gain: float | None = field(default=None, kw_only=True)

    def __init_subclass__(cls) -> None:
        if not cls.name:
            cls.name = cls.__name__

    def __post_init__(self) -> None:
        settle(self, epsilon=check_epsilon(self.epsilon), delta=check_delta(self.delta))
        settle(self, growth=positive(self.growth, name="growth"), single=flag(self.single, name="single"))
        if self.pilot is not None:
            settle(self, pilot=whole_number(self.pilot, name="pilot", least=1))
        if self.model is not None:
            check_model(self.model)
        if self.improve_on is not None:
            settle(self, improve_on=whole_number(self.improve_on, name="improve_on, the number of an action,", least=0))
            if self.single:
                raise InputError(
                    "a gain is proven of a policy or a mixture of policies; leave out single, or improve_on"
                )
        if self.gain is not None:
            if self.improve_on is None:
                raise InputError(f"a gain of {self.gain} is over today's practice; name that action: improve_on=0")
            settle(self, gain=number(self.gain, name="gain", least=0, below=1))
        if not instance(self.rewards, RewardBounds, name="rewards").in_unit:
            raise InputError(
                f"{self.name} needs rewards in [0, 1], and these are not known to be; rescale them, or use rage or "
                "rage-free, or noise=bernoulli where a problem has that option"
            )

    @property
    def rounds(self) -> int:
        """Return 0: the number of rounds is not known in advance."""
        return 0

    def start(self, policies: PolicyClass, contexts: Contexts) -> TrialState:
        """Return the state before the first round."""
        policies = check_class(policies)
        check_memory(policies, len(check_contexts(contexts)))
        if self.improve_on is not None:
            whole_number(self.improve_on, name="improve_on, the number of an action,", most=policies.n_actions - 1)
        if self.epsilon == 0:
            check_rivals(policies, contexts)
        first = policies.argmax(contexts, np.zeros((len(contexts), policies.n_actions)))
        model = default_model(contexts) if self.model is None else self.model
        led = self.epsilon > 0 and worth_leading(policies)
        leaders = Leaders(moving=SINGLE_MOVING if self.single else MIXTURE_MOVING) if led else None
        finished = self.epsilon >= 1 and self.improve_on is None
        return TrialState(policies, contexts, first, oracle_calls=1, finished=finished, model=model, leaders=leaders)

    def design(self, state: TrialState, *, progress: Progress | None = None) -> TrialPlan | None:
        """Return the plan of the next round; None when the trial is finished."""
        instance(state, TrialState, name="state")
        if state.finished:
            return None
        missing = self.first_round_size(n_actions := state.policies.n_actions) - state.samples
        small_pilot = state.pilot is not None and state.samples == state.pilot.samples and missing > 0
        if state.informed is None or small_pilot:
            price = nominal_variance(n_actions) / self.accuracy(state) ** 2
            start = Exploration(Design.uniform(likeliest(state.policy)), price, 0)
            return self._plan(state, start, missing if small_pilot else self.first_round_size(n_actions))
        explored = self.explore(state, progress=progress)
        return self._plan(state, explored, self._round_size(state, explored))

    def absorb(self, state: TrialState, plan: Plan, log: Log) -> TrialState:
        """Add a round; choose a leader and certify anew on all data."""
        instance(state, TrialState, name="state")
        check_played(state, plan, log, rewards=self.rewards)
        if not isinstance(plan, TrialPlan) or plan.sampler is not plan.exploration.sampler:
            raise InputError(f"the plan is not one of {self.name}, or was altered; absorb the one that design returned")
        return self.count_round(state, plan, log, played=merge(state.played, plan.sampler, log.samples))

    def count_round(
        self, state: TrialState, plan: TrialPlan, log: Log, *, played: tuple[tuple[Sampler, int], ...]
    ) -> TrialState:
        """Add a round that was checked; played: every sampler in order, with the round's."""
        if self.improve_on is not None:
            return self._absorb_for_gain(state, plan, log, played=played)
        seen, latest, leader, calls = self.learn(state, plan, log, played=played)
        best, earlier = latest, state.certificate
        # After a pilot the claim is of all rows, so that its test for drift compares the pilot with the trial.
        if state.pilot is None and earlier is not None and earlier.certified_epsilon < latest.certified_epsilon:
            best = latest if self.epsilon == 0 and latest.certified else earlier
        return seen.after(
            plan,
            log,
            policy=best.policy,
            finished=latest.certified,
            details={
                "certified_epsilon": best.certified_epsilon,
                "wealth": latest.value,
                "needed": latest.threshold,
            },
            oracle_calls=calls,
            leader=leader,
            missing=max(latest.threshold - latest.value, 0.0),
            certificate=best,
        )

    def learn(
        self, state: TrialState, plan: TrialPlan, log: Log, *, played: tuple[tuple[Sampler, int], ...]
    ) -> tuple[TrialState, Certificate, Policy, int]:
        """Return the state with the data of one more round, the certificate and leader of all data, and oracle calls.

        played: every sampler in order, with the round's.
        """
        grown, ledger = self.add_round(state, plan, log, played=played)
        leader = self.choose_leader(grown, ledger)
        latest, calls = self.certify(grown, ledger, leader)
        return grown, latest, leader, calls + 1

    def add_round(
        self, state: TrialState, plan: TrialPlan, log: Log, *, played: tuple[tuple[Sampler, int], ...]
    ) -> tuple[TrialState, Ledger]:
        """Return the state with the data of one more round, and their ledger."""
        # As `certify` does: nothing was predicted by another model so far.
        if self.improve_on is not None and state.log is None and self.model is None:
            state = replace(state, model=first_model(log))
        log = replace(log, rounds=np.full(len(log), state.round_number))
        seen = log if state.log is None else state.log.followed_by(log)
        new = predict_once(state.fitted, log.contexts)
        predictions = new if state.predictions is None else np.concatenate([state.predictions, new])
        leaders = state.leaders
        if leaders is not None:
            leaders = leaders.followed_by(state.leader, state.contexts, size=plan.samples)
        grown = replace(
            state,
            log=seen,
            predictions=predictions,
            plans=(*state.plans, plan),
            scales=(*state.scales, plan.scale),
            leaders=leaders,
            pool=plan.exploration.pool or state.pool,
            current=plan.exploration,
            played=played,
        )
        return grown, Ledger.of(seen, predictions)

    # Trials that stop by a proven gain. Their interim analyses are `certify` of the log so far, without its search for
    # ε: by the rounds of the log, so that no row is shuffled, and all bets of a round are fixed before it.

    def _absorb_for_gain(
        self, state: TrialState, plan: TrialPlan, log: Log, *, played: tuple[tuple[Sampler, int], ...]
    ) -> TrialState:
        """Add a round, and bound the gains over control by all data."""
        grown, ledger = self.add_round(state, plan, log, played=played)
        leader, found = self.choose_leader(grown, ledger), self._prove(grown)
        nearest = nearest_gain(found)
        low, estimate = (-1.0, 0.0) if nearest is None else (nearest.low, nearest.estimate)
        return grown.after(
            plan,
            log,
            policy=self._control(state.policies) if found is None else found.policy,
            finished=self.proves(grown, found),
            details={"estimated_gain": estimate, "proven_gain": low},
            oracle_calls=1,
            leader=leader,
            improvement=found,
        )

    def proves(self, state: TrialState, found: Improvement | None) -> bool:
        """Return whether gains suffice to stop: that of the recommended candidate is proven, and as large as asked."""
        one = None if found is None else found.recommended
        return one is not None and one.low >= self._least_gain(state)

    def _least_gain(self, state: TrialState) -> float:
        """Return the smallest gain to stop at, in the units of rewards."""
        low, high = (0.0, 1.0) if state.log is None else state.log.reward_range
        return (self.gain or 0.0) * (high - low)

    def certify_gain(self, state: TrialState, guardrails: Sequence[Guardrail] = ()) -> Certificate | None:
        """Return the certificate that `certify` makes of all data; None if no candidate has led in a round.

        guardrails: limits on the harm in other metrics of the log.
        """
        read, request = self._survey(state)
        if not read.has_rounds:
            return None
        asked = replace(request, guardrails=tuple(guardrails))
        made = certify_survey(read, LearntClass(state.policies, None), asked).certificate
        return None if made.improvement is None else replace(made, pilot=state.pilot)

    def _prove(self, state: TrialState) -> Improvement | None:
        """Return the gains over control that all data prove; None if no candidate has led in a round."""
        read, request = self._survey(state)
        if not read.has_rounds:
            return None
        return improve_by_rounds(read, LearntClass(state.policies, None), request, model=state.model)

    def _survey(self, state: TrialState) -> tuple[LogInMemory, Request]:
        """Return the log with the predictions that were made before each round, and the request for `certify`."""
        log, predictions, control = state.log, state.predictions, self.improve_on
        assert log is not None
        assert predictions is not None
        assert control is not None
        named = str(control) if log.action_names is None else log.action_names[control]
        read = LogInMemory.arranged(log, ordered=False, shuffle=False)
        read.predicted[str(state.model.to_json())] = predictions
        return read, Request(policies=state.policies, delta=self.delta, model=self.model, control=named)

    def _control(self, policies: PolicyClass) -> TreePolicy:
        """Return the policy that gives everybody the control."""
        assert self.improve_on is not None
        return TreePolicy(self.improve_on, policies.n_actions)

    def _gain_answer(self, state: TrialState) -> Answer:
        """Return the recommended policy with the certificate of its gain."""
        made = None if state.improvement is None else self.certify_gain(state)
        if made is None:
            return Answer(self._control(state.policies), False, "none: no gain is bounded before the second round")
        return Answer(made.policy, state.finished, made.promise(), made)

    def result(self, state: TrialState) -> Answer:
        """Return the policy with its certificate."""
        if self.improve_on is not None:
            return self._gain_answer(state)
        if state.certificate is None:
            words = "none: nothing was played" if self.epsilon < 1 else "no gap is larger than 1"
            return Answer(state.policy, state.finished, words)
        assert state.log is not None
        looked = state.certificate.looked_at(state.certificate.of(state.log))
        return Answer(state.policy, state.finished, looked.promise(), looked)

    def accuracy(self, state: TrialState) -> float:
        """Return the difference to resolve: ε, or for ε = 0 the one that the data so far can resolve."""
        return self.epsilon or self._hardest(state).resolution

    def _hardest(self, state: TrialState) -> Hardest:
        """Return the hardest rival of the leader by the data so far; before there are data, a nominal one."""
        policies, found = state.policies, None
        if state.informed is not None and state.leader is not None:
            ledger = Ledger.of(state.informed, predict_once(state.fitted, state.informed.contexts))
            mixed, reference = mixture(state.played, ledger.contexts), state.leader(ledger.contexts)
            found = find_hardest(policies, ledger, mixed, reference, delta=self.delta)
        samples = state.informed_samples or self.first_round_size(policies.n_actions)
        return nominal_hardest(policies, samples, delta=self.delta) if found is None else found

    @abstractmethod
    def explore(self, state: TrialState, *, progress: Progress | None = None) -> Exploration:
        """Choose the exploration of the next round, once some rewards are known."""

    def _plan(self, state: TrialState, explored: Exploration, samples: int) -> TrialPlan:
        """Return the next round with its bets; withdrawn actions get probability 0.

        That only raises the other probabilities, so that the price of the exploration is at most the one found for it.
        """
        gone = state.policies.withdrawn
        explored = replace(explored, sampler=spare(explored.sampler, gone))
        return TrialPlan(
            round_number=state.round_number + 1,
            epsilon=self.epsilon,
            sampler=explored.sampler,
            samples=samples,
            oracle_calls=explored.oracle_calls,
            details={"price": explored.price},
            exploration=replace(explored, oracle_calls=0),
            scale=self.scale(state, explored),
        )

    def scale(self, state: TrialState, explored: Exploration) -> float:
        """Return the scale of the bets of the next round, which is played with this exploration."""
        return 1.0 / (explored.price * self.epsilon) if self.epsilon > 0 else self._hardest(state).stake

    def first_round_size(self, n_actions: int) -> int:
        """Return the number of interactions of the first round."""
        usual = max(MIN_PILOT_SAMPLES, PILOT_SAMPLES_PER_ACTION * n_actions)
        return usual if self.pilot is None else self.pilot

    def round_size_limits(self, samples: int) -> tuple[float, float]:
        """Return the limits of a round's size after this many interactions, before rounding: 1/25, and the growth."""
        least = samples / 25
        return least, max(least, samples * self.growth)

    def _round_size(self, state: TrialState, explored: Exploration) -> int:
        """Return a third of the interactions that seem to be missing, clipped to `round_size_limits`."""
        if self.improve_on is not None:
            return max(1, int(np.clip(self.missing_for_gain(state) / 3, *self.round_size_limits(state.samples))))
        missing = state.missing * 2.0 * explored.price * (BEST_PRICE_FACTOR if self.epsilon == 0 else 1.0)
        return max(1, int(np.clip(missing / 3, *self.round_size_limits(state.samples))))

    def missing_for_gain(self, state: TrialState) -> float:
        """Return the interactions that seem to be missing for the gain: the bound nears its estimate like 1/√n."""
        nearest, least = nearest_gain(state.improvement), self._least_gain(state)
        if nearest is None or nearest.estimate <= least:
            return math.inf
        return state.samples * (((nearest.estimate - nearest.low) / (nearest.estimate - least)) ** 2 - 1.0)

    def choose_leader(self, state: TrialState, ledger: Ledger, *, told: Policy | None = None) -> Policy:
        """Return the policy of largest doubly robust value on a ledger of known rewards, less a standard error.

        The last leader stays unless it seems worse by a relevant amount. told: a policy of the class to prefer if it
        ties with the best up to rounding; for verification.
        """
        mixed = mixture(state.played, ledger.contexts)
        before = likeliest(state.policy) if state.leader is None else state.leader
        gaps, squares = ledger.gaps(mixed, reference=before(ledger.contexts))
        near = self.epsilon or nominal_hardest(state.policies, ledger.samples, delta=self.delta).resolution
        markdown = LEADER_MARKDOWN_STANDARD_ERRORS / (2.0 * near) * squares
        best = state.policies.argmax(ledger.contexts, -gaps - markdown)
        if told is not None and (not state.policies.checks_membership or state.policies.has(told)):
            own, most = (total(-gaps - markdown, policy(ledger.contexts)) for policy in (told, best))
            best = told if abs(own - most) <= MAX_TIE_ROUNDING * max(1.0, abs(most)) else best
        if state.leaders is None or state.leader is None:
            return best
        follows = makes_way(before, best, ledger, mixed, epsilon=self.epsilon, single=self.single)
        return best if follows else before

    def multipliers(self, state: TrialState) -> tuple[float, ...]:
        """Return the stake multipliers of the betting experts, relative to the round's base stake."""
        return BEST_MULTIPLIERS if self.epsilon == 0 else multipliers_of(state)

    def certify(self, state: TrialState, ledger: Ledger, leader: Policy) -> tuple[Certificate, int]:
        """Return the certificate on all data, and oracle calls; leader: the best policy by all data."""
        assert state.log is not None
        evidence = Evidence(
            state.log,
            ledger,
            state.policies,
            Bets(self.multipliers(state), state.scales),
            self.epsilon,
            self.delta,
            model=state.model.to_json(),
            leaders=state.leaders,
        )
        made, calls = make_certificate(evidence, leader)
        return replace(made, pilot=state.pilot), calls


def nearest_gain(improvement: Improvement | None) -> Candidate | None:
    """Return the candidate of largest proven gain, other than control, that violates no guardrail; None if none."""
    if improvement is None:
        return None
    allowed = [one for one in improvement.candidates if one.allowed]
    others = [one for one in allowed if constant_action(one.policy) != improvement.control]
    return max(others, key=lambda one: one.low, default=None)


def multipliers_of(state: TrialState) -> tuple[float, ...]:
    """Return the stake multipliers of the betting experts when ε > 0, relative to the round's base stake."""
    return EXPERT_MULTIPLIERS if state.leaders is None else LEADERS_MULTIPLIERS


def merge(played: tuple[tuple[Sampler, int], ...], sampler: Sampler, samples: int) -> tuple[tuple[Sampler, int], ...]:
    """Return the samplers and how often each was used, after one more round."""
    if played and played[-1][0] is sampler:
        return (*played[:-1], (sampler, played[-1][1] + samples))
    return (*played, (sampler, samples))


def mixture(played: tuple[tuple[Sampler, int], ...], contexts: Contexts) -> FloatArray:
    """Return the propensities (m, A) of a sampler drawn at random in proportion to its use."""
    whole = sum(samples for _, samples in played)
    parts = [samples / whole * sampler.propensities(contexts) for sampler, samples in played]
    return np.sum(parts, axis=0)
