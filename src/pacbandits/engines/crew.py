"""A Dask cluster, started here or connected to: submit tasks, wait for results, report lost workers in one sentence."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import pickle
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from time import monotonic
from typing import Any, cast
from uuid import uuid4

from pacbandits.engines.at_workers import WorkerRefusal
from pacbandits.engines.processes import ONE_THREAD
from pacbandits.errors import InputError, count_of, plain
from pacbandits.version import __version__

CONNECT_SECONDS = 8.0  # for a scheduler to answer, and for its first worker to come
ANSWER_SECONDS = 20.0  # for a scheduler that is busy
NO_WORKER_SECONDS = 30.0  # without any, of which some may be about to come back
LOOK_SECONDS = 1.0  # between looks at whether anybody is still there
CLOSE_SECONDS = 5.0

# Asked in words that a worker understands without this package.
_VERSION = "__import__('pacbandits.version', fromlist=['version']).__version__"
# What distributed raises when whoever it talks to is gone; some of it is no Exception.
_GONE = (CancelledError, asyncio.CancelledError, OSError, TimeoutError)
_SETTINGS: dict[str, object] = {
    "distributed.admin.large-graph-warning-threshold": "1 TB",  # rows of a log that lies in memory travel with tasks
    "distributed.comm.timeouts.connect": f"{CONNECT_SECONDS} s",
}
_OF_OUR_OWN: dict[str, object] = {
    # Dask's own list also has memory given back at once, which takes longer than to compute.
    "distributed.nanny.pre-spawn-environ": ONE_THREAD,
    # Else a worker that has died twice within a while would be given up, though it is about to come back.
    "distributed.deploy.lost-worker-timeout": "100 days",
}


@dataclass(frozen=True, eq=False)
class Cluster:
    """A connection to the workers of a Dask scheduler.

    client: of distributed.
    scheduler: its address.
    dashboard: where it can be watched, if anywhere.
    own: what was started for this, and ends with it; nothing of somebody else's cluster.
    """

    client: Any
    scheduler: str
    dashboard: str | None
    own: ExitStack

    def slots(self) -> int:
        """How many tasks can be done at once."""
        with self.reaching():
            return sum(dict(self.client.nthreads(callback_timeout=ANSWER_SECONDS)).values())

    def hand_out(self, function: Callable[..., object], *arguments: object, name: str) -> Any:
        """Have a function called by some worker; a future."""
        with self.reaching(), _configured(_SETTINGS):
            return self.client.submit(function, *arguments, key=f"{name}-{uuid4().hex}", pure=False)

    def first_done(self, tasks: Iterable[Any], *, until: float = math.inf) -> list[Any]:
        """Those of the tasks that are done, as soon as there is one; none when time is up before."""
        alone_since: float | None = None
        while True:
            left = until - monotonic()
            if left <= 0:
                return []
            with self.reaching():
                try:
                    with self.client.as_current():
                        wait = _distributed().wait
                        done = wait(list(tasks), timeout=min(left, LOOK_SECONDS), return_when="FIRST_COMPLETED").done
                    return list(done)
                except TimeoutError:
                    pass
            if self.slots() > 0:
                alone_since = None
            elif alone_since is None:
                alone_since = monotonic()
            elif monotonic() - alone_since > NO_WORKER_SECONDS:
                raise InputError(f"no worker is left at {self.scheduler}; start some there, then start this again")

    def result(self, task: Any) -> Any:
        """What came of a task that is done; raises what is wrong in a sentence."""
        try:
            with self.reaching():
                found = self.client.gather(task)
        except _distributed().KilledWorker:
            raise InputError(
                "workers died one after the other over the same task; is memory short there? Start fewer on a machine, "
                "or larger ones, then start this again"
            ) from None
        except ModuleNotFoundError as error:
            raise InputError(
                f"a worker at {self.scheduler} lacks {plain(error.name)}; pip install 'pacbandits[scale]' there"
            ) from None
        if isinstance(found, WorkerRefusal):
            raise InputError(found.words)
        return found

    def forget(self, tasks: Iterable[Any]) -> None:
        """No longer want what comes of tasks; those that nobody has begun are not."""
        for one in tasks:  # to cancel them is a scheduler's undoing, where others depend on them that nobody wants
            with suppress(Exception, asyncio.CancelledError):
                one.release()

    @contextmanager
    def reaching(self) -> Generator[None]:
        """Within this, a scheduler that is gone is missed in a sentence, and called no more."""
        words = (
            f"the Dask scheduler at {self.scheduler} is gone, and what was not done yet is lost; start this again when "
            "there is one"
        )
        if self.client.status in ("closing", "closed"):
            raise InputError(words)
        try:
            yield
        except _GONE:
            self.close()
            raise InputError(words) from None

    def close(self) -> None:
        """Let go of workers, and end those that were started for this."""
        with suppress(Exception, asyncio.CancelledError):
            self.client.close(timeout=CLOSE_SECONDS)
        with suppress(Exception, asyncio.CancelledError):
            self.own.close()


def start(workers: int) -> Cluster:
    """Processes of this machine, as many as that, each with one thread."""
    distributed, own = _distributed(), ExitStack()
    own.enter_context(_configured(_OF_OUR_OWN))
    own.callback(_restore, {name: os.environ.get(name) for name in (*ONE_THREAD, "PYTHONHASHSEED")})
    os.environ.update(ONE_THREAD)  # or what this process was given would go before
    try:
        with _configured(_SETTINGS):
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,  # what is in memory is bounded by whoever hands out tasks, and nothing goes to disk
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
                preload=["pacbandits.engines.at_workers"],
            )
    except (RuntimeError, *_GONE) as error:
        own.close()
        raise InputError(
            f"{count_of(workers, 'worker process', 'worker processes')} cannot be started on this machine "
            f"({plain(error)}); in a script, start them below if __name__ == '__main__'"
        ) from None
    own.callback(cluster.close, timeout=CLOSE_SECONDS)
    try:
        with _configured(_SETTINGS):
            client = distributed.Client(cluster, set_as_default=False, direct_to_workers=True)
    except BaseException:
        own.close()
        raise
    return Cluster(client, str(cluster.scheduler_address), _link(client), own)


def call(scheduler: str) -> Cluster:
    """The workers of a scheduler that runs already, here or elsewhere."""
    distributed = _distributed()
    try:
        _greet(scheduler)
        with _configured(_SETTINGS):
            client = distributed.Client(scheduler, set_as_default=False, timeout=CONNECT_SECONDS)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"'{plain(scheduler)}' is no address of a Dask scheduler ({plain(error)}); one is tcp://head:8786"
        ) from None
    except (Exception, asyncio.CancelledError):  # whatever it is that answers there
        raise InputError(
            f"no Dask scheduler answers at {plain(scheduler)} within {CONNECT_SECONDS:.0f} s; is it running ('dask "
            "scheduler' starts one), and can this machine reach it?"
        ) from None
    cluster = Cluster(client, str(client.scheduler.address), _link(client), ExitStack())
    try:
        _check_workers(cluster)
    except BaseException:
        cluster.close()
        raise
    return cluster


def _greet(scheduler: str) -> None:
    """Raise unless a scheduler answers there: a client that finds none is long in going."""

    async def ask() -> None:
        with _configured(_SETTINGS):
            async with _distributed().rpc(scheduler, timeout=CONNECT_SECONDS) as line:
                await line.identity()

    async def ask_within() -> None:
        await asyncio.wait_for(ask(), CONNECT_SECONDS)

    with ThreadPoolExecutor(1) as apart:  # whoever calls may have a loop of their own
        apart.submit(asyncio.run, ask_within()).result()


def _check_workers(cluster: Cluster) -> None:
    """Raise unless there are workers, all of them with this version of the package."""
    with cluster.reaching():
        try:
            cluster.client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            where = cluster.scheduler
            words = f"the Dask scheduler at {where} has no workers; start some: dask worker {where}"
            raise InputError(words) from None
        found = cast(dict[str, object], cluster.client.run(eval, _VERSION, on_error="return"))
    for worker, version in found.items():
        if isinstance(version, ModuleNotFoundError):
            raise InputError(
                f"the worker {worker} lacks {plain(version.name)}; pip install 'pacbandits[scale]=={__version__}' there"
            )
        if isinstance(version, BaseException):
            raise InputError(f"the worker {worker} cannot import pacbandits: {plain(version)}")
        if version != __version__:
            raise InputError(
                f"the worker {worker} has pacbandits {plain(version)}, and {__version__} asks it: install the same "
                "everywhere"
            )


def pack(thing: object) -> bytes:
    """As bytes that a worker can unpack, also of a class that a script defines itself."""
    try:
        return bytes(import_module("cloudpickle").dumps(thing))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(f"what workers have to know cannot be sent to them: {plain(error)}") from None


def _link(client: Any) -> str | None:
    """Where the cluster can be watched; a scheduler may have been started without."""
    try:
        return str(client.dashboard_link)
    except (KeyError, AttributeError, *_GONE):
        return None


def _restore(before: dict[str, str | None]) -> None:
    """Variables of this process as they were: what processes that it starts should have is set in it meanwhile."""
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _configured(settings: dict[str, object]) -> Any:
    """Within this, Dask has these settings."""
    return import_module("dask").config.set(settings)


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ModuleNotFoundError as error:
        raise InputError(f"Dask's clusters need {plain(error.name)}; pip install 'pacbandits[scale]'") from None
