"""When a log is certified by sums over its rows, and where these come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeGuard, cast

from pacbandits.certificate.summed.cost import check_rows_fit
from pacbandits.certificate.summed.facts import can_be_streamed
from pacbandits.certificate.summed.gathering import EverySo, first_block, gather
from pacbandits.certificate.summed.limits import LIMITS
from pacbandits.engines import LogSource, Source
from pacbandits.engines.local import Local
from pacbandits.engines.registry import STREAM, THREADS
from pacbandits.logs.finding import expand
from pacbandits.logs.reading import Reading, ReadingOptions
from pacbandits.logs.sets import FileSet, open_set
from pacbandits.records import Log

Files = str | Path | Sequence[str | Path]


def are_files(given: object) -> TypeGuard[Files]:
    """Whether these are names of files, or patterns of such."""
    if isinstance(given, str | Path):
        return True
    listed = cast(Sequence[object], given) if isinstance(given, list | tuple) else ()
    return len(listed) > 0 and all(isinstance(one, str | Path) for one in listed)


def open_files(files: Files, reading: Reading) -> FileSet:
    """The rows of files, read as `read_log` would."""
    names = [files] if isinstance(files, str | Path) else list(files)
    return open_set(expand([str(name) for name in names]), ReadingOptions(**reading))


def in_memory(source: Source) -> Log:
    """All rows of a source as a log."""
    if isinstance(source, LogSource):
        return source.log
    everything, head = EverySo(1, source.n_rows), first_block(source)
    return gather(source, (everything,), engine=Local(STREAM), head=head, what="reading")[0]


def as_engine_reads(source: Source, engine: str) -> Source:
    """The source, with its rows in memory where the engine works on those."""
    if engine == THREADS and not isinstance(source, LogSource):
        check_rows_fit(source)
    return LogSource(in_memory(source)) if engine == THREADS else source


def is_large(log: Log) -> bool:
    """Whether a log in memory is certified by sums without being asked to: it is large, and nothing stands against it.

    A class that needs all rows at once, or the best policy itself, goes on as with small logs.
    """
    return len(log) > LIMITS.early and can_be_streamed(log)
