"""Make a plan from stated assumptions: the function `plan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pacbandits.checks import check_percentage, flag, function, instance, path_of, whole_number
from pacbandits.engines.dask import DaskEngine
from pacbandits.errors import InputError
from pacbandits.logs.frames import DataFrame
from pacbandits.planning.affording import affordable_epsilon
from pacbandits.planning.assumptions import (
    Assumptions,
    Supposition,
    check_plan_epsilon,
    check_scenarios,
    effect_of,
    people_of,
    usual_scenarios,
)
from pacbandits.planning.playing import RIVALS, TrialQuestion
from pacbandits.planning.quick import estimate
from pacbandits.planning.simulating import Limits, Watch, simulate
from pacbandits.planning.study import StudyPlan
from pacbandits.planning.traffic import Traffic
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.registry import load_policies
from pacbandits.problems.pilots import PilotEffects
from pacbandits.problems.scenarios import DEFAULT_VARIATION, Outcome
from pacbandits.progress import Progress, listener
from pacbandits.records import Contexts, Log
from pacbandits.records.beside import check_range

DEFAULT_CLASS, DEFAULT_DELTA = "trees:depth=2", 0.05
DEFAULT_EPSILON_IN_BASELINES = 0.2  # where only a budget is known: effects of a fifth of the baseline matter
MOST_SIMULATED_PEOPLE = 1e9  # in one trial, unless it is foretold to take more
GIVEN_UP_AFTER = 10  # times as many people as 95 % of trials are foretold to take


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What a person states for a plan; see `plan` for what each means."""

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
    traffic: Traffic | str | None = None
    budget: int | None = None
    seed: int = 0


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
    traffic: Traffic | str | None = None,
    budget: int | None = None,
    seed: int = 0,
    simulated: bool = True,
    limits: Limits | None = None,
    folder: str | Path | None = None,
    engine: DaskEngine | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> StudyPlan:
    """What a trial will cost, before it starts: how many people, for how long, and what it gains.

    contexts: of people as they come, from the past; or the log of a pilot, whose uncertain effects are drawn.
    n_actions: how many actions there are to choose from.
    policies: the class to search, or its name.
    epsilon: how near to the best the answer must be, in the units of rewards; without it, what the budget affords.
    delta: with what probability it may be wrong.
    baseline: the mean reward when nothing special is done, a conversion rate say.
    spread: the standard deviation of rewards, where they are not all or nothing.
    reward_range: the least and the largest that a reward can be.
    variation: by which share of the baseline people differ, whatever is done.
    effect: by how much a better action is better, in the units of rewards or as "+20%" of the baseline, the default.
    share: of people for whom another action is better, in the scenario `segments`.
    scenarios: what actions may do, if not the usual: none, winner, segments and few.
    control: the action that is in use now.
    traffic: people a period, as "4000/week"; a `Traffic` can be in batches and have late rewards.
    budget: people one can afford.
    seed: of all that is drawn.
    simulated: whether trials are simulated; without, the answer takes seconds and is right to a factor of 1.5 or so.
    limits: when simulation ends; by default after 10 minutes, or once quantiles are known to 10 %.
    folder: keeps simulated trials, so that a plan can be refined later.
    engine: whose workers play trials, `DaskEngine()`; processes of this machine by default.
    progress, watch: are told what goes on, and of every trial.

    >>> import pacbandits as pb
    >>> people = pb.Contexts.of([[age] for age in range(18, 80)], names=["age"])
    >>> quick = pb.plan(people, n_actions=3, policies="trees:depth=1", epsilon=0.1, baseline=0.3, simulated=False)
    >>> 500 < quick.samples["coda"].median < quick.samples["coda"].p80 < 10_000
    True

    Raises:
        InputError: When what is supposed cannot be, in a sentence that says what.
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
        traffic=traffic,
        budget=budget,
        seed=seed,
    )
    _check_simulation(simulated, limits, folder, engine, watch)
    made = _quick(suppose(_contexts_of(contexts), asked, progress=progress), budget=budget, progress=progress)
    if not simulated:
        return made
    return refine(made, limits=limits, folder=folder, engine=engine, progress=progress, watch=watch)


def _quick(supposed: Assumptions, *, budget: int | None, progress: Progress | None) -> StudyPlan:
    """The plan with its quick answer alone."""
    made = StudyPlan(supposed, estimate(supposed, progress=progress), (), 1, budget=budget)
    return replace(made, max_samples=most_people(max(made.foretold(one).p95 for one in RIVALS)))


def _check_simulation(simulated: object, limits: object, folder: object, engine: object, watch: object) -> None:
    """Raise, before anything is computed, where simulation could not begin."""
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
    """A plan with simulated trials, for one that has its quick answer; what is given is as for `plan`."""
    s = quick.supposed
    question = TrialQuestion(s.unit_epsilon, s.delta, s.traffic, s.control, quick.max_samples)
    listener(progress)("simulating")
    place = None if folder is None else Path(folder)
    limits = limits or Limits()
    return replace(quick, trials=simulate(s, question, limits=limits, folder=place, engine=engine, watch=watch))


def most_people(usual: float) -> int:
    """After how many people a simulated trial is given up, for what 95 % of trials are foretold to take."""
    return int(min(GIVEN_UP_AFTER * usual, max(MOST_SIMULATED_PEOPLE, usual)))


def suppose(source: Contexts | Log, asked: PlanRequest, *, progress: Progress | None = None) -> Assumptions:
    """What is supposed, with what was not stated filled in."""
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
    if first is None:
        if asked.budget is None:
            raise InputError(
                "say how near to the best the answer must be (--epsilon), or how many people you can afford (--budget)"
            )
        first = DEFAULT_EPSILON_IN_BASELINES * outcome.room
    effect = effect_of(asked.effect, outcome)
    if asked.scenarios is not None or pilot is not None:
        _check_unheard(asked, "scenarios say" if asked.scenarios is not None else "a pilot tells")
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
    )
    if epsilon is None and asked.budget is not None:
        near = affordable_epsilon(made, asked.budget, progress=progress)
        if near is None:
            raise InputError(
                f"{asked.budget:,} people are too few to prove anything: even the largest difference that rewards can "
                "make takes more; take a larger --budget, fewer actions or a smaller class of policies"
            )
        made = made.with_epsilon(near)
    return made


def _check_unheard(asked: PlanRequest, who: str) -> None:
    """Raise where an effect or a share was stated that nothing would come of."""
    for name, value in (("--effect", asked.effect), ("--share", asked.share)):
        if value is not None:
            raise InputError(f"{who} what actions do, and {name} would change nothing; leave it out")


def _outcome(asked: PlanRequest, pilot: PilotEffects | None) -> Outcome:
    """What rewards are like, as stated or as a pilot shows."""
    if pilot is not None:
        if asked.baseline is not None or asked.spread is not None:
            raise InputError("a pilot tells --baseline and --spread itself; leave them out")
        return pilot.outcome
    if asked.baseline is None:
        raise InputError(
            "say what people earn when nothing special is done (--baseline): the conversion rate as a share, or the "
            "mean reward; or give the log of a pilot"
        )
    low, high = check_range(asked.reward_range)
    check_percentage(asked.baseline, name="--baseline", reward_range=(low, high))
    return Outcome(asked.baseline, asked.spread, low, high, asked.variation)


def _n_actions(asked: PlanRequest, pilot: PilotEffects | None) -> int:
    """How many actions there are, by whoever knows."""
    if pilot is not None:
        known = pilot.log.n_actions
    elif not isinstance(asked.policies, str):
        known = asked.policies.n_actions
    else:
        known = asked.n_actions
    if known is None:
        raise InputError("say how many actions there are to choose from (--actions)")
    if asked.n_actions is not None and asked.n_actions != known:
        raise InputError(f"there are {known} actions, and --actions says {asked.n_actions}; leave it out")
    return whole_number(known, name="--actions", least=2)


def _contexts_of(given: object) -> Contexts | Log:
    """People, a pilot, or people from a data frame."""
    from pacbandits.logs.frames import contexts_of

    return given if isinstance(given, Contexts | Log) else contexts_of(given)
