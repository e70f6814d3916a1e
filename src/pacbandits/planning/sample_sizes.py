"""Estimate sample sizes in seconds, without simulation; and the ε that a budget affords."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, special
from pacbandits.certificate import worth_leading
from pacbandits.certificate.learning_record import fewest_to_teach
from pacbandits.complexity.gaps import Law, law_of, measure_gaps
from pacbandits.complexity.lower_bounds import coin_lower_bound, least_coin_divergence
from pacbandits.complexity.rho import measure_lower_rho
from pacbandits.design import DesignTask, Shifted, price_propensities, solve_design
from pacbandits.errors import InputError
from pacbandits.options import parse_spec
from pacbandits.planning.assumptions import EFFECT_FACTORS, RIVALS, SHOWN_SHARES, Assumptions
from pacbandits.planning.simulated_trials import Quantiles
from pacbandits.policies.trees.bins import DEFAULT_BINS
from pacbandits.problems import Problem
from pacbandits.problems.pilots import PilotEffects
from pacbandits.problems.scenarios import Scenario
from pacbandits.progress import Progress, listener
from pacbandits.records import Policy
from pacbandits.trials.coda import DEFAULT_FLOOR_SHARE, MIN_DESIGN_PRICE, Uniform, skewed_variances, variances

# Estimate the sample size of a trial in seconds, without simulation, from prices and thresholds.
#
# After n users the gap of a policy is known up to chance; chance makes the luckiest of many policies the leader and
# brings the unluckiest of its rivals close to it. So errors of that size are drawn once, the leader and the price
# `P(n) = max_π V_π/(ε + aΔ̂_π)²` of uniform exploration are computed for the gaps that would be estimated, and the
# trial ends at the n that solves
#
#     n = κ · (log(1/δ) + N) · P(n)/(1 − r/2)
#
# with N nats for learning and for moving between leaders, or the logarithm of the size of a class of which every policy
# is tested; r the true variance of rewards as a share of the one that a trial must assume (below 1, bets are smaller
# than they could be, and win more than they lose); κ the cost of not knowing which of many rivals is the unluckiest.
# κ, N and the gain of `coda` from a better design are fitted to simulated trials, and checked on others by
# `python -m benchmarks.planning` (docs/planning.md has the table).


MAX_QUICK_PEOPLE = 500  # contexts for which prices are computed
# Actions for which prices are computed, and the exponent of the number of actions beyond that: the uniform trial grew
# with exponent 1.02 from 30 to 200 actions (3 features), and 1.1 from 6 to 20 (10 features).
MAX_QUICK_ACTIONS, ACTIONS_EXPONENT = 12, 1.05
MAX_QUICK_SPLITS, MIN_QUICK_BINS = 128, 2  # of trees, over all features; and bins that each feature keeps
DRAWS = 2  # of each scenario
DESIGN_PRECISION = 0.3  # the relative gap to which the best design is solved
COUNTED_GAP_SHARE = 0.5  # a
MAX_STEPS, STEP_TOLERANCE = 7, 0.05  # of the fixed-point iteration for n, and the change of the log price that ends it


@dataclass(frozen=True)
class Calibration:
    """Constants fitted to simulated trials of one kind of class.

    log_factor: log κ for rewards without noise.
    per_noise: the slope of log κ in r.
    nats: N, in addition to log|Π| if all policies are tested.
    union: whether all policies are tested.
    design_factor, design_exponent: the sample size of `coda` over that of uniform exploration is the factor times the
        ratio of the prices to this power.
    scatter: the standard deviation of log stopping times, from trials and from the error of the estimate.
    """

    log_factor: float
    per_noise: float
    nats: float
    union: bool
    design_factor: float
    design_exponent: float
    scatter: float

    def people_a_price(self, *, log_size: float, noise: float, delta: float) -> float:
        """Return the factor of a price: κ(log(1/δ) + N)/(1 − r/2)."""
        nats = self.nats - math.log(delta) + (log_size if self.union else 0.0)
        return math.exp(self.log_factor + self.per_noise * noise) * nats / (1.0 - noise / 2.0)


# Fitted to 86 problems, two trials each: the residual standard deviation is 0.24, of which chance is 0.14.
LED = Calibration(0.13, 0.39, 6.0, False, 0.885, 0.21, 0.28)  # for classes whose leaders are tested, such as deep trees
LISTED = Calibration(-0.22, 0.24, 0.0, True, 1.07, 0.86, 0.28)  # for classes of which every policy is tested

# A uniform test whose finished log is certified with the defaults takes the first rows, from which the class is
# learned, and a multiple of the users of the uniform trial that stops itself. Where leaders are tested and actions
# hardly differ, `certify` settles on one by chance. Set by eye to the medians of 114 simulated draws, most of logs
# below 15,000 rows, and checked on other settings (python -m benchmarks.finished_logs); interpolated linearly between
# no gap and 0.4 ε, where there were none.
CERTIFY = "certify"
LOG_FACTOR, LUCKY_LOG_FACTOR = 1.0, 1.7
NO_LUCK_GAP = 0.5  # in units of ε: if the best policy beats a random action by it, leaders are not chosen by chance
LOG_SCATTER = 0.33  # standard deviation of the logarithm of the number of users
ANALYSES = (*RIVALS, CERTIFY)

# After a pilot that counts: the smallest share of a trial that is left to play, and the largest scatter. The total has
# the scatter of a trial without a pilot, so that the logarithm of what is left scatters more.
MIN_LEFT_SHARE, MAX_SCATTER = 0.02, 1.5


@dataclass(frozen=True)
class SampleSizeEstimate:
    """The estimate for one draw of a scenario.

    scenario: its index in the plan, from 0.
    medians: the median number of users of each analysis, by name: `coda` and `uniform` for trials that stop themselves,
        `certify` for a uniform test that is certified when it is over.
    scatter: the standard deviation of the logarithm of that number; for `certify` it is `LOG_SCATTER`.
    gain: the value of the best policy less that of the best single action, in units of rewards in [0, 1].
    gain_over_control: the same over the control.
    advantage: the price of uniform exploration over that of the best design.
    lower_bound: on the mean number of users of any algorithm, if it is a theorem; else None.
    """

    scenario: int
    medians: dict[str, float]
    scatter: float
    gain: float
    gain_over_control: float
    advantage: float
    lower_bound: float | None

    def scatter_of(self, analysis: str) -> float:
        """Return the standard deviation of the logarithm of the number of users of an analysis."""
        return LOG_SCATTER if analysis == CERTIFY else self.scatter

    def for_more_actions(self, factor: float) -> SampleSizeEstimate:
        """Return the same for a trial with more actions, which takes `factor` times the users."""
        return replace(self, medians={name: factor * n for name, n in self.medians.items()}, lower_bound=None)

    def after_pilot(self, samples: int) -> SampleSizeEstimate:
        """Return the same for the users to come, after a pilot whose rows count as those of a uniform trial do.

        The share of the proof that they supply is missing from either trial. A finished log does not count them.
        """
        left = max(1.0 - samples / self.medians["uniform"], MIN_LEFT_SHARE)
        medians = {name: n if name == CERTIFY else left * n for name, n in self.medians.items()}
        scatter = min(self.scatter / left, MAX_SCATTER)
        return replace(self, medians=medians, scatter=scatter, lower_bound=None)

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
    """Return estimates for draws of every scenario; designs: whether to solve designs for `coda`, the slowest part."""
    tell = listener(progress)
    few = _smaller(supposed)
    more = (supposed.n_actions / few.n_actions) ** ACTIONS_EXPONENT
    made: list[SampleSizeEstimate] = []
    for scenario, one in enumerate(few.scenarios):
        advantage = None
        for number in range(draws):
            tell(f"estimating '{one.name}', {number + 1} of {draws}")
            problem = few.problem(scenario, number)
            # The ratio of prices hardly differs between draws.
            found = _estimate(problem, few, scenario, number, advantage=advantage, designs=designs)
            advantage = found.advantage
            made.append(found if more == 1.0 else found.for_more_actions(more))
    counted = supposed.counted_pilot
    return tuple(made) if counted is None else tuple(one.after_pilot(counted.samples) for one in made)


def _smaller(supposed: Assumptions) -> Assumptions:
    """Return the same with fewer contexts, bins and actions, where prices would take minutes otherwise."""
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
    except InputError:  # a class that names actions, such as one with costs
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
    """Return the n that equals the factor times the price estimated after n users."""
    chance = rng.standard_normal(problem.mean_rewards.shape)
    price = 0.5 * problem.n_actions / epsilon**2 / 10
    for _ in range(MAX_STEPS):
        before = price
        price = _price_after(problem, epsilon, max(factor * price, float(least)), chance, price=price)
        if abs(math.log(price / before)) < STEP_TOLERANCE:
            break
    return max(factor * price, float(least))


def _price_after(problem: Problem, epsilon: float, people: float, chance: FloatArray, *, price: float) -> float:
    """Return the price of uniform exploration for the gaps that `people` users would show.

    chance (N, A): standard normal. price: an estimate of the price, for the stakes.
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
    """Return the design task of a trial with these gaps."""
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
    """Return the price of uniform exploration over that of the best design, for known gaps; price: of the former."""
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
    """Return the lower bound if it is a theorem: for Bernoulli rewards, if a single policy is within ε of the best."""
    if law_of(problem) is not Law.BERNOULLI:
        return None  # scenarios have no other noise with a known bound
    if not (problem.policies.lists_policies or problem.policies.holds_every_map):
        return None  # many trees hardly differ from the best one, and finding the nearest is slow
    gaps = measure_gaps(problem, problem.policies)
    if gaps.minimum is None or not epsilon < gaps.minimum < math.inf:
        return None
    noise = problem.noise_variance
    rho = measure_lower_rho(problem.policies, problem.population, gaps, epsilon=epsilon, noise=noise)
    found = least_coin_divergence(problem, problem.policies, gaps, epsilon=epsilon, designs=(rho.design,))
    return None if found is None else coin_lower_bound(found, delta=delta)


def people_of_log(plain: float, supposed: Assumptions, *, gap: float) -> float:
    """Return the users of a uniform test whose finished log `certify` reads; plain: those of the uniform trial.

    `certify` shuffles the rows, learns the class from the first, and settles on a policy before the last ones.
    gap: the value of the best policy less that of a random action, in units of ε.
    """
    taught = 0 if supposed.spec is None else fewest_to_teach(supposed.spec)
    luck = max(0.0, 1.0 - gap / NO_LUCK_GAP) if worth_leading(supposed.policies) else 0.0
    return taught + (LOG_FACTOR + luck * (LUCKY_LOG_FACTOR - LOG_FACTOR)) * plain


def chance_by(
    estimates: tuple[SampleSizeEstimate, ...], shares: tuple[float, ...], algorithm: str, people: float
) -> float:
    """Return the probability that a trial is done by this many users."""
    if people <= 0:
        return 0.0
    weights = _weights(estimates, shares)
    done: FloatArray = special.ndtr(
        [math.log(people / one.medians[algorithm]) / one.scatter_of(algorithm) for one in estimates]
    )
    return float(weights @ done)


def foretold(estimates: tuple[SampleSizeEstimate, ...], shares: tuple[float, ...], algorithm: str) -> Quantiles:
    """Return quantiles over all scenarios, weighted by their probabilities."""
    median, p80, p95 = (foretold_at(estimates, shares, algorithm, share) for share in SHOWN_SHARES)
    return Quantiles(median, p80, p95)


def foretold_at(
    estimates: tuple[SampleSizeEstimate, ...], shares: tuple[float, ...], algorithm: str, share: float
) -> float:
    """Return the number of users by which this share of trials is done, by bisection."""
    medians = [one.medians[algorithm] for one in estimates]
    below, above = math.log(min(medians)) - 10, math.log(max(medians)) + 10
    while above - below > 1e-6:
        middle = (below + above) / 2
        done = chance_by(estimates, shares, algorithm, math.exp(middle))
        below, above = (middle, above) if done < share else (below, middle)
    return math.exp(above)


def _weights(estimates: tuple[SampleSizeEstimate, ...], shares: tuple[float, ...]) -> FloatArray:
    """Return the weight of each estimate, so that scenarios count by their probabilities."""
    of = [one.scenario for one in estimates]
    many = np.bincount(of, minlength=len(shares))
    return np.array([shares[s] / many[s] for s in of]) / sum(shares[s] for s in set(of))


# Invert a plan: the ε that a budget affords, and the cost of another action or a deeper tree.


PEOPLE_EXPONENT = 1.7  # of users against 1/ε, for the first step of a search for ε
MAX_BUDGET_STEPS, LEFT_OVER = 5, 0.1  # of that search, and the share of the budget that may remain when it ends
DEPTHS = (0, 1, 2)  # in addition to the planned one
LARGEST_EPSILON = 0.9  # as a share of the range of rewards


@dataclass(frozen=True)
class Affordable:
    """The limits that a budget affords: a trial is done by then in 80 % of cases, by the quick estimate.

    budget: the number of users.
    epsilon: the smallest ε, with all actions and this class; None if not even the largest is proven by so few.
    actions: how many at the planned ε; None if the class cannot be made for fewer. Fewer than 2: none.
    depth: of trees, at the planned ε; None for other classes, or if not even a single action for all is proven.
    one_action_less: users saved in the median case by leaving out an action; None if that cannot be computed.
    by_depth: users in the median case for each depth of trees.
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
    """Return the limits that a budget affords; estimates: the plan's own."""
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
    """Return estimates for effects around the assumed one; none if scenarios do not all assume the same.

    estimates: the plan's own. Designs are not solved anew: `coda` keeps its ratio to the uniform trial.
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
    """Return the ε that this many users prove in 80 % of cases with little of the budget left; None if there is none.

    ratio: users of `coda` over those of the uniform trial; None for `coda` without the gain of a design.
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
    """Round up to two digits: a smaller ε would take more users than there are."""
    digits = 1 - math.floor(math.log10(epsilon))
    return float(f"{math.ceil(epsilon * 10.0**digits - 1e-9) / 10.0**digits:.2g}")


def _affordable_actions(supposed: Assumptions, budget: int, p80: float, ratio: float) -> int:
    """Return the largest number of actions, up to the planned one, whose trial the budget affords."""
    if _in_time(supposed, p80) <= budget:
        return supposed.n_actions
    fits, fails = 1, supposed.n_actions
    guess = int(supposed.n_actions * budget / p80)  # the number of users is about proportional to that of actions
    while fails - fits > 1:
        guess = max(fits + 1, min(guess, fails - 1))
        if _in_time(supposed, _people(supposed.with_actions(guess), ratio)[1]) <= budget:
            fits = guess
        else:
            fails = guess
        guess = (fits + fails) // 2
    return fits


def _depths(supposed: Assumptions) -> tuple[int, ...]:
    """Return the depths of trees to estimate: the usual ones and the planned one."""
    options = {} if supposed.spec is None else parse_spec(supposed.spec)[1]
    own = str(options.get("depth", ""))
    return tuple(sorted({*DEPTHS, int(own)} if own.isdigit() else DEPTHS))


def _in_time(supposed: Assumptions, people: float) -> float:
    """Return how many users come until the rewards of `people` are known."""
    return people if supposed.traffic is None else supposed.traffic.taken(people)


def _ratio(estimates: tuple[SampleSizeEstimate, ...], supposed: Assumptions) -> float:
    """Return the sample size of `coda` over that of the uniform trial."""
    coda, plain = (foretold(estimates, supposed.shares, one).median for one in ("coda", "uniform"))
    return coda / plain


def _people(supposed: Assumptions, ratio: float | None) -> tuple[float, float]:
    """Return the median and the 80 % quantile of the users that `coda` takes, without solving its designs."""
    estimates = estimate(supposed, draws=DRAWS, designs=False)
    if ratio is None:
        made = foretold(estimates, supposed.shares, "coda")
        return made.median, made.p80
    made = foretold(estimates, supposed.shares, "uniform")
    return ratio * made.median, ratio * made.p80
