"""The registry of engines by name."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from pacbandits.engines.base import Closable, Engine
from pacbandits.engines.local import Local
from pacbandits.errors import InputError, nearest, plain


def _dask() -> Engine:
    from pacbandits.engines.dask import DaskEngine

    return DaskEngine()


def _cuda() -> Engine:
    from pacbandits.engines.cuda import CudaEngine

    return CudaEngine()


THREADS, STREAM = "threads", "stream"
ENGINES: dict[str, Callable[[], Engine]] = {
    THREADS: lambda: Local(THREADS),
    STREAM: lambda: Local(STREAM),
    "dask": _dask,
    "cuda": _cuda,
}


@contextmanager
def using_engine(engine: Engine | str) -> Generator[Engine]:
    """Yield the engine, or make the engine of that name and close it at the end."""
    if not isinstance(engine, str):
        yield engine
        return
    if engine not in ENGINES:
        raise InputError(f"there is no engine '{plain(engine)}'{nearest(engine, ENGINES)}")
    made = ENGINES[engine]()
    try:
        yield made
    finally:
        if isinstance(made, Closable):
            made.close()
