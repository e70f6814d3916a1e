"""The report of a plan: its tables, its page and its figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate.certify import Question
from pacbandits.certificate.claim import rounded_down
from pacbandits.certificate.conventions import has_rounds
from pacbandits.errors import InputError, count_of
from pacbandits.planning import Affordable, GainPlan, Quantiles, StudyPlan
from pacbandits.planning.assumptions import RIVALS, Supposition, Traffic
from pacbandits.planning.sample_sizes import ANALYSES, CERTIFY
from pacbandits.planning.study_plan import BAND
from pacbandits.problems.pilots import PilotEffects
from pacbandits.problems.scenarios import IN_WORDS, Outcome, Scenario
from pacbandits.records import Log
from pacbandits.records.log_metadata import UNIT_RANGE
from pacbandits.report.document import Block, Box, Document, Figure, Items, Section, Table, Text
from pacbandits.report.figures import BEST_COLOUR, GREY, UNIFORM_COLOUR, new_figure, save_figure, svg_text
from pacbandits.report.numbers import about, show_gain, show_in_figure, show_mean, show_number
from pacbandits.report.result_report import write_document

# The sentences of a plan's answer, and the rows of its tables.


CALLED = {
    "coda": "adaptive trial (coda)",
    "uniform": "plain randomised trial",
    "certify": "finished log, by certify",
}
SHARES = (0.5, 0.8, 0.95)
SAME_EPSILON = 1.05  # factor on the requested ε within which the budget search cannot distinguish the two
NOT_DONE = "not done"
MANY_PERIODS = 1000.0  # from here on, periods are rounded to two digits, as people are


ByEffect = Mapping[float, Mapping[str, Quantiles]]


def called(one: Supposition) -> str:
    """Return a scenario's name, or a description of its kind if it has no name of its own."""
    if isinstance(one, Scenario):
        return IN_WORDS[one.kind] if one.name == one.kind else one.name
    return "what the pilot makes likely" if isinstance(one, PilotEffects) else one.name


def people(count: float) -> str:
    """Return a number of people to two digits, which is as precise as the forecast."""
    return about(count) if math.isfinite(count) else NOT_DONE


def people_by(made: Quantiles, of: float) -> str:
    """Return the number of people by which this share of trials is done; "≥" if too few trials were simulated.

    The longest of m trials estimates the quantile m/(m + 1): four trials cannot give the quantile of 19 of 20.
    """
    count = {0.5: made.median, 0.8: made.p80, 0.95: made.p95}[of]
    return f"{_at_least(made, of)}{people(count)}"


def _at_least(made: Quantiles, of: float) -> str:
    few = made.trials and of > made.trials / (made.trials + 1)
    return "≥ " if few and math.isfinite(made.p95) else ""


def share(value: float) -> str:
    """Return a probability in percent."""
    return f"{100 * value:.0f} %"


def answer(plan: StudyPlan) -> list[str]:
    """Return the plan's answer in a few sentences."""
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
    """Return the assumed effect as a sentence."""
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
    """Return the mean reward under a better action, and the relative gain: 6 % (+20 %)."""
    relative = f" (+{100 * effect / outcome.baseline:.3g} %)" if outcome.baseline > 0 else ""
    return f"{_mean(outcome.baseline + effect, outcome)}{relative}"


def _mean(value: float, outcome: Outcome) -> str:
    return show_mean(value, percent=(outcome.low, outcome.high) == UNIT_RANGE)


def effect_rows(plan: StudyPlan, by_effect: ByEffect) -> Iterable[tuple[str, ...]]:
    """Yield the sample sizes of each analysis, a row per effect size."""
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
    """Return the duration of the trial, or "" if traffic is unknown."""
    return _duration(plan.supposed.traffic, plan.periods(algorithm, of))


def _duration(traffic: Traffic | None, length: float | None) -> str:
    if traffic is None or length is None:
        return ""
    if not math.isfinite(length):
        return NOT_DONE
    if length >= MANY_PERIODS:
        return f"{people(length)} {traffic.period}s"
    shown = f"{length:.0f}" if traffic.batched or length >= 9.95 else f"{length:.1f}"
    return f"{shown} {traffic.period}{'' if shown in ('1', '1.0') else 's'}"


def main_rows(plan: StudyPlan) -> Iterable[tuple[str, ...]]:
    """Yield the sample size of each analysis: a row of people, and one of time if traffic is known."""
    for one in ANALYSES:
        made = plan.quantiles(one)
        yield CALLED[one], *(people_by(made, of) for of in SHARES)
        if plan.supposed.traffic is not None:
            yield "", *(f"{_at_least(made, of)}{_periods(plan, one, of)}" for of in SHARES)


def scenario_rows(plan: StudyPlan, *, in_words: bool = False) -> Iterable[tuple[str, ...]]:
    """Yield a row of sample sizes per scenario, in half and in 4 of 5 cases; the quick estimate is in brackets.

    in_words: whether scenarios are described instead of named.
    """
    for i, scenario in enumerate(plan.supposed.scenarios):
        cells: list[str] = []
        for one in ANALYSES:
            made, quick = plan.quantiles(one, i), plan.foretold(one, i)
            foretold = f" ({people(quick.median)})" if plan.simulated else ""
            cells += [f"{people(made.median)}{foretold}", people_by(made, 0.8)]
        yield called(scenario) if in_words else scenario.name, *cells


def gain_rows(plan: StudyPlan) -> Iterable[tuple[str, ...]]:
    """Yield the mean costs and gains of trials, in the units of rewards."""
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
    """Yield the ε, the number of actions and the tree depth that a budget affords."""
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
    """Return rows of planned against actual: people, the share of planned trials done by then, and the certified ε.

    explored: how the trial explored, in words, if not as the algorithm of that name does.
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


def happened(plan: StudyPlan | GainPlan, question: Question, log: Log) -> tuple[tuple[str, str, str], ...]:
    """Return the rows of `happened_rows` for a certified log, or of a plan to prove a gain with what was proven.

    Raises:
        InputError: If the plan is for another number of actions, or for a gain that was not asked for.
    """
    if log.n_actions != plan.supposed.n_actions:
        raise InputError(
            f"the plan is for {plan.supposed.n_actions} actions, and the log has {log.n_actions}; it is another trial's"
        )
    if isinstance(plan, GainPlan):
        return _happened_gain(plan, question)
    certificate = question.certificate
    even = log.least is None and bool(np.allclose(log.propensities, 1.0 / log.n_actions))
    plain = "uniform" if has_rounds(log) else CERTIFY
    return happened_rows(
        plan,
        samples=round(certificate.independent),
        algorithm=plain if even else "coda",
        certified=None if certificate.alarms else certificate.certified_epsilon,
        explored="all actions equally often" if even else "some actions more often than others",
    )


def _happened_gain(plan: GainPlan, question: Question) -> tuple[tuple[str, str, str], ...]:
    if question.control is None:
        raise InputError("the plan is to prove a gain over the control, and none was asked for; name it by --control")
    low, s = question.gain or 0.0, plan.supposed
    samples, percent = round(question.certificate.independent), (s.outcome.low, s.outcome.high) == UNIT_RANGE
    supposed = " or ".join(show_gain(one, percent=percent, sign=True) for one in s.effects) or "as in the pilot"
    proven = f"at least {show_gain(rounded_down(low), percent=percent, sign=True)}" if low > 0 else "none is proven"
    return (
        ("rows", f"{_rows(plan.rows)} in {100 * plan.power:g} % of tests", f"{samples:,}"),
        ("gain proven by then", f"{share(plan.chance(samples))} of planned tests", "yes" if low > 0 else "no"),
        ("effect over the control", supposed, proven),
    )


# The figure of a plan.


COLOURS = {"coda": BEST_COLOUR, "uniform": UNIFORM_COLOUR}
POINTS = 300
DARK = "#555555"
PLATE = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}  # makes text stand out from lines
LEGEND = {"facecolor": "white", "edgecolor": "none", "framealpha": 0.8, "fontsize": 9}
LABEL_WIDTH = 20  # characters per line of a scenario's name


def draw_plan(plan: StudyPlan, *, path: Path) -> None:
    """Write the figure in the format of the path's suffix."""
    save_figure(plan_figure(plan), path)


def plan_figure(plan: StudyPlan) -> Any:
    """Return the figure: the chance to be done by number of people, sample sizes by scenario, and certified ε."""
    rows = [["chances", "scenarios"]] + ([["proven", "proven"]] if plan.simulated else [])
    heights = (4.6, 3.8)[: len(rows)]
    figure = new_figure(11.0, sum(heights))
    axes = figure.subplot_mosaic(rows, height_ratios=heights)
    _draw_chances(axes["chances"], plan)
    _draw_scenarios(axes["scenarios"], plan)
    if plan.simulated:
        _draw_proven(axes["proven"], plan)
    s = plan.supposed
    figure.suptitle(
        f"What a trial takes: {s.n_actions} actions, a rule within {s.epsilon:g} of the best one, "
        f"{100 * (1 - s.delta):g} % confidence\n",
        fontsize=12,
    )
    return figure


def _draw_chances(axis: Any, plan: StudyPlan) -> None:
    """Draw the probability that each way to explore is done, by number of people."""
    counts = _range(plan)
    for one in RIVALS:
        chances = [100 * plan.chance(float(n), one) for n in counts]
        axis.plot(counts, chances, color=COLOURS[one], lw=2.2, label=CALLED[one])
        median = plan.quantiles(one).median
        if math.isfinite(median):
            axis.plot([median], [50], "o", color=COLOURS[one], ms=7)
            up = one == "coda"
            axis.annotate(
                people(median),
                (median, 50),
                xytext=(-8 if up else 8, 6 if up else -14),
                textcoords="offset points",
                ha="right" if up else "left",
                color=COLOURS[one],
                fontsize=10,
                bbox=PLATE,
            )
    if plan.budget is not None:
        _draw_budget(axis, plan.budget, chance=plan.chance(plan.budget), last=float(counts[-1]))
    axis.set_title("Chance to be done")
    axis.set_ylabel("trials that are done by then, %")
    axis.set_ylim(0, 102)
    _people_axis(axis, plan, counts)
    axis.legend(**LEGEND, loc="lower right")


def _draw_budget(axis: Any, budget: int, *, chance: float, last: float) -> None:
    """Draw the budget; its label is placed where no curve is: at the top, or lower if most trials are done."""
    axis.axvline(budget, color=GREY, ls="--", lw=1.2, zorder=0)
    early = chance < 0.5
    axis.annotate(
        f"with your {budget:,} people\n{100 * chance:.0f} % of trials are done",
        (budget, 97 if early else 36),
        xytext=(5 if budget < 0.75 * last else -5, 0),
        textcoords="offset points",
        ha="left" if budget < 0.75 * last else "right",
        va="top",
        color=DARK,
        fontsize=9,
        bbox=PLATE,
    )


def _draw_scenarios(axis: Any, plan: StudyPlan) -> None:
    """Draw the median sample size of each scenario, and a line up to the 80 % quantile."""
    names = [fill(show_in_figure(called(one)), LABEL_WIDTH) for one in plan.supposed.scenarios]
    for row in range(len(names)):
        for k, one in enumerate(RIVALS):
            made, y = plan.quantiles(one, row), row + (0.18 if k else -0.18)
            if not math.isfinite(made.median):
                axis.text(
                    0.98, y, "not done", transform=axis.get_yaxis_transform(), ha="right", va="center", fontsize=9
                )
                continue
            far = made.p80 if math.isfinite(made.p80) else plan.max_samples
            axis.plot([made.median, far], [y, y], color=COLOURS[one], lw=3, alpha=0.45, solid_capstyle="butt")
            axis.plot([made.median], [y], "o", color=COLOURS[one], ms=8)
            axis.annotate(
                people(made.median),
                (made.median, y),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
                fontsize=8.5,
            )
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_title("How many people, if this is true")
    low, high = axis.get_xlim()
    axis.set_xlim(0, high + 0.08 * (high - low))
    _thousands(axis)
    axis.set_xlabel("people (dot: middle case; line: up to 4 of 5 cases)")
    axis.spines[["top", "right"]].set_visible(False)


def _draw_proven(axis: Any, plan: StudyPlan) -> None:
    """Draw the certified ε by number of people: the median and a band that holds 4 of 5 trials."""
    for one in RIVALS:
        counts, bands = plan.curve(one)
        axis.fill_between(counts, bands[0], bands[-1], color=COLOURS[one], alpha=0.15, lw=0)
        axis.plot(counts, bands[BAND.index(0.5)], color=COLOURS[one], lw=2.2, label=CALLED[one])
    epsilon = plan.supposed.epsilon
    axis.axhline(epsilon, color=GREY, ls="--", lw=1.2)
    axis.text(
        0.01, epsilon, f"wanted: {epsilon:g}", transform=axis.get_yaxis_transform(), va="bottom", color=GREY, fontsize=9
    )
    axis.set_ylim(0, min(8 * epsilon, plan.unit))
    axis.set_title("How near to the best is proven (line: middle case; band: 4 of 5 trials)")
    axis.set_ylabel("at most this far from the best rule")
    _people_axis(axis, plan, _range(plan))
    axis.legend(**LEGEND, loc="upper right")


def _range(plan: StudyPlan) -> FloatArray:
    """Return numbers of people from 1 to where nearly all trials are done."""
    ends = [plan.quantiles(one).p95 for one in RIVALS] + [plan.foretold(one).p95 for one in RIVALS]
    finite = [end for end in ends if math.isfinite(end)]
    if plan.budget is not None:
        finite.append(float(plan.budget))
    return np.linspace(1.0, 1.25 * max(finite), POINTS)


def _people_axis(axis: Any, plan: StudyPlan, counts: FloatArray) -> None:
    """Label the axis with people, and a second one above with time if traffic is known."""
    axis.set_xlim(0, float(counts[-1]))
    _thousands(axis)
    axis.set_xlabel("people")
    axis.spines[["top", "right"]].set_visible(False)
    traffic = plan.supposed.traffic
    if traffic is not None:
        axis.set_xlabel(f"people ({traffic.people:,} a {traffic.period})")

        def periods(count: FloatArray) -> FloatArray:
            return count / traffic.people

        def back(length: FloatArray) -> FloatArray:
            return length * traffic.people

        top = axis.secondary_xaxis("top", functions=(periods, back))
        top.xaxis.set_major_locator(_locator(8, steps=[1, 2, 5, 10]))
        top.set_xlabel(f"{traffic.period}s" + (f", {traffic.delay} of them for late rewards" if traffic.delay else ""))


def _locator(count: int, **options: Any) -> Any:
    """Return what places about so many ticks on an axis."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(count, **options)


def _thousands(axis: Any) -> None:
    axis.xaxis.set_major_locator(_locator(5))

    def words(value: float, _: int) -> str:
        return f"{value:,.0f}"

    axis.xaxis.set_major_formatter(words)


# The report of a plan, and the summary that `plan` prints: sample sizes, chances, costs and gains, assumptions.


TITLE = "What will the trial cost?"
SHARE_WORDS = ("in half of all cases", "in 4 of 5", "in 19 of 20")
ANALYSIS_HEAD = ("adaptive: half", "4 of 5", "plain: half", "4 of 5", "certify: half", "4 of 5")
SHORT_HEAD = tuple(words.removesuffix(": half") for words in ANALYSIS_HEAD)  # fits a terminal
FIGURE_WORDS = "The chance to be done by the number of people, and the number of people in each scenario"
HOW = (
    "Each simulated trial draws a truth that the scenarios leave possible, lets the real algorithm explore people "
    "like those given, and stops when its certificate proves the answer. The adaptive trial (coda) shows each action "
    "as often as it takes to tell rules apart, and the plain one shows all equally often; the same proof ends both. "
    "A finished log is one of a plain test that is analysed once, by pacbandits certify, which learns the class of "
    "rules from its first rows: it takes a multiple of the plain trial's people, fitted to simulated logs. "
    "The quick answer (in brackets) is a formula, fitted to simulated trials: the price of telling rules apart, times "
    "the evidence that a proof takes, with what chance does to the luckiest of many rules."
)


def write_plan_report(
    plan: StudyPlan, path: Path, *, afforded: Affordable | None = None, by_effect: ByEffect | None = None
) -> None:
    """Write the report as HTML or Markdown, by the suffix of the path."""
    write_document(plan_document(plan, afforded, by_effect, drawn=path.suffix.lower() != ".md"), path)


def plan_document(
    plan: StudyPlan, afforded: Affordable | None = None, by_effect: ByEffect | None = None, *, drawn: bool = True
) -> Document:
    """Return the report of a plan, for colleagues; drawn: whether it includes a figure, which takes seconds."""
    blocks: tuple[Block, ...] = (
        Text(plan.source, "dim"),
        Box(tuple(map(Text, answer(plan)))),
        *((Figure(svg_text(plan_figure(plan)), FIGURE_WORDS),) if drawn else ()),
        *_sections(plan, afforded, by_effect, scenario_rows(plan, in_words=True), ANALYSIS_HEAD),
        Section("How this was computed", (Text(HOW), *_lower_bound(plan))),
    )
    return Document(TITLE, blocks)


def plan_summary(plan: StudyPlan, afforded: Affordable | None = None, by_effect: ByEffect | None = None) -> Document:
    """Return the document that `plan` prints: the answer and the tables of the report, scenarios by name."""
    tables = _sections(plan, afforded, by_effect, scenario_rows(plan), SHORT_HEAD)
    return Document("", (Text("\n".join(answer(plan)) + "\n"), *tables, *_lower_bound(plan)))


def _sections(
    plan: StudyPlan,
    afforded: Affordable | None,
    by_effect: ByEffect | None,
    scenarios: Iterable[tuple[str, ...]],
    head: Sequence[str],
) -> Iterable[Block]:
    """Yield the tables of a plan; scenarios: the rows of that table; head: its columns after the first."""

    def table(title: str, columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> Section:
        return Section(title, (Table(tuple(columns), tuple(rows)),))

    brackets = "; in brackets: quick answer" if plan.simulated else ""
    yield table("Number of people until the proof", ("", *SHARE_WORDS), main_rows(plan))
    yield table(f"By scenario (half of all cases, 4 of 5{brackets})", ("if this is true", *head), scenarios)
    if by_effect:
        title = "By mean reward of a better action (half of all cases, 4 of 5; quick answer)"
        yield table(title, ("mean reward", *head), effect_rows(plan, by_effect))
    if plan.simulated:
        yield table("Average costs and gains", ("", "adaptive", "plain"), gain_rows(plan))
    if afforded is not None:
        title = f"What {afforded.budget:,} people afford (quick answer, adaptive trial)"
        yield table(title, (), budget_rows(plan, afforded))
    if findings := plan.findings():
        yield Section("Remarks", (Items(tuple(findings)),))
    yield table("Assumptions", (), plan.supposed.describe())


def _lower_bound(plan: StudyPlan) -> Iterable[Text]:
    if plan.lower_bound is not None:
        fewest = people(plan.lower_bound)
        yield Text(f"No way to explore needs fewer than {fewest} people on average; that is a theorem.")


# The answer, the figure and the report of a plan to prove a gain over the control.


GAIN_TITLE = "How many rows prove a gain?"
GAIN_FIGURE_WORDS = "The chance that a gain is proven, by the number of rows"
NEVER = "never"
GAIN_HOW = (
    "Each simulated test draws the log of a plain test with an even split, of people like those given and with the "
    "assumed effects, and applies the proof of pacbandits certify --control to it. The rows of a log that proves a "
    "little too little, or more than enough, are scaled by the square of the distance of its bound. The quick answer "
    "is a formula: the variance of the difference, the stakes of the bets and the level. The ordinary A/B test is a "
    "one-sided comparison of means with the same probability of error, shared by all comparisons with the control. It "
    "is an approximation for one analysis of actions that were named in advance; the proof is exact, also for rewards "
    "that are rare, and may choose a rule by the same rows."
)


def gain_answer(plan: GainPlan) -> list[str]:
    """Return the plan's answer in a few sentences."""
    s, power = plan.supposed, f"{100 * plan.power:g} % of tests"
    option = s.control if plan.control == f"action {s.control}" else f"'{plan.control}'"
    time = f" ({length})" if (length := _duration(s.traffic, plan.periods())) and math.isfinite(plan.rows) else ""
    takes = f"takes about {_rows(plan.rows)} rows{time}" if math.isfinite(plan.rows) else "is not possible"
    words = [
        _supposed_gain(plan),
        f"To prove a gain over the control ({plan.control}) with {100 * (1 - s.delta):g} % confidence in {power} "
        f"{takes}, analysed once when the test is over (pacbandits certify FILE --control {option}).",
    ]
    if plan.ratio is not None:
        words.append(
            f"An ordinary A/B test of the same power takes about {_rows(plan.ordinary())} rows, which is an "
            f"approximation; the proof takes {plan.ratio:.2g} times as many."
        )
    elif not math.isfinite(plan.ordinary()):
        words.append(
            "No ordinary A/B test has that power: it compares single actions with the control, and none gains over it."
        )
    if plan.budget is not None:
        words.append(f"With {plan.budget:,} rows the chance to prove a gain is {share(plan.chance(plan.budget))}.")
    if plan.deadline is not None and s.traffic is not None:
        time = f"{plan.deadline:g} {s.traffic.period}{'' if plan.deadline == 1 else 's'}"
        words.append(f"In {time} the chance to prove a gain is {share(plan.chance_in(plan.deadline))}.")
    if plan.simulated:
        made = plan.quantiles()
        known = f"to {100 * made.known_to:.0f} %" if math.isfinite(made.known_to) else "only roughly so far"
        return [*words, f"That rests on {count_of(made.trials, 'simulated test')}; it is known {known}."]
    basis = "This is a quick estimate, right to a factor of 1.3 in most cases, or of 2 where a rule must be found."
    return [*words, basis]


def _rows(count: float) -> str:
    return about(count) if math.isfinite(count) else NEVER


def _supposed_gain(plan: GainPlan) -> str:
    """Return the assumed effects over the control as a sentence."""
    s, outcome = plan.supposed, plan.supposed.outcome
    if not s.effects:
        return "Supposed: the effects that the pilot makes likely."
    told: list[str] = []
    for one in s.scenarios:
        if isinstance(one, Scenario):
            part = f" for {100 * one.share:g} % of people" if one.kind == "segments" else ""
            told.append(f"{effect_words(one.effect, outcome)}{part}")
    return (
        f"Supposed: a better action raises the mean reward from {_mean(outcome.baseline, outcome)}, under the control, "
        f"to {' or '.join(dict.fromkeys(told))}. State what you expect with --effect; the answer depends on it."
    )


def gain_document(plan: GainPlan, *, drawn: bool = True) -> Document:
    """Return the report of a plan to prove a gain; drawn: whether it includes a figure, which takes seconds."""
    blocks: tuple[Block, ...] = (
        Text(plan.source, "dim"),
        Box(tuple(map(Text, gain_answer(plan)))),
        *((Figure(svg_text(gain_figure(plan)), GAIN_FIGURE_WORDS),) if drawn else ()),
        *_gain_sections(plan),
        Section("How this was computed", (Text(GAIN_HOW),)),
    )
    return Document(GAIN_TITLE, blocks)


def gain_summary(plan: GainPlan) -> Document:
    """Return the document that `plan --improve-on` prints: the answer and the tables of the report."""
    return Document("", (Text("\n".join(gain_answer(plan)) + "\n"), *_gain_sections(plan)))


def _gain_sections(plan: GainPlan) -> Iterable[Block]:
    s = plan.supposed
    rows = [("proof, by certify", *(_rows(plan.rows_for(of)) for of in SHARES))]
    if s.traffic is not None:
        rows.append(("", *(_duration(s.traffic, plan.periods(of)) for of in SHARES)))
    rows.append(("ordinary A/B test", *(_rows(plan.ordinary(of)) for of in SHARES)))
    yield Section("Number of rows", (Table(("", "in half of all tests", *SHARE_WORDS[1:]), tuple(rows)),))
    each = f"in {100 * plan.power:g} % of tests"
    if len(s.scenarios) > 1:
        found = (
            (called(one), _rows(plan.rows_for(plan.power, i)), _rows(plan.ordinary(scenario=i)))
            for i, one in enumerate(s.scenarios)
        )
        yield Section(f"By scenario ({each})", (Table(("if this is true", "proof", "A/B test"), tuple(found)),))
    if by_effect := plan.by_effect():
        table = ((effect_words(one, s.outcome), *map(_rows, made)) for one, made in by_effect.items())
        title = f"By mean reward of a better action ({each})"
        yield Section(title, (Table(("mean reward", "proof", "A/B test"), tuple(table)),))
    if findings := plan.findings():
        yield Section("Remarks", (Items(findings),))
    yield Section("Assumptions", (Table((), tuple(s.describe())),))


def gain_figure(plan: GainPlan) -> Any:
    """Return the figure: the chance that a gain is proven, and that an ordinary test finds it, by number of rows."""
    figure = new_figure(8.0, 4.4)
    axis = figure.subplots()
    ends = (plan.rows_for(0.95), plan.rows, plan.rows_for(0.5), float(plan.budget or 0))
    counts = np.linspace(1.0, 1.25 * max(end for end in ends if math.isfinite(end)), POINTS)
    proven, ordinary = ([100 * of(float(n)) for n in counts] for of in (plan.chance, plan.ordinary_chance))
    axis.plot(counts, proven, color=BEST_COLOUR, lw=2.2, label="proof, by certify")
    axis.plot(counts, ordinary, color=UNIFORM_COLOUR, lw=2.2, label="ordinary A/B test")
    axis.axhline(100 * plan.power, color=GREY, ls="--", lw=1.2, zorder=0)
    axis.set_title(f"Chance to prove a gain over {show_in_figure(plan.control)}")
    axis.set_ylabel("tests that prove a gain, %")
    axis.set_ylim(0, 102)
    axis.set_xlim(0, float(counts[-1]))
    axis.set_xlabel("rows")
    _thousands(axis)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(**LEGEND, loc="lower right")
    return figure
