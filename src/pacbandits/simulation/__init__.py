"""Simulated runs of any algorithm on any problem with a known truth."""

from pacbandits.simulation.runs import Run, Stage, Stopped, Watch, repeat, run

__all__ = ["Run", "Stage", "Stopped", "Watch", "repeat", "run"]
