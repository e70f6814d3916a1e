"""The rule by which `certify` fixes class, model, stakes and leaders, followed again.

A certificate that claims to follow the rule is held to it: a backdated leader, a stake chosen with hindsight or a model
fitted to the rewards it predicts would make a claim look stronger than it is. The rule for leaders: before a round, the
favourite is the policy of largest estimated value less about one standard error, which (v/ε + ε)/2 ≥ √v replaces, as
that is a sum over rows. It leads if it is better than the leader by a relevant amount. Leaders are chosen again once
the data have grown by a quarter; once rows no longer fit in memory, when they have doubled. A leader that settles is
the simplest policy that the rows before cannot distinguish from the favourite. If its size is chosen by
cross-validation, then of nested classes a larger one is searched if its best policies gain more than one standard error
over those of the simpler one, on rows that did not choose them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.certificate import MODEL_GIVEN, RULE, Certificate
from pacbandits.certificate.claim import ToldOfLog
from pacbandits.certificate.conventions import (
    CAP_SHARE,
    DOUBT_STANDARD_ERRORS,
    EXPERT_STAKES,
    FIRST_BLOCK_ROWS,
    FOLDS,
    GROWING_STANDARD_ERRORS,
    LEADING_GROWTH_FACTOR,
    MAX_CHOOSING_EPSILON,
    MIN_ADVANTAGE_EPSILONS,
    MIN_CHOOSING_EPSILON,
    MIN_CLEAR_ADVANTAGE_EPSILONS,
    MIN_CLEAR_ADVANTAGE_STANDARD_ERRORS,
)
from pacbandits.certificate.leaders import MIXTURE_MOVING, NOBODY, SINGLE_MOVING, Leaders
from pacbandits.certificate.learning_record import (
    MAX_SPEC_CHARACTERS,
    MIN_LEARNING_INTERACTIONS,
    MIN_SHARE_LEARNING_INTERACTIONS,
    NO_SAMPLE,
    Learning,
)
from pacbandits.errors import InputError, count_of, plain
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import goes_by_shares, learns, load_policies, same_class
from pacbandits.policies.trees.classes import single_actions
from pacbandits.records import Contexts, Log, Policy
from pacbandits.records.log import digest_contexts, number_units
from pacbandits.records.row_order import COUNTED, says
from pacbandits.rewards import RewardModel, first_model
from pacbandits.verifier.figures import LeaderBook, same_policy, worth_leading
from pacbandits.verifier.gains import GainRows
from pacbandits.verifier.order import weights_of
from pacbandits.verifier.wealth import Wealth

CLASS_GIVEN = "the policy class is the one that was fixed before the log was seen"
LEARNT_ELSEWHERE = "learns from the contexts that it says it was learnt from"
TRIAL_TOLD = "bets, predictions and leaders were fixed before their rounds, as whoever ran the trial says"
TIED = "a tie between policies was broken before it was seen who does better, for the leader of round"
MAX_TIE_ROUNDING = 1e-9  # between the scores of two leaders that another machine's arithmetic may order otherwise
# Own copy, on purpose, as is `fewest_to_teach`: the verifier shares no code with the maker.
LATE_GROWTH_FACTOR = 2.0  # growth of the data after which a leader is chosen by a pass over rows not in memory

Findings = tuple[list[str], list[str], list[str]]  # faults, checked facts, assumptions


class PolicyComparison(NamedTuple):
    """A comparison of every policy of a class with one of them.

    policies, contexts: the class in the form that takes the scores, and their contexts.
    gaps, squares: scores whose sum over a policy's actions is its estimated gap, and the square of its error.
    totals (A,): the sums of the squares of each action.
    """

    policies: PolicyClass
    contexts: Contexts
    gaps: FloatArray
    squares: FloatArray
    totals: FloatArray

    @property
    def epsilon(self) -> float:
        """The scale of the penalty for errors: about the error of the gap of a policy with one action for all."""
        return min(max(float(np.sqrt(self.totals.mean())), MIN_CHOOSING_EPSILON), MAX_CHOOSING_EPSILON)

    @property
    def scores(self) -> FloatArray:
        """Scores that the favourite maximises."""
        return -self.gaps - self.squares / (2.0 * self.epsilon)

    def favourite(self) -> Policy:
        return self.policies.argmax(self.contexts, self.scores)

    def score(self, policy: Policy) -> float:
        return self.policies.attained(self.contexts, self.scores, policy)

    def is_better(self, policy: Policy, *, epsilon: float, single: bool) -> bool:
        """Return whether a policy is enough better than the one compared with to lead.

        single: whether all weight has to end at one policy, so that a change of leaders is expensive.
        """
        advantage = -self.policies.attained(self.contexts, self.gaps, policy)
        if not single:
            return advantage > MIN_ADVANTAGE_EPSILONS * epsilon
        error = float(np.sqrt(max(self.policies.attained(self.contexts, self.squares, policy), 0.0)))
        return advantage > max(MIN_CLEAR_ADVANTAGE_EPSILONS * epsilon, MIN_CLEAR_ADVANTAGE_STANDARD_ERRORS * error)


class VerifiedRows(Protocol):
    """The rows of a certificate, arranged as it states; in memory, or read by an engine.

    late: compares policies by rows that are not in memory; None if all are.
    told: the facts about the log.
    n_rows: the number of rows before they were arranged.
    digest: of the log.
    counts (rounds,): interactions, or people, in each round of the bets.
    labels (rounds,): of the rounds of the early rows.
    has_order: whether some rows are known to have come before others.
    sizes (rounds,): interactions, or people, planned for each round.
    early: the first rows in their order; all if they fit in memory.
    predictions (n, A): for these.
    rounding: how much lower the log-wealth in a certificate may be, by rounding.
    row_rounding: the same of a row's bet on a gain.
    """

    @property
    def late(self) -> LateRows | None: ...
    @property
    def told(self) -> ToldOfLog: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def digest(self) -> str: ...
    @property
    def counts(self) -> FloatArray: ...
    @property
    def labels(self) -> IntArray: ...
    @property
    def has_order(self) -> bool: ...
    @property
    def sizes(self) -> tuple[int, ...]: ...
    @property
    def early(self) -> Log: ...
    @property
    def predictions(self) -> FloatArray: ...
    @property
    def rounding(self) -> float: ...
    @property
    def row_rounding(self) -> float: ...

    def settling_round(self, spared: int) -> int | None:
        """Return the round from which on the leader stays, after so many that only teach; None if it may change."""
        ...

    def with_model(self, model: RewardModel) -> VerifiedRows:
        """Return the rows with the predictions of a reward model, made before the round of each."""
        ...

    def wealth(self, c: Certificate, book: LeaderBook, policies: PolicyClass, *, epsilon: float) -> Wealth:
        """Return the log-wealth of all rows against every policy."""
        ...

    def for_metric(self, name: str, *, ratio: float | None = None) -> VerifiedRows:
        """Return the rows with a metric as their reward, and the predictions of the default model for it."""
        ...

    def gain_scores(self, gains: GainRows) -> tuple[FloatArray, FloatArray]:
        """Return the sums of plain scores (rounds,) against control, and the centre of each round."""
        ...

    def gain_wealth(self, gains: GainRows, centres: FloatArray) -> FloatArray:
        """Return the log-wealth of each expert (K,) from bets on a gain."""
        ...


class LateRows(Protocol):
    """All rows of a large log, in memory or in files, by which its later leaders are chosen."""

    def compare(self, policies: PolicyClass, leader: Policy, *, before: int) -> PolicyComparison:
        """Compare every policy with a leader by all rows of the rounds before one."""
        ...

    def compare_parts(
        self, policies: PolicyClass, leader: Policy, *, before: int, n_parts: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the same gaps and squares (parts, A) by the parts of all contexts on which the leader acts alike."""
        ...


def follow_rule(c: Certificate, rows: VerifiedRows, policies: PolicyClass) -> Findings:
    """Check that stakes, model and leaders follow from the rows by the rule of `certify`."""
    if not c.by_rule:
        return [], [], [TRIAL_TOLD]
    given = MODEL_GIVEN in c.remarks
    faults, ties = list(_wrong_choices(c, rows, policies, given=given)), list[str]()
    if not faults and c.improvement is not None:
        for one in c.improvement.candidates:
            searched = policies if one.name == RULE else single_actions(rows.n_actions)
            if one.leaders.cross_validated != _is_validated(c, one.leaders, searched):
                faults.append(f"the size of the {one.name} is chosen by cross-validation where its leader settles")
            found = _wrong_leaders(one.leaders, c.bets.spared, rows, searched, by_early=one.name != RULE)
            faults, ties = [*faults, *found[0]], [*ties, *found[1]]
    elif not faults and c.leaders is not None:
        if c.leaders.cross_validated != _is_validated(c, c.leaders, policies):
            faults.append("the size of a policy is chosen by cross-validation where its leader settles")
        else:
            faults, ties = _wrong_leaders(c.leaders, c.bets.spared, rows, policies)
    model_too = "" if given else "the reward model, "
    trusted = [*(["the reward model was chosen before the log was seen"] if given else []), *ties]
    return faults, [f"{model_too}stakes and leaders follow from the log by the rule of certify"], trusted


def _is_validated(c: Certificate, told: Leaders, policies: PolicyClass) -> bool:
    """Return whether the size of a settled leader is chosen by cross-validation: wherever classes are nested.

    Certificates that shuffled the numbers of rows are older, and chose it by pruning; the choice would be a second
    attempt.
    """
    newer = c.by_content or says(c.remarks, COUNTED)
    return newer and told.settled is not None and bool(policies.simpler())


def _wrong_choices(c: Certificate, rows: VerifiedRows, policies: PolicyClass, *, given: bool) -> Iterator[str]:
    """Yield faults in all choices of the rule except the leaders; given: whether the model was given."""
    if c.bets.multipliers != EXPERT_STAKES or set(c.bets.scales) != {1.0} or c.bets.share != CAP_SHARE:
        yield "the stakes are not those that certify fixes in advance"
    if not given and c.model != first_model(rows.early).to_json():
        yield "the reward model is not the one that follows from the first round of the log"
    large = worth_leading(policies) or c.improvement is not None
    if (c.leaders is not None) != (c.epsilon > 0 and large and rows.has_order):
        yield "leaders are for large classes on logs with rounds, and for these always"
    listed = () if c.leaders is None else (c.leaders,)
    for told in listed if c.improvement is None else (one.leaders for one in c.improvement.candidates):
        if told.moving not in ((MIXTURE_MOVING,) if c.shuffled else (MIXTURE_MOVING, SINGLE_MOVING)):
            yield "the weight that moves between leaders is not what certify fixes in advance"
        if told.settled != rows.settling_round(c.bets.spared):
            yield "the round from which on the leader stays is not the one that certify fixes in advance"
        if c.improvement is not None and (told.start != 0 or told.moving != MIXTURE_MOVING):
            yield "the proof of a gain starts with the first leader, and is not for a single policy"
        if told.sizes != rows.sizes:
            yield "the sizes of rounds are not those that certify plans with"


def _wrong_leaders(
    told: Leaders, spared: int, rows: VerifiedRows, policies: PolicyClass, *, by_early: bool = False
) -> tuple[list[str], list[str]]:
    """Check that the leader of every round is the policy that the rows before it favour; return faults and ties.

    Policies that act alike on all contexts known before a round are one, and the first of them leads. If the rows
    before cannot distinguish two policies, another machine may break the tie otherwise: then the stated one leads.

    spared: the number of rounds that only teach. by_early: whether leaders are chosen by the early rows alone.
    """
    early, weights = rows.early, weights_of(rows.early)
    ends = np.concatenate([[0.0], np.cumsum(rows.counts)])
    leader, last, led, ties = None, FIRST_BLOCK_ROWS / LEADING_GROWTH_FACTOR, 0, list[str]()
    for number, turn in enumerate(told.turns):
        label = int(rows.labels[number])
        past = early.rounds < label
        known = early.contexts.take(np.flatnonzero(past)) if past.any() else early.contexts
        theirs = None if turn == NOBODY else told.policies[turn]
        seen = float(np.rint(weights[early.known_by(label)].sum()) if rows.late is None else ends[number])
        complete = rows.late is None or bool(weights[past].sum() == ends[number])
        if told.settled is not None and number >= told.settled:
            due = number == told.settled
        else:
            due = number > 0 and (
                seen >= LEADING_GROWTH_FACTOR * last
                if complete
                else told.settled is None and seen >= LATE_GROWTH_FACTOR * last
            )
        if due:
            leader, compared = _choose(rows, policies, leader, number, told, complete=complete or by_early)
            last = seen
            if theirs is not None and theirs.to_json() != leader.to_json():
                alike = _first_alike(told.policies[:led], leader, known)
                if alike != turn and _tied(compared, policies, leader, theirs):
                    ties.append(f"{TIED} {number + 1}")
                    leader = theirs
        expected = NOBODY
        if leader is not None and number >= spared:
            alike = _first_alike(told.policies[:led], leader, known)
            expected = led if alike is None else alike
        new = turn == led
        if turn != expected or (new and (theirs is None or leader is None or not same_policy(theirs, leader))):
            return [f"the leader of round {number + 1} is not the policy that the rows before it favour"], []
        leader = leader if theirs is None else theirs
        led += new
    unused = led < len(told.policies)
    return ["the certificate names leaders of no round"] if unused else [], ties


def _first_alike(leaders: tuple[Policy, ...], policy: Policy, contexts: Contexts) -> int | None:
    """Return the number of the first leader that acts as a policy does on all these contexts; None if there is none."""
    own = policy(contexts)
    return next((j for j, other in enumerate(leaders) if np.array_equal(other(contexts), own)), None)


def _tied(compared: PolicyComparison | None, policies: PolicyClass, chosen: Policy, theirs: Policy) -> bool:
    """Return whether a comparison distinguishes two policies of the class by no more than rounding."""
    if compared is None or (policies.checks_membership and not policies.has(theirs)):
        return False
    best = compared.score(chosen)
    return abs(compared.score(theirs) - best) <= MAX_TIE_ROUNDING * max(1.0, abs(best))


def _choose(
    rows: VerifiedRows,
    policies: PolicyClass,
    leader: Policy | None,
    number: int,
    told: Leaders,
    *,
    complete: bool,
) -> tuple[Policy, PolicyComparison | None]:
    """Return the leader from a round on, and the comparison by which it was chosen, if there was one.

    leader: until then. told: the leaders that the certificate states. complete: whether all rows before the round are
    early ones.
    """
    early, single, simple = rows.early, told.restarts, told.settled is not None
    before = np.flatnonzero(early.known_by(int(rows.labels[number])))
    searched = policies
    if told.cross_validated and before.size:
        searched = _class_by_folds(early.take(before), rows.predictions[before], policies)
    if leader is not None and rows.late is not None and not complete and searched is policies:
        compared = rows.late.compare(policies, leader, before=number)
        favourite = compared.favourite()
        better = compared.is_better(favourite, epsilon=compared.epsilon, single=single)
        if simple and policies.divides_contexts:
            parts, first = np.unique(policies.parts(favourite, early.contexts), return_index=True)
            n_parts = int(parts.max(initial=0)) + 1
            if len(parts) == n_parts > 1:  # every part has an early row that stands for it
                losses = rows.late.compare_parts(policies, favourite, before=number, n_parts=n_parts)
                here = early.contexts.take(first)
                favourite = policies.simplest(favourite, here, *losses, standard_errors=DOUBT_STANDARD_ERRORS)
        return favourite if better else leader, compared
    if not before.size:
        return policies.argmax(early.contexts, np.zeros((len(early), policies.n_actions))), None
    part = GroupedRows(early.take(before), rows.predictions[before])
    compared = part.compare(searched, searched.argmax(part.contexts, part.values()))
    favourite = compared.favourite()
    if simple and searched is policies and policies.simplifies_policies:
        own = part.compare(policies, favourite)
        favourite = policies.simplest(
            favourite, part.contexts, own.gaps, own.squares, standard_errors=DOUBT_STANDARD_ERRORS
        )
    if leader is None or (searched is not policies and not searched.has(leader)):
        return favourite, compared
    better = part.compare(policies, leader).is_better(favourite, epsilon=compared.epsilon, single=single)
    return favourite if better else leader, compared


def _class_by_folds(part: Log, predictions: FloatArray, policies: PolicyClass) -> PolicyClass:
    """Return the class, of the nested ones, that five-fold cross-validation finds on these rows.

    predictions (n, A): of their rewards. A person's rows are in one fold.
    """
    nested = [*policies.simpler(), policies]
    person = np.arange(len(part)) if part.units is None else number_units(part.units)
    if len(nested) == 1 or person.max() + 1 < FOLDS:
        return nested[0] if person.max() + 1 < FOLDS else policies
    played = np.arange(part.n_actions) == part.actions[:, None]
    off = (part.rewards[:, None] - predictions) / part.played_propensities[:, None]
    values = (predictions + np.where(played, off, 0.0)) * weights_of(part)[:, None]
    earned = np.zeros((len(part), len(nested)))
    for fold in range(FOLDS):
        own, others = np.flatnonzero(person % FOLDS == fold), np.flatnonzero(person % FOLDS != fold)
        here, there = part.contexts.take(own), part.contexts.take(others)
        for j, each in enumerate(nested):
            chosen = each.argmax(there, values[others])(here)
            earned[own, j] = np.take_along_axis(values[own], chosen[:, None], axis=1)[:, 0]
    found = 0
    for j in range(1, len(nested)):
        lead = np.bincount(person, weights=earned[:, j] - earned[:, found])
        if lead.mean() > GROWING_STANDARD_ERRORS * lead.std() / np.sqrt(len(lead)):
            found = j
    return nested[found]


class GroupedRows:
    """Rows in memory, added up by context: rows with the same context id are one.

    contexts: the m distinct contexts.
    """

    def __init__(self, log: Log, predictions: FloatArray) -> None:
        self.log, self.predictions, self.weights = log, predictions, weights_of(log)
        self.contexts, self._which = log.contexts, None
        self.played = log.played_propensities
        if log.contexts.ids is None:
            return
        _, first, which = np.unique(log.contexts.ids, return_index=True, return_inverse=True)
        self.contexts, self._which = log.contexts.take(first), which
        # The propensities are as if the round of a row had been drawn at random: the mean propensities of a context, or
        # the harmonic mean over the rows that played the action if the others are unknown.
        shape, here = (len(first), log.n_actions), (which, log.actions)
        if log.least is None:
            sums = self._by_context(self.weights[:, None] * log.propensities)
            self.played = (sums / np.bincount(which, self.weights)[:, None])[here]
            return
        count, inverse = np.zeros(shape), np.zeros(shape)
        np.add.at(count, here, self.weights)
        np.add.at(inverse, here, self.weights / log.played_propensities)
        self.played = (count[here] / inverse[here]).astype(np.float64)

    def values(self) -> FloatArray:
        """Return doubly robust scores (m, A) whose sum over a policy's actions estimates its value, up to a factor."""
        log, numbers = self.log, np.arange(len(self.log))
        out = self.predictions * self.weights[:, None]
        off = (log.rewards - self.predictions[numbers, log.actions]) / log.played_propensities
        out[numbers, log.actions] += self.weights * off
        return self._by_context(out)

    def compare(self, policies: PolicyClass, reference: Policy) -> PolicyComparison:
        """Compare every policy with a reference."""
        actions = np.asarray(reference(self.contexts))
        actions = actions if self._which is None else actions[self._which]
        gaps = gaps_to(self.log, self.predictions, actions, self.played)
        samples, weights = round(float(self.weights.sum())), self.weights[:, None]
        squares = self._by_context(weights * gaps**2) / samples**2
        return PolicyComparison(
            policies, self.contexts, self._by_context(weights * gaps) / samples, squares, squares.sum(axis=0)
        )

    def _by_context(self, values: FloatArray) -> FloatArray:
        """Return sums (m, A) over the rows of each context."""
        if self._which is None:
            return values
        out = np.zeros((len(self.contexts), values.shape[1]))
        np.add.at(out, self._which, values)
        return out


def gaps_to(rows: Log, predictions: FloatArray, reference: IntArray, played: FloatArray) -> FloatArray:
    """Return the estimated gap (n, A) of every action to the reference's (n,), row by row; 0 for the reference's own.

    `f(q) + (r − f(q))/p · 1{q = a} − f(x) − (r − f(x))/p · 1{x = a}`; played (n,): p of the played action.
    """
    numbers, actions = np.arange(len(rows)), rows.actions
    off = (rows.rewards - predictions[numbers, actions]) / played
    gaps = (predictions[numbers, reference] + np.where(actions == reference, off, 0.0))[:, None] - predictions
    gaps[numbers, actions] -= off
    gaps[numbers, reference] = 0.0
    return gaps


def fewest_to_teach(spec: str) -> int:
    """Return the smallest number of interactions, or people, that must teach the class of a name."""
    try:
        many = goes_by_shares(spec)
    except InputError:  # the file was altered
        many = False
    return MIN_SHARE_LEARNING_INTERACTIONS if many else MIN_LEARNING_INTERACTIONS


def learn_policies(
    spec: str, rows: VerifiedRows, contexts: Contexts | None, *, by_content: bool
) -> tuple[PolicyClass, Learning | None]:
    """Learn the class of a name again, from contexts or else from the first rows of the log; return it and the record.

    The record is None for a class that learns nothing from contexts. by_content: whether rows without an order stand in
    that of their contents.
    """
    log = rows.early
    if plain(spec, most=MAX_SPEC_CHARACTERS) != spec:
        raise InputError(f"'{plain(spec)}' is no spec of one line and at most {MAX_SPEC_CHARACTERS:,} characters")
    if contexts is not None:
        made = load_policies(spec, contexts, n_actions=log.n_actions)
        asked = made.feature_names
        lacking = [name for name in asked if name not in log.contexts.names]
        if lacking:
            raise InputError(f"the log lacks the feature '{plain(lacking[0])}' of the contexts")
        return made, Learning(spec, len(contexts), digest_contexts(contexts), 0, in_order=True)
    if not learns(spec):
        return load_policies(spec, log.contexts, n_actions=log.n_actions), None
    fewest = fewest_to_teach(spec)
    if rows.has_order:
        ends = np.cumsum(rows.counts)
        spared = int(np.searchsorted(ends, fewest)) + 1
        enough = spared < len(ends)
        first = np.flatnonzero(log.rounds < rows.labels[spared]) if enough else np.arange(len(log))
    elif log.repeats.max() > 1:
        raise InputError(NO_SAMPLE)
    else:
        spared, person = 1, np.arange(len(log)) if log.units is None else number_units(log.units)
        first = np.flatnonzero(person < fewest)
        enough = len(first) < len(log)
    if not enough:
        raise InputError(f"the policy class would be learnt from all {count_of(len(log), 'row')} of the log")
    counts = weights_of(log)[first]
    known = replace(log.contexts.take(first), weights=counts / counts.sum()).with_labels_seen()
    made = load_policies(spec, known, n_actions=log.n_actions)
    by_content = by_content and not rows.has_order
    return made, Learning(spec, len(known), digest_contexts(known), spared, rows.has_order, by_content)


def learn_again(c: Certificate, rows: VerifiedRows, policies: PolicyClass, contexts: Contexts | None) -> Findings:
    """Check that the class is the one that its name and the rows, or the contexts, that taught it give.

    contexts: from before the experiment, if the class was learnt from such and they are available.
    """
    learning, kind = c.learning, "the policy class"
    if learning is None:
        return [], [], [CLASS_GIVEN]
    if learning.spared == 0 and contexts is None:
        return [], [], [f"{kind} is what {learning.spec} {LEARNT_ELSEWHERE}"]
    try:
        before = None if learning.spared else contexts
        again, record = learn_policies(learning.spec, rows, before, by_content=learning.by_content)
    except InputError as error:
        return [f"{kind} cannot be learnt again: {error}"], [], []
    if record != learning:
        return [f"{kind} was learnt from other contexts than the certificate says"], [], []
    many = f"the first {learning.contexts:,} rows of the log"
    if learning.by_content:
        many += " in the order of their contents, whatever their order in the file"
    if not same_class(again, policies):
        return [f"{kind} is not what {learning.spec} learns from {many if learning.spared else 'the contexts'}"], [], []
    where = many if learning.spared else count_of(learning.contexts, "context")
    return [], [f"{kind} is what {learning.spec} learns from {where}"], []
