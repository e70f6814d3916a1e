"""Logs of any kind: files in and out, ours and others'."""

from pacbandits.logs.foreign import from_open_bandit
from pacbandits.logs.readers import read_log

__all__ = ["from_open_bandit", "read_log"]
