"""Invert a plan: the ε that a budget affords, and the cost of another action or a deeper tree."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pacbandits.options import parse_spec
from pacbandits.planning.assumptions import Assumptions
from pacbandits.planning.quick import SampleSizeEstimate, estimate, foretold
from pacbandits.problems.scenarios import Scenario
from pacbandits.progress import Progress, listener

ENOUGH = 0.8  # of cases in which a budget must do
PEOPLE_EXPONENT = 1.7  # of people against 1/ε, from which a search for ε begins
MAX_STEPS, LEFT_OVER = 5, 0.1  # of that search, and the share of the budget that may be left when it ends
DRAWS = 2  # of each scenario; enough to compare
DEPTHS = (0, 1, 2)  # beside the one that is planned
EFFECT_FACTORS = (0.5, 1.0, 1.5)  # of the effect that is supposed: +10, +20 and +30 % where it is the default
LARGEST_EPSILON = 0.9  # of how far rewards can be apart


@dataclass(frozen=True)
class Affordable:
    """What a budget affords: done by then in 80 % of cases, by the quick answer.

    budget: people.
    epsilon: the smallest distance to the best, with all actions and this class; None where not even the largest is
        proven by so few.
    actions: how many at the ε that is wanted; None where the class cannot be made for fewer. Fewer than 2: none.
    depth: of trees, at the ε that is wanted; None for other classes, or where not even one action for all is proven.
    one_action_less: people saved in the median case by leaving out an action; None where that cannot be said.
    by_depth: people in the median case for each depth of trees.
    """

    budget: int
    epsilon: float | None
    actions: int | None
    depth: int | None
    one_action_less: float | None
    by_depth: dict[int, float]

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        return dict(vars(self)) | {"by_depth": {str(depth): people for depth, people in self.by_depth.items()}}


def affordable(
    supposed: Assumptions, estimates: tuple[SampleSizeEstimate, ...], budget: int, *, progress: Progress | None = None
) -> Affordable:
    """What a budget affords; estimates: the plan's own."""
    tell = listener(progress)
    ratio = _ratio(estimates, supposed)
    in_time = partial(_in_time, supposed)
    tell("which ε the budget affords")
    epsilon = affordable_epsilon(supposed, budget, ratio=ratio, progress=tell)
    needed = foretold(estimates, supposed.shares, "coda")
    actions, saved = None, None
    if supposed.spec is not None and all(isinstance(one, Scenario) for one in supposed.scenarios):
        tell("what one action less saves")
        if supposed.n_actions > 2:
            fewer = supposed.with_actions(supposed.n_actions - 1)
            same = replace(supposed, scenarios=fewer.scenarios)
            saved = in_time(needed.median) - in_time(needed.median * _people(fewer, ratio)[0] / _people(same, ratio)[0])
        tell("how many actions the budget affords")
        actions = _affordable_actions(supposed, budget, needed.p80, ratio)
    tell("how deep trees the budget affords")
    by_depth = {d: _people(one, ratio) for d in _depths(supposed) if (one := supposed.with_trees(depth=d)) is not None}
    deep = [depth for depth, (_, p80) in by_depth.items() if in_time(p80) <= budget]
    return Affordable(
        budget,
        epsilon,
        actions,
        max(deep) if deep else None,
        saved,
        {depth: in_time(median) for depth, (median, _) in by_depth.items()},
    )


def by_effect(
    supposed: Assumptions, estimates: tuple[SampleSizeEstimate, ...], *, progress: Progress | None = None
) -> dict[float, tuple[SampleSizeEstimate, ...]]:
    """Estimates for effects about the one that is supposed; none where scenarios do not all suppose the same.

    estimates: the plan's own. Designs are not solved anew: `coda` takes the same part of the plain trial's people.
    """
    if len(supposed.effects) != 1:
        return {}
    effect, tell, made = supposed.effects[0], listener(progress), dict[float, tuple[SampleSizeEstimate, ...]]()
    parts = {one.scenario: one.medians["coda"] / one.medians["uniform"] for one in estimates}
    for factor in EFFECT_FACTORS:
        if factor == 1.0:
            made[effect] = estimates
        elif factor * effect <= supposed.outcome.largest_effect:
            tell(f"an effect of {factor * effect:.3g}")
            scenarios = tuple(
                replace(one, effect=factor * effect) if isinstance(one, Scenario) and one.kind != "none" else one
                for one in supposed.scenarios
            )
            others = estimate(replace(supposed, scenarios=scenarios), draws=DRAWS, designs=False)
            made[factor * effect] = tuple(
                replace(one, medians=one.medians | {"coda": one.medians["uniform"] * parts[one.scenario]})
                for one in others
            )
    return made


def affordable_epsilon(
    supposed: Assumptions, budget: int, *, ratio: float | None = None, progress: Progress | None = None
) -> float | None:
    """The ε that is proven by so many people in 80 % of cases, and not by a few more; None where none is.

    ratio: people of `coda` to those of the plain trial; None for what it takes where no design is better than that.
    """
    epsilon, largest = supposed.epsilon, LARGEST_EPSILON * supposed.outcome.unit
    known = budget if supposed.traffic is None else max(supposed.traffic.counted(budget), 1)
    tell = listener(progress)
    for step in range(MAX_STEPS):
        tell(f"which ε the budget affords, step {step + 1}")
        _, p80 = _people(supposed.with_epsilon(epsilon), ratio)
        if p80 > known and epsilon >= largest:
            return None
        if (1.0 - LEFT_OVER) * known <= p80 <= known:
            break
        aim = (1.0 - LEFT_OVER / 2.0) * known
        epsilon = min(epsilon * (p80 / aim) ** (1.0 / PEOPLE_EXPONENT), largest)
    return _rounded_up(epsilon)


def _rounded_up(epsilon: float) -> float:
    """To two digits, and never down: a smaller ε takes more people than there are."""
    digits = 1 - math.floor(math.log10(epsilon))
    return float(f"{math.ceil(epsilon * 10.0**digits - 1e-9) / 10.0**digits:.2g}")


def _affordable_actions(supposed: Assumptions, budget: int, p80: float, ratio: float) -> int:
    """The most actions, up to those there are, whose trial a budget pays for."""
    if _in_time(supposed, p80) <= budget:
        return supposed.n_actions
    fits, fails = 1, supposed.n_actions
    guess = int(supposed.n_actions * budget / p80)  # people are about in proportion to actions
    while fails - fits > 1:
        guess = max(fits + 1, min(guess, fails - 1))
        if _in_time(supposed, _people(supposed.with_actions(guess), ratio)[1]) <= budget:
            fits = guess
        else:
            fails = guess
        guess = (fits + fails) // 2
    return fits


def _depths(supposed: Assumptions) -> tuple[int, ...]:
    """The depths of trees to look at: the usual, and the planned one."""
    options = {} if supposed.spec is None else parse_spec(supposed.spec)[1]
    own = str(options.get("depth", ""))
    return tuple(sorted({*DEPTHS, int(own)} if own.isdigit() else DEPTHS))


def _in_time(supposed: Assumptions, people: float) -> float:
    """How many people come until the rewards of so many are known."""
    return people if supposed.traffic is None else supposed.traffic.taken(people)


def _ratio(estimates: tuple[SampleSizeEstimate, ...], supposed: Assumptions) -> float:
    """How many people `coda` takes, of those of the plain trial."""
    coda, plain = (foretold(estimates, supposed.shares, one).median for one in ("coda", "uniform"))
    return coda / plain


def _people(supposed: Assumptions, ratio: float | None) -> tuple[float, float]:
    """The median and the 80 % quantile of the people that `coda` takes, without its designs."""
    estimates = estimate(supposed, draws=DRAWS, designs=False)
    if ratio is None:
        made = foretold(estimates, supposed.shares, "coda")
        return made.median, made.p80
    made = foretold(estimates, supposed.shares, "uniform")
    return ratio * made.median, ratio * made.p80
