"""Tests, valid at all times together, that an outcome which must not become too frequent does.

Let X_1, X_2, … in [0, 1] be the guardrail outcomes of rows in the order of assignment, of all or of those with one
action. The null hypothesis is that E[X_i | rows before i] ≤ m for every i, with the `most` m > 0 of the rule; where
propensities depend on contexts it speaks of the people to whom the action was given, whose harm it is. For any p > m,

    W_n(p) = Π_{i ≤ n} (p/m)^{X_i} ((1 − p)/(1 − m))^{1 − X_i} = (p/m)^S ((1 − p)/(1 − m))^{n − S},     S = Σ X_i

is a nonnegative supermartingale then: the logarithm of 1 + λ(X − m) with λ = (p − m)/(m(1 − m)) is concave in X, so not
below its chord between X = 0 and 1, which is the logarithm of the factor above; and E[1 + λ(X − m)] ≤ 1. It needs n and
S alone, and so does a mixture over several p, which starts at 1. By Ville's inequality it ever exceeds 1/α with
probability at most α.

**Values that are not in count as 0.** W_n rises in every X_i, so what is seen of it, at whatever time, is at most what
it would be with all values in; and that is the supermartingale. So late, lost and selectively reported values raise no
false alarm, whatever delays depend on. For the same reason the largest of W_n over the rounds that are over may be
taken: rows at the end, of which nothing is in yet, hide nothing that came before them.

The level is shared evenly over A + 1 tests: of all rows, and of each action.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, floats
from pacbandits.checks import instance
from pacbandits.errors import InputError, plain
from pacbandits.experiment.rules import GuardrailRule
from pacbandits.fields import Json

if TYPE_CHECKING:
    from pacbandits.experiment.history import Snapshot

# How far p lies above m, as shares of 1 − m: a share m' of the best one makes about 2m' − m'² of its growth, so that of
# neighbours a factor of 2 apart one makes 91 % or more.
ALTERNATIVES = 2.0 ** -np.arange(1, 13)
OF_ALL = "all"


@dataclass(frozen=True)
class GuardrailTest:
    """Whether the guardrail outcome exceeds its limit somewhere.

    of: "all", or the name of an action.
    rows: that are counted.
    seen: of which the outcome is in.
    mean: of these; None where there are none.
    evidence: the logarithm of the mixture of W, at the end of the round at which it was largest.
    needed: the evidence from which on there is an alarm.
    """

    of: str
    rows: int
    seen: int
    mean: float | None
    evidence: float
    needed: float

    @property
    def alarm(self) -> bool:
        """Whether the limit is exceeded, but for the probability of a false alarm."""
        return self.evidence >= self.needed

    def to_json(self) -> Json:
        """As what JSON knows."""
        return asdict(self) | {"alarm": self.alarm}


@dataclass(frozen=True)
class GuardrailLook:
    """What was found at one look.

    rule: what was tested.
    tests (A + 1,): of all rows, and of each action.
    """

    rule: GuardrailRule
    tests: tuple[GuardrailTest, ...]

    @property
    def alarms(self) -> tuple[GuardrailTest, ...]:
        """Those that raise an alarm."""
        return tuple(one for one in self.tests if one.alarm)

    def words(self) -> str:
        """Why to pause, in a sentence; nothing where there is no alarm."""
        if not self.alarms:
            return ""
        found = [
            f"{'over all' if one.of == OF_ALL else f'with {plain(one.of)}'} ({show_share(one.mean)} of {one.seen:,})"
            for one in self.alarms
        ]
        return (
            f"{plain(self.rule.name)} exceeds {show_share(self.rule.most)} {', '.join(found)}; chance alone says so in "
            f"at most {show_share(self.rule.false_alarms)} of experiments"
        )

    def to_json(self) -> Json:
        """As what JSON knows."""
        return {
            "name": self.rule.name,
            "most": self.rule.most,
            "false_alarms": self.rule.false_alarms,
            "tests": [one.to_json() for one in self.tests],
        }


def look_at_guardrail(
    rule: GuardrailRule, actions: tuple[str, ...], *, rows: ArrayLike, seen: ArrayLike, totals: ArrayLike
) -> GuardrailLook:
    """The tests of all rows and of each action, from counts by round.

    actions (A,): their names. rows (K, A): how many rows of a round got an action, in the order of rounds; the last may
    go on. seen (K, A): of how many the outcome is in. totals (K, A): the sum of these outcomes.

    >>> rule = GuardrailRule("complaint", most=0.02)
    >>> found = look_at_guardrail(rule, ("a", "b"), rows=[[500, 500]], seen=[[400, 380]], totals=[[6, 45]])
    >>> [(one.of, one.alarm) for one in found.tests]
    [('all', True), ('a', False), ('b', True)]

    Raises:
        InputError: When more outcomes are in than there are rows, or they are not in [0, 1].
    """
    instance(rule, GuardrailRule, name="rule", remedy='say GuardrailRule("complaint", 0.02)')
    counts = floats(rows, name="rows", shape=(None, len(actions)))
    known = floats(seen, name="seen", shape=counts.shape)
    sums = floats(totals, name="totals", shape=counts.shape)
    if (known > counts).any() or (sums > known + 1e-9 * (1.0 + known)).any() or min(sums.min(initial=0), 0) < 0:
        raise InputError("of a guardrail no more can be in than there are rows, and each outcome is from 0 to 1")
    needed = math.log(len(actions) + 1) - math.log(rule.false_alarms)

    def test(of: str, n: FloatArray, inside: FloatArray, total: FloatArray) -> GuardrailTest:
        evidence = float(log_evidence(np.cumsum(n), np.cumsum(total), most=rule.most).max(initial=0.0))
        mean = float(total.sum() / inside.sum()) if inside.sum() else None
        return GuardrailTest(of, int(n.sum()), int(inside.sum()), mean, evidence, needed)

    each = [test(name, counts[:, a], known[:, a], sums[:, a]) for a, name in enumerate(actions)]
    return GuardrailLook(rule, (test(OF_ALL, counts.sum(axis=1), known.sum(axis=1), sums.sum(axis=1)), *each))


def guardrail_of(snapshot: Snapshot) -> GuardrailLook | None:
    """Whether the second outcome is too frequent among those who are drawn for; None where there is none."""
    protocol, rows = snapshot.stored.protocol, snapshot.rows
    if protocol.guardrail is None or not len(rows):
        return None
    shape, drawn = (len(snapshot.rounds), protocol.n_actions), ~rows.holdout
    cells = np.ravel_multi_index((rows.rounds[drawn], rows.actions[drawn]), shape)
    values = np.where(rows.guardrail_sequence < snapshot.sequence, rows.guardrail, np.nan)[drawn]
    came = ~np.isnan(values)
    counts = [
        np.bincount(cells, weights=weights, minlength=shape[0] * shape[1]).reshape(shape)
        for weights in (None, came, np.where(came, values, 0.0))
    ]
    return look_at_guardrail(protocol.guardrail, protocol.actions, rows=counts[0], seen=counts[1], totals=counts[2])


def log_evidence(rows: FloatArray, totals: FloatArray, *, most: float) -> FloatArray:
    """The logarithm of the mixture of W (k,) after so many rows (k,), whose outcomes sum to totals (k,)."""
    p = most + (1.0 - most) * ALTERNATIVES
    gains = totals[:, None] * np.log(p / most) + (rows - totals)[:, None] * np.log((1.0 - p) / (1.0 - most))
    top = gains.max(axis=1, initial=-np.inf)
    return top + np.log(np.exp(gains - top[:, None]).mean(axis=1))


def show_share(share: float | None) -> str:
    """A share in percent."""
    return "none" if share is None else f"{100 * share:.3g} %"
