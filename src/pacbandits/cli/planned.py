"""What `pacbandits plan` reads and writes beside the plan itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.cli.reading import open_log
from pacbandits.cli.shared import check_output, say
from pacbandits.errors import InputError, nearest, plain
from pacbandits.planning import Affordable, PlayedTrial, StudyPlan, Traffic, save_plan
from pacbandits.planning.playing import RIVALS
from pacbandits.planning.quantiles import quantile
from pacbandits.planning.quick import ANALYSES
from pacbandits.planning.scenario_files import read_scenarios
from pacbandits.planning.simulating import stopping_times
from pacbandits.records import Contexts, Log
from pacbandits.report.figures import check_figure_path
from pacbandits.report.page import check_report
from pacbandits.report.plan_figure import draw_plan
from pacbandits.report.plan_page import write_plan_report
from pacbandits.report.planned import ByEffect, people


@dataclass(frozen=True)
class Files:
    """What is to be written, if anything.

    figure, report, out: the picture, the report, and the plan itself.
    """

    figure: Path | None
    report: Path | None
    out: Path | None

    def check(self) -> None:
        """Raise, before anything is computed, where one cannot be."""
        for path in (self.figure, self.report, self.out):
            check_output(path)
        if self.figure is not None:
            check_figure_path(self.figure)
        check_report(self.report)
        if self.out is not None and self.out.suffix.lower() != ".json":
            raise InputError(f"a plan is written as JSON; name it {self.out.with_suffix('.json')}")


def told(scenarios: Path | None, **options: Any) -> dict[str, Any]:
    """What is supposed, by the names that `plan` has for it: what options say, else what a file of scenarios does."""
    given = {} if scenarios is None else read_scenarios(scenarios)
    given |= {name: value for name, value in options.items() if value is not None}
    batched, delay, traffic = given.pop("batched", False), given.pop("delay", 0), given.pop("traffic", None)
    if traffic is None and (batched or delay):
        raise InputError(f"{'--delay' if delay else '--batched'} needs to know who comes when: --traffic 4000/week")
    if traffic is not None:
        given["traffic"] = Traffic.read(traffic, batched=batched, delay=delay)
    return given


def open_pilot(path: Path, reading: dict[str, Any]) -> Log:
    """The log of a pilot. Where it does not tell probabilities, shares are taken for them: a plan proves nothing."""
    try:
        return open_log(path, reading)
    except InputError as error:
        if "propensity" in reading or "split" in reading or "'propensity'" not in str(error):
            raise
    log = open_log(path, reading | {"split": "uniform"})
    shares = np.bincount(log.actions, weights=log.repeats, minlength=log.n_actions) / log.repeats.sum()
    say(
        f"{path}: taken for a trial that gave every action by chance, as often as it occurs; else say --split", err=True
    )
    return replace(log, propensities=np.tile(shares, (len(log), 1)))


def control_of(words: str, source: Contexts | Log) -> int:
    """The action in use now, by its number or, of a pilot, its name."""
    names = source.action_names if isinstance(source, Log) else None
    if names is not None and words in names:
        return names.index(words)
    if words.isdigit():
        return int(words)
    known = nearest(words, names) if names else "; give its number, from 0"
    raise InputError(f"there is no action '{plain(words)}' to be the --control{known}")


def so_far(done: tuple[PlayedTrial, ...]) -> str:
    """What simulation says so far, in a line."""
    parts: list[str] = []
    for one in RIVALS:
        times = stopping_times(done, one)
        if times:
            parts.append(f"{one} {people(quantile(times, [1.0] * len(times), 0.5))}")
    return f"simulating, {len(done)} trials so far; people in the middle case: {', '.join(parts)}"


def say_quick(quick: StudyPlan) -> None:
    """The answer that takes seconds, while simulation goes on."""
    coda, even, log = (quick.quantiles(one).median for one in ANALYSES)
    say(
        f"quick answer: {people(coda)} people in the middle case, {people(even)} by a plain trial, {people(log)} by a "
        "finished log; simulating trials now (Ctrl-C ends that with what is known)",
        err=True,
    )


def write(plan: StudyPlan, afforded: Affordable | None, by_effect: ByEffect, files: Files) -> None:
    """Write what was asked for."""
    if files.figure is not None:
        draw_plan(plan, path=files.figure)
    if files.report is not None:
        write_plan_report(plan, files.report, afforded=afforded, by_effect=by_effect)
    if files.out is not None:
        save_plan(files.out, plan)
