"""Play one trial of a plan, in this process, another one, or a worker of a cluster."""

from __future__ import annotations

from pacbandits.planning.assumptions import Assumptions
from pacbandits.planning.playing import PlayedTrial, TrialQuestion, play


def play_one(supposed: Assumptions, asked: TrialQuestion, scenario: int, number: int, algorithm: str) -> PlayedTrial:
    """One trial of a plan; the same whoever plays it."""
    problem = supposed.problem(scenario, number)
    return play(problem, algorithm, asked, scenario=scenario, number=number, seed=supposed.seed)


def play_job(told: tuple[Assumptions, TrialQuestion], job: tuple[int, int, str]) -> PlayedTrial:
    """The same, for another process."""
    return play_one(*told, *job)
