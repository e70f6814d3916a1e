"""Plans for people: the answer in sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pacbandits.errors import count_of
from pacbandits.planning import Affordable, Quantiles, StudyPlan
from pacbandits.planning.playing import RIVALS
from pacbandits.report.numbers import show_number

CALLED = {"coda": "exploring by design (coda)", "uniform": "plain randomised trial"}
SHARES = (0.5, 0.8, 0.95)
SHARE_WORDS = ("in half of all cases", "in 4 of 5", "in 19 of 20")
NOT_DONE = "not done"


def people(count: float) -> str:
    """A number of people, to two digits: more would promise too much."""
    return f"{float(f'{count:.2g}'):,.0f}" if math.isfinite(count) else NOT_DONE


def share(value: float) -> str:
    """A probability in percent."""
    return f"{100 * value:.0f} %"


def answer(plan: StudyPlan) -> list[str]:
    """The plan in three sentences or so."""
    s, coda, plain = plan.supposed, plan.quantiles("coda"), plan.quantiles("uniform")
    weeks = _periods(plan, "coda", 0.8)
    words = [
        f"To find a policy within {s.epsilon:g} of the best, and to prove it with {100 * (1 - s.delta):g} % "
        f"confidence, takes about {people(coda.median)} people in the middle case and {people(coda.p80)} in four cases "
        f"of five{f': {weeks}' if weeks else ''}.",
        f"A plain randomised trial with the same proof takes {people(plain.median)} and {people(plain.p80)}.",
    ]
    if plan.budget is not None:
        words.append(
            f"With {plan.budget:,} people the chance to be done is {share(plan.chance(plan.budget))} "
            f"({share(plan.chance(plan.budget, 'uniform'))} by a plain trial)."
        )
    basis = _basis(plan, coda)
    return [*words, basis]


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
    shown = f"{length:.0f}" if traffic.batched or length >= 10 else f"{length:.1f}"
    return f"{shown} {traffic.period}{'' if shown in ('1', '1.0') else 's'}"


def main_rows(plan: StudyPlan) -> Iterable[tuple[str, ...]]:
    """What each way to explore takes: a row of people, and one of time where traffic is known."""
    for one in RIVALS:
        made = plan.quantiles(one)
        yield CALLED[one], *(people(value) for value in (made.median, made.p80, made.p95))
        if plan.supposed.traffic is not None:
            yield "", *(_periods(plan, one, of) for of in SHARES)


def scenario_rows(plan: StudyPlan) -> Iterable[tuple[str, ...]]:
    """The same in each scenario, in half and in 4 of 5 cases; what was foretold in brackets."""
    for i, scenario in enumerate(plan.supposed.scenarios):
        cells: list[str] = []
        for one in RIVALS:
            made, quick = plan.quantiles(one, i), plan.foretold(one, i)
            foretold = f" ({people(quick.median)})" if plan.simulated else ""
            cells += [f"{people(made.median)}{foretold}", people(made.p80)]
        yield scenario.name, *cells


def gain_rows(plan: StudyPlan) -> Iterable[tuple[str, ...]]:
    """What trials cost and gain on average, in the units of rewards."""
    both = [plan.means(one) for one in RIVALS]
    if any(one is None for one in both):
        return
    rows = (
        ("reward lost while exploring, in all", "lost"),
        ("the answer earns more than the best single action, a person", "over_constant"),
        ("the answer earns more than the control, a person", "over_control"),
    )
    for words, name in rows:
        yield words, *(show_number(getattr(one, name), digits=3) for one in both)
    yield "answers within ε of the best", *(share(one.correct) for one in both if one is not None)


def budget_rows(plan: StudyPlan, afforded: Affordable) -> Iterable[tuple[str, str]]:
    """What a budget affords."""
    s = plan.supposed
    yield "distance to the best (ε) proven in 4 of 5 cases", f"{afforded.epsilon:g} (wanted: {s.epsilon:g})"
    if afforded.actions is not None:
        enough = f"{afforded.actions} of {s.n_actions}" if afforded.actions > 1 else "not even two"
        yield f"actions that it is enough for at ε = {s.epsilon:g}", enough
    if afforded.by_depth:
        deep = "not even depth 0, one action for all" if afforded.depth is None else f"depth {afforded.depth}"
        each = ", ".join(f"{depth}: {people(count)}" for depth, count in afforded.by_depth.items())
        yield (
            f"trees that it is enough for at ε = {s.epsilon:g}",
            f"{deep} (people in the middle case by depth: {each})",
        )
    if afforded.one_action_less is not None:
        saved = afforded.one_action_less
        yield "leaving out one action saves", f"about {people(saved)} people" if saved > 0 else "nothing"


def plan_table(plan: StudyPlan, afforded: Affordable | None = None) -> RenderableType:
    """A plan for people: sentences, then tables."""
    parts: list[RenderableType] = [Text("\n".join(answer(plan)) + "\n")]
    parts.append(_table("how many people until it is proven", ("", *SHARE_WORDS), main_rows(plan)))
    head = ("scenario", "by design: half", "4 of 5", "plain: half", "4 of 5")
    if plan.simulated:
        head = ("scenario (quick answer in brackets)", *head[1:])
    parts.append(_table("scenario by scenario", head, scenario_rows(plan)))
    if plan.simulated:
        parts.append(_table("what that costs and gains, on average", ("", "by design", "plain"), gain_rows(plan)))
    if plan.lower_bound is not None:
        parts.append(
            Text(f"no way to explore needs fewer than {people(plan.lower_bound)} people on average (theorem)\n")
        )
    if afforded is not None:
        parts.append(_table(f"what {afforded.budget:,} people afford", ("", ""), budget_rows(plan, afforded)))
    parts += [Text(f"• {words}") for words in plan.findings()]
    parts.append(Text())
    parts.append(_table("supposed", ("", ""), plan.supposed.describe(), style="dim"))
    return Group(*parts)


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, style: str = "") -> RenderableType:
    table = Table(
        box=None,
        title=title,
        title_justify="left",
        title_style="bold cyan",
        pad_edge=False,
        padding=(0, 2, 0, 0),
        show_header=any(head),
        header_style="",
    )
    for i, name in enumerate(head):
        table.add_column(name, justify="left" if i == 0 or not any(head) else "right", style=style)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return Group(table, Text())


def happened_rows(
    plan: StudyPlan, *, samples: int, algorithm: str, epsilon: float | None
) -> list[tuple[str, str, str]]:
    """Planned against happened: people, how unusual that is, and what was certified; epsilon: in units of rewards."""
    name = algorithm if algorithm in RIVALS else "coda"
    made = plan.quantiles(name)
    part = plan.chance(samples, name)
    usual = f"{people(made.median)} in the middle case, {people(made.p80)} in 4 of 5"
    rows = [("people", usual, f"{samples:,}")]
    rows.append(("as few or fewer", f"in {share(part)} of planned trials", ""))
    if epsilon is not None:
        rows.append(("certified ε", f"{plan.supposed.epsilon:g}", show_number(epsilon, digits=3)))
    return rows


def happened_table(rows: Sequence[tuple[str, str, str]]) -> RenderableType:
    """Planned against happened, as a table."""
    return _table("planned against happened", ("", "planned", "happened"), rows)
