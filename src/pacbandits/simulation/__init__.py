"""Simulated runs of any algorithm on any problem whose truth is known."""

from pacbandits.simulation.outcome import Run, Stage, Stopped, Watch
from pacbandits.simulation.running import repeat, run

__all__ = ["Run", "Stage", "Stopped", "Watch", "repeat", "run"]
