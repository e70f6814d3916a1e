"""Verify a certificate against its rows.

Every figure is computed again from its definition; class, model, stakes and leaders are derived again as far as they
follow from the rows. No module that makes certificates is imported: shared are only the record of the certificate, the
constants both sides agree on, the oracle of the policy class, the reward models, and the engines that add whole
numbers. The assumptions that a certificate lists cannot be verified from a log.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.certificate import RULE, Certificate
from pacbandits.certificate.leaders import MAX_SLACK
from pacbandits.certificate.summed.limits import RowLimits
from pacbandits.checks import instance
from pacbandits.confidence import UNSEEN_PART
from pacbandits.engines import Engine, Source
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.records import Contexts, Log, check_log, parts_of
from pacbandits.records.log import digest_log
from pacbandits.records.row_order import COUNTED, says
from pacbandits.rewards import RewardModel, check_model, first_model, model_from_json, no_idea
from pacbandits.verifier.figures import (
    WEALTH_ROUNDING,
    LeaderBook,
    belongs,
    delta_share,
    faults_on_sight,
    keep_book,
    near,
    needed_wealth,
    stakes_too_much,
    wrong_mixture,
    wrong_value,
)
from pacbandits.verifier.gains import GainRows, centres_of, wrong_gains
from pacbandits.verifier.order import (
    has_rounds,
    order_log,
    order_to_teach,
    planned_sizes,
    set_teaching_rows_apart,
    settling_round,
    weights_of,
    wrong_pilot,
)
from pacbandits.verifier.rule import Findings, VerifiedRows, fewest_to_teach, follow_rule, learn_again, learn_policies
from pacbandits.verifier.sums import read_rows
from pacbandits.verifier.wealth import Wealth, least_rival_wealth, least_wealth, led_wealth, log_wealth

ORDER_AGAIN = "rows count in the order of their contents, whatever their order in the file"
PILOT_AGAIN = "rows of the pilot count in the order of their contents, whatever their order in its file"
ORDER_TRUSTED = (
    "nobody chose the order of the rows in the file by their rewards: this certificate shuffled the numbers of rows, "
    "as earlier versions did; certify again, and the order of the file no longer matters"
)
TAUGHT_TRUSTED = (
    "nobody chose by what they hold which rows stand first in the file: in this certificate these taught the class and "
    "prove nothing, as in earlier versions; certify again, and the order of the file no longer matters"
)
COUNT_TRUSTED = (
    "order and probabilities are those in which the rows of blocks were counted: that is derived again if the log is "
    "read from the file of the trial (--block COLUMN), and not from a log that was stored after it"
)


@dataclass(frozen=True)
class Verdict:
    """The outcome of a verification.

    faults: the faults found, in words; empty for a good certificate.
    value: the minimum log-wealth, computed again; None if a fault was found before.
    checked: what else was derived again, in words.
    trusted: what could have been derived again with more data at hand, in words.
    alarms: the evidence in the log against an assumption of the claim, in words; the proof itself may still be right.
    """

    faults: tuple[str, ...]
    value: float | None
    checked: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return not self.faults


def verify_log(
    c: Certificate,
    log: Log,
    policies: PolicyClass,
    *,
    contexts: Contexts | None = None,
    model: RewardModel | None = None,
) -> Verdict:
    """Verify a certificate against its log in memory.

    contexts: those from before the log that the class was learnt from, if available. model: the reward model, if its
    description in the certificate does not suffice to make it.
    """
    return _with_rule(c, *_recomputed(c, log, policies, model), policies, contexts)


def recompute(c: Certificate, log: Log, policies: PolicyClass, *, model: RewardModel | None = None) -> Verdict:
    """Verify the figures of a certificate alone, taking its class, stakes and leaders as given."""
    return _recomputed(c, log, policies, model)[0]


def verify_rows(
    c: Certificate,
    source: Source,
    policies: PolicyClass,
    *,
    engine: Engine,
    contexts: Contexts | None = None,
    model: RewardModel | None = None,
    limits: RowLimits | None = None,
) -> tuple[Verdict, RowsToTest]:
    """Verify a certificate by sums over the rows of a source; also return the rows to test the assumptions on."""
    try:
        rows = read_rows(c, source, engine=engine, limits=limits)
    except InputError as error:
        raise InputError(f"the rows cannot be read as the certificate says: {error}") from None
    watched = RowsToTest(rows.watched, rows.early if c.any_file_order else None)
    if c.ordered != rows.ordered or c.shuffled != rows.shuffled:
        return Verdict(("the certificate speaks of another order of rows than this log can have",), None), watched
    if c.epsilon == 0:
        return Verdict(("that a policy is the best itself is not proven by sums over rows",), None), watched
    return _with_rule(c, *_figures(c, rows, policies, model), policies, contexts), watched


class RowsToTest(NamedTuple):
    """The rows on which the assumptions are tested.

    along_file: in the order of the file: all, or every k-th for a certificate by sums.
    by_content: in the order of their contents, the first for a certificate by sums; None if that is not their order.
    """

    along_file: Log
    by_content: Log | None = None


def rows_to_test(c: Certificate, log: Log) -> RowsToTest:
    """Return the rows of a log on which the assumptions are tested."""
    step = -(-len(log) // c.limits.watched) if c.summed else 1
    along = log if step == 1 else log.take(np.arange(0, len(log), step))
    if not c.any_file_order:
        return RowsToTest(along)
    early = order_to_teach(order_log(log, ordered=c.ordered, shuffled=c.shuffled), c.learning)
    return RowsToTest(along, early.take(np.arange(min(len(early), c.limits.early))) if c.summed else early)


def learn_class_again(
    c: Certificate, spec: str, log: Log | Source, contexts: Contexts | None, *, engine: Engine
) -> PolicyClass:
    """Learn the class of a name as a certificate's was: from the contexts, or else from the first rows of its log."""
    rows = arrange_rows(c, log) if isinstance(log, Log) else read_rows(c, log, engine=engine)
    by_content = c.learning is not None and c.learning.by_content
    return learn_policies(spec, rows, contexts, by_content=by_content)[0]


def _recomputed(
    c: Certificate, log: Log, policies: PolicyClass, model: RewardModel | None
) -> tuple[Verdict, VerifiedRows | None]:
    instance(c, Certificate, name="certificate")
    check_log(log)
    policies = check_class(policies)
    if c.ordered and len(np.unique(log.rounds)) > 1:
        return Verdict(("the certificate speaks of rows in their order, but the log has rounds",), None), None
    if c.ordered and log.known is not None:
        return Verdict(("rewards came late, and the log has no rounds that tell which were known when",), None), None
    if c.shuffled and log.repeats.max() > 1:
        return Verdict(("the log counts repeated interactions, which cannot be shuffled",), None), None
    verdict, rows = _figures(c, arrange_rows(c, log), policies, model)
    faults = tuple(wrong_pilot(c.pilot, log)) if verdict.good and c.pilot is not None else ()
    return (Verdict(faults, None), None) if faults else (verdict, rows)


def _with_rule(
    c: Certificate, verdict: Verdict, rows: VerifiedRows | None, policies: PolicyClass, contexts: Contexts | None
) -> Verdict:
    """Return the verdict on the figures together with that on class, model, stakes and leaders."""
    if rows is None or not verdict.good:
        return verdict
    found = (
        learn_again(c, rows, policies, contexts),
        follow_rule(c, rows, policies),
        _prove_gains_again(c, rows, policies),
    )
    faults, checked, trusted = (tuple(chain.from_iterable(part)) for part in zip(*found, strict=True))
    if c.pilot is not None and c.pilot.by_content:
        checked = (*checked, PILOT_AGAIN)
    if c.by_content:
        checked = (*checked, ORDER_AGAIN)
    elif c.shuffled and says(c.remarks, COUNTED):  # their order followed from rows that the log lacks
        trusted = (*trusted, COUNT_TRUSTED)
    elif c.shuffled:
        trusted = (*trusted, ORDER_TRUSTED)
    first = c.learning is not None and c.learning.spared and not (c.learning.in_order or c.learning.by_content)
    if first and not says(c.remarks, COUNTED):
        trusted = (*trusted, TAUGHT_TRUSTED)
    return replace(verdict, faults=faults, checked=checked, trusted=trusted)


def _prove_gains_again(c: Certificate, rows: VerifiedRows, policies: PolicyClass) -> Findings:
    """Check the proven gains over control, if the certificate states any."""
    if c.improvement is None:
        return [], [], []
    return (
        list(wrong_gains(c, rows, policies)),
        ["the gains over control follow from the log, each with its part of δ"],
        [],
    )


def _figures(
    c: Certificate, rows: VerifiedRows, policies: PolicyClass, model: RewardModel | None
) -> tuple[Verdict, VerifiedRows | None]:
    """Check every figure of a certificate against its rows; return the verdict, and the rows with predictions."""
    counts, early = rows.counts, rows.early
    faults = faults_on_sight(
        c, rows.told, policies, digest=rows.digest, rows=rows.n_rows, n_actions=rows.n_actions, counts=counts
    )
    if (early.rewards < 0).any() or (early.rewards > 1).any():
        faults.append("rewards must lie in [0, 1]")
    if faults:
        return Verdict(tuple(faults), None), None
    if not policies.exact and not policies.checks_membership:
        return Verdict(("the class cannot say whether the certified policy is one of its own",), None), None
    own_rule = c.improvement is None or c.improvement.chosen == RULE  # others give everybody one action
    if own_rule and not all(belongs(policy, early.contexts, policies) for policy in parts_of(c.policy)):
        return Verdict(("the certified policy is not one of the class",), None), None
    needed, book = needed_wealth(c, policies, counts), keep_book(c, counts)
    faults = [*stakes_too_much(c, book), *wrong_mixture(c, book)]
    if faults:
        return Verdict(tuple(faults), None), None
    made = model_from_json(c.model) if model is None else check_model(model)
    if made.to_json() != c.model:
        return Verdict(("the reward model given is not the one that the certificate describes",), None), None
    rows = rows.with_model(made)
    if not ((rows.predictions >= 0) & (rows.predictions <= 1)).all():
        return Verdict(("the reward model predicts what is not in [0, 1]",), None), None
    known: dict[float, Wealth] = {}

    def least(epsilon: float) -> float:
        """Return the minimum log-wealth over the class; with leaders, ε is added to the cached wealth of rows."""
        inside = epsilon if c.leaders is None else 0.0
        if inside not in known:
            known.clear()  # memory holds one of a large log
            known[inside] = rows.wealth(c, book, policies, epsilon=inside)
        return least_wealth(c, known[inside], led_wealth(c, book, counts, epsilon=epsilon))

    if c.epsilon > 0:
        value = least(c.unit_epsilon - (c.slack if c.slack <= MAX_SLACK else 0.0))
    else:
        own = np.asarray(parts_of(c.policy)[0](early.contexts))
        value = least_rival_wealth(c, rows.wealth(c, book, policies, epsilon=0.0), own)
        value = value if value < np.inf else needed  # no policy acts otherwise
    faults = wrong_value(c, value, needed=needed, rounding=rows.rounding)
    if c.epsilon == 0 and c.certified:
        unseen = _unseen(c, early.contexts, policies, counted=float(counts[c.bets.spared :].sum()))
        if not near(c.unit_certified_epsilon, unseen):
            faults.append(f"what the log has not seen may cost {unseen:.6g}, not {c.unit_certified_epsilon:.6g}")
    elif c.unit_certified_epsilon != 1.0:
        if c.slack > MAX_SLACK:
            faults.append(f"nothing is claimed with a slack of {c.slack:.6g}")
        elif not least(c.unit_certified_epsilon - c.slack) >= needed - WEALTH_ROUNDING:
            faults.append(f"the data do not certify {c.certified_epsilon:.6g}")
    return Verdict(tuple(faults), value), rows


def _unseen(c: Certificate, contexts: Contexts, policies: PolicyClass, *, counted: float) -> float:
    """Bound the value lost on contexts that the log never contains: 1 − (0.1 δ/|Π|)^(1/n).

    It is 0 if the log has all contexts. counted: n, the number of interactions, or people, that bet.
    """
    ids: set[int] = set() if contexts.ids is None else set(contexts.ids.tolist())
    if policies.n_contexts and set(range(policies.n_contexts)) <= ids:
        return 0.0
    delta = delta_share(c, policies, led=False) * c.delta
    return 1.0 - float(np.exp((np.log(UNSEEN_PART * delta) - policies.log_size) / counted))


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """The rows of a log in memory.

    early: all rows in their order.
    told: the same with the rows that taught the class as a round of their own; bets are by these rounds.
    rounds (n,): of these, from 0.
    counts (rounds,): interactions, or people, in each.
    n_rows: the number of rows before they were arranged.
    digest: of the log.
    ordered, shuffled: whether rows are cut into blocks, and whether they were shuffled before.
    predictions (n, A): once a reward model was given.
    by_metric: the rows with a metric as their reward, by its name and the number that a ratio is tested at.
    """

    early: Log
    told: Log
    rounds: IntArray
    counts: FloatArray
    n_rows: int
    digest: str
    ordered: bool
    shuffled: bool
    predictions: FloatArray
    by_metric: dict[tuple[str, float | None], MemoryRows] = field(
        default_factory=dict[tuple[str, float | None], "MemoryRows"]
    )

    late = None
    rounding = row_rounding = 0.0

    @property
    def n_actions(self) -> int:
        return self.told.n_actions

    @property
    def labels(self) -> IntArray:
        return np.unique(self.early.rounds)

    @property
    def has_order(self) -> bool:
        return has_rounds(self.early)

    @property
    def sizes(self) -> tuple[int, ...]:
        return planned_sizes(self.counts, self.early.n_units, ordered=self.ordered, shuffled=self.shuffled)

    def settling_round(self, spared: int) -> int | None:
        return settling_round(self.early.n_units, spared=spared) if self.shuffled else None

    def with_model(self, model: RewardModel) -> MemoryRows:
        """Return the rows with the predictions of a reward model, fitted on the rows known before each round."""
        log, predictions = self.early, np.empty((len(self.early), self.early.n_actions))
        fitted, fitted_to = no_idea(log.n_actions), np.zeros(len(log), dtype=np.bool_)
        for number in np.unique(log.rounds):
            before, now = log.known_by(int(number)), np.flatnonzero(log.rounds == number)
            if (before != fitted_to).any():
                fitted, fitted_to = model.fit(log.only(before)), before
            first, which = (asked := log.contexts.take(now)).distinct()
            predictions[now] = fitted.predict(asked.take(first))[which]
        return replace(self, predictions=predictions)

    def for_metric(self, name: str, *, ratio: float | None = None) -> MemoryRows:
        """Return the rows with a metric as their reward, and the predictions of the default model for it."""
        if (name, ratio) not in self.by_metric:
            early, told = (rows.for_metric(name, ratio=ratio) for rows in (self.early, self.told))
            own = replace(self, early=early, told=told, by_metric={}).with_model(first_model(early))
            self.by_metric[name, ratio] = own
        return self.by_metric[name, ratio]

    def gain_scores(self, gains: GainRows) -> tuple[FloatArray, FloatArray]:
        """Return the sums of plain scores (rounds,) against control, and the centre of each round."""
        scores, weights = gains.plain_scores(self.told, self.rounds, self.predictions), weights_of(self.told)
        sums = np.zeros(len(self.counts))
        np.add.at(sums, self.rounds, weights * scores)
        if self.told.known is None:
            return sums, centres_of(sums, self.counts * gains.counted)
        counted, centres = weights * gains.counted[self.rounds], np.zeros(len(self.counts))
        for number, label in enumerate(np.unique(self.told.rounds)):
            own = counted * self.told.known_by(int(label))
            centres[number] = own @ scores / own.sum() if own.any() else 0.0
        return sums, np.clip(centres, -1.0, 1.0)

    def gain_wealth(self, gains: GainRows, centres: FloatArray) -> FloatArray:
        """Return the log-wealth of each expert (K,) from bets on a gain."""
        return gains.wealth(self.told, self.rounds, self.predictions, centres)

    def wealth(self, c: Certificate, book: LeaderBook, policies: PolicyClass, *, epsilon: float) -> Wealth:
        """Return the log-wealth of all rows against every policy."""
        found = log_wealth(c, book, self.told, self.rounds, self.predictions, epsilon=epsilon)
        return Wealth(policies, self.told.contexts, [np.ascontiguousarray(one) for one in found.transpose(1, 0, 2)])


def arrange_rows(c: Certificate, log: Log) -> MemoryRows:
    """Return the rows of a log as the certificate arranges them."""
    early = order_log(log, ordered=c.ordered, shuffled=c.shuffled, by_content=c.by_content)
    early = order_to_teach(early, c.learning)
    learning = c.learning if c.learning is not None and c.learning.spared else None
    told = early if learning is None else set_teaching_rows_apart(early, fewest=fewest_to_teach(learning.spec))
    _, rounds = np.unique(told.rounds, return_inverse=True)
    counts = np.rint(np.bincount(rounds, weights=weights_of(told)))
    predictions = np.zeros((0, 0))
    return MemoryRows(early, told, rounds, counts, len(log), digest_log(told), c.ordered, c.shuffled, predictions)
