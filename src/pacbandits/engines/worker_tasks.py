"""Functions that run in the worker processes of a Dask cluster.

Words and things arrive packed, so that Dask does not look into them, and are unpacked only by the version that packed
them. What is wrong comes back as words: errors would leave tracebacks in the logs of every worker.
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

TOPIC = "pacbandits-rows"  # under which workers say how far they are
SECONDS_BETWEEN_WORDS = 0.3


@dataclass(frozen=True)
class WorkerRefusal:
    """What a worker could not do.

    words: why, and what to do about it.
    """

    words: str


@dataclass(frozen=True, eq=False)
class BlockRuns:
    """Rows that one task adds up.

    number: of the task, from 0.
    stripes: its runs of blocks; one where the rows lie in no file, and workers were sent them.
    """

    number: int
    stripes: tuple[range, ...]


@dataclass(frozen=True, eq=False)
class SumTask:
    """What all tasks of a sum share.

    source: where rows come from; None where workers were sent them.
    question: what is asked of them.
    heard_as: by which name workers say how far they are; None where nobody listens.
    """

    source: Source | None
    question: Aggregation
    heard_as: str | None


def unpack(version: str, packed: bytes) -> object:
    """What was sent to workers, for one task or for all; a task itself, so that a worker which died is no loss."""
    refused = _other_version(version)
    return pickle.loads(packed) if refused is None else refused  # from whoever may run anything here anyway


def do(version: str, task: Callable[..., object], shared: object, packed: bytes, *sent: object) -> object:
    """One task, with what all share, with what is its own, and with what was sent for it before."""
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
    """The sums of a question over some of the rows; log: these, where they lie in no file."""
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
    """The sums of several tasks together, so that whoever asked is sent less."""
    total: Sums | None = None
    for one in several:
        if isinstance(one, WorkerRefusal):
            return one
        if total is None:
            total = tuple(array.copy() for array in one)  # what a task gave belongs to Dask
        else:
            add_to(total, one)
    assert total is not None
    return total


def rows_of(stripe: range, n_rows: int) -> range:
    """The rows of a run of blocks."""
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
    with suppress(Exception):  # words that are lost are no reason to stop
        _worker().log_event(TOPIC, {"of": heard_as, "task": number, "rows": rows})


def _worker() -> Any:
    return import_module("distributed").get_worker()


def dask_setup(worker: object) -> None:
    """Called by Dask when a process of our own starts: Ctrl-C is for the one that started it."""
    with suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGINT, signal.SIG_IGN)
