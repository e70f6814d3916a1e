"""What can be built on any argmax or frontier oracle: counting calls, constraints, excluding a set, CODA's steps."""

from pacbandits.oracles.choice import Choice, total
from pacbandits.oracles.constrained import constrained_argmax, relaxed_argmax
from pacbandits.oracles.counting import Counting, CountingEnumerated, CountingFrontier, counting
from pacbandits.oracles.excluding import PrintedWalk, best_outside, best_outside_as_printed
from pacbandits.oracles.free import frank_wolfe_step_free, frank_wolfe_step_free_by_argmax
from pacbandits.oracles.reductions import choose_policy, frank_wolfe_step

__all__ = [
    "Choice",
    "Counting",
    "CountingEnumerated",
    "CountingFrontier",
    "PrintedWalk",
    "best_outside",
    "best_outside_as_printed",
    "choose_policy",
    "constrained_argmax",
    "counting",
    "frank_wolfe_step",
    "frank_wolfe_step_free",
    "frank_wolfe_step_free_by_argmax",
    "relaxed_argmax",
    "total",
]
