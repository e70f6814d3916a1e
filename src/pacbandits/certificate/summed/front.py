"""Decide whether a log is certified by sums over its rows, and prepare the source of its rows."""

from __future__ import annotations

from pacbandits.certificate.summed.cost import check_rows_fit
from pacbandits.certificate.summed.limits import LIMITS
from pacbandits.certificate.summed.survey import EverySo, can_be_streamed, first_block, gather
from pacbandits.engines import LogSource, Source
from pacbandits.engines.local import Local
from pacbandits.engines.registry import STREAM, THREADS
from pacbandits.records import Log


def in_memory(source: Source) -> Log:
    """Return all rows of a source as a log."""
    if isinstance(source, LogSource):
        return source.log
    everything, head = EverySo(1, source.n_rows), first_block(source)
    return gather(source, (everything,), engine=Local(STREAM), head=head, what="reading")[0]


def as_engine_reads(source: Source, engine: str) -> Source:
    """Return the source, with its rows in memory if the engine is `threads`; raise InputError if they do not fit."""
    if engine == THREADS and not isinstance(source, LogSource):
        check_rows_fit(source)
    return LogSource(in_memory(source)) if engine == THREADS else source


def is_large(log: Log) -> bool:
    """Return whether a log in memory is certified by sums by default: it is large, and sums over rows suffice for it.

    A class that needs all rows at once, or ε = 0, is certified as for small logs.
    """
    return len(log) > LIMITS.early and can_be_streamed(log)
