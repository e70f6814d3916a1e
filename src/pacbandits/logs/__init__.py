"""Read and write logs, in our format and in others."""

from pacbandits.logs.data_set import open_contexts
from pacbandits.logs.open_bandit import from_open_bandit
from pacbandits.logs.readers import read_log

__all__ = ["from_open_bandit", "open_contexts", "read_log"]
