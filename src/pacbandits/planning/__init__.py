"""Planning: what a trial will cost, before it starts."""

from pacbandits.planning.affording import Affordable
from pacbandits.planning.assumptions import Assumptions
from pacbandits.planning.files import load_plan, save_plan
from pacbandits.planning.making import plan
from pacbandits.planning.playing import PlayedTrial
from pacbandits.planning.quantiles import Quantiles
from pacbandits.planning.simulating import Limits
from pacbandits.planning.study import StudyPlan
from pacbandits.planning.traffic import Traffic

__all__ = [
    "Affordable",
    "Assumptions",
    "Limits",
    "PlayedTrial",
    "Quantiles",
    "StudyPlan",
    "Traffic",
    "load_plan",
    "plan",
    "save_plan",
]
