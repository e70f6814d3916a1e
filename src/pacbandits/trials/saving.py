"""Save the state of a trial in a folder, as JSON and Parquet, and load it; nothing in it is executed.

    state.json                  what is not a table, and the digests of the tables; replaced last
    contexts-….parquet          what was known of the contexts at the start; … are the first digits of its digest
    log-….parquet               all rounds so far; not there before the first
    predictions-….parquet       only of a reward model that cannot be made again from JSON
    state.lock                  is empty; whoever uses the folder holds it

What follows from the log is computed anew: predictions, and the models by which designs weigh actions. A loaded state
goes on exactly as the saved one would have, given the same random numbers and numerical libraries. The folder holds the
old state or the new one as a whole, whatever happens (`folders`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pacbandits.checks import instance
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.rewards import RewardModel
from pacbandits.trials.folders import StateFolder
from pacbandits.trials.packing import pack_state
from pacbandits.trials.trial import Trial, TrialState
from pacbandits.trials.unpacking import read_state


def save_state(
    folder: str | Path | StateFolder, algorithm: Trial, state: TrialState, *, notes: Mapping[str, Any] | None = None
) -> None:
    """Write the state of a trial to a folder, in place of the one that is there.

    notes: anything that JSON knows, to be kept with it. A reward model, a policy class without JSON or a trial of the
    user's own is named and not stored: pass it again to `load_state`. Whatever interrupts this, the folder holds the
    old state or the new one. While another process or thread uses the folder, a sentence says so.
    """
    folder = StateFolder.at(folder)
    instance(algorithm, Trial, name="algorithm")
    instance(state, TrialState, name="state", remedy="a trial starts with one, and absorb returns the next")
    packed = pack_state(algorithm, state, notes=notes)
    with folder.held():
        folder.replace(packed.state, packed.tables)


def load_state(
    folder: str | Path | StateFolder,
    *,
    model: RewardModel | None = None,
    policies: PolicyClass | None = None,
    algorithm: Trial | None = None,
) -> tuple[Trial, TrialState]:
    """The algorithm and the state that `save_state` wrote.

    model, policies, algorithm: the user's own reward model, policy class or trial, if the state was made with one.
    """
    for own, kind, name in (
        (model, RewardModel, "model"),
        (algorithm, Trial, "algorithm"),
    ):
        if own is not None:
            instance(own, kind, name=name)
    if policies is not None:
        policies = check_class(policies)
    folder = StateFolder.at(folder)
    with folder.looked_at():
        saved = read_state(folder, model=model, policies=policies, algorithm=algorithm)
    return saved.algorithm, saved.state
