"""A second algorithm beside the first, and what theory asks for: the part of `pacbandits run` that compares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter as clock
from typing import Any

import typer

from pacbandits.algorithms import ALGORITHMS, make_algorithm
from pacbandits.algorithms.registry import CERTIFYING
from pacbandits.cli.shared import check_output, status
from pacbandits.complexity import Complexity, measure
from pacbandits.complexity.measure import Progress
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.problems import Problem
from pacbandits.report import Comparison, certified_steps, check_figure_path, draw_certified
from pacbandits.simulation import Run, Watch, run

PATIENCE = 30.0  # seconds for the yardsticks, or as many as the runs took when that is more


@dataclass(frozen=True, eq=False)
class Rival:
    """An algorithm to run beside another, on the same problem and with the same seed."""

    problem: Problem
    policies: PolicyClass
    options: dict[str, Any]

    @classmethod
    def checked(
        cls,
        name: str,
        problem: Problem,
        policies: PolicyClass,
        *,
        algorithm: str,
        repeats: int,
        epsilon: float,
        delta: float,
        scale: float,
        max_samples: int | None,
        offline_contexts: int | None,
        solver: str,
    ) -> Rival:
        """The rival, or a sentence before anything is run; of scale and solver it gets what it has a use for."""
        if repeats > 1:
            raise InputError("--against sets one run beside another; leave out --repeat")
        if name == algorithm:
            raise InputError(f"--against {name} names the algorithm that runs anyway; name another")
        options: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": delta,
            "scale": 1.0 if name in CERTIFYING else scale,
            "solver": solver if name == "coda-paper" else "ratio",
        }
        make_algorithm(name, policies, rewards=problem.reward_bounds, **options)
        options |= {"algorithm": name, "max_samples": max_samples, "offline_contexts": offline_contexts}
        return cls(problem, policies, options)

    def run(self, seed: int, *, watch: Watch) -> Run:
        """Run it, as the second of two."""
        return run(
            self.problem, self.policies, rng=seed, watch=lambda stage: watch(replace(stage, run=1)), **self.options
        )


def check_figure(path: Path | None, *, algorithm: str, against: str | None, repeats: int) -> None:
    """Raise when a figure is asked for that could not be drawn; before anything is run."""
    if path is None:
        return
    check_figure_path(path)
    check_output(path)
    if repeats > 1:
        raise InputError("a figure is of one run; leave out --repeat")
    asked = [algorithm] if against is None else sorted({algorithm, against})
    if set(asked) <= {about.name for about in ALGORITHMS} - CERTIFYING.keys():
        verb = "certifies" if len(asked) == 1 else "certify"
        raise InputError(
            f"a figure shows certified ε, and {' and '.join(asked)} {verb} nothing; name coda or uniform as "
            "--algorithm or --against"
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
    """Both runs with the problem's yardsticks, measured if that does not take too long, and the picture if wanted."""
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
            typer.echo(f"{left_out.algorithm} has certified nothing, and the picture leaves it out", err=True)
    return comparison


def measure_within(
    seconds: float, problem: Problem, policies: PolicyClass, *, epsilon: float, delta: float, tell: Progress
) -> tuple[Complexity | None, str]:
    """The problem measured, or why it is not: the runs are worth showing without."""
    end = clock() + seconds

    def go_on(text: str) -> None:
        if clock() > end:
            raise _TooLongError
        tell(f"measuring the problem: {text.split(',')[0]}")

    try:
        return measure(problem, policies, epsilon=epsilon, delta=delta, progress=go_on), ""
    except _TooLongError:
        return None, f"to measure this problem takes more than {seconds:.0f} s; pacbandits complexity does it"
    except KeyboardInterrupt:
        return None, "measuring the problem was interrupted"
    except InputError as error:
        return None, str(error)


class _TooLongError(Exception):
    pass
