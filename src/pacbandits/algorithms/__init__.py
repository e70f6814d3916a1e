"""The algorithms: `start`, `design`, `absorb`, `result` over an immutable state. None of them can see the truth."""

from pacbandits.algorithms.base import Algorithm, Answer, Plan, State
from pacbandits.algorithms.coda import Coda, Uniform
from pacbandits.algorithms.coda_oracle import CodaOracle
from pacbandits.algorithms.coda_paper import CodaPaper
from pacbandits.algorithms.forecast import Outlook, outlook
from pacbandits.algorithms.linear_rage import LinearRage
from pacbandits.algorithms.rage import Rage
from pacbandits.algorithms.rage_free import RageFree
from pacbandits.algorithms.registry import ALGORITHMS, make_algorithm
from pacbandits.algorithms.saving import load_state, save_state

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Answer",
    "Coda",
    "CodaOracle",
    "CodaPaper",
    "LinearRage",
    "Outlook",
    "Plan",
    "Rage",
    "RageFree",
    "State",
    "Uniform",
    "load_state",
    "make_algorithm",
    "outlook",
    "save_state",
]
