"""Where big sums are made: threads, streams of row blocks, Dask, CUDA."""

from pacbandits.engines.base import ROWS_PER_BLOCK, Engine, Question, Source, Sums
from pacbandits.engines.local import Local
from pacbandits.engines.memory import ContextsSource, LogSource

__all__ = ["ROWS_PER_BLOCK", "ContextsSource", "Engine", "Local", "LogSource", "Question", "Source", "Sums"]
