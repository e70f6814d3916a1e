"""Logs of past experiments, by name; the data come with packages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pacbandits.errors import InputError, nearest, plain
from pacbandits.problems.actg175 import ARMS, load_trial
from pacbandits.records import Log

CD4_FALL = 0.2  # the largest fall that counts as a success, as in the problem of the same name
ACTG175_REMARKS = (
    "patients were randomised to the four arms with equal probabilities, within strata of prior therapy, which is "
    "taken for independent draws",
    "the 2,139 patients with a CD4 count at 20 weeks stand for all 2,467 who were randomised",
    "nothing changed while patients were enrolled: the file, which is sorted otherwise, does not tell when each was, "
    "so that no drift can be seen; its rows were put into a random order",
    f"a reward is 1 for a CD4 count at 20 weeks of {1 - CD4_FALL:g} of that before treatment or more, and else 0",
)


def load_actg175() -> Log:
    """Return the patients of ACTG 175 in random order: covariates, the arm that each was randomised to, the outcome."""
    trial = load_trial(fall=CD4_FALL)
    n = len(trial.patients)
    order = np.random.default_rng(175).permutation(n)
    return Log.of(
        trial.patients.take(order),
        actions=trial.arms[order],
        rewards=trial.outcomes[order],
        propensities=np.full((n, len(ARMS)), 1.0 / len(ARMS)),
        remarks=ACTG175_REMARKS,
        action_names=ARMS,
    )


PAST_LOGS: dict[str, Callable[[], Log]] = {"actg175": load_actg175}


def load_log(name: str) -> Log:
    """Return the log of a past experiment by its name.

    Raises:
        InputError: If there is no log of this name, or the package with its data is missing.
    """
    if name not in PAST_LOGS:
        raise InputError(f"there is no log '{plain(name)}'{nearest(name, PAST_LOGS)}")
    return PAST_LOGS[name]()
