"""What a trial makes of all that an experiment has recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pacbandits.experiment.fixed import Fixed
from pacbandits.experiment.history import Snapshot
from pacbandits.policies.base import PolicyClass
from pacbandits.trials.late import PlayedRound, catch_up, leaders_again
from pacbandits.trials.trial import Trial, TrialState


@dataclass(frozen=True, eq=False)
class Found:
    """What the data say at a snapshot.

    snapshot: which one.
    trial: at the part of δ that there is for what was withdrawn.
    policies: the class without those actions.
    state: of the trial; None before the first row.
    withdrawn: names of actions.
    """

    snapshot: Snapshot
    trial: Trial
    policies: PolicyClass
    state: TrialState | None
    withdrawn: tuple[str, ...] = ()


def find_out(fixed: Fixed, snapshot: Snapshot, withdrawn: tuple[str, ...]) -> Found:
    """What the trial makes of a snapshot, without the actions that were withdrawn."""
    trial, policies = fixed.protocol.trial(withdrawn)
    log = snapshot.log()
    if log is None:
        return Found(snapshot, trial, policies, None, withdrawn)
    contexts = fixed.protocol.contexts
    # Those that were deployed as well, of which no row counts: rounds are told apart by their numbers.
    rounds: Sequence[PlayedRound] = [one.played() for one in snapshot.rounds]
    start = trial.start(policies, contexts)
    if withdrawn:
        rounds = leaders_again(trial, policies, contexts, rounds, log)
    return Found(snapshot, trial, policies, catch_up(trial, start, rounds, log), withdrawn)
