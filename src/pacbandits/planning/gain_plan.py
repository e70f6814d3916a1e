"""A plan to prove a gain over the control: the rows until `certify --control` does so, and what an A/B test takes.

The quick answer is a formula. A bet on n rows whose score has variance v bounds the gain g from below at a distance of

    d(n) = min over experts j of  λ_j v/2 + (log(1/α) + log(1/w_j))/(n λ_j),

with the experts' stakes λ_j and shares w_j of the first wealth (`pacbandits.certificate.stakes`), and the estimate has
the standard error √(v/n). So a gain is proven with probability Φ((g − √κ d)/√(κv/n)): n are the rows that bet, and κ is
the cost of leaders that were not the best policy from the start, fitted to simulated tests.

Then logs of the assumed effects are drawn, and the proof of `certify` itself is applied to each. A log with n rows that
bet and a lower bound of l would have needed n((g − l)/g)² of them, as both the luck of an estimate and the distance of
its bound shrink like 1/√n: that is at most n if and only if the log proves a gain. Sizes follow the quantile that is
asked for, so that it rests on logs of about that size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pacbandits.arrays import special
from pacbandits.certificate.certify import Request, foresee_gain
from pacbandits.certificate.conventions import TUNED_MULTIPLIERS, TUNED_SHARES, planned_ends, tuning_rounds
from pacbandits.certificate.learning_record import fewest_to_teach
from pacbandits.checks import number
from pacbandits.confidence import candidate_part, certificate_threshold
from pacbandits.engines.dask import DaskEngine
from pacbandits.errors import InputError
from pacbandits.planning.assumptions import EFFECT_FACTORS, Assumptions
from pacbandits.planning.simulated_trials import (
    Limits,
    Quantiles,
    hand_out,
    quantile,
    quantiles,
)
from pacbandits.problems import Problem
from pacbandits.problems.scenarios import Scenario
from pacbandits.progress import Progress, listener
from pacbandits.records import Log

CANDIDATES = 2  # a rule, and one action for everybody
LEADERS_FACTOR = 1.2  # κ, fitted to the simulated tests of the table in docs/gains.md
DRAWS, PILOT_DRAWS = 2, 24  # of a scenario, and of what a pilot makes likely, for the quick answer
FIRST_TESTS, MIN_TESTS = 16, 8  # logs of each scenario in the first batch; and those that replace the quick answer
NEAR_SIZE = 1.5  # factor of the planned size within which the logs of earlier batches count
MIN_REACH, MAX_REACH = 0.05, 4.0  # factors of its size by which a log's luck is extrapolated
MAX_SIMULATED_ROWS = 2**18  # of a log: from there on `certify` computes by sums
MAX_ROWS = 1e12


class GainEstimate(NamedTuple):
    """What decides how soon the gain of one draw of a scenario is proven, for rewards in [0, 1].

    scenario: its index in the plan. gain: of the best policy over the control. variance: of the score of that
    difference. tuned: the variance for which stakes are tuned. arms: of each action but the control, its gain over the
    control and the variance of the difference of two means, for one row of the test.
    """

    scenario: int
    gain: float
    variance: float
    tuned: float
    arms: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, problem: Problem, scenario: int, control: int) -> GainEstimate:
        """Return the estimate for a problem with an even split."""
        weights, means, n_actions = problem.population.weights, problem.mean_rewards, problem.n_actions
        rows, best, noise = np.arange(len(weights)), problem.best_policy()(problem.population), problem.noise_variance
        lead = means[rows, best] - means[rows, control]
        gain = float(weights @ lead)
        both = np.where(best != control, noise[rows, best] + noise[rows, control], 0.0)
        variance = n_actions * float(weights @ both) + float(weights @ (lead - gain) ** 2)
        values = weights @ means
        spread = weights @ noise + weights @ (means - values) ** 2
        arms = tuple(
            (float(values[a] - values[control]), n_actions * float(spread[a] + spread[control]))
            for a in range(n_actions)
            if a != control
        )
        return cls(scenario, gain, variance, 2.0 * n_actions * float((weights @ noise).mean()), arms)

    def power(self, rows: float, asked: Assumptions) -> float:
        """Return the probability that `certify` proves a gain with so many rows."""
        bet, tuning = betting_rows(rows, asked)
        if self.gain <= 0 or bet <= 0:
            return 0.0
        needed = certificate_threshold(delta=candidate_part(CANDIDATES) * asked.delta)
        tuned = self.tuned + 2.0 * asked.n_actions**2 / tuning  # one reward of 1 more counts there
        stake = math.sqrt(2.0 * needed / (bet * tuned))
        distance = min(
            times * stake * self.variance / 2.0 + (needed - math.log(share)) / (bet * times * stake)
            for times, share in zip(TUNED_MULTIPLIERS, TUNED_SHARES, strict=True)
        )
        error = math.sqrt(LEADERS_FACTOR * self.variance / bet)
        return float(special.ndtr((self.gain - math.sqrt(LEADERS_FACTOR) * distance) / error)) if error > 0 else 1.0

    def ordinary_power(self, rows: float, asked: Assumptions) -> float:
        """Return the power of an ordinary one-sided test of each arm against the control, by Bonferroni."""
        limit = float(special.ndtri(1.0 - asked.delta / len(self.arms)))
        powers = (special.ndtr(gain / math.sqrt(one / rows) - limit) if gain > 0 else 0.0 for gain, one in self.arms)
        return max(map(float, powers))


def betting_rows(rows: float, asked: Assumptions) -> tuple[float, float]:
    """Return how many rows of a log bet on gains, and how many only teach the class and tune the stakes."""
    whole = int(min(rows, MAX_ROWS))
    sizes = np.diff(planned_ends(whole), prepend=0).astype(np.float64)
    sizes[-1] += whole - sizes.sum()
    taught = 0 if asked.spec is None else fewest_to_teach(asked.spec)
    spared = int(np.searchsorted(np.cumsum(sizes), taught - 0.5)) + 1 if taught else 0
    if len(sizes) < 2 or spared >= len(sizes):
        return 0.0, float(rows)
    tuning = float(sizes[: tuning_rounds(sizes, spared=spared)].sum())
    return float(rows) - tuning, tuning


@dataclass(frozen=True)
class SimulatedTest:
    """One simulated test, for rewards in [0, 1].

    scenario, number: its index in the plan, and the draw of it.
    rows: of its log.
    gain: of the best policy over the control, in truth.
    low: the largest lower bound on a candidate's gain that is proven.
    needed: the rows with which the same luck would just have proven a gain.
    """

    scenario: int
    number: int
    rows: int
    gain: float
    low: float
    needed: float

    @property
    def proven(self) -> bool:
        """Whether a gain is proven."""
        return self.low > 0


def rows_needed(rows: int, *, low: float, gain: float, asked: Assumptions) -> float:
    """Return the rows with which the luck of a log would just have proven a gain; infinite if there is none.

    It is the number of rows that bet which grows like the square of the distance.
    """
    if gain <= 0:
        return math.inf
    reach = min(max(((gain - min(low, gain)) / gain) ** 2, MIN_REACH), MAX_REACH)
    bet = reach * betting_rows(rows, asked)[0]
    least, most = float(rows) * min(reach, 1.0), float(rows) * max(reach, 1.0)
    while most - least > 0.5:
        middle = (least + most) / 2.0
        least, most = (least, middle) if betting_rows(middle, asked)[0] >= bet else (middle, most)
    return most


@dataclass(frozen=True, eq=False)
class GainPlan:
    """The predicted size of a test that proves a gain over the control, before it starts.

    supposed: its assumptions; `power` is the probability of success that is planned for.
    estimates: what the quick answer is computed from.
    tests: the simulated ones; empty without simulation.
    source: where the contexts come from, in words.
    budget: affordable number of rows; None if not given.
    deadline: available periods of the traffic; None if not given.
    left_out: scenarios without effects, in which there is no gain to prove.
    """

    supposed: Assumptions
    estimates: tuple[GainEstimate, ...]
    tests: tuple[SimulatedTest, ...] = ()
    source: str = ""
    budget: int | None = None
    deadline: float | None = None
    left_out: tuple[str, ...] = ()

    @property
    def power(self) -> float:
        """The probability with which a gain is to be proven."""
        assert self.supposed.power is not None
        return self.supposed.power

    @property
    def control(self) -> str:
        """The name of the control."""
        for one in self.supposed.scenarios:
            names = getattr(getattr(one, "log", None), "action_names", None)
            if names is not None:
                return names[self.supposed.control]
        return f"action {self.supposed.control}"

    @property
    def simulated(self) -> bool:
        """Whether simulated tests of every scenario replace the quick answer."""
        return all(self._near(i) for i in range(len(self.supposed.scenarios)))

    @property
    def rows(self) -> float:
        """The number of rows with which a gain is proven with the probability that was asked for."""
        return self.rows_for(self.power)

    @property
    def samples(self) -> Quantiles:
        """The number of rows with which a gain is proven in 50, 80 and 95 % of tests."""
        return self.quantiles()

    def rows_for(self, share: float, scenario: int | None = None) -> float:
        """Return the number of rows with which this share of tests proves a gain; infinite if none does."""
        share = number(share, name="share", above=0, below=1)
        if not self.simulated:
            return self.foretold(share, scenario)
        return quantile(*self._needed(scenario), share)

    def foretold(self, share: float, scenario: int | None = None) -> float:
        """Return the same by the quick answer, even if tests were simulated."""
        return self._solve(GainEstimate.power, share, scenario)

    def ordinary(self, share: float | None = None, scenario: int | None = None) -> float:
        """Return the rows of an ordinary A/B test of the same actions with this power, by default the plan's.

        It is one-sided at the level δ, which comparisons of several actions with the control share.
        """
        return self._solve(GainEstimate.ordinary_power, self.power if share is None else share, scenario)

    def ordinary_chance(self, rows: float) -> float:
        """Return the power of an ordinary A/B test with so many rows."""
        return self._mean_power(GainEstimate.ordinary_power, number(rows, name="rows", above=0), None)

    @property
    def ratio(self) -> float | None:
        """The rows of the proof over those of an ordinary test; None if one of them never succeeds."""
        rows, ordinary = self.rows, self.ordinary()
        return rows / ordinary if math.isfinite(rows) and math.isfinite(ordinary) else None

    def quantiles(self, scenario: int | None = None) -> Quantiles:
        """Return the number of rows with which a gain is proven, over all scenarios or in one."""
        if self.simulated:
            return quantiles(*self._needed(scenario))
        median, p80, p95 = (self.foretold(share, scenario) for share in (0.5, 0.8, 0.95))
        return Quantiles(median, p80, p95)

    def chance(self, rows: float) -> float:
        """Return the probability that so many rows prove a gain."""
        rows = number(rows, name="rows", least=0)
        if not self.simulated:
            return self._mean_power(GainEstimate.power, rows, None) if rows > 0 else 0.0
        needed, weights = self._needed(None)
        return float(np.array(weights) @ (np.array(needed) <= rows)) / sum(weights)

    def chance_in(self, periods: float) -> float:
        """Return the probability that the rows of this many periods of the traffic prove a gain."""
        traffic = self.supposed.traffic
        if traffic is None:
            raise InputError('the duration needs the traffic: plan(…, traffic="4000/week")')
        return self.chance(traffic.counted(traffic.people_in(number(periods, name="periods", least=0))))

    def periods(self, share: float | None = None) -> float | None:
        """Return the periods of traffic that these rows take, with late rewards; None without traffic."""
        traffic = self.supposed.traffic
        if traffic is None:
            return None
        return traffic.periods(traffic.taken(self.rows_for(self.power if share is None else share)))

    def by_effect(self) -> dict[float, tuple[float, float]]:
        """Return the rows of the proof and of an ordinary test for smaller and larger effects than the assumed one.

        By the quick answer, in proportion to the simulated tests. Empty unless all scenarios assume one effect.
        """
        s = self.supposed
        if len(s.effects) != 1 or not math.isfinite(self.rows):
            return {}
        out, scale = dict[float, tuple[float, float]](), self.rows / self.foretold(self.power)
        for effect in (factor * s.effects[0] for factor in EFFECT_FACTORS):
            if effect <= s.outcome.largest_effect:
                some = tuple(replace(one, effect=effect) for one in s.scenarios if isinstance(one, Scenario))
                other = quick_gain_plan(replace(s, scenarios=some))
                out[effect] = scale * other.foretold(self.power), other.ordinary()
        return out

    def findings(self) -> tuple[str, ...]:
        """Return conclusions and warnings for the planner, in sentences."""
        words, share = list[str](), 100 * self.power
        if self.left_out:
            words.append(f"Left out, as there is no gain to prove: scenario {', '.join(self.left_out)}.")
        without = sum(w for one, w in zip(self.estimates, self._draw_weights(None), strict=True) if one.gain <= 0)
        if without > 0:
            words.append(
                f"In {100 * without:.0f} % of the cases that the assumptions leave possible, nothing is better than "
                f"the control: no number of rows proves a gain there."
            )
        if not math.isfinite(self.rows):
            words.append(f"A gain is proven in fewer than {share:g} % of tests, however many rows they have.")
        ratio = self.ratio
        if ratio is not None and ratio < 1:
            words.append(
                "An A/B test compares one action for everybody with the control, and a rule gains more here: so the "
                "proof takes fewer rows."
            )
        if math.isfinite(self.rows) and self.rows > MAX_SIMULATED_ROWS and not self.simulated:
            words.append(
                f"Logs of more than {MAX_SIMULATED_ROWS:,} rows are not simulated: this is the quick answer, by a "
                "formula that simulated tests confirm at smaller sizes."
            )
        return tuple(words)

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        from pacbandits.planning.plan_files import gain_plan_to_json

        return gain_plan_to_json(self)

    def _draw_weights(self, scenario: int | None) -> list[float]:
        return _weights([one.scenario for one in self.estimates], self.supposed.shares, scenario)

    def _mean_power(self, power: Power, rows: float, scenario: int | None) -> float:
        weights = self._draw_weights(scenario)
        return sum(w * power(one, rows, self.supposed) for one, w in zip(self.estimates, weights, strict=True) if w)

    def _solve(self, power: Power, share: float, scenario: int | None) -> float:
        """Return the rows at which the mean power over draws reaches a share; infinite if it never does."""
        low, high = 0.0, math.log(MAX_ROWS)
        if self._mean_power(power, MAX_ROWS, scenario) < share:
            return math.inf
        while high - low > 1e-4:
            middle = (low + high) / 2.0
            enough = self._mean_power(power, math.exp(middle), scenario) >= share
            low, high = (low, middle) if enough else (middle, high)
        return math.ceil(math.exp(high))

    def _near(self, scenario: int) -> list[SimulatedTest]:
        """Return the tests of a scenario whose size is near that of the last ones, if there are enough of them."""
        own = [one for one in self.tests if one.scenario == scenario]
        for last in reversed(own):
            near = [one for one in own if max(one.rows / last.rows, last.rows / one.rows) <= NEAR_SIZE]
            if len(near) >= MIN_TESTS:
                return near
        return []

    def _needed(self, scenario: int | None) -> tuple[list[float], list[float]]:
        """Return the rows that simulated tests would have needed, and their weights."""
        tests = [one for i in range(len(self.supposed.scenarios)) for one in self._near(i)]
        tests = [one for one in tests if scenario in (None, one.scenario)]
        return [one.needed for one in tests], _weights([one.scenario for one in tests], self.supposed.shares, scenario)


Power = Callable[[GainEstimate, float, Assumptions], float]


def _weights(of: list[int], shares: tuple[float, ...], scenario: int | None) -> list[float]:
    """Return weights that sum to 1, so that scenarios count by their probabilities; of: the scenario of each."""
    counted = [shares[s] / of.count(s) if scenario in (None, s) else 0.0 for s in of]
    return [one / sum(counted) for one in counted]


def quick_gain_plan(supposed: Assumptions) -> GainPlan:
    """Return the plan by the quick answer alone.

    Raises:
        InputError: If no scenario has anything to gain.
    """
    estimates = tuple(
        GainEstimate.of(supposed.problem(i, k), i, supposed.control)
        for i, one in enumerate(supposed.scenarios)
        for k in range(DRAWS if isinstance(one, Scenario) else PILOT_DRAWS)
    )
    if all(one.gain <= 0 for one in estimates):
        raise InputError(
            "no policy of this class gains over the control under these assumptions, so no gain can be proven; name "
            "another control, assume an effect instead of a pilot's, or take deeper trees (--policies)"
        )
    return GainPlan(supposed, estimates)


# Simulate tests.


Job = tuple[int, int, int]  # scenario, number of its draw, rows
WatchTests = Callable[[GainPlan], None]


def play_test(supposed: Assumptions, job: Job) -> SimulatedTest:
    """Draw the log of a test and prove what it proves; the result is the same in any process."""
    scenario, draw, rows = job
    problem, rng = supposed.problem(scenario, draw), np.random.default_rng([supposed.seed, scenario, draw, 7])
    asked = Request(policies=supposed.spec or supposed.policies, delta=supposed.delta, control=str(supposed.control))
    found = foresee_gain(finished_log(problem, rows, rng), asked)
    gain = GainEstimate.of(problem, scenario, supposed.control).gain
    low = -1.0 if found is None else max(one.low for one in found.candidates)
    return SimulatedTest(scenario, draw, rows, gain, low, rows_needed(rows, low=low, gain=gain, asked=supposed))


def finished_log(problem: Problem, rows: int, rng: np.random.Generator) -> Log:
    """Draw the log of a plain test with an even split, as a file would hold it: nobody has an id."""
    who = problem.contexts(rows, rng)
    actions = rng.integers(problem.n_actions, size=rows)
    ids = who.ids if problem.policies.n_contexts else None
    return Log.of(
        replace(who, ids=ids, weights=np.full(rows, 1.0 / rows)),
        actions=actions,
        rewards=problem.rewards(who, actions, rng),
        propensities=np.full((rows, problem.n_actions), 1.0 / problem.n_actions),
    )


def refine_gain_plan(
    quick: GainPlan,
    *,
    limits: Limits | None = None,
    engine: DaskEngine | None = None,
    progress: Progress | None = None,
    watch: WatchTests | None = None,
) -> GainPlan:
    """Return the plan with simulated tests, until its rows are known to the precision that limits ask for.

    Each batch has logs of the size that the ones before suggest. Interrupting it keeps what was simulated.
    """
    made, limits = quick, limits or Limits()
    until, batch, done = time.monotonic() + 60.0 * limits.minutes, FIRST_TESTS, 0
    listener(progress)("simulating")
    try:
        while done < limits.trials and time.monotonic() < until:
            batch = min(batch, limits.trials - done)
            jobs = [
                (i, done + k, rows)
                for k in range(batch)
                for i in range(len(made.supposed.scenarios))
                if (rows := _next_size(made, i)) is not None
            ]
            if not jobs:
                break
            s, most = made.supposed, limits.processes
            playing = hand_out(play_test, s, s, iter(jobs), processes=most, engine=engine, until=until)
            with closing(playing) as coming:
                for one in coming:
                    made = replace(made, tests=(*made.tests, one))
                    if watch is not None:
                        watch(made)
                    if time.monotonic() > until:
                        break
            done, batch = done + batch, done + batch
            if made.simulated and made.quantiles().known_to <= limits.precision:
                break
    except KeyboardInterrupt:
        if not made.tests:
            raise
    return replace(made, tests=tuple(sorted(made.tests, key=lambda one: (one.scenario, one.number))))


def _next_size(plan: GainPlan, scenario: int) -> int | None:
    """Return the rows of the next logs of a scenario; None if they would be too many."""
    rows = plan.foretold(plan.power, scenario)
    if plan.simulated:
        rows = plan.rows_for(plan.power, scenario)
    if not math.isfinite(rows):  # a share of cases has nothing to gain: plan for half of the others
        some = [one for one in plan.estimates if one.scenario == scenario and one.gain > 0]
        rows = replace(plan, estimates=tuple(some), tests=()).foretold(0.5) if some else math.inf
    return math.ceil(rows) if rows <= MAX_SIMULATED_ROWS else None
