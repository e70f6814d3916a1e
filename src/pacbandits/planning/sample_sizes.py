"""Estimate sample sizes in seconds, without simulation; and the ε that a budget affords."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr

from pacbandits.arrays import FloatArray
from pacbandits.certificate import worth_leading
from pacbandits.certificate.learning_record import fewest_to_teach
from pacbandits.complexity.gaps import Law, law_of, measure_gaps
from pacbandits.complexity.lower_bounds import coin_lower_bound, least_coin_divergence
from pacbandits.complexity.rho import measure_lower_rho
from pacbandits.design import DesignTask, Shifted, price_propensities, solve_design
from pacbandits.errors import InputError
from pacbandits.options import parse_spec
from pacbandits.planning.assumptions import Assumptions
from pacbandits.planning.simulated_trials import RIVALS, SHOWN_SHARES, Quantiles
from pacbandits.policies.trees.bins import DEFAULT_BINS
from pacbandits.problems import Problem
from pacbandits.problems.pilots import PilotEffects
from pacbandits.problems.scenarios import Scenario
from pacbandits.progress import Progress, listener
from pacbandits.records import Policy
from pacbandits.trials.coda import DEFAULT_FLOOR_SHARE, MIN_DESIGN_PRICE, Uniform, skewed_variances, variances

# Estimate the sample size of a trial in seconds, without simulation, from prices and thresholds.
#
# After n people the gap of a policy is known up to chance, and chance makes the luckiest of many policies the leader
# and brings the unluckiest of its rivals near to it. So chance of that size is drawn once, the leader and the price
# `P(n) = max_π V_π/(ε + aΔ̂_π)²` of uniform exploration are found for the gaps that would be seen, and the trial is
# done at the n that solves
#
#     n = κ · (log(1/δ) + N) · P(n)/(1 − r/2)
#
# N nats for learning and for moving between leaders, or the logarithm of a class of which every policy is tested; r, of
# rewards that vary less than a trial must suppose, their true variance as a share of that (bets are smaller than they
# could be, and win more than they lose); κ for what a certificate costs that does not know which of many rivals is the
# unluckiest. κ, N and what `coda` makes of a better design are fitted to simulated trials; on others they are checked
# by `python -m benchmarks.planning` (docs/planning.md has the table).


MAX_QUICK_PEOPLE = 500  # whom prices are computed for
# Actions that prices are computed for, and the power of their number by which more of them take more people: the plain
# trial grew by the power 1.02 from 30 to 200 actions (3 features), and by 1.1 from 6 to 20 (10 features).
MAX_QUICK_ACTIONS, ACTIONS_EXPONENT = 12, 1.05
MAX_QUICK_SPLITS, MIN_QUICK_BINS = 128, 2  # of trees, over all features; and bins that each feature keeps
DRAWS = 2  # of each scenario
DESIGN_PRECISION = 0.3  # the relative gap to which the best design is solved
COUNTED_GAP_SHARE = 0.5  # a
MAX_STEPS, STEP_TOLERANCE = 7, 0.05  # of solving for n, and the relative change that ends it


@dataclass(frozen=True)
class Calibration:
    """What was fitted to simulated trials of one kind of class.

    log_factor: log κ where rewards have no noise.
    per_noise: by which log κ rises with r.
    nats: N, beside log|Π| where all policies are tested.
    union: whether they are.
    design_factor, design_exponent: people that `coda` takes, of those of uniform exploration, are the factor times the
        ratio of the prices to this power.
    scatter: the standard deviation of the logarithm of stopping times, of trials and of what is foretold of them.
    """

    log_factor: float
    per_noise: float
    nats: float
    union: bool
    design_factor: float
    design_exponent: float
    scatter: float

    def people_a_price(self, *, log_size: float, noise: float, delta: float) -> float:
        """What a price is multiplied by: κ(log(1/δ) + N)/(1 − r/2)."""
        nats = self.nats - math.log(delta) + (log_size if self.union else 0.0)
        return math.exp(self.log_factor + self.per_noise * noise) * nats / (1.0 - noise / 2.0)


# Fitted to 86 problems, two trials each: the residuals are 0.24, of which chance is 0.14.
LED = Calibration(0.13, 0.39, 6.0, False, 0.885, 0.21, 0.28)  # of classes whose leaders are tested, as deep trees are
LISTED = Calibration(-0.22, 0.24, 0.0, True, 1.07, 0.86, 0.28)  # of classes of which every policy is

# A plain test whose finished log is certified by default takes the first rows, which teach the class, and a multiple of
# the people of the plain trial that stops itself. Where leaders are tested and actions hardly differ, `certify` settles
# on one of luck. Set by eye to the medians of 114 simulated draws, most of logs below 15,000 rows, and checked on other
# settings (python -m benchmarks.finished_logs); between no gap and 0.4 ε there were none, and a line is drawn.
CERTIFY = "certify"
LOG_FACTOR, LUCKY_LOG_FACTOR = 1.0, 1.7
NO_LUCK_GAP = 0.5  # of ε, by which the best policy must beat a random action, and leaders owe nothing to luck
LOG_SCATTER = 0.33  # the standard deviation of the logarithm of people
ANALYSES = (*RIVALS, CERTIFY)


@dataclass(frozen=True)
class SampleSizeEstimate:
    """What is foretold of one draw of a scenario.

    scenario: which of the plan's, from 0.
    medians: of the people that each analysis takes, by its name: `coda` and `uniform` of trials that stop themselves,
        `certify` of a plain test that is certified when it is over.
    scatter: the standard deviation of the logarithm of that; of `certify` it is `LOG_SCATTER`.
    gain: what the best policy earns more than the best single action, in units of rewards in [0, 1].
    gain_over_control: and more than the control.
    advantage: how many times cheaper the best design is than uniform exploration, by its price.
    lower_bound: on the mean number of people of any algorithm, where that is a theorem; else None.
    """

    scenario: int
    medians: dict[str, float]
    scatter: float
    gain: float
    gain_over_control: float
    advantage: float
    lower_bound: float | None

    def scatter_of(self, analysis: str) -> float:
        """The standard deviation of the logarithm of the people that an analysis takes."""
        return LOG_SCATTER if analysis == CERTIFY else self.scatter

    def for_more_actions(self, factor: float) -> SampleSizeEstimate:
        """The same of a trial with more actions, which takes so many times the people."""
        return replace(self, medians={name: factor * n for name, n in self.medians.items()}, lower_bound=None)

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        return {
            "scenario": self.scenario,
            "medians": self.medians,
            "scatter": self.scatter,
            "gain": self.gain,
            "gain_over_control": self.gain_over_control,
            "advantage": self.advantage,
            "lower_bound": self.lower_bound,
        }


def estimate(
    supposed: Assumptions, *, draws: int = DRAWS, designs: bool = True, progress: Progress | None = None
) -> tuple[SampleSizeEstimate, ...]:
    """Estimates for draws of every scenario; designs: whether `coda`, whose designs take longest, is wanted too."""
    tell = listener(progress)
    few = _smaller(supposed)
    more = (supposed.n_actions / few.n_actions) ** ACTIONS_EXPONENT
    made: list[SampleSizeEstimate] = []
    for scenario, one in enumerate(few.scenarios):
        advantage = None
        for number in range(draws):
            tell(f"estimating '{one.name}', {number + 1} of {draws}")
            problem = few.problem(scenario, number)
            # The ratio of prices hardly differs from draw to draw.
            found = _estimate(problem, few, scenario, number, advantage=advantage, designs=designs)
            advantage = found.advantage
            made.append(found if more == 1.0 else found.for_more_actions(more))
    return tuple(made)


def _smaller(supposed: Assumptions) -> Assumptions:
    """The same with fewer people, bins and actions, where there are so many that prices would take minutes."""
    few = supposed.with_fewer_people(MAX_QUICK_PEOPLE)
    if few.spec is None or any(isinstance(one, PilotEffects) for one in few.scenarios):
        return few
    many = few.people.n_features
    if many * (DEFAULT_BINS - 1) > MAX_QUICK_SPLITS:
        few = few.with_trees(bins=max(MIN_QUICK_BINS, MAX_QUICK_SPLITS // many)) or few
    matter = max((one.matter for one in few.scenarios if isinstance(one, Scenario) and one.kind == "few"), default=0)
    most = max(MAX_QUICK_ACTIONS, 2 * matter)
    try:
        return few if few.n_actions <= most else few.with_actions(most)
    except InputError:  # a class that names actions, as costs do
        return few


def _estimate(
    problem: Problem, supposed: Assumptions, scenario: int, number: int, *, advantage: float | None, designs: bool
) -> SampleSizeEstimate:
    epsilon, policies = supposed.unit_epsilon, supposed.policies
    best = problem.best_policy()
    best_value = problem.value(best)
    constants = problem.population.weights @ problem.mean_rewards
    gap = best_value - float(constants.mean())
    fitted = LED if worth_leading(policies) else LISTED
    assumed = variances(problem.mean_rewards)
    noise = min(float((problem.noise_variance / assumed).mean()), 1.0)
    factor = fitted.people_a_price(log_size=policies.log_size, noise=noise, delta=supposed.delta)
    least = Uniform(epsilon, supposed.delta).first_round_size(policies.n_actions)
    rng = np.random.default_rng([supposed.seed, scenario, number, 1 + len(RIVALS)])
    even = _solve_for_people(problem, epsilon, factor=factor, least=least, rng=rng)
    if advantage is None:
        advantage = _advantage(problem, best, epsilon, even / factor) if designs else 1.0
    share = fitted.design_factor * advantage**-fitted.design_exponent
    coda = max(even * min(share, fitted.design_factor), float(least))
    return SampleSizeEstimate(
        scenario,
        {"coda": coda, "uniform": even, CERTIFY: people_of_log(even, supposed, gap=gap / epsilon)},
        fitted.scatter,
        gain=max(best_value - float(constants.max()), 0.0),
        gain_over_control=best_value - float(constants[supposed.control]),
        advantage=advantage,
        lower_bound=_lower_bound(problem, epsilon, supposed.delta),
    )


def _solve_for_people(
    problem: Problem, epsilon: float, *, factor: float, least: int, rng: np.random.Generator
) -> float:
    """The n that is the factor times the price of what would be seen after n people."""
    chance = rng.standard_normal(problem.mean_rewards.shape)
    price = 0.5 * problem.n_actions / epsilon**2 / 10
    for _ in range(MAX_STEPS):
        before = price
        price = _price_after(problem, epsilon, max(factor * price, float(least)), chance, price=price)
        if abs(math.log(price / before)) < STEP_TOLERANCE:
            break
    return max(factor * price, float(least))


def _price_after(problem: Problem, epsilon: float, people: float, chance: FloatArray, *, price: float) -> float:
    """The price of uniform exploration for the gaps that n people would show.

    chance (N, A): standard normal. price: what stakes go by, about the same.
    """
    contexts, n_actions = problem.population, problem.n_actions
    weights = contexts.weights[:, None]
    errors = chance * np.sqrt(weights * problem.noise_variance * n_actions / people)
    scores = weights * problem.mean_rewards + errors
    leader = problem.policies.argmax(contexts, scores)
    own = scores[np.arange(len(contexts)), leader(contexts)]
    stakes = np.full(problem.mean_rewards.shape, n_actions / (price * epsilon))
    task = _task(problem, leader, own[:, None] - scores, epsilon)
    task = replace(task, noise=skewed_variances(problem.mean_rewards, stakes))
    even = np.full(problem.mean_rewards.shape, 1.0 / n_actions)
    return max(price_propensities(task, even).upper, MIN_DESIGN_PRICE)


def _task(problem: Problem, reference: Policy, gaps: FloatArray, epsilon: float) -> DesignTask:
    """What a trial would design for, if these were the gaps."""
    contexts, means = problem.population, problem.mean_rewards
    own = means[np.arange(len(contexts)), reference(contexts)]
    return DesignTask(
        problem.policies,
        contexts,
        reference=reference,
        gaps=gaps,
        scale=Shifted(epsilon, COUNTED_GAP_SHARE),
        noise=variances(means),
        floor=DEFAULT_FLOOR_SHARE / problem.n_actions,
        spread=contexts.weights[:, None] * (means - own[:, None]) ** 2 if contexts.n_features else None,
    )


def _advantage(problem: Problem, best: Policy, epsilon: float, price: float) -> float:
    """How many times cheaper the best design is than uniform exploration, if gaps are known; price: of the latter."""
    contexts, means = problem.population, problem.mean_rewards
    worth = contexts.weights[:, None] * means
    task = _task(problem, best, worth[np.arange(len(contexts)), best(contexts)][:, None] - worth, epsilon)
    design = solve_design(task, tolerance=DESIGN_PRECISION).design
    even = np.full(means.shape, 1.0 / problem.n_actions)
    prices: list[float] = []
    for propensities in (even, design.propensities(contexts, noise=variances(means))):
        noise = skewed_variances(means, 1.0 / (price * epsilon * propensities))
        prices.append(max(price_propensities(replace(task, noise=noise), propensities).upper, MIN_DESIGN_PRICE))
    return prices[0] / min(prices)


def _lower_bound(problem: Problem, epsilon: float, delta: float) -> float | None:
    """The lower bound where it is a theorem: of coin flips, where one policy alone is within ε of the best."""
    if law_of(problem) is not Law.BERNOULLI:
        return None  # scenarios have no other noise that a bound is known for
    if not (problem.policies.lists_policies or problem.policies.holds_every_map):
        return None  # of many trees some hardly differ from the best one, and to look for the nearest takes long
    gaps = measure_gaps(problem, problem.policies)
    if gaps.minimum is None or not epsilon < gaps.minimum < math.inf:
        return None
    noise = problem.noise_variance
    rho = measure_lower_rho(problem.policies, problem.population, gaps, epsilon=epsilon, noise=noise)
    found = least_coin_divergence(problem, problem.policies, gaps, epsilon=epsilon, designs=(rho.design,))
    return None if found is None else coin_lower_bound(found, delta=delta)


def people_of_log(plain: float, supposed: Assumptions, *, gap: float) -> float:
    """People of a plain test whose finished log `certify` reads by default, for those of the plain trial.

    `certify` shuffles the rows, learns the class from the first, and settles on a policy before the last ones.
    gap: by how much the best policy is better than a random action, in units of ε.
    """
    taught = 0 if supposed.spec is None else fewest_to_teach(supposed.spec)
    luck = max(0.0, 1.0 - gap / NO_LUCK_GAP) if worth_leading(supposed.policies) else 0.0
    return taught + (LOG_FACTOR + luck * (LUCKY_LOG_FACTOR - LOG_FACTOR)) * plain


def chance_by(
    estimates: tuple[SampleSizeEstimate, ...], shares: tuple[float, ...], algorithm: str, people: float
) -> float:
    """The probability that a trial is done by so many people."""
    if people <= 0:
        return 0.0
    weights = _weights(estimates, shares)
    done: FloatArray = ndtr(
        [math.log(people / one.medians[algorithm]) / one.scatter_of(algorithm) for one in estimates]
    )
    return float(weights @ done)


def foretold(estimates: tuple[SampleSizeEstimate, ...], shares: tuple[float, ...], algorithm: str) -> Quantiles:
    """Quantiles over all scenarios, each as likely as it is."""
    median, p80, p95 = (foretold_at(estimates, shares, algorithm, share) for share in SHOWN_SHARES)
    return Quantiles(median, p80, p95)


def foretold_at(
    estimates: tuple[SampleSizeEstimate, ...], shares: tuple[float, ...], algorithm: str, share: float
) -> float:
    """The people by whom this share of trials is done, found by halving."""
    medians = [one.medians[algorithm] for one in estimates]
    below, above = math.log(min(medians)) - 10, math.log(max(medians)) + 10
    while above - below > 1e-6:
        middle = (below + above) / 2
        done = chance_by(estimates, shares, algorithm, math.exp(middle))
        below, above = (middle, above) if done < share else (below, middle)
    return math.exp(above)


def _weights(estimates: tuple[SampleSizeEstimate, ...], shares: tuple[float, ...]) -> FloatArray:
    """What each estimate counts, so that scenarios count by how likely they are."""
    of = [one.scenario for one in estimates]
    many = np.bincount(of, minlength=len(shares))
    return np.array([shares[s] / many[s] for s in of]) / sum(shares[s] for s in set(of))


# Invert a plan: the ε that a budget affords, and the cost of another action or a deeper tree.


ENOUGH = 0.8  # of cases in which a budget must do
PEOPLE_EXPONENT = 1.7  # of people against 1/ε, from which a search for ε begins
MAX_BUDGET_STEPS, LEFT_OVER = 5, 0.1  # of that search, and the share of the budget that may be left when it ends
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
    for step in range(MAX_BUDGET_STEPS):
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
