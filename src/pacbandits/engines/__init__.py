"""Where big sums are made: threads, streams of row blocks, Dask, CUDA."""

from pacbandits.engines.base import ROWS_PER_BLOCK, Aggregation, Engine, Source, Sums
from pacbandits.engines.local import Local
from pacbandits.engines.memory import ContextsSource, LogSource

__all__ = ["ROWS_PER_BLOCK", "Aggregation", "ContextsSource", "Engine", "Local", "LogSource", "Source", "Sums"]
