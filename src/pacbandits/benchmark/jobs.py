"""Jobs of the worker processes of a benchmark: play a run, or measure a case."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass

from pacbandits.benchmark.cases import Case, Task
from pacbandits.benchmark.facts import CaseFacts, find_facts
from pacbandits.benchmark.playing import make_player, play
from pacbandits.benchmark.results import Failure, Misfit
from pacbandits.benchmark.rows import Row
from pacbandits.compiled import using_cores
from pacbandits.errors import InputError, one_line

Job = Task | Case


@dataclass(frozen=True)
class Done:
    """What came of a job.

    result: a row, the facts of a case, or why there is none.
    memory_bytes: the most that its process ever took; None where the system does not tell.
    """

    result: Row | CaseFacts | Misfit | Failure
    memory_bytes: int | None = None


def do(_: None, job: Job) -> Done:
    """A job, in a process of its own; nothing is raised, so that the others go on."""
    try:
        with using_cores(1):
            result = find_facts(job) if isinstance(job, Case) else _played(job)
    except Exception as error:
        result = failure_of(job, traceback.format_exception_only(error)[-1])
    return Done(result, _peak_memory_bytes())


def _played(task: Task) -> Row | Misfit:
    """The row of a task, or why there is none."""
    try:
        return play(task)
    except InputError as error:
        if _is_refused(task):
            return Misfit(task.suite, task.case.name, task.entry.spec, str(error))
        raise


def _is_refused(task: Task) -> bool:
    """Whether an algorithm will not even start; what goes wrong later is no refusal."""
    problem = task.case.load()
    try:
        make_player(task, problem).start(problem.policies, problem.population)
    except InputError:
        return True
    return False


def failure_of(job: Job, words: str) -> Failure:
    """What is told of a job that ended in an error."""
    if isinstance(job, Case):
        return Failure("", job.name, "", 0, one_line(words))
    return Failure(*job.key, one_line(words))


def _peak_memory_bytes() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
