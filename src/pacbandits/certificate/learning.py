"""Policy classes that are learnt from contexts, so that a certificate may rest on them and anyone can learn them again.

A proof needs a class that is fixed before the rows that bet. A class that is given by its name, `trees:depth=2`, is
learnt from contexts from before the experiment, if there are any; else from the first rounds (or the first block of
rows) of the log, which then do not bet. Classes are learnt from contexts alone, never from rewards.

Why the first rows may teach: given the contexts of some rows, those of the others are still independent draws from the
same distribution, and their actions drawn with the logged propensities. So the wealth of the others is a
supermartingale against any class made from the contexts of the first ones.

**Rows without an order.** If nothing is known of the order of rows, being one of the first of the file may depend on
what a row holds: whoever writes the file could choose the class, and hide rows among those that prove nothing. So the
rows are put in the order of their contents (`content_order`), and the first of these teach. With the digest as a random
oracle they are a uniformly random subset T of all rows (or of all units), independent of what the rows hold. Given T
and the contexts in it, take the other rows in the order in which they occurred, whatever that was:

- The context of a row is independent of all earlier rows and of the contexts in T, and so are the rewards that each
  action would earn in it. The action is drawn with its propensity given the past, which may depend on earlier rows,
  those in T included. All visits of a unit in T are in T, and units are independent of each other.
- All these rows are one round, whose stakes and predictions are fixed in advance. So their wealth is a supermartingale,
  also where only minimum propensities are known; pending rewards count at their worst, so that the wealth with them is
  at most the wealth once they are known.

The number of rows must not depend on rewards: with one more row another subset teaches another class, so that a log
that grows has another proof at each end, each with all of δ. The certificate states that as an assumption, and does not
hold at all analyses together.

In earlier versions the first rows of such a file taught; their certificates assume that the file is not sorted by what
it holds, and are verified so. Rows of counted blocks stand in a random order already, and keep it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.content_order import sorted_by_content
from pacbandits.certificate.conventions import MAX_TEACHING_ROWS, arrange, has_rounds
from pacbandits.certificate.learning_record import (
    MAX_SPEC_CHARACTERS,
    NO_SAMPLE,
    Learning,
    fewest_to_teach,
    set_apart,
)
from pacbandits.checks import flag, settle, text
from pacbandits.errors import InputError, plain
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.registry import learns, load_policies
from pacbandits.policies.summation import can_be_summed
from pacbandits.records import Contexts, Log, check_contexts, check_log
from pacbandits.records.log import digest_contexts
from pacbandits.records.row_order import COUNTED, says


@dataclass(frozen=True, eq=False)
class LearntClass:
    """A policy class that was given by its name.

    policies: the class.
    learning: how it was learnt; None for a class that needs only the set of contexts.
    """

    policies: PolicyClass
    learning: Learning | None

    def __post_init__(self) -> None:
        settle(self, policies=check_class(self.policies))

    @property
    def spared(self) -> int:
        """The number of first rounds of the log that taught the class, and do not bet."""
        return 0 if self.learning is None else self.learning.spared


def learn_class(
    spec: str, log: Log, *, contexts: Contexts | None = None, ordered: bool = False, shuffle: bool = False
) -> LearntClass:
    """Learn the policy class of a name so that a certificate of this log may rest on it; pass it to `certify`.

    spec: the name with its options, as in `trees:depth=2`.
    log: the log to certify.
    contexts: from before the experiment. Without them the class is learnt from the contexts of the log's first rounds,
        or its first 256 rows (987 for classes restricted by a smallest leaf or a budget), which then do not bet. If the
        log has no order, these are the first in the order of their contents, whatever their order in the file.
    ordered, shuffle: as for `certify`.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("trees:contexts=80,features=3,bins=4,actions=3,competitive=2")
    >>> log = pb.run(problem, epsilon=0.2, delta=0.05, rng=1).log
    >>> trees = pb.learn_class("trees:depth=1", log)
    >>> certificate = pb.certify(log, trees, epsilon=0.4, delta=0.05)
    >>> pb.verify(certificate, log, trees.policies).checked[0]
    'the policy class is what trees:depth=1 learns from the first ... rows of the log'

    Raises:
        InputError: If the name is unknown, or no rows of the log would be left to bet.
    """
    check_log(log)
    if contexts is not None:
        check_contexts(contexts)
    blocks, _ = arrange(log, ordered=flag(ordered, name="ordered"), shuffle=flag(shuffle, name="shuffle"))
    return learn_arranged(text(spec, name="spec"), blocks, contexts)


def learn_arranged(spec: str, blocks: Log, contexts: Contexts | None) -> LearntClass:
    """Learn the class of a name from a log in memory, cut into blocks if it has an order.

    If log and class would be certified by sums, learn as there: from the first rows alone.
    """
    if len(blocks) > MAX_TEACHING_ROWS and has_rounds(blocks) and blocks.units is None:
        part = blocks.take(first_rows(blocks, most=MAX_TEACHING_ROWS))
        rounds = np.searchsorted(np.unique(blocks.rounds), part.rounds).astype(np.int64)
        learnt = learn_from_blocks(spec, replace(part, rounds=rounds, known=None), contexts, sizes=blocks.round_sizes)
        if can_be_summed(learnt.policies):
            return learnt
    return learn_from_blocks(spec, blocks, contexts)


def first_rows(log: Log, *, most: int) -> IntArray:
    """Return at most so many rows (k,) of the first rounds of a log: whole rounds, then the first rows of the next."""
    if (np.diff(log.rounds) >= 0).all():
        return np.arange(min(most, len(log)))
    _, which = np.unique(log.rounds, return_inverse=True)
    whole = int(np.searchsorted(np.cumsum(log.round_sizes), most, side="right"))
    return np.concatenate([np.flatnonzero(which < whole), np.flatnonzero(which == whole)])[:most]


def learn_from_blocks(
    spec: str, log: Log, contexts: Contexts | None, *, sizes: FloatArray | None = None, by_content: bool = False
) -> LearntClass:
    """Learn the class of a name from a log that is cut into blocks if it has an order.

    sizes (rounds,): if the log is the beginning of a longer one with an order, the number of interactions of each of
    all rounds, by which the log's are numbered. by_content: whether it is the beginning of one without an order, in the
    order of the contents of all rows.
    """
    if plain(spec, most=MAX_SPEC_CHARACTERS) != spec:
        raise InputError(f"'{plain(spec)}' is no spec of one line and at most {MAX_SPEC_CHARACTERS:,} characters")
    if contexts is not None:
        made = load_policies(spec, contexts, n_actions=log.n_actions)
        _check_features(made, log.contexts)
        return LearntClass(made, Learning(spec, len(contexts), digest_contexts(contexts), 0, in_order=True))
    if not learns(spec):
        return LearntClass(load_policies(spec, log.contexts, n_actions=log.n_actions), None)
    fewest, in_order = fewest_to_teach(spec), sizes is not None or has_rounds(log)
    if in_order:
        ends = np.cumsum(log.round_sizes if sizes is None else sizes)
        spared, whole = int(np.searchsorted(ends, fewest)) + 1, int(ends[-1])
        taken = int(ends[spared - 1]) if spared < len(ends) else whole
    elif log.repeats.max() > 1:
        raise InputError(NO_SAMPLE)
    else:
        spared, whole, taken = 1, log.n_units, fewest
        if not by_content and not says(log.remarks, COUNTED):
            log, by_content = sorted_by_content(log), True
    if whole <= taken:  # no row would be left to bet
        what = "interactions, which" if log.units is None else "people, whose rows"
        raise InputError(
            f"the policy class would be learnt from the first {taken:,} {what} then prove nothing, and "
            f"the log has {whole:,}; give contexts from before the experiment (--contexts …), or a longer log"
        )
    if sizes is None:
        apart = set_apart(log, fewest)
        first = np.flatnonzero(apart.rounds < np.unique(apart.rounds)[spared])
    else:
        first = np.flatnonzero(log.rounds < spared)
    counts = log.weights[first]  # contexts are weighted by their occurrences, and keep the labels that occurred
    known = replace(log.contexts.take(first), weights=counts / counts.sum()).with_labels_seen()
    made = load_policies(spec, known, n_actions=log.n_actions)
    learning = Learning(spec, len(known), digest_contexts(known), spared, in_order=in_order, by_content=by_content)
    return LearntClass(made, learning)


def check_taught(learnt: LearntClass, again: Callable[[str], LearntClass]) -> LearntClass:
    """Return a class that was learnt before; raise InputError if rows of another log, or in another order, taught it.

    again: learns the class of a name from the rows to certify.
    """
    told = learnt.learning
    if told is None or not learnt.spared:
        return learnt
    found = again(told.spec).learning
    if found is None or found == told:
        return learnt
    words = "other rows than the first of this log"
    if found.in_order != told.in_order:
        words = f"rows {_order_words(told)}, and these rows are certified {_order_words(found)}"
    raise InputError(
        f"the policy class was learnt from {words}; learn it from the same log with the same --ordered and --shuffle"
    )


def _order_words(learning: Learning) -> str:
    return "in an order" if learning.in_order else "without an order"


def _check_features(policies: PolicyClass, contexts: Contexts) -> None:
    """Raise InputError unless a log's contexts have all features of a class learnt from other contexts."""
    asked = policies.feature_names
    lacking = [f"'{plain(name)}'" for name in asked if name not in contexts.names]
    if lacking:
        what = f"feature {lacking[0]}" if len(lacking) == 1 else f"features {plain(', '.join(lacking))}"
        raise InputError(
            f"the log lacks the {what} of the contexts; contexts must hold features of the log and nothing else"
        )


def rows_that_bet(log: Log, learning: Learning | None) -> IntArray:
    """Return the rows (k,) of a log, as `Learning.arrange` returns it, that were not spared."""
    if learning is None or learning.spared == 0:
        return np.arange(len(log))
    apart = learning.set_apart(log)
    return np.flatnonzero(apart.rounds >= np.unique(apart.rounds)[learning.spared])
