"""Engines that compute sums over rows: threads, streams of row blocks, Dask, CUDA."""

from pacbandits.engines.base import ROWS_PER_BLOCK, Aggregation, ContextsSource, Engine, LogSource, Source, Sums
from pacbandits.engines.local import Local

__all__ = ["ROWS_PER_BLOCK", "Aggregation", "ContextsSource", "Engine", "Local", "LogSource", "Source", "Sums"]
