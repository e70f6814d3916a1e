"""Planning: the cost of a trial before it starts."""

from pacbandits.planning.assumptions import Assumptions, Traffic
from pacbandits.planning.gain_plan import GainPlan
from pacbandits.planning.plan_files import load_gain_plan, load_plan, save_plan
from pacbandits.planning.sample_sizes import Affordable
from pacbandits.planning.simulated_trials import Limits, PlayedTrial, Quantiles
from pacbandits.planning.study_plan import StudyPlan, plan

__all__ = [
    "Affordable",
    "Assumptions",
    "GainPlan",
    "Limits",
    "PlayedTrial",
    "Quantiles",
    "StudyPlan",
    "Traffic",
    "load_gain_plan",
    "load_plan",
    "plan",
    "save_plan",
]
