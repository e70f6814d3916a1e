"""Simulate the trials of a plan in several processes, in any order; each trial is the same wherever it is played."""

from __future__ import annotations

import math
import pickle
from collections.abc import Generator, Iterator

from pacbandits.compiled import cores
from pacbandits.engines import processes as local
from pacbandits.engines.dask import DaskEngine
from pacbandits.planning.assumptions import Assumptions
from pacbandits.planning.playing import PlayedTrial, TrialQuestion
from pacbandits.planning.worker import play_job, play_one

Job = tuple[int, int, str]  # scenario, number of its draw, algorithm


def play_all(
    supposed: Assumptions,
    asked: TrialQuestion,
    jobs: Iterator[Job],
    *,
    processes: int | None = None,
    engine: DaskEngine | None = None,
    until: float = math.inf,
) -> Generator[PlayedTrial]:
    """What comes of each job, as soon as it is known. With one process they are played in this one.

    Whoever stops asking stops the processes.

    engine: whose workers play, in place of processes of our own.
    until: when, by `time.monotonic`, trials are no longer waited for; with one process the last one is.
    """
    if engine is not None:
        yield from engine.each(play_job, (supposed, asked), jobs, until=until)
        return
    count = cores() if processes is None else processes
    if count == 1 or not _can_be_handed_over(supposed, asked):
        for scenario, number, algorithm in jobs:
            yield play_one(supposed, asked, scenario, number, algorithm)
        return
    yield from local.each(play_job, (supposed, asked), jobs, processes=count, until=until)


def _can_be_handed_over(supposed: Assumptions, asked: TrialQuestion) -> bool:
    """Whether another process can be told what is supposed; not so of a class that a script defines itself."""
    parts = (supposed.people, supposed.policies, *supposed.scenarios)
    if any(type(part).__module__ == "__main__" for part in parts):
        return False
    try:
        pickle.dumps((supposed, asked))
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True
