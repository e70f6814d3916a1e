"""What a plan says: the answer in sentences, and the rows of its tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from pacbandits.certificate import Certificate
from pacbandits.certificate.conventions import has_rounds
from pacbandits.errors import InputError, count_of
from pacbandits.planning import Affordable, Quantiles, StudyPlan
from pacbandits.planning.assumptions import Supposition
from pacbandits.planning.playing import RIVALS
from pacbandits.planning.quick import ANALYSES, CERTIFY
from pacbandits.problems.pilots import PilotEffects
from pacbandits.problems.scenarios import IN_WORDS, Outcome, Scenario
from pacbandits.records import Log
from pacbandits.records.beside import UNIT_RANGE
from pacbandits.report.numbers import about, show_mean, show_number

CALLED = {
    "coda": "adaptive trial (coda)",
    "uniform": "plain randomised trial",
    "certify": "finished log, by certify",
}
SHARES = (0.5, 0.8, 0.95)
SAME_EPSILON = 1.05  # times what is wanted, which a search for what a budget affords cannot tell from it
NOT_DONE = "not done"
MANY_PERIODS = 1000.0  # that are told to two digits, as people are


ByEffect = Mapping[float, Mapping[str, Quantiles]]


def called(one: Supposition) -> str:
    """A scenario in words that need no list of kinds; its own name, if it has one."""
    if isinstance(one, Scenario):
        return IN_WORDS[one.kind] if one.name == one.kind else one.name
    return "what the pilot makes likely" if isinstance(one, PilotEffects) else one.name


def people(count: float) -> str:
    """A number of people, to two digits: more would promise too much."""
    return about(count) if math.isfinite(count) else NOT_DONE


def people_by(made: Quantiles, of: float) -> str:
    """How many people a trial is done by in this share of cases; at least so many, where too few were simulated.

    The longest of m trials stands at m/(m + 1): that 19 of 20 are done by then cannot be said of four.
    """
    count = {0.5: made.median, 0.8: made.p80, 0.95: made.p95}[of]
    return f"{_at_least(made, of)}{people(count)}"


def _at_least(made: Quantiles, of: float) -> str:
    few = made.trials and of > made.trials / (made.trials + 1)
    return "≥ " if few and math.isfinite(made.p95) else ""


def share(value: float) -> str:
    """A probability in percent."""
    return f"{100 * value:.0f} %"


def answer(plan: StudyPlan) -> list[str]:
    """The plan in three sentences or so."""
    s, coda, plain = plan.supposed, plan.quantiles("coda"), plan.quantiles("uniform")
    half, most = (f" ({length})" if (length := _periods(plan, "coda", of)) else "" for of in (0.5, 0.8))
    log = plan.quantiles("certify")
    words = [
        _supposed(plan),
        f"To find a rule within {s.epsilon:g} of the best one, and to prove it with {100 * (1 - s.delta):g} % "
        f"confidence, takes about {people(coda.median)} people{half} in the middle case and {people(coda.p80)}{most} "
        "in four cases of five, by an adaptive trial that stops itself (pacbandits experiment).",
        f"A plain randomised trial that stops itself by the same proof takes {people(plain.median)} and "
        f"{people(plain.p80)}.",
        f"A plain test that is analysed once, when it is over (pacbandits certify FILE), takes {people(log.median)} "
        f"and {people(log.p80)}.",
    ]
    if plan.budget is not None:
        words.append(
            f"With {plan.budget:,} people the chance to be done is {share(plan.chance(plan.budget))} "
            f"({share(plan.chance(plan.budget, 'uniform'))} by a plain trial)."
        )
    if plan.deadline is not None and s.traffic is not None:
        time = f"{plan.deadline:g} {s.traffic.period}{'' if plan.deadline == 1 else 's'}"
        words.append(
            f"In {time} the chance to be done is {share(plan.chance_in(plan.deadline))} "
            f"({share(plan.chance_in(plan.deadline, 'uniform'))} by a plain trial)."
        )
    return [*words, _basis(plan, coda)]


def _supposed(plan: StudyPlan) -> str:
    """The effect that the answer rests on, in a sentence."""
    s, outcome = plan.supposed, plan.supposed.outcome
    if not s.effects:
        drawn = any(isinstance(one, PilotEffects) for one in s.scenarios)
        return (
            f"Supposed: {'the effects that the pilot makes likely' if drawn else 'no action is better than another'}."
        )
    shown = [effect_words(effect, outcome) for effect in s.effects]
    return (
        f"Supposed: a better action raises the mean reward from {_mean(outcome.baseline, outcome)} to "
        f"{' or '.join(shown)}. State what you expect with --effect; the answer depends on it."
    )


def effect_words(effect: float, outcome: Outcome) -> str:
    """The mean reward under a better action, and by how much that is more: 6 % (+20 %)."""
    relative = f" (+{100 * effect / outcome.baseline:.3g} %)" if outcome.baseline > 0 else ""
    return f"{_mean(outcome.baseline + effect, outcome)}{relative}"


def _mean(value: float, outcome: Outcome) -> str:
    return show_mean(value, percent=(outcome.low, outcome.high) == UNIT_RANGE)


def effect_rows(plan: StudyPlan, by_effect: ByEffect) -> Iterable[tuple[str, ...]]:
    """What each analysis takes if the effect is smaller or larger."""
    for effect, made in by_effect.items():
        cells = (cell for one in ANALYSES for cell in (people(made[one].median), people(made[one].p80)))
        yield effect_words(effect, plan.supposed.outcome), *cells


def _basis(plan: StudyPlan, coda: Quantiles) -> str:
    if not plan.simulated:
        return "This is a quick estimate, right to a factor of 1.5 in most cases; simulation says more."
    worst = max(plan.quantiles(one, i).known_to for one in RIVALS for i in range(len(plan.supposed.scenarios)))
    known = f"to {100 * worst:.0f} %" if math.isfinite(worst) else "only roughly so far"
    trials = count_of(coda.trials, "simulated trial")
    return f"That rests on {trials} of each kind; scenario by scenario it is known {known}."


def _periods(plan: StudyPlan, algorithm: str, of: float) -> str:
    """How long that takes, where traffic is known."""
    traffic, length = plan.supposed.traffic, plan.periods(algorithm, of)
    if traffic is None or length is None:
        return ""
    if not math.isfinite(length):
        return NOT_DONE
    if length >= MANY_PERIODS:
        return f"{people(length)} {traffic.period}s"
    shown = f"{length:.0f}" if traffic.batched or length >= 9.95 else f"{length:.1f}"
    return f"{shown} {traffic.period}{'' if shown in ('1', '1.0') else 's'}"


def main_rows(plan: StudyPlan) -> Iterable[tuple[str, ...]]:
    """What each analysis takes: a row of people, and one of time where traffic is known."""
    for one in ANALYSES:
        made = plan.quantiles(one)
        yield CALLED[one], *(people_by(made, of) for of in SHARES)
        if plan.supposed.traffic is not None:
            yield "", *(f"{_at_least(made, of)}{_periods(plan, one, of)}" for of in SHARES)


def scenario_rows(plan: StudyPlan, *, in_words: bool = False) -> Iterable[tuple[str, ...]]:
    """The same in each scenario, in half and in 4 of 5 cases; what was foretold in brackets.

    in_words: whether scenarios are called by what they mean, and not by their names.
    """
    for i, scenario in enumerate(plan.supposed.scenarios):
        cells: list[str] = []
        for one in ANALYSES:
            made, quick = plan.quantiles(one, i), plan.foretold(one, i)
            foretold = f" ({people(quick.median)})" if plan.simulated else ""
            cells += [f"{people(made.median)}{foretold}", people_by(made, 0.8)]
        yield called(scenario) if in_words else scenario.name, *cells


def gain_rows(plan: StudyPlan) -> Iterable[tuple[str, ...]]:
    """What trials cost and gain on average, in the units of rewards."""
    both = [plan.means(one) for one in RIVALS]
    if any(one is None for one in both):
        return
    rows = (
        ("reward that the trial costs, all people together", "lost"),
        ("what the rule earns more than the best action, a person", "over_constant"),
        ("what the rule earns more than the control, a person", "over_control"),
    )
    for words, name in rows:
        yield words, *(show_number(getattr(one, name), digits=3) for one in both)
    yield "rules that are within ε of the best", *(share(one.correct) for one in both if one is not None)


def budget_rows(plan: StudyPlan, afforded: Affordable) -> Iterable[tuple[str, str]]:
    """What a budget affords."""
    s = plan.supposed
    proven = "none, by so few" if afforded.epsilon is None else f"{afforded.epsilon:g}"
    enough_people = afforded.epsilon is not None and afforded.epsilon <= SAME_EPSILON * s.epsilon
    yield "ε proven in 4 of 5 cases", f"{proven} (wanted: {s.epsilon:g})"
    if enough_people:
        yield f"enough at ε = {s.epsilon:g} for", "all actions and this class"
    elif afforded.actions is not None:
        enough = f"{afforded.actions} of {s.n_actions}" if afforded.actions > 1 else "not even two"
        yield f"enough at ε = {s.epsilon:g} for", f"{enough} actions, with this class"
    if afforded.by_depth and not enough_people:
        deep = "not even one action for all" if afforded.depth is None else _trees(afforded.depth)
        yield "or, with all actions, for", deep
    for depth, count in afforded.by_depth.items():
        yield f"middle case with {_trees(depth)}", f"{people(count)} people"
    if afforded.one_action_less is not None:
        saved = afforded.one_action_less
        yield "one action less saves", f"about {people(saved)} people" if saved > 0 else "nothing"


def _trees(depth: int) -> str:
    return f"trees of depth {depth}" if depth else "one action for all"


def happened_rows(
    plan: StudyPlan, *, samples: int, algorithm: str, certified: float | None, explored: str | None = None
) -> tuple[tuple[str, str, str], ...]:
    """Planned against happened: people, how usual that is, and what was certified, in the units of rewards.

    explored: how, in words, if not as the algorithm of that name does.
    """
    name = algorithm if algorithm in ANALYSES else "coda"
    explored = algorithm if explored is None and name != algorithm else explored
    made, s = plan.quantiles(name), plan.supposed
    rows = [
        ("explored", CALLED[name], CALLED[name] if explored is None else explored),
        ("people", f"{people(made.median)} in the middle case, {people(made.p80)} in 4 of 5", f"{samples:,}"),
        ("done by then", f"{share(plan.chance(samples, name))} of planned trials", ""),
    ]
    if certified is not None:
        rows[-1] = (*rows[-1][:2], "yes" if certified <= s.epsilon * (1 + 1e-9) else "no")
        proven = show_number(certified, digits=3) if certified < plan.unit else "nothing"
        rows.append(("distance to the best (ε)", f"{s.epsilon:g}", f"{proven} is proven"))
    return tuple(rows)


def happened(plan: StudyPlan, certificate: Certificate, log: Log) -> tuple[tuple[str, str, str], ...]:
    """The same of a log that was certified."""
    if log.n_actions != plan.supposed.n_actions:
        raise InputError(
            f"the plan is for {plan.supposed.n_actions} actions, and the log has {log.n_actions}; it is another trial's"
        )
    even = log.least is None and bool(np.allclose(log.propensities, 1.0 / log.n_actions))
    plain = "uniform" if has_rounds(log) else CERTIFY
    return happened_rows(
        plan,
        samples=round(certificate.independent),
        algorithm=plain if even else "coda",
        certified=None if certificate.alarms else certificate.certified_epsilon,
        explored="all actions equally often" if even else "some actions more often than others",
    )
