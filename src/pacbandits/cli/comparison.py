"""The comparison of `pacbandits run`: a second algorithm, and the sample sizes from theory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pacbandits.algorithms import find_algorithm, make_algorithm, options_of, profile_of
from pacbandits.cli.console import check_output, say, status
from pacbandits.complexity import Complexity
from pacbandits.complexity.measure import MEASUREMENT_SEARCHES, TooLongError, measure_in_time
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, expect_cost
from pacbandits.problems import Problem
from pacbandits.progress import Progress, prefixed
from pacbandits.report import Comparison, certified_steps, check_figure_path, draw_certified
from pacbandits.simulation import Run, Watch, run
from pacbandits.trials.protocol import Setting

UNLIKELY_FACTOR = 10.0  # nothing is measured if the expected time exceeds the limit by this factor
PATIENCE = 30.0  # seconds for the yardsticks, or the running time of the runs if that is longer


@dataclass(frozen=True, eq=False)
class ComparedAlgorithm:
    """An algorithm to compare another with, on the same problem and with the same seed."""

    problem: Problem
    policies: PolicyClass
    options: dict[str, Any]

    @classmethod
    def checked(
        cls,
        spec: str,
        problem: Problem,
        policies: PolicyClass,
        asked: dict[str, Any],
        options: dict[str, Any],
        *,
        algorithm: str,
        repeats: int,
    ) -> ComparedAlgorithm:
        """Return the algorithm with those of the options that it has; raise before anything is run if it cannot run."""
        if repeats > 1:
            raise InputError("--against compares two single runs; leave out --repeat")
        if spec == algorithm:
            raise InputError(f"--against {spec} names the algorithm that runs anyway; name another")
        name, _ = find_algorithm(spec)
        known = {option.name for option in options_of(name)}
        own = {key: value for key, value in options.items() if key in known}
        setting = Setting(policies, asked["epsilon"], asked["delta"], problem.reward_bounds, asked["offline_contexts"])
        make_algorithm(spec, setting, own)
        return cls(problem, policies, {"algorithm": spec, **asked, **own})

    def run(self, seed: int, *, watch: Watch) -> Run:
        """Run it, as the second of two runs."""
        return run(
            self.problem, self.policies, rng=seed, watch=lambda stage: watch(replace(stage, run=1)), **self.options
        )


def check_figure(path: Path, *, algorithm: str, against: str | None, repeats: int) -> None:
    """Raise, before anything is run, if the figure could not be drawn."""
    check_figure_path(path)
    check_output(path)
    if repeats > 1:
        raise InputError("a figure shows one run; leave out --repeat")
    asked = [algorithm] if against is None else sorted({algorithm, against})
    if not any(profile_of(spec).certifies for spec in asked):
        verb = "certifies" if len(asked) == 1 else "certify"
        raise InputError(
            f"a figure shows certified ε, and {' and '.join(asked)} {verb} nothing; name one that does as "
            "--algorithm or --against (pacbandits algorithms)"
        )


def compare(
    problem: Problem,
    policies: PolicyClass,
    one: Run,
    rival: Run | None,
    *,
    compiling: bool,
    figure: Path | None,
) -> Comparison:
    """Return both runs with the yardsticks, if these can be measured in time; draw the figure if wanted."""
    runs = [run for run in (one, rival) if run is not None]
    seconds = max(PATIENCE, sum(run.seconds for run in runs))
    with status() as tell:
        measured, why = None, "the run was interrupted"
        if all(run.stopped != "interrupted" for run in runs):
            measured, why = measure_within(seconds, problem, policies, epsilon=one.epsilon, delta=one.delta, tell=tell)
        comparison = Comparison(one, rival, measured, why, compiled=compiling)
        if figure is not None:
            tell("drawing")
            draw_certified(comparison, path=figure)
    if figure is not None:
        for left_out in (run for run in comparison.runs if not certified_steps(run)[0]):
            say(f"the figure leaves out {left_out.algorithm}, which has certified nothing", err=True)
    return comparison


def measure_within(
    seconds: float, problem: Problem, policies: PolicyClass, *, epsilon: float, delta: float, tell: Progress
) -> tuple[Complexity | None, str]:
    """Return the measured problem, or None and the reason: the runs are shown without it."""
    expected = expect_cost(policies, len(problem.population), MEASUREMENT_SEARCHES)
    if expected is not None and expected[0].seconds > UNLIKELY_FACTOR * seconds:
        return None, f"measuring this problem takes more than {seconds:.0f} s; use pacbandits complexity"
    told = prefixed(tell, "measuring the problem")
    try:
        return measure_in_time(seconds, problem, policies, epsilon=epsilon, delta=delta, progress=told), ""
    except TooLongError:
        return None, f"measuring this problem takes more than {seconds:.0f} s; use pacbandits complexity"
    except KeyboardInterrupt:
        return None, "measuring the problem was interrupted"
    except InputError as error:
        return None, str(error)
