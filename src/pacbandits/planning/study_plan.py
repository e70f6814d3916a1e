"""A plan: its assumptions, quick estimates and simulated trials; and the function `plan` that makes one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, overload

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import check_percentage, flag, function, instance, number, path_of, whole_number
from pacbandits.engines.dask import DaskEngine
from pacbandits.errors import InputError
from pacbandits.logs.readers import DataFrame, contexts_of
from pacbandits.planning.assumptions import (
    RIVALS,
    Assumptions,
    Supposition,
    Traffic,
    check_plan_epsilon,
    check_scenarios,
    effect_of,
    people_of,
    usual_scenarios,
)
from pacbandits.planning.gain_plan import GainPlan, quick_gain_plan, refine_gain_plan
from pacbandits.planning.sample_sizes import (
    ANALYSES,
    CERTIFY,
    Affordable,
    SampleSizeEstimate,
    affordable,
    affordable_epsilon,
    by_effect,
    chance_by,
    estimate,
    foretold,
    foretold_at,
)
from pacbandits.planning.simulated_trials import (
    Limits,
    PlayedTrial,
    Quantiles,
    TrialQuestion,
    Watch,
    quantile,
    quantiles,
    scenario_weights,
    simulate,
    stopping_times,
)
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.registry import load_policies
from pacbandits.problems.pilots import PilotEffects
from pacbandits.problems.scenarios import DEFAULT_VARIATION, Outcome, Scenario
from pacbandits.progress import Displayed, Progress, listener
from pacbandits.records import Contexts, Log
from pacbandits.records.log_metadata import check_range

PLAIN_TRIAL_SUFFICES = 1.1  # users of the uniform trial over those of `coda`, up to which it is recommended
KNOWN_WELL_ENOUGH = 0.25  # relative error of medians above which their ratio may be chance
BAND = (0.1, 0.5, 0.9)  # quantiles of the certified ε over users
CURVE_POINTS = 60
YEARS = {"hour": 1 / 8766, "day": 1 / 365.25, "week": 7 / 365.25, "month": 1 / 12, "year": 1.0}
NO_GAIN = 1e-9  # in units of ε, below which a gain is rounding
LONG_YEARS = 2.0  # length of a trial that brings a warning


@dataclass(frozen=True)
class TrialAverages:
    """Average cost and gain of trials of one algorithm over scenarios, in the units of rewards.

    lost: the total regret during a trial, against the best policy.
    over_constant, over_control: the value of the answer less that of the best single action, and of the control.
    correct: the share of answers within ε of the best.
    """

    lost: float
    over_constant: float
    over_control: float
    correct: float

    def to_json(self) -> dict[str, float]:
        """Serialise to JSON-compatible values."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class StudyPlan(Displayed):
    """The predicted cost of a trial, before it starts.

    supposed: its assumptions.
    estimates: predictions without simulation.
    trials: the simulated ones; empty without simulation.
    max_samples: after which simulated trials were given up.
    source: where the contexts come from, in words.
    budget: affordable number of users; None if not given.
    deadline: available periods of the traffic; None if not given.
    """

    supposed: Assumptions
    estimates: tuple[SampleSizeEstimate, ...]
    trials: tuple[PlayedTrial, ...]
    max_samples: int
    source: str = ""
    budget: int | None = None
    deadline: float | None = None

    @property
    def simulated(self) -> bool:
        """Whether every scenario was simulated at least once with every algorithm."""
        return len({(one.scenario, one.algorithm) for one in self.trials}) == len(self.supposed.scenarios) * len(RIVALS)

    @property
    def samples(self) -> Mapping[str, Quantiles]:
        """The number of users that each analysis takes: simulated, or predicted without simulation.

        `coda` and `uniform` are trials that stop themselves; `certify` reads the finished log of a uniform test.
        """
        return {one: self.quantiles(one) for one in ANALYSES}

    def quantiles(self, algorithm: str, scenario: int | None = None) -> Quantiles:
        """Return the same for one analysis, over all scenarios or in one; `certify`: for a finished log."""
        if not self.simulated:
            return self.foretold(algorithm, scenario)
        if algorithm == CERTIFY:
            return self._foretold(self._of_logs(), CERTIFY, scenario)
        times = stopping_times(self.trials, algorithm, scenario)
        shares = None if scenario is not None else scenario_weights(self.trials, algorithm, self.supposed.shares)
        made, traffic = quantiles(times, shares), self.supposed.traffic
        if traffic is None or not traffic.batched:
            return made
        median, p80, p95 = (traffic.people * traffic.periods(one) for one in (made.median, made.p80, made.p95))
        return replace(made, median=median, p80=p80, p95=p95)  # quantiles between two trials may be at half a period

    def foretold(self, algorithm: str, scenario: int | None = None) -> Quantiles:
        """Return the quick prediction, even if trials were simulated."""
        return self._foretold(self.estimates, algorithm, scenario)

    def _foretold(self, estimates: tuple[SampleSizeEstimate, ...], algorithm: str, scenario: int | None) -> Quantiles:
        some = tuple(one for one in estimates if scenario in (None, one.scenario))
        made, traffic = foretold(some, self.supposed.shares, algorithm), self.supposed.traffic
        if traffic is None:
            return made
        return Quantiles(traffic.taken(made.median), traffic.taken(made.p80), traffic.taken(made.p95))

    def _of_logs(self) -> tuple[SampleSizeEstimate, ...]:
        """Return estimates for finished logs, rescaled to the simulated users of the uniform trial if it was done."""
        made: list[SampleSizeEstimate] = []
        for one in self.estimates:
            simulated = math.inf
            if self.simulated:
                simulated = quantiles(stopping_times(self.trials, "uniform", one.scenario)).median
            if math.isfinite(simulated):
                ratio = one.medians[CERTIFY] / one.medians["uniform"]
                one = replace(one, medians={CERTIFY: ratio * simulated})
            made.append(one)
        return tuple(made)

    def chance(self, people: float, algorithm: str = "coda") -> float:
        """Return the probability that a trial is done by this many users."""
        people, traffic = number(people, name="people", least=0), self.supposed.traffic
        if not self.simulated or algorithm == CERTIFY:
            known = people if traffic is None else traffic.counted(people)
            estimates = self._of_logs() if algorithm == CERTIFY else self.estimates
            return chance_by(estimates, self.supposed.shares, algorithm, known)
        times = np.array(stopping_times(self.trials, algorithm))
        weights = np.array(scenario_weights(self.trials, algorithm, self.supposed.shares))
        return float(weights @ (times <= people))

    def chance_in(self, periods: float, algorithm: str = "coda") -> float:
        """Return the probability that a trial is done after this many periods of its traffic."""
        traffic = self.supposed.traffic
        if traffic is None:
            raise InputError('the duration needs the traffic: plan(…, traffic="4000/week")')
        periods = number(periods, name="periods", least=0)
        return self.chance(traffic.people_in(math.floor(periods) if traffic.batched else periods), algorithm)

    def periods(self, algorithm: str, share: float) -> float | None:
        """Return the periods of its traffic after which this share of trials is done; None without traffic."""
        traffic, shares = self.supposed.traffic, self.supposed.shares
        share = number(share, name="share", above=0, below=1)
        if traffic is None:
            return None
        if self.simulated and algorithm != CERTIFY:
            weights = scenario_weights(self.trials, algorithm, shares)
            return traffic.periods(quantile(stopping_times(self.trials, algorithm), weights, share))
        estimates = self._of_logs() if algorithm == CERTIFY else self.estimates
        return traffic.periods(traffic.taken(foretold_at(estimates, shares, algorithm, share)))

    def means(self, algorithm: str) -> TrialAverages | None:
        """Return the average cost and gain of simulated trials; None if there were none."""
        if not self.simulated:
            return None
        own = [one for one in self.trials if one.algorithm == algorithm]
        weights, unit = np.array(scenario_weights(self.trials, algorithm, self.supposed.shares)), self.unit
        table = np.array([(one.lost, one.over_constant, one.over_control, one.correct) for one in own], dtype=float)
        lost, constant, control, correct = (float(x) for x in weights @ table)
        return TrialAverages(unit * lost, unit * constant, unit * control, correct)

    def curve(self, algorithm: str) -> tuple[FloatArray, FloatArray]:
        """Return users (k,), and the 10, 50 and 90 % quantiles (3, k) of the certified ε by then, as simulated."""
        own = [one for one in self.trials if one.algorithm == algorithm]
        if not self.simulated:
            raise InputError("this plan was not simulated, and only simulated trials show what is certified when")
        weights = scenario_weights(self.trials, algorithm, self.supposed.shares)
        last = max(n for one in own for n, _ in one.curve)
        first = min(one.curve[0][0] for one in own)
        people = np.geomspace(max(first, 1), max(last, first + 1), CURVE_POINTS)
        # Certified so far: the smallest ε of all rounds that are over.
        steps = np.ones((len(own), len(people)))
        for i, one in enumerate(own):
            at = np.array([n for n, _ in one.curve])
            best = np.minimum.accumulate(np.array([e for _, e in one.curve]))
            which = np.searchsorted(at, people, side="right") - 1
            steps[i] = np.where(which >= 0, best[np.maximum(which, 0)], 1.0)
        bands = [[quantile(list(steps[:, k]), weights, share) for k in range(len(people))] for share in BAND]
        return people, self.unit * np.array(bands)

    @property
    def unit(self) -> float:
        """The range of rewards: the largest less the smallest."""
        return self.supposed.outcome.unit

    @property
    def lower_bound(self) -> float | None:
        """The mean of the paper's lower bounds over scenarios; None unless it is a theorem in each."""
        bounds = [one.lower_bound for one in self.estimates]
        if any(one is None for one in bounds):
            return None
        shares, n = self.supposed.shares, len(self.estimates) // len(self.supposed.scenarios)
        return sum(shares[e.scenario] * (e.lower_bound or 0.0) / n for e in self.estimates)

    @property
    def largest_gain(self) -> float:
        """The mean gain of the best policy over the best single action, in the scenario where it is largest."""
        drawn = [(one.scenario, one.best_over_constant) for one in self.trials] if self.simulated else []
        drawn = drawn or [(one.scenario, one.gain) for one in self.estimates]
        gains = [np.mean([gain for of, gain in drawn if of == scenario]) for scenario in {of for of, _ in drawn}]
        return self.unit * float(max(gains))

    def affordable(self, budget: int | None = None, *, progress: Progress | None = None) -> Affordable:
        """Return what a number of users affords: the smallest ε, the number of actions, the depth of trees."""
        people = self.budget if budget is None else budget
        if people is None:
            raise InputError("give the number of users you can afford: affordable(budget=3000)")
        people = whole_number(people, name="budget", least=1)
        return affordable(self.supposed, self.estimates, people, progress=progress)

    def by_effect(self, *, progress: Progress | None = None) -> dict[float, dict[str, Quantiles]]:
        """Return the quick prediction for smaller and larger effects than the assumed one, by effect and analysis."""
        made = by_effect(self.supposed, self.estimates, progress=progress)
        return {
            effect: {one: replace(self, estimates=found, trials=()).quantiles(one) for one in ANALYSES}
            for effect, found in made.items()
        }

    def findings(self) -> tuple[str, ...]:
        """Return conclusions and warnings for the planner, in sentences."""
        s, words = self.supposed, list(self.supposed.remarks())
        coda, plain, by_whom = *(self.quantiles(one) for one in RIVALS), ""
        unsure = max(coda.known_to, plain.known_to) > KNOWN_WELL_ENOUGH
        if self.simulated and unsure and math.isfinite(plain.median):
            coda, plain, by_whom = *(self.foretold(one) for one in RIVALS), " (by the quick answer, as yet)"
        personal = s.policies.log_size > math.log(s.n_actions) + 1e-9
        if personal and self.largest_gain <= s.epsilon * (1 + 1e-9):
            words.append(_no_proof_of_personalising(self.largest_gain, s.epsilon))
        if math.isfinite(plain.median) and plain.median <= PLAIN_TRIAL_SUFFICES * coda.median:
            words.append(
                f"A plain randomised trial suffices{by_whom}: adaptive exploration would save almost nothing, and "
                "the same certificate stops both."
            )
        elif math.isfinite(plain.median):
            saved = 100 * (1 - coda.median / plain.median)
            words.append(f"An adaptive trial (coda) saves about {saved:.0f} % of the people{by_whom}.")
        if s.traffic is not None and (length := self.periods("coda", 0.8)) is not None:
            years = length * YEARS[s.traffic.period]
            if years > LONG_YEARS:
                words.append(
                    f"With {s.traffic.describe()} that takes {years:,.0f} years in one of five cases: take a larger ε, "
                    "fewer actions, or a smaller class of policies."
                )
        if self.simulated and not all(math.isfinite(self.quantiles(one).p95) for one in RIVALS):
            words.append(f"Some simulated trials had not finished after {self.max_samples:,} users and were ended.")
        return tuple(words)

    def figure(self) -> Any:
        """Draw the chance to be done by number of people, and sample sizes by scenario, as a matplotlib figure."""
        return import_module("pacbandits.report.plan_report").plan_figure(self)

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        from pacbandits.planning.plan_files import plan_to_json

        return plan_to_json(self)


def _no_proof_of_personalising(gain: float, epsilon: float) -> str:
    """Return why a proof to within ε cannot favour a rule over one action; gain: the best policy's, at most."""
    if gain <= NO_GAIN * epsilon:
        return (
            "Personalisation has no benefit here: in every scenario one action is as good as the best policy. An "
            "ordinary test of the actions suffices (--policies trees:depth=0)."
        )
    return (
        f"A proof at ε = {epsilon:g} cannot show that personalising pays: in the scenarios the best policy earns up to "
        f"{gain:.2g} a person more than the best single action, which is no more than ε. To prove that gain, take an ε "
        f"of {gain / 2:.1g} or so, which takes more people; or test for the best single action (--policies "
        "trees:depth=0)."
    )


# Make a plan from stated assumptions: the function `plan`.


DEFAULT_CLASS, DEFAULT_DELTA, DEFAULT_POWER = "trees:depth=2", 0.05, 0.8
DEFAULT_EPSILON_IN_BASELINES = 0.2  # if only a budget is known: effects of a fifth of the baseline matter
MOST_SIMULATED_PEOPLE = 1e9  # in one trial, unless a larger number is predicted
NO_EPSILON = 0.05  # of the range of rewards: stands for ε in a plan to prove a gain, which has none
GIVEN_UP_AFTER = 10  # multiple of the predicted 95 % quantile after which a trial is given up


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """The arguments of `plan`; see there."""

    n_actions: int | None = None
    policies: PolicyClass | str = DEFAULT_CLASS
    epsilon: float | None = None
    delta: float = DEFAULT_DELTA
    baseline: float | None = None
    spread: float | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    variation: float = DEFAULT_VARIATION
    effect: float | str | None = None
    share: float | None = None
    scenarios: Sequence[Supposition] | None = None
    control: int = 0
    improve_on: int | None = None
    power: float = DEFAULT_POWER
    traffic: Traffic | str | None = None
    budget: int | None = None
    seed: int = 0
    count_pilot: bool = False


@overload
def plan(
    contexts: Contexts | Log | DataFrame,
    *,
    n_actions: int | None = None,
    policies: PolicyClass | str = DEFAULT_CLASS,
    epsilon: float | None = None,
    delta: float = DEFAULT_DELTA,
    baseline: float | None = None,
    spread: float | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    variation: float = DEFAULT_VARIATION,
    effect: float | str | None = None,
    share: float | None = None,
    scenarios: Sequence[Supposition] | None = None,
    control: int = 0,
    improve_on: int,
    power: float = DEFAULT_POWER,
    traffic: Traffic | str | None = None,
    budget: int | None = None,
    seed: int = 0,
    count_pilot: bool = False,
    simulated: bool = True,
    limits: Limits | None = None,
    folder: str | Path | None = None,
    engine: DaskEngine | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> GainPlan: ...
@overload
def plan(
    contexts: Contexts | Log | DataFrame,
    *,
    n_actions: int | None = None,
    policies: PolicyClass | str = DEFAULT_CLASS,
    epsilon: float | None = None,
    delta: float = DEFAULT_DELTA,
    baseline: float | None = None,
    spread: float | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    variation: float = DEFAULT_VARIATION,
    effect: float | str | None = None,
    share: float | None = None,
    scenarios: Sequence[Supposition] | None = None,
    control: int = 0,
    improve_on: None = None,
    power: float = DEFAULT_POWER,
    traffic: Traffic | str | None = None,
    budget: int | None = None,
    seed: int = 0,
    count_pilot: bool = False,
    simulated: bool = True,
    limits: Limits | None = None,
    folder: str | Path | None = None,
    engine: DaskEngine | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> StudyPlan: ...
def plan(
    contexts: Contexts | Log | DataFrame,
    *,
    n_actions: int | None = None,
    policies: PolicyClass | str = DEFAULT_CLASS,
    epsilon: float | None = None,
    delta: float = DEFAULT_DELTA,
    baseline: float | None = None,
    spread: float | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    variation: float = DEFAULT_VARIATION,
    effect: float | str | None = None,
    share: float | None = None,
    scenarios: Sequence[Supposition] | None = None,
    control: int = 0,
    improve_on: int | None = None,
    power: float = DEFAULT_POWER,
    traffic: Traffic | str | None = None,
    budget: int | None = None,
    seed: int = 0,
    count_pilot: bool = False,
    simulated: bool = True,
    limits: Limits | None = None,
    folder: str | Path | None = None,
    engine: DaskEngine | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> StudyPlan | GainPlan:
    """Plan a trial before it starts: predict its number of users, its duration and its gain.

    contexts: of past users; or the log of a pilot, whose uncertain effects are drawn.
    n_actions: the number of actions.
    policies: the class to search, or its name.
    epsilon: how close to the best, in the units of rewards; if omitted, what the budget affords.
    delta: the probability of being wrong.
    baseline: the mean reward under the status quo, such as a conversion rate.
    spread: the standard deviation of rewards, if they are not binary.
    reward_range: the smallest and the largest possible reward.
    variation: by which share of the baseline users differ, under every action.
    effect: the effect size, in the units of rewards or as "+20%" of the baseline, the default.
    share: of users for whom another action is better, in the scenario `segments`.
    scenarios: assumptions about effects, if not the usual: none, winner, segments and few.
    control: the action in use now.
    improve_on: plan for a proof that a policy gains over this action, the control, instead of one that it is within
        epsilon of the best: the number of rows until `certify(…, control=…)` proves it, as a `GainPlan`.
    power: the probability with which it is to prove that.
    traffic: users per period, such as "4000/week"; a `Traffic` may have batches and late rewards.
    budget: affordable number of users.
    seed: of all random draws.
    count_pilot: whether the rows of the pilot will count (`run(…, pilot=…)`): numbers are of the users to come.
    simulated: whether to simulate trials; without, the answer takes seconds and is right to a factor of about 1.5.
    limits: when simulation ends; by default after 10 minutes, or once quantiles are known to 10 %.
    folder: saves simulated trials, so that a plan can be refined later.
    engine: plays trials on its workers, `DaskEngine()`; by default processes of this machine do.
    progress, watch: called with the current step, and with every trial.

    >>> import pacbandits as pb
    >>> people = pb.Contexts.of([[age] for age in range(18, 80)], names=["age"])
    >>> quick = pb.plan(people, n_actions=3, policies="trees:depth=1", epsilon=0.1, baseline=0.3, simulated=False)
    >>> 500 < quick.samples["coda"].median < quick.samples["coda"].p80 < 10_000
    True

    Raises:
        InputError: If the assumptions are impossible; the message says which.
    """
    asked = PlanRequest(
        n_actions=n_actions,
        policies=policies,
        epsilon=epsilon,
        delta=delta,
        baseline=baseline,
        spread=spread,
        reward_range=reward_range,
        variation=variation,
        effect=effect,
        share=share,
        scenarios=scenarios,
        control=control,
        improve_on=improve_on,
        power=power,
        traffic=traffic,
        budget=budget,
        seed=seed,
        count_pilot=count_pilot,
    )
    _check_simulation(simulated, limits, folder, engine, watch)
    source = contexts if isinstance(contexts, Contexts | Log) else contexts_of(contexts)
    supposed = suppose(source, asked, progress=progress)
    if improve_on is not None:
        gain = _quick_gain(supposed, asked)
        if folder is not None or watch is not None:
            name = "watch" if folder is None else "folder"
            raise InputError(f"{name} is for simulated trials, and a plan to prove a gain has none; leave it out")
        return refine_gain_plan(gain, limits=limits, engine=engine, progress=progress) if simulated else gain
    made = _quick(supposed, budget=budget, progress=progress)
    if not simulated:
        return made
    return refine(made, limits=limits, folder=folder, engine=engine, progress=progress, watch=watch)


def _quick(supposed: Assumptions, *, budget: int | None, progress: Progress | None) -> StudyPlan:
    """Return the plan with its quick prediction alone."""
    made = StudyPlan(supposed, estimate(supposed, progress=progress), (), 1, budget=budget)
    return replace(made, max_samples=most_people(max(made.foretold(one).p95 for one in RIVALS)))


def _quick_gain(supposed: Assumptions, asked: PlanRequest) -> GainPlan:
    """Return the plan to prove a gain with its quick prediction alone."""
    left_out = tuple(one.name for one in asked.scenarios or () if one not in supposed.scenarios)
    return replace(quick_gain_plan(supposed), budget=asked.budget, left_out=left_out)


def _check_simulation(simulated: object, limits: object, folder: object, engine: object, watch: object) -> None:
    """Raise, before anything is computed, if simulation could not begin."""
    flag(simulated, name="simulated")
    if limits is not None:
        instance(limits, Limits, name="limits", remedy="say Limits(trials=50, minutes=3)")
    if folder is not None:
        path_of(folder, name="folder")
    if engine is not None:
        instance(engine, DaskEngine, name="engine", remedy="say DaskEngine(), or nothing for this machine")
    if watch is not None:
        function(watch, name="watch")


def refine(
    quick: StudyPlan,
    *,
    limits: Limits | None = None,
    folder: str | Path | None = None,
    engine: DaskEngine | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> StudyPlan:
    """Return the plan with simulated trials; arguments are those of `plan`."""
    s = quick.supposed
    question = TrialQuestion(s.unit_epsilon, s.delta, s.traffic, s.control, quick.max_samples)
    listener(progress)("simulating")
    place, most = None if folder is None else Path(folder), limits or Limits()
    return replace(quick, trials=simulate(s, question, limits=most, folder=place, engine=engine, watch=watch))


def most_people(usual: float) -> int:
    """Return the users after which a simulated trial is given up, given the predicted 95 % quantile."""
    return int(min(GIVEN_UP_AFTER * usual, max(MOST_SIMULATED_PEOPLE, usual)))


def suppose(source: Contexts | Log, asked: PlanRequest, *, progress: Progress | None = None) -> Assumptions:
    """Return the assumptions, with defaults for what was not stated."""
    traffic = Traffic.read(asked.traffic) if isinstance(asked.traffic, str) else asked.traffic
    if asked.budget is not None:
        whole_number(asked.budget, name="--budget", least=1)
    pilot = PilotEffects(source) if isinstance(source, Log) else None
    if asked.n_actions is not None:
        whole_number(asked.n_actions, name="--actions", least=2)
    chosen, contexts = asked.policies, source.contexts if isinstance(source, Log) else source
    people = people_of(contexts, seed=asked.seed) if isinstance(chosen, str) else contexts
    if not isinstance(chosen, str):
        chosen = check_class(chosen)
    outcome = _outcome(asked, pilot)
    n_actions = _n_actions(asked, pilot)
    policies = load_policies(chosen, people, n_actions=n_actions) if isinstance(chosen, str) else chosen
    if policies.n_actions != n_actions:
        raise InputError(f"the policies have {policies.n_actions} actions, and the plan {n_actions}")
    check_percentage(asked.epsilon, name="--epsilon", reward_range=(outcome.low, outcome.high))
    epsilon = None if asked.epsilon is None else check_plan_epsilon(asked.epsilon, outcome)
    first = epsilon
    if asked.improve_on is not None:
        return _suppose_gain(asked, people, policies, outcome, pilot, traffic)
    if first is None:
        if asked.budget is None:
            raise InputError("give the tolerance (--epsilon), or the number of users you can afford (--budget)")
        first = DEFAULT_EPSILON_IN_BASELINES * outcome.room
    effect = effect_of(asked.effect, outcome)
    if asked.scenarios is not None or pilot is not None:
        _check_unheard(asked, "scenarios state" if asked.scenarios is not None else "a pilot determines")
    usual = (pilot,) if pilot is not None else usual_scenarios(effect=effect, n_actions=n_actions, share=asked.share)
    made = Assumptions(
        people,
        policies,
        first,
        asked.delta,
        outcome,
        usual if asked.scenarios is None else check_scenarios(asked.scenarios),
        control=asked.control,
        traffic=traffic,
        seed=asked.seed,
        spec=chosen if isinstance(chosen, str) else None,
        count_pilot=asked.count_pilot,
    )
    if epsilon is None and asked.budget is not None:
        near = affordable_epsilon(made, asked.budget, progress=progress)
        if near is None:
            raise InputError(
                f"{asked.budget:,} users are too few to prove anything, even the largest possible effect; take a "
                "larger --budget, fewer actions or a smaller policy class"
            )
        made = made.with_epsilon(near)
    return made


def _suppose_gain(
    asked: PlanRequest,
    people: Contexts,
    policies: PolicyClass,
    outcome: Outcome,
    pilot: PilotEffects | None,
    traffic: Traffic | None,
) -> Assumptions:
    """Return the assumptions of a plan to prove a gain: scenarios are those in which there is one.

    By default one action is better than the control for everybody, or for a share of people if that is stated.
    """
    assert asked.improve_on is not None
    if asked.epsilon is not None:
        raise InputError(
            f"--epsilon {asked.epsilon:g} is for a plan to find the best policy, and --improve-on for one to prove a "
            "gain over the control; leave one of them out"
        )
    if asked.control not in (0, asked.improve_on):
        raise InputError(
            f"--improve-on names action {asked.improve_on} and --control action {asked.control}, which are one action; "
            "leave one of them out"
        )
    control = whole_number(asked.improve_on, name="--improve-on", least=0, most=policies.n_actions - 1)
    scenarios: tuple[Supposition, ...]
    given: tuple[Supposition, ...]
    if asked.scenarios is not None or pilot is not None:
        _check_unheard(asked, "scenarios state" if asked.scenarios is not None else "a pilot determines")
        given = (pilot,) if pilot is not None and asked.scenarios is None else check_scenarios(asked.scenarios)
        scenarios = tuple(one for one in given if not (isinstance(one, Scenario) and one.kind == "none"))
        if not scenarios:
            raise InputError("in the scenario 'none' there is no gain to prove; add a scenario with an effect")
    else:
        effect, kind = effect_of(asked.effect, outcome), "winner" if asked.share is None else "segments"
        scenarios = tuple(
            one
            for one in usual_scenarios(effect=effect, n_actions=policies.n_actions, share=asked.share)
            if one.kind == kind
        )
    return Assumptions(
        people,
        policies,
        NO_EPSILON * outcome.unit,
        asked.delta,
        outcome,
        scenarios,
        control=control,
        traffic=traffic,
        seed=asked.seed,
        spec=asked.policies if isinstance(asked.policies, str) else None,
        power=number(asked.power, name="--power", above=0, below=1),
        count_pilot=asked.count_pilot,
    )


def _check_unheard(asked: PlanRequest, who: str) -> None:
    """Raise if an effect or a share was stated that would have no effect."""
    for name, value in (("--effect", asked.effect), ("--share", asked.share)):
        if value is not None:
            raise InputError(f"{who} the effects of actions, so {name} would change nothing; leave it out")


def _outcome(asked: PlanRequest, pilot: PilotEffects | None) -> Outcome:
    """Return the distribution of rewards, as stated or as estimated from a pilot."""
    if pilot is not None:
        if asked.baseline is not None or asked.spread is not None:
            raise InputError("a pilot determines --baseline and --spread; leave them out")
        return pilot.outcome
    if asked.baseline is None:
        raise InputError(
            "give the baseline (--baseline): the conversion rate as a share, or the mean reward; or give the log "
            "of a pilot"
        )
    low, high = check_range(asked.reward_range)
    check_percentage(asked.baseline, name="--baseline", reward_range=(low, high))
    return Outcome(asked.baseline, asked.spread, low, high, asked.variation)


def _n_actions(asked: PlanRequest, pilot: PilotEffects | None) -> int:
    """Return the number of actions, from the pilot, the class or the argument."""
    if pilot is not None:
        known = pilot.log.n_actions
    elif not isinstance(asked.policies, str):
        known = asked.policies.n_actions
    else:
        known = asked.n_actions
    if known is None:
        raise InputError("give the number of actions (--actions)")
    if asked.n_actions is not None and asked.n_actions != known:
        raise InputError(f"there are {known} actions, but --actions is {asked.n_actions}; leave it out")
    return whole_number(known, name="--actions", least=2)
