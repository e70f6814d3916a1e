"""Functions that run in the worker processes of a Dask cluster.

Arguments arrive pickled, so that Dask does not inspect them, and only the version that pickled them unpickles them.
Errors are returned as messages: exceptions would leave tracebacks in the logs of every worker.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from time import monotonic
from typing import Any

from pacbandits.compiled import using_cores
from pacbandits.engines.base import ROWS_PER_BLOCK, Aggregation, LogSource, Source, Sums, add_to
from pacbandits.errors import InputError, spelling_options
from pacbandits.records import Log
from pacbandits.version import __version__

TOPIC = "pacbandits-rows"  # the topic of progress events
SECONDS_BETWEEN_WORDS = 0.3


@dataclass(frozen=True)
class WorkerRefusal:
    """An error at a worker.

    words: the cause and the remedy.
    """

    words: str


@dataclass(frozen=True, eq=False)
class BlockRuns:
    """The rows that one task sums.

    number: the number of the task, from 0.
    stripes: its runs of blocks; a single one if the rows are in no file and were sent to the worker.
    """

    number: int
    stripes: tuple[range, ...]


@dataclass(frozen=True, eq=False)
class SumTask:
    """The arguments shared by all tasks of a sum.

    source: the source of rows; None if they were sent to the workers.
    question: the aggregation.
    heard_as: the name in progress events; None if nobody listens.
    """

    source: Source | None
    question: Aggregation
    heard_as: str | None


def unpack(version: str, packed: bytes) -> object:
    """Unpickle an argument of one task or of all. This is a task of its own, so that Dask can repeat it."""
    refused = _other_version(version)
    return pickle.loads(packed) if refused is None else refused  # the sender may run any code here anyway


def do(version: str, task: Callable[..., object], shared: object, packed: bytes, *sent: object) -> object:
    """Return the result of a task, or a refusal; shared: for all tasks, packed: its own, sent: from earlier tasks."""
    refused = _other_version(version)
    if refused is not None:
        return refused
    for one in (shared, *sent):
        if isinstance(one, WorkerRefusal):
            return one
    try:
        with using_cores(1), spelling_options():
            return task(shared, pickle.loads(packed), *sent)
    except InputError as error:
        return WorkerRefusal(str(error.args[0]))
    except FileNotFoundError as error:
        return WorkerRefusal(
            f"the worker {_address()} does not see {error.filename or error}: all workers must see the same files "
            "under the same names, on a disk that they share"
        )
    except OSError as error:
        what = error.filename or "a file"
        return WorkerRefusal(f"the worker {_address()} cannot read {what}: {error.strerror or error}")
    except MemoryError:
        return WorkerRefusal(
            f"the worker {_address()} is out of memory; start fewer workers on a machine, or larger ones"
        )


def fold(summing: SumTask, part: BlockRuns, log: Log | None = None) -> Sums:
    """Return the sums of a question over some of the rows; log: these rows, if they are in no file."""
    sums, rows, last = summing.question.begin(), 0, monotonic()
    source = summing.source if log is None else LogSource(log)
    assert source is not None
    for stripe in part.stripes:
        before = 0 if log is None else stripe.start  # blocks that were not sent
        for number, block in zip(stripe, source.blocks(stripe.start - before, stripe.stop - before), strict=True):
            summing.question.add(number, block, sums)
            rows += len(block)
            if summing.heard_as is not None and monotonic() - last >= SECONDS_BETWEEN_WORDS:
                last = monotonic()
                _say(summing.heard_as, part.number, rows)
    return sums


def add_up(*several: Sums | WorkerRefusal) -> Sums | WorkerRefusal:
    """Return the sums of several tasks together, so that less is sent back."""
    total: Sums | None = None
    for one in several:
        if isinstance(one, WorkerRefusal):
            return one
        if total is None:
            total = tuple(array.copy() for array in one)  # results of tasks belong to Dask
        else:
            add_to(total, one)
    assert total is not None
    return total


def rows_of(stripe: range, n_rows: int) -> range:
    """Return the rows of a run of blocks."""
    return range(stripe.start * ROWS_PER_BLOCK, min(stripe.stop * ROWS_PER_BLOCK, n_rows))


def _other_version(version: str) -> WorkerRefusal | None:
    if version == __version__:
        return None
    return WorkerRefusal(
        f"the worker {_address()} has pacbandits {__version__}, and {version} asks it: install the same everywhere"
    )


def _address() -> str:
    return str(_worker().address)


def _say(heard_as: str, number: int, rows: int) -> None:
    with suppress(Exception):  # a lost progress message does no harm
        _worker().log_event(TOPIC, {"of": heard_as, "task": number, "rows": rows})


def _worker() -> Any:
    return import_module("distributed").get_worker()


def dask_setup(worker: object) -> None:
    """Ignore Ctrl-C in a worker process of our own, which its parent handles; called by Dask at its start."""
    with suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGINT, signal.SIG_IGN)
