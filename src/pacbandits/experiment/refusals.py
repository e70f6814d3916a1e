"""What an experiment refuses, by kinds that a caller may want to tell apart."""

from __future__ import annotations

from pacbandits.errors import InputError


class UnknownExperiment(InputError):
    """There is no experiment of that name."""


class AlreadyThere(InputError):
    """There is one of that name already."""


class UnknownAssignment(InputError):
    """An id that this experiment never gave out."""


class Contradiction(InputError):
    """A second report that differs from the first."""


class NotCollecting(InputError):
    """The experiment is paused or stopped, and takes in nobody new."""
