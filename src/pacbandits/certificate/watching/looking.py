"""Looking at a log: one check of every assumption that can be refuted."""

from __future__ import annotations

from pacbandits.certificate.watching.check import Check
from pacbandits.certificate.watching.drift import look_for_drift
from pacbandits.certificate.watching.ratio import look_at_ratio
from pacbandits.checks import number
from pacbandits.confidence import alarm_threshold
from pacbandits.records import Log

FALSE_ALARM_RATE = 0.01


def look(log: Log, *, false_alarms: float = FALSE_ALARM_RATE) -> tuple[Check, ...]:
    """Signs against what the certificates of a log assume: of drift, and of a mismatch of the sample ratio.

    false_alarms: the probability that either ever raises an alarm, at whatever times one looks while the log grows,
        though contexts and rewards are drawn from one distribution and actions with their propensities; half of it
        each. Adaptive propensities are no cause of alarms.

    >>> import numpy as np
    >>> import pacbandits as pb
    >>> rng = np.random.default_rng(0)
    >>> actions, early = rng.integers(2, size=6000), np.arange(6000) < 3600
    >>> rewards = rng.random(6000) < np.where((actions == 0) == early, 0.8, 0.2)  # what was good becomes bad
    >>> log = pb.Log.of(
    ...     pb.Contexts.of(np.zeros((6000, 0))), actions=actions, rewards=rewards, propensities=np.full((6000, 2), 0.5)
    ... )
    >>> [check.alarm for check in look(log)]
    [True, False]
    """
    rate = number(false_alarms, name="false_alarms", above=0, below=1, wanted="lie strictly between 0 and 1")
    needed = alarm_threshold(rate)
    return look_for_drift(log, needed=needed), look_at_ratio(log, needed=needed)
